/* SPDX-License-Identifier: Apache-2.0 */
/* uplink.c - a job's membership at the parent of its switch.
 *
 * It begins when all members are here, which is when it is known how many workers they
 * stand for, and the job is ready when the parent says so.  Whatever ends the job here
 * ends it there, and the other way round; which ranks are to blame is known only on the
 * level where it happened. */
#include "switch_priv.h"

#define PATIENCE_MS UINT32_MAX /* the workers' timers decide, not the uplink's */
#define RESERVED    2u	       /* items kept for what a step has to tell the members */

/* Some call is due: let tick have a look. */
static void touch(struct fan_switch *sw, uint64_t at_ns)
{
	if (at_ns < sw->deadline_ns)
		sw->deadline_ns = at_ns;
}

static void join_parent(struct fan_switch *sw, struct fan_job *j)
{
	struct fan_worker_config cfg = {
		.rank = sw->cfg.index,
		.ranks = sw->cfg.siblings,
		.payload_bytes = j->payload_bytes,
		.window_max = j->asked,
		.options = j->options & (FAN_JOIN_SUMMED | FAN_JOIN_WIDE),
		.alive_ms = j->alive_ms,
		.join_ms = PATIENCE_MS,
		.stall_ms = PATIENCE_MS,
		.nonce = sw->cfg.nonce + ++sw->lives,
		.workers = fan_job_workers(j),
		.relayed = &j->pool,
	};
	if (cfg.nonce == 0)
		cfg.nonce = sw->cfg.nonce + ++sw->lives;
	memcpy(cfg.name, j->name, sizeof cfg.name);
	uint8_t *mem = sw->uplinks + (size_t)(j - sw->jobs.job) * sw->uplink_bytes;
	j->up = fan_worker_init(mem, &cfg, sw->now_ns);
	touch(sw, sw->now_ns);
}

void fan_uplink_begin(struct fan_switch *sw, struct fan_job *j)
{
	j->below_ready = true;
	j->up_ns = sw->now_ns;
	if (!j->up) /* else when it has left */
		join_parent(sw, j);
}

bool fan_uplink_end(struct fan_switch *sw, struct fan_job *j, int err)
{
	j->below_ready = false;
	if (!j->up)
		return false;
	fan_worker_leave(j->up, sw->now_ns, err, NULL);
	touch(sw, sw->now_ns);
	return true;
}

/* The parent, or the way to it, has failed the job. */
static void fail(struct fan_switch *sw, struct fan_job *j, struct fan_out *out)
{
	const struct fan_job_fault fault = {
		.err = (int8_t)fan_worker_fault(j->up)->err,
		.rank_a = FAN_RANK_NONE, /* ranks there are not ranks here */
		.rank_b = FAN_RANK_NONE,
	};
	if (fault.err == FAN_E_RANK_TAKEN) { /* by an earlier life of this switch, or of the job */
		j->up = NULL;
		j->up_ns = sw->now_ns + FAN_JOIN_RETRY_NS;
		return;
	}
	fan_switch_fail(sw, j, &fault, out);
}

/* What the uplink's phase means for the job.  At most one item. */
static void follow(struct fan_switch *sw, struct fan_job *j, struct fan_out *out)
{
	if (!j->up)
		return;
	enum fan_worker_phase phase = fan_worker_phase(j->up);
	if (phase == FAN_W_READY && j->state == FAN_JOB_FORMING)
		fan_control_become_ready(sw, j, out);
	else if (phase == FAN_W_FAILED)
		fail(sw, j, out);
	if (!j->up || fan_worker_phase(j->up) != FAN_W_LEFT)
		return;
	j->up = NULL;
	if (j->in == 0)
		fan_control_remove(sw, j);
}

/* Let the uplink send, as far as there is room. */
static void flush(struct fan_switch *sw, struct fan_job *j, struct fan_out *out)
{
	unsigned first = out->count;
	if (!j->up || !fan_out_fits(out, RESERVED, 0))
		return;
	out->room -= RESERVED;
	fan_worker_tick(j->up, sw->now_ns, out);
	out->room += RESERVED;
	for (unsigned i = first; i < out->count; i++)
		out->item[i].dest = FAN_TO_PARENT;
}

void fan_uplink_send(struct fan_switch *sw, struct fan_job *j, const struct fan_round *round,
		     struct fan_out *out)
{
	fan_worker_offer(j->up, sw->now_ns, round->frag);
	fan_uplink_step(sw, j, out);
}

void fan_uplink_step(struct fan_switch *sw, struct fan_job *j, struct fan_out *out)
{
	follow(sw, j, out);
	if (!j->up && j->below_ready && j->state == FAN_JOB_FORMING && sw->now_ns >= j->up_ns)
		join_parent(sw, j);
	flush(sw, j, out);
	follow(sw, j, out);
	touch(sw, fan_uplink_deadline(j));
}

uint64_t fan_uplink_deadline(const struct fan_job *j)
{
	if (j->state == FAN_JOB_NONE)
		return UINT64_MAX;
	if (j->up) /* one that has left is to be noticed */
		return fan_worker_phase(j->up) == FAN_W_LEFT ? 0 : fan_worker_deadline(j->up);
	return j->below_ready && j->state == FAN_JOB_FORMING ? j->up_ns : UINT64_MAX;
}

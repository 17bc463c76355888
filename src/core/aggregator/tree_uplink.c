/* SPDX-License-Identifier: Apache-2.0 */
/* tree_uplink.c - a job's membership at the parent of its switch.
 *
 * It begins when all members have joined, because only then the number of workers below is known,
 * and the job is ready when the parent's is.  Whatever ends the job here ends it there, and vice
 * versa; which ranks are to blame is known only on the level where it happened. */
#include <assert.h>

#include "aggregator_priv.h"

#define PATIENCE_MS UINT32_MAX /* the workers' timers decide, not the uplink's */
#define RESERVED    2u	       /* items kept for a step's messages to members */

/* A call is due: run tick. */
static void touch(struct fan_aggregator *ag, uint64_t at_ns)
{
	if (at_ns < ag->deadline_ns)
		ag->deadline_ns = at_ns;
}

static void join_parent(struct fan_aggregator *ag, struct fan_job *j)
{
	struct fan_worker_config cfg = {
		.rank = ag->cfg.index,
		.ranks = ag->cfg.siblings,
		.payload_bytes = j->payload_bytes,
		.window_max = j->asked,
		.options = j->options &
			   (FAN_JOIN_SUMMED | FAN_JOIN_WIDE | FAN_JOIN_AHEAD | FAN_JOIN_QUAD),
		.alive_ms = j->alive_ms,
		.join_ms = PATIENCE_MS,
		.stall_ms = PATIENCE_MS,
		.authentic = ag->cfg.authentic,
		.nonce = ag->cfg.nonce + ++ag->lives,
		.workers = fan_job_workers(j),
		.launch = j->launch,
		.relayed = &j->pool,
	};
	if (cfg.nonce == 0)
		cfg.nonce = ag->cfg.nonce + ++ag->lives;
	memcpy(cfg.name, j->name, sizeof cfg.name);
	uint8_t *mem = ag->uplinks + (size_t)(j - ag->jobs.job) * ag->uplink_bytes;
	j->up = fan_worker_init(mem, &cfg, ag->now_ns);
	touch(ag, ag->now_ns);
}

void fan_tree_uplink_begin(struct fan_aggregator *ag, struct fan_job *j)
{
	assert(j->state == FAN_JOB_FORMING);
	j->below_ready = true;
	j->up_ns = ag->now_ns;
	if (!j->up) /* else when it has left */
		join_parent(ag, j);
}

bool fan_tree_uplink_end(struct fan_aggregator *ag, struct fan_job *j, int err)
{
	j->below_ready = false;
	if (!j->up)
		return false;
	fan_worker_leave(j->up, ag->now_ns, err, NULL);
	touch(ag, ag->now_ns);
	return true;
}

/* The parent, or the path to it, has failed the job. */
static void fail(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out)
{
	const struct fan_job_fault fault = {
		.err = (int8_t)fan_worker_fault(j->up)->err,
		.rank_a = FAN_RANK_NONE, /* ranks there are not ranks here */
		.rank_b = FAN_RANK_NONE,
	};
	if (fault.err == FAN_E_RANK_TAKEN) { /* by an earlier life of this switch, or of the job */
		j->up = NULL;
		j->up_ns = ag->now_ns + FAN_JOIN_RETRY_NS;
		return;
	}
	fan_control_fail(ag, j, &fault, out);
}

/* Apply the uplink's phase to the job.  At most one item. */
static void follow(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out)
{
	if (!j->up)
		return;
	enum fan_worker_phase phase = fan_worker_phase(j->up);
	if (phase == FAN_W_READY && j->state == FAN_JOB_FORMING)
		fan_control_become_ready(ag, j);
	else if (phase == FAN_W_FAILED)
		fail(ag, j, out);
	if (!j->up || fan_worker_phase(j->up) != FAN_W_LEFT)
		return;
	j->up = NULL;
	if (j->in == 0)
		fan_control_remove(ag, j);
}

/* Let the uplink send, as far as there is room. */
static void flush(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out)
{
	unsigned first = out->count;
	if (!j->up || !fan_out_fits(out, RESERVED, 0))
		return;
	out->room -= RESERVED;
	fan_worker_tick(j->up, ag->now_ns, out);
	out->room += RESERVED;
	for (unsigned i = first; i < out->count; i++)
		out->item[i].dest = FAN_TO_PARENT;
}

void fan_tree_uplink_step(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out)
{
	follow(ag, j, out);
	if (!j->up && j->below_ready && j->state == FAN_JOB_FORMING && ag->now_ns >= j->up_ns)
		join_parent(ag, j);
	flush(ag, j, out);
	follow(ag, j, out);
	touch(ag, fan_tree_uplink_deadline(j));
}

uint64_t fan_tree_uplink_deadline(const struct fan_job *j)
{
	if (j->state == FAN_JOB_NONE)
		return UINT64_MAX;
	if (j->up) /* notice an uplink that has left */
		return fan_worker_phase(j->up) == FAN_W_LEFT ? 0 : fan_worker_deadline(j->up);
	return j->below_ready && j->state == FAN_JOB_FORMING ? j->up_ns : UINT64_MAX;
}

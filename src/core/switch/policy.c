/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - the policies by number, and what they have in common: slots by hash, or in a stretch
 * of the job's own; and, of jobs whose ranks go in step, what is unaggregated goes up. */
#include "policy.h"

#include "switch_priv.h"

const struct fan_slot_policy *fan_slot_policy(enum fan_policy number)
{
	static const struct fan_slot_policy *const policy[FAN_POLICY_COUNT] = {
#define FAN_X(NUMBER, name) [FAN_POLICY_##NUMBER] = &fan_policy_##name,
		FAN_SHARED_POLICIES(FAN_X)
#undef FAN_X
	};
	assert(fan_policy_shares((int)number));
	return policy[number];
}

struct fan_sslot *fan_plain_place(const struct fan_switch *sw, const struct fan_switch_job *j,
				  const struct fan_frag *f)
{
	if (j->own.count)
		return fan_sslots_in_line(&sw->slots, f->frag, j->window, j->own);
	return fan_sslots_at(&sw->slots, f, j->window);
}

/* First come, first served. */
enum fan_contest fan_plain_contest(struct fan_switch *sw, const struct fan_switch_job *j,
				   struct fan_sslot *slot, const struct fan_contribution *p)
{
	(void)sw;
	(void)j;
	(void)slot;
	(void)p;
	return FAN_CONTEST_LOST;
}

enum fan_verdict fan_plain_unplaced(struct fan_switch *sw, struct fan_switch_job *j,
				    const struct fan_contribution *p, struct fan_out *out)
{
	return fan_switch_pass_unaggregated(sw, j, p, FAN_F_COLLISION, out);
}

/* ---- in step ---- */

static bool wants(const struct fan_switch_job *j, const struct fan_contribution *p)
{
	(void)j;
	(void)p;
	return true;
}

static bool never(const struct fan_switch_job *j, const struct fan_sslot *slot)
{
	(void)j;
	(void)slot;
	return false;
}

static struct fan_goal goal(const struct fan_switch *sw, const struct fan_switch_job *j,
			    uint64_t frag)
{
	(void)sw;
	(void)frag;
	return fan_goal_up(&j->up);
}

static void lend(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_goal *goal,
		 uint64_t frag, const uint64_t *ranks)
{
	(void)sw;
	(void)j;
	(void)goal;
	(void)frag;
	(void)ranks;
}

static void asked(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_contribution *p,
		  struct fan_out *out)
{
	(void)sw;
	(void)j;
	(void)p;
	(void)out;
}

/* It does not wait for long: contributions and sums are in flight.  Who insists has nothing else to
 * wait for, and slots that fill late because he does must not make him wait longer. */
static bool waits(const struct fan_switch *sw, const struct fan_switch_job *j,
		  const struct fan_sslot *slot, const struct fan_contribution *p)
{
	const uint64_t usual_ns = p->f->flags & FAN_F_INSIST ? 0 : j->fill_ns;
	return fan_switch_is_young(sw->now_ns - slot->since_ns, usual_ns);
}

static struct fan_goal asks(const struct fan_switch *sw, const struct fan_switch_job *j,
			    const struct fan_contribution *p)
{
	(void)sw;
	(void)j;
	return fan_goal_up(p->next);
}

static void reminded(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f,
		     struct fan_out *out)
{
	(void)sw;
	(void)j;
	(void)f;
	(void)out;
}

static enum fan_verdict progress(struct fan_switch *sw, struct fan_switch_job *j,
				 const fan_peer *from, const struct fan_frag *f,
				 struct fan_out *out)
{
	(void)j;
	(void)from;
	(void)f;
	(void)out;
	return fan_switch_drop(sw, FAN_DROP_SENDER);
}

static void heard(struct fan_switch *sw, struct fan_switch_job *j, struct fan_frag *f)
{
	(void)sw;
	(void)j;
	(void)f;
}

const struct fan_run_ahead_ops fan_in_step = {
	.recv = fan_switch_add,
	.wants = wants,
	.yields = never,
	.is_over = never,
	.goal = goal,
	.lend = lend,
	.asked = asked,
	.waits = waits,
	.asks = asks,
	.reminded = reminded,
	.progress = progress,
	.heard = heard,
};

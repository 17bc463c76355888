/* SPDX-License-Identifier: Apache-2.0 */
/* partials.c - the aggregator of ranks behind switches: their partial sums, the envelopes
 * of their control messages, and reminders to the switches. */
#include <assert.h>

#include "aggregator_priv.h"

#define US 1000u

/* Are the ranks members that `from` stands for? */
static bool speaks_for(const struct fan_job *j, const struct fan_contribution *p,
		       const fan_peer *from)
{
	for (unsigned r = p->first; r < j->ranks; r = fan_contribution_next(p, r))
		if (!fan_job_is_member(j, (uint16_t)r, from))
			return false;
	return true;
}

/* Is it the sum of a helper that `from` stands for, of ranks that are members? */
static bool is_of_helper(const struct fan_job *j, const struct fan_contribution *p,
			 const fan_peer *from)
{
	if (!j->burst || !fan_job_is_member(j, fan_tag_rank(p->f->helper), from))
		return false;
	for (unsigned r = p->first; r < j->ranks; r = fan_contribution_next(p, r))
		if (!(j->members[r].flags & FAN_MEMBER_IN))
			return false;
	return true;
}

bool fan_partials_are_from(const struct fan_job *j, const struct fan_contribution *p,
			   const fan_peer *from)
{
	return p->f->helper ? is_of_helper(j, p, from) : speaks_for(j, p, from);
}

/* Ask all ranks of `set` by one message, which others ignore. */
void fan_partials_ask(struct fan_aggregator *ag, const struct fan_job *j, const struct fan_frag *f,
		      const uint64_t *set, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	struct fan_frag h = {
		.frag = f->frag,
		.job = j->id,
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_NEED,
	};
	assert(!fan_ranks_is_empty(set));
	uint8_t *bitmap = fan_out_scratch(out, FAN_BITMAP_MAX);
	fan_partial_put(&h, set, j->ranks, FAN_RANK_NONE, bitmap + FAN_BITMAP_MAX, 0);
	it->payload = h.payload;
	it->payload_bytes = h.payload_bytes;
	fan_wire_put(it->head, &h);
	fan_aggregator_also(j, &h, out);
	ag->stats.needs += fan_ranks_count(set);
}

/* How long the round waits for its next reminder.  The least is half of a worker's least: at
 * the end of an operation, when no later results reveal a late one, it is the first to act. */
static uint64_t patience_us(const struct fan_job *j, const struct fan_round *round)
{
	uint64_t us = (uint64_t)j->age_us * 4;
	us = us < FAN_REMIND_MIN_NS / US ? FAN_REMIND_MIN_NS / US : us;
	us = us > FAN_REMIND_MAX_NS / US ? FAN_REMIND_MAX_NS / US : us;
	return us << round->reminded;
}

static void remind_by(struct fan_aggregator *ag, struct fan_job *j, uint64_t at_ns)
{
	if (at_ns < j->remind_ns)
		j->remind_ns = at_ns;
	if (j->remind_ns < ag->deadline_ns)
		ag->deadline_ns = j->remind_ns;
}

/* The round has its first contribution, or was reminded of: others may overtake it from here on. */
static void put_in_order(struct fan_job *j, struct fan_round *round)
{
	if ((uint16_t)(j->order_next - j->order_first) == FAN_ORDER_MAX)
		j->order_first++; /* it has a timer */
	round->number = j->order_next;
	j->order[j->order_next++ % FAN_ORDER_MAX] = (uint16_t)(round - j->pool.rounds);
}

void fan_partials_opened(struct fan_aggregator *ag, uint64_t now_ns, struct fan_job *j,
			 struct fan_round *round)
{
	round->since_us = (uint32_t)(now_ns / US);
	round->reminded = 0;
	put_in_order(j, round);
	if (!ag->cfg.no_reminders)
		remind_by(ag, j, now_ns + patience_us(j, round) * US);
}

void fan_partials_done(uint64_t now_ns, struct fan_job *j, const struct fan_round *round)
{
	if ((int16_t)(uint16_t)(round->number - j->overtaker) > 0)
		j->overtaker = round->number;
	uint32_t age_us = (uint32_t)(now_ns / US) - round->since_us;
	if (age_us > FAN_REMIND_MAX_NS / US)
		age_us = FAN_REMIND_MAX_NS / US;
	j->age_us = j->age_us ? (j->age_us * 7 + age_us) / 8 : age_us;
}

/* Have the switches evict what they hold of the round's fragment. */
static void flush(struct fan_aggregator *ag, const struct fan_job *j, struct fan_round *round,
		  uint32_t now_us, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	struct fan_frag h = {
		.frag = round->frag,
		.job = j->id,
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.place = round->place,
		.type = FAN_TYPE_FLUSH,
	};
	fan_wire_put(it->head, &h);
	fan_aggregator_also(j, &h, out);
	if (round->reminded < FAN_REMIND_DOUBLINGS)
		round->reminded++;
	round->since_us = now_us;
	ag->stats.flushes++;
}

void fan_partials_overtaken(struct fan_aggregator *ag, struct fan_job *j, uint64_t now_ns,
			    struct fan_out *out)
{
	while (j->order_first != j->order_next) {
		uint16_t at = j->order_first;
		struct fan_round *round = &j->pool.rounds[j->order[at % FAN_ORDER_MAX]];
		bool open = round->state == FAN_ROUND_OPEN && round->number == at;
		int16_t behind = (int16_t)(uint16_t)(j->overtaker - at);
		if (open && behind < FAN_GAP_RESULTS)
			return;
		j->order_first++;
		if (!open)
			continue;
		flush(ag, j, round, (uint32_t)(now_ns / US), out);
		put_in_order(j, round);
		return;
	}
}

void fan_partials_remind(struct fan_aggregator *ag, struct fan_job *j, uint64_t now_ns,
			 struct fan_out *out)
{
	assert(j->state == FAN_JOB_READY);
	uint32_t rounds = 2u * j->pool.window, now_us = (uint32_t)(now_ns / US);
	uint64_t next_us = UINT64_MAX;
	for (uint32_t n = 0; n < rounds; n++) {
		uint32_t at = (j->remind_at + n) % rounds;
		struct fan_round *round = &j->pool.rounds[at];
		if (round->state != FAN_ROUND_OPEN)
			continue;
		uint32_t age_us = now_us - round->since_us;
		uint64_t due_us = patience_us(j, round);
		if (age_us >= due_us && !fan_out_fits(out, 2, 0)) {
			j->remind_at = at; /* enough for one tick: there may be many */
			j->remind_ns = now_ns + FAN_REMIND_STEP_NS;
			return;
		}
		if (age_us >= due_us) {
			flush(ag, j, round, now_us, out);
			due_us = age_us + patience_us(j, round);
		}
		next_us = due_us - age_us < next_us ? due_us - age_us : next_us;
	}
	j->remind_ns = next_us == UINT64_MAX ? UINT64_MAX : now_ns + next_us * US;
}

void fan_partials_wrap(struct fan_aggregator *ag, struct fan_out_item *it, uint16_t rank,
		       struct fan_out *out)
{
	struct fan_frag answer;
	fan_wire_head(&answer, it->head);
	const struct fan_job *j = fan_jobs_get(&ag->jobs, answer.job);
	struct fan_envelope v = {.token = fan_peer_token(&it->peer)};
	bool alive = j && j->epoch == answer.epoch && rank < j->ranks &&
		     j->members[rank].flags & FAN_MEMBER_IN &&
		     (j->state == FAN_JOB_FORMING || j->state == FAN_JOB_READY);
	if (alive) {
		v.rank = rank;
		v.ranks = j->ranks;
		v.window = j->window;
		v.payload_bytes = j->payload_bytes;
	}
	assert(v.token != 0);
	it->peer = fan_peer_hop(&it->peer);
	fan_envelope_put(it, out, &v, answer.job, answer.epoch, it->head, it->payload,
			 it->payload_bytes);
}

enum fan_verdict fan_partials_envelope(struct fan_aggregator *ag, uint64_t now_ns,
				       const fan_peer *from, const struct fan_frag *f,
				       struct fan_out *out)
{
	struct fan_envelope v;
	struct fan_frag inner;
	if (fan_envelope_get(&v, f) != FAN_OK)
		return fan_aggregator_drop(ag, FAN_DROP_FORMAT);
	int why = fan_wire_get(&inner, v.inner, v.inner_bytes);
	if (why >= 0)
		return fan_aggregator_drop(ag, (unsigned)why);
	if (inner.type != FAN_TYPE_JOIN && inner.type != FAN_TYPE_BEAT &&
	    inner.type != FAN_TYPE_LEAVE)
		return fan_aggregator_drop(ag, FAN_DROP_TYPE);
	fan_peer member = fan_peer_behind(from, v.token);
	unsigned before = out->count;
	enum fan_verdict verdict = fan_control_recv(ag, now_ns, &member, &inner, out);
	for (unsigned i = before; i < out->count; i++) /* what has a token has no envelope yet */
		if (out->item[i].dest == FAN_TO_PEER && fan_peer_token(&out->item[i].peer))
			fan_partials_wrap(ag, &out->item[i], inner.sender, out);
	return verdict;
}

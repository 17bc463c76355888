/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the home of ranks behind shared switches: their partial sums, the envelopes
 * of their control messages, and reminders to the switches. */
#include "policy_server.h"
#include "switch_priv.h"

#define US 1000u

/* Are all ranks of the partial members that `from` stands for? */
static bool speaks_for(const struct fan_job *j, const struct fan_partial *p, const fan_peer *from)
{
	for (uint16_t r = p->first; r < j->ranks; r++)
		if (fan_ranks_has(p->ranks, r) && !fan_job_is_member(j, r, from))
			return false;
	return true;
}

/* Is it the sum of a leading worker that `from` stands for, of ranks that are members? */
static bool leads(const struct fan_job *j, const struct fan_frag *f, const struct fan_partial *p,
		  const fan_peer *from)
{
	if (!j->burst || !fan_job_is_member(j, f->priority, from))
		return false;
	for (uint16_t r = p->first; r < j->ranks; r++)
		if (fan_ranks_has(p->ranks, r) && !(j->members[r].flags & FAN_MEMBER_IN))
			return false;
	return true;
}

static void note_pace(struct fan_job *j, const struct fan_frag *f, const struct fan_partial *p)
{
	for (uint16_t r = p->first; r < j->ranks; r++)
		if (fan_ranks_has(p->ranks, r))
			fan_pace_note(&j->pace, r, f->frag);
}

static int unfit(const struct fan_job *j, const struct fan_frag *f, const struct fan_partial *p)
{
	bool empty = f->flags & FAN_F_EMPTY;
	if (p->bytes > j->payload_bytes || fan_partial_acc_bytes(f) > j->pool.stride)
		return FAN_DROP_LONG;
	if (empty != (f->op == FAN_BCAST && p->root == FAN_RANK_NONE))
		return FAN_DROP_FORMAT;
	if (p->root != FAN_RANK_NONE && f->op != FAN_BCAST && !(f->flags & FAN_F_REDUCE))
		return FAN_DROP_FORMAT;
	if (f->flags & FAN_F_REDUCE && f->op >= FAN_BCAST)
		return FAN_DROP_FORMAT;
	if (j->options & FAN_JOIN_SUMMED && !(f->flags & FAN_F_SUMMED))
		return FAN_DROP_CHECK;
	return -1;
}

/* Ask the ranks `set` for their parts, all at once: the others do not heed it. */
static void ask(struct fan_switch *sw, const struct fan_job *j, const struct fan_frag *f,
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
		.op = FAN_BARRIER,
	};
	uint8_t *bitmap = fan_out_scratch(out, FAN_BITMAP_MAX);
	fan_partial_put(&h, set, j->ranks, FAN_RANK_NONE, bitmap + FAN_BITMAP_MAX, 0);
	it->payload = h.payload;
	it->payload_bytes = h.payload_bytes;
	fan_wire_put(it->head, &h);
	fan_switch_also(j, &h, out);
	sw->stats.needs += fan_ranks_count(set);
}

enum fan_verdict fan_server_recv(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
				 const struct fan_frag *f, struct fan_out *out)
{
	struct fan_job *j = fan_jobs_get(&sw->jobs, f->job);
	struct fan_partial p;
	if (!j)
		return fan_switch_drop(sw, FAN_DROP_JOB);
	if (f->epoch != j->epoch)
		return fan_switch_drop(sw, FAN_DROP_EPOCH);
	if (!fan_partial_get(&p, f, j->ranks))
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	if (!(f->flags & FAN_F_LEAD ? leads(j, f, &p, from) : speaks_for(j, &p, from)))
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	if (j->state != FAN_JOB_READY)
		return fan_switch_drop(sw, FAN_DROP_STATE);
	int why = unfit(j, f, &p);
	if (why >= 0)
		return fan_switch_drop(sw, (unsigned)why);
	if (j->burst)
		note_pace(j, f, &p);
	struct fan_frag first = *f; /* what is said of a part is said of its lowest rank */
	first.sender = p.first;
	uint64_t missing[FAN_RANK_WORDS];
	struct fan_switchml r;
	enum fan_verdict v = fan_server_partial(&j->pool, j->ranks, f, &p, &r, missing);
	if (v == FAN_ASK)
		ask(sw, j, f, missing, out);
	if (v == FAN_WAIT || v == FAN_DONE)
		sw->stats.partials++;
	return fan_switch_took(sw, now_ns, j, &first, v, &r, out);
}

/* How long the round waits for its next reminder.  The least is half of a worker's least: at
 * the end of an operation, when no later results tell what is late, it is the first to act. */
static uint64_t patience_us(const struct fan_job *j, const struct fan_round *round)
{
	uint64_t us = (uint64_t)j->age_us * 4;
	us = us < FAN_REMIND_MIN_NS / US ? FAN_REMIND_MIN_NS / US : us;
	us = us > FAN_REMIND_MAX_NS / US ? FAN_REMIND_MAX_NS / US : us;
	return us << round->reminded;
}

static void remind_by(struct fan_switch *sw, struct fan_job *j, uint64_t at_ns)
{
	if (at_ns < j->remind_ns)
		j->remind_ns = at_ns;
	if (j->remind_ns < sw->deadline_ns)
		sw->deadline_ns = j->remind_ns;
}

void fan_server_opened(struct fan_switch *sw, uint64_t now_ns, struct fan_job *j,
		       struct fan_round *round)
{
	round->since_us = (uint32_t)(now_ns / US);
	round->reminded = 0;
	if (!sw->cfg.no_reminders)
		remind_by(sw, j, now_ns + patience_us(j, round) * US);
}

void fan_server_done(uint64_t now_ns, struct fan_job *j, const struct fan_round *round)
{
	uint32_t age_us = (uint32_t)(now_ns / US) - round->since_us;
	if (age_us > FAN_REMIND_MAX_NS / US)
		age_us = FAN_REMIND_MAX_NS / US;
	j->age_us = j->age_us ? (j->age_us * 7 + age_us) / 8 : age_us;
}

/* Have the switches let go what they hold of the round's fragment. */
static void flush(struct fan_switch *sw, const struct fan_job *j, struct fan_round *round,
		  uint32_t now_us, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	struct fan_frag h = {
		.frag = round->frag,
		.job = j->id,
		.epoch = j->epoch,
		.flags = round->way & FAN_F_PROPOSAL,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_FLUSH,
		.op = FAN_BARRIER,
	};
	fan_wire_put(it->head, &h);
	fan_switch_also(j, &h, out);
	if (round->reminded < FAN_REMIND_DOUBLINGS)
		round->reminded++;
	round->since_us = now_us;
	sw->stats.flushes++;
}

void fan_server_remind(struct fan_switch *sw, struct fan_job *j, uint64_t now_ns,
		       struct fan_out *out)
{
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
			j->remind_at = at; /* enough for now: there may be many */
			j->remind_ns = now_ns + FAN_REMIND_STEP_NS;
			return;
		}
		if (age_us >= due_us) {
			flush(sw, j, round, now_us, out);
			due_us = age_us + patience_us(j, round);
		}
		next_us = due_us - age_us < next_us ? due_us - age_us : next_us;
	}
	j->remind_ns = next_us == UINT64_MAX ? UINT64_MAX : now_ns + next_us * US;
}

/* Put the answer `it` to a member behind a switch into an envelope. */
static void wrap(struct fan_switch *sw, struct fan_out_item *it, uint16_t rank, struct fan_out *out)
{
	uint32_t id = fan_get32(it->head + 4), epoch = fan_get32(it->head + 8);
	const struct fan_job *j = fan_jobs_get(&sw->jobs, id);
	struct fan_via v = {.token = fan_peer_token(&it->peer)};
	bool alive = j && j->epoch == epoch && rank < j->ranks && it->head[1] != FAN_TYPE_LEFT &&
		     (j->state == FAN_JOB_FORMING || j->state == FAN_JOB_READY);
	if (alive) {
		v.rank = rank;
		v.ranks = j->ranks;
		v.window = j->window;
		v.payload_bytes = j->payload_bytes;
	}
	it->peer = fan_peer_hop(&it->peer);
	fan_via_put(it, out, &v, id, epoch, it->head, it->payload, it->payload_bytes);
}

enum fan_verdict fan_server_via(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out)
{
	struct fan_via v;
	struct fan_frag inner;
	if (fan_via_get(&v, f) != FAN_OK)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	int why = fan_wire_get(&inner, v.inner, v.inner_bytes);
	if (why >= 0)
		return fan_switch_drop(sw, (unsigned)why);
	if (inner.type != FAN_TYPE_JOIN && inner.type != FAN_TYPE_BEAT &&
	    inner.type != FAN_TYPE_LEAVE)
		return fan_switch_drop(sw, FAN_DROP_TYPE);
	fan_peer member = fan_peer_behind(from, v.token);
	unsigned before = out->count;
	enum fan_verdict verdict = fan_control_recv(sw, now_ns, &member, &inner, out);
	for (unsigned i = before; i < out->count; i++)
		if (out->item[i].dest == FAN_TO_PEER && fan_peer_token(&out->item[i].peer))
			wrap(sw, &out->item[i], inner.sender, out);
	return verdict;
}

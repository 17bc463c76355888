/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator_priv.h"

#include <assert.h>

#include "core/sum/reduce.h"
#include "core/sum/round_add.h"
#include "core/wire/query.h"

#define OF_MEMBERS                                                                                 \
	(1u << FAN_TYPE_DATA | 1u << FAN_TYPE_PARTIAL | 1u << FAN_TYPE_PROBE |                     \
	 1u << FAN_TYPE_PROGRESS | 1u << FAN_TYPE_MISS)
#define CACHE_LINE     64u
#define PREFETCH_BYTES 1536u /* beyond, the processor has seen the pattern */

static bool config_is_sane(const struct fan_aggregator_config *c)
{
	return c->slots >= 2 && c->slots <= FAN_SLOTS_MAX && c->payload_bytes >= FAN_PAYLOAD_MIN &&
	       c->payload_bytes <= FAN_PAYLOAD_MAX && c->jobs_max >= 1 &&
	       c->jobs_max <= FAN_GROUPS_MAX && c->members_max >= 2 &&
	       c->members_max <= FAN_MEMBERS_MAX && c->window_max >= 2 &&
	       (c->ahead_max == 0 || c->ahead_max >= 2) && c->ahead_max <= FAN_AHEAD_MAX &&
	       c->window_max <= FAN_WINDOW_MAX && c->shards >= 1 && c->shards <= FAN_SHARDS_MAX &&
	       (c->group_family == 0 || c->group_family == 4 || c->group_family == 6) &&
	       (c->siblings == 0 ||
		(c->siblings >= 2 && c->siblings <= FAN_RANKS_MAX && c->index < c->siblings));
}

/* Return the bytes for one job, with the largest window that any may get. */
static size_t uplink_bytes(const struct fan_aggregator_config *cfg)
{
	return fan_worker_uplink_bytes(cfg->window_max > cfg->ahead_max ? cfg->window_max
									: cfg->ahead_max);
}

size_t fan_aggregator_bytes(const struct fan_aggregator_config *cfg)
{
	if (!config_is_sane(cfg))
		return 0;
	size_t up = cfg->siblings ? cfg->jobs_max * uplink_bytes(cfg) : 0;
	return fan_align_up(sizeof(struct fan_aggregator)) + fan_jobs_bytes(cfg) + up;
}

struct fan_aggregator *fan_aggregator_init(void *mem, const struct fan_aggregator_config *cfg)
{
	struct fan_aggregator *ag = mem;
	assert(config_is_sane(cfg) && (uintptr_t)mem % FAN_ALIGN == 0);
	memset(ag, 0, sizeof *ag);
	ag->cfg = *cfg;
	ag->deadline_ns = UINT64_MAX;
	fan_jobs_init(&ag->jobs, (uint8_t *)mem + fan_align_up(sizeof(struct fan_aggregator)), cfg);
	ag->uplinks =
		(uint8_t *)mem + fan_align_up(sizeof(struct fan_aggregator)) + fan_jobs_bytes(cfg);
	ag->uplink_bytes = uplink_bytes(cfg);
	fan_aggregator_behind_loses(ag, 0);
	return ag;
}

enum fan_verdict fan_aggregator_drop(struct fan_aggregator *ag, unsigned why)
{
	assert(why < FAN_DROP_COUNT);
	ag->last_drop = (enum fan_drop)why;
	ag->stats.drops[why]++;
	return FAN_DROP;
}

struct fan_event *fan_aggregator_note(struct fan_aggregator *ag, enum fan_event_kind kind,
				      const struct fan_job *j, uint16_t rank)
{
	if (ag->event_count == FAN_EVENTS_MAX) {
		ag->event_first++;
		ag->event_count--;
		ag->stats.events_lost++;
	}
	struct fan_event *ev = &ag->events[(ag->event_first + ag->event_count++) % FAN_EVENTS_MAX];
	memset(ev, 0, sizeof *ev);
	ev->kind = kind;
	ev->rank = rank;
	if (!j)
		return ev;
	ev->job = j->id;
	ev->epoch = j->epoch;
	ev->ranks = j->ranks;
	ev->window = j->window;
	ev->multicast = j->group.multicast;
	ev->err = j->fault.err;
	memcpy(ev->blamed, j->fault.blamed, sizeof ev->blamed);
	ev->results = j->results;
	ev->replays = j->replays;
	memcpy(ev->name, j->name, sizeof ev->name);
	return ev;
}

bool fan_aggregator_event(struct fan_aggregator *ag, struct fan_event *ev)
{
	if (ag->event_count == 0)
		return false;
	*ev = ag->events[ag->event_first++ % FAN_EVENTS_MAX];
	ag->event_count--;
	return true;
}

void fan_aggregator_also(const struct fan_job *j, const struct fan_frag *h, struct fan_out *out)
{
	struct fan_frag g = *h;
	if (!j->older.ranks)
		return;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->older;
	it->payload = h->payload;
	it->payload_bytes = h->payload_bytes;
	g.job = fan_job_id_on(h->job, j->older_route);
	fan_wire_put(it->head, &g);
}

/* Fill `it` with the result in `round`, for `rank` or, FAN_RANK_NONE, for all.  Its header. */
static struct fan_frag put_result(struct fan_out_item *it, const struct fan_job *j,
				  const struct fan_round *round, uint16_t rank, bool replay)
{
	struct fan_frag h = {
		.frag = round->frag,
		.job = rank == FAN_RANK_NONE ? j->id : fan_job_id_for(j, rank),
		.epoch = j->epoch,
		.flags = (uint16_t)(round->met | (replay ? FAN_F_REPLAY : 0)),
		.sender = FAN_RANK_NONE,
		.seq = round->number,
		.exponent = round->exponent,
		.to = FAN_TAG(rank),
		.place = round->place,
		.type = FAN_TYPE_RESULT,
	};
	bool reduce = FAN_DESC_REDUCE(round->desc);
	bool to_root = rank != FAN_RANK_NONE && rank == round->root;
	fan_desc_put(&h, round->desc);
	if (reduce && !to_root)
		h.flags |= FAN_F_EMPTY;
	else
		h.payload_bytes = fan_wire_bytes(h.dtype, h.count);
	if (h.payload_bytes)
		h.payload = fan_pool_acc(&j->pool, round);
	if (j->options & FAN_JOIN_SUMMED)
		h.flags |= FAN_F_SUMMED;
	it->payload = h.payload;
	it->payload_bytes = h.payload_bytes;
	fan_wire_put(it->head, &h);
	return h;
}

/* An item for one rank, at the switch that it is behind or directly. */
static struct fan_out_item *add_for(struct fan_out *out, const struct fan_job *j, uint16_t rank)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = fan_peer_hop(&j->peers[rank]);
	return it;
}

/* The header of a message to one rank. */
static struct fan_frag head_for(const struct fan_job *j, uint16_t rank, enum fan_type type)
{
	return (struct fan_frag){
		.job = fan_job_id_for(j, rank),
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.to = FAN_TAG(rank),
		.type = (uint8_t)type,
	};
}

/* Count an operation that begins or ends: 1 or -1. */
static void note_operation(const struct fan_aggregator *ag, struct fan_job *j, int more)
{
	j->work.busy_ns += (uint64_t)j->operations_open * (ag->now_ns - j->work_ns);
	j->work_ns = ag->now_ns;
	if (more > 0 && j->operations_open <= 0)
		j->still_ns = ag->now_ns;
	j->operations_open += more;
}

static void note_result(const struct fan_aggregator *ag, struct fan_job *j, fan_desc desc)
{
	if (FAN_DESC_DTYPE(desc) != FAN_EXP16)
		j->work.bytes += fan_wire_bytes(FAN_DESC_DTYPE(desc), FAN_DESC_COUNT(desc));
	if (!FAN_DESC_LAST(desc))
		return;
	note_operation(ag, j, -1);
	j->work.operations++;
}

/* The result goes to all; of a reduce, the payload to the root alone. */
static void send_result(struct fan_aggregator *ag, struct fan_job *j, struct fan_round *round,
			struct fan_out *out)
{
	assert(round->state == FAN_ROUND_DONE);
	round->number = (uint16_t)j->results;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	j->group.reads_runs = j->all_read_runs && j->results >= j->runs_again;
	it->first = (uint16_t)(round->root == FAN_RANK_NONE ? 0 : (round->root + 1u) % j->ranks);
	const struct fan_frag h = put_result(it, j, round, FAN_RANK_NONE, false);
	fan_aggregator_also(j, &h, out);
	bool to_root = FAN_DESC_REDUCE(round->desc) && round->root != FAN_RANK_NONE &&
		       j->members[round->root].flags & FAN_MEMBER_IN; /* else it has left */
	if (to_root)
		put_result(add_for(out, j, round->root), j, round, round->root, false);
	uint32_t rounds = 2u * j->pool.window;
	j->pool.rounds[j->results % rounds].numbered = (uint16_t)(round - j->pool.rounds);
	j->results++;
	j->still_ns = ag->now_ns;
	ag->stats.results++;
	note_result(ag, j, round->desc);
	fan_job_group_health(ag, j, FAN_RANK_NONE);
}

static void replay(struct fan_aggregator *ag, struct fan_job *j, const struct fan_round *round,
		   uint16_t rank, struct fan_out *out)
{
	put_result(add_for(out, j, rank), j, round, rank, true);
	j->replays++;
	j->runs_again = j->results + FAN_RUN_CALM;
	ag->stats.replays++;
	fan_job_group_health(ag, j, rank);
}

/* Tell the sender of `f` that its contribution to the fragment is missing. */
static void ask(struct fan_aggregator *ag, const struct fan_job *j, const struct fan_frag *f,
		struct fan_out *out)
{
	struct fan_frag h = head_for(j, f->sender, FAN_TYPE_NEED);
	h.frag = f->frag;
	fan_wire_put(add_for(out, j, f->sender)->head, &h);
	ag->stats.needs++;
}

/* Tell the sender of `f` that its contribution has arrived, and how far the others are. */
static void answer_progress(struct fan_aggregator *ag, const struct fan_job *j,
			    const struct fan_frag *f, struct fan_out *out)
{
	struct fan_frag h = fan_progress_answer(&j->progress, j->ranks, f);
	h.job = fan_job_id_for(j, f->sender);
	h.to = FAN_TAG(f->sender);
	h.flags |= f->type == FAN_TYPE_PROGRESS ? FAN_F_AWAY : 0;
	fan_wire_put(add_for(out, j, f->sender)->head, &h);
	ag->stats.progress_sent++;
}

/* Ranks disagree about a contribution of rank `rank`: note who and what, and end the job. */
static enum fan_verdict mismatch(struct fan_aggregator *ag, struct fan_job *j, uint16_t rank,
				 const struct fan_round_outcome *r, struct fan_out *out)
{
	struct fan_job_fault fault = {
		.err = FAN_E_MISMATCH,
		.rank_a = rank,
		.desc_a = r->desc,
		.rank_b = r->other,
		.desc_b = r->other_desc,
	};
	fan_ranks_set(fault.blamed, rank);
	fan_ranks_set(fault.blamed, r->other);
	fan_control_fail(ag, j, &fault, out);
	return FAN_FAIL;
}

/* The ranks that left can never contribute to the round that has just begun. */
static enum fan_verdict left_behind(struct fan_aggregator *ag, struct fan_job *j,
				    struct fan_out *out)
{
	struct fan_job_fault fault = {.err = FAN_E_RANK_LEFT};
	for (unsigned r = 0; r < j->ranks; r++)
		if (j->members[r].flags & FAN_MEMBER_LEFT)
			fan_ranks_set(fault.blamed, r);
	fan_control_fail(ag, j, &fault, out);
	return FAN_FAIL;
}

enum fan_verdict fan_aggregator_took(struct fan_aggregator *ag, uint64_t now_ns, struct fan_job *j,
				     const struct fan_contribution *p, enum fan_verdict v,
				     const struct fan_round_outcome *r, struct fan_out *out)
{
	if (v == FAN_WAIT && !r->opened && !p->is_sum) { /* most of them */
		ag->stats.contributions++;
		return v;
	}
	switch (v) { /* a contribution's lowest rank stands for all */
	case FAN_FAIL: return mismatch(ag, j, p->first, r, out);
	case FAN_DROP: return fan_aggregator_drop(ag, r->drop);
	case FAN_REPLAY: replay(ag, j, r->round, p->first, out); return v;
	case FAN_ASK: fan_partials_ask(ag, j, p->f, r->missing, out); return v;
	default: break;
	}
	ag->stats.contributions++;
	ag->stats.partials += p->is_sum;
	if (r->opened && FAN_DESC_FIRST(r->round->desc))
		note_operation(ag, j, 1);
	if (r->opened && j->left)
		return left_behind(ag, j, out);
	if (r->opened && j->behind)
		fan_partials_opened(ag, now_ns, j, r->round);
	if (v != FAN_DONE)
		return v;
	if (j->behind)
		fan_partials_done(now_ns, j, r->round);
	if (r->round->state == FAN_ROUND_AWAITING) {
		fan_worker_offer(j->up, now_ns, r->round->frag);
		fan_tree_uplink_step(ag, j, out);
	} else {
		send_result(ag, j, r->round, out);
	}
	if (j->behind && !j->burst && !ag->cfg.no_reminders)
		fan_partials_overtaken(ag, j, now_ns, out);
	return v;
}

/* Note how far the ranks of a contribution are; answer one that asks. */
static void note_progress(struct fan_aggregator *ag, struct fan_job *j,
			  const struct fan_contribution *p, struct fan_out *out)
{
	for (unsigned r = p->first; r < j->ranks; r = fan_contribution_next(p, r))
		fan_progress_note(&j->progress, (uint16_t)r, p->f->frag);
	if (p->f->flags & FAN_F_ASK)
		answer_progress(ag, j, p->f, out);
}

/* A packet with a sequence number has come from the neighbour on the path of member `rank`. */
static void note_number(struct fan_aggregator *ag, const struct fan_job *j, uint16_t rank,
			const struct fan_frag *f, struct fan_out *out)
{
	bool behind = fan_peer_token(&j->peers[rank]) != 0;
	struct fan_seq_gap *gap = &j->members[j->members[rank].gap_of].gap;
	if (!behind && (!j->members[rank].numbers || f->helper || f->type == FAN_TYPE_PARTIAL))
		return;
	uint64_t missing = fan_seq_gap_heard(gap, f->seq);
	if (!missing)
		return;
	struct fan_frag h = head_for(j, rank, FAN_TYPE_MISS); /* later numbers have come: ask */
	h.to = behind ? 0 : h.to;
	h.missing = missing;
	h.last = gap->last;
	fan_wire_put(add_for(out, j, rank)->head, &h);
	ag->stats.needs++;
}

/* Is it, in order, from a member without a switch in front? */
static inline bool is_next(struct fan_member *m, const struct fan_frag *f)
{
	return m->next_to && !f->helper && fan_seq_gap_is_next(&m->gap, f->seq);
}

static enum fan_verdict recv_data(struct fan_aggregator *ag, uint64_t now_ns, struct fan_job *j,
				  const fan_peer *from, const struct fan_frag *f,
				  struct fan_out *out)
{
	struct fan_contribution p;
	int why = fan_contribution_get(&p, f, j->ranks);
	if (why < 0 && p.is_sum && !fan_partials_are_from(j, &p, from))
		why = FAN_DROP_SENDER;
	if (why < 0)
		why = fan_contribution_unfit(&p, j->payload_bytes, j->pool.stride,
					     j->options & FAN_JOIN_SUMMED);
	if (why < 0 && ag->stop_ns && f->frag > j->last_frag) /* of what has not been begun */
		why = FAN_DROP_STATE;
	if (why >= 0)
		return fan_aggregator_drop(ag, (unsigned)why);
	if (p.is_sum)
		note_number(ag, j, f->helper ? fan_tag_rank(f->helper) : p.first, f, out);
	if (j->burst)
		note_progress(ag, j, &p, out);
	struct fan_round_outcome r = {.round = fan_pool_round(&j->pool, f->frag)};
	fan_pool_prefetch(&j->pool, fan_pool_next(&j->pool, r.round), p.elements);
	enum fan_verdict v = fan_round_add(&j->pool, j->ranks, &p, &r);
	return fan_aggregator_took(ag, now_ns, j, &p, v, &r, out);
}

/* The result is younger than the prober's last one: it will come, but
 * for a loss that a later probe will reveal. */
static bool is_in_flight(const struct fan_round *round, const struct fan_frag *probe)
{
	return !(probe->flags & FAN_F_INSIST) &&
	       (int16_t)(uint16_t)(round->number - probe->last) > 0;
}

static enum fan_verdict recv_probe(struct fan_aggregator *ag, struct fan_job *j,
				   const struct fan_frag *f, struct fan_out *out)
{
	struct fan_round_outcome r;
	enum fan_verdict v = fan_round_probe(&j->pool, f, &r);
	if (v == FAN_DROP)
		return fan_aggregator_drop(ag, r.drop);
	if (v == FAN_REPLAY && is_in_flight(r.round, f))
		return FAN_EARLY;
	if (v == FAN_REPLAY)
		replay(ag, j, r.round, f->sender, out);
	else if (v == FAN_ASK)
		ask(ag, j, f, out);
	else if (j->burst)
		answer_progress(ag, j, f, out);
	return v;
}

/* A rank asks how far the others are, behind what went on unsummed. */
static enum fan_verdict recv_question(struct fan_aggregator *ag, const struct fan_job *j,
				      const struct fan_frag *f, struct fan_out *out)
{
	if (!j->burst)
		return fan_aggregator_drop(ag, FAN_DROP_TYPE);
	answer_progress(ag, j, f, out);
	return FAN_CTL;
}

/* A rank misses results with these numbers, but has later ones: replay them. */
static enum fan_verdict recv_miss(struct fan_aggregator *ag, struct fan_job *j,
				  const struct fan_frag *f, struct fan_out *out)
{
	unsigned replays = 0;
	uint32_t rounds = 2u * j->pool.window;
	for (unsigned i = 0; i < FAN_SEQ_GAP_BITS && replays < FAN_MISS_MAX; i++) {
		uint16_t number = (uint16_t)(f->last - i);
		uint64_t ago = (uint16_t)(j->results - number);
		if (!(f->missing >> i & 1) || ago > j->results || ago == 0)
			continue;
		uint64_t at = (j->results - ago) % rounds;
		const struct fan_round *round = &j->pool.rounds[j->pool.rounds[at].numbered];
		if (round->state != FAN_ROUND_DONE || round->number != number)
			continue;
		replay(ag, j, round, f->sender, out);
		replays++;
	}
	return replays ? FAN_REPLAY : fan_aggregator_drop(ag, FAN_DROP_STALE);
}

/* The member that asks: the sender, or the helper that passes its question on; NULL: none. */
static struct fan_member *speaker_of(const struct fan_job *j, const fan_peer *from,
				     const struct fan_frag *f)
{
	uint16_t rank = f->sender;
	if (f->type == FAN_TYPE_PROBE && f->helper) {
		if (rank >= j->ranks || !(j->members[rank].flags & FAN_MEMBER_IN))
			return NULL;
		rank = fan_tag_rank(f->helper);
	}
	return fan_job_is_member(j, rank, from) ? &j->members[rank] : NULL;
}

/* Datagrams come in batches, one behind the other: bring the next one closer. */
static void prefetch_next(const uint8_t *pkt, size_t len)
{
	const uint8_t *p = pkt + len, *end = p + (len < PREFETCH_BYTES ? len : PREFETCH_BYTES);
	for (; p < end; p += (size_t)8 * CACHE_LINE)
		for (size_t line = 0; line < 8; line++) /* unrolled: the outer loop counts, too */
			__builtin_prefetch(p + line * CACHE_LINE);
}

enum fan_verdict fan_aggregator_take(struct fan_aggregator *ag, uint64_t now_ns,
				     const fan_peer *from, struct fan_frag *f, bool marked,
				     struct fan_out *out)
{
	assert(fan_out_has(out, FAN_AGGREGATOR_OUT_MAX));
	ag->predicted.on = false;
	ag->now_ns = now_ns;
	ag->stats.packets++;
	if (!(1u << f->type & OF_MEMBERS))
		return f->type >= FAN_TYPE_CTL ? fan_control_recv(ag, now_ns, from, f, out)
					       : fan_aggregator_drop(ag, FAN_DROP_TYPE);
	if (marked && f->type <= FAN_TYPE_PARTIAL)
		f->flags |= FAN_F_ECN;
	struct fan_job *j = fan_jobs_get(&ag->jobs, f->job);
	if (!j)
		return fan_aggregator_drop(ag, FAN_DROP_JOB);
	if (f->epoch != j->epoch)
		return fan_aggregator_drop(ag, FAN_DROP_EPOCH);
	struct fan_member *m = NULL;
	if (f->type != FAN_TYPE_PARTIAL) { /* the sender of a sum is checked when the sum is read */
		m = speaker_of(j, from, f);
		if (!m)
			return fan_aggregator_drop(ag, FAN_DROP_SENDER);
		m->heard_ns = now_ns;
	}
	if (j->state != FAN_JOB_READY)
		return fan_aggregator_drop(ag, FAN_DROP_STATE);
	if (m && f->type <= FAN_TYPE_PROBE && !is_next(m, f))
		note_number(ag, j, (uint16_t)(m - j->members), f, out);
	if (f->type <= FAN_TYPE_PARTIAL) /* nearly always */
		return recv_data(ag, now_ns, j, from, f, out);
	switch (f->type) {
	case FAN_TYPE_MISS: return recv_miss(ag, j, f, out);
	case FAN_TYPE_PROBE: return recv_probe(ag, j, f, out);
	default: return recv_question(ag, j, f, out);
	}
}

enum fan_verdict fan_aggregator_recv(struct fan_aggregator *ag, uint64_t now_ns, fan_peer from,
				     const uint8_t *pkt, size_t len, bool marked,
				     struct fan_out *out)
{
	struct fan_frag f;
	prefetch_next(pkt, len);
	if (ag->predicted.on && fan_predict_holds(ag, &from, pkt, len, marked))
		return fan_predict_take(ag, now_ns, out);
	int why = fan_wire_get(&f, pkt, len);
	if (why < 0) {
		enum fan_verdict v = fan_aggregator_take(ag, now_ns, &from, &f, marked, out);
		if (!marked && (v == FAN_WAIT || v == FAN_DONE))
			fan_predict_begin(ag, &from, &f, pkt);
		return v;
	}
	ag->now_ns = now_ns;
	ag->stats.packets++;
	if (why == FAN_DROP_VERSION)
		fan_query_foreign(&from, pkt, len, out);
	return fan_aggregator_drop(ag, (unsigned)why);
}

/* The job that a datagram of the parent's is for: by its nonce while that is all it has. */
static struct fan_job *find_below(struct fan_aggregator *ag, const struct fan_frag *f)
{
	for (unsigned i = 0; i < ag->jobs.used; i++) {
		struct fan_job *j = &ag->jobs.job[i];
		if (j->state != FAN_JOB_NONE && j->up && fan_worker_hears(j->up, f))
			return j;
	}
	return NULL;
}

/* The uplink of `j` has returned `v` for fragment `frag`: do what follows. */
static enum fan_verdict took_up(struct fan_aggregator *ag, struct fan_job *j, enum fan_verdict v,
				uint64_t frag, struct fan_out *out)
{
	if (v == FAN_DONE)
		send_result(ag, j, fan_pool_round(&j->pool, frag), out);
	if (v == FAN_DROP)
		fan_aggregator_drop(ag, fan_worker_last_drop(j->up));
	fan_tree_uplink_step(ag, j, out);
	return v;
}

enum fan_verdict fan_aggregator_take_up(struct fan_aggregator *ag, uint64_t now_ns,
					struct fan_frag *f, bool marked, struct fan_out *out)
{
	assert(fan_out_has(out, FAN_AGGREGATOR_OUT_MAX));
	ag->now_ns = now_ns;
	ag->stats.packets++;
	struct fan_job *j = find_below(ag, f);
	if (!j)
		return fan_aggregator_drop(ag, FAN_DROP_JOB);
	return took_up(ag, j, fan_worker_take(j->up, now_ns, f, false, marked), f->frag, out);
}

enum fan_verdict fan_aggregator_recv_up(struct fan_aggregator *ag, uint64_t now_ns,
					const uint8_t *pkt, size_t len, bool marked,
					struct fan_out *out)
{
	struct fan_frag f;
	int why = fan_wire_get(&f, pkt, len);
	if (why < 0)
		return fan_aggregator_take_up(ag, now_ns, &f, marked, out);
	ag->now_ns = now_ns;
	ag->stats.packets++;
	struct fan_job *j = NULL;
	if (why == FAN_DROP_VERSION && len >= FAN_HEAD_BYTES) {
		f = (struct fan_frag){.type = FAN_TYPE_REFUSE, .nonce = fan_wire_nonce(pkt)};
		j = find_below(ag, &f);
	}
	if (!j)
		return fan_aggregator_drop(ag, (unsigned)why);
	enum fan_verdict v = fan_worker_recv(j->up, now_ns, pkt, len, false, marked);
	return took_up(ag, j, v, f.frag, out);
}

uint64_t fan_aggregator_deadline(const struct fan_aggregator *ag)
{
	return ag->deadline_ns;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "asked.h"
#include "policy_switchml.h"
#include "reduce.h"
#include "switch_priv.h"

#define ALIGN 64u
#define OF_MEMBERS                                                                                 \
	(1u << FAN_TYPE_DATA | 1u << FAN_TYPE_PROBE | 1u << FAN_TYPE_PACE | 1u << FAN_TYPE_MISS)
#define CACHE_LINE     64u
#define PREFETCH_BYTES 1536u /* beyond, the processor has seen the pattern */

static bool config_is_sane(const struct fan_switch_config *c)
{
	return c->slots >= 2 && c->slots <= FAN_SLOTS_MAX && c->payload_bytes >= FAN_PAYLOAD_MIN &&
	       c->payload_bytes <= FAN_PAYLOAD_MAX && c->jobs_max >= 1 &&
	       c->jobs_max <= FAN_JOBS_MAX && c->members_max >= 2 &&
	       c->members_max <= FAN_MEMBERS_MAX && c->window_max >= 2 &&
	       (c->ahead_max == 0 || c->ahead_max >= 2) && c->ahead_max <= FAN_AHEAD_MAX &&
	       c->window_max <= FAN_WINDOW_MAX && c->shards >= 1 && c->shards <= FAN_SHARDS_MAX &&
	       (c->group_family == 0 || c->group_family == 4 || c->group_family == 6) &&
	       (c->siblings == 0 ||
		(c->siblings >= 2 && c->siblings <= FAN_RANKS_MAX && c->index < c->siblings));
}

static size_t head_bytes(void)
{
	return (sizeof(struct fan_switch) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Of one job, with the largest window that any may get. */
static size_t uplink_bytes(const struct fan_switch_config *cfg)
{
	uint32_t most = (uint32_t)cfg->window_max * fan_shares_most(&cfg->shares);
	return fan_worker_uplink_bytes((uint16_t)(most < FAN_WINDOW_MAX ? most : FAN_WINDOW_MAX));
}

size_t fan_switch_bytes(const struct fan_switch_config *cfg)
{
	if (!config_is_sane(cfg))
		return 0;
	size_t up = cfg->siblings ? cfg->jobs_max * uplink_bytes(cfg) : 0;
	return head_bytes() + fan_jobs_bytes(cfg) + up;
}

struct fan_switch *fan_switch_init(void *mem, const struct fan_switch_config *cfg)
{
	struct fan_switch *sw = mem;
	memset(sw, 0, sizeof *sw);
	sw->cfg = *cfg;
	sw->deadline_ns = UINT64_MAX;
	fan_jobs_init(&sw->jobs, (uint8_t *)mem + head_bytes(), cfg);
	sw->uplinks = (uint8_t *)mem + head_bytes() + fan_jobs_bytes(cfg);
	sw->uplink_bytes = uplink_bytes(cfg);
	fan_control_prepare_echo(sw);
	return sw;
}

enum fan_verdict fan_switch_drop(struct fan_switch *sw, unsigned why)
{
	sw->last_drop = (enum fan_drop)why;
	sw->stats.drops[why]++;
	return FAN_DROP;
}

struct fan_event *fan_switch_note(struct fan_switch *sw, enum fan_event_kind kind,
				  const struct fan_job *j, uint16_t rank)
{
	if (sw->event_count == FAN_EVENTS_MAX) {
		sw->event_first++;
		sw->event_count--;
		sw->stats.events_lost++;
	}
	struct fan_event *ev = &sw->events[(sw->event_first + sw->event_count++) % FAN_EVENTS_MAX];
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

bool fan_switch_event(struct fan_switch *sw, struct fan_event *ev)
{
	if (sw->event_count == 0)
		return false;
	*ev = sw->events[sw->event_first++ % FAN_EVENTS_MAX];
	sw->event_count--;
	return true;
}

void fan_switch_also(const struct fan_job *j, const struct fan_frag *h, struct fan_out *out)
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

/* Fill `it` with the result in `round`, for the rank asked->sender or for all.  Its header. */
static struct fan_frag put_result(struct fan_out_item *it, const struct fan_job *j,
				  const struct fan_round *round, const struct fan_frag *asked,
				  bool replay)
{
	bool to_all = it->dest == FAN_TO_GROUP;
	struct fan_frag h = {
		.frag = round->frag,
		.job = to_all ? j->id : fan_job_id_for(j, asked->sender),
		.epoch = j->epoch,
		.sender = round->number,
		.count = (uint16_t)FAN_DESC_COUNT(round->desc),
		.exponent = round->exponent,
		.type = FAN_TYPE_RESULT,
		.dtype = (uint8_t)FAN_DESC_DTYPE(round->desc),
		.op = (uint8_t)FAN_DESC_OP(round->desc),
		.priority = asked->priority,
	};
	bool reduce = FAN_DESC_REDUCE(round->desc);
	bool to_root = it->dest == FAN_TO_PEER && asked->sender == round->root;
	h.flags =
		(uint16_t)((FAN_DESC_FIRST(round->desc) ? FAN_F_FIRST : 0) |
			   (FAN_DESC_LAST(round->desc) ? FAN_F_LAST : 0) |
			   (reduce ? FAN_F_REDUCE : 0) | (replay ? FAN_F_RESEND : 0) | round->way);
	if (reduce && !to_root)
		h.flags |= FAN_F_EMPTY;
	else
		h.payload_bytes = (size_t)h.count * fan_dtype_bytes(h.dtype);
	if (h.payload_bytes)
		h.payload = fan_pool_acc(&j->pool, round);
	if (j->options & FAN_JOIN_SUMMED)
		h.flags |= FAN_F_SUMMED;
	it->payload = h.payload;
	it->payload_bytes = h.payload_bytes;
	fan_wire_put(it->head, &h);
	return h;
}

/* Address `it`, about `f`, to the rank that sent it; what `f` is answered with has the
 * rank in place of a priority if a shared switch must find it. */
static struct fan_frag to_sender(struct fan_out_item *it, const struct fan_job *j,
				 const struct fan_frag *f)
{
	struct fan_frag asked = *f;
	it->peer = fan_job_hop(j, f->sender);
	if (fan_peer_token(&j->peers[f->sender]))
		asked.priority = (uint8_t)f->sender;
	return asked;
}

/* The result goes to all; of a reduce, the payload to the root alone. */
void fan_switch_result(struct fan_switch *sw, struct fan_job *j, struct fan_round *round,
		       uint8_t priority, struct fan_out *out)
{
	const struct fan_frag all = {.sender = FAN_RANK_NONE, .priority = priority};
	round->number = (uint16_t)j->results;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	const struct fan_frag h = put_result(it, j, round, &all, false);
	fan_switch_also(j, &h, out);
	bool to_root = FAN_DESC_REDUCE(round->desc) && round->root != FAN_RANK_NONE &&
		       j->members[round->root].flags & FAN_MEMBER_IN; /* else it has left */
	if (to_root) {
		struct fan_frag root = {.sender = round->root, .priority = priority};
		it = fan_out_add(out, FAN_TO_PEER);
		root = to_sender(it, j, &root);
		put_result(it, j, round, &root, false);
	}
	uint32_t rounds = 2u * j->pool.window;
	j->pool.rounds[j->results % rounds].numbered = (uint16_t)(round - j->pool.rounds);
	j->results++;
	sw->stats.results++;
	fan_control_group_health(sw, j, FAN_RANK_NONE);
}

static void replay(struct fan_switch *sw, struct fan_job *j, const struct fan_round *round,
		   const struct fan_frag *f, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag asked = to_sender(it, j, f);
	put_result(it, j, round, &asked, true);
	j->replays++;
	sw->stats.replays++;
	fan_control_group_health(sw, j, f->sender);
}

/* Tell the sender of `f` that its part of the fragment is missing. */
static void ask(struct fan_switch *sw, const struct fan_job *j, const struct fan_frag *f,
		struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag asked = to_sender(it, j, f);
	struct fan_frag h = {
		.frag = f->frag,
		.job = fan_job_id_for(j, f->sender),
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_NEED,
		.op = FAN_BARRIER,
		.priority = asked.priority,
	};
	fan_wire_put(it->head, &h);
	sw->stats.needs++;
}

/* Tell the sender of `f` that its part of the fragment is here, and how far the others are. */
static void answer_pace(struct fan_switch *sw, const struct fan_job *j, const struct fan_frag *f,
			struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag asked = to_sender(it, j, f);
	struct fan_frag h = fan_pace_answer(&j->pace, j->ranks, f);
	h.job = fan_job_id_for(j, f->sender);
	h.priority = asked.priority;
	if (f->type == FAN_TYPE_PACE)
		h.flags |= FAN_F_COLLISION;
	fan_wire_put(it->head, &h);
	sw->stats.paces++;
}

/* Does the contribution fit the job's slots, and carry what it has to? */
static int unfit(const struct fan_job *j, const struct fan_frag *f)
{
	bool empty = f->flags & FAN_F_EMPTY;
	bool root = f->flags & FAN_F_ROOT;
	/* a broadcast is kept as it came, everything else grows as it is summed */
	unsigned width =
		f->op == FAN_BCAST ? fan_dtype_bytes(f->dtype) : fan_dtype_acc_bytes(f->dtype);
	if (f->payload_bytes > j->payload_bytes || (size_t)f->count * width > j->pool.stride)
		return FAN_DROP_LONG;
	if (empty != (f->op == FAN_BCAST && !root))
		return FAN_DROP_FORMAT;
	if (root && f->op != FAN_BCAST && !(f->flags & FAN_F_REDUCE))
		return FAN_DROP_FORMAT;
	if (f->flags & FAN_F_REDUCE && f->op >= FAN_BCAST)
		return FAN_DROP_FORMAT;
	if (j->options & FAN_JOIN_SUMMED && !(f->flags & FAN_F_SUMMED))
		return FAN_DROP_CHECK;
	return -1;
}

/* Ranks disagree about `f`: note who and what, and end the job. */
static enum fan_verdict mismatch(struct fan_switch *sw, struct fan_job *j, const struct fan_frag *f,
				 const struct fan_switchml *r, struct fan_out *out)
{
	struct fan_job_fault fault = {
		.err = FAN_E_MISMATCH,
		.rank_a = f->sender,
		.desc_a = r->desc,
		.rank_b = r->other,
		.desc_b = r->other_desc,
	};
	fan_ranks_set(fault.blamed, f->sender);
	fan_ranks_set(fault.blamed, r->other);
	fan_switch_fail(sw, j, &fault, out);
	return FAN_FAIL;
}

/* The ranks that left can never contribute to the round that has just begun. */
static enum fan_verdict left_behind(struct fan_switch *sw, struct fan_job *j, struct fan_out *out)
{
	struct fan_job_fault fault = {.err = FAN_E_RANK_LEFT};
	for (unsigned r = 0; r < j->ranks; r++)
		if (j->members[r].flags & FAN_MEMBER_LEFT)
			fan_ranks_set(fault.blamed, r);
	fan_switch_fail(sw, j, &fault, out);
	return FAN_FAIL;
}

enum fan_verdict fan_switch_took(struct fan_switch *sw, uint64_t now_ns, struct fan_job *j,
				 const struct fan_frag *f, enum fan_verdict v,
				 const struct fan_switchml *r, struct fan_out *out)
{
	switch (v) {
	case FAN_FAIL: return mismatch(sw, j, f, r, out);
	case FAN_DROP: return fan_switch_drop(sw, r->drop);
	case FAN_REPLAY: replay(sw, j, r->round, f, out); return v;
	case FAN_ASK: return v;
	default: break;
	}
	sw->stats.contributions++;
	if (r->opened && j->left)
		return left_behind(sw, j, out);
	if (r->opened && j->behind)
		fan_server_opened(sw, now_ns, j, r->round);
	if (v != FAN_DONE)
		return v;
	if (j->behind)
		fan_server_done(now_ns, j, r->round);
	if (r->round->state == FAN_ROUND_HELD)
		fan_uplink_send(sw, j, r->round, out);
	else
		fan_switch_result(sw, j, r->round, f->priority, out);
	return v;
}

static enum fan_verdict recv_data(struct fan_switch *sw, uint64_t now_ns, struct fan_job *j,
				  const struct fan_frag *f, struct fan_out *out)
{
	int why = unfit(j, f);
	if (why >= 0)
		return fan_switch_drop(sw, (unsigned)why);
	fan_pool_prefetch(&j->pool, f->frag + 1);
	if (j->burst)
		fan_pace_note(&j->pace, f->sender, f->frag);
	if (j->burst && f->flags & FAN_F_LEAD)
		answer_pace(sw, j, f, out);
	struct fan_switchml r;
	enum fan_verdict v = fan_switchml_data(&j->pool, j->ranks, f, &r);
	if (v == FAN_WAIT && !r.opened) { /* most of them */
		sw->stats.contributions++;
		return v;
	}
	return fan_switch_took(sw, now_ns, j, f, v, &r, out);
}

/* The result is younger than the last one that the prober had heard: it will come, but
 * for a loss that a later probe will tell of. */
static bool is_under_way(const struct fan_round *round, const struct fan_frag *probe)
{
	return !(probe->flags & FAN_F_RESEND) &&
	       (int16_t)(uint16_t)(round->number - probe->count) > 0;
}

static enum fan_verdict recv_probe(struct fan_switch *sw, struct fan_job *j,
				   const struct fan_frag *f, struct fan_out *out)
{
	struct fan_switchml r;
	enum fan_verdict v = fan_switchml_probe(&j->pool, f, &r);
	if (v == FAN_DROP)
		return fan_switch_drop(sw, r.drop);
	if (v == FAN_REPLAY && is_under_way(r.round, f))
		return FAN_HELD;
	if (v == FAN_REPLAY)
		replay(sw, j, r.round, f, out);
	else if (v == FAN_ASK)
		ask(sw, j, f, out);
	else if (j->burst)
		answer_pace(sw, j, f, out);
	return v;
}

/* A rank asks how far the others are, behind what went on unsummed. */
static enum fan_verdict recv_question(struct fan_switch *sw, const struct fan_job *j,
				      const struct fan_frag *f, struct fan_out *out)
{
	if (!j->burst)
		return fan_switch_drop(sw, FAN_DROP_TYPE);
	answer_pace(sw, j, f, out);
	return FAN_CTL;
}

/* A rank has not heard results with these numbers, though later ones: replay them. */
static enum fan_verdict recv_miss(struct fan_switch *sw, struct fan_job *j,
				  const struct fan_frag *f, struct fan_out *out)
{
	unsigned replays = 0;
	uint32_t rounds = 2u * j->pool.window;
	for (unsigned i = 0; i < FAN_GAP_BITS && replays < FAN_MISS_MAX; i++) {
		uint16_t number = (uint16_t)(f->count - i);
		uint64_t ago = (uint16_t)(j->results - number);
		if (!(f->frag >> i & 1) || ago > j->results || ago == 0)
			continue;
		uint64_t at = (j->results - ago) % rounds;
		const struct fan_round *round = &j->pool.rounds[j->pool.rounds[at].numbered];
		if (round->state != FAN_ROUND_DONE || round->number != number)
			continue;
		replay(sw, j, round, f, out);
		replays++;
	}
	return replays ? FAN_REPLAY : fan_switch_drop(sw, FAN_DROP_STALE);
}

/* Some of what a rank has sent has not come, though later ones: ask for it. */
static void ask_numbers(struct fan_switch *sw, const struct fan_job *j, uint16_t rank,
			uint64_t missing, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = j->peers[rank];
	struct fan_frag h = {
		.frag = missing,
		.count = j->members[rank].gap.last,
		.job = fan_job_id_for(j, rank),
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_MISS,
		.op = FAN_BARRIER,
	};
	fan_wire_put(it->head, &h);
	sw->stats.needs++;
}

/* A DATA or PROBE of `m` has come, which numbers them. */
static void note_number(struct fan_switch *sw, const struct fan_job *j, struct fan_member *m,
			const struct fan_frag *f, struct fan_out *out)
{
	uint64_t missing = 0;
	int more = (int16_t)(uint16_t)(f->exponent - m->gap.last);
	if (f->type == FAN_TYPE_PROBE && (more < INT8_MIN || more > INT8_MAX))
		fan_gap_init(&m->gap, (uint16_t)f->exponent,
			     true); /* too many were lost to know which */
	else
		missing = fan_gap_note(&m->gap, (int8_t)(f->priority - m->gap.last), false);
	if (missing)
		ask_numbers(sw, j, f->sender, missing, out);
}

/* The rank that speaks: the sender, or the leading worker that passes its question on. */
static int speaker_of(const struct fan_job *j, const fan_peer *from, const struct fan_frag *f)
{
	bool led = f->type == FAN_TYPE_PROBE && f->flags & FAN_F_LEAD;
	uint16_t rank = led ? f->priority : f->sender;
	if (!fan_job_is_member(j, rank, from))
		return -1;
	if (led && (f->sender >= j->ranks || !(j->members[f->sender].flags & FAN_MEMBER_IN)))
		return -1;
	return rank;
}

/* Datagrams come in batches, one behind the other: bring the next one closer. */
static void prefetch_next(const uint8_t *pkt, size_t len)
{
	size_t bytes = len < PREFETCH_BYTES ? len : PREFETCH_BYTES;
	for (size_t at = 0; at < bytes; at += (size_t)4 * CACHE_LINE) { /* the loop counts, too */
		__builtin_prefetch(pkt + len + at);
		__builtin_prefetch(pkt + len + at + CACHE_LINE);
		__builtin_prefetch(pkt + len + at + (size_t)2 * CACHE_LINE);
		__builtin_prefetch(pkt + len + at + (size_t)3 * CACHE_LINE);
	}
}

enum fan_verdict fan_switch_recv(struct fan_switch *sw, uint64_t now_ns, fan_peer from,
				 const uint8_t *pkt, size_t len, bool marked, struct fan_out *out)
{
	struct fan_frag f;
	sw->now_ns = now_ns;
	sw->stats.packets++;
	prefetch_next(pkt, len);
	int why = fan_wire_get(&f, pkt, len);
	if (why == FAN_DROP_VERSION)
		fan_asked_foreign(&from, pkt, len, out);
	if (why >= 0)
		return fan_switch_drop(sw, (unsigned)why);
	if (f.type >= FAN_TYPE_CTL)
		return fan_control_recv(sw, now_ns, &from, &f, out);
	if (!(1u << f.type & OF_MEMBERS))
		return fan_switch_drop(sw, FAN_DROP_TYPE);
	if (marked && f.type == FAN_TYPE_DATA)
		f.flags |= FAN_F_ECN;
	if (f.flags & FAN_F_PARTIAL)
		return fan_server_recv(sw, now_ns, &from, &f, out);
	struct fan_job *j = fan_jobs_get(&sw->jobs, f.job);
	if (!j)
		return fan_switch_drop(sw, FAN_DROP_JOB);
	if (f.epoch != j->epoch)
		return fan_switch_drop(sw, FAN_DROP_EPOCH);
	int speaker = speaker_of(j, &from, &f);
	if (speaker < 0)
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	struct fan_member *m = &j->members[speaker];
	m->heard_ns = now_ns;
	if (j->state != FAN_JOB_READY)
		return fan_switch_drop(sw, FAN_DROP_STATE);
	if (m->numbers && f.type <= FAN_TYPE_PROBE)
		note_number(sw, j, m, &f, out);
	switch (f.type) {
	case FAN_TYPE_MISS: return recv_miss(sw, j, &f, out);
	case FAN_TYPE_DATA: return recv_data(sw, now_ns, j, &f, out);
	case FAN_TYPE_PROBE: return recv_probe(sw, j, &f, out);
	default: return recv_question(sw, j, &f, out);
	}
}

/* The job that a datagram of the parent's is for: by its nonce while that is all it has. */
static struct fan_job *find_below(struct fan_switch *sw, const struct fan_frag *f)
{
	for (unsigned i = 0; i < sw->jobs.max; i++) {
		struct fan_job *j = &sw->jobs.job[i];
		if (j->state != FAN_JOB_NONE && j->up && fan_worker_hears(j->up, f))
			return j;
	}
	return NULL;
}

enum fan_verdict fan_switch_recv_up(struct fan_switch *sw, uint64_t now_ns, const uint8_t *pkt,
				    size_t len, bool marked, struct fan_out *out)
{
	struct fan_frag f;
	sw->now_ns = now_ns;
	sw->stats.packets++;
	int why = fan_wire_get(&f, pkt, len);
	if (why >= 0 && why != FAN_DROP_VERSION)
		return fan_switch_drop(sw, (unsigned)why);
	if (why == FAN_DROP_VERSION && len >= FAN_HEAD_BYTES)
		f = (struct fan_frag){.type = FAN_TYPE_REFUSE, .frag = fan_get64(pkt + 16)};
	struct fan_job *j = find_below(sw, &f);
	if (!j)
		return fan_switch_drop(sw, why >= 0 ? (unsigned)why : FAN_DROP_JOB);
	enum fan_verdict v = fan_worker_recv(j->up, now_ns, pkt, len, false, marked);
	if (v == FAN_DONE)
		fan_switch_result(sw, j, fan_pool_round(&j->pool, f.frag), f.priority, out);
	if (v == FAN_DROP)
		fan_switch_drop(sw, fan_worker_last_drop(j->up));
	fan_uplink_step(sw, j, out);
	return v;
}

uint64_t fan_switch_deadline(const struct fan_switch *sw)
{
	return sw->deadline_ns;
}

enum fan_drop fan_switch_last_drop(const struct fan_switch *sw)
{
	return sw->last_drop;
}

const struct fan_switch_stats *fan_switch_stats(const struct fan_switch *sw)
{
	return &sw->stats;
}

/* Job number `index` of those there are, or NULL; `*jobs`: how many there are. */
static const struct fan_job *find_job(const struct fan_switch *sw, uint16_t index, uint16_t *jobs)
{
	const struct fan_job *found = NULL;
	*jobs = 0;
	for (unsigned i = 0; i < sw->jobs.max; i++)
		if (sw->jobs.job[i].state != FAN_JOB_NONE && (*jobs)++ == index)
			found = &sw->jobs.job[i];
	return found;
}

static uint8_t copy_name(char *to, const struct fan_job *j)
{
	uint8_t bytes = 0;
	memcpy(to, j->name, sizeof j->name);
	while (bytes < FAN_NAME_MAX && j->name[bytes])
		bytes++;
	return bytes;
}

void fan_switch_report(const struct fan_switch *sw, struct fan_report *r)
{
	uint16_t index = r->index;
	memset(r, 0, sizeof *r);
	r->index = index;
	r->shards = sw->cfg.shards;
	const struct fan_job *j = find_job(sw, index, &r->jobs);
	if (!j)
		return;
	r->state = (uint8_t)j->state;
	r->err = j->fault.err;
	r->multicast = j->group.multicast;
	r->ranks = j->ranks;
	r->window = j->window;
	r->results = j->results;
	r->replays = j->replays;
	r->waiting = fan_job_open(j, &r->oldest);
	fan_job_missing(j, r->oldest, r->waiting > 0, r->missing);
	r->name_bytes = copy_name(r->name, j);
}

void fan_switch_lags(const struct fan_switch *sw, struct fan_lags *m)
{
	*m = (struct fan_lags){.index = m->index, .first = m->first};
	const struct fan_job *j = find_job(sw, m->index, &m->jobs);
	if (!j)
		return;
	m->ranks = j->ranks;
	m->name_bytes = copy_name(m->name, j);
	if (!j->burst)
		return;
	m->ahead = 1;
	m->front = j->pace.front;
	for (; m->count < FAN_LAGS_RANKS && m->first + m->count < j->ranks; m->count++)
		fan_pace_standing(&j->pace, (uint16_t)(m->first + m->count), &m->rank[m->count]);
}

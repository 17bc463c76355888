/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - an aggregator's answer to a JOIN; admission.c decides who is admitted. */
#include "aggregator_priv.h"

/* ---- challenges: a sender that wants another's place must prove its address first; until
 * then it leaves no state ----
 *
 * Its JOIN is answered with a WELCOME to job number 0, which does not exist, whose epoch is the
 * time and whose cookie depends on both and on the sender.  A sender at its true address sends a
 * BEAT with the cookie, as every rank does, learns that there is no such job, and repeats its JOIN.
 * By then its proof is in a small table, so that this JOIN takes the place.  Forged JOINs take no
 * place, however many there are.  doc/protocol/strangers.md, section 1 */

#define CHALLENGE_SALT UINT64_C(0x6368616c) /* as prf.c has one */
#define PROOF_SALT     UINT64_C(0x70726f6f)
#define STRANGER_SALT  UINT64_C(0x73747267)
#define HOST_SALT      UINT64_C(0x686f7374)
#define NO_JOB	       0u /* bits 8 .. 15 of a job's number are not 0 */
#define WINDOW	       2  /* the least, so no JOIN has asked for less */

/* Make a value for this life of a rank at `at`; `when`: 0 for its proof. */
static uint64_t make(const struct fan_aggregator *ag, uint64_t salt, uint32_t when,
		     const fan_peer *at, const struct fan_frag *f)
{
	const fan_peer hop = fan_peer_hop(at);
	const uint64_t m[] = {
		salt,
		when,
		f->nonce,
		f->sender,
		hop.addr[0],
		hop.addr[1],
		(uint64_t)hop.scope << 32 | hop.port,
	};
	return fan_prf(&ag->cfg.secret, m, sizeof m / sizeof m[0]);
}

static uint32_t when(const struct fan_aggregator *ag)
{
	return (uint32_t)(ag->now_ns / FAN_UNSURE_NS);
}

/* The places that proofs of the host `at` have. */
static struct fan_proof *row_of(struct fan_aggregator *ag, const fan_peer *at)
{
	const uint64_t m[] = {HOST_SALT, at->addr[0], at->addr[1]};
	return ag->proofs[fan_prf(&ag->cfg.secret, m, 3) % FAN_PROOF_ROWS];
}

bool fan_strangers_may(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f)
{
	struct fan_strangers *s = &ag->strangers;
	const uint64_t ms = ag->now_ns / FAN_MS;
	if (s->ms != ms) {
		const uint64_t more = (ms - s->ms) * FAN_STRANGERS_MAX;
		s->spent = more < s->spent ? s->spent - (uint32_t)more : 0;
		s->ms = ms;
		s->again = 0;
	}
	if (s->spent < FAN_STRANGERS_BURST) {
		s->spent++;
		return true;
	}
	const uint64_t key = make(ag, STRANGER_SALT, 0, from, f);
	const uint16_t part = (uint16_t)(key >> 48 | 1); /* 0: nobody's */
	uint16_t *seen = &s->seen[key % FAN_STRANGERS_SEEN];
	if (*seen != part) {
		*seen = part;
		return false;
	}
	if (s->again == FAN_STRANGERS_AGAIN)
		return false;
	s->again++;
	return true;
}

/* Answer `join` of `from` with a challenge. */
static void challenge_put(struct fan_aggregator *ag, const fan_peer *from,
			  const struct fan_frag *join, unsigned options, struct fan_out *out)
{
	const struct fan_welcome m = {
		.window = WINDOW,
		.shards = ag->cfg.shards,
		.beat_ms = FAN_ALIVE_MS / FAN_BEATS_PER_ALIVE,
		.alive_ms = FAN_ALIVE_MS,
		.flags = options & FAN_JOIN_QUAD ? FAN_WELCOME_QUAD : 0,
		.cookie = make(ag, CHALLENGE_SALT, when(ag), from, join),
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *from;
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	struct fan_frag h = {
		.nonce = join->nonce,
		.job = fan_job_id_on(NO_JOB, fan_route_number(join->job)),
		.epoch = when(ag),
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_WELCOME,
		.path = join->path,
	};
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, &m));
	ag->stats.challenges++;
}

bool fan_challenge_answer(struct fan_aggregator *ag, const fan_peer *from,
			  const struct fan_frag *beat, uint64_t cookie)
{
	if (!fan_job_id_is(beat->job, NO_JOB) || when(ag) - beat->epoch > 1 ||
	    cookie != make(ag, CHALLENGE_SALT, beat->epoch, from, beat))
		return false;
	if (fan_jobs_have(&ag->jobs, beat->sender, beat->nonce)) /* it needs none */
		return true;
	const uint64_t key = make(ag, PROOF_SALT, 0, from, beat);
	struct fan_proof *row = row_of(ag, from), *p = row;
	for (unsigned i = 0; i < FAN_PROOFS_IN_ROW && p->key != key; i++)
		if (row[i].key == key || row[i].ns < p->ns)
			p = &row[i];
	*p = (struct fan_proof){.key = key, .ns = ag->now_ns};
	return true;
}

/* Has the sender of `join` answered a challenge?  Uses the proof up. */
static bool challenge_is_met(struct fan_aggregator *ag, const fan_peer *from,
			     const struct fan_frag *join)
{
	const uint64_t key = make(ag, PROOF_SALT, 0, from, join);
	struct fan_proof *row = row_of(ag, from);
	for (unsigned i = 0; i < FAN_PROOFS_IN_ROW; i++) {
		if (row[i].key != key || !row[i].ns || ag->now_ns - row[i].ns > FAN_UNSURE_NS)
			continue;
		row[i] = (struct fan_proof){.key = 0};
		return true;
	}
	return false;
}

/* ---- claims: two launches of a program that use one job name, and nothing else distinguishes them
 * ----
 *
 * Ranks of both make up one job then, and its sums are of no use.  It shows when a second process
 * is the same rank.  It is refused with RANK_TAKEN and a proof, and claims the rank by a JOIN that
 * repeats the proof, so it lives.  If the member answers after a claim and the claim is repeated
 * after that, both live.  Which of them belongs to the others is unknown, so the job fails for
 * all with FAN_E_LAUNCHES, and so do those of either launch that come within FAN_CLAIMS_HELD_NS.
 * Later than FAN_CLAIMS_NS after its beginning a job takes no notice of claims.
 *
 * Where a launch has an id that no other has, which is odd, other launches have other jobs, and
 * claims are not heeded.  A launcher's id may be a user's, and occur twice. */

#define CLAIM_SALT UINT64_C(0x636c6169) /* as prf.c has one */

static bool is_contested(const struct fan_contested *c, const struct fan_job *j, uint64_t now_ns)
{
	return now_ns < c->until_ns && c->launch == j->launch &&
	       !memcmp(c->name, j->name, sizeof c->name);
}

/* The place of a name that is contested already, or else of the one that has been longest. */
static struct fan_contested *place_of(struct fan_aggregator *ag, const struct fan_job *j)
{
	struct fan_contested *c = ag->contested;
	for (unsigned i = 0; i < FAN_CONTESTED_MAX; i++)
		if (is_contested(&ag->contested[i], j, ag->now_ns))
			return &ag->contested[i];
		else if (ag->contested[i].until_ns < c->until_ns)
			c = &ag->contested[i];
	return c;
}

static void fail(struct fan_aggregator *ag, struct fan_job *j, const uint64_t *blamed,
		 struct fan_out *out)
{
	struct fan_job_fault fault = {
		.err = FAN_E_LAUNCHES, .rank_a = FAN_RANK_NONE, .rank_b = FAN_RANK_NONE};
	struct fan_contested *c = place_of(ag, j);
	memcpy(fault.hosts, j->claim_hosts, sizeof fault.hosts);
	fan_ranks_copy(fault.blamed, blamed);
	c->until_ns = ag->contested_ns = ag->now_ns + FAN_CLAIMS_HELD_NS;
	memcpy(c->name, j->name, sizeof c->name);
	c->launch = j->launch;
	memcpy(c->hosts, fault.hosts, sizeof c->hosts);
	for (c->rank = 0; !fan_ranks_has(blamed, c->rank);)
		c->rank++;
	fan_control_fail(ag, j, &fault, out);
}

/* Return the value that a JOIN must repeat: it shows that its sender lives, and is where it
 * says. */
static uint32_t proof_of(const struct fan_aggregator *ag, const struct fan_job *j,
			 const fan_peer *from, uint16_t rank)
{
	const fan_peer hop = fan_peer_hop(from);
	const uint64_t m[] = {CLAIM_SALT, j->epoch,    j->members[rank].nonce,
			      rank,	  hop.addr[0], hop.addr[1]};
	return (uint32_t)fan_prf(&ag->cfg.secret, m, sizeof m / sizeof m[0]) | 1; /* 0: none */
}

/* Has the member sent anything since another life claimed its rank? */
static bool is_contested_rank(const struct fan_member *m)
{
	return m->claim_ns && m->heard_ns > m->claim_ns;
}

/* Have the member send a BEAT, if it lives: in READY they are rare. */
static void ask_member(const struct fan_job *j, uint16_t rank, struct fan_out *out)
{
	if (fan_peer_token(&j->peers[rank])) /* an envelope holds no WHO */
		return;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag h = {
		.job = fan_job_id_for(j, rank),
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_WHO,
	};
	it->peer = j->peers[rank];
	fan_ctl_finish(it, &h, NULL, 0);
}

/* Another life has claimed the rank, whose member has been silent since: ask it. */
static void note_claim(struct fan_job *j, uint16_t rank, uint64_t now_ns, struct fan_out *out)
{
	struct fan_member *m = &j->members[rank];
	m->claim_ns = m->claim_ns ? m->claim_ns : now_ns;
	ask_member(j, rank, out);
}

/* The JOIN was refused with JOB_MISMATCH for `a->job`.  That may be READY only because nobody has
 * missed yet the ranks of a life that was killed, which is followed by one with other options: the
 * answer becomes RANK_TAKEN until a member answers after a claim. */
static void claim_differs(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
			  const struct fan_join *m, struct fan_admission *a, struct fan_out *out)
{
	struct fan_job *j = a->job;
	if (!j || j->state != FAN_JOB_READY || a->no.have >> 24 == FAN_ABOUT_ROUTE)
		return; /* routes differ in one life, too */
	const uint16_t rank = (uint16_t)(f->sender % j->ranks);
	const uint32_t proof = proof_of(ag, j, from, rank);
	if (m->claim == proof && is_contested_rank(&j->members[rank]))
		return;
	if (m->claim == proof)
		note_claim(j, rank, ag->now_ns, out);
	a->no = (struct fan_refuse){.err = FAN_E_RANK_TAKEN, .rank = f->sender, .have = proof};
}

/* The JOIN was refused with RANK_TAKEN for `a->job`: complete the answer, `a->no`.  If it is a
 * claim, note it, or fail the job. */
static void claim_take(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
		       const struct fan_join *m, struct fan_admission *a, struct fan_out *out)
{
	enum { ONE = FAN_HOSTS_BYTES / 2 };
	struct fan_job *j = a->job;
	struct fan_member *member = &j->members[f->sender];
	uint64_t claimed[FAN_RANK_WORDS] = {0};
	const bool begins = j->state == FAN_JOB_FORMING || ag->now_ns < j->ready_ns + FAN_CLAIMS_NS;
	a->no.have = proof_of(ag, j, from, f->sender);
	if (j->launch & 1 || !begins || m->claim != a->no.have)
		return;
	memcpy(j->claim_hosts, j->peers[f->sender].addr, ONE);
	memcpy(j->claim_hosts + ONE, from->addr, ONE);
	if (!is_contested_rank(member)) {
		note_claim(j, f->sender, ag->now_ns, out);
		return;
	}
	fan_ranks_set(claimed, f->sender);
	a->no.err = FAN_E_LAUNCHES;
	memcpy(a->no.hosts, j->claim_hosts, sizeof a->no.hosts);
	fail(ag, j, claimed, out);
}

bool fan_claim_fails(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out)
{
	uint64_t claimed[FAN_RANK_WORDS] = {0};
	for (unsigned r = 0; r < j->ranks; r++)
		if (is_contested_rank(&j->members[r]))
			fan_ranks_set(claimed, r);
	if (fan_ranks_is_empty(claimed))
		return false;
	fail(ag, j, claimed, out);
	return true;
}

/* Is the JOIN of a name that two launches have used just now?  Then `no` is the answer. */
static bool claim_holds(const struct fan_aggregator *ag, const struct fan_join *m,
			struct fan_refuse *no)
{
	if (m->launch & 1 || ag->now_ns >= ag->contested_ns)
		return false;
	for (unsigned i = 0; i < FAN_CONTESTED_MAX; i++) {
		const struct fan_contested *c = &ag->contested[i];
		if (ag->now_ns >= c->until_ns || c->launch != m->launch || c->name[m->name_bytes] ||
		    memcmp(c->name, m->name, m->name_bytes) != 0)
			continue;
		*no = (struct fan_refuse){.err = FAN_E_LAUNCHES, .rank = c->rank};
		memcpy(no->hosts, c->hosts, sizeof no->hosts);
		return true;
	}
	return false;
}

/* ---- JOINs ---- */

/* The answer to `join` has its path, too. */
static void welcome(const struct fan_aggregator *ag, const struct fan_job *j, const fan_peer *to,
		    const struct fan_frag *join, struct fan_out *out)
{
	const uint32_t own_ms = j->members[join->sender].alive_ms;
	const uint32_t alive_ms = own_ms > j->alive_ms ? own_ms : j->alive_ms;
	struct fan_welcome m = {
		.window = j->window,
		.shards = ag->cfg.shards,
		.beat_ms = alive_ms / FAN_BEATS_PER_ALIVE,
		.alive_ms = alive_ms,
		.group_family = ag->cfg.group_family,
		.group_port = ag->cfg.group_port,
		.burst = j->burst,
		.flags = (j->members[join->sender].numbers ? FAN_WELCOME_NUMBERS : 0) |
			 (fan_job_has_runs(j, join->sender) ? FAN_WELCOME_RUNS : 0) |
			 (j->options & FAN_JOIN_QUAD ? FAN_WELCOME_QUAD : 0),
		.cookie = fan_jobs_cookie(&ag->jobs, j, join->sender, join->path, to),
	};
	if (m.group_family)
		fan_job_group_put(ag, j, m.group);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	struct fan_frag h = {
		.nonce = join->nonce,
		.job = fan_job_id_on(j->id, fan_route_number(join->job)),
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_WELCOME,
		.path = join->path,
	};
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, &m));
}

static enum fan_verdict refuse(struct fan_aggregator *ag, const fan_peer *to,
			       const struct fan_frag *f, const struct fan_join *m,
			       const struct fan_refuse *no, struct fan_out *out)
{
	struct fan_event *ev = fan_aggregator_note(ag, FAN_EV_RANK_REFUSED, NULL, f->sender);
	ev->err = no->err;
	ev->ranks = m->ranks;
	ev->peer = *to;
	memcpy(ev->name, m->name, sizeof ev->name);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	struct fan_frag h = {
		.nonce = f->nonce,
		.job = f->job, /* its route, by which the answer goes back */
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_REFUSE,
	};
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, no));
	return FAN_CTL;
}

/* How many forming jobs were begun from the host of `from`.  Ranks behind a switch have its
 * address, and a machine trusts itself: 0. */
static unsigned begun_from(const struct fan_jobs *t, const fan_peer *from)
{
	unsigned n = 0;
	for (unsigned i = 0; i < t->used; i++) {
		const struct fan_job *j = &t->job[i];
		n += j->state == FAN_JOB_FORMING && !fan_peer_token(&j->source) &&
		     fan_peer_same_host(&j->source, from);
	}
	return n;
}

static struct fan_job *heaviest_of(struct fan_jobs *t, const fan_peer *from)
{
	struct fan_job *heaviest = NULL;
	unsigned most = begun_from(t, from) + 1;
	for (unsigned i = 0; i < t->used; i++) {
		struct fan_job *j = &t->job[i];
		if (j->state != FAN_JOB_FORMING || j->up || fan_peer_token(&j->source))
			continue;
		unsigned n = begun_from(t, &j->source);
		if (n > most || (heaviest && n == most && j->since_ns < heaviest->since_ns)) {
			heaviest = j;
			most = n;
		}
	}
	return heaviest;
}

/* Has nobody in it, which forms, proved an address? */
static bool is_unsure(const struct fan_job *j)
{
	return j->state == FAN_JOB_FORMING && !j->proved;
}

/* The job that yields to one that `from` would begin, where there is no room: it forms, and nobody
 * in it has proved an address; or its source has begun more than `from` by two that form.  The
 * oldest; NULL: none. */
static struct fan_job *victim_of(struct fan_jobs *t, const fan_peer *from)
{
	struct fan_job *oldest = NULL;
	for (unsigned i = 0; i < t->used; i++) {
		struct fan_job *j = &t->job[i];
		if (is_unsure(j) && (!oldest || j->since_ns < oldest->since_ns))
			oldest = j;
	}
	return oldest ? oldest : heaviest_of(t, from);
}

/* The job that yields to a JOIN that was refused with `err`, in whole or as far as the rank; NULL:
 * none.  `same`: the one of its name. */
static struct fan_job *find_yielding(struct fan_aggregator *ag, const fan_peer *from,
				     const struct fan_frag *f, struct fan_job *same, int err)
{
	if (err == FAN_E_RANK_TAKEN && !fan_job_has_proved(same, f->sender))
		return same->state == FAN_JOB_FORMING ? same : NULL;
	if (err == FAN_E_JOB_MISMATCH && is_unsure(same))
		return same;
	bool full = err == FAN_E_JOBS_FULL || err == FAN_E_SLOTS_FULL || err == FAN_E_MEMBERS_FULL;
	return full && !same ? victim_of(&ag->jobs, from) : NULL;
}

/* The job has no members any more. */
static void end_job(struct fan_aggregator *ag, struct fan_job *j)
{
	for (uint16_t r = 0; r < j->ranks; r++)
		if (j->members[r].flags & FAN_MEMBER_IN)
			fan_job_drop_member(j, r, false);
	fan_control_remove(ag, j);
}

/* Make room.  A rank with a proved address displaces all jobs without one, or their slots would
 * make its window small. */
static void yield(struct fan_aggregator *ag, struct fan_job *j, const struct fan_frag *f, int err,
		  bool proved)
{
	if (err == FAN_E_RANK_TAKEN) {
		fan_job_drop_member(j, f->sender, false);
		return;
	}
	end_job(ag, j);
	for (unsigned i = 0; i < ag->jobs.used && proved && err != FAN_E_JOB_MISMATCH; i++)
		if (is_unsure(&ag->jobs.job[i]))
			end_job(ag, &ag->jobs.job[i]);
}

/* Workers of before, whose JOINs are short, have no cookies in their BEATs.  The answer is not
 * longer.
 */
static enum fan_verdict refuse_short(struct fan_aggregator *ag, const fan_peer *to,
				     const struct fan_frag *f, struct fan_out *out)
{
	const struct fan_refuse no = {
		.err = FAN_E_VERSION,
		.rank = FAN_RANK_NONE,
		.have = FAN_WIRE_VERSION,
	};
	const struct fan_join nameless = {.name_bytes = 0};
	enum { BEFORE_NAME = 12 };
	const uint8_t name = f->payload_bytes > BEFORE_NAME ? f->payload[BEFORE_NAME - 1] : 0;
	if (f->payload_bytes >= FAN_CTL_UP_MIN || !name ||
	    f->payload_bytes < (size_t)BEFORE_NAME + name)
		return fan_aggregator_drop(ag, FAN_DROP_FORMAT);
	return refuse(ag, to, f, &nameless, &no, out);
}

enum admitted { ADMITTED, REFUSED, CHALLENGED };

/* Admit `from`.  A sender that takes the place of others has answered a challenge; if it needed
 * none, its answer is used up too, so that an old JOIN cannot use it. */
static enum admitted admit(struct fan_aggregator *ag, const fan_peer *from,
			   const struct fan_frag *f, const struct fan_join *m,
			   struct fan_admission *a)
{
	bool proved = false;
	int e = fan_jobs_join(&ag->jobs, ag->now_ns, from, f, m, a);
	for (unsigned i = 0; i < ag->jobs.max && e != FAN_OK; i++) {
		struct fan_job *other = find_yielding(ag, from, f, a->job, e);
		if (!other)
			return REFUSED;
		if (!proved && !ag->cfg.authentic && !challenge_is_met(ag, from, f))
			return CHALLENGED;
		proved = !ag->cfg.authentic;
		yield(ag, other, f, e, proved);
		e = fan_jobs_join(&ag->jobs, ag->now_ns, from, f, m, a);
	}
	if (e != FAN_OK)
		return REFUSED;
	if (!proved && !ag->cfg.authentic)
		proved = challenge_is_met(ag, from, f) && !a->again;
	if (proved)
		fan_job_make_sure(a->job, f->sender, FAN_MEMBER_FIRM);
	return ADMITTED;
}

/* Log what a JOIN has changed, and update the timers. */
static void note_joined(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
			const struct fan_admission *a)
{
	struct fan_member *member = &a->job->members[f->sender];
	if (a->created)
		fan_aggregator_note(ag, FAN_EV_JOB_CREATED, a->job, FAN_RANK_NONE);
	if (member->moved)
		fan_aggregator_note(ag, FAN_EV_RANK_MOVED, a->job, f->sender)->peer = *from;
	member->moved = false;
	if (a->again)
		return;
	fan_aggregator_note(ag, FAN_EV_RANK_JOINED, a->job, f->sender)->peer = *from;
	ag->deadline_ns = 0;
}

/* The aggregator takes nobody any more.  Where another will be in its place, ranks are to try
 * again. */
static enum fan_verdict turn_away(struct fan_aggregator *ag, const fan_peer *from,
				  const struct fan_frag *f, const struct fan_join *m,
				  struct fan_out *out)
{
	const struct fan_refuse no = {.err = FAN_E_STOPPED, .rank = FAN_RANK_NONE};
	if (!ag->stop_ns || !fan_strangers_may(ag, from, f))
		return fan_aggregator_drop(ag, FAN_DROP_FULL);
	return refuse(ag, from, f, m, &no, out);
}

enum fan_verdict fan_join_recv(struct fan_aggregator *ag, const fan_peer *from,
			       const struct fan_frag *f, struct fan_out *out)
{
	struct fan_join m;
	struct fan_admission a;
	if (f->payload_bytes < FAN_CTL_UP_MIN && f->nonce)
		return refuse_short(ag, from, f, out);
	if (fan_ctl_get(&m, f) != FAN_OK || f->nonce == 0)
		return fan_aggregator_drop(ag, FAN_DROP_FORMAT);
	if (ag->cfg.authentic) /* packets are sealed, of which none is a run */
		m.options &= (uint8_t)~FAN_JOIN_RUNS;
	if ((ag->drains || ag->stop_ns) && !fan_jobs_knows(&ag->jobs, f, &m))
		return turn_away(ag, from, f, &m, out);
	const bool held =
		claim_holds(ag, &m, &a.no) && !fan_jobs_have(&ag->jobs, f->sender, f->nonce);
	const enum admitted how = held ? REFUSED : admit(ag, from, f, &m, &a);
	if (how != ADMITTED && !fan_strangers_may(ag, from, f))
		return fan_aggregator_drop(ag, FAN_DROP_FULL);
	if (how == CHALLENGED) {
		challenge_put(ag, from, f, m.options, out);
		return FAN_CTL;
	}
	if (how == REFUSED && a.no.err == FAN_E_RANK_TAKEN)
		claim_take(ag, from, f, &m, &a, out);
	else if (how == REFUSED && a.no.err == FAN_E_JOB_MISMATCH)
		claim_differs(ag, from, f, &m, &a, out);
	if (how == REFUSED)
		return refuse(ag, from, f, &m, &a.no, out);
	fan_job_check(a.job);
	if (a.job->state == FAN_JOB_FAILED)
		fan_control_send_failed(a.job, from, f, out);
	else
		welcome(ag, a.job, from, f, out);
	note_joined(ag, from, f, &a);
	return FAN_CTL;
}

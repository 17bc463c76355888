/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"

#include "aggregator_priv.h"
#include "control.h"

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

/* Has the member been heard since another life has claimed its rank? */
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

/* Another life has claimed the rank, whose member has not been heard since: ask it. */
static void note_claim(struct fan_job *j, uint16_t rank, uint64_t now_ns, struct fan_out *out)
{
	struct fan_member *m = &j->members[rank];
	m->claim_ns = m->claim_ns ? m->claim_ns : now_ns;
	ask_member(j, rank, out);
}

void fan_claim_differs(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
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

void fan_claim_take(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
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

bool fan_claim_holds(const struct fan_aggregator *ag, const struct fan_join *m,
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

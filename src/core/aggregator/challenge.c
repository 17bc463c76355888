/* SPDX-License-Identifier: Apache-2.0 */
#include "challenge.h"

#include "admission.h"
#include "aggregator_priv.h"

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
	return ag->proofs.row[fan_prf(&ag->cfg.secret, m, 3) % FAN_PROOF_ROWS];
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

void fan_challenge_put(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *join,
		       unsigned options, struct fan_out *out)
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
	fan_ctl_finish(it, &h, body, fan_welcome_put(body, &m));
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

bool fan_challenge_is_met(struct fan_aggregator *ag, const fan_peer *from,
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

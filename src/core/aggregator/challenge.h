/* SPDX-License-Identifier: Apache-2.0 */
/* challenge.h - who wants a place that others have proves its address first; until then nothing is
 * kept of it.
 *
 * Its JOIN is answered with a WELCOME to number 0, which is no job's, whose epoch is the time and
 * whose cookie is made of both and of who asks.  Who is where it says sends a BEAT with the cookie,
 * as every rank does, hears that there is no such job, and sends the same JOIN again.  By then its
 * proof stands in a small table, so that JOIN takes the place.  Forged ones take nothing from
 * anybody, however many they are.
 * doc/protocol/strangers.md, section 1 */
#ifndef FAN_AGGREGATOR_CHALLENGE_H
#define FAN_AGGREGATOR_CHALLENGE_H

#include "core/base/limits.h"
#include "core/base/out.h"
#include "core/wire/wire.h"

struct fan_aggregator;

/* One life of a rank that has answered from its address. */
struct fan_proof {
	uint64_t key; /* a keyed function of all of it */
	uint64_t ns;  /* when; worth nothing after FAN_UNSURE_NS */
};

/* Each host has places in one row alone: one that proves more keeps no other out. */
struct fan_proofs {
	struct fan_proof row[FAN_PROOF_ROWS][FAN_PROOFS_IN_ROW];
};

/* Answers that those who have proved nothing got last. */
struct fan_strangers {
	uint64_t ms;	/* of the last one */
	uint32_t spent; /* answers, less FAN_STRANGERS_MAX for each millisecond since */
	uint32_t again; /* in this millisecond, to those who have asked before */
	uint16_t seen[FAN_STRANGERS_SEEN]; /* parts of the keys of those who had none, by key */
};

/* May `from`, which has sent `f`, have such an answer now?  Answers to a flood would take jobs more
 * processor time than the flood does.  Ranks ask again under their nonce, which whoever makes up
 * addresses hardly does: they have answers of their own. */
bool fan_strangers_may(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f);

/* Answer `join` of `from` with a challenge. */
void fan_challenge_put(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *join,
		       struct fan_out *out);

/* Note the proof if `beat`, with this cookie, answers a challenge.  A life that is in a job leaves
 * none, which a JOIN of the past could use.  False: it answers none. */
bool fan_challenge_heed(struct fan_aggregator *ag, const fan_peer *from,
			const struct fan_frag *beat, uint64_t cookie);

/* Has the sender of `join` answered one?  The proof is used up. */
bool fan_challenge_is_met(struct fan_aggregator *ag, const fan_peer *from,
			  const struct fan_frag *join);

#endif

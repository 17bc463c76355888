/* SPDX-License-Identifier: Apache-2.0 */
/* challenge.h - a sender that wants another's place must prove its address first; until then it
 * leaves no state.
 *
 * Its JOIN is answered with a WELCOME to job number 0, which does not exist, whose epoch is the
 * time and whose cookie depends on both and on the sender.  A sender at its true address sends a
 * BEAT with the cookie, as every rank does, learns that there is no such job, and repeats its JOIN.
 * By then its proof is in a small table, so that this JOIN takes the place.  Forged JOINs take no
 * place, however many there are.  doc/protocol/strangers.md, section 1 */
#ifndef FAN_AGGREGATOR_CHALLENGE_H
#define FAN_AGGREGATOR_CHALLENGE_H

#include "core/base/limits.h"
#include "core/base/out.h"
#include "core/wire/wire.h"

struct fan_aggregator;

/* Each host has places in one row alone: one that proves more keeps no other out. */
struct fan_proofs {
	/* One life of a rank that has answered from its address. */
	struct fan_proof {
		uint64_t key; /* a keyed function of all of it */
		uint64_t ns;  /* when; worth nothing after FAN_UNSURE_NS */
	} row[FAN_PROOF_ROWS][FAN_PROOFS_IN_ROW];
};

/* Recent answers to senders that have proved nothing. */
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
		       unsigned options, struct fan_out *out);

/* Note the proof if `beat`, with this cookie, answers a challenge.  A life that is in a job leaves
 * none, which a JOIN of the past could use.  False: it answers none. */
bool fan_challenge_answer(struct fan_aggregator *ag, const fan_peer *from,
			  const struct fan_frag *beat, uint64_t cookie);

/* Has the sender of `join` answered a challenge?  Uses the proof up. */
bool fan_challenge_is_met(struct fan_aggregator *ag, const fan_peer *from,
			  const struct fan_frag *join);

#endif

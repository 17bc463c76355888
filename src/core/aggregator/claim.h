/* SPDX-License-Identifier: Apache-2.0 */
/* claim.h - two launches of a program that use one job name, and nothing else tells them apart.
 *
 * Ranks of both make up one job then, and its sums are of no use.  It shows when a second process
 * is the same rank.  It is refused with RANK_TAKEN and a proof, and claims the rank by a JOIN that
 * repeats the proof, so it lives.  If the member is heard after a claim and the claim is repeated
 * after that, both live.  Which of them belongs to the others nobody can tell, so the job fails for
 * all with FAN_E_LAUNCHES, and so do those of either launch that come within FAN_CLAIMS_HELD_NS.
 * Later than FAN_CLAIMS_NS after its beginning a job takes no notice of claims.
 *
 * Where a launch has an id that no other has, which is odd, other launches have other jobs, and
 * claims are not heeded.  A launcher's id may be a user's, and occur twice. */
#ifndef FAN_AGGREGATOR_CLAIM_H
#define FAN_AGGREGATOR_CLAIM_H

#include "admission.h"

/* A name that two launches have used. */
struct fan_contested {
	char name[FAN_NAME_MAX + 1];
	uint64_t launch;
	uint64_t until_ns; /* others are refused */
	uint16_t rank;	   /* that was claimed */
	uint8_t hosts[FAN_HOSTS_BYTES];
};

/* The JOIN was refused with RANK_TAKEN for `a->job`: complete the answer, `a->no`.  If it is a
 * claim, note it, or fail the job. */
void fan_claim_take(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
		    const struct fan_join *m, struct fan_admission *a, struct fan_out *out);

/* The JOIN was refused with JOB_MISMATCH for `a->job`.  That may be READY only because nobody has
 * missed yet the ranks of a life that was killed, which is followed by one with other options: the
 * answer becomes RANK_TAKEN until a member is heard after a claim. */
void fan_claim_differs(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
		       const struct fan_join *m, struct fan_admission *a, struct fan_out *out);

/* All ranks of the job are there.  True: one of them is claimed and lives, so it has failed. */
bool fan_claim_fails(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out);

/* Is the JOIN of a name that two launches have used just now?  Then `no` is the answer. */
bool fan_claim_holds(const struct fan_aggregator *ag, const struct fan_join *m,
		     struct fan_refuse *no);

#endif

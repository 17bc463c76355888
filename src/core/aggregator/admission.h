/* SPDX-License-Identifier: Apache-2.0 */
/* admission.h - who may join, and what of a shard's jobs, members and slots a new job gets. */
#ifndef FAN_AGGREGATOR_ADMISSION_H
#define FAN_AGGREGATOR_ADMISSION_H

#include "member.h"

/* The outcome of a JOIN. */
struct fan_admission {
	/* the member's job; of a refused JOIN the job of that name, NULL: there is none, and no
	 * room for it */
	struct fan_job *job;
	bool created;	      /* it is new */
	bool again;	      /* the member was in before: its WELCOME was lost */
	struct fan_refuse no; /* why it is refused */
};

/* Let `from` join by `m`, in a new job or in the one of that name.  A refused JOIN leaves no
 * state.  FAN_E_RANK_TAKEN may be by a life that has proved nothing. */
enum fan_err fan_jobs_join(struct fan_jobs *t, uint64_t now_ns, const fan_peer *from,
			   const struct fan_frag *head, const struct fan_join *m,
			   struct fan_admission *a);

/* Has the sender of `head`, a JOIN with the body `m`, joined a job of that name already? */
bool fan_jobs_knows(struct fan_jobs *t, const struct fan_frag *head, const struct fan_join *m);

/* Has this life of a rank joined any job that there is? */
bool fan_jobs_have(const struct fan_jobs *t, uint16_t rank, uint64_t nonce);

/* Give the job another id and epoch: each of its members must join again. */
void fan_jobs_rename(struct fan_jobs *t, struct fan_job *j);

#endif

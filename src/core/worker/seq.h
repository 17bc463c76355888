/* SPDX-License-Identifier: Apache-2.0 */
/* seq.h - losses by sequence number, of results and of contributions. */
#ifndef FAN_WORKER_SEQ_H
#define FAN_WORKER_SEQ_H

#include "worker_priv.h"

/* The RESULT `f` has come: note its number. */
void fan_seq_jump(struct fan_worker *w, const struct fan_frag *f);
static inline void fan_seq_heard(struct fan_worker *w, const struct fan_frag *f)
{
	bool next = (uint16_t)(f->seq - w->gap.last) == 1;
	if (next && w->gap.heard == UINT64_MAX && !w->asked && !w->blind_seq)
		w->gap.last++; /* as it is nearly always */
	else
		fan_seq_jump(w, f);
}

/* Handle a MISS for this worker's job: send again what the next hop has not received. */
enum fan_verdict fan_seq_missed(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* Request missing results by MISS.  True if `out` ran full. */
bool fan_seq_ask(struct fan_worker *w, struct fan_out *out);

#endif

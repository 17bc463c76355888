/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - what became of a datagram, at whichever role it arrived. */
#ifndef FAN_BASE_VERDICT_H
#define FAN_BASE_VERDICT_H

enum fan_verdict {
	FAN_WAIT,   /* counted; other children still outstanding */
	FAN_DONE,   /* that was the last one: the result goes to all */
	FAN_REPLAY, /* the round was already complete: result to this child only */
	FAN_ASK,    /* a probe for a fragment this child has not sent: NEED to it */
	FAN_EARLY,  /* a probe for a fragment that waits for other ranks: no answer */
	FAN_CTL,    /* control message, handled */
	FAN_FAIL,   /* ranks disagree: the job has failed, all its members are told */
	FAN_PASS,   /* not summed here: on its way */
	FAN_DROP,   /* counted by reason: fan_aggregator_last_drop */
};

#endif

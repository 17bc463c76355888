/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - what an object did with a datagram. */
#ifndef FAN_BASE_VERDICT_H
#define FAN_BASE_VERDICT_H

enum fan_verdict {
	FAN_WAIT,   /* added; other contributions are outstanding */
	FAN_DONE,   /* added, and complete: the result goes to all */
	FAN_REPLAY, /* the round was complete: the result goes to this child alone */
	FAN_ASK,    /* a probe for a fragment that this child has not sent: NEED to it */
	FAN_EARLY,  /* a probe for a fragment that waits for other ranks: no answer */
	FAN_CTL,    /* a control message, handled */
	FAN_FAIL,   /* ranks disagree: the job has failed, its members get a STATE */
	FAN_PASS,   /* sent on unchanged */
	FAN_DROP,   /* dropped and counted by reason */
};

#endif

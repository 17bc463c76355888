/* SPDX-License-Identifier: Apache-2.0 */
/* partials.h - ranks behind switches: partial sums, envelopes of control messages, and reminders
 * to switches. */
#ifndef FAN_AGGREGATOR_PARTIALS_H
#define FAN_AGGREGATOR_PARTIALS_H

#include "aggregator_priv.h"

/* May `from` contribute `p`: is it in front of all its ranks, or of the helper that sends it? */
bool fan_partials_are_from(const struct fan_job *j, const struct fan_contribution *p,
			   const fan_peer *from);

/* Handle a RELAY from a switch. */
enum fan_verdict fan_partials_envelope(struct fan_aggregator *ag, uint64_t now_ns,
				       const fan_peer *from, const struct fan_frag *f,
				       struct fan_out *out);

/* Put the answer `it` to `rank` behind a switch into an envelope, which shows the switch the job
 * if there is one and the rank is in it. */
void fan_partials_wrap(struct fan_aggregator *ag, struct fan_out_item *it, uint16_t rank,
		       struct fan_out *out);

/* Request the contributions of the ranks `set` to the fragment of `f`: NEED. */
void fan_partials_ask(struct fan_aggregator *ag, const struct fan_job *j, const struct fan_frag *f,
		      const uint64_t *set, struct fan_out *out);

/* A round of a job behind switches was opened; and completed. */
void fan_partials_opened(struct fan_aggregator *ag, uint64_t now_ns, struct fan_job *j,
			 struct fan_round *round);

void fan_partials_done(uint64_t now_ns, struct fan_job *j, const struct fan_round *round);

/* A result is there: remind the switches of the round that has been overtaken, if there is one. */
void fan_partials_overtaken(struct fan_aggregator *ag, struct fan_job *j, uint64_t now_ns,
			    struct fan_out *out);

/* Remind the switches of rounds that have waited long, as far as `out` has room. */
void fan_partials_remind(struct fan_aggregator *ag, struct fan_job *j, uint64_t now_ns,
			 struct fan_out *out);

#endif

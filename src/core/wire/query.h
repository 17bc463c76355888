/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - questions that anybody may ask an aggregator or a switch, and their answers: how jobs,
 * slots and ranks stand, whether bytes arrive, and which version is spoken.  Nothing is noted
 * about who asks, and no answer is longer than its question. */
#ifndef FAN_WIRE_QUERY_H
#define FAN_WIRE_QUERY_H

#include "ctlmsg.h"

/* Who answers: each fills in what the index and first number in it ask about.  NULL: there is
 * nothing of the kind to tell. */
struct fan_query_source {
	void (*job)(const void *self, struct fan_report *m);
	void (*slots)(const void *self, struct fan_slot_stats *m); /* may be NULL */
	void (*ranks)(const void *self, struct fan_rank_stats *m);
	void (*helpers)(const void *self, struct fan_helper_stats *m); /* may be NULL */
};

/* Make the body of every answer to an echo in `body`, FAN_ECHO_MAX bytes: all of `who` but the
 * version, which is this program's, and zeros.  Answers are cut from it. */
void fan_query_prepare(uint8_t *body, const struct fan_echoed *who);

/* Answer the QUERY `f`; `echoed` is the body that fan_query_prepare has made.  False: it is
 * malformed. */
bool fan_query_recv(const struct fan_query_source *s, const void *self, const uint8_t *echoed,
		    const fan_peer *from, const struct fan_frag *f, struct fan_out *out);

/* A datagram of another version: answer it if it is a question that all versions have in
 * common, with REFUSE. */
void fan_query_foreign(const fan_peer *from, const uint8_t *pkt, size_t len, struct fan_out *out);

#endif

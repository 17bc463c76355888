/* SPDX-License-Identifier: Apache-2.0 */
/* asked.h - what anybody may ask a switch of any kind, and gets an answer to: ECHO, and
 * what comes in another version of the protocol.  Nothing is noted about who asks. */
#ifndef FAN_ASKED_H
#define FAN_ASKED_H

#include "ctlmsg.h"

/* Make the body of every ECHOED in `body`, FAN_ECHO_MAX bytes: all of `who` but the
 * version, which is this program's, and zeros.  Answers are cut from it. */
void fan_asked_prepare(uint8_t *body, const struct fan_echoed *who);

/* Answer the ECHO `f` from that body.  False: it is malformed. */
bool fan_asked_echo(const uint8_t *body, const fan_peer *from, const struct fan_frag *f,
		    struct fan_out *out);

/* Answer a question with control message `type`, whose body of `bytes` lies in the out's
 * scratch or with the switch. */
void fan_asked_put(const fan_peer *to, enum fan_type type, const struct fan_frag *question,
		   const uint8_t *body, size_t bytes, struct fan_out *out);

/* A datagram of another version: answer it if it is a question that all versions have in
 * common, with REFUSE. */
void fan_asked_foreign(const fan_peer *from, const uint8_t *pkt, size_t len, struct fan_out *out);

#endif

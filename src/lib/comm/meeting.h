/* SPDX-License-Identifier: Apache-2.0 */
/* meeting.h - exchange of hosts between the ranks of a job without a named switch.
 *
 * The ranks meet at the switch embedded in rank 0 (rendezvous.h) in a separate job with two small
 * all-reduces: each rank adds its record to a vector that is zero elsewhere, so the sum has the
 * records of all ranks.  The first has hosts, and how many ranks may share memory, so that all
 * decide alike whatever the options of one of them; the second the ports of the aggregators that
 * the first rank of each host has started, and the rates of their links.  Where all hosts have
 * further rails (net/rails.h), a third one has these.  So no further message is needed, and a rank
 * that is missing or dies is noticed as in any job. */
#ifndef FAN_LIB_COMM_MEETING_H
#define FAN_LIB_COMM_MEETING_H

#include "core/base/out.h"
#include "embedded_switch.h"
#include "lib/base/config.h"
#include "lib/base/plan_msg.h"
#include "lib/base/rendezvous.h"

#define FAN_MEETING_RECORD 8 /* 32-bit words of a rank: host id, address */

/* Suffix of the name of the meeting's job. */
#define FAN_MEETING_SUFFIX "#meet"

/* Meet at `at`, the switch embedded in rank 0, which is the aggregator of the first host; rank 0
 * passes it in `*sw`.  With more than one host, start a switch in `*sw` if this is the first rank
 * of its host and has none.  `*met` is the meeting, which the caller destroys.  Blocks for at most
 * about cfg->timeout_ms.
 *
 * FAN_OK; or an error of fanin_comm_create, and `why`, `bytes` bytes: then `*met` is NULL. */
int fan_meeting_hold(struct fan_meeting *m, const struct fan_config *cfg, const fan_peer *at,
		     struct fan_embedded_switch **sw, struct fanin_comm **met, char *why,
		     size_t bytes);

/* As fan_meeting_hold, among the ranks of `c`, which have joined at `at`; `named`: a switch that
 * was named.  `sw` NULL: none is started, and hosts of a job with a named switch have no
 * aggregator. */
int fan_meeting_join(struct fan_meeting *m, struct fanin_comm *c, const fan_peer *at, bool named,
		     struct fan_embedded_switch **sw);

/* Keep those of the `*count` addresses `at` of switches, at most FAN_COMM_MIXED_MAX, that answer
 * all ranks of `c`; none unless all ranks have the same.  FAN_OK, or its error. */
int fan_meeting_agree(struct fanin_comm *c, fan_peer *at, unsigned *count);

/* Have the words of all ranks of `c` added up, in place.  FAN_OK, or its error. */
int fan_meeting_add_up(struct fanin_comm *c, int32_t *words, unsigned count);

/* Fill in the record of this process: its host, and its local address towards `at`; NULL: none. */
void fan_meeting_record(int32_t record[FAN_MEETING_RECORD], const fan_peer *at);

/* Do the variables or the file name a switch or a controller?  Joining a job reports errors in
 * them. */
bool fan_meeting_is_named(void);

#endif

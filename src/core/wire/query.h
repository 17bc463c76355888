/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - QUERY and REPORT: statistics of jobs, slots and ranks, and ECHO, for any sender.
 *
 * An aggregator or switch keeps no state about the sender of a query, and no answer is longer
 * than its query. */
#ifndef FAN_WIRE_QUERY_H
#define FAN_WIRE_QUERY_H

#include <stdint.h>
#include <string.h>

#include "core/base/limits.h"
#include "ctlmsg.h"

/* Strangers get counters of a job's progress in steps of so many fragments. */
#define FAN_QUERY_STEP 1024

/* Callbacks that fill in a REPORT by its `index` and `first`, one for each topic. */
struct fan_query_source {
	/* Is `from` the host of a rank of job number `index`? */
	bool (*knows)(const void *self, uint16_t index, const fan_peer *from);
	void (*job)(const void *self, struct fan_report *m);
	void (*slots)(const void *self, struct fan_slot_stats *m); /* may be NULL: no slots */
	void (*ranks)(const void *self, struct fan_rank_stats *m);
	void (*helpers)(const void *self, struct fan_helper_stats *m); /* may be NULL: no helpers */
};

/* Write the body from which answers to ECHO are cut into `body`, FAN_ECHO_MAX bytes: `who` with
 * this program's version, and zeros. */
void fan_query_prepare(uint8_t *body, const struct fan_echoed *who);

/* Answer the QUERY `f`; `echoed` is the body that fan_query_prepare wrote.  A stranger,
 * neither on this machine nor on the host of a rank of the job, does not learn the open fragment.
 * False: `f` is malformed. */
bool fan_query_recv(const struct fan_query_source *s, const void *self, const uint8_t *echoed,
		    const fan_peer *from, const struct fan_frag *f, struct fan_out *out);

/* Answer a datagram of another version with REFUSE if it is a JOIN or QUERY, which all versions
 * have in common. */
void fan_query_foreign(const fan_peer *from, const uint8_t *pkt, size_t len, struct fan_out *out);

/* Names of jobs: FAN_NAME_MAX + 1 bytes, padded with zeros. */

/* Copy a padded name to `to`.  Returns its length without the padding. */
static inline uint8_t fan_name_copy(char *to, const char *name)
{
	uint8_t bytes = 0;
	memcpy(to, name, FAN_NAME_MAX + 1);
	while (bytes < FAN_NAME_MAX && name[bytes])
		bytes++;
	return bytes;
}

#endif

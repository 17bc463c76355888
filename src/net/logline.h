/* SPDX-License-Identifier: Apache-2.0 */
/* logline.h - lines of key=value for a daemon's log.
 *
 * Values that came from the network are quoted and escaped, so that a job's name can
 * forge neither a key nor a line. */
#ifndef FAN_LOGLINE_H
#define FAN_LOGLINE_H

#include <stddef.h>
#include <stdint.h>

#include "core/aggregator/aggregator.h"
#include "core/switch/switch.h"

#define FAN_LINE_BYTES	2048 /* of the longest line with its zero; longer ones are cut */
#define FAN_RANKS_BYTES (FAN_RANKS_MAX / 2 * 4 + 8) /* text of any set of ranks */

struct fan_line {
	char text[FAN_LINE_BYTES];
	size_t used;
};

/* Append.  escaped: `bytes` bytes at `value`, with `"`, `\` and all but printable ASCII escaped;
 * quoted: ` key="value"`, the value escaped. */
void fan_line_add(struct fan_line *l, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void fan_line_escaped(struct fan_line *l, const char *value, size_t bytes);
void fan_line_quoted(struct fan_line *l, const char *key, const char *value, size_t bytes);

/* A set of ranks as "0,3,5-7"; "none" if it is empty.  Returns `text`, which is at
 * least FAN_RANKS_BYTES. */
const char *fan_ranks_text(const uint64_t *set, char *text, size_t bytes);

/* The word for an enum fan_job_state. */
const char *fan_job_state_text(unsigned state);

/* The multicast group of a job: the configured base plus the job's place in the shard's
 * table, which is the low byte of its id. */
fan_peer fan_line_group(const struct fan_aggregator_config *cfg, uint32_t job);

/* Fill in the line of an event of a shard with configuration `cfg`. */
void fan_line_event(struct fan_line *l, const struct fan_event *ev, unsigned shard,
		    const struct fan_aggregator_config *cfg);

/* Fill in the line of a job's state: its missing ranks and fragments. */
void fan_line_report(struct fan_line *l, const struct fan_report *r, unsigned shard);

/* Fill in the line of a job's slot statistics. */
void fan_line_slot_stats(struct fan_line *l, const struct fan_slot_stats *t, unsigned shard);

/* Fill in the line of a shard's switch: counters, and drops by reason. */
void fan_line_slots(struct fan_line *l, const struct fan_switch_stats *s, unsigned shard);

/* Fill in the line of a shard's aggregator: counters, and drops by reason, without zeros. */
void fan_line_stats(struct fan_line *l, const struct fan_aggregator_stats *s, unsigned shard);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* logline.h - what a switch tells about itself, as lines of key=value.
 *
 * Values that came from the network are quoted and escaped, so that a job's name can
 * forge neither a key nor a line. */
#ifndef FAN_LOGLINE_H
#define FAN_LOGLINE_H

#include <stddef.h>
#include <stdint.h>

#include "core/aggregator/aggregator.h"
#include "core/switch/switch.h"

#define FAN_LINE_BYTES	2048 /* the longest line, its zero included; longer ones are cut */
#define FAN_RANKS_BYTES (FAN_RANKS_MAX / 2 * 4 + 8) /* text of any set of ranks */

struct fan_line {
	char text[FAN_LINE_BYTES];
	size_t used;
};

/* Append.  escaped: `bytes` bytes at `value` with `"`, `\` and what is no printable ASCII
 * escaped; quoted: ` key="value"`, the value escaped. */
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

/* Fill in a line for an event of a shard that was configured by `cfg`. */
void fan_line_event(struct fan_line *l, const struct fan_event *ev, unsigned shard,
		    const struct fan_aggregator_config *cfg);

/* Fill in a line for a job: how it stands and what it waits for. */
void fan_line_report(struct fan_line *l, const struct fan_report *r, unsigned shard);

/* Fill in a line for a job: what shared slots have done for it. */
void fan_line_slot_stats(struct fan_line *l, const struct fan_slot_stats *t, unsigned shard);

/* Fill in a line for a shard's shared slots: their counters, and reasons of drops. */
void fan_line_slots(struct fan_line *l, const struct fan_switch_stats *s, unsigned shard);

/* Fill in a line for a shard: its counters, and the reasons of drops that are not 0. */
void fan_line_stats(struct fan_line *l, const struct fan_aggregator_stats *s, unsigned shard);

#endif

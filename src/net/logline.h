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
#include "file/text.h"

#define FAN_LINE_BYTES 2048 /* of the longest line with its zero; longer ones are cut */

/* An empty line, in memory of the block. */
#define FAN_LINE() fan_text_in((char[FAN_LINE_BYTES]){0}, FAN_LINE_BYTES)

/* JSON of a text that others wrote: escaped, as in a line, where it is no UTF-8. */
struct json_t *fan_json_text(const char *text);

/* The word for an enum fan_job_state. */
const char *fan_job_state_text(unsigned state);

/* The multicast group of a job: the configured base plus the job's place in the shard's
 * table, which is the low byte of its id. */
fan_peer fan_line_group(const struct fan_aggregator_config *cfg, uint32_t job);

/* Append the line of an event of a shard with configuration `cfg`. */
void fan_line_event(struct fan_text *l, const struct fan_event *ev, unsigned shard,
		    const struct fan_aggregator_config *cfg);

/* Append the line of a job's state: its missing ranks and fragments. */
void fan_line_report(struct fan_text *l, const struct fan_report *r, unsigned shard);

#endif

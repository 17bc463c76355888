/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - the connections of a communicator: to each shard of the aggregator of each part.
 *
 * All functions are for the communicator's thread alone. */
#ifndef FAN_LIB_RANK_PARTS_H
#define FAN_LIB_RANK_PARTS_H

#include <stdint.h>

#include "lib/base/files.h"

struct fan_rank;

/* Open the connection to shard 0 of each part. */
void fan_rank_open_parts(struct fan_rank *c, uint64_t now_ns);

/* The least time-out of a result while so many parts have a share.  Results of one part queue
 * behind contributions to others on the same links, and those of one column behind other columns:
 * asking for them sooner than queues empty makes them longer.  So it is where ranks run ahead. */
uint32_t fan_rank_rto_min_ms(const struct fan_rank *c, unsigned parts);

/* The same for the last `count` parts, when the others are joined.  No operation is under way. */
void fan_rank_join_more_parts(struct fan_rank *c, unsigned count);

/* Once the aggregator of part `k` has answered its first connection: open those to its other
 * shards. */
void fan_rank_open_shards(struct fan_rank *c, unsigned k, uint64_t now_ns);

/* Open connection `number` anew. */
void fan_rank_open_connection(struct fan_rank *c, unsigned number, uint64_t now_ns);

/* Set the rate limit of part `k`'s connections from its planned rate. */
void fan_rank_set_rate_limit(struct fan_rank *c, unsigned k);

/* The file descriptors that they and the communicator have. */
struct fan_files fan_rank_files(const struct fan_rank *c);

#endif

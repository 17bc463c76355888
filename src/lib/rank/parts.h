/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - the connections of a communicator: to each shard of the aggregator of each part.
 *
 * All functions are for the communicator's thread alone. */
#ifndef FAN_LIB_RANK_PARTS_H
#define FAN_LIB_RANK_PARTS_H

#include <stdint.h>

struct fan_rank;

/* Open the connection to shard 0 of each part. */
void fan_rank_open_parts(struct fan_rank *r, uint64_t now_ns);

/* Open the connection to shard 0 of each of the last `count` parts, when the others are joined.  No
 * operation is in progress. */
void fan_rank_join_more_parts(struct fan_rank *r, unsigned count);

/* Once the aggregator of part `k` has answered its first connection: open those to its other
 * shards. */
void fan_rank_open_shards(struct fan_rank *r, unsigned k, uint64_t now_ns);

/* The aggregator of part `k` has `shards` shards: its connections share what its cut has. */
void fan_rank_set_shards(struct fan_rank *r, unsigned k, unsigned shards);

/* Open connection `number` anew. */
void fan_rank_open_connection(struct fan_rank *r, unsigned number, uint64_t now_ns);

/* Set the rate limit of part `k`'s connections from its planned rate. */
void fan_rank_set_rate_limit(struct fan_rank *r, unsigned k);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* shard_above.h - a shard's test of the path to its next hop: does it take what must go there?
 *
 * Ranks cannot see that, and would blame each other.  The test runs while there are jobs, of a
 * shard whose sums go on elsewhere, and its verdict is in the answers to their ECHOs. */
#ifndef FAN_SHARD_ABOVE_H
#define FAN_SHARD_ABOVE_H

#include "shard.h"

/* Is it an answer of the next hop to the test, and nothing else? */
bool fan_shard_above_heard(struct fan_shard *s, uint64_t now_ns, const fan_peer *from,
			   const uint8_t *pkt, size_t bytes);

/* Go on with the test; all items of the node have been sent. */
void fan_shard_above_turn(struct fan_shard *s);

/* When the test or the node has something to do next. */
uint64_t fan_shard_above_deadline(const struct fan_shard *s);

#endif

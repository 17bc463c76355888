/* SPDX-License-Identifier: Apache-2.0 */
/* shard_priv.h - what a shard's thread does beside datagrams of its sockets: shard.c calls it. */
#ifndef FAN_SHARD_PRIV_H
#define FAN_SHARD_PRIV_H

#include "shard.h"

/* ---- shard_tell.c: lines of the log, and its health ---- */

/* Log the aggregator's events; the counters; what each job waits for. */
void fan_shard_log_events(struct fan_shard *s);
void fan_shard_log_counters(struct fan_shard *s);
void fan_shard_log_jobs(struct fan_shard *s);

/* Log, once, that datagrams were too long for a path; that the path to the next hop loses large
 * ones. */
void fan_shard_log_too_long(struct fan_shard *s);
void fan_shard_log_above(struct fan_shard *s);

void fan_shard_fill_health(const struct fan_shard *s, struct fan_shard_health *h);

/* ---- shard_rings.c: the ranks of its own process, which need no socket (ring_pair.h) ---- */

#define FAN_SHARD_RING_PAIRES (UINT32_MAX - 1) /* number in epoll: each round looks at all */

/* `h` is the shard's as well from now on: of a rank that sends to its address `local`.  Slots keep
 * their packets until they are sent on, so there a rank uses its socket.  FAN_OK, FAN_E_BUSY or
 * FAN_E_SYSTEM. */
int fan_shard_take_rings(struct fan_shard *s, struct fan_ring_pair *h, const fan_peer *local);

/* May the thread sleep?  Then the next datagram wakes it. */
bool fan_shard_may_sleep(struct fan_shard *s);

/* Handle what has come, and close the ring pairs that ranks have closed. */
void fan_shard_receive_rings(struct fan_shard *s);

/* ---- shard_above.c: does the path to its next hop take what must go there? ----
 *
 * Ranks cannot see that, and would blame each other.  The test runs while there are jobs, of a
 * shard whose sums go on elsewhere, and its verdict is in the answers to their ECHOs. */

/* Is it an answer of the next hop to the test, and nothing else? */
bool fan_shard_above_heard(struct fan_shard *s, uint64_t now_ns, const fan_peer *from,
			   const uint8_t *pkt, size_t bytes);

/* Go on with the test; all items of the node have been sent. */
void fan_shard_above_turn(struct fan_shard *s);

/* When the test or the node has something to do next. */
uint64_t fan_shard_above_deadline(const struct fan_shard *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* estate.h - what a shard leaves to a process that continues it when its own has ended.
 *
 * The node lies in memory that both processes have, at one address, for it points into itself; and
 * both have the sockets.  While the core works on the node, the memory is marked: if the process
 * ends then, no other may use it. */
#ifndef FAN_NET_ESTATE_H
#define FAN_NET_ESTATE_H

#include <stdatomic.h>
#include <stddef.h>

#include "core/node/node.h"
#include "udp.h"

#define FAN_ESTATE_SOCKETS_MAX 64
#define FAN_ESTATE_FILES_MAX   (FAN_ESTATE_SOCKETS_MAX + 1) /* the memory, then the sockets */

/* The beginning of the memory; the node follows. */
struct fan_estate_head {
	_Alignas(64) atomic_uint at_work; /* the core is at work: the node may be inconsistent */
	struct fan_drain own;		  /* jobs that it is continued for */
};

struct fan_estate {
	struct fan_estate_head *at; /* in both processes */
	size_t bytes;
	struct fan_node_config cfg; /* without pointers */
	unsigned mark_percent;	    /* as of the shard */
	unsigned sockets;
	struct fan_udp
		udp[FAN_ESTATE_SOCKETS_MAX]; /* pointers and descriptors are the first process's */
};

/* Make the memory for a node of `bytes`, with `*fd`.  NULL: the system refuses. */
struct fan_estate_head *fan_estate_make(size_t *bytes, int *fd);
void fan_estate_free(struct fan_estate_head *at, size_t bytes);

/* In the other process: map the memory where the first has it.  0, or -errno. */
int fan_estate_map(const struct fan_estate *e, int fd);

/* The node in it. */
struct fan_node *fan_estate_node(const struct fan_estate_head *at);

#endif

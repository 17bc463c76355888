/* SPDX-License-Identifier: Apache-2.0 */
/* attach.h - hands the shared segment of segment.h to the ranks of a host.
 *
 * The first rank makes it without a name (memfd) and passes the descriptor over a Unix socket,
 * whose name is abstract: neither is in the file system, and both are gone when their processes
 * are. The kernel tells both sides whose process the other is; only the same user's takes part. */
#ifndef FAN_LIB_HOST_ATTACH_H
#define FAN_LIB_HOST_ATTACH_H

#include "segment.h"

/* A rank among those of its host. */
struct fan_host_seat {
	uint64_t nonce; /* of the job's life on this host: the name of the socket */
	unsigned me, ranks, columns;
	int timeout_ms;
	bool together; /* all ranks get it, or none: who has it would wait for the others */
	const uint16_t *of_job; /* the ranks of the job, by number; NULL: as numbers */
	unsigned host;		/* this one, among those of the job */
};

struct fan_host_memory {
	struct fan_host_segment *s; /* mapped; NULL: none */
	size_t bytes;
	int fd;				  /* -1: none */
	uint64_t missing[FAN_RANK_WORDS]; /* after an error: ranks of the job that have not come */
};

/* The segment, and this rank's lock in it (life.h).  FAN_OK; FAN_E_SYSTEM, FAN_E_TIMEOUT (not
 * all came in time: m->missing, which the first rank tells those who have the segment) or
 * FAN_E_FORMAT (another version's), with a sentence in `why`, `bytes` bytes. Blocks. */
int fan_host_attach(struct fan_host_memory *m, const struct fan_host_seat *h, char *why,
		    size_t bytes);

/* Can this process do what that takes, on a host of `ranks` ranks?  False: `why` has the call that
 * is refused and the cause; a filter of system calls, or a limit, may refuse it to one rank alone.
 */
bool fan_host_can_attach(unsigned ranks, char *why, size_t bytes);

void fan_host_detach(struct fan_host_memory *m);

#endif

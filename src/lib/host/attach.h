/* SPDX-License-Identifier: Apache-2.0 */
/* attach.h - whether the ranks of a host share memory; hands the segment of segment.h to them, and
 * shows which of them have ended.
 *
 * The first rank makes it without a name (memfd) and passes the descriptor over a Unix socket,
 * whose name is abstract: neither is in the file system, and both are gone when their processes
 * are. The kernel identifies each side's process to the other; only the same user's takes part. */
#ifndef FAN_LIB_HOST_ATTACH_H
#define FAN_LIB_HOST_ATTACH_H

#include <stdbool.h>

#include "lib/base/config.h"
#include "lib/base/rendezvous.h"
#include "segment.h"

/* A rank among those of its host. */
struct fan_host_seat {
	uint64_t nonce; /* of the job's life on this host: the name of the socket */
	unsigned me, ranks, columns;
	int timeout_ms;
	bool together; /* all ranks get it, or none, since an owner would wait for the others */
	const uint16_t *of_job; /* the ranks of the job, by number; NULL: as numbers */
	unsigned host;		/* this one, among those of the job */
};

struct fan_host_memory {
	struct fan_host_segment *s; /* mapped; NULL: none */
	size_t bytes;
	int fd;				  /* -1: none */
	uint64_t missing[FAN_RANK_WORDS]; /* after an error: ranks of the job that have not come */
};

/* The segment, and this rank's lock in it.  FAN_OK; FAN_E_SYSTEM, FAN_E_TIMEOUT (not
 * all came in time: m->missing, which the first rank sends to owners of the segment) or
 * FAN_E_FORMAT (another version's), with a sentence in `why`, `bytes` bytes. Blocks. */
int fan_host_attach(struct fan_host_memory *m, const struct fan_host_seat *h, char *why,
		    size_t bytes);

/* Can this process do what that takes, on a host of `ranks` ranks?  False: `why` has the call that
 * is refused and the cause; a filter of system calls, or a limit, may refuse it to one rank alone.
 */
bool fan_host_can_attach(unsigned ranks, char *why, size_t bytes);

/* Give the segment and the lock back. */
void fan_host_detach(struct fan_host_memory *m);

/* Number `i` held its lock, and has ended.  If it left before, its beat showed that first.
 *
 * Each rank holds a lock (fcntl) on one byte of the memory that they share, the one of its number.
 * The kernel takes it away when the process ends, however it does; a stopped one keeps it.  It
 * works between containers, whose process ids are not each other's, and a child of fork() does not
 * inherit it.  But the ranks of one process have all of its locks in common, and lose them with the
 * first that closes the memory: of those the lock shows nothing, nor of ranks without one.  Then
 * only beats do. */
bool fan_host_has_ended(const struct fan_host_segment *s, int fd, unsigned i);

/* ---- whether the ranks of a host share memory, decided alike by all ranks ---- */

/* Each column is a job of its own at each named switch, which has 64 of them. */
#define FAN_HOST_NAMED_COLUMNS 4

/* Do the options allow it?  Not in fixed mode, nor with run-ahead: each rank then sends its own
 * contributions.  FANIN_LOCAL=0 turns it off. */
bool fan_host_sharing_is_wanted(const struct fan_config *cfg);

/* Do they ask for it, by FANIN_LOCAL=1?  Also where all ranks are on one host with a named switch,
 * which they would not use; and where hosts leave all sums to named switches (FANIN_HOSTS=0). */
bool fan_host_sharing_is_asked_for(const struct fan_config *cfg);

/* Shall the `ranks` ranks that have met do so?  All have the same answer.  `named`: at named
 * switches, where they must have asked if no host sums beside these. */
bool fan_host_sharing_is_agreed(const struct fan_meeting *m, unsigned ranks, bool named);

/* Does any host have more than one rank, and none too many? */
bool fan_host_sharing_pays(const struct fan_meeting *m);

/* The columns that they have then. */
unsigned fan_host_columns(const struct fan_meeting *m, bool named);

#endif

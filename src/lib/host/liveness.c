/* SPDX-License-Identifier: Apache-2.0 */
#include "liveness.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/awake.h"

#define PID_NS "/proc/self/ns/pid"

static struct flock byte_of(unsigned i)
{
	return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
}

/* Never 0.  Where namespaces cannot be told apart, ranks in several may look like one process. */
static uint64_t this_process(void)
{
	struct stat ns;
	uint64_t inode = stat(PID_NS, &ns) ? 0 : ns.st_ino;
	return inode << 32 | (uint32_t)getpid();
}

void fan_host_hold(struct fan_host_segment *s, int fd, unsigned me)
{
	assert(fd >= 0 && me < FAN_HOST_RANKS_MAX);
	struct flock mine = byte_of(me);
	atomic_store(&s->rank[me].process, this_process());
	if (!fcntl(fd, F_SETLK, &mine))
		atomic_store(&s->rank[me].holds, 1);
}

bool fan_host_is_known(const struct fan_host_segment *s, unsigned i)
{
	return atomic_load(&s->rank[i].process) != 0;
}

void fan_host_beat(struct fan_host_segment *s, unsigned me)
{
	struct fan_host_rank *r = &s->rank[me];
	if (atomic_exchange(&r->asked, 0))
		atomic_fetch_add(&r->beats, 1);
}

bool fan_host_one_joins(const struct fan_host_segment *s, const bool *missing)
{
	for (unsigned i = 0; i < fan_host_ranks(s); i++)
		if (missing[i] && atomic_load(&s->rank[i].joining))
			return true;
	return false;
}

/* All ranks are known, and none is in the process of number `i`, where it could drop its lock. */
static bool is_alone(const struct fan_host_segment *s, unsigned i)
{
	uint64_t process = atomic_load(&s->rank[i].process);
	for (unsigned k = 0; k < fan_host_ranks(s); k++) {
		uint64_t other = atomic_load(&s->rank[k].process);
		if (k != i && (!other || other == process))
			return false;
	}
	return true;
}

bool fan_host_has_ended(const struct fan_host_segment *s, int fd, unsigned i)
{
	assert(fd >= 0 && i < FAN_HOST_RANKS_MAX);
	struct flock its = byte_of(i);
	return atomic_load(&s->rank[i].holds) && is_alone(s, i) && !fcntl(fd, F_GETLK, &its) &&
	       its.l_type == F_UNLCK;
}

void fan_host_receive(struct fan_host_last_word *h, const struct fan_host_segment *s, unsigned i,
		      uint64_t late_ns, uint64_t now_ns)
{
	const uint64_t beats = atomic_load(&s->rank[i].beats);
	/* A rank beats from when it has the memory; until all have been given it, it has time to
	 * come. */
	if (beats != h->beats || !h->at_ns) {
		h->beats = beats;
		h->at_ns = beats || atomic_load(&s->given) ? now_ns : 0;
	}
	if (late_ns && h->at_ns)
		h->at_ns = fan_awake_shift(h->at_ns, late_ns, now_ns);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "estate.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "file/file.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Where neither programs nor libraries, heaps or stacks are put on machines of 64 bits; one of many
 * places, because a process may have several. */
#define PLACE	    UINT64_C(0x100000000000)
#define PLACES	    1024
#define PLACE_BYTES UINT64_C(0x100000000) /* apart */
#define TRIES	    8

static size_t round_up(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

static void *map_at(void *at, size_t bytes, int fd)
{
	void *got =
		mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (got == MAP_FAILED)
		return NULL;
	if (got == at)
		return got;
	munmap(got, bytes); /* a kernel that does not know the flag */
	errno = EEXIST;
	return NULL;
}

struct fan_estate_head *fan_estate_make(size_t *bytes, int *fd)
{
	void *at = NULL;
	*bytes = round_up(sizeof(struct fan_estate_head) + *bytes);
	*fd = -1;
	if (*bytes > PLACE_BYTES || sizeof at < 8 || !fan_file_may_have(*bytes))
		return NULL;
	*fd = memfd_create("fanin-switch", MFD_CLOEXEC);
	if (*fd < 0)
		return NULL;
	if (!ftruncate(*fd, (off_t)*bytes))
		for (unsigned i = 0; i < TRIES && !at; i++)
			at = map_at((void *)(uintptr_t)(PLACE +
							fan_clock_nonce() % PLACES * PLACE_BYTES),
				    *bytes, *fd);
	if (at && !madvise(at, *bytes, MADV_DONTFORK))
		return at;
	if (at)
		munmap(at, *bytes);
	close(*fd);
	*fd = -1;
	return NULL;
}

void fan_estate_free(struct fan_estate_head *at, size_t bytes)
{
	munmap(at, bytes); /* in a child of fork() there is nothing */
}

int fan_estate_map(const struct fan_estate *e, int fd)
{
	assert(e->at && e->bytes);
	return map_at(e->at, e->bytes, fd) ? 0 : -errno;
}

struct fan_node *fan_estate_node(const struct fan_estate_head *at)
{
	assert(at);
	return (struct fan_node *)(uintptr_t)(at + 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t fan_clock_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* For filters of system calls that refuse getrandom. */
static bool read_device(uint64_t *n)
{
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool whole = read(fd, n, sizeof *n) == (ssize_t)sizeof *n;
	close(fd);
	return whole;
}

uint64_t fan_clock_nonce(void)
{
	uint64_t n = 0;
	ssize_t bytes;
	do /* early at boot it waits until the kernel has collected enough */
		bytes = getrandom(&n, sizeof n, 0);
	while (bytes < 0 && errno == EINTR);
	if (bytes != (ssize_t)sizeof n && !read_device(&n))
		return 0;
	return n ? n : 1;
}

int fan_clock_timeout_ms(uint64_t deadline_ns, int cap_ms)
{
	assert(cap_ms >= -1);
	const uint64_t ms_ns = 1000000;
	uint64_t now = fan_clock_ns(), ms;
	if (deadline_ns == UINT64_MAX)
		return cap_ms < 0 ? -1 : cap_ms;
	if (deadline_ns <= now)
		return 0;
	ms = (deadline_ns - now - 1) / ms_ns + 1;
	if (ms > INT_MAX)
		ms = INT_MAX;
	return cap_ms >= 0 && ms > (uint64_t)cap_ms ? cap_ms : (int)ms;
}

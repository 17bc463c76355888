/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

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

uint64_t fan_clock_nonce(void)
{
	uint64_t n = 0;

	/* A kernel that has no randomness yet (early boot, a seccomp filter) must not
	 * stop us: a nonce tells lives apart, it is no secret. */
	if (getrandom(&n, sizeof n, GRND_NONBLOCK) != (ssize_t)sizeof n)
		n = fan_clock_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() << 40;
	return n ? n : 1;
}

int fan_clock_timeout_ms(uint64_t deadline_ns, int cap_ms)
{
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#define LINE_BYTES 1024

static struct {
	atomic_uint_fast64_t calls, bytes;
} counts[FAN_WHYS];

static const char *const texts[FAN_WHYS] = {
	[FAN_WHY_TAKEN] = "through fanin",
	[FAN_WHY_FASTER] = "where the MPI is faster",
	[FAN_WHY_TRIAL] = "to compare",
	[FAN_WHY_SMALL] = "too small for fanin",
	[FAN_WHY_KIND] = "of types or operations that fanin lacks",
	[FAN_WHY_COMM] = "on communicators that fanin leaves alone",
	[FAN_WHY_EARLY] = "before fanin was joined",
	[FAN_WHY_OFF] = "with fanin off",
};

bool fan_mpi_report_on;

void fan_mpi_report_add(enum fan_mpi_why why, uint64_t calls, uint64_t bytes)
{
	assert(why < FAN_WHYS);
	if (!fan_mpi_report_on)
		return;
	atomic_fetch_add_explicit(&counts[why].calls, calls, memory_order_relaxed);
	atomic_fetch_add_explicit(&counts[why].bytes, bytes, memory_order_relaxed);
}

void fan_mpi_report_print(int rank)
{
	char line[LINE_BYTES];
	size_t used = 0;
	for (unsigned i = 0; i < FAN_WHYS; i++) {
		unsigned long long calls = atomic_load(&counts[i].calls);
		unsigned long long bytes = atomic_load(&counts[i].bytes);
		if (!calls && i != FAN_WHY_TAKEN)
			continue;
		int n = snprintf(line + used, sizeof line - used, "%s %llu calls (%llu bytes) %s",
				 !i	     ? ""
				 : used && i ? ","
					     : "",
				 calls, bytes, texts[i]);
		used += n > 0 && (size_t)n < sizeof line - used ? (size_t)n : 0;
	}
	fprintf(stderr, "fanin: rank %d:%s\n", rank, line);
}

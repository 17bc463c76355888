/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_process.c - the build, and what every process has. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/log.h"
#include "core/base/limits.h"
#include "metrics.h"

#define SECOND 1e9

static double clock_s(clockid_t id)
{
	struct timespec t = {0, 0};

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / SECOND;
}

/* Bytes of memory in use; 0: not known. */
static double resident_bytes(void)
{
	unsigned long whole = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	int n = fscanf(f, "%lu %lu", &whole, &resident);
	fclose(f);
	return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

/* Seconds since 1970 of this process's first call, which is soon after its start. */
static double start_s(void)
{
	static double start;

	if (start == 0)
		start = clock_s(CLOCK_REALTIME);
	return start;
}

static void put_one(struct fan_expose *x, const char *name, enum fan_metric_type type,
		    const char *help, double value)
{
	fan_expose_family(x, name, type, help);
	fan_expose_value(x, name, NULL, value);
}

void metrics_put_process(struct fan_expose *x, const char *role)
{
	struct fan_labels l = {.used = 0};

	fan_labels_add(&l, "version", FAN_BUILD_VERSION, strlen(FAN_BUILD_VERSION));
	fan_labels_number(&l, "protocol", FAN_WIRE_VERSION);
	fan_labels_add(&l, "role", role, strlen(role));
	fan_expose_family(x, "fanin_build_info", FAN_GAUGE, "1; labels tell the build.");
	fan_expose_count(x, "fanin_build_info", &l, 1);
	put_one(x, "process_cpu_seconds_total", FAN_COUNTER, "Processor time of all threads.",
		clock_s(CLOCK_PROCESS_CPUTIME_ID));
	put_one(x, "process_resident_memory_bytes", FAN_GAUGE, "Memory in use.", resident_bytes());
	put_one(x, "fanin_log_lost_lines_total", FAN_COUNTER,
		"Lines of the log that nobody read in time.", (double)log_lost());
	put_one(x, "process_start_time_seconds", FAN_GAUGE, "Time of the start, since 1970.",
		start_s());
}

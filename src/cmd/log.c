/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "net/clock.h"

#define STAMP_BYTES 32
#define LINE_NS	    (UINT64_C(1000000000) / LOG_LINES_A_S)

bool log_takes(struct log_bound *b, uint64_t now_ns, uint64_t *omitted)
{
	uint64_t full_ns = b->full_ns > now_ns ? b->full_ns : now_ns;

	if (full_ns - now_ns > (LOG_BURST - 1) * LINE_NS) {
		b->omitted++;
		return false;
	}
	b->full_ns = full_ns + LINE_NS;
	*omitted = b->omitted;
	b->omitted = 0;
	return true;
}

static void write_line(const char *line)
{
	struct timespec now;
	struct tm tm;
	char stamp[STAMP_BYTES];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	fprintf(stderr, "%s.%03ldZ %s\n", stamp, now.tv_nsec / 1000000, line);
}

void cmd_log(const char *line)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static struct log_bound bound;
	char text[80];
	uint64_t omitted;

	pthread_mutex_lock(&mutex);
	if (log_takes(&bound, fan_clock_ns(), &omitted)) {
		if (omitted) {
			snprintf(text, sizeof text, "event=log_omitted lines=%" PRIu64, omitted);
			write_line(text);
		}
		write_line(line);
	}
	pthread_mutex_unlock(&mutex);
}

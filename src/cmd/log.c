/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "net/clock.h"

#define STAMP_BYTES 32
#define SECOND_NS   UINT64_C(1000000000)

static const struct {
	unsigned burst, lines_a_s;
	const char *name;
} bounds[LOG_KINDS] = {
	[LOG_REFUSALS] = {LOG_REFUSALS_BURST, LOG_REFUSALS_A_S, "refusals"},
	[LOG_COMINGS] = {LOG_BURST, LOG_LINES_A_S, "comings"},
	[LOG_REST] = {LOG_BURST, LOG_LINES_A_S, "rest"},
};

enum log_kind log_kind_of(const char *line)
{
	static const struct {
		const char *begin;
		enum log_kind kind;
	} kinds[] = {
		{"event=rank_refused ", LOG_REFUSALS}, {"refused: ", LOG_REFUSALS},
		{"event=job_created ", LOG_COMINGS},   {"event=rank_joined ", LOG_COMINGS},
		{"event=rank_moved ", LOG_COMINGS},    {"event=rank_left ", LOG_COMINGS},
		{"event=job_removed ", LOG_COMINGS},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strncmp(line, kinds[i].begin, strlen(kinds[i].begin)) == 0)
			return kinds[i].kind;
	return LOG_REST;
}

bool log_takes(struct log_bound *b, enum log_kind kind, uint64_t now_ns, uint64_t *omitted)
{
	uint64_t line_ns = SECOND_NS / bounds[kind].lines_a_s;
	uint64_t full_ns = b->full_ns > now_ns ? b->full_ns : now_ns;

	if (full_ns - now_ns > (bounds[kind].burst - 1) * line_ns) {
		b->omitted++;
		return false;
	}
	b->full_ns = full_ns + line_ns;
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
	static struct log_bound bound[LOG_KINDS];
	enum log_kind kind = log_kind_of(line);
	char text[80];
	uint64_t omitted;

	pthread_mutex_lock(&mutex);
	if (log_takes(&bound[kind], kind, fan_clock_ns(), &omitted)) {
		if (omitted) {
			snprintf(text, sizeof text, "event=log_omitted lines=%" PRIu64 " of=%s",
				 omitted, bounds[kind].name);
			write_line(text);
		}
		write_line(line);
	}
	pthread_mutex_unlock(&mutex);
}

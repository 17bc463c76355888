/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/limits.h"
#include "file/text.h"
#include "net/clock.h"

#define LOG_BURST     2000 /* lines of a burst: the start of the largest job, all counters */
#define LOG_LINES_A_S 20   /* after that: 300 MB a day at most */

#define LOG_REFUSALS_BURST 200
#define LOG_REFUSALS_A_S   2

/* Kinds of lines, each with a bound of its own. */
enum log_kind {
	LOG_REFUSALS, /* of ranks, daemons and lines: one packet causes one */
	LOG_COMINGS,  /* jobs and ranks that join, move and leave: members cause these */
	LOG_REST,     /* jobs that are ready or fail, warnings, answers to signals */
	LOG_KINDS
};

/* Use of a bound.  All zero: none. */
struct log_bound {
	uint64_t full_ns; /* time at which a whole burst is permitted again */
	uint64_t omitted; /* since the last line */
};

#define LOG_ENTRY_BYTES 8192	   /* of a line for the journal, with its fields */
#define LOG_QUEUE_BYTES (1u << 20) /* of lines that wait: more than all bursts */
#define LOG_END_MS	1000	   /* for lines that wait when the program ends */

#define STAMP_BYTES 32
#define SECOND_NS   UINT64_C(1000000000)
#define JOURNAL	    "/run/systemd/journal/socket"

static const struct {
	unsigned burst, lines_a_s;
	const char *name;
} bounds[LOG_KINDS] = {
	[LOG_REFUSALS] = {LOG_REFUSALS_BURST, LOG_REFUSALS_A_S, "refusals"},
	[LOG_COMINGS] = {LOG_BURST, LOG_LINES_A_S, "comings"},
	[LOG_REST] = {LOG_BURST, LOG_LINES_A_S, "rest"},
};

/* The kind of a line. */
static enum log_kind kind_of(const char *line)
{
	static const struct {
		const char *begin;
		enum log_kind kind;
	} kinds[] = {
		{"event=rank_refused ", LOG_REFUSALS}, {"event=job_created ", LOG_COMINGS},
		{"event=rank_joined ", LOG_COMINGS},   {"event=rank_moved ", LOG_COMINGS},
		{"event=rank_left ", LOG_COMINGS},     {"event=job_removed ", LOG_COMINGS},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strncmp(line, kinds[i].begin, strlen(kinds[i].begin)) == 0)
			return kinds[i].kind;
	return LOG_REST;
}

/* May a line of `kind`, whose bound is `b`, be written at `now_ns`?  If so `*omitted` is the number
 * of those left out before. */
static bool log_takes(struct log_bound *b, enum log_kind kind, uint64_t now_ns, uint64_t *omitted)
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

/* ---- the journal ---- */

/* A part of an entry, as far as there is room. */
static void put(char *entry, size_t *used, const char *text, size_t bytes)
{
	if (*used + bytes <= LOG_ENTRY_BYTES) {
		memcpy(entry + *used, text, bytes);
		*used += bytes;
	}
}

static void put_field(char *entry, size_t *used, const char *name, const char *value, size_t bytes)
{
	if (*used + strlen(name) + bytes + 2 > LOG_ENTRY_BYTES || memchr(value, '\n', bytes))
		return; /* a field is whole or not there, and begins no other one */
	put(entry, used, name, strlen(name));
	put(entry, used, "=", 1);
	put(entry, used, value, bytes);
	put(entry, used, "\n", 1);
}

/* The bytes of a job's name before "/PART", "!CHANGES" or both; 0: it has none. */
static size_t stem_of(const char *name, size_t bytes)
{
	size_t stem = bytes;

	while (stem && isdigit((unsigned char)name[stem - 1]))
		stem--;
	const bool changed = stem && stem < bytes && name[stem - 1] == '!';
	if (!changed)
		stem = bytes;
	else
		stem--;
	size_t part = stem;
	while (part && isdigit((unsigned char)name[part - 1]))
		part--;
	if (part > 1 && part < stem && name[part - 1] == '/')
		stem = part - 1;
	return stem < bytes ? stem : 0;
}

/* The value at `text`, without its quotes, as it is escaped.  Returns what follows. */
static const char *take_value(const char *text, const char **value, size_t *bytes)
{
	const bool quoted = *text == '"';
	const char *end = text += quoted;

	while (*end && (quoted ? *end != '"' : *end != ' '))
		end += *end == '\\' && end[1] ? 2 : 1;
	*value = text;
	*bytes = (size_t)(end - text);
	return end + (quoted && *end);
}

static void put_fields(char *entry, size_t *used, const char *line)
{
	static const char *const field[][2] = {{"event", "FANIN_EVENT"},
					       {"job", "FANIN_JOB"},
					       {"rank", "FANIN_RANK"},
					       {"shard", "FANIN_SHARD"},
					       {"cause", "FANIN_CAUSE"}};

	while (*line) {
		const char *value, *key = line;
		size_t bytes, key_bytes = strcspn(line, "= \"");
		line += key_bytes;
		if (*line != '=') {
			line += *line != '\0';
			continue;
		}
		line = take_value(line + 1, &value, &bytes);
		for (size_t i = 0; i < sizeof field / sizeof field[0]; i++) {
			if (strlen(field[i][0]) != key_bytes ||
			    strncmp(key, field[i][0], key_bytes) != 0)
				continue;
			put_field(entry, used, field[i][1], value, bytes);
			size_t stem = i == 1 ? stem_of(value, bytes) : 0;
			if (stem)
				put_field(entry, used, field[i][1], value, stem);
		}
	}
}

/* Fill `entry`, LOG_ENTRY_BYTES, with a line as the journal takes it: MESSAGE, PRIORITY,
 * SYSLOG_IDENTIFIER, and of what the line has FANIN_EVENT, FANIN_JOB, FANIN_RANK, FANIN_SHARD and
 * FANIN_CAUSE.  A part of a job, "j/1!4", has two FANIN_JOB: its own name, and "j".  Returns its
 * bytes. */
static size_t log_entry(char *entry, const char *line)
{
	const bool bad = strncmp(line, "event=warning ", strlen("event=warning ")) == 0 ||
			 strncmp(line, "event=job_failed ", strlen("event=job_failed ")) == 0;
	static const char head[] = "SYSLOG_IDENTIFIER=fanin\nMESSAGE=";
	size_t used = 0;

	put_field(entry, &used, "PRIORITY", bad ? "4" : "6", 1);
	put(entry, &used, head, sizeof head - 1);
	for (const char *c = line; *c && used < LOG_ENTRY_BYTES / 2; c++)
		entry[used++] = (char)(*c == '\n' ? ' ' : *c); /* it would end the field */
	entry[used++] = '\n';
	if (strncmp(line, "event=", strlen("event=")) == 0)
		put_fields(entry, &used, line);
	return used;
}

/* Is `fd` the stream that `stream` names, "DEVICE:INODE" as systemd has it?  NULL names none. */
static bool log_is_journal(int fd, const char *stream)
{
	unsigned long long device, inode;
	struct stat s;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &s) == 0 &&
	       s.st_dev == (dev_t)device && s.st_ino == (ino_t)inode;
}

/* The journal's socket; -1: standard error goes elsewhere.  Asked once. */
static int journal(void)
{
	static int fd = -2;

	if (fd == -2)
		fd = log_is_journal(STDERR_FILENO, getenv("JOURNAL_STREAM"))
			     ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
			     : -1;
	return fd;
}

/* Never waits: a journal that is behind, or away, has the line by standard error. */
static bool write_journal(const char *line)
{
	static char entry[LOG_ENTRY_BYTES]; /* of the writer */
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = JOURNAL};
	const int fd = journal();

	if (fd < 0)
		return false;
	const size_t bytes = log_entry(entry, line);
	return sendto(fd, entry, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&at,
		      sizeof at) == (ssize_t)bytes;
}

/* ---- the writer ---- */

/* Lines with their time, each with a zero behind.  The writer empties one half while the other one
 * is filled, and is the only one to wait for who reads standard error. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	char half[2][LOG_QUEUE_BYTES];
	unsigned filled; /* half */
	size_t used;	 /* of it */
	/* lines without room, or that could not be written: in all, and not yet reported */
	uint64_t lost, unread;
	bool started, writes;
	bool ends; /* log_end is called at the end */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static size_t put_stamp(char *text, size_t bytes)
{
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	const size_t n = strftime(text, bytes, "%Y-%m-%dT%H:%M:%S", &tm);
	return n + (size_t)snprintf(text + n, bytes - n, ".%03ldZ ", now.tv_nsec / 1000000);
}

static bool write_all(const char *text, size_t bytes)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	while (bytes) {
		const ssize_t n = write(STDERR_FILENO, text, bytes);
		if (n < 0 && errno == EAGAIN)
			poll(&p, 1, -1);
		else if (n < 0)
			return false;
		text += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* `line` begins with its time; its zero becomes the end of the line.  False: it is lost. */
static bool write_line(char *line, size_t bytes)
{
	const char *rest = strchr(line, ' ');

	if (rest && write_journal(rest + 1))
		return true;
	line[bytes] = '\n';
	return write_all(line, bytes + 1);
}

static bool write_unread(uint64_t lines)
{
	char text[STAMP_BYTES + 80];
	const size_t n = put_stamp(text, sizeof text);
	const int more = snprintf(text + n, sizeof text - n,
				  "event=log_omitted lines=%" PRIu64 " of=unread", lines);

	return write_line(text, n + (size_t)more);
}

static void *run(void *arg)
{
	pthread_mutex_lock(&queue.lock);
	for (;;) {
		while (!queue.used)
			pthread_cond_wait(&queue.more, &queue.lock);
		char *text = queue.half[queue.filled];
		const size_t used = queue.used;
		uint64_t unread = queue.unread, failed = 0;
		queue.filled = !queue.filled;
		queue.used = queue.unread = 0;
		queue.writes = true;
		pthread_mutex_unlock(&queue.lock);
		for (size_t at = 0, n; at < used; at += n + 1) {
			n = strlen(text + at);
			failed += !write_line(text + at, n);
		}
		unread += failed;
		if (unread && write_unread(unread))
			unread = 0;
		pthread_mutex_lock(&queue.lock);
		queue.lost += failed;
		queue.unread += unread;
		queue.writes = false;
	}
	return arg;
}

/* Wait until all lines are written, LOG_END_MS at most; exit() does. */
static void log_end(void)
{
	const uint64_t by_ns = fan_clock_ns() + LOG_END_MS * FAN_MS;
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	bool writes = queue.started;

	if (!queue.started && queue.used && poll(&p, 1, 0) == 1 &&
	    write(STDERR_FILENO, queue.half[queue.filled], queue.used) < 0)
		queue.lost++; /* of who reads it there is nobody left */
	while (writes && fan_clock_ns() < by_ns) {
		pthread_mutex_lock(&queue.lock);
		writes = queue.used || queue.writes;
		pthread_mutex_unlock(&queue.lock);
		if (writes)
			poll(NULL, 0, 1);
	}
}

/* With the lock held; signals are for others. */
static void start(void)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	queue.started = !pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (queue.started)
		pthread_detach(thread);
	if (!queue.ends)
		queue.ends = !atexit(log_end);
}

/* With the lock held. */
static void put_line(const char *line)
{
	char stamp[STAMP_BYTES];
	const size_t first = put_stamp(stamp, sizeof stamp), bytes = strlen(line) + 1;
	char *to = queue.half[queue.filled] + queue.used;

	if (!queue.started)
		start();
	if (first + bytes > LOG_QUEUE_BYTES - queue.used) {
		queue.lost++;
		queue.unread++;
		return;
	}
	memcpy(to, stamp, first);
	memcpy(to + first, line, bytes);
	fan_text_plain(to + first); /* of the same length */
	queue.used += first + bytes;
	pthread_cond_signal(&queue.more);
}

uint64_t log_lost(void)
{
	pthread_mutex_lock(&queue.lock);
	const uint64_t lost = queue.lost;
	pthread_mutex_unlock(&queue.lock);
	return lost;
}

void cmd_log(const char *line)
{
	static struct log_bound bound[LOG_KINDS];
	enum log_kind kind = kind_of(line);
	char text[80];
	uint64_t omitted;

	pthread_mutex_lock(&queue.lock);
	if (log_takes(&bound[kind], kind, fan_clock_ns(), &omitted)) {
		if (omitted) {
			snprintf(text, sizeof text, "event=log_omitted lines=%" PRIu64 " of=%s",
				 omitted, bounds[kind].name);
			put_line(text);
		}
		put_line(line);
	}
	pthread_mutex_unlock(&queue.lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ps_collect.c - asks the processes of this host what their ranks do, and the aggregators that
 * these wait for on whom they wait. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "args.h"
#include "ask.h"
#include "cmd.h"
#include "lib/rank/roster.h"
#include "net/clock.h"
#include "net/logline.h"
#include "net/udp.h"
#include "ps.h"

#define TABLE		"/proc/net/unix"
#define TABLE_BYTES	(64 << 20) /* of it that are read */
#define PROCESSES_MAX	8192	   /* names, of whoever has taken them */
#define FILES_ELSE	64	   /* descriptors that are not of talks */
#define ANSWERS_BYTES	(16 << 20) /* of all processes together; the longest answers give way */
#define RANK_VALUES	2048	   /* of one rank: many times what a library tells */
#define RANKS_MAX	32768	   /* of one host */
#define AGGREGATORS_MAX 256
#define AGAIN_MS	10 /* until who had no room for a connection is tried again */
#define WAIT_MS		2000
#define LISTENS		0x10000 /* of a socket's flags in TABLE: __SO_ACCEPTCON */
#define BLOCK_BYTES	(64 << 10)
#define QUESTION_MS	500 /* for all aggregators together */
#define QUESTIONS_MAX	16
#define ALL_HOSTS_MS	3000 /* for those of a whole job */

/* ---- who is there ---- */

char *ps_read(FILE *f, size_t most)
{
	char *text = NULL;
	size_t used = 0, room = 0, n;

	while (f && used < most) {
		if (used + BLOCK_BYTES >= room) {
			char *more = realloc(text, room = 2 * room + 2 * BLOCK_BYTES);
			if (!more)
				break;
			text = more;
		}
		n = fread(text + used, 1, BLOCK_BYTES, f);
		for (char *zero; (zero = memchr(text + used, '\0', n));)
			*zero = '?'; /* what follows counts, too */
		used += n;
		if (!n)
			break;
	}
	if (text)
		text[used] = '\0';
	return text;
}

static char *read_table(char *why)
{
	FILE *f = fopen(TABLE, "re");
	char *text = ps_read(f, TABLE_BYTES);

	if (!text)
		snprintf(why, ARGS_WHY_BYTES, TABLE ": %s: it names the processes that have ranks",
			 strerror(errno));
	if (f)
		fclose(f);
	return text;
}

unsigned ps_names(struct ps_name *names, unsigned most, const char *text)
{
	unsigned count = 0;

	for (const char *line = text; line && count < most; line = strchr(line, '\n')) {
		struct ps_name *n = &names[count];
		unsigned flags, uid;
		int at = 0, end = 0;
		line += *line == '\n';
		if (sscanf(line,
			   "%*x: %*x %*x %x %*x %*x %*u @%n" FAN_ROSTER_NAME "%u/%*16[0-9a-f]%n",
			   &flags, &at, &uid, &end) != 2 ||
		    !end || flags != LISTENS || line[end] != '\n' ||
		    (size_t)(end - at) >= sizeof n->text)
			continue;
		memcpy(n->text, line + at, (size_t)(end - at));
		n->text[end - at] = '\0';
		n->uid = uid;
		count++;
	}
	return count;
}

/* ---- asking them ---- */

/* One process. */
struct talk {
	const struct ps_name *name;
	int fd; /* -1: it is over */
	int pid;
	char *text;
	size_t used;
	bool whole, later; /* later: to be connected to */
};

static struct talk talk[PROCESSES_MAX];
static unsigned talks;

/* Connect.  1: done; 0: later, its queue is full; -1: never. */
static int greet(struct talk *t)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct ucred who;
	socklen_t bytes = sizeof who;
	const size_t n = strlen(t->name->text);

	t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->fd < 0)
		return -1;
	memcpy(at.sun_path + 1, t->name->text, n);
	if (connect(t->fd, (struct sockaddr *)&at,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n))) {
		const int later = errno == EAGAIN ? 0 : -1;
		close(t->fd);
		t->fd = -1;
		return later;
	}
	/* who has taken another user's name is not believed */
	if (getsockopt(t->fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) || who.uid != t->name->uid) {
		close(t->fd);
		t->fd = -1;
		return -1;
	}
	t->pid = who.pid;
	return 1;
}

static void end_talk(struct talk *t)
{
	close(t->fd);
	t->fd = -1;
}

/* Who says most is heard no longer, where all together say too much: some are other users'. */
static void bound_answers(void)
{
	size_t all = 0;
	unsigned longest = 0;

	for (unsigned i = 0; i < talks; i++) {
		all += talk[i].used;
		if (talk[i].used > talk[longest].used)
			longest = i;
	}
	if (all <= ANSWERS_BYTES)
		return;
	struct talk *t = &talk[longest];
	if (t->fd >= 0)
		end_talk(t);
	free(t->text);
	t->text = NULL;
	t->used = 0;
	t->whole = false;
}

static void take(struct talk *t)
{
	static char block[BLOCK_BYTES];
	const ssize_t n = recv(t->fd, block, sizeof block, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	char *more =
		n > 0 && t->used <= FAN_ROSTER_BYTES ? realloc(t->text, t->used + (size_t)n) : NULL;
	if (!more) {
		end_talk(t);
		return;
	}
	memcpy(more + t->used, block, (size_t)n);
	t->text = more;
	t->used += (size_t)n;
	t->whole = block[n - 1] == '\n';
	if (t->whole)
		end_talk(t);
	bound_answers();
}

/* Ask `count` processes at once, until `by_ns`. */
static void ask_wave(struct talk *t, unsigned count, uint64_t by_ns)
{
	static struct pollfd p[PROCESSES_MAX];
	uint64_t again_ns = 0;

	for (unsigned i = 0; i < count; i++)
		t[i].later = true;
	for (;;) {
		const uint64_t now_ns = fan_clock_ns();
		const bool again = now_ns >= again_ns;
		unsigned open = 0;
		int wait = fan_clock_timeout_ms(by_ns, -1);
		again_ns = again ? now_ns + AGAIN_MS * FAN_MS : again_ns;
		for (unsigned i = 0; i < count; i++) {
			if (t[i].later && again)
				t[i].later = greet(&t[i]) == 0;
			p[i] = (struct pollfd){.fd = t[i].fd, .events = POLLIN};
			open += t[i].fd >= 0 || t[i].later;
			wait = t[i].later && wait > AGAIN_MS ? AGAIN_MS : wait;
		}
		if (!open || !wait || (poll(p, count, wait) < 0 && errno != EINTR))
			break;
		for (unsigned i = 0; i < count; i++)
			if (p[i].fd >= 0 && p[i].revents && t[i].fd >= 0)
				take(&t[i]);
	}
	for (unsigned i = 0; i < count; i++)
		if (t[i].fd >= 0)
			end_talk(&t[i]);
}

/* Do two ranks of a process have the same place in the same job? */
static bool is_rank_of(const json_t *r, const json_t *other)
{
	return json_equal(json_object_get(r, "job"), json_object_get(other, "job")) &&
	       json_equal(json_object_get(r, "rank"), json_object_get(other, "rank"));
}

/* What goes between hosts is the work of a rank of its own, the column: what that knows belongs to
 * the rank.  Both are among those of a process, from `first` on. */
static void take_from_columns(json_t *ranks, size_t first)
{
	const size_t count = json_array_size(ranks);

	for (size_t k = first; k < count; k++) {
		const json_t *c = json_array_get(ranks, k);
		if (!json_is_true(json_object_get(c, "column")))
			continue;
		for (size_t i = first; i < count; i++) {
			json_t *r = json_array_get(ranks, i);
			if (json_is_true(json_object_get(r, "column")) || !is_rank_of(r, c))
				continue;
			json_object_set(r, "parts", json_object_get(c, "parts"));
			json_object_set(r, "places", json_object_get(c, "places"));
			json_object_set(r, "of", json_object_get(c, "of"));
			json_object_set(r, "stats_net", json_object_get(c, "stats"));
			break; /* of one rank: a process might tell of many, to have all printed */
		}
	}
}

bool ps_add(json_t *found, const json_t *told, const json_t *about, unsigned most)
{
	const json_t *of = json_object_get(told, "ranks");
	json_t *ranks = json_object_get(found, "ranks");
	const double left_out = cmd_number_of(found, "left_out") + cmd_number_of(told, "left_out") +
				cmd_number_of(told, "more");
	unsigned count = 0;
	size_t i = 0;

	for (; i < json_array_size(of) && count < most; i++) {
		json_t *r = json_array_get(of, i);
		if (!json_is_object(r))
			continue;
		cmd_json_bound(r, RANK_VALUES, false);
		json_object_update(r, (json_t *)about);
		json_array_append(ranks, r);
		count++;
	}
	json_object_set_new(
		found, "left_out",
		json_integer((json_int_t)(left_out + (double)(json_array_size(of) - i))));
	return json_is_array(of);
}

bool ps_add_process(json_t *found, const char *text, size_t bytes, int pid, unsigned uid)
{
	json_t *j = bytes ? json_loadb(text, bytes, 0, NULL) : NULL;
	json_t *ranks = json_object_get(found, "ranks");
	const size_t first = json_array_size(ranks), room = RANKS_MAX - first;
	const char *program = json_string_value(json_object_get(j, "program"));
	json_t *about = json_pack("{s:i, s:I, s:s}", "pid", pid, "uid", (json_int_t)uid, "program",
				  program && strlen(program) < CMD_JSON_TEXT ? program : "?");
	const bool told =
		ps_add(found, j, about, room < FAN_ROSTER_MAX ? (unsigned)room : FAN_ROSTER_MAX);

	take_from_columns(ranks, first);
	json_decref(about);
	json_decref(j);
	return told;
}

/* How many can be asked at once: all, where the limit of descriptors may be raised so far.  In
 * turns those who do not answer would use up the time of those behind them. */
static unsigned at_once(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return 1;
	if (r.rlim_cur < PROCESSES_MAX + FILES_ELSE) {
		r.rlim_cur = r.rlim_max < PROCESSES_MAX + FILES_ELSE ? r.rlim_max
								     : PROCESSES_MAX + FILES_ELSE;
		if (setrlimit(RLIMIT_NOFILE, &r) && getrlimit(RLIMIT_NOFILE, &r))
			return 1;
	}
	if (r.rlim_cur >= PROCESSES_MAX + FILES_ELSE)
		return PROCESSES_MAX;
	return r.rlim_cur > FILES_ELSE ? (unsigned)r.rlim_cur - FILES_ELSE : 1;
}

static void ask_all(json_t *found, const struct ps_name *names, unsigned count)
{
	const uint64_t by_ns = fan_clock_ns() + WAIT_MS * FAN_MS;
	const unsigned most = at_once();
	json_t *silent = json_object_get(found, "silent");

	talks = 0;
	for (unsigned i = 0; i < count; i++)
		if (names[i].uid == geteuid() || !geteuid())
			talk[talks++] = (struct talk){.name = &names[i], .fd = -1};
	for (unsigned i = 0; i < talks; i += most) {
		const uint64_t now_ns = fan_clock_ns(),
			       left_ns = by_ns > now_ns ? by_ns - now_ns : 0;
		const unsigned turns = 1 + (talks - i - 1) / most;
		ask_wave(talk + i, talks - i < most ? talks - i : most,
			 now_ns + left_ns / (turns ? turns : 1));
	}
	for (unsigned i = 0; i < talks; i++) {
		const struct talk *t = &talk[i];
		if (!ps_add_process(found, t->text, t->whole ? t->used : 0, t->pid, t->name->uid) &&
		    t->pid)
			json_array_append_new(silent, json_integer(t->pid));
		free(t->text);
	}
	talks = 0;
}

json_t *ps_collect(char *why)
{
	static struct ps_name names[PROCESSES_MAX];
	char host[256] = "?";
	char *text = read_table(why);

	if (!text)
		return NULL;
	gethostname(host, sizeof host - 1);
	json_t *found = json_pack("{s:s, s:o, s:o}", "host", host, "ranks", json_array(), "silent",
				  json_array());
	ask_all(found, names, ps_names(names, PROCESSES_MAX, text));
	free(text);
	return found;
}

/* ---- asking aggregators ---- */

/* The state of a job at an aggregator: 1; 0: it does not tell, or does not have it. */
static int ask_about(struct fan_report *r, const char *at, const char *job, uint64_t by_ns)
{
	struct ask_talk t;
	fan_peer to;
	int found = 0;

	/* no name is looked up because a process says so: name servers may take their time */
	if (!fan_peer_read(&to, at) || ask_open(&t, &to, 0))
		return 0;
	*r = (struct fan_report){.jobs = 1};
	for (unsigned i = 0; i < FAN_GROUPS_MAX && i < r->jobs && !found; i++) {
		const struct ask_question w = {
			.topic = FAN_TOPIC_JOB, .index = (uint16_t)i, .job = r};
		if (fan_clock_ns() > by_ns || ask_once(&t, &w) != 1)
			break;
		found = i < r->jobs && strlen(job) == r->name_bytes &&
			!memcmp(job, r->name, r->name_bytes);
	}
	fan_udp_close(&t.udp);
	return found;
}

/* Ranks of a report, as the job of the rank calls them. */
static json_t *named(const uint64_t *set, const json_t *of)
{
	json_t *ranks = json_array();

	for (unsigned i = fan_ranks_first(set); i < FAN_RANKS_MAX; i = fan_ranks_next(set, i + 1)) {
		json_t *g = json_array_get(of, i);
		json_array_append_new(ranks, g ? json_incref(g) : json_integer(i));
	}
	return ranks;
}

/* On whom the aggregator waits for which the rank `r` does; `asked` has the answers so far.  NULL:
 * it waits for none, or none has been asked. */
static json_t *ask_for(const json_t *r, json_t *asked, uint64_t by_ns)
{
	const json_t *place = json_array_get(json_object_get(r, "places"), 0);
	const char *at = json_string_value(json_object_get(place, "at"));
	const char *job = json_string_value(json_object_get(place, "job"));
	struct fan_report report;
	char key[2 * CMD_JSON_TEXT];

	if (!at || !job)
		return NULL;
	snprintf(key, sizeof key, "%s %s", at, job);
	json_t *known = json_object_get(asked, key);
	if (known || json_object_size(asked) == QUESTIONS_MAX)
		return known;
	known = ask_about(&report, at, job, by_ns) ? named(report.missing, json_object_get(r, "of"))
						   : json_array();
	json_object_set_new(asked, key, known);
	return known;
}

void ps_complete(json_t *found)
{
	const uint64_t by_ns = fan_clock_ns() + QUESTION_MS * FAN_MS;
	json_t *ranks = json_object_get(found, "ranks");
	json_t *asked = json_object();

	for (size_t i = 0; i < json_array_size(ranks); i++) {
		json_t *r = json_array_get(ranks, i);
		if (json_is_true(json_object_get(r, "column")))
			continue;
		const char *state = json_string_value(json_object_get(r, "state"));
		const bool away = json_is_true(json_object_get(r, "away"));
		if (!state || strcmp(state, "waits") ||
		    (json_array_size(json_object_get(r, "missing")) && !away))
			continue;
		json_t *known = ask_for(r, asked, by_ns);
		if (!json_array_size(known))
			continue;
		json_object_set(r, "missing", known);
		json_object_set_new(r, "by_host", json_boolean(away));
	}
	json_decref(asked);
}

/* Is it the job, a part of it, or what its hosts do between them? */
static bool is_job_of(const char *name, size_t bytes, const char *job)
{
	const size_t n = strlen(job);
	return bytes >= n && !memcmp(name, job, n) &&
	       (bytes == n || name[n] == '/' || name[n] == '!');
}

static json_t *report_json(const struct fan_report *r, const json_t *of)
{
	struct fan_line name = {.used = 0};
	const char *column = r->name_bytes ? strstr(r->name, "/c") : NULL;
	const bool hosts = column && column[2] >= '0' && column[2] <= '9';
	uint64_t waits[FAN_RANK_WORDS] = {0};

	/* those that have taken part in what it lacks of others */
	for (unsigned i = 0; r->waiting && i < r->ranks && i < FAN_RANKS_MAX; i++)
		if (!fan_ranks_has(r->missing, i))
			fan_ranks_set(waits, i);
	json_t *j = json_pack("{s:s, s:i, s:i, s:b, s:o}", "state", fan_job_state_text(r->state),
			      "ranks", (int)r->ranks, "open", (int)r->waiting, "by_host",
			      (int)hosts, "missing", named(r->missing, hosts ? of : NULL));
	fan_line_escaped(&name, r->name, r->name_bytes);
	json_t *job = json_stringn(r->name, r->name_bytes);
	json_object_set_new(j, "job", job ? job : json_string(name.text));
	json_object_set_new(j, "operations", json_integer(r->operations));
	json_object_set_new(j, "waits", named(waits, hosts ? of : NULL));
	if (r->waiting && r->age_ms != FAN_AGE_NOT_TOLD)
		json_object_set_new(j, "age_s", json_real(r->age_ms / 1000.0));
	return j;
}

/* What the aggregator at `at` tells of `job`, each shard. */
static void ask_aggregator(json_t *into, const char *at, const char *job, const json_t *of,
			   uint64_t by_ns)
{
	struct ask_talk t;
	fan_peer to;
	struct fan_report r = {.jobs = 1, .shards = 1};
	json_t *jobs = json_array();
	bool told = false;

	for (unsigned s = 0; s < r.shards && s < FAN_SHARDS_MAX && fan_clock_ns() < by_ns; s++) {
		if (!fan_peer_read(&to, at) || ask_open(&t, &to, s))
			break;
		r.jobs = 1;
		for (unsigned i = 0; i < FAN_GROUPS_MAX && i < r.jobs; i++) {
			const struct ask_question w = {
				.topic = FAN_TOPIC_JOB, .index = (uint16_t)i, .job = &r};
			if (fan_clock_ns() > by_ns || !ask_times(&t, &w, 2))
				break;
			told = true;
			if (i < r.jobs && is_job_of(r.name, r.name_bytes, job))
				json_array_append_new(jobs, report_json(&r, of));
		}
		fan_udp_close(&t.udp);
	}
	json_object_set_new(into, "answers", json_boolean(told));
	json_object_set_new(into, "jobs", jobs);
}

void ps_ask_aggregators(json_t *found, const char *job)
{
	const uint64_t by_ns = fan_clock_ns() + ALL_HOSTS_MS * FAN_MS;
	json_t *ranks = json_object_get(found, "ranks"), *asked = json_object();
	json_t *all = json_array();

	for (size_t i = 0; i < json_array_size(ranks); i++) {
		const json_t *r = json_array_get(ranks, i), *parts = json_object_get(r, "parts");
		const char *name = json_string_value(json_object_get(r, "job"));
		for (size_t k = 0; name && !strcmp(name, job) && k < json_array_size(parts); k++) {
			const json_t *part = json_array_get(parts, k);
			const char *at = json_string_value(json_object_get(part, "aggregator"));
			json_t *one;
			if (!at || json_object_get(asked, at) ||
			    json_array_size(all) == AGGREGATORS_MAX)
				continue;
			json_object_set_new(asked, at, json_true());
			one = json_pack("{s:s, s:O}", "at", at, "inside",
					json_object_get(part, "inside"));
			if (!one)
				continue;
			ask_aggregator(one, at, job, json_object_get(r, "of"), by_ns);
			json_array_append_new(all, one);
		}
	}
	json_decref(asked);
	json_object_set_new(found, "aggregators", all);
}

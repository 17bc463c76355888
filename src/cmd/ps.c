/* SPDX-License-Identifier: Apache-2.0 */
/* ps.c - `fanin ps`: what the ranks of this host do, and for whom they wait. */
#include "ps.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cmd.h"
#include "core/base/rank_set.h"
#include "file/text.h"
#include "net/clock.h"
#include "net/logline.h"
#include "top.h"

#define CELLS	    12
#define CELL_BYTES  300
#define SHARES_MAX  4		/* that are printed of a rank */
#define MERGE_BYTES (64u << 20) /* of standard input */
#define MERGE_RANKS 262144	/* of all hosts */
#define SILENT_MAX  8192	/* of one host */

struct ps_args {
	bool json, merge, all_hosts;
	char job[ARGS_TEXT_BYTES]; /* "": all */
	int pid;		   /* 0: all */
};

#define AT(field) offsetof(struct ps_args, field)
static const struct fan_option options[] = {
	{"job", 'j', ARGS_TEXT, AT(job), 0, 0, NULL, "JOB", "only ranks of this job"},
	{"all-hosts", 'a', ARGS_FLAG, AT(all_hosts), 0, 0, NULL, NULL,
	 "with --job: ask its aggregators on all hosts, too, for whom they wait"},
	{"pid", 'p', ARGS_NUMBER, AT(pid), 1, INT32_MAX, NULL, "PID", "only ranks of this process"},
	{"json", 0, ARGS_FLAG, AT(json), 0, 0, NULL, NULL,
	 "print one line of JSON, all that is known"},
	{"merge", 'm', ARGS_FLAG, AT(merge), 0, 0, NULL, NULL,
	 "read lines of --json from standard input, of other hosts, in place of asking this one"},
};

static const struct args_command command = {
	.name = "ps",
	.help = "Show what the ranks of this host do, for whom they wait, and how long.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

/* ---- a rank's values; another process has written them ---- */

static unsigned long long count_of(const json_t *r, const char *key)
{
	return (unsigned long long)cmd_number_of(r, key);
}

static bool is_shown(const json_t *r, const char *job, int pid)
{
	return json_is_object(r) && !json_is_true(json_object_get(r, "column")) &&
	       (!*job || !strcmp(cmd_text_of(r, "job"), job)) &&
	       (!pid || json_integer_value(json_object_get(r, "pid")) == pid);
}

/* The order of states: who needs to be looked at comes first. */
static unsigned place_of(const json_t *r)
{
	static const char *const states[] = {"waits", "joins", "failed", "works", "idle"};
	const char *state = cmd_text_of(r, "state");
	unsigned i = 0;

	while (i < sizeof states / sizeof *states && strcmp(states[i], state))
		i++;
	return i;
}

static int order_of(unsigned long long a, unsigned long long b)
{
	return a < b ? -1 : a > b;
}

static int compare(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int order = order_of(place_of(x), place_of(y));

	if (!order) /* whole seconds: those that began to wait together are sorted as others */
		order = order_of(count_of(y, "waited_s"), count_of(x, "waited_s"));
	if (!order)
		order = strcmp(cmd_text_of(x, "job"), cmd_text_of(y, "job"));
	if (!order)
		order = order_of(count_of(x, "rank"), count_of(y, "rank"));
	return order ? order : order_of(count_of(x, "pid"), count_of(y, "pid"));
}

/* ---- cells ---- */

static void put_bytes(char *cell, double bytes)
{
	static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
	unsigned i = 0;

	for (; bytes >= 999.5 && i < 4; i++)
		bytes /= 1000;
	snprintf(cell, CELL_BYTES, i && bytes < 9.95 ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
}

static void put_time(char *cell, double s)
{
	if (s < 0.9995)
		snprintf(cell, CELL_BYTES, "%.0f ms", s * 1000);
	else
		snprintf(cell, CELL_BYTES, s < 99.5 ? "%.1f s" : "%.0f s", s);
}

static void put_ranks(char *cell, const json_t *list, bool hosts)
{
	uint64_t set[FAN_RANK_WORDS] = {0};
	char text[FAN_RANKS_BYTES];

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_int_t rank = json_integer_value(json_array_get(list, i));
		if (rank >= 0 && rank < FAN_RANKS_MAX)
			fan_ranks_set(set, (unsigned)rank);
	}
	const char *what = hosts ? "host of rank" : "rank";
	snprintf(cell, CELL_BYTES, "%s%s %.200s", what, fan_ranks_count(set) == 1 ? "" : "s",
		 fan_ranks_text(set, text, sizeof text));
}

/* Without control characters. */
static void put_text(char *cell, const char *text)
{
	struct fan_text t = fan_text_in(cell, CELL_BYTES);

	fan_text_escaped(&t, *text ? text : "-", *text ? strlen(text) : 1);
}

static void put_waits(char *cell, const json_t *r)
{
	const json_t *missing = json_object_get(r, "missing");
	const char *waits = cmd_text_of(r, "waits"), *error = cmd_text_of(r, "error");
	static const char begins[] = "waits for ";

	if (*error)
		put_text(cell, error);
	else if (json_array_size(missing) && strcmp(cmd_text_of(r, "state"), "works"))
		put_ranks(cell, missing, json_is_true(json_object_get(r, "by_host")));
	else if (!strcmp(cmd_text_of(r, "state"), "works") || !*waits)
		put_text(cell, "-");
	else
		put_text(cell,
			 strncmp(waits, begins, strlen(begins)) ? waits : waits + strlen(begins));
}

static void put_shares(char *cell, const json_t *parts)
{
	const size_t count = json_array_size(parts);
	struct fan_text t = fan_text_in(cell, CELL_BYTES);

	for (size_t i = 0; count > 1 && i < count && i < SHARES_MAX; i++)
		fan_text_add(&t, "%s%.0f", i ? "/" : "",
			     100 * cmd_number_of(json_array_get(parts, i), "share"));
	fan_text_add(&t, "%s", count > SHARES_MAX ? "/..." : count > 1 ? "" : "-");
}

struct row {
	char cell[CELLS][CELL_BYTES];
};

enum { HOST, JOB, RANK, PID, STATE, OPERATION, BYTES, AGE, WAITS, SHARE, RATE, RETRANS };
static const char *const heads[CELLS] = {"HOST",  "JOB", "RANK",      "PID",   "STATE", "OPERATION",
					 "BYTES", "AGE", "WAITS-FOR", "SHARE", "RATE",	"RETRANS"};
static const bool to_the_right[CELLS] = {
	[PID] = true, [BYTES] = true, [AGE] = true, [RATE] = true, [RETRANS] = true};

static void fill(struct row *row, const json_t *r)
{
	const json_t *op = json_array_get(json_object_get(r, "under_way"), 0);
	const json_t *stats = json_object_get(r, "stats"), *net = json_object_get(r, "stats_net");
	const unsigned long long open = count_of(r, "open");
	const double waited = cmd_number_of(r, "waited_s"), age = cmd_number_of(op, "age_s");
	char rate[CELL_BYTES];

	for (unsigned i = 0; i < CELLS; i++)
		snprintf(row->cell[i], CELL_BYTES, "-");
	put_text(row->cell[HOST], cmd_text_of(r, "host"));
	put_text(row->cell[JOB], cmd_text_of(r, "job"));
	snprintf(row->cell[RANK], CELL_BYTES, "%llu/%llu", count_of(r, "rank"),
		 count_of(r, "ranks"));
	snprintf(row->cell[PID], CELL_BYTES, "%llu", count_of(r, "pid"));
	put_text(row->cell[STATE], cmd_text_of(r, "state"));
	put_waits(row->cell[WAITS], r);
	put_shares(row->cell[SHARE], json_object_get(r, "parts"));
	put_bytes(rate, cmd_number_of(r, "rate"));
	snprintf(row->cell[RATE], CELL_BYTES, "%.280s/s", rate);
	snprintf(row->cell[RETRANS], CELL_BYTES, "%llu",
		 count_of(net ? net : stats, "retransmits"));
	if (!op)
		return;
	char more[32] = "", name[CELL_BYTES];
	put_text(name, cmd_text_of(op, "kind"));
	if (open > 1)
		snprintf(more, sizeof more, " +%llu", open - 1);
	snprintf(row->cell[OPERATION], CELL_BYTES, "%.200s%s", name, more);
	put_bytes(row->cell[BYTES], cmd_number_of(op, "bytes"));
	put_time(row->cell[AGE], waited > age ? waited : age);
}

/* ---- the table ---- */

static void print_row(FILE *f, const struct row *row, const int *width, bool hosts)
{
	char line[CELLS * (CELL_BYTES + 2)];
	struct fan_text t = fan_text_in(line, sizeof line);

	for (unsigned i = hosts ? 0 : 1; i < CELLS; i++)
		fan_text_add(&t, to_the_right[i] ? "%*s  " : "%-*s  ", width[i], row->cell[i]);
	while (t.used && line[t.used - 1] == ' ')
		t.used--;
	fprintf(f, "%.*s\n", (int)t.used, line);
}

/* The first row is the head. */
static void fill_line(struct row *row, json_t *const *ranks, unsigned k)
{
	if (k)
		fill(row, ranks[k - 1]);
	for (unsigned i = 0; !k && i < CELLS; i++)
		snprintf(row->cell[i], CELL_BYTES, "%s", heads[i]);
}

static void print_rows(FILE *f, json_t *const *ranks, unsigned count, bool hosts)
{
	struct row row;
	int width[CELLS] = {0};

	for (unsigned k = 0; k <= count; k++) {
		fill_line(&row, ranks, k);
		for (unsigned i = 0; i < CELLS; i++)
			if ((int)strlen(row.cell[i]) > width[i])
				width[i] = (int)strlen(row.cell[i]);
	}
	for (unsigned k = 0; k <= count; k++) {
		fill_line(&row, ranks, k);
		print_row(f, &row, width, hosts);
	}
}

unsigned ps_print(FILE *f, const json_t *found, const char *job, int pid)
{
	const json_t *ranks = json_object_get(found, "ranks");
	const json_t *silent = json_object_get(found, "silent");
	const size_t all = json_array_size(ranks);
	json_t **shown = calloc(all + 1, sizeof(json_t *));
	unsigned count = 0;

	for (size_t i = 0; shown && i < all; i++)
		if (is_shown(json_array_get(ranks, i), job, pid))
			shown[count++] = json_array_get(ranks, i);
	if (count) {
		qsort(shown, count, sizeof(json_t *), compare);
		print_rows(f, shown, count, json_is_true(json_object_get(found, "merged")));
	}
	free(shown);
	if (count_of(found, "left_out"))
		fprintf(f, "and %llu more\n", count_of(found, "left_out"));
	for (size_t i = 0; i < json_array_size(silent); i++)
		fprintf(f, "process %llu does not answer: is it stopped?\n",
			(unsigned long long)json_integer_value(json_array_get(silent, i)));
	return count;
}

/* ---- several hosts ---- */

/* What one host has printed: ranks and silent ones behind the others.  False: it is nothing such.
 */
static bool merge_line(json_t *found, const char *line)
{
	const char *begin = strchr(line, '{'); /* pdsh and others write the host before it */
	json_t *one = begin ? json_loads(begin, 0, NULL) : NULL;
	const json_t *silent = json_object_get(one, "silent");
	const size_t before = json_array_size(json_object_get(found, "ranks"));
	json_t *about = json_pack("{s:s}", "host", cmd_text_of(one, "host"));
	const bool is_one = ps_add(found, one, about, (unsigned)(MERGE_RANKS - before));

	for (size_t i = 0; i < json_array_size(silent) && i < SILENT_MAX; i++)
		json_array_append(json_object_get(found, "silent"), json_array_get(silent, i));
	json_decref(about);
	json_decref(one);
	return is_one;
}

json_t *ps_merge(FILE *f, char *why)
{
	json_t *found = json_pack("{s:b, s:s, s:o, s:o}", "merged", 1, "host", "several", "ranks",
				  json_array(), "silent", json_array());
	char *text = ps_read(f, MERGE_BYTES);
	unsigned number = 1;

	*why = '\0';
	if (!text || strlen(text) >= MERGE_BYTES)
		snprintf(why, ARGS_WHY_BYTES, "standard input: expected less than %u MiB of text",
			 MERGE_BYTES >> 20);
	for (char *line = text, *next; line && !*why; line = next, number++) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (line[strspn(line, " \t\r")] && !merge_line(found, line))
			snprintf(why, ARGS_WHY_BYTES,
				 "standard input:%u: expected a line of `fanin ps --json`", number);
	}
	free(text);
	if (!*why)
		return found;
	json_decref(found);
	return NULL;
}

/* ---- the aggregators of a job ---- */

static void print_aggregator(FILE *f, const json_t *a)
{
	const json_t *jobs = json_object_get(a, "jobs"), *inside = json_object_get(a, "inside");
	char at[CELL_BYTES], in[CELL_BYTES] = "-", job[CELL_BYTES], state[CELL_BYTES];

	put_text(at, cmd_text_of(a, "at"));
	if (json_is_integer(inside) && json_integer_value(inside) >= 0)
		snprintf(in, sizeof in, "rank %llu",
			 (unsigned long long)json_integer_value(inside));
	for (size_t i = 0; i < json_array_size(jobs); i++) {
		const json_t *j = json_array_get(jobs, i);
		const json_t *missing = json_object_get(j, "missing");
		char waits[CELL_BYTES] = "-", who[CELL_BYTES] = "-", age[CELL_BYTES] = "-";
		put_text(job, cmd_text_of(j, "job"));
		put_text(state, cmd_text_of(j, "state"));
		if (json_array_size(missing))
			put_ranks(waits, missing, json_is_true(json_object_get(j, "by_host")));
		if (json_array_size(json_object_get(j, "waits")) && json_array_size(missing))
			put_ranks(who, json_object_get(j, "waits"),
				  json_is_true(json_object_get(j, "by_host")));
		if (json_object_get(j, "age_s"))
			put_time(age, cmd_number_of(j, "age_s"));
		fprintf(f, "%-22s %-9s %-24s %-8s %5llu %5llu %7s  %-24s  %s\n", at, in, job, state,
			count_of(j, "operations"), count_of(j, "open"), age, waits, who);
	}
	if (!json_array_size(jobs))
		fprintf(f, "%-22s %-9s %s\n", at, in,
			json_is_true(json_object_get(a, "answers")) ? "does not have the job"
								    : "does not answer");
}

static void print_aggregators(FILE *f, const json_t *all)
{
	if (json_array_size(all))
		fprintf(f, "\n%-22s %-9s %-24s %-8s %5s %5s %7s  %-24s  %s\n", "AGGREGATOR",
			"INSIDE", "JOB", "STATE", "OPS", "OPEN", "AGE", "WAITS-FOR", "WHO-WAITS");
	for (size_t i = 0; i < json_array_size(all); i++)
		print_aggregator(f, json_array_get(all, i));
}

/* ---- again and again ---- */

/* At the top of the terminal, as much as it has room for. */
static void draw(const char *text)
{
	const struct winsize w = top_live_size();
	unsigned row = 0;

	printf("\033[H");
	for (const char *end; (end = strchr(text, '\n')) && row < w.ws_row; text = end + 1)
		printf("%s%.*s\033[K", row++ ? "\r\n" : "",
		       end - text < w.ws_col ? (int)(end - text) : w.ws_col, text);
	printf("\033[J");
	fflush(stdout);
}

static int print_once(struct top_live *live, const json_t *found)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	if (!f)
		return -1;
	fprintf(f, "fanin top: ranks of this host, of %s user%s%s\n", geteuid() ? "this" : "any",
		live ? "   q: quit" : "", "; of a switch: --switch ADDR:PORT");
	if (!ps_print(f, found, "", 0))
		fprintf(f, "no ranks\n");
	if (fclose(f)) {
		free(text);
		return -1;
	}
	if (live)
		draw(text);
	else
		fputs(text, stdout);
	free(text);
	return fflush(stdout) ? -1 : 0;
}

int ps_top(int interval_s, bool once, const char *json)
{
	const bool out = !strcmp(json, "-");
	struct top_live *live = once || out ? NULL : top_live_open("");
	uint64_t next_ns = fan_clock_ns();
	char why[ARGS_WHY_BYTES] = "cannot write";
	int e = 0;

	do {
		json_t *found = ps_collect(why);
		e = found ? 0 : -1;
		if (found)
			ps_complete(found);
		if (found && *json)
			e = cmd_write_json("top", json, json_incref(found), JSON_INDENT(2));
		if (found && !e && !out)
			e = print_once(live, found);
		json_decref(found);
		next_ns += (uint64_t)interval_s * 1000 * FAN_MS;
		if (e || once)
			break;
		if (!live)
			poll(NULL, 0, fan_clock_timeout_ms(next_ns, -1));
		enum top_live_key key = TOP_LIVE_AGAIN;
		while (live && key == TOP_LIVE_AGAIN)
			key = top_live_wait(live, next_ns);
		if (key == TOP_LIVE_QUIT)
			break;
	} while (true);
	top_live_close(live);
	if (e)
		fprintf(stderr, "fanin top: %s\n", why);
	return e ? 1 : 0;
}

/* ---- the command ---- */

static int tell_nothing(const struct ps_args *a)
{
	if (*a->job || a->pid)
		fprintf(stderr, "fanin ps: no such ranks here\n");
	else
		fprintf(stderr,
			"fanin ps: no ranks%s run here. A process is seen from its first "
			"communicator on, unless FANIN_PS=0 is set; of another user, by root alone; in "
			"a container with a network of its own, from inside.\n",
			geteuid() ? " of this user" : "");
	return 1;
}

/* Leave out what was not asked for. */
static void keep(json_t *found, const struct ps_args *a)
{
	json_t *ranks = json_object_get(found, "ranks");

	for (size_t i = json_array_size(ranks); i > 0; i--) {
		const json_t *r = json_array_get(ranks, i - 1);
		const bool wanted =
			(!*a->job || !strcmp(cmd_text_of(r, "job"), a->job)) &&
			(!a->pid || json_integer_value(json_object_get(r, "pid")) == a->pid);
		if (!wanted)
			json_array_remove(ranks, i - 1);
	}
}

int cmd_ps(int argc, char **argv)
{
	struct ps_args a = {.pid = 0};
	char why[ARGS_WHY_BYTES] = "out of memory";

	args_parse(&command, &a, argc, argv);
	if (a.all_hosts && (!*a.job || a.merge)) {
		fprintf(stderr, "fanin ps: --all-hosts: expected --job JOB with it%s\n",
			a.merge ? ", and no --merge" : "");
		return 2;
	}
	json_t *found = a.merge ? ps_merge(stdin, why) : ps_collect(why);
	if (!found) {
		fprintf(stderr, "fanin ps: %s\n", why);
		return 1;
	}
	if (!a.merge)
		ps_complete(found);
	if (a.all_hosts)
		ps_ask_aggregators(found, a.job);
	int e = 0;
	if (a.json) {
		keep(found, &a);
		e = json_dumpf(found, stdout, JSON_COMPACT | JSON_ENSURE_ASCII) ||
		    putchar('\n') == EOF;
	} else if (!ps_print(stdout, found, a.job, a.pid) &&
		   !json_array_size(json_object_get(found, "silent"))) {
		e = tell_nothing(&a);
	} else {
		print_aggregators(stdout, json_object_get(found, "aggregators"));
	}
	json_decref(found);
	return e;
}

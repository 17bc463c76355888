/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/rank_set.h"
#include "net/clock.h"
#include "net/logline.h"
#include "top.h"

#define WHERE_BYTES 96
#define NS_PER_S    1e9
#define NAME_WIDTH  24
#define LINE_BYTES  1024
#define STANDS_MS   1000 /* without a result, though fragments are open */
#define SEQUENCE_MS 20	 /* in which the rest of an arrow key arrives */

/* A job over all shards. */
struct row {
	char name[FAN_NAME_MAX * 4 + 1]; /* escaped */
	/* ready, with the same oldest fragments as last time, or without a result for STANDS_MS */
	bool stands;
	unsigned state, shards, ranks;
	uint32_t age_ms; /* the most that a shard tells */
	uint64_t open, results, replays, held, collisions, completions;
	uint64_t oldest;	      /* the sum over shards that tell it; 0: none does */
	uint64_t oldest_ns;	      /* since when that is so, as seen here */
	double rate, again, collided; /* a second */
	uint64_t missing[FAN_RANK_WORDS];
};

enum column { BY_NAME, BY_RATE, BY_OPEN, BY_HELD, BY_AGAIN, COLUMNS };
static const char *const column_text[COLUMNS] = {"job", "results/s", "open", "slots", "again/s"};

struct top_live {
	char where[WHERE_BYTES];
	bool raw;
	struct termios before;
	struct metrics_jobs jobs; /* as asked last */
	json_t *ranks;
	uint64_t now_ns;
	struct row row[TOP_LIVE_ROWS_MAX];
	unsigned rows, left_out;
	enum column by;
	bool reversed, inside;
	unsigned selected;
	char chosen[FAN_NAME_MAX * 4 + 1]; /* the name of the selected row */
};

static volatile sig_atomic_t ended;

static void note_signal(int signal)
{
	(void)signal;
	ended = 1;
}

/* ---- rows ---- */

static struct row *row_of(struct top_live *l, const char *name, size_t bytes)
{
	struct fan_line text = {.used = 0};

	fan_line_escaped(&text, name, bytes);
	for (unsigned i = 0; i < l->rows; i++)
		if (strncmp(l->row[i].name, text.text, sizeof l->row[i].name - 1) == 0)
			return &l->row[i];
	if (l->rows == TOP_LIVE_ROWS_MAX) {
		l->left_out++;
		return NULL;
	}
	struct row *r = &l->row[l->rows++];
	*r = (struct row){.state = FAN_JOB_NONE};
	snprintf(r->name, sizeof r->name, "%.*s", (int)sizeof r->name - 1, text.text);
	return r;
}

static void add_job(struct top_live *l, const struct fan_report *j)
{
	struct row *r = row_of(l, j->name, j->name_bytes);

	if (!r)
		return;
	r->state = j->state > r->state ? j->state : r->state; /* `failed` is the largest */
	r->shards++;
	r->ranks = j->ranks;
	r->open += j->waiting;
	if (j->waiting && j->oldest != UINT64_MAX)
		r->oldest += j->oldest + 1;
	if (j->waiting && j->age_ms != FAN_AGE_NOT_TOLD && j->age_ms > r->age_ms)
		r->age_ms = j->age_ms;
	r->results += j->results;
	r->replays += j->replays;
	for (unsigned w = 0; w < FAN_RANK_WORDS; w++)
		r->missing[w] |= j->missing[w];
}

static void add_slots(struct top_live *l, const struct fan_slot_stats *s)
{
	struct row *r = row_of(l, s->name, s->name_bytes);

	if (!r)
		return;
	r->held += s->held;
	r->collisions += s->collisions;
	r->completions += s->completions;
}

static double per_second(uint64_t now, uint64_t before, double seconds)
{
	return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static int compare(const struct top_live *l, const struct row *a, const struct row *b)
{
	double x = 0, y = 0;

	switch (l->by) {
	case BY_RATE: x = a->rate, y = b->rate; break;
	case BY_OPEN: x = (double)a->open, y = (double)b->open; break;
	case BY_HELD: x = (double)a->held, y = (double)b->held; break;
	case BY_AGAIN: x = a->again, y = b->again; break;
	default: break;
	}
	if (a->stands != b->stands) /* who waits is what is looked for */
		return a->stands ? -1 : 1;
	int order = x > y ? -1 : x < y ? 1 : strcmp(a->name, b->name);
	return l->reversed ? -order : order;
}

/* At most TOP_LIVE_ROWS_MAX of them; qsort has no room for what they are sorted by. */
static void sort(struct top_live *l)
{
	for (unsigned i = 1; i < l->rows; i++) {
		struct row r = l->row[i];
		unsigned k = i;
		for (; k > 0 && compare(l, &r, &l->row[k - 1]) < 0; k--)
			l->row[k] = l->row[k - 1];
		l->row[k] = r;
	}
	for (unsigned i = 0; i < l->rows; i++)
		if (*l->chosen && strcmp(l->row[i].name, l->chosen) == 0)
			l->selected = i;
}

void top_live_take(struct top_live *l, uint64_t now_ns, struct metrics_jobs *jobs,
		   const json_t *ranks)
{
	static struct row before[TOP_LIVE_ROWS_MAX];
	unsigned count = l->rows;
	double seconds = l->now_ns ? (double)(now_ns - l->now_ns) / NS_PER_S : 0;

	memcpy(before, l->row, count * sizeof *before);
	metrics_jobs_free(&l->jobs);
	l->jobs = *jobs;
	*jobs = (struct metrics_jobs){0};
	json_decref(l->ranks);
	l->ranks = json_deep_copy(ranks);
	l->now_ns = now_ns;
	l->rows = l->left_out = 0;
	for (unsigned i = 0; i < l->jobs.jobs; i++)
		add_job(l, &l->jobs.job[i].report);
	for (unsigned i = 0; i < l->jobs.slot_jobs; i++)
		add_slots(l, &l->jobs.slots[i].slots);
	for (unsigned i = 0; i < l->rows; i++) {
		struct row *r = &l->row[i];
		r->oldest_ns = now_ns;
		r->stands = r->state == FAN_JOB_READY && r->age_ms >= STANDS_MS;
		for (unsigned k = 0; k < count; k++) {
			const struct row *b = &before[k];
			if (strcmp(b->name, r->name) != 0)
				continue;
			if (r->oldest && r->oldest == b->oldest)
				r->oldest_ns = b->oldest_ns;
			r->stands |= r->state == FAN_JOB_READY && r->open && r->oldest &&
				     r->oldest == b->oldest && r->results == b->results;
			r->rate = per_second(r->shards ? r->results : r->completions,
					     b->shards ? b->results : b->completions, seconds);
			r->again = per_second(r->replays, b->replays, seconds);
			r->collided = per_second(r->collisions, b->collisions, seconds);
		}
	}
	sort(l);
}

/* ---- drawing ---- */

/* Lines of a screen. */
struct screen {
	FILE *f;
	unsigned lines, columns, used;
};

__attribute__((format(printf, 3, 4))) static void line(struct screen *s, bool marked,
						       const char *format, ...)
{
	char text[LINE_BYTES];
	va_list args;

	if (s->used >= s->lines)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(s->f, "%s%s%.*s%s\033[K", s->used++ ? "\r\n" : "", marked ? "\033[7m" : "",
		(int)s->columns, text, marked ? "\033[0m" : "");
}

const char *top_live_age(const struct fan_report *r, char *text)
{
	if (!r->waiting || r->age_ms == FAN_AGE_NOT_TOLD)
		snprintf(text, TOP_LIVE_AGE_BYTES, "-");
	else if (r->age_ms < 1000)
		snprintf(text, TOP_LIVE_AGE_BYTES, "%u ms", (unsigned)r->age_ms);
	else
		snprintf(text, TOP_LIVE_AGE_BYTES, "%.0f s", r->age_ms / 1000.0);
	return text;
}

/* For whom it waits, and how long for the same fragments: as it tells, or for at least as long as
 * is seen here. */
static void waits_text(const struct top_live *l, const struct row *r, char *text, size_t bytes)
{
	char ranks[FAN_RANKS_BYTES], since[32] = "";
	const double seen_s = r->oldest ? (double)(l->now_ns - r->oldest_ns) / NS_PER_S : 0;
	const double age_s = seen_s > r->age_ms / 1000.0 ? seen_s : r->age_ms / 1000.0;
	bool waits = r->state == FAN_JOB_FAILED || r->state == FAN_JOB_FORMING || r->open;

	fan_ranks_text(r->missing, ranks, sizeof ranks);
	if (r->open && age_s >= 1)
		snprintf(since, sizeof since, " for %.0f s", age_s);
	snprintf(text, bytes, "%s%.200s%s", r->state == FAN_JOB_FAILED ? "blamed " : "",
		 waits ? ranks : "nobody", since);
}

/* "job/1!4" is part 1 of a job that goes on without some of its switches (lib/rank/regroup.h). */
static void title_of(const char *name, char *text, size_t bytes)
{
	const char *mark = strrchr(name, '!'), *slash = mark;

	while (slash && slash > name && isdigit((unsigned char)slash[-1]))
		slash--;
	const bool part = mark && slash < mark && slash > name + 1 && slash[-1] == '/';
	if (part)
		snprintf(text, bytes, "%.*s (part %.*s)", (int)(slash - 1 - name), name,
			 (int)(mark - slash), slash);
	else
		snprintf(text, bytes, "%.*s%s",
			 mark && mark > name ? (int)(mark - name) : (int)bytes, name,
			 mark && mark > name ? " (part 0)" : "");
}

static const char *state_text(const struct row *r)
{
	return r->stands ? "waits" : r->state ? fan_job_state_text(r->state) : "seen";
}

static void print_rows(const struct top_live *l, struct screen *s)
{
	unsigned room = s->lines > s->used + 3 ? s->lines - s->used - 3 : 1;
	unsigned first = l->selected >= room ? l->selected - room + 1 : 0;

	line(s, false, "%-*s %-8s %5s %10s %9s %7s %8s %8s  %s", NAME_WIDTH, "job", "state",
	     "ranks", "results/s", "open", "slots", "coll/s", "again/s", "waits for rank");
	for (unsigned i = first; i < l->rows && i < first + room; i++) {
		const struct row *r = &l->row[i];
		char waits[FAN_RANKS_BYTES], title[FAN_LINE_BYTES + 16];
		waits_text(l, r, waits, sizeof waits);
		title_of(r->name, title, sizeof title);
		line(s, i == l->selected,
		     "%-*.*s %-8s %5u %10.0f %9" PRIu64 " %7" PRIu64 " %8.0f %8.0f  %s", NAME_WIDTH,
		     NAME_WIDTH, title, state_text(r), r->ranks, r->rate, r->open, r->held,
		     r->collided, r->again, waits);
	}
	if (!l->rows)
		line(s, false, "no jobs");
	if (l->left_out)
		line(s, false, "and %u more", l->left_out);
}

static bool is_named(const char *name, size_t bytes, const char *escaped)
{
	struct fan_line text = {.used = 0};

	fan_line_escaped(&text, name, bytes);
	return strcmp(text.text, escaped) == 0;
}

/* "-": no fragment is open, or strangers are not told which is the oldest. */
static const char *oldest_text(const struct fan_report *r, char *text, size_t bytes)
{
	const bool known = r->waiting && r->oldest != UINT64_MAX;

	snprintf(text, bytes, known ? "%" PRIu64 : "-", known ? r->oldest : 0);
	return text;
}

static void print_shards(const struct top_live *l, struct screen *s, const char *name)
{
	line(s, false, "%5s %-8s %6s %12s %9s %9s %8s %12s %8s  %s", "shard", "state", "window",
	     "results", "replays", "by", "open", "oldest", "age", "waits for rank");
	for (unsigned i = 0; i < l->jobs.jobs; i++) {
		const struct fan_report *j = &l->jobs.job[i].report;
		char ranks[FAN_RANKS_BYTES], oldest[24], age[TOP_LIVE_AGE_BYTES];
		if (!is_named(j->name, j->name_bytes, name))
			continue;
		fan_ranks_text(j->missing, ranks, sizeof ranks);
		line(s, false, "%5u %-8s %6u %12" PRIu64 " %9" PRIu64 " %9s %8u %12s %8s  %s",
		     l->jobs.job[i].shard, fan_job_state_text(j->state), j->window, j->results,
		     j->replays, j->multicast ? "multicast" : "unicast", j->waiting,
		     oldest_text(j, oldest, sizeof oldest), top_live_age(j, age),
		     j->state == FAN_JOB_FAILED ? fan_err_text(j->err) : ranks);
	}
	for (unsigned i = 0; i < l->jobs.slot_jobs; i++) {
		const struct fan_slot_stats *t = &l->jobs.slots[i].slots;
		if (is_named(t->name, t->name_bytes, name))
			line(s, false,
			     "%5u shared slots: holds %u of %u, quota %u; hits %" PRIu64
			     ", collisions %" PRIu64 ", evicted %" PRIu64 ", unsummed %" PRIu64,
			     l->jobs.slots[i].shard, t->held, t->slots, t->quota, t->hits,
			     t->collisions, t->evictions, t->passed);
	}
}

/* Of a job whose ranks run ahead of each other. */
static void print_ranks(const struct top_live *l, struct screen *s, const char *name)
{
	bool begun = false;

	for (size_t i = 0; i < json_array_size(l->ranks); i++) {
		const json_t *r = json_array_get(l->ranks, i);
		const char *job = json_string_value(json_object_get(r, "job"));
		if (!job || strcmp(job, name) != 0)
			continue;
		if (!begun)
			line(s, false, "%5s %5s %8s %8s %9s %9s", "shard", "rank", "behind", "most",
			     "deferred", "lent");
		begun = true;
		line(s, false, "%5d %5d %8d %8d %9d %9d",
		     (int)json_integer_value(json_object_get(r, "shard")),
		     (int)json_integer_value(json_object_get(r, "rank")),
		     (int)json_integer_value(json_object_get(r, "behind")),
		     (int)json_integer_value(json_object_get(r, "behind_most")),
		     (int)json_integer_value(json_object_get(r, "deferred")),
		     (int)json_integer_value(json_object_get(r, "lent")));
	}
}

bool top_live_sees_less(const struct fan_report *r)
{
	return r->waiting && r->oldest == UINT64_MAX;
}

static bool sees_less(const struct top_live *l)
{
	bool less = false;

	for (unsigned i = 0; i < l->jobs.jobs; i++)
		less |= top_live_sees_less(&l->jobs.job[i].report);
	return less;
}

void top_live_print(const struct top_live *l, FILE *f, unsigned lines, unsigned columns)
{
	struct screen s = {f, lines, columns, 0};

	fprintf(f, "\033[H");
	if (l->inside && l->selected < l->rows) {
		const char *name = l->row[l->selected].name;
		line(&s, false, "fanin top: switch %s, job %s", l->where, name);
		line(&s, false, "escape: all jobs   q: quit");
		print_shards(l, &s, name);
		print_ranks(l, &s, name);
	} else {
		line(&s, false, "fanin top: switch %s, %u jobs by %s%s", l->where,
		     l->rows + l->left_out, column_text[l->by],
		     sees_less(l) ? TOP_LIVE_STRANGER : "");
		line(&s, false,
		     "up, down, enter: open a job   s: sort by another column   r: reverse   q: "
		     "quit");
		print_rows(l, &s);
	}
	fprintf(f, "\033[J");
}

struct winsize top_live_size(void)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col)
		w = (struct winsize){.ws_row = 24, .ws_col = 80};
	return w;
}

void top_live_draw(struct top_live *l)
{
	const struct winsize w = top_live_size();

	top_live_print(l, stdout, w.ws_row, w.ws_col);
	fflush(stdout);
}

/* ---- keys ---- */

static void move_to(struct top_live *l, unsigned row)
{
	if (row >= l->rows)
		return;
	l->selected = row;
	snprintf(l->chosen, sizeof l->chosen, "%s", l->row[row].name);
}

enum top_live_key top_live_heed(struct top_live *l, int c)
{
	switch (c) {
	case 'q':
	case 3: return TOP_LIVE_QUIT; /* control C */
	case 'k': move_to(l, l->selected - 1); break;
	case 'j': move_to(l, l->selected + 1); break;
	case '\r':
	case '\n':
		move_to(l, l->selected);
		l->inside = l->rows > 0;
		break;
	case 27:
	case 'h': l->inside = false; break;
	case 's':
		l->by = (l->by + 1) % COLUMNS;
		sort(l);
		break;
	case 'r':
		l->reversed = !l->reversed;
		sort(l);
		break;
	default: return TOP_LIVE_TIME;
	}
	return TOP_LIVE_AGAIN;
}

/* A key, with arrows as the letters beside; -1: none by then. */
static int read_key(uint64_t by_ns)
{
	struct pollfd p = {STDIN_FILENO, POLLIN, 0};
	unsigned char c[3] = {0};

	if (poll(&p, 1, fan_clock_timeout_ms(by_ns, -1)) <= 0 || read(STDIN_FILENO, c, 1) != 1)
		return -1;
	if (c[0] != 27 || poll(&p, 1, SEQUENCE_MS) <= 0 || read(STDIN_FILENO, c + 1, 2) != 2)
		return c[0];
	return c[2] == 'A' ? 'k' : c[2] == 'B' ? 'j' : c[2] == 'C' ? '\r' : c[2] == 'D' ? 'h' : 0;
}

enum top_live_key top_live_wait(struct top_live *l, uint64_t by_ns)
{
	while (!ended) {
		int c = read_key(by_ns);
		if (c < 0 && fan_clock_ns() >= by_ns)
			return TOP_LIVE_TIME;
		if (c < 0 && errno == EINTR)
			return ended ? TOP_LIVE_QUIT : TOP_LIVE_AGAIN; /* another size */
		if (c < 0)
			return TOP_LIVE_QUIT; /* standard input has ended */
		enum top_live_key k = top_live_heed(l, c);
		if (k != TOP_LIVE_TIME)
			return k;
	}
	return TOP_LIVE_QUIT;
}

/* ---- the terminal ---- */

struct top_live *top_live_new(const char *where)
{
	struct top_live *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	snprintf(l->where, sizeof l->where, "%s", where);
	l->by = BY_RATE;
	return l;
}

struct top_live *top_live_open(const char *where)
{
	struct sigaction act = {.sa_handler = note_signal};
	struct termios raw;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &raw))
		return NULL;
	struct top_live *l = top_live_new(where);
	if (!l)
		return NULL;
	l->before = raw;
	l->raw = true;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	raw.c_iflag &= ~(tcflag_t)ICRNL;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	printf("\033[?1049h\033[?25l"); /* the other screen, no cursor */
	fflush(stdout);
	return l;
}

void top_live_close(struct top_live *l)
{
	if (!l)
		return;
	if (l->raw) {
		printf("\033[?25h\033[?1049l");
		fflush(stdout);
		tcsetattr(STDIN_FILENO, TCSANOW, &l->before);
	}
	metrics_jobs_free(&l->jobs);
	json_decref(l->ranks);
	free(l);
}

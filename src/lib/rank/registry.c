/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/config.h"
#include "lib/base/rank_file.h"
#include "net/clock.h"
#include "net/logline.h"
#include "rank.h"

#define VERSION	    1 /* of a status file */
#define NAP_MIN_NS  (FAN_MS / 10)
#define NAP_MAX_NS  (5 * FAN_MS)
#define NS_PER_S    1e9
#define ENTRY_TURNS (FAN_REGISTRY_TURNS + 1)

/* A rank; what its tensors were, turn by turn, a ring; and how long it has not moved. */
struct entry {
	struct fan_rank *rank;
	unsigned turns;
	uint64_t at_ns[ENTRY_TURNS], bytes[ENTRY_TURNS];
	uint64_t ops, fragments; /* of the last turn */
	uint64_t still_ns;	 /* since when these are so with operations under way */
	uint64_t asked_ns;	 /* it was asked for whom it waits; 0: not yet */
	bool reported;		 /* it has reported that */
};

/* The thread, with its status file; `file` changes with the registry's `lock` held. */
struct teller {
	pthread_t thread;
	int events, wake; /* epoll of `wake`, which ends its wait, and `file.watch` */
	struct fan_status_file file;
	bool asked; /* somebody looks at the file: it is to be written */
	uint64_t written_ns;
	atomic_bool ends;
	atomic_int state;
};

enum { RUNS, LEFT, DONE }; /* LEFT: nobody waits for the thread, which frees its teller */

/* `life` is held while a thread is begun or taken away; `lock` while `entry` is used; `telling`
 * while the program's function runs.  A holder of one of the first two waits only for the holder of
 * the second: a program may hold its own lock, as Python's, while it forks. */
static struct {
	pthread_mutex_t life, lock, telling;
	struct entry *entry[FAN_REGISTRY_MAX];
	unsigned entries;
	unsigned more;		 /* ranks for which there was no entry */
	struct teller *teller;	 /* NULL: there is none */
	fan_registry_tell *tell; /* NULL: the program wants no reports */
	void *tell_arg;
	atomic_int tell_ms; /* FAN_REGISTRY_TELL_MS, but for tests */
} registry = {.tell_ms = FAN_REGISTRY_TELL_MS,
	      .life = PTHREAD_MUTEX_INITIALIZER,
	      .lock = PTHREAD_MUTEX_INITIALIZER,
	      .telling = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- fork ---- */

static void free_teller(struct teller *t)
{
	if (t->file.watch >= 0)
		close(t->file.watch);
	if (t->wake >= 0)
		close(t->wake);
	if (t->events >= 0)
		close(t->events);
	free(t);
}

static void before_fork(void)
{
	pthread_mutex_lock(&registry.life);
	pthread_mutex_lock(&registry.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&registry.lock);
	pthread_mutex_unlock(&registry.life);
}

/* The ranks are the parent's, and so is the thread. */
static void in_child(void)
{
	for (unsigned i = 0; i < registry.entries; i++)
		free(registry.entry[i]);
	registry.entries = registry.more = 0;
	if (registry.teller)
		free_teller(registry.teller);
	registry.teller = NULL;
	pthread_mutex_init(&registry.telling, NULL); /* whoever had it is not here */
	after_fork();
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- reports ---- */

static void nap(uint64_t ns)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static uint64_t snapshot_ns(const struct fan_rank *r)
{
	pthread_mutex_lock((pthread_mutex_t *)&r->lock);
	const uint64_t at_ns = r->shown.snapshot.at_ns;
	pthread_mutex_unlock((pthread_mutex_t *)&r->lock);
	return at_ns;
}

static bool all_told(uint64_t since_ns)
{
	bool all = true;
	pthread_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.entries && all; i++)
		all = snapshot_ns(registry.entry[i]->rank) >= since_ns;
	pthread_mutex_unlock(&registry.lock);
	return all;
}

/* Ask every rank for its state, and wait for a bounded time. */
static void ask_all(const struct teller *t)
{
	const uint64_t begin_ns = fan_clock_ns(), by_ns = begin_ns + FAN_REGISTRY_ASK_MS * FAN_MS;
	uint64_t nap_ns = NAP_MIN_NS;
	pthread_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.entries; i++)
		registry.entry[i]->rank->kind->look(registry.entry[i]->rank);
	pthread_mutex_unlock(&registry.lock);
	while (!all_told(begin_ns) && fan_clock_ns() < by_ns && !atomic_load(&t->ends)) {
		nap(nap_ns);
		nap_ns = 2 * nap_ns < NAP_MAX_NS ? 2 * nap_ns : NAP_MAX_NS;
	}
}

/* As fan_rank_read_stats, which needs more of a rank than this may. */
static struct fanin_stats stats_of(const struct fan_rank *r)
{
	pthread_mutex_lock((pthread_mutex_t *)&r->lock);
	const struct fanin_stats s = r->shown.stats;
	pthread_mutex_unlock((pthread_mutex_t *)&r->lock);
	return s;
}

/* Bytes a second of `e` since its oldest turn that is kept, or 0; and over what time. */
static double rate_of(const struct entry *e, uint64_t now_ns, double *over_s)
{
	const unsigned oldest = e->turns > FAN_REGISTRY_TURNS ? e->turns - FAN_REGISTRY_TURNS : 0;
	const uint64_t since_ns = e->turns ? e->at_ns[oldest % ENTRY_TURNS] : now_ns;
	*over_s = 0;
	if (now_ns <= since_ns)
		return 0;
	*over_s = (double)(now_ns - since_ns) / NS_PER_S;
	return (double)(stats_of(e->rank).bytes - e->bytes[oldest % ENTRY_TURNS]) / *over_s;
}

static json_t *ranks_json(void)
{
	json_t *ranks = json_array();
	const uint64_t now_ns = fan_clock_ns();
	pthread_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.entries; i++) {
		double over_s;
		const double rate = rate_of(registry.entry[i], now_ns, &over_s);
		json_array_append_new(ranks,
				      fan_rank_tell(registry.entry[i]->rank, now_ns, rate, over_s));
	}
	pthread_mutex_unlock(&registry.lock);
	return ranks;
}

/* One line, which the caller frees; NULL: out of memory. */
static char *status_text(void)
{
	char version[32];
	snprintf(version, sizeof version, "%d.%d.%d", FANIN_VERSION_MAJOR, FANIN_VERSION_MINOR,
		 FANIN_VERSION_PATCH);
	json_t *j =
		json_pack("{s:i, s:i, s:o, s:s, s:i, s:o}", "version", VERSION, "pid",
			  (int)getpid(), "program", fan_json_text(program_invocation_short_name),
			  "library", version, "more", (int)registry.more, "ranks", ranks_json());
	char *text = json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(j);
	return text;
}

/* ---- ranks that wait ---- */

/* After so long without progress a rank reports its wait; before the operation ends with that
 * error.  UINT64_MAX: never, since that comes soon. */
static uint64_t patience_ns(const struct fan_rank *r)
{
	const int end_ms = r->cfg.timeout_ms - FAN_REGISTRY_BEFORE_END_MS;
	if (r->column.global || end_ms < FAN_REGISTRY_TELL_LEAST_MS)
		return UINT64_MAX;
	const int tell_ms = atomic_load(&registry.tell_ms);
	return (uint64_t)(end_ms < tell_ms ? end_ms : tell_ms) * FAN_MS;
}

/* With the lock held: does the rank of `e` have to report its wait, once?  True:
 * it is in `text`. */
static bool has_waited(struct entry *e, const struct fanin_stats *s, uint64_t now_ns, char *text,
		       size_t bytes)
{
	const bool moves = !atomic_load(&e->rank->ops_open) || s->ops != e->ops ||
			   s->fragments != e->fragments || atomic_load(&e->rank->error);
	e->ops = s->ops;
	e->fragments = s->fragments;
	if (moves) {
		e->still_ns = now_ns;
		e->asked_ns = 0;
		e->reported = false;
		return false;
	}
	if (e->reported || now_ns - e->still_ns < patience_ns(e->rank))
		return false;
	if (!e->asked_ns) {
		e->asked_ns = now_ns;
		e->rank->kind->look(e->rank);
		return false; /* it is reported at the next turn */
	}
	e->reported = fan_rank_wait_sentence(e->rank, e->asked_ns, text, bytes);
	if (!e->reported) /* it has moved, by less than an operation, or its thread has no time */
		e->asked_ns = 0;
	return e->reported;
}

/* Note how far each rank is.  True: one has waited for long, with `text`; others are reported at
 * the next turns. */
static bool take_turn(uint64_t now_ns, char *text, size_t bytes)
{
	bool waited = false;
	pthread_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.entries; i++) {
		struct entry *e = registry.entry[i];
		const struct fanin_stats s = stats_of(e->rank);
		e->at_ns[e->turns % ENTRY_TURNS] = now_ns;
		e->bytes[e->turns % ENTRY_TURNS] = s.bytes;
		e->turns++;
		waited = waited || has_waited(e, &s, now_ns, text, bytes);
	}
	pthread_mutex_unlock(&registry.lock);
	return waited;
}

static void call_program(const char *text)
{
	pthread_mutex_lock(&registry.telling);
	if (registry.tell)
		registry.tell(registry.tell_arg, text);
	pthread_mutex_unlock(&registry.telling);
}

void fan_registry_tell_to(fan_registry_tell *tell, void *arg)
{
	pthread_mutex_lock(&registry.telling);
	registry.tell = tell;
	registry.tell_arg = arg;
	pthread_mutex_unlock(&registry.telling);
}

/* ---- the status file ---- */

/* Wait for readers, and then show them a file, which is empty until one looks. */
static int show_file(struct teller *t, const struct fan_status_file *file)
{
	struct epoll_event looks = {.events = EPOLLIN | EPOLLET}, earlier;
	if (epoll_ctl(t->events, EPOLL_CTL_ADD, file->watch, &looks))
		return errno;
	epoll_wait(t->events, &earlier, 1, 0); /* of who looked at others */
	return fan_status_write(file, "", 0);
}

static void fail_file(int e, const char *where)
{
	char why[FAN_CONFIG_WHY_BYTES], cause[160];
	snprintf(why, sizeof why, "fanin ps will not see this process: %.300s: %s", where,
		 fan_files_strerror(e, cause, sizeof cause));
	fan_rank_file_fail(FAN_RANK_FILE_STATUS, why);
}

static void open_file(struct teller *t)
{
	char where[FAN_STATUS_PATH_BYTES];
	struct fan_status_file file;
	int e = fan_status_open(&file);
	if (!e)
		e = show_file(t, &file);
	if (!e) {
		pthread_mutex_lock(&registry.lock);
		t->file = file;
		pthread_mutex_unlock(&registry.lock);
		return;
	}
	fan_status_path(&file, where);
	fail_file(e, where);
	if (file.watch >= 0)
		close(file.watch);
}

/* Make another where somebody has removed the folder's files, as a cleaner of /tmp does. */
static void renew_file(struct teller *t)
{
	struct stat st; /* of the FIFO: without it no reader reaches this process */
	if (t->file.watch < 0 || fstat(t->file.watch, &st) || st.st_nlink)
		return;
	pthread_mutex_lock(&registry.lock);
	close(t->file.watch); /* leaves `events` */
	t->file.watch = -1;
	pthread_mutex_unlock(&registry.lock);
	open_file(t);
}

static void write_file(struct teller *t)
{
	char path[FAN_STATUS_PATH_BYTES];
	ask_all(t);
	char *text = status_text();
	const int e = text ? fan_status_write(&t->file, text, strlen(text)) : ENOMEM;
	free(text);
	t->asked = false;
	t->written_ns = fan_clock_ns();
	fan_status_path(&t->file, path);
	if (e)
		fail_file(e, path);
}

/* ---- the thread ---- */

/* When the file is to be written, or the next turn is. */
static uint64_t next_ns(const struct teller *t, uint64_t turn_ns)
{
	const uint64_t write_ns = t->written_ns + FAN_REGISTRY_WRITE_MS * FAN_MS;
	return t->asked && write_ns < turn_ns ? write_ns : turn_ns;
}

static void *run(void *arg)
{
	struct teller *t = arg;
	uint64_t turn_ns = fan_clock_ns();
	char text[FAN_FAULT_TEXT_BYTES];
	struct epoll_event event;
	pthread_setname_np(pthread_self(), "fanin-ps");
	open_file(t);
	while (!atomic_load(&t->ends)) {
		const uint64_t now_ns = fan_clock_ns();
		if (now_ns >= turn_ns) {
			if (take_turn(now_ns, text, sizeof text))
				call_program(text);
			renew_file(t);
			turn_ns = now_ns + FAN_REGISTRY_TURN_MS * FAN_MS;
		}
		if (t->asked && now_ns >= t->written_ns + FAN_REGISTRY_WRITE_MS * FAN_MS)
			write_file(t);
		const int wait = fan_clock_timeout_ms(next_ns(t, turn_ns), -1);
		t->asked |= epoll_wait(t->events, &event, 1, wait) > 0 && t->file.watch >= 0;
	}
	if (t->file.watch >= 0)
		fan_status_remove(&t->file);
	if (atomic_exchange(&t->state, DONE) == LEFT)
		free_teller(t);
	return NULL;
}

/* 0, or an error number. */
static int begin(struct teller *t)
{
	struct epoll_event ends = {.events = EPOLLIN};
	sigset_t all, before;
	t->events = epoll_create1(EPOLL_CLOEXEC);
	t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->events < 0 || t->wake < 0 || epoll_ctl(t->events, EPOLL_CTL_ADD, t->wake, &ends))
		return errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int e = pthread_create(&t->thread, NULL, run, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return e;
}

static void start(void)
{
	struct teller *t = calloc(1, sizeof *t);
	if (t)
		t->events = t->wake = t->file.watch = -1;
	const int e = t ? begin(t) : ENOMEM;
	if (!e) {
		registry.teller = t;
		return;
	}
	if (t)
		free_teller(t);
	fail_file(e, "its thread");
}

/* The program's own function may wait for anything: leave it there after a while. */
static void stop(struct teller *t)
{
	struct timespec by;
	int runs = RUNS;
	const pthread_t thread = t->thread; /* which owns `t` once nobody waits for it */
	atomic_store(&t->ends, true);
	eventfd_write(t->wake, 1);
	clock_gettime(CLOCK_REALTIME, &by);
	by.tv_sec += FAN_REGISTRY_END_MS / 1000;
	if (!pthread_timedjoin_np(t->thread, NULL, &by)) {
		free_teller(t);
	} else if (atomic_compare_exchange_strong(&t->state, &runs, LEFT)) {
		pthread_detach(thread);
	} else {
		pthread_join(t->thread, NULL);
		free_teller(t);
	}
}

/* ---- ranks ---- */

static bool enter(struct fan_rank *r)
{
	struct entry *e = calloc(1, sizeof *e);
	pthread_mutex_lock(&registry.lock);
	const bool fits = e && registry.entries < FAN_REGISTRY_MAX;
	if (fits) {
		e->rank = r;
		e->still_ns = e->at_ns[e->turns++] = fan_clock_ns();
		registry.entry[registry.entries++] = e;
	} else {
		registry.more++;
	}
	pthread_mutex_unlock(&registry.lock);
	if (!fits)
		free(e);
	return fits;
}

void fan_registry_add(struct fan_rank *r)
{
	assert(r->thread.started);
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&registry.life);
	if (enter(r) && !registry.teller)
		start();
	pthread_mutex_unlock(&registry.life);
}

void fan_registry_remove(struct fan_rank *r)
{
	struct entry *gone = NULL;
	struct teller *last = NULL;
	pthread_mutex_lock(&registry.life);
	pthread_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.entries && !gone; i++)
		if (registry.entry[i]->rank == r) {
			gone = registry.entry[i];
			registry.entry[i] = registry.entry[--registry.entries];
		}
	const bool empty = !registry.entries;
	pthread_mutex_unlock(&registry.lock);
	if (gone && empty) {
		last = registry.teller;
		registry.teller = NULL;
	}
	pthread_mutex_unlock(&registry.life);
	if (last)
		stop(last);
	free(gone);
}

bool fan_registry_has_rank_of(const struct fan_rank *r)
{
	bool has = false;
	pthread_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.entries && !has; i++) {
		const struct fan_rank *o = registry.entry[i]->rank;
		has = o != r && o->cfg.rank == r->cfg.rank && !strcmp(o->cfg.job, r->cfg.job);
	}
	pthread_mutex_unlock(&registry.lock);
	return has;
}

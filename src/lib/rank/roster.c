/* SPDX-License-Identifier: Apache-2.0 */
#include "roster.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/config.h"
#include "lib/base/rank_file.h"
#include "net/clock.h"
#include "rank.h"

#define VERSION	    1 /* of an answer */
#define NAME_TRIES  8 /* nonces, where a name is taken */
#define BACKLOG	    16
#define NAP_MIN_NS  (FAN_MS / 10)
#define NAP_MAX_NS  (5 * FAN_MS)
#define NS_PER_S    1e9
#define POLL_MS	    50 /* between looks whether the last rank has gone */
#define ENTRY_TURNS (FAN_ROSTER_TURNS + 1)

/* A rank; what its tensors were, turn by turn, a ring; and how long it has not moved. */
struct entry {
	struct fan_rank *rank;
	unsigned turns;
	uint64_t at_ns[ENTRY_TURNS], bytes[ENTRY_TURNS];
	uint64_t ops, fragments; /* of the last turn */
	uint64_t still_ns;	 /* since when these are so with operations under way */
	uint64_t asked_ns;	 /* it was asked for whom it waits; 0: not yet */
	bool told;		 /* it has said so */
};

/* A thread that tells, with its socket. */
struct teller {
	pthread_t thread;
	int fd;
	char name[FAN_ROSTER_NAME_BYTES];
	atomic_bool ends;
	atomic_int state;
};

enum { RUNS, LEFT, DONE }; /* LEFT: nobody waits for the thread, which frees its teller */

/* `life` is held while a thread is begun or taken away; `lock` while `entry` is used; `telling`
 * while the program is told.  Nobody who has one of the first two waits for anybody but who has the
 * second: a program may hold its own lock, as Python's, while it forks. */
static struct {
	pthread_mutex_t life, lock, telling;
	struct entry *entry[FAN_ROSTER_MAX];
	unsigned entries;
	unsigned more;	       /* ranks for which there was no entry */
	struct teller *teller; /* NULL: there is none */
	fan_roster_tell *tell; /* NULL: the program does not want to be told */
	void *tell_arg;
	atomic_int tell_ms; /* FAN_ROSTER_TELL_MS, but for tests */
} roster = {.tell_ms = FAN_ROSTER_TELL_MS,
	    .life = PTHREAD_MUTEX_INITIALIZER,
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .telling = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- fork ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&roster.life);
	pthread_mutex_lock(&roster.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&roster.lock);
	pthread_mutex_unlock(&roster.life);
}

/* The ranks are the parent's, and so is the thread. */
static void in_child(void)
{
	for (unsigned i = 0; i < roster.entries; i++)
		free(roster.entry[i]);
	roster.entries = roster.more = 0;
	if (roster.teller)
		close(roster.teller->fd);
	free(roster.teller);
	roster.teller = NULL;
	pthread_mutex_init(&roster.telling, NULL); /* whoever had it is not here */
	after_fork();
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- what is told ---- */

static void nap(uint64_t ns)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static uint64_t snapshot_ns(const struct fan_rank *c)
{
	pthread_mutex_lock((pthread_mutex_t *)&c->lock);
	const uint64_t at_ns = c->shown.snapshot.at_ns;
	pthread_mutex_unlock((pthread_mutex_t *)&c->lock);
	return at_ns;
}

static bool all_told(uint64_t since_ns)
{
	bool all = true;
	pthread_mutex_lock(&roster.lock);
	for (unsigned i = 0; i < roster.entries && all; i++)
		all = snapshot_ns(roster.entry[i]->rank) >= since_ns;
	pthread_mutex_unlock(&roster.lock);
	return all;
}

/* Have every rank say what it does, as far as they do in time. */
static void ask_all(const struct teller *t)
{
	const uint64_t begin_ns = fan_clock_ns(), by_ns = begin_ns + FAN_ROSTER_ASK_MS * FAN_MS;
	uint64_t nap_ns = NAP_MIN_NS;
	pthread_mutex_lock(&roster.lock);
	for (unsigned i = 0; i < roster.entries; i++)
		roster.entry[i]->rank->kind->look(roster.entry[i]->rank);
	pthread_mutex_unlock(&roster.lock);
	while (!all_told(begin_ns) && fan_clock_ns() < by_ns && !atomic_load(&t->ends)) {
		nap(nap_ns);
		nap_ns = 2 * nap_ns < NAP_MAX_NS ? 2 * nap_ns : NAP_MAX_NS;
	}
}

/* As fan_rank_read_stats, which needs more of a rank than this may. */
static struct fanin_stats stats_of(const struct fan_rank *c)
{
	pthread_mutex_lock((pthread_mutex_t *)&c->lock);
	const struct fanin_stats s = c->shown.stats;
	pthread_mutex_unlock((pthread_mutex_t *)&c->lock);
	return s;
}

/* Bytes a second of `e` since its oldest turn that is kept, or 0; and over what time. */
static double rate_of(const struct entry *e, uint64_t now_ns, double *over_s)
{
	const unsigned oldest = e->turns > FAN_ROSTER_TURNS ? e->turns - FAN_ROSTER_TURNS : 0;
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
	pthread_mutex_lock(&roster.lock);
	for (unsigned i = 0; i < roster.entries; i++) {
		double over_s;
		const double rate = rate_of(roster.entry[i], now_ns, &over_s);
		json_array_append_new(ranks,
				      fan_rank_tell(roster.entry[i]->rank, now_ns, rate, over_s));
	}
	pthread_mutex_unlock(&roster.lock);
	return ranks;
}

/* One line, which the caller frees; NULL: out of memory, or too long. */
static char *answer_text(void)
{
	char version[32];
	snprintf(version, sizeof version, "%d.%d.%d", FANIN_VERSION_MAJOR, FANIN_VERSION_MINOR,
		 FANIN_VERSION_PATCH);
	json_t *j = json_pack("{s:i, s:i, s:o, s:s, s:i, s:o}", "version", VERSION, "pid",
			      (int)getpid(), "program",
			      fan_rank_text_json(program_invocation_short_name), "library", version,
			      "more", (int)roster.more, "ranks", ranks_json());
	char *text = json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(j);
	if (text && strlen(text) > FAN_ROSTER_BYTES) {
		free(text);
		text = NULL;
	}
	return text;
}

/* ---- who asks ---- */

bool fan_roster_may_ask(unsigned uid)
{
	return uid == 0 || uid == geteuid();
}

static bool is_friend(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof peer;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) &&
	       fan_roster_may_ask(peer.uid);
}

static void send_text(const struct teller *t, int fd, const char *text, size_t bytes)
{
	const uint64_t by_ns = fan_clock_ns() + FAN_ROSTER_SEND_MS * FAN_MS;
	while (bytes && !atomic_load(&t->ends) && fan_clock_ns() < by_ns) {
		const ssize_t n = send(fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			text += n;
			bytes -= (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd p = {.fd = fd, .events = POLLOUT};
			poll(&p, 1, POLL_MS);
		} else if (errno != EINTR) {
			return;
		}
	}
}

static void answer(const struct teller *t)
{
	const int fd = accept4(t->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0 && is_friend(fd)) {
		ask_all(t);
		char *text = answer_text();
		if (text) {
			send_text(t, fd, text, strlen(text));
			send_text(t, fd, "\n", 1);
		}
		free(text);
	}
	if (fd >= 0)
		close(fd);
	nap(FAN_ROSTER_PAUSE_MS * FAN_MS); /* also who cannot be accepted waits there still */
}

/* ---- the thread ---- */

/* After so long without progress a rank says for whom it waits; before the operation ends with that
 * error.  UINT64_MAX: never, since that comes soon. */
static uint64_t patience_ns(const struct fan_rank *c)
{
	const int end_ms = c->cfg.timeout_ms - FAN_ROSTER_BEFORE_END_MS;
	if (c->column.global || end_ms < FAN_ROSTER_TELL_LEAST_MS)
		return UINT64_MAX;
	const int tell_ms = atomic_load(&roster.tell_ms);
	return (uint64_t)(end_ms < tell_ms ? end_ms : tell_ms) * FAN_MS;
}

/* With the lock held: does the rank of `e` have to say, once in a wait, for whom it waits?  True:
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
		e->told = false;
		return false;
	}
	if (e->told || now_ns - e->still_ns < patience_ns(e->rank))
		return false;
	if (!e->asked_ns) {
		e->asked_ns = now_ns;
		e->rank->kind->look(e->rank);
		return false; /* it is told at the next turn */
	}
	e->told = fan_rank_wait_sentence(e->rank, e->asked_ns, text, bytes);
	if (!e->told) /* it has moved, by less than an operation, or its thread has no time */
		e->asked_ns = 0;
	return e->told;
}

/* Note how far each rank is.  True: one has waited for long, as `text` says; others are told of at
 * the next turns. */
static bool take_turn(uint64_t now_ns, char *text, size_t bytes)
{
	bool waited = false;
	pthread_mutex_lock(&roster.lock);
	for (unsigned i = 0; i < roster.entries; i++) {
		struct entry *e = roster.entry[i];
		const struct fanin_stats s = stats_of(e->rank);
		e->at_ns[e->turns % ENTRY_TURNS] = now_ns;
		e->bytes[e->turns % ENTRY_TURNS] = s.bytes;
		e->turns++;
		waited = waited || has_waited(e, &s, now_ns, text, bytes);
	}
	pthread_mutex_unlock(&roster.lock);
	return waited;
}

static void tell_program(const char *text)
{
	pthread_mutex_lock(&roster.telling);
	if (roster.tell)
		roster.tell(roster.tell_arg, text);
	pthread_mutex_unlock(&roster.telling);
}

void fan_roster_tell_to(fan_roster_tell *tell, void *arg)
{
	pthread_mutex_lock(&roster.telling);
	roster.tell = tell;
	roster.tell_arg = arg;
	pthread_mutex_unlock(&roster.telling);
}

void fan_roster_tell_after(int ms)
{
	atomic_store(&roster.tell_ms, ms);
}

static void free_teller(struct teller *t)
{
	close(t->fd);
	free(t);
}

static void *run(void *arg)
{
	struct teller *t = arg;
	uint64_t turn_ns = fan_clock_ns();
	char text[FAN_FAULT_TEXT_BYTES];
	pthread_setname_np(pthread_self(), "fanin-ps");
	while (!atomic_load(&t->ends)) {
		struct pollfd p = {.fd = t->fd, .events = POLLIN};
		const uint64_t now_ns = fan_clock_ns();
		if (now_ns >= turn_ns) {
			if (take_turn(now_ns, text, sizeof text))
				tell_program(text);
			turn_ns = now_ns + FAN_ROSTER_TURN_MS * FAN_MS;
		}
		if (poll(&p, 1, fan_clock_timeout_ms(turn_ns, -1)) > 0 && !atomic_load(&t->ends))
			answer(t);
	}
	if (atomic_exchange(&t->state, DONE) == LEFT)
		free_teller(t);
	return NULL;
}

/* A name that nobody has.  The socket, or -1 with errno. */
static int listen_at(char *name)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int e = fd < 0 ? errno : EADDRINUSE;
	for (unsigned i = 0; i < NAME_TRIES && e == EADDRINUSE; i++) {
		struct sockaddr_un at = {.sun_family = AF_UNIX};
		const int n = snprintf(name, FAN_ROSTER_NAME_BYTES, FAN_ROSTER_NAME "%u/%016llx",
				       (unsigned)geteuid(), (unsigned long long)fan_clock_nonce());
		assert(n > 0 && n < FAN_ROSTER_NAME_BYTES);
		memcpy(at.sun_path + 1, name, (size_t)n);
		const socklen_t bytes =
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
		e = bind(fd, (struct sockaddr *)&at, bytes) || listen(fd, BACKLOG) ? errno : 0;
	}
	if (!e)
		return fd;
	if (fd >= 0)
		close(fd);
	*name = '\0';
	errno = e;
	return -1;
}

/* 0, or an error number. */
static int begin(struct teller *t)
{
	sigset_t all, before;
	t->fd = listen_at(t->name);
	if (t->fd < 0)
		return errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int e = pthread_create(&t->thread, NULL, run, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e)
		close(t->fd);
	return e;
}

static void start(void)
{
	char why[FAN_CONFIG_WHY_BYTES], cause[160];
	struct teller *t = calloc(1, sizeof *t);
	const int e = t ? begin(t) : ENOMEM;
	if (!e) {
		roster.teller = t;
		return;
	}
	free(t);
	snprintf(why, sizeof why, "fanin ps will not see this process: %.300s",
		 fan_files_strerror(e, cause, sizeof cause));
	fan_rank_file_fail("FANIN_PS", why);
}

/* The program, when it is told, may wait for whom it likes: it is left there after a while. */
static void stop(struct teller *t)
{
	struct timespec by;
	int runs = RUNS;
	const pthread_t thread = t->thread; /* which owns `t` once nobody waits for it */
	atomic_store(&t->ends, true);
	shutdown(t->fd, SHUT_RDWR); /* wakes it */
	clock_gettime(CLOCK_REALTIME, &by);
	by.tv_sec += FAN_ROSTER_END_MS / 1000;
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

/* True: it has an entry. */
static bool enter(struct fan_rank *c)
{
	struct entry *e = calloc(1, sizeof *e);
	pthread_mutex_lock(&roster.lock);
	const bool fits = e && roster.entries < FAN_ROSTER_MAX;
	if (fits) {
		e->rank = c;
		e->still_ns = e->at_ns[e->turns++] = fan_clock_ns();
		roster.entry[roster.entries++] = e;
	} else {
		roster.more++;
	}
	pthread_mutex_unlock(&roster.lock);
	if (!fits)
		free(e);
	return fits;
}

void fan_roster_add(struct fan_rank *c)
{
	assert(c->thread.started);
	if (!c->cfg.ps)
		return;
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&roster.life);
	if (enter(c) && !roster.teller)
		start();
	pthread_mutex_unlock(&roster.life);
}

void fan_roster_remove(struct fan_rank *c)
{
	struct entry *gone = NULL;
	struct teller *last = NULL;
	pthread_mutex_lock(&roster.life);
	pthread_mutex_lock(&roster.lock);
	for (unsigned i = 0; i < roster.entries && !gone; i++)
		if (roster.entry[i]->rank == c) {
			gone = roster.entry[i];
			roster.entry[i] = roster.entry[--roster.entries];
		}
	const bool empty = !roster.entries;
	pthread_mutex_unlock(&roster.lock);
	if (gone && empty) {
		last = roster.teller;
		roster.teller = NULL;
	}
	pthread_mutex_unlock(&roster.life);
	if (last)
		stop(last);
	free(gone);
}

bool fan_roster_has_rank_of(const struct fan_rank *c)
{
	bool has = false;
	pthread_mutex_lock(&roster.lock);
	for (unsigned i = 0; i < roster.entries && !has; i++) {
		const struct fan_rank *o = roster.entry[i]->rank;
		has = o != c && o->cfg.rank == c->cfg.rank && !strcmp(o->cfg.job, c->cfg.job);
	}
	pthread_mutex_unlock(&roster.lock);
	return has;
}

void fan_roster_name(char *name)
{
	pthread_mutex_lock(&roster.life);
	memset(name, 0, FAN_ROSTER_NAME_BYTES);
	if (roster.teller)
		memcpy(name, roster.teller->name, sizeof roster.teller->name);
	pthread_mutex_unlock(&roster.life);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* bench_local.c - a switch and N ranks as child processes of the bench.
 *
 * The parent has no thread and waits for signals only.  Whatever happens - a rank fails, the switch
 * dies, ^C - it ends every child by its pid, waits a bounded time, and leaves no process behind; if
 * it is killed itself, so are they. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "cmd/cmd.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "net/udp.h"

#define JOB	      "bench"
#define START_MS      10000 /* for the switch to listen */
#define GRACE_MS      3000  /* after a failure, for the other ranks to report theirs */
#define END_MS	      5000  /* for a child to end at a signal */
#define ADDRESS_BYTES 80

enum { EXIT_SWITCH = 3 };

struct family {
	const struct bench_options *o;
	pid_t parent;
	pid_t rank[FANIN_RANKS_MAX];
	pid_t sw;
	int alive; /* ranks that have not ended */
	bool failed;
	pthread_barrier_t *gate; /* in shared memory */
	char address[ADDRESS_BYTES];
};

static sigset_t watched(void)
{
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGCHLD);
	sigaddset(&s, SIGINT);
	sigaddset(&s, SIGTERM);
	sigaddset(&s, SIGHUP);
	return s;
}

/* A child of this process that does not outlive it. */
static pid_t spawn(const struct family *f)
{
	sigset_t s = watched();
	fflush(NULL);
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != f->parent)
		_exit(1);
	sigprocmask(SIG_UNBLOCK, &s, NULL);
	return 0;
}

/* ---- the switch ---- */

/* Shared slots with their aggregator behind them, which has room for how far ranks run ahead. */
static void share_slots(const struct bench_options *o, struct fan_daemon_options *so)
{
	so->has_slots = true;
	so->slots.policy = (enum fan_policy)o->policy;
	so->slots.slots = so->core.slots;
	so->mark_percent = FAN_DAEMON_MARK_PERCENT;
	so->core.ahead_max = (uint16_t)o->cfg.ahead;
	so->core.slots = fan_daemon_aggregator_slots(so->core.ahead_max, 1);
}

/* Serve until a signal; send the address to the parent. */
static int run_switch(const struct bench_options *o, int to_parent)
{
	struct fan_daemon_options so;
	struct fan_daemon *d;
	char why[FAN_CONFIG_WHY_BYTES], address[ADDRESS_BYTES] = "";
	sigset_t s = watched();
	int sig;
	fan_daemon_defaults(&so);
	so.core.payload_bytes = fan_config_payload_bytes(o->cfg.mtu, o->local);
	if (o->policy)
		share_slots(o, &so);
	so.no_multicast = !o->cfg.multicast;
	so.keys = o->cfg.keys;
	so.of_tenant = true;
	sigprocmask(SIG_BLOCK, &s, NULL);
	if (fan_daemon_start(&d, &so, why, sizeof why)) {
		fprintf(stderr, "fanin bench: the switch cannot start: %s\n", why);
		return EXIT_SWITCH;
	}
	fan_peer at = fan_daemon_address(d);
	fan_peer_text(&at, address, sizeof address);
	if (write(to_parent, address, sizeof address) != sizeof address)
		return EXIT_SWITCH;
	do
		sigwait(&s, &sig);
	while (sig != SIGTERM && sig != SIGINT);
	fan_daemon_stop(d);
	return 0;
}

static int start_switch(struct family *f)
{
	int fd[2];
	if (pipe(fd))
		return -1;
	f->sw = spawn(f);
	if (f->sw == 0) {
		close(fd[0]);
		int rc = run_switch(f->o, fd[1]);
		_exit(cmd_end(rc));
	}
	close(fd[1]);
	struct pollfd p = {.fd = fd[0], .events = POLLIN};
	bool reported = f->sw > 0 && poll(&p, 1, START_MS) == 1 &&
			read(fd[0], f->address, sizeof f->address) == sizeof f->address;
	close(fd[0]);
	return reported ? 0 : -1;
}

/* ---- the ranks ---- */

static pthread_barrier_t *make_gate(unsigned ranks)
{
	pthread_barrier_t *gate =
		mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;
	if (gate == MAP_FAILED)
		return NULL;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(gate, &shared, ranks);
	pthread_barrierattr_destroy(&shared);
	return gate;
}

/* Set what the library finds in variables. */
static int name_rank(struct bench_options *o, const char *address, int rank)
{
	char expected[FAN_CONFIG_WHY_BYTES], number[16];
	o->cfg.rank = rank;
	snprintf(number, sizeof number, "%d", rank);
	int e = fan_config_export("switch", address, expected, sizeof expected) ||
		fan_config_export("job", JOB, expected, sizeof expected) ||
		fan_config_export("rank", number, expected, sizeof expected);
	snprintf(number, sizeof number, "%d", o->local);
	return e || fan_config_export("ranks", number, expected, sizeof expected);
}

static int start_ranks(struct family *f)
{
	for (int r = 0; r < f->o->local; r++) {
		f->rank[r] = spawn(f);
		if (f->rank[r] < 0)
			return -1;
		if (f->rank[r] > 0) {
			f->alive++;
			continue;
		}
		struct bench_options o = *f->o;
		int rc = name_rank(&o, f->address, r) ? 1 : bench_run(&o, f->gate);
		_exit(cmd_end(rc));
	}
	return 0;
}

/* ---- the parent ---- */

static void note_end(struct family *f, const char *who, int r, int status)
{
	bool killed = WIFSIGNALED(status);
	if (!killed && WEXITSTATUS(status) == 0)
		return;
	if (killed && !f->failed)
		fprintf(stderr, "fanin bench: %s %d ended by signal %d (%s)\n", who, r,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	f->failed = true;
}

/* Reap the children that have ended. */
static void reap(struct family *f)
{
	int status;
	for (int r = 0; r < f->o->local; r++) {
		if (f->rank[r] <= 0 || waitpid(f->rank[r], &status, WNOHANG) != f->rank[r])
			continue;
		f->rank[r] = 0;
		f->alive--;
		note_end(f, "rank", r, status);
	}
	if (f->sw > 0 && waitpid(f->sw, &status, WNOHANG) == f->sw) {
		f->sw = 0;
		f->failed |= f->alive > 0;
		note_end(f, "the switch, ranks", f->o->local, status);
	}
}

static void kill_ranks(const struct family *f)
{
	for (int r = 0; r < f->o->local; r++)
		if (f->rank[r] > 0)
			kill(f->rank[r], SIGKILL);
}

static struct timespec left_until(uint64_t deadline_ns)
{
	uint64_t now_ns = fan_clock_ns();
	uint64_t left = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	return (struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)};
}

/* Wait until all ranks have ended.  Returns the signal that ended it early, or 0. */
static int wait_for_ranks(struct family *f)
{
	sigset_t s = watched();
	uint64_t deadline_ns = UINT64_MAX / 2;
	bool grace = false;
	int ended_by = 0;
	for (reap(f); f->alive; reap(f)) {
		if (f->failed && !grace) {
			grace = true;
			deadline_ns = fan_clock_ns() + GRACE_MS * FAN_MS;
		}
		struct timespec left = left_until(deadline_ns);
		int sig = sigtimedwait(&s, NULL, &left);
		if (sig == SIGCHLD || (sig < 0 && errno == EINTR))
			continue;
		if (sig > 0)
			ended_by = sig;
		f->failed = true;
		kill_ranks(f);
		deadline_ns = fan_clock_ns() + END_MS * FAN_MS;
	}
	return ended_by;
}

static void end_switch(struct family *f)
{
	sigset_t s = watched();
	uint64_t deadline_ns = fan_clock_ns() + END_MS * FAN_MS;
	if (f->sw > 0)
		kill(f->sw, SIGTERM);
	for (reap(f); f->sw > 0; reap(f)) {
		struct timespec left = left_until(deadline_ns);
		if (sigtimedwait(&s, NULL, &left) < 0 && errno == EAGAIN && f->sw > 0)
			kill(f->sw, SIGKILL);
	}
}

int bench_local(const struct bench_options *o)
{
	struct family *f = calloc(1, sizeof *f);
	sigset_t s = watched(), before;
	if (!f)
		return 1;
	f->o = o;
	f->parent = getpid();
	f->gate = make_gate((unsigned)o->local);
	sigprocmask(SIG_BLOCK, &s, &before);
	if (!f->gate || start_switch(f) || start_ranks(f)) {
		fprintf(stderr, "fanin bench: cannot start a switch and %d ranks\n", o->local);
		f->failed = true;
		kill_ranks(f);
	}
	int sig = wait_for_ranks(f);
	end_switch(f);
	bool failed = f->failed;
	free(f);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return sig ? 128 + sig : failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A switch inside the process that also runs ranks. */
#include "unit/lib/team.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHY_BYTES   512
#define GROUP_TRIES 10
#define LONG_MS	    20000 /* never lasts that long unless something is wrong */
#define LINGER_MS   300
#define SLOW_MS	    500
#define LATE_MS	    1000

static struct fanin_switch_options options(const char *listen)
{
	struct fanin_switch_options o = FANIN_SWITCH_OPTIONS_INIT;
	o.listen = listen;
	return o;
}

static fanin_switch *started(const struct fanin_switch_options *o)
{
	fanin_switch *s;
	char why[WHY_BYTES] = "x";
	int e = fanin_switch_start(o, &s, why, sizeof why);
	if (e)
		fail_msg("%d: %s", e, why);
	assert_string_equal(why, "");
	return s;
}

static fanin_switch *started_at(const char *listen)
{
	struct fanin_switch_options o = options(listen);
	return started(&o);
}

static void assert_refused(const struct fanin_switch_options *o, int error, const char *words)
{
	fanin_switch *s = (fanin_switch *)1;
	char why[WHY_BYTES] = "";
	assert_int_equal(fanin_switch_start(o, &s, why, sizeof why), error);
	assert_null(s);
	if (!strstr(why, words))
		fail_msg("\"%s\" has no \"%s\"", why, words);
}

static uint64_t ms_since(uint64_t ns)
{
	return (fan_clock_ns() - ns) / FAN_MS;
}

/* One rank of a job, on a thread of its own. */
struct rank {
	const char *address;
	int rank, ranks;
	void (*body)(struct rank *r);
	fanin_comm *comm;
	fanin_switch *sw;  /* of rank 0 */
	int linger_ms;	   /* of rank 0 */
	uint64_t left_ns;  /* when it began to leave */
	uint64_t ended_ns; /* when the switch, too, was stopped */
	pthread_t thread;
};

static atomic_int first_leaves; /* rank 0 of the job */

static void *rank_thread(void *arg)
{
	struct rank *r = arg;
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.switch_addr = r->address;
	o.rank = r->rank;
	o.ranks = r->ranks;
	o.timeout_ms = LONG_MS;
	o.alive_ms = 60000;
	int e = fanin_comm_create(&o, &r->comm);
	EXPECT(e == FANIN_OK);
	if (e)
		fprintf(stderr, "rank %d: %s\n", r->rank, fanin_comm_error(r->comm));
	else
		r->body(r);
	r->left_ns = fan_clock_ns();
	if (!r->rank)
		atomic_store(&first_leaves, 1);
	fanin_comm_destroy(r->comm);
	if (r->sw)
		fanin_switch_stop(r->sw, r->linger_ms);
	r->ended_ns = fan_clock_ns();
	return NULL;
}

static void run_ranks(struct rank *r, int ranks)
{
	atomic_store(&team_wrong, 0);
	atomic_store(&first_leaves, 0);
	for (int i = 0; i < ranks; i++)
		assert_int_equal(pthread_create(&r[i].thread, NULL, rank_thread, &r[i]), 0);
	for (int i = 0; i < ranks; i++)
		pthread_join(r[i].thread, NULL);
	team_check();
}

static void sum_up(struct rank *r)
{
	enum { COUNT = 100000 };
	static const int op = FANIN_SUM;
	int32_t *x = malloc(COUNT * sizeof *x);
	size_t wrong = 0;
	for (int i = 0; i < COUNT; i++)
		x[i] = i + r->rank;
	EXPECT(fanin_allreduce(r->comm, x, x, COUNT, FANIN_INT32, op) == FANIN_OK);
	for (int i = 0; i < COUNT; i++)
		wrong += x[i] != r->ranks * i + r->ranks * (r->ranks - 1) / 2;
	EXPECT(!wrong);
	free(x);
}

TEST(switch__serves_a_job)
{
	fanin_switch *s = started_at(NULL);
	const char *address = fanin_switch_address(s);
	struct rank r[3];
	assert_int_equal(strncmp(address, "127.0.0.1:", 10), 0);
	assert_string_not_equal(address, "127.0.0.1:0");
	for (int i = 0; i < 3; i++)
		r[i] = (struct rank){.address = address, .rank = i, .ranks = 3, .body = sum_up};
	run_ranks(r, 3);
	fanin_switch_stop(s, 0);
}

/* A switch of two threads on a port that is likely to be free, and the next. */
static fanin_switch *started_twofold(void)
{
	struct fanin_switch_options o = options(NULL);
	fanin_switch *s;
	char text[32], why[WHY_BYTES] = "";
	int e = -1;
	o.listen = text;
	o.threads = 2;
	o.slots = 64;
	for (int i = 0; i < TEAM_PORT_TRIES && e; i++) {
		snprintf(text, sizeof text, "0.0.0.0:%u", team_port());
		e = fanin_switch_start(&o, &s, why, sizeof why);
	}
	if (e)
		fail_msg("%s", why);
	assert_string_equal(fanin_switch_address(s), text);
	return s;
}

/* A wildcard is told as such; ranks reach it by any address of the machine.  Debian's
 * /etc/hosts gives the host's name 127.0.1.1, which no route would answer from. */
TEST(switch__is_found_at_every_address)
{
	static const char *const hosts[] = {"127.0.1.1", "127.0.0.1", "127.0.0.2"};
	fanin_switch *s = started_twofold();
	const char *port = strchr(fanin_switch_address(s), ':');
	char address[3][64];
	struct rank r[3];
	for (int i = 0; i < 3; i++) {
		snprintf(address[i], sizeof address[i], "%s%s", hosts[i], port);
		r[i] = (struct rank){.address = address[i], .rank = i, .ranks = 3, .body = sum_up};
	}
	run_ranks(r, 3);
	fanin_switch_stop(s, 0);
}

static atomic_int by_group;

static void heard_by_group(struct rank *r)
{
	struct fanin_stats stats = {.size = sizeof stats};
	sum_up(r);
	EXPECT(!fanin_comm_stats(r->comm, &stats));
	atomic_fetch_add(&by_group, stats.multicast);
}

/* Ranks that all ask the same address hear the group from it.  A busy machine may be too
 * late for the tests of the group, so there are several tries. */
TEST(switch__multicasts_from_the_address_that_was_asked)
{
	fanin_switch *s = started_at("0.0.0.0:0");
	char address[64];
	struct rank r[2];
	snprintf(address, sizeof address, "127.0.1.1%s", strchr(fanin_switch_address(s), ':'));
	for (int try = 0; try < GROUP_TRIES && atomic_load(&by_group) < 2; try++) {
		atomic_store(&by_group, 0);
		for (int i = 0; i < 2; i++)
			r[i] = (struct rank){
				.address = address, .rank = i, .ranks = 2, .body = heard_by_group};
		run_ranks(r, 2);
	}
	assert_int_equal(atomic_load(&by_group), 2);
	fanin_switch_stop(s, 0);
}

TEST(switch__of_both_families)
{
	fanin_switch *s = started_at("[::]:0");
	const char *port = strrchr(fanin_switch_address(s), ':');
	char address[2][64];
	struct rank r[2];
	for (int i = 0; i < 2; i++) {
		snprintf(address[i], sizeof address[i], "%s%s", i ? "[::1]" : "127.0.1.1", port);
		r[i] = (struct rank){.address = address[i], .rank = i, .ranks = 2, .body = sum_up};
	}
	run_ranks(r, 2);
	fanin_switch_stop(s, 0);
}

static void *start_late(void *listen)
{
	struct fanin_switch_options o = options(listen);
	fanin_switch *s = NULL;
	usleep(LATE_MS * 1000);
	EXPECT(!fanin_switch_start(&o, &s, NULL, 0));
	return s;
}

/* Until then nobody listens on the port, which the ranks are told and bear with. */
TEST(switch__may_come_after_its_ranks)
{
	fanin_switch *s = started_at("127.0.0.1:0");
	char address[64];
	struct rank r[2];
	pthread_t thread;
	void *late;
	snprintf(address, sizeof address, "%s", fanin_switch_address(s));
	fanin_switch_stop(s, 0);
	for (int i = 0; i < 2; i++)
		r[i] = (struct rank){.address = address, .rank = i, .ranks = 2, .body = sum_up};
	uint64_t start_ns = fan_clock_ns();
	assert_int_equal(pthread_create(&thread, NULL, start_late, address), 0);
	run_ranks(r, 2);
	assert_in_range(ms_since(start_ns), LATE_MS, LONG_MS);
	pthread_join(thread, &late);
	fanin_switch_stop(late, 0);
}

/* Programs compiled against other versions of the header. */
TEST(start__options_of_other_sizes)
{
	struct {
		struct fanin_switch_options own;
		size_t newer;
	} o = {options(NULL), 0};
	o.own.size = offsetof(struct fanin_switch_options, mtu);
	o.own.mtu = 1; /* beyond its end */
	fanin_switch_stop(started(&o.own), 0);
	o.own = options(NULL);
	o.own.size = sizeof o;
	fanin_switch_stop(started(&o.own), 0);
	o.newer = 1;
	assert_refused(&o.own, FANIN_E_INVALID, "a newer libfanin");
}

TEST(start__wrong_options)
{
	struct fanin_switch_options o = options("127.0.0.1");
	fanin_switch *s;
	assert_refused(NULL, FANIN_E_INVALID, "invalid argument");
	assert_int_equal(fanin_switch_start(&o, NULL, NULL, 0), FANIN_E_INVALID);
	assert_int_equal(fanin_switch_start(&o, &s, NULL, 7), FANIN_E_INVALID);
	assert_refused(&o, FANIN_E_INVALID, "options.listen: expected HOST:PORT");
	o = options(NULL);
	o.size--;
	assert_refused(&o, FANIN_E_INVALID, "options.size");
	o = options(NULL);
	o.slots = 1;
	assert_refused(&o, FANIN_E_INVALID, "options.slots: \"1\": expected a number from 2 to");
	o.slots = FAN_SLOTS_MAX + 1;
	assert_refused(&o, FANIN_E_INVALID, "options.slots");
	o = options(NULL);
	o.threads = 0;
	assert_refused(&o, FANIN_E_INVALID, "options.threads: \"0\": expected a number from 1 to");
	o.threads = 2;
	assert_refused(&o, FANIN_E_INVALID, "several need a port to count from, got port 0");
	o = options(NULL);
	o.mtu = 575;
	assert_refused(&o, FANIN_E_INVALID, "options.mtu: \"575\": expected a number from 576");
	o = options(NULL);
	o.multicast = 2;
	assert_refused(&o, FANIN_E_INVALID, "options.multicast: \"2\"");
	o = options("192.0.2.1:0");
	assert_refused(&o, FANIN_E_SYSTEM, "no interface of this machine has the address");
}

/* As for a communicator; rank and switch need not be set. */
TEST(start__options_from_variables)
{
	struct fanin_switch_options o = options(NULL);
	setenv("FANIN_MTU", "9001", 1);
	assert_refused(&o, FANIN_E_CONFIG, "FANIN_MTU: \"9001\"");
	o.mtu = 1500; /* stronger */
	fanin_switch_stop(started(&o), 0);
	unsetenv("FANIN_MTU");
}

/* A process that runs alone may serve others, and a launcher's jobs may have other sizes. */
TEST(start__variables_of_a_rank_are_not_for_it)
{
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "1", 1);
	setenv("FANIN_RANKS", "1", 1);
	fanin_switch_stop(started_at("127.0.0.1:0"), 0);
	unsetenv("FANIN_RANKS");
	unsetenv("WORLD_SIZE");
	unsetenv("RANK");
}

static void one_by_one(struct rank *r)
{
	struct fanin_stats stats = {.size = sizeof stats};
	sum_up(r);
	EXPECT(!fanin_comm_stats(r->comm, &stats));
	EXPECT(!stats.multicast);
	EXPECT(stats.packet_bytes == 8868);
}

/* The ranks take the mtu from the variable, the switch from its options. */
TEST(start__mtu_and_multicast_reach_the_switch)
{
	struct fanin_switch_options o = options(NULL);
	struct rank r[2];
	o.mtu = 9000;
	o.multicast = 0;
	fanin_switch *s = started(&o);
	for (int i = 0; i < 2; i++)
		r[i] = (struct rank){.address = fanin_switch_address(s),
				     .rank = i,
				     .ranks = 2,
				     .body = one_by_one};
	setenv("FANIN_MTU", "9000", 1);
	run_ranks(r, 2);
	unsetenv("FANIN_MTU");
	fanin_switch_stop(s, 0);
}

TEST(start__port_in_use)
{
	fanin_switch *s = started_at(NULL);
	struct fanin_switch_options again = options(fanin_switch_address(s));
	char text[WHY_BYTES], why[8];
	fanin_switch *t;
	snprintf(text, sizeof text, "%s: the port is in use; `ss -ulpn", again.listen);
	assert_refused(&again, FANIN_E_SYSTEM, text);
	memset(why, 'x', sizeof why); /* a text that is cut ends nevertheless */
	assert_int_equal(fanin_switch_start(&again, &t, why, sizeof why), FANIN_E_SYSTEM);
	assert_string_equal(why, "127.0.0");
	char at[64];
	snprintf(at, sizeof at, "%s", again.listen);
	fanin_switch_stop(s, 0);
	again.listen = at; /* free again at once */
	fanin_switch_stop(started(&again), 0);
}

TEST(address__of_nobody)
{
	assert_string_equal(fanin_switch_address(NULL), "");
	fanin_switch_stop(NULL, 100);
}

/* Signals that thread `id` has blocked; 0 if it is none of a switch. */
static unsigned long long blocked_of(const char *id)
{
	char path[300], line[200];
	unsigned long long blocked = 0;
	bool ours = false;
	snprintf(path, sizeof path, "/proc/self/task/%s/status", id);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		ours |= !strcmp(line, "Name:\tfanin-switch\n");
		sscanf(line, "SigBlk: %llx", &blocked);
	}
	if (f)
		fclose(f);
	return ours ? blocked : 0;
}

/* Every signal that can be blocked is; the C library keeps two for itself. */
TEST(threads__take_no_signals)
{
	fanin_switch *s = started_twofold();
	DIR *d = opendir("/proc/self/task");
	unsigned threads = 0;
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		unsigned long long blocked = blocked_of(e->d_name);
		for (int n = 1; blocked && n <= SIGRTMAX; n++)
			if (n != SIGKILL && n != SIGSTOP && (n < 32 || n >= SIGRTMIN))
				assert_true(blocked >> (n - 1) & 1);
		threads += blocked != 0;
	}
	closedir(d);
	assert_int_equal(threads, 2);
	fanin_switch_stop(s, 0);
}

/* ---- stopping ---- */

TEST(stop__without_jobs_is_at_once)
{
	fanin_switch *s = started_twofold();
	uint64_t start_ns = fan_clock_ns();
	fanin_switch_stop(s, LONG_MS);
	assert_in_range(ms_since(start_ns), 0, LONG_MS / 2);
}

/* Rank 0 is done long before rank 1, which is still a member until it leaves. */
static void slow_last(struct rank *r)
{
	sum_up(r);
	while (r->rank && !atomic_load(&first_leaves))
		usleep(1000);
	if (r->rank)
		usleep(SLOW_MS * 1000);
	EXPECT(!*fanin_comm_error(r->comm));
}

TEST(stop__lingers_for_the_slower_ranks)
{
	fanin_switch *s = started_twofold();
	char address[64];
	struct rank r[2];
	snprintf(address, sizeof address, "127.0.0.1%s", strchr(fanin_switch_address(s), ':'));
	for (int i = 0; i < 2; i++)
		r[i] = (struct rank){.address = address,
				     .rank = i,
				     .ranks = 2,
				     .body = slow_last,
				     .sw = i ? NULL : s,
				     .linger_ms = LONG_MS};
	run_ranks(r, 2);
	assert_true(r[0].ended_ns >= r[1].left_ns);
	assert_in_range((r[0].ended_ns - r[0].left_ns) / FAN_MS, SLOW_MS - 1, LONG_MS / 2);
}

/* A rank that ends without a word keeps its job from ending. */
static void killed(struct rank *r)
{
	EXPECT(!fanin_barrier(r->comm));
	if (r->rank)
		_exit(atomic_load(&team_wrong) != 0);
}

/* A process for rank 1, which learns the switch's address from a pipe: it is forked while
 * there are no threads yet. */
static pid_t start_mortal(int *tell)
{
	int ends[2];
	char address[64] = "";
	struct rank r = {.address = address, .rank = 1, .ranks = 2, .body = killed};
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (read(ends[0], address, sizeof address - 1) > 0)
			rank_thread(&r);
		_exit(1);
	}
	close(ends[0]);
	*tell = ends[1];
	return pid;
}

TEST(stop__does_not_wait_for_the_dead)
{
	int tell, status;
	pid_t pid = start_mortal(&tell);
	fanin_switch *s = started_at(NULL);
	const char *address = fanin_switch_address(s);
	struct rank alive = {.address = address, .ranks = 2, .body = killed};
	assert_int_equal(write(tell, address, strlen(address)), strlen(address));
	close(tell);
	run_ranks(&alive, 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	uint64_t start_ns = fan_clock_ns();
	fanin_switch_stop(s, LINGER_MS);
	assert_in_range(ms_since(start_ns), LINGER_MS - 1, LONG_MS); /* the job has 60 s to live */
}

/* ThreadSanitizer allows no new threads in the child of a process that has some. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAY_START_THREADS false
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MAY_START_THREADS false
#elif !defined(MAY_START_THREADS)
#define MAY_START_THREADS true
#endif

/* In a child that fork() made stop only frees: the parent's switch goes on, on the same
 * sockets, and the child may have one of its own. */
TEST(fork__child_does_no_harm)
{
	fanin_switch *s = started_twofold();
	char address[64];
	struct rank r[2];
	int status;
	snprintf(address, sizeof address, "127.0.0.1%s", strchr(fanin_switch_address(s), ':'));
	for (int i = 0; i < 2; i++)
		r[i] = (struct rank){.address = address, .rank = i, .ranks = 2, .body = sum_up};
	pid_t pid = fork();
	if (pid == 0) {
		fanin_switch *own = NULL;
		struct fanin_switch_options o = options(NULL);
		alarm(LONG_MS / 2000); /* there is nobody to wait for */
		fanin_switch_stop(s, LONG_MS);
		if (MAY_START_THREADS && fanin_switch_start(&o, &own, NULL, 0))
			_exit(1);
		fanin_switch_stop(own, LONG_MS);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	run_ranks(r, 2);
	fanin_switch_stop(s, 1000);
}

UNIT_MAIN

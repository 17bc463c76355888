/* SPDX-License-Identifier: Apache-2.0 */
/* What a process tells about its ranks, and to whom. */
#include "unit/lib/team.h"

#include <errno.h>
#include <grp.h>
#include <jansson.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/comm/comm.h"
#include "lib/rank/roster.h"

#define RANKS	     3
#define COUNT	     1000
#define ANSWER_MS    60000 /* never reached unless something hangs */
#define ANSWER_MAX   (1 << 20)
#define NOBODY	     65534
#define NOTHING_TOLD 3 /* exit statuses of a stranger */
#define SOME_TOLD    4
#define HELD_MS	     1200 /* more than FAN_ROSTER_WAIT_NS */
#define STUCK_MS     1000 /* without a descriptor; and what that may take of a processor: */
#define STUCK_CPU_NS (100 * FAN_MS)

static pthread_barrier_t all;
static bool by_memory;

/* Is there a name at which this process answers? */
static bool answers(char *name)
{
	fan_roster_name(name);
	return *name != 0;
}

static bool connect_to(int fd, const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const size_t n = strlen(name);
	memcpy(at.sun_path + 1, name, n);
	return !connect(fd, (struct sockaddr *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
}

static int call(const char *name)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect_to(fd, name))
		return fd;
	close(fd);
	return -1;
}

/* Bytes of an answer, which ends with the connection. */
static size_t hear(int fd, char *text, size_t room)
{
	size_t used = 0;
	ssize_t n = 1;
	while (n > 0 && used < room) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (poll(&p, 1, ANSWER_MS) <= 0)
			break;
		n = recv(fd, text + used, room - used, 0);
		used += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return used;
}

/* What this process tells; NULL: nothing. */
static json_t *ask(void)
{
	char *text = malloc(ANSWER_MAX), name[FAN_ROSTER_NAME_BYTES];
	const int fd = answers(name) ? call(name) : -1;
	const size_t bytes = fd < 0 ? 0 : hear(fd, text, ANSWER_MAX);
	json_t *j = bytes ? json_loadb(text, bytes, 0, NULL) : NULL;
	EXPECT(!bytes || text[bytes - 1] == '\n');
	free(text);
	return j;
}

static const json_t *rank_in(const json_t *j, int rank)
{
	const json_t *ranks = json_object_get(j, "ranks");
	for (size_t i = 0; i < json_array_size(ranks); i++) {
		const json_t *r = json_array_get(ranks, i);
		if (json_integer_value(json_object_get(r, "rank")) == rank)
			return r;
	}
	return NULL;
}

static bool is(const json_t *r, const char *key, const char *text)
{
	const char *told = json_string_value(json_object_get(r, key));
	return told && !strcmp(told, text);
}

static void wait_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* Rank 2 begins an operation late: the others are told to wait. */
static void wait_for_rank_2(struct member *m)
{
	int32_t x[COUNT] = {0}, y[COUNT];
	fanin_op *op = NULL;
	const bool joined = team_joined(m);
	if (joined && m->rank < 2)
		EXPECT(fanin_allreduce_start(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM, &op) ==
		       FANIN_OK);
	pthread_barrier_wait(&all);
	if (joined && m->rank == 0) {
		json_t *j;
		do { /* until both count as waiting */
			wait_ms(HELD_MS);
			j = ask();
			if (is(rank_in(j, 0), "state", "waits") &&
			    is(rank_in(j, 1), "state", "waits"))
				break;
			EXPECT(j != NULL);
			json_decref(j);
		} while (j);
		const json_t *r = rank_in(j, 1);
		const json_t *under_way = json_object_get(r, "under_way");
		const json_t *first = json_array_get(under_way, 0);
		EXPECT(json_array_size(json_object_get(j, "ranks")) == RANKS);
		EXPECT(json_integer_value(json_object_get(j, "pid")) == getpid());
		EXPECT(json_integer_value(json_object_get(r, "open")) == 1);
		EXPECT(json_array_size(under_way) == 1 && is(first, "kind", "allreduce"));
		EXPECT(json_integer_value(json_object_get(first, "bytes")) == sizeof x);
		EXPECT(json_number_value(json_object_get(r, "waited_s")) >= 1);
		EXPECT(json_number_value(json_object_get(first, "age_s")) >= 1);
		EXPECT(is(rank_in(j, 2), "state", "idle"));
		if (by_memory)
			EXPECT(json_integer_value(
				       json_array_get(json_object_get(r, "missing"), 0)) == 2);
		else
			EXPECT(is(json_array_get(json_object_get(r, "places"), 0), "job",
				  "default"));
		json_decref(j);
	}
	pthread_barrier_wait(&all);
	if (joined && m->rank == 2)
		EXPECT(fanin_allreduce_start(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM, &op) ==
		       FANIN_OK);
	if (joined)
		EXPECT(op && fanin_op_wait(op, TEAM_PATIENT_MS) == FANIN_OK);
	fanin_op_free(op);
}

static void run_waits(const char *local)
{
	struct team t = team_new(RANKS, wait_for_rank_2);
	by_memory = *local == '1';
	setenv("FANIN_LOCAL", local, 1);
	pthread_barrier_init(&all, NULL, RANKS);
	team_run(&t);
	pthread_barrier_destroy(&all);
	team_free(&t);
	unsetenv("FANIN_LOCAL");
	char name[FAN_ROSTER_NAME_BYTES];
	assert_false(answers(name)); /* the thread has ended with the last rank */
}

static void roster__tells_who_waits_at_a_switch(void **state)
{
	(void)state;
	run_waits("0");
}

static void roster__tells_who_waits_in_memory(void **state)
{
	(void)state;
	run_waits("1");
}

/* A child's word. */
static int status_of(pid_t child)
{
	int status = -1;
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Another user asks: hears nothing. */
static void ask_as_nobody(const char *name)
{
	char text[64];
	const pid_t child = fork();
	if (!child) {
		if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
			_exit(1);
		const int fd = call(name);
		_exit(fd >= 0 && hear(fd, text, sizeof text) == 0 ? NOTHING_TOLD : SOME_TOLD);
	}
	EXPECT(status_of(child) == NOTHING_TOLD);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 * FAN_MS + (uint64_t)t.tv_nsec;
}

/* Who calls while the process has no descriptor left costs it nothing, and has its answer later. */
static void ask_without_descriptors(const char *name)
{
	char text[64];
	struct rlimit before, none;
	EXPECT(!getrlimit(RLIMIT_NOFILE, &before));
	const int fd = call(name), later = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT(hear(fd, text, sizeof text) > 0);
	const int next = dup(later);
	none = before;
	none.rlim_cur = (rlim_t)next; /* what there is stays, and poll() takes as many */
	EXPECT(next > 0 && !close(next) && !setrlimit(RLIMIT_NOFILE, &none));
	EXPECT(connect_to(later, name));
	const uint64_t begin_ns = cpu_ns();
	wait_ms(STUCK_MS);
	EXPECT(cpu_ns() - begin_ns < STUCK_CPU_NS);
	EXPECT(!setrlimit(RLIMIT_NOFILE, &before));
	EXPECT(hear(later, text, sizeof text) > 0);
}

static void be_asked_by_others(struct member *m)
{
	const bool joined = team_joined(m);
	pthread_barrier_wait(&all);
	if (joined && m->rank == 0) {
		char name[FAN_ROSTER_NAME_BYTES], later[FAN_ROSTER_NAME_BYTES];
		EXPECT(answers(name));
		EXPECT(fan_roster_may_ask(geteuid()) && fan_roster_may_ask(0));
		EXPECT(!fan_roster_may_ask(geteuid() + 1));
		if (!geteuid())
			ask_as_nobody(name);
		const pid_t child = fork();
		if (!child) /* the ranks are not its own, and its parent's socket is not in the way
			     */
			_exit(answers(later) ? SOME_TOLD : NOTHING_TOLD);
		EXPECT(status_of(child) == NOTHING_TOLD);
		EXPECT(answers(later) && !strcmp(later, name));
		/* a name that is no UTF-8; and several who do not listen hinder nobody */
		char *const own = program_invocation_short_name;
		char odd[] = "caf\xe9";
		program_invocation_short_name = odd;
		int deaf[4];
		for (unsigned i = 0; i < 4; i++)
			deaf[i] = call(name);
		json_t *j = ask();
		program_invocation_short_name = own;
		EXPECT(json_array_size(json_object_get(j, "ranks")) == 2);
		EXPECT(is(j, "program", "caf?"));
		json_decref(j);
		for (unsigned i = 0; i < 4; i++)
			close(deaf[i]);
		ask_without_descriptors(name);
	}
	pthread_barrier_wait(&all);
}

static void roster__answers_its_user_alone(void **state)
{
	struct team t = team_new(2, be_asked_by_others);
	(void)state;
	pthread_barrier_init(&all, NULL, 2);
	team_run(&t);
	pthread_barrier_destroy(&all);
	team_free(&t);
}

static void be_silent(struct member *m)
{
	char name[FAN_ROSTER_NAME_BYTES];
	if (team_joined(m))
		EXPECT(!answers(name));
}

static void roster__is_turned_off(void **state)
{
	(void)state;
	setenv("FANIN_PS", "0", 1);
	team_run_once(2, be_silent);
	unsetenv("FANIN_PS");
}

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[4][512];
static unsigned says;

static void note_wait(void *arg, const char *text)
{
	pthread_mutex_lock(&said_lock);
	EXPECT(arg == said);
	if (says < 4)
		snprintf(said[says], sizeof said[0], "%s", text);
	says++;
	pthread_mutex_unlock(&said_lock);
}

static unsigned said_so_far(void)
{
	pthread_mutex_lock(&said_lock);
	const unsigned n = says;
	pthread_mutex_unlock(&said_lock);
	return n;
}

/* Rank 2 is late until both others have said so, and for some turns more. */
static void say_once(struct member *m)
{
	int32_t x[COUNT] = {0}, y[COUNT];
	if (!team_joined(m))
		return;
	if (m->rank == 2) {
		while (said_so_far() < 2)
			wait_ms(10);
		wait_ms(3 * FAN_ROSTER_TURN_MS);
		fan_roster_tell_after(FAN_ROSTER_TELL_MS); /* nobody says how long the rest takes */
	}
	EXPECT(fanin_allreduce(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM) == FANIN_OK);
}

static void roster__a_rank_that_waits_long_says_so_once(void **state)
{
	char want[64];
	(void)state;
	for (int local = 0; local < 2; local++) {
		bool seen[RANKS] = {false};
		says = 0;
		setenv("FANIN_LOCAL", local ? "1" : "0", 1);
		fan_roster_tell_after(1000);
		fanin_on_wait(note_wait, said);
		team_run_once(RANKS, say_once);
		fanin_on_wait(NULL, NULL);
		fan_roster_tell_after(FAN_ROSTER_TELL_MS);
		unsetenv("FANIN_LOCAL");
		assert_int_equal(says, 2);
		for (unsigned i = 0; i < 2; i++) {
			print_message("%s\n", said[i]);
			for (int r = 0; r < RANKS; r++) {
				snprintf(want, sizeof want, "rank %d of job \"", r);
				seen[r] |= strstr(said[i], want) == said[i];
			}
			assert_non_null(strstr(said[i], "allreduce of 4000 bytes"));
			assert_non_null(strstr(said[i], local ? "waits for rank 2 to take part"
							      : "waits for results from 127."));
		}
		assert_true(seen[0] && seen[1] && !seen[2]);
	}
}

static atomic_bool goes_on;

static void wait_there(void *arg, const char *text)
{
	note_wait(arg, text);
	while (!atomic_load(&goes_on))
		wait_ms(10);
}

static void wait_for_the_first(struct member *m)
{
	int32_t x[COUNT] = {0}, y[COUNT];
	if (!team_joined(m))
		return;
	while (m->rank == 1 && !said_so_far())
		wait_ms(10);
	EXPECT(fanin_allreduce(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM) == FANIN_OK);
}

/* As one whose standard error nobody reads. */
static void roster__no_rank_waits_for_a_program_that_is_told(void **state)
{
	(void)state;
	says = 0;
	fan_roster_tell_after(1000);
	fanin_on_wait(wait_there, said);
	team_run_once(2, wait_for_the_first);
	fan_roster_tell_after(FAN_ROSTER_TELL_MS);
	atomic_store(&goes_on, true);
	fanin_on_wait(NULL, NULL);
	assert_int_equal(says, 1);
}

/* Ranks come and go while somebody asks without pause. */
static atomic_bool ends;

static void *ask_on(void *arg)
{
	unsigned *count = arg;
	while (!atomic_load(&ends)) {
		char name[FAN_ROSTER_NAME_BYTES], text[256];
		const int fd = answers(name) ? call(name) : -1;
		*count += fd >= 0 && hear(fd, text, sizeof text) > 0;
	}
	return NULL;
}

static void do_nothing(struct member *m)
{
	EXPECT(team_joined(m));
}

static void roster__ranks_come_and_go_while_it_is_asked(void **state)
{
	struct team t = team_new(2, do_nothing);
	pthread_t asks;
	unsigned count = 0;
	(void)state;
	assert_int_equal(pthread_create(&asks, NULL, ask_on, &count), 0);
	for (int i = 0; i < 20; i++)
		team_run(&t);
	atomic_store(&ends, true);
	pthread_join(asks, NULL);
	print_message("%u answers\n", count);
	team_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roster__tells_who_waits_at_a_switch),
		cmocka_unit_test(roster__tells_who_waits_in_memory),
		cmocka_unit_test(roster__answers_its_user_alone),
		cmocka_unit_test(roster__is_turned_off),
		cmocka_unit_test(roster__a_rank_that_waits_long_says_so_once),
		cmocka_unit_test(roster__no_rank_waits_for_a_program_that_is_told),
		cmocka_unit_test(roster__ranks_come_and_go_while_it_is_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

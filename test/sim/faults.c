/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c - many seeds of the random-fault simulation; --help.
 *
 * Seeds run in processes beside this one, BATCH of them in each, so that one that fails, crashes
 * or hangs costs only itself and a new process.  In one for each seed, the kernel spent half of
 * the time on pages of memory that the next seed asked for again. */
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"
#include "run.h"

#define JOBS_MAX     64
#define BATCH	     100
#define SEED_LIMIT_S 60 /* of processor time, so that other work cannot use it up */
#define FAILURES_MAX 20 /* then there is no point in going on */

struct options {
	uint64_t first, seeds;
	unsigned jobs;
	struct run_options run;
	bool one;
};

struct child {
	pid_t pid;
	uint64_t first, end; /* seeds that are its own: [first, end) */
};

/* What children write and their parent reads. */
struct shared {
	struct run_totals totals;
	uint64_t seed[JOBS_MAX]; /* that each child runs; its end: all have passed */
};

static void usage(FILE *to)
{
	fputs("usage: faults [--seeds N] [--seed S] [--story NAME] [--policy P]\n"
	      "              [--sealed] [--stragglers] [--loss PERCENT] [--jobs J] [--verbose]\n\n"
	      "Runs the protocol core in virtual time under random faults and checks that\n"
	      "sums are exact, that every run ends, and that errors name their cause.\n\n"
	      "  --seeds N     how many seeds (1000, or 1 after --seed)\n"
	      "  --seed S      the first seed (1); a failed run prints its own\n"
	      "  --story NAME  the same story for all: calm deaf cut restart death stall\n"
	      "                early mismatch taken full rogue outsider liar asleep\n"
	      "                stranger stopped\n"
	      "  --policy P    between workers and aggregator: switchml (nothing), atp, esa (shared\n"
	      "                switches), mix, as each seed says (mix), routed (shared\n"
	      "                switches, and routes through them), moved (routes that change),\n"
	      "                tree (aggregators below another, slots in front of any),\n"
	      "                levels (ESA on routes over racks and a switch above), or grid\n"
	      "                (GRID's switches in any of these places)\n"
	      "  --sealed      jobs are sealed\n"
	      "  --stragglers  some ranks are slow, and the others run ahead of them\n"
	      "  --loss P      all links lose P percent, instead of what seeds say; at most 2\n"
	      "                where a rank's silence must mean something: death and on\n"
	      "  --jobs J      processes at a time (2)\n"
	      "  --verbose     what each seed stands for\n",
	      to);
}

static uint64_t number(const char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 0);
	if (*text == '\0' || *end != '\0') {
		fprintf(stderr, "faults: \"%s\": expected a number\n", text);
		exit(2);
	}
	return v;
}

static const char *const policy_name[] = {"switchml", "atp",  "esa",	"mix", "routed",
					  "moved",    "tree", "levels", "grid"};

static enum plan_policy policy_number(const char *name)
{
	for (unsigned i = 0; i < PLAN_POLICIES; i++)
		if (strcmp(name, policy_name[i]) == 0)
			return (enum plan_policy)i;
	fprintf(stderr,
		"faults: \"%s\": expected switchml, atp, esa, mix, routed, moved, "
		"tree, levels or grid\n",
		name);
	exit(2);
}

static int story_number(const char *name)
{
	for (int i = 0; i < STORY_COUNT; i++)
		if (strcmp(name, story_name((enum story)i)) == 0)
			return i;
	fprintf(stderr, "faults: \"%s\": no such story\n", name);
	exit(2);
}

static struct options parse(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"seeds", required_argument, NULL, 'n'},
		{"seed", required_argument, NULL, 's'},
		{"story", required_argument, NULL, 't'},
		{"policy", required_argument, NULL, 'p'},
		{"jobs", required_argument, NULL, 'j'},
		{"verbose", no_argument, NULL, 'v'},
		{"stragglers", no_argument, NULL, 'g'},
		{"loss", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{"sealed", no_argument, NULL, 'e'},
		{NULL, 0, NULL, 0},
	};
	struct options o = {.first = 1, .jobs = 2, .run = {.story = -1, .policy = PLAN_MIX}};
	for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
		switch (c) {
		case 'n': o.seeds = number(optarg); break;
		case 's':
			o.first = number(optarg);
			o.one = true;
			break;
		case 't': o.run.story = story_number(optarg); break;
		case 'p': o.run.policy = policy_number(optarg); break;
		case 'j': o.jobs = (unsigned)number(optarg); break;
		case 'g': o.run.stragglers = true; break;
		case 'l': o.run.loss = (uint32_t)number(optarg) * 10000; break;
		case 'v': o.run.verbose = true; break;
		case 'e': o.run.sealed = true; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	if (optind < argc || o.jobs < 1 || o.jobs > JOBS_MAX || o.run.loss >= 500000) {
		usage(stderr);
		exit(2);
	}
	if (o.seeds == 0)
		o.seeds = o.one ? 1 : 1000;
	return o;
}

/* Others add to it at the same time. */
static void add_totals(struct run_totals *shared, const struct run_totals *t)
{
	__atomic_fetch_add(&shared->completions, t->completions, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->preemptions, t->preemptions, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->yields, t->yields, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->late, t->late, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->lent, t->lent, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->kept, t->kept, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->sealed, t->sealed, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->refused, t->refused, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->collided, t->collided, __ATOMIC_RELAXED);
}

static void print_totals(const struct run_totals *t)
{
	printf("whole sums %llu, preemptions %llu, yields %llu, late %llu, lent %llu, kept by "
	       "helpers %llu, sealed %llu, refused %llu, dropped for want of a slot %llu\n",
	       (unsigned long long)t->completions, (unsigned long long)t->preemptions,
	       (unsigned long long)t->yields, (unsigned long long)t->late,
	       (unsigned long long)t->lent, (unsigned long long)t->kept,
	       (unsigned long long)t->sealed, (unsigned long long)t->refused,
	       (unsigned long long)t->collided);
}

/* The process has so much more processor time from now on, and then gets SIGPROF. */
static void limit_seed(void)
{
	const struct itimerval limit = {.it_value.tv_sec = SEED_LIMIT_S};

	setitimer(ITIMER_PROF, &limit, NULL);
}

static void run_batch(const struct options *o, const struct child *c, struct shared *shared,
		      uint64_t *seed)
{
	struct run_totals totals = {0};
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	for (*seed = c->first; *seed < c->end; ++*seed) {
		limit_seed();
		run_seed(&o->run, *seed, &totals);
	}
	limit_seed();
	add_totals(&shared->totals, &totals);
}

static void start(const struct options *o, struct child *c, struct shared *shared, uint64_t *seed)
{
	*seed = c->first;
	fflush(NULL);
	c->pid = fork();
	if (c->pid < 0) {
		perror("faults");
		exit(2);
	}
	if (c->pid > 0)
		return;
	run_batch(o, c, shared, seed);
	exit(0); /* with what sanitizers and coverage do at the end */
}

static void again(const struct run_options *o, uint64_t seed)
{
	fprintf(stderr, "    again: faults --verbose --policy %s%s%s --seed %llu%s%s",
		policy_name[o->policy], o->stragglers ? " --stragglers" : "",
		o->sealed ? " --sealed" : "", (unsigned long long)seed,
		o->story < 0 ? "" : " --story ",
		o->story < 0 ? "" : story_name((enum story)o->story));
	if (o->loss)
		fprintf(stderr, " --loss %u", o->loss / 10000);
	fprintf(stderr, "\n");
}

static void blame(const struct options *o, const struct child *c, uint64_t seed, int status)
{
	if (seed == c->end) {
		fprintf(stderr, "seeds %llu to %llu: status %d at the end of their process\n",
			(unsigned long long)c->first, (unsigned long long)c->end - 1, status);
		return;
	}
	if (WIFSIGNALED(status))
		fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed,
			WTERMSIG(status) == SIGPROF ? "hangs" : strsignal(WTERMSIG(status)));
	again(&o->run, seed);
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* How far all is.  A seed counts as ended when it has failed or its process has. */
struct progress {
	uint64_t begun, ended, failed;
	double begin_s, said_s;
};

/* Wait for one child.  What it had not yet run when a seed failed is its place's next batch. */
static void reap(const struct options *o, struct child *child, struct shared *shared,
		 struct progress *p)
{
	int status;
	pid_t pid = wait(&status);
	unsigned i = 0;
	while (i < o->jobs && child[i].pid != pid)
		i++;
	if (i == o->jobs)
		return;
	struct child *c = &child[i];
	uint64_t seed = shared->seed[i];
	c->pid = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		p->failed++;
		blame(o, c, seed, status);
		seed += seed < c->end;
	}
	p->ended += seed - c->first;
	c->first = seed;
}

static void say(const struct options *o, struct progress *p)
{
	if (seconds() - p->said_s < 5)
		return;
	p->said_s = seconds();
	printf("%llu of %llu seeds, %llu failed\n", (unsigned long long)p->ended,
	       (unsigned long long)o->seeds, (unsigned long long)p->failed);
	fflush(stdout);
}

/* Of `jobs` places, begin a batch at the first that is free; false: none is, or nothing is left. */
static bool begin(const struct options *o, struct child *child, struct shared *shared,
		  struct progress *p)
{
	if (p->failed >= FAILURES_MAX)
		return false;
	/* short ones at the end and of few seeds: all places shall have some */
	uint64_t left = o->seeds - p->begun, share = (left + o->jobs - 1) / o->jobs;
	for (unsigned i = 0; i < o->jobs; i++) {
		struct child *c = &child[i];
		if (c->pid || (c->first == c->end && left == 0))
			continue;
		if (c->first == c->end) {
			uint64_t batch = share < BATCH ? share : BATCH;
			c->first = o->first + p->begun;
			c->end = c->first + batch;
			p->begun += batch;
		}
		start(o, c, shared, &shared->seed[i]);
		return true;
	}
	return false;
}

static bool any_runs(const struct child *child, unsigned jobs)
{
	for (unsigned i = 0; i < jobs; i++)
		if (child[i].pid)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct child child[JOBS_MAX] = {{0}};
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("faults");
		return 2;
	}
	struct progress p = {.begin_s = seconds(), .said_s = seconds()};
	for (;;) {
		if (begin(&o, child, shared, &p))
			continue;
		if (!any_runs(child, o.jobs))
			break;
		reap(&o, child, shared, &p);
		say(&o, &p);
	}
	print_totals(&shared->totals);
	printf("%s: %llu seeds from %llu on, %llu failed, %.1f s\n", p.failed ? "FAILED" : "passed",
	       (unsigned long long)p.ended, (unsigned long long)o.first,
	       (unsigned long long)p.failed, seconds() - p.begin_s);
	return p.failed != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c - many seeds of the random-fault simulation; --help.
 *
 * Every seed runs in a process of its own, so that one that fails, crashes or hangs
 * costs only itself. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"
#include "run.h"

#define JOBS_MAX     64
#define SEED_LIMIT_S 60 /* of wall time */
#define FAILURES_MAX 20 /* then there is no point in going on */

struct options {
	uint64_t first, seeds;
	unsigned jobs;
	struct run_options run;
	bool one;
};

struct child {
	pid_t pid;
	uint64_t seed;
};

static void usage(FILE *to)
{
	fputs("usage: faults [--seeds N] [--seed S] [--story NAME] [--policy P]\n"
	      "              [--stragglers] [--loss PERCENT] [--jobs J] [--verbose]\n\n"
	      "Runs the protocol core in virtual time under random faults and checks that\n"
	      "sums are exact, that every run ends, and that errors name their cause.\n\n"
	      "  --seeds N     how many seeds (1000, or 1 after --seed)\n"
	      "  --seed S      the first seed (1); a failed run prints its own\n"
	      "  --story NAME  the same story for all: calm deaf cut restart death stall\n"
	      "                early mismatch taken full rogue outsider liar\n"
	      "  --policy P    between workers and aggregator: switchml (nothing), atp, esa (shared\n"
	      "                switches), mix, as each seed says (mix), routed (shared\n"
	      "                switches, and routes through them), moved (routes that change),\n"
	      "                tree (aggregators below another, slots in front of any), or\n"
	      "                levels (ESA on routes over racks and a switch above)\n"
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

static const char *const policy_name[] = {"switchml", "atp",   "esa",  "mix",
					  "routed",   "moved", "tree", "levels"};

static enum plan_policy policy_number(const char *name)
{
	for (unsigned i = 0; i < PLAN_POLICIES; i++)
		if (strcmp(name, policy_name[i]) == 0)
			return (enum plan_policy)i;
	fprintf(stderr,
		"faults: \"%s\": expected switchml, atp, esa, mix, routed, moved, "
		"tree or levels\n",
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
		{"seeds", required_argument, NULL, 'n'}, {"seed", required_argument, NULL, 's'},
		{"story", required_argument, NULL, 't'}, {"policy", required_argument, NULL, 'p'},
		{"jobs", required_argument, NULL, 'j'},	 {"verbose", no_argument, NULL, 'v'},
		{"stragglers", no_argument, NULL, 'g'},	 {"loss", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},	 {NULL, 0, NULL, 0},
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
}

static void print_totals(const struct run_totals *t)
{
	printf("whole sums %llu, preemptions %llu, yields %llu, late %llu, lent %llu, kept by "
	       "helpers %llu\n",
	       (unsigned long long)t->completions, (unsigned long long)t->preemptions,
	       (unsigned long long)t->yields, (unsigned long long)t->late,
	       (unsigned long long)t->lent, (unsigned long long)t->kept);
}

static pid_t start(const struct options *o, uint64_t seed, struct run_totals *shared)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	alarm(SEED_LIMIT_S);
	struct run_totals totals = {0};
	run_seed(&o->run, seed, &totals);
	add_totals(shared, &totals);
	exit(0); /* with what sanitizers and coverage do at the end */
}

static void again(const struct run_options *o, uint64_t seed)
{
	fprintf(stderr, "    again: faults --verbose --policy %s%s --seed %llu%s%s",
		policy_name[o->policy], o->stragglers ? " --stragglers" : "",
		(unsigned long long)seed, o->story < 0 ? "" : " --story ",
		o->story < 0 ? "" : story_name((enum story)o->story));
	if (o->loss)
		fprintf(stderr, " --loss %u", o->loss / 10000);
	fprintf(stderr, "\n");
}

/* Wait for one child; true if its seed passed. */
static bool reap(struct child *child, unsigned jobs, const struct options *o)
{
	int status;
	pid_t pid = wait(&status);
	for (unsigned i = 0; i < jobs; i++) {
		if (child[i].pid != pid)
			continue;
		child[i].pid = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			return true;
		if (WIFSIGNALED(status))
			fprintf(stderr, "seed %llu: %s\n", (unsigned long long)child[i].seed,
				WTERMSIG(status) == SIGALRM ? "hangs"
							    : strsignal(WTERMSIG(status)));
		again(&o->run, child[i].seed);
		return false;
	}
	return true;
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct child child[JOBS_MAX] = {{0}};
	uint64_t begun = 0, ended = 0, failed = 0;
	struct run_totals *totals = mmap(NULL, sizeof *totals, PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (totals == MAP_FAILED) {
		perror("faults");
		return 2;
	}
	double begin_s = seconds(), said_s = begin_s;
	while (ended < begun || (begun < o.seeds && failed < FAILURES_MAX)) {
		unsigned i = 0;
		while (i < o.jobs && child[i].pid)
			i++;
		if (i < o.jobs && begun < o.seeds && failed < FAILURES_MAX) {
			child[i] =
				(struct child){start(&o, o.first + begun, totals), o.first + begun};
			begun++;
			continue;
		}
		failed += !reap(child, o.jobs, &o);
		ended++;
		if (seconds() - said_s < 5)
			continue;
		said_s = seconds();
		printf("%llu of %llu seeds, %llu failed\n", (unsigned long long)ended,
		       (unsigned long long)o.seeds, (unsigned long long)failed);
		fflush(stdout);
	}
	print_totals(totals);
	printf("%s: %llu seeds from %llu on, %llu failed, %.1f s\n", failed ? "FAILED" : "passed",
	       (unsigned long long)ended, (unsigned long long)o.first, (unsigned long long)failed,
	       seconds() - begin_s);
	return failed != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "file/option.h"
#include "group.h"
#include "lib/base/config.h"
#include "report.h"
#include "types.h"

#define VARIABLES_MAX  64
#define VARIABLE_BYTES 192 /* of "FANIN_SWITCH=...", longer ones are compared up to here */

struct fan_mpi_world fan_mpi_world;

extern char **environ;

/* The variables that must be the same on all ranks, in order. */
struct variables {
	int count;
	char text[VARIABLES_MAX][VARIABLE_BYTES];
};

void fan_mpi_log(const char *what, const char *why)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	if (!atomic_flag_test_and_set(&said))
		fprintf(stderr, "fanin: %s: %s; the program runs on its own MPI\n", what, why);
}

void fan_mpi_progress(void *unused)
{
	int flag;
	(void)unused;
	PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

/* All of fanin's variables except a rank's number and its own reports. */
static bool must_agree(const char *text)
{
	static const char *const own[] = {
		"FANIN_RANK=", "FANIN_RANKS=", "FANIN_METRICS=", "FANIN_MPI_REPORT="};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (!strncmp(text, own[i], strlen(own[i])))
			return false;
	return !strncmp(text, "FANIN_", strlen("FANIN_"));
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void read_variables(struct variables *v)
{
	memset(v, 0, sizeof *v);
	for (char **e = environ; e && *e && v->count < VARIABLES_MAX; e++)
		if (must_agree(*e))
			snprintf(v->text[v->count++], VARIABLE_BYTES, "%s", *e);
	qsort(v->text, (size_t)v->count, VARIABLE_BYTES, compare);
}

/* The name of the first variable in which the two differ. */
static void name_difference(char *name, size_t bytes, const struct variables *a,
			    const struct variables *b)
{
	int i = 0;
	while (i < VARIABLES_MAX - 1 && !strcmp(a->text[i], b->text[i]))
		i++;
	const char *first = a->text[i];
	if (!*first || (*b->text[i] && strcmp(b->text[i], first) < 0))
		first = b->text[i];
	snprintf(name, bytes, "%.*s", (int)strcspn(first, "="), first);
}

/* Do all ranks have the same variables?  All ranks learn it; the first that differs from rank 0
 * prints it. */
static bool variables_agree(void)
{
	struct variables *mine = malloc(2 * sizeof *mine);
	char name[VARIABLE_BYTES], why[VARIABLE_BYTES + 64];
	int other = fan_mpi_world.ranks, first = 0;
	if (mine) {
		read_variables(&mine[0]);
		mine[1] = mine[0];
	}
	/* A rank without memory takes part as well, so that the others do not wait for it. */
	static struct variables nothing;
	struct variables *theirs = mine ? &mine[1] : &nothing;
	PMPI_Bcast(theirs, sizeof *theirs, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (!mine || memcmp(&mine[0], &mine[1], sizeof *mine) != 0)
		other = fan_mpi_world.rank;
	PMPI_Allreduce(&other, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (first == fan_mpi_world.rank) {
		name_difference(name, sizeof name, mine ? &mine[0] : &nothing, theirs);
		snprintf(why, sizeof why, "ranks 0 and %d have different values", first);
		fan_mpi_log(name, why);
	}
	free(mine);
	return first == fan_mpi_world.ranks;
}

static bool is_one(const char *name)
{
	const char *text = fan_option_variable(name);
	return text && !strcmp(text, "1");
}

/* The answer depends on the variables alone, which are equal on all ranks. */
static bool find_use(enum fan_mpi_use *use)
{
	static const char *const words[] = {"learn", "always", "never", NULL};
	static const struct fan_option o = {
		.name = "FANIN_USE", .kind = FAN_OPTION_WORD, .words = words};
	const char *text = fan_option_variable(o.name);
	char why[64] = "expected ";
	int value = FAN_USE_LEARN;
	bool good = !text || fan_option_set(&o, &value, text);
	*use = (enum fan_mpi_use)value;
	if (good || fan_mpi_world.rank)
		return good;
	fan_option_expected(&o, why + strlen(why), sizeof why - strlen(why));
	fan_mpi_log(o.name, why);
	return false;
}

static void log_wait(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "fanin: %s\n", text);
}

static void begin(void)
{
	struct fan_mpi_world *w = &fan_mpi_world;
	fanin_on_wait(log_wait, NULL);
	fan_mpi_report_on = is_one("FANIN_MPI_REPORT");
	PMPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
	PMPI_Comm_size(MPI_COMM_WORLD, &w->ranks);
	if (!w->rank)
		fan_config_misspelt(log_wait, NULL);
	if (w->ranks == 1 || !variables_agree() || !find_use(&w->use))
		return;
	PMPI_Comm_group(MPI_COMM_WORLD, &w->group);
	fan_mpi_types_init();
	w->on = fan_mpi_groups_init();
}

int fan_mpi_init(int *argc, char ***argv)
{
	int e = FAN_NEXT(Init, init)(argc, argv);
	if (!e)
		begin();
	return e;
}

int fan_mpi_init_thread(int *argc, char ***argv, int required, int *provided)
{
	int e = FAN_NEXT(Init_thread, init_thread)(argc, argv, required, provided);
	if (!e)
		begin();
	return e;
}

/* All ranks leave together. */
int fan_mpi_finalize(void)
{
	struct fan_mpi_world *w = &fan_mpi_world;
	if (w->on) {
		fan_mpi_groups_end();
		PMPI_Group_free(&w->group);
	}
	if (fan_mpi_report_on && !w->rank)
		fan_mpi_report_print(w->rank);
	if (*fanin_file_error())
		fprintf(stderr, "fanin: rank %d: %s\n", w->rank, fanin_file_error());
	w->on = false;
	return FAN_NEXT(Finalize, finalize)();
}

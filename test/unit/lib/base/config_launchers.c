/* SPDX-License-Identifier: Apache-2.0 */
/* Rank and size from a launcher's variables. */
#include "unit/lib/base/config_rig.h"

static void config__launchers(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {
		{"RANK", "WORLD_SIZE"},
		{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"PMI_RANK", "PMI_SIZE"},
		{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		struct fanin_options o = FANIN_OPTIONS_INIT;
		o.switch_addr = "s:1";
		clean(NULL);
		setenv(pairs[i][0], "5", 1);
		assert_int_equal(load(&o), FAN_E_CONFIG); /* half of a pair is not used */
		assert_why("no rank", "FANIN_RANK");
		setenv(pairs[i][1], "6", 1);
		assert_int_equal(load(&o), FAN_OK);
		assert_int_equal(c.rank, 5);
		assert_int_equal(c.ranks, 6);
	}
}

/* Loads as rank `rank` of `ranks`. */
static void assert_is(int rank, int ranks)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.switch_addr = "s:1";
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.rank, rank);
	assert_int_equal(c.ranks, ranks);
}

/* What Slurm 22.05 sets in an allocation of four tasks: in its script, in a step of two, and in the
 * step that MPICH's mpirun starts one process of each host by. */
static void config__a_step_of_slurm_inside_an_allocation(void **state)
{
	(void)state;
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.switch_addr = "s:1";
	setenv("SLURM_JOB_ID", "1", 1);
	setenv("SLURM_PROCID", "0", 1);
	setenv("SLURM_NTASKS", "4", 1);
	assert_int_equal(load(&o), FAN_E_CONFIG);
	assert_why("no rank", "FANIN_RANK");
	setenv("SLURM_STEP_ID", "1", 1);
	assert_is(0, 4);
	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	assert_is(0, 2);
	setenv("PMI_RANK", "3", 1); /* srun --mpi=pmi2 */
	setenv("PMI_SIZE", "5", 1);
	assert_is(0, 2);
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	setenv("MPI_LOCALNRANKS", "5", 1);
	assert_is(3, 5);
}

/* `srun --pty bash` and salloc's shell: a step of one task, in which nothing is a rank but what
 * another launcher, or a step of more tasks, makes one. */
static void config__a_shell_of_slurm_is_no_rank(void **state)
{
	static const char *const marks[][2] = {{"SLURM_PTY_PORT", "40001"},
					       {"SLURM_JOB_NAME", "bash"},
					       {"SLURM_JOB_NAME", "interactive"}};
	(void)state;
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		struct fanin_options o = FANIN_OPTIONS_INIT;
		o.switch_addr = "s:1";
		clean(NULL);
		setenv("SLURM_JOB_ID", "1", 1);
		setenv("SLURM_STEP_ID", "0", 1);
		setenv("SLURM_PROCID", "0", 1);
		setenv("SLURM_NTASKS", "1", 1);
		setenv("SLURM_STEP_NUM_TASKS", "1", 1);
		assert_int_equal(load(&o), FAN_E_CONFIG);
		assert_why("SLURM_STEP_NUM_TASKS", "expected a number from 2");
		setenv(marks[i][0], marks[i][1], 1);
		assert_int_equal(load(&o), FAN_E_CONFIG);
		assert_why("no rank", "FANIN_RANK");
		o.rank = 1; /* by hand, beside others */
		o.ranks = 3;
		assert_int_equal(load(&o), FAN_OK);
		assert_int_equal(c.rank, 1);
		assert_int_equal(c.ranks, 3);
		setenv("PMI_RANK", "3", 1); /* mpirun, from the shell */
		setenv("PMI_SIZE", "5", 1);
		assert_is(3, 5);
		setenv("SLURM_STEP_NUM_TASKS", "2", 1);
		assert_is(0, 2);
	}
}

/* A switch inside rank 0 serves this job alone, and ranks may know its host by different names. */
static void config__the_job_at_a_switch_inside_rank_0(void **state)
{
	(void)state;
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.rank = 0;
	o.ranks = 2;
	setenv("MASTER_ADDR", "node7", 1);
	setenv("MASTER_PORT", "29500", 1);
	assert_int_equal(load(&o), FAN_OK);
	assert_string_equal(c.job, "rank0:29500");
	o.switch_addr = "s:1";
	assert_int_equal(load(&o), FAN_OK);
	assert_string_equal(c.job, "node7:29500");
	o.job = "mine";
	assert_int_equal(load(&o), FAN_OK);
	assert_string_equal(c.job, "mine");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(config__launchers, clean),
		cmocka_unit_test_setup(config__a_step_of_slurm_inside_an_allocation, clean),
		cmocka_unit_test_setup(config__a_shell_of_slurm_is_no_rank, clean),
		cmocka_unit_test_setup(config__the_job_at_a_switch_inside_rank_0, clean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

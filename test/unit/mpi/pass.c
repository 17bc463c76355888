/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls pass, and how many. */
#include "unit/unit.h"

#include "mpi/pass.h"

#define BYTES 64
#define REST  5

bool fan_mpi_report_on = true;
static uint64_t reported_calls, reported_bytes;
static struct fan_mpi_pass pass;

void fan_mpi_report_add(enum fan_mpi_why why, uint64_t calls, uint64_t bytes)
{
	assert_int_equal(why, FAN_WHY_FASTER);
	reported_calls += calls;
	reported_bytes += bytes;
}

static int setup(void **state __attribute__((unused)))
{
	reported_calls = reported_bytes = 0;
	fan_mpi_pass_init(&pass);
	return 0;
}

static bool call(void)
{
	return fan_mpi_pass_next(&pass, 8, MPI_DOUBLE, MPI_SUM);
}

TEST_WITH(pass__nothing_before_it_is_remembered, setup, NULL)
{
	assert_false(call());
	assert_false(fan_mpi_pass_next(&pass, 0, MPI_DATATYPE_NULL, MPI_OP_NULL));
	fan_mpi_pass_forget(&pass);
	assert_int_equal(reported_calls, 0);
}

TEST_WITH(pass__as_many_as_rest, setup, NULL)
{
	uint64_t rest = REST;
	fan_mpi_pass_remember(&pass, 8, MPI_DOUBLE, MPI_SUM, &rest, BYTES, FAN_WHY_FASTER);
	for (unsigned i = 0; i < REST; i++)
		assert_true(call());
	assert_int_equal(rest, 0);
	assert_false(call());
	assert_int_equal(rest, 0);
}

TEST_WITH(pass__only_the_same_call, setup, NULL)
{
	uint64_t rest = REST;
	fan_mpi_pass_remember(&pass, 8, MPI_DOUBLE, MPI_SUM, &rest, BYTES, FAN_WHY_FASTER);
	assert_false(fan_mpi_pass_next(&pass, 9, MPI_DOUBLE, MPI_SUM));
	assert_false(fan_mpi_pass_next(&pass, 8, MPI_FLOAT, MPI_SUM));
	assert_false(fan_mpi_pass_next(&pass, 8, MPI_DOUBLE, MPI_MAX));
	assert_int_equal(rest, REST);
	assert_true(call());
}

TEST_WITH(pass__without_an_end, setup, NULL)
{
	fan_mpi_pass_remember(&pass, 8, MPI_DOUBLE, MPI_SUM, NULL, BYTES, FAN_WHY_FASTER);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(call());
	fan_mpi_pass_forget(&pass);
	assert_false(call());
	assert_int_equal(reported_calls, 1000);
	assert_int_equal(reported_bytes, 1000 * BYTES);
}

TEST_WITH(pass__reports_each_call_once, setup, NULL)
{
	uint64_t rest = REST, other = REST;
	fan_mpi_pass_remember(&pass, 8, MPI_DOUBLE, MPI_SUM, &rest, BYTES, FAN_WHY_FASTER);
	call();
	call();
	fan_mpi_pass_remember(&pass, 8, MPI_DOUBLE, MPI_SUM, &other, 2 * BYTES, FAN_WHY_FASTER);
	call();
	assert_int_equal(reported_calls, 2);
	fan_mpi_pass_forget(&pass);
	fan_mpi_pass_forget(&pass);
	assert_int_equal(reported_calls, 3);
	assert_int_equal(reported_bytes, 4 * BYTES);
	assert_int_equal(rest, REST - 2);
	assert_int_equal(other, REST - 1);
}

UNIT_MAIN

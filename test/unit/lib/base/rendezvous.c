/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/err.h"
#include "lib/base/rendezvous.c"

static const char *const variables[] = {
	"MASTER_ADDR",
	"MASTER_PORT",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_WORLD_SIZE",
	"TORCHELASTIC_RUN_ID",
	"TORCHELASTIC_RESTART_COUNT",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
	"OMPI_MCA_ess_base_jobid",
	"PMIX_NAMESPACE",
	"SLURM_JOB_ID",
	"SLURM_STEP_ID",
	"SLURM_PROCID",
	"SLURM_STEP_NUM_TASKS",
	"SLURM_RESTART_COUNT",
	"SLURM_JOB_NODELIST",
	"SLURM_STEP_NODELIST",
	"SLURM_STEP_NUM_NODES",
	"PMI_SIZE",
	"MPI_LOCALNRANKS",
	"KUBERNETES_SERVICE_HOST",
};

static struct fan_rendezvous r;
static char why[FAN_CONFIG_WHY_BYTES];
static char job[FAN_NAME_MAX + 1];

static int clean_environment(void **state __attribute__((unused)))
{
	for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
		unsetenv(variables[i]);
	memcpy(job, "default", sizeof "default");
	*why = '\0';
	return 0;
}

/* Names of variables, each with its value. */
static void set_all(const char *const *text)
{
	for (; *text; text += 2)
		assert_int_equal(setenv(text[0], text[1], 1), 0);
}

#define set(...) set_all((const char *const[]){__VA_ARGS__, NULL})

static void finds(const char *addr, bool one_host)
{
	const size_t n = strlen(addr);
	assert_int_equal(fan_rendezvous_find(&r, why, sizeof why), FAN_OK);
	if (!n || addr[n - 1] == ':') /* and any port */
		assert_memory_equal(r.addr, addr, n);
	else
		assert_string_equal(r.addr, addr);
	assert_int_equal(r.one_host, one_host);
}

static void refuses(const char *about)
{
	assert_int_equal(fan_rendezvous_find(&r, why, sizeof why), FAN_E_CONFIG);
	assert_non_null(strstr(why, about));
}

static void job_is(bool by_rank0, const char *name)
{
	fan_rendezvous_job(job, by_rank0);
	assert_string_equal(job, name);
}

TEST_WITH(rendezvous__torchrun, clean_environment, NULL)
{
	set("MASTER_ADDR", "node7", "MASTER_PORT", "29500", "WORLD_SIZE", "8", "LOCAL_WORLD_SIZE",
	    "4");
	finds("node7:29500", false);
	set("LOCAL_WORLD_SIZE", "8");
	finds("", true);
}

TEST_WITH(rendezvous__addresses_of_both_families, clean_environment, NULL)
{
	set("MASTER_PORT", "1", "MASTER_ADDR", "fd00::7");
	finds("[fd00::7]:1", false);
	set("MASTER_ADDR", "[fd00::7]");
	finds("[fd00::7]:1", false);
	set("MASTER_ADDR", "127.0.0.1");
	finds("127.0.0.1:1", true);
}

/* What frameworks that start ranks set: Ray 2.60, Lightning 2.6 (its own processes, and what it
 * adds in a step of Slurm and under LSF's jsrun), DeepSpeed 0.19. */
TEST_WITH(rendezvous__frameworks, clean_environment, NULL)
{
	static const struct {
		const char *addr, *size, *here, *slurm, *mpi;
		const char *at;
		bool one_host;
	} of[] = {
		{"10.0.0.7", "2", "2", NULL, NULL, "10.0.0.7:41745", true},    /* Ray, a host */
		{"10.0.0.7", "4", "2", NULL, NULL, "10.0.0.7:41745", false},   /* Ray, two */
		{"127.0.0.1", "2", NULL, NULL, NULL, "127.0.0.1:41745", true}, /* Lightning */
		{"n7", "4", NULL, NULL, NULL, "n7:41745", false},	       /* on two hosts */
		{"n7", NULL, NULL, "7", NULL, "n7:41745", false},	       /* with Slurm */
		{"n7", NULL, NULL, NULL, "4", "n7:41745", false},	       /* with jsrun */
		{"127.0.0.1", "2", NULL, NULL, NULL, "127.0.0.1:41745", true}, /* DeepSpeed */
	};
	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
		clean_environment(NULL);
		set("MASTER_PORT", "41745", "MASTER_ADDR", of[i].addr);
		if (of[i].size)
			set("WORLD_SIZE", of[i].size);
		if (of[i].here)
			set("LOCAL_WORLD_SIZE", of[i].here);
		if (of[i].slurm)
			set("SLURM_JOB_ID", of[i].slurm);
		if (of[i].mpi)
			set("OMPI_COMM_WORLD_SIZE", of[i].mpi);
		finds(of[i].at, of[i].one_host);
		job_is(false, of[i].at);
	}
}

/* Kubeflow's operator names localhost to rank 0, and rank 0's pod to the others. */
TEST_WITH(rendezvous__localhost_while_others_are_elsewhere, clean_environment, NULL)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "::1"};
	char own[81], expected[FAN_NAME_MAX + 1];
	set("MASTER_PORT", "23456");
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		set("MASTER_ADDR", names[i], "WORLD_SIZE", "3");
		unsetenv("LOCAL_WORLD_SIZE");
		unsetenv("KUBERNETES_SERVICE_HOST");
		finds("", true); /* two terminals of one host */
		set("KUBERNETES_SERVICE_HOST", "10.96.0.1");
		finds("", false);
		unsetenv("KUBERNETES_SERVICE_HOST");
		set("LOCAL_WORLD_SIZE", "1");
		finds("", false);
		set("KUBERNETES_SERVICE_HOST", "10.96.0.1", "LOCAL_WORLD_SIZE", "3");
		finds("", true);
	}
	set("LOCAL_WORLD_SIZE", "1");
	fan_rendezvous_job(job, false); /* at a named switch: as the others know this pod */
	assert_int_equal(gethostname(own, sizeof own), 0);
	snprintf(expected, sizeof expected, "%.40s:23456", own);
	assert_string_equal(job, expected);
	job_is(true, "rank0:23456");
	set("MASTER_ADDR", "train-master-0");
	job_is(true, "rank0:23456");
}

TEST_WITH(rendezvous__wrong_port, clean_environment, NULL)
{
	static const char *const wrong[] = {"", "0", "65536", "12x", "port"};
	set("MASTER_ADDR", "node7");
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		set("MASTER_PORT", wrong[i]);
		refuses("MASTER_PORT");
	}
}

TEST_WITH(rendezvous__long_host, clean_environment, NULL)
{
	char host[FAN_CONFIG_SWITCH_MAX + 1];
	memset(host, 'h', sizeof host - 1);
	host[sizeof host - 1] = '\0';
	set("MASTER_ADDR", host, "MASTER_PORT", "29500");
	refuses("MASTER_ADDR");
}

TEST_WITH(rendezvous__nothing_says_what_is_expected, clean_environment, NULL)
{
	refuses("FANIN_SWITCH");
	assert_non_null(strstr(why, "MASTER_ADDR"));
}

static unsigned port(void)
{
	return (unsigned)atoi(strrchr(r.addr, ':') + 1);
}

TEST_WITH(rendezvous__slurm, clean_environment, NULL)
{
	set("SLURM_JOB_ID", "812", "SLURM_JOB_NODELIST", "wrong[1-9]", "SLURM_STEP_NODELIST",
	    "gpu[07-09,12],cpu1", "SLURM_STEP_NUM_NODES", "5");
	finds("gpu07:", false);
	unsigned first = port();
	assert_in_range(first, FAN_RENDEZVOUS_PORT, FAN_RENDEZVOUS_PORT + FAN_RENDEZVOUS_PORTS - 1);
	set("SLURM_STEP_ID", "1");
	assert_int_equal(fan_rendezvous_find(&r, why, sizeof why), FAN_OK);
	assert_int_not_equal(port(), first); /* another step, another job */
	set("SLURM_STEP_NUM_NODES", "1");
	finds("", true);
	set("SLURM_STEP_NODELIST", "gpu[07");
	refuses("SLURM_STEP_NODELIST");
}

TEST_WITH(rendezvous__open_mpi, clean_environment, NULL)
{
	set("PMIX_NAMESPACE", "3141599233", "OMPI_COMM_WORLD_SIZE", "4",
	    "OMPI_COMM_WORLD_LOCAL_SIZE", "4");
	finds("127.0.0.1:", true);
	set("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
	refuses("MASTER_ADDR");
}

TEST_WITH(rendezvous__first_host, clean_environment, NULL)
{
	static const char *const lists[][2] = {
		{"a", "a"},
		{"a,b", "a"},
		{"a[1-3],b", "a1"},
		{"a[007]", "a007"},
		{"a[3,1-2]-ib,b", "a3-ib"},
		{"r[1-2]n[5,7]", "r1n5"},
	};
	static const char *const wrong[] = {"", ",a", "a[1-2", "a[1", "12345678"};
	char host[8];
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		assert_true(first_host(lists[i][0], host, sizeof host));
		assert_string_equal(host, lists[i][1]);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_false(first_host(wrong[i], host, sizeof host));
}

TEST_WITH(rendezvous__job_names, clean_environment, NULL)
{
	job_is(false, "default");
	set("SLURM_JOB_ID", "812");
	job_is(false, "slurm-812.0");
	set("MASTER_ADDR", "node 7", "MASTER_PORT", "29500");
	job_is(false, "node_7:29500");
	set("TORCHELASTIC_RUN_ID", "none"); /* what all have that were not named */
	job_is(false, "node_7:29500");
	set("TORCHELASTIC_RUN_ID", "run \"5\"", "TORCHELASTIC_RESTART_COUNT", "0");
	job_is(false, "torch-run__5_");
	set("TORCHELASTIC_RESTART_COUNT", "2");
	job_is(false, "torch-run__5_/2");
}

TEST_WITH(rendezvous__long_job_names_differ, clean_environment, NULL)
{
	char id[80], first[FAN_NAME_MAX + 1];
	memset(id, 'x', sizeof id - 1);
	id[sizeof id - 1] = '\0';
	set("TORCHELASTIC_RUN_ID", id);
	fan_rendezvous_job(job, false);
	assert_int_equal(strlen(job), FAN_NAME_MAX);
	memcpy(first, job, sizeof first);
	id[sizeof id - 2] = 'y';
	set("TORCHELASTIC_RUN_ID", id);
	fan_rendezvous_job(job, false);
	assert_int_equal(strlen(job), FAN_NAME_MAX);
	assert_string_not_equal(job, first);
}

/* Its mpirun's own step of an allocation of Slurm tells where rank 0 is, and no more. */
TEST_WITH(rendezvous__mpich_inside_an_allocation, clean_environment, NULL)
{
	set("SLURM_JOB_ID", "2", "SLURM_STEP_ID", "1", "SLURM_STEP_NODELIST", "n[3-4]", "PMI_SIZE",
	    "2", "MPI_LOCALNRANKS", "2");
	assert_int_equal(fan_rendezvous_find(&r, why, sizeof why), FAN_OK);
	assert_true(r.one_host && !strncmp(r.addr, "127.0.0.1:2", 11));
	fan_rendezvous_job(job, true);
	assert_true(!strncmp(job, "hydra-", 6));
	set("PMI_SIZE", "4");
	finds("n3:", false);
	job_is(true, "slurm-2.1");
}

/* Names with a suffix: whole where they fit, otherwise told apart by a hash. */
TEST(rendezvous__derived_names)
{
	char name[FAN_NAME_MAX + 1], other[FAN_NAME_MAX + 1], longest[FAN_NAME_MAX + 1];
	fan_rendezvous_derive(name, "train", "/c3/12");
	assert_string_equal(name, "train/c3/12");
	memset(longest, 'x', FAN_NAME_MAX);
	longest[FAN_NAME_MAX] = '\0';
	fan_rendezvous_derive(name, longest, "");
	assert_string_equal(name, longest);
	fan_rendezvous_derive(name, longest, "/1");
	assert_int_equal(strlen(name), FAN_NAME_MAX);
	assert_string_equal(name + FAN_NAME_MAX - 2, "/1");
	longest[FAN_NAME_MAX - 1] = 'y';
	fan_rendezvous_derive(other, longest, "/1");
	assert_string_not_equal(name, other);
}

/* MPICH's mpirun tells its ranks nothing of the job, but it is their parent. */
TEST_WITH(rendezvous__mpich, clean_environment, NULL)
{
	char other[FAN_NAME_MAX + 1] = "default";
	set("PMI_SIZE", "4", "MPI_LOCALNRANKS", "4");
	assert_int_equal(fan_rendezvous_find(&r, why, sizeof why), FAN_OK);
	assert_true(r.one_host && !strncmp(r.addr, "127.0.0.1:2", 11));
	fan_rendezvous_job(job, false);
	assert_true(!strncmp(job, "hydra-", 6));
	set("SLURM_JOB_ID", "7"); /* srun --mpi=pmi2 sets both, and counts no ranks of a host */
	unsetenv("MPI_LOCALNRANKS");
	fan_rendezvous_job(other, false);
	assert_string_equal(other, "slurm-7.0");
	unsetenv("SLURM_JOB_ID");
	set("MPI_LOCALNRANKS", "2");
	refuses("MASTER_ADDR");
}

/* The launcher's id counts where rank and ranks are the launcher's. */
TEST_WITH(rendezvous__launches, clean_environment, NULL)
{
	assert_int_equal(fan_rendezvous_launch("", 2), 0);
	const uint64_t mine = fan_rendezvous_launch("mine", 2);
	assert_true(mine && mine == fan_rendezvous_launch("mine", -1));
	set("RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "10.0.0.1", "MASTER_PORT", "29500");
	assert_int_equal(fan_rendezvous_launch("", 2), 0); /* another may have the same */
	set("TORCHELASTIC_RUN_ID", "none");
	assert_int_equal(fan_rendezvous_launch("", 2), 0);
	set("TORCHELASTIC_RUN_ID", "a");
	const uint64_t a = fan_rendezvous_launch("", 2);
	set("RANK", "0", "MASTER_ADDR", "rank0.example"); /* as another rank may know it */
	assert_true(a && a == fan_rendezvous_launch("", 2));
	assert_int_equal(fan_rendezvous_launch("", 3), 0);
	assert_int_equal(fan_rendezvous_launch("mine", 2), mine);
	set("MASTER_PORT", "29501");
	assert_int_not_equal(fan_rendezvous_launch("", 2), a);
}

/* Loopback is another place on each host. */
TEST_WITH(rendezvous__launch_at_loopback, clean_environment, NULL)
{
	set("RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "localhost", "MASTER_PORT", "29500");
	assert_int_equal(fan_rendezvous_launch("", 2), 0); /* others may be elsewhere */
	set("LOCAL_WORLD_SIZE", "2");
	assert_int_not_equal(fan_rendezvous_launch("", 2), 0);
}

TEST_WITH(rendezvous__launch_by_slurm_and_mpi, clean_environment, NULL)
{
	set("SLURM_JOB_ID", "7", "SLURM_STEP_ID", "1", "SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS",
	    "4");
	const uint64_t first = fan_rendezvous_launch("", 4);
	assert_int_not_equal(first, 0);
	set("SLURM_RESTART_COUNT", "1");
	assert_int_not_equal(fan_rendezvous_launch("", 4), first);
	assert_int_equal(fan_rendezvous_launch("", 5), 0); /* of torchrun in such a step */
	set("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "5", "PMIX_NAMESPACE",
	    "prterun-h-1@1");
	assert_int_not_equal(fan_rendezvous_launch("", 5), 0);
}

UNIT_MAIN

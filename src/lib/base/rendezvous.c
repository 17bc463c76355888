/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/err.h"
#include "fault_text.h"
#include "file/option.h"
#include "net/clock.h"
#include "net/echo.h"
#include "net/udp.h"
#include "plan_msg.h"

#define ID_BYTES    128 /* of a launcher's job, as text */
#define BOOT_ID	    "/proc/sys/kernel/random/boot_id"
#define NET_NS	    "/proc/self/ns/net"
#define BOOT_BYTES  64
#define HASH_PRIME  UINT64_C(0x100000001b3)
#define HASH_SECOND UINT64_C(0x9e3779b97f4a7c15) /* another start for the second half */
#define ONE_BYTES   300				 /* longer ones are no addresses */
#define PAUSE_MS    250

/* ---- hosts ---- */

uint64_t fan_hash(uint64_t h, const void *data, size_t bytes)
{
	const uint8_t *p = data;
	for (size_t i = 0; i < bytes; i++)
		h = (h ^ p[i]) * HASH_PRIME;
	return h;
}

/* Read the host's id.  A source that cannot be read counts as empty: hosts then differ by the
 * rest. */
struct fan_host_id fan_host_id_read(uint64_t user)
{
	struct {
		char boot[BOOT_BYTES];
		uint64_t device, inode;
		uint64_t user;
	} about;
	struct stat net;
	memset(&about, 0, sizeof about);
	int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, about.boot, sizeof about.boot);
		if (n < 0)
			memset(about.boot, 0, sizeof about.boot);
		close(fd);
	}
	if (!stat(NET_NS, &net)) {
		about.device = net.st_dev;
		about.inode = net.st_ino;
	}
	about.user = user;
	return (struct fan_host_id){{fan_hash(FAN_HASH_START, &about, sizeof about),
				     fan_hash(FAN_HASH_START ^ HASH_SECOND, &about, sizeof about)}};
}

/* ---- rendezvous ---- */

static bool same(const char *one, const char *other)
{
	return one && other && !strcmp(one, other);
}

static uint32_t hash(const char *text)
{
	return (uint32_t)fan_hash(FAN_HASH_START, text, strlen(text));
}

/* The first name of Slurm's list of hosts: "n07-ib" of "n[07-09,12]-ib,m1".  False: it does not fit
 * `bytes`, or `list` is no such list. */
static bool first_host(const char *list, char *host, size_t bytes)
{
	enum { NAME, NUMBER, SKIP } at = NAME; /* a bracket: its first number, then the rest */
	size_t n = 0;
	for (; *list && (at != NAME || *list != ','); list++) {
		if (at == NAME && *list == '[')
			at = NUMBER;
		else if (at != NAME && *list == ']')
			at = NAME;
		else if (at == NUMBER && (*list == '-' || *list == ','))
			at = SKIP;
		else if (at != SKIP && n + 1 < bytes)
			host[n++] = *list;
		else if (at != SKIP)
			return false;
	}
	host[n] = '\0';
	return n > 0 && at == NAME;
}

static int place(struct fan_rendezvous *r, const char *host, unsigned port)
{
	bool bare_v6 = strchr(host, ':') && *host != '[';
	int n = snprintf(r->addr, sizeof r->addr, bare_v6 ? "[%s]:%u" : "%s:%u", host, port);
	return n < (int)sizeof r->addr ? FAN_OK : FAN_E_CONFIG;
}

static bool is_loopback(const char *host)
{
	static const char *const names[] = {"localhost", "ip6-localhost", "::1", "[::1]"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (same(host, names[i]))
			return true;
	return host && !strncmp(host, "127.", 4);
}

/* Loopback shows that where nobody counts the ranks of this host; but Kubeflow's operator names
 * localhost to rank 0 while the others are in other pods. */
static bool is_one_host(const char *host)
{
	const char *here = fan_option_variable("LOCAL_WORLD_SIZE"),
		   *all = fan_option_variable("WORLD_SIZE");
	if (here && all)
		return same(here, all);
	return is_loopback(host) && !fan_option_variable("KUBERNETES_SERVICE_HOST");
}

/* torchrun, and launchers with its variables. */
static int find_master(struct fan_rendezvous *r, const char *host, char *why, size_t bytes)
{
	const char *text = fan_option_variable("MASTER_PORT");
	char *end = NULL;
	long port = text ? strtol(text, &end, 10) : 0;
	if (!text || *end || port < 1 || port > 65535) {
		snprintf(why, bytes, "MASTER_PORT: \"%.16s\": expected a number from 1 to 65535",
			 text ? text : "");
		return FAN_E_CONFIG;
	}
	r->one_host = is_one_host(host);
	int e = place(r, host, (unsigned)port);
	if (e)
		snprintf(why, bytes, "MASTER_ADDR: expected at most %d bytes",
			 FAN_CONFIG_SWITCH_MAX - 8);
	return e;
}

/* The id of a Slurm step, the same for all its ranks. */
static void slurm_id(char *id, size_t bytes)
{
	const char *step = fan_option_variable("SLURM_STEP_ID");
	snprintf(id, bytes, "slurm-%.40s.%.40s", fan_option_variable("SLURM_JOB_ID"),
		 step ? step : "0");
}

/* Rank 0 is on the first host of a step, whether Slurm counts by blocks or in turns. */
static int find_slurm(struct fan_rendezvous *r, char *why, size_t bytes)
{
	const char *list = fan_option_variable("SLURM_STEP_NODELIST");
	const char *nodes = fan_option_variable("SLURM_STEP_NUM_NODES");
	char host[FAN_CONFIG_SWITCH_MAX + 1], id[ID_BYTES];
	if (!list)
		list = fan_option_variable("SLURM_JOB_NODELIST");
	if (!list || !first_host(list, host, sizeof host)) {
		snprintf(why, bytes,
			 "SLURM_STEP_NODELIST: \"%.64s\": expected a list of hosts; name the "
			 "switch in FANIN_SWITCH",
			 list ? list : "");
		return FAN_E_CONFIG;
	}
	slurm_id(id, sizeof id);
	r->one_host = same(nodes, "1");
	return place(r, host, FAN_RENDEZVOUS_PORT + hash(id) % FAN_RENDEZVOUS_PORTS);
}

/* mpirun names rank 0's host to no rank, unless all of them are here: in the launch `id`. */
static int find_here(struct fan_rendezvous *r, const char *id, const char *mpi, char *why,
		     size_t bytes)
{
	if (!id) {
		snprintf(why, bytes,
			 "no switch: %s does not tell on which host rank 0 is; name a switch in "
			 "FANIN_SWITCH, or rank 0's host and a free port in MASTER_ADDR and "
			 "MASTER_PORT (mpirun %s)",
			 mpi, *mpi == 'O' ? "-x" : "-genv");
		return FAN_E_CONFIG;
	}
	r->one_host = true;
	return place(r, "127.0.0.1", FAN_RENDEZVOUS_PORT + hash(id) % FAN_RENDEZVOUS_PORTS);
}

static int find_open_mpi(struct fan_rendezvous *r, char *why, size_t bytes)
{
	const bool here = same(fan_option_variable("OMPI_COMM_WORLD_LOCAL_SIZE"),
			       fan_option_variable("OMPI_COMM_WORLD_SIZE"));
	const char *id = fan_option_variable("PMIX_NAMESPACE");
	if (!id)
		id = fan_option_variable("OMPI_MCA_ess_base_jobid");
	return find_here(r, here ? id : NULL, "Open MPI", why, bytes);
}

/* Name a launch of MPICH's mpirun: all ranks of a host are children of one process. */
static void hydra_id(char *id, size_t bytes)
{
	snprintf(id, bytes, "hydra-%ld", (long)getppid());
}

/* Inside an allocation of Slurm MPICH's mpirun starts its processes by a step of its own, one
 * process a host, and ranks have that step's variables, too. */
static bool is_local_hydra(void)
{
	return same(fan_option_variable("MPI_LOCALNRANKS"), fan_option_variable("PMI_SIZE"));
}

static int find_hydra(struct fan_rendezvous *r, char *why, size_t bytes)
{
	char id[ID_BYTES];
	hydra_id(id, sizeof id);
	return find_here(r, is_local_hydra() ? id : NULL, "MPICH", why, bytes);
}

int fan_rendezvous_find(struct fan_rendezvous *r, char *why, size_t bytes)
{
	const char *master = fan_option_variable("MASTER_ADDR");
	memset(r, 0, sizeof *r);
	if (master)
		return find_master(r, master, why, bytes);
	if (fan_option_variable("OMPI_COMM_WORLD_SIZE"))
		return find_open_mpi(r, why, bytes);
	if (fan_option_variable("SLURM_JOB_ID") && !is_local_hydra())
		return find_slurm(r, why, bytes);
	if (fan_option_variable("PMI_SIZE"))
		return find_hydra(r, why, bytes);
	snprintf(why, bytes,
		 "no switch: expected its address as HOST:PORT in FANIN_SWITCH, "
		 "options.switch_addr or the INI file's key switch; or, for rank 0 to start one, "
		 "a launcher's variables such as MASTER_ADDR and MASTER_PORT");
	return FAN_E_CONFIG;
}

void fan_rendezvous_derive(char *name, const char *job, const char *suffix)
{
	enum { HASH_BYTES = 9 }; /* "~89abcdef" */
	char begin[FAN_NAME_MAX + 1] = "", end[HASH_BYTES + 1] = "";
	size_t after = strlen(suffix), kept = strlen(job);
	assert(after + HASH_BYTES <= FAN_NAME_MAX);
	if (kept + after > FAN_NAME_MAX) {
		kept = FAN_NAME_MAX - HASH_BYTES - after;
		snprintf(end, sizeof end, "~%08x", hash(job));
	}
	snprintf(begin, kept + 1, "%s", job);
	int n = snprintf(name, FAN_NAME_MAX + 1, "%s%s%s", begin, end, suffix);
	assert(n <= FAN_NAME_MAX);
	(void)n;
}

/* Keep what may stand in a job's name; a launcher's id may hold anything. */
static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == '"' || (unsigned char)*text >= 127)
			*text = '_';
}

/* Rank 0's host as its other ranks know it.  Kubeflow's names pods as it names them to others. */
static void master_name(char *name, size_t bytes)
{
	const char *master = fan_option_variable("MASTER_ADDR");
	if (is_loopback(master) && !is_one_host(master) && !gethostname(name, bytes))
		name[bytes - 1] = '\0';
	else
		snprintf(name, bytes, "%s", master);
}

/* Ranks may know rank 0's host by different names; at a switch inside rank 0 none is needed. */
static void master_id(char *id, size_t bytes, bool inside)
{
	char host[81] = "rank0";
	if (!inside)
		master_name(host, sizeof host);
	snprintf(id, bytes, "%s:%.8s", host, fan_option_variable("MASTER_PORT"));
}

void fan_rendezvous_job(char *job, bool inside)
{
	const char *run = fan_option_variable("TORCHELASTIC_RUN_ID");
	const char *again = fan_option_variable("TORCHELASTIC_RESTART_COUNT");
	char id[ID_BYTES] = "";
	if (run && strcmp(run, "none"))
		snprintf(id, sizeof id, "torch-%.80s", run);
	else if (fan_option_variable("MASTER_ADDR") && fan_option_variable("MASTER_PORT"))
		master_id(id, sizeof id, inside);
	else if (fan_option_variable("PMIX_NAMESPACE"))
		snprintf(id, sizeof id, "mpi-%.80s", fan_option_variable("PMIX_NAMESPACE"));
	else if (fan_option_variable("SLURM_JOB_ID") && !is_local_hydra())
		slurm_id(id, sizeof id);
	else if (fan_option_variable("PMI_SIZE"))
		hydra_id(id, sizeof id);
	if (!*id)
		return;
	if (again && strcmp(again, "0")) { /* ranks of the last try may not be forgotten yet */
		size_t used = strlen(id);
		snprintf(id + used, sizeof id - used, "/%.8s", again);
	}
	clean(id);
	if (strlen(id) > FAN_NAME_MAX) /* the end differs, and so does the hash */
		snprintf(id + FAN_NAME_MAX - 9, 10, "#%08x", hash(id));
	memcpy(job, id, strlen(id) + 1);
}

/* A launcher's variables for a rank and the number of ranks. */
struct launcher {
	const char *rank, *ranks;
	const char *mark; /* without this one they are not meant for this process; NULL: always */
};

/* The first that has set both counts, since one may have been started by one further down.  Slurm
 * passes an allocation's tasks to its script as well, which is no rank: only steps have ranks. */
static const struct launcher launchers[] = {
	{"RANK", "WORLD_SIZE", NULL},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
	{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL},
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
	{"PMI_RANK", "PMI_SIZE", NULL},
};

/* The shell of `srun --pty`, or of salloc, is a step of one task; programs started there by hand
 * are no ranks of it. */
static bool is_in_a_shell(const struct launcher *from)
{
	return !strcmp(from->rank, "SLURM_PROCID") && same(fan_option_variable(from->ranks), "1") &&
	       (fan_option_variable("SLURM_PTY_PORT") ||
		same(fan_option_variable("SLURM_JOB_NAME"), "bash") ||
		same(fan_option_variable("SLURM_JOB_NAME"), "interactive"));
}

bool fan_rendezvous_ranks(const char **rank, const char **ranks)
{
	for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
		const struct launcher *from = &launchers[i];
		*rank = from->rank;
		*ranks = from->ranks;
		if (fan_option_variable(from->rank) && fan_option_variable(from->ranks) &&
		    (!from->mark || fan_option_variable(from->mark)) && !is_in_a_shell(from))
			return true;
	}
	return false;
}

/* ---- the launch ---- */

/* Has the launcher started so many, by its own count?  Then all of them are the job's ranks, in
 * whatever order. */
static bool started(const char *name, int ranks)
{
	const char *all = fan_option_variable(name);
	return all && atoi(all) == ranks;
}

/* Do all ranks meet at this host's loopback address?  Others have one as well. */
static bool is_at_loopback(int ranks)
{
	return is_loopback(fan_option_variable("MASTER_ADDR")) &&
	       started("LOCAL_WORLD_SIZE", ranks);
}

/* "torch-RUN:PORT, of host 0123456789abcdef"; "": nothing distinguishes launches. */
static void torch_launch(char *id, size_t bytes, int ranks)
{
	const char *run = fan_option_variable("TORCHELASTIC_RUN_ID");
	const char *port = fan_option_variable("MASTER_PORT");
	const struct fan_host_id host = fan_host_id_read(0);
	const bool at_loopback = is_at_loopback(ranks);
	run = same(run, "none") ? NULL : run;
	if (run || at_loopback)
		snprintf(id, bytes, "torch-%.80s:%.8s", run ? run : "", port ? port : "");
	if (at_loopback)
		snprintf(id + strlen(id), bytes - strlen(id), ", of host %016llx",
			 (unsigned long long)host.word[0]);
}

static void slurm_launch(char *id, size_t bytes)
{
	const char *again = fan_option_variable("SLURM_RESTART_COUNT");
	const char *cluster = fan_option_variable("SLURM_CLUSTER_NAME");
	slurm_id(id, bytes);
	snprintf(id + strlen(id), bytes - strlen(id), "/%.8s of %.40s", again ? again : "",
		 cluster ? cluster : "");
}

/* The launcher's id of the launch. */
static void find_launch(char *id, size_t bytes, int ranks)
{
	const char *mpi = fan_option_variable("PMIX_NAMESPACE");
	const bool step = fan_option_variable("SLURM_JOB_ID") &&
			  fan_option_variable("SLURM_STEP_ID") && !is_local_hydra();
	if (started("WORLD_SIZE", ranks))
		torch_launch(id, bytes, ranks);
	else if (mpi && started("OMPI_COMM_WORLD_SIZE", ranks))
		snprintf(id, bytes, "mpi-%.80s", mpi);
	else if (step &&
		 started(fan_option_variable("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS"
								     : "SLURM_NTASKS",
			 ranks))
		slurm_launch(id, bytes);
}

uint64_t fan_rendezvous_launch(const char *run, int ranks)
{
	char id[FAN_CONFIG_RUN_MAX + sizeof "run-"] = "";
	if (*run)
		snprintf(id, sizeof id, "run-%s", run);
	else if (ranks >= 0)
		find_launch(id, sizeof id, ranks);
	const uint64_t launch = fan_hash(FAN_HASH_START, id, strlen(id));
	if (!*id)
		return 0;
	return *run ? launch | 1
		    : (launch | 3) - 1; /* a launcher's may be a user's, and occur twice */
}

/* ---- addresses ---- */

static int check_one(const char *what, const char *text, char *why, size_t bytes)
{
	char wrong[FAN_CONFIG_WHY_BYTES];
	if (!fan_peer_check(text, wrong, sizeof wrong))
		return FAN_OK;
	snprintf(why, bytes, "%s: %.400s", what, wrong);
	return FAN_E_CONFIG;
}

/* Is `one` of `length` bytes in `list`, which ends before it? */
static bool is_there(const char *list, const char *one, size_t length)
{
	while (list < one) {
		size_t n = strcspn(list, ",");
		if (n == length && !memcmp(list, one, n))
			return true;
		list += n + 1;
	}
	return false;
}

static int check_switches(const char *list, char *why, size_t bytes)
{
	unsigned count = 0;
	const char *one = list;
	for (bool more = *list; more;) {
		char text[ONE_BYTES];
		size_t n = strcspn(one, ",");
		snprintf(text, sizeof text, "%.*s", (int)n, one);
		int e = check_one("switch", text, why, bytes);
		if (!e && count++ == FAN_PARTS_MAX) {
			snprintf(why, bytes, "switch %.100s: expected at most %d switches", text,
				 FAN_PARTS_MAX);
			e = FAN_E_CONFIG;
		} else if (!e && is_there(list, one, n)) {
			snprintf(why, bytes, "switch %.100s: named twice: expected different ones",
				 text);
			e = FAN_E_CONFIG;
		}
		if (e)
			return e;
		more = one[n];
		one += n + 1;
	}
	return FAN_OK;
}

int fan_switch_list_check(const struct fan_config *c, char *why, size_t bytes)
{
	int e = check_switches(c->switch_addr, why, bytes);
	if (!e && *c->server_addr)
		e = check_one("server", c->server_addr, why, bytes);
	if (!e && *c->controller_addr)
		e = check_one("controller", c->controller_addr, why, bytes);
	if (e || !*c->server_addr || !strchr(c->switch_addr, ','))
		return e;
	snprintf(why, bytes,
		 "server with several switches: expected one switch, or no server: each switch "
		 "knows its own");
	return FAN_E_CONFIG;
}

static void report_address(const struct fan_config *cfg, const char *name, uint64_t left_ns)
{
	char text[FAN_FAULT_TEXT_BYTES];
	snprintf(text, sizeof text,
		 "waits for the address of \"%.300s\": no such name so far; gives up in %" PRIu64
		 " s",
		 name, left_ns / (1000 * FAN_MS) + 1);
	cfg->waiting(cfg->waiting_arg, text);
}

/* By address, whatever the name server's order. */
static int by_address(const void *a, const void *b)
{
	return memcmp(((const fan_peer *)a)->addr, ((const fan_peer *)b)->addr,
		      sizeof((const fan_peer *)a)->addr);
}

/* A name has `count` addresses, of one switch or several: move that at which all ranks should join
 * to the front, the lowest that answers; none does yet: the first one. */
static void order_addresses(fan_peer *at, unsigned count)
{
	const fan_peer first = at[0];
	bool answers[FAN_PARTS_MAX];
	unsigned lowest = 0;
	qsort(at, count, sizeof *at, by_address);
	fan_echo_all(at, count, answers);
	while (lowest < count && !answers[lowest])
		lowest++;
	for (unsigned i = 0; i < count && lowest == count; i++)
		if (fan_peer_equal(&at[i], &first))
			lowest = i;
	const fan_peer chosen = at[lowest];
	memmove(at + 1, at, lowest * sizeof *at);
	at[0] = chosen;
}

int fan_resolve_all(fan_peer *to, unsigned max, unsigned *count, const char *text,
		    const struct fan_config *cfg, char *why, size_t bytes)
{
	const uint64_t begin_ns = fan_clock_ns();
	const uint64_t until_ns = begin_ns + (uint64_t)fan_config_join_ms(cfg) * FAN_MS;
	uint64_t tell_ns = begin_ns + (uint64_t)fan_config_note_first_ms(cfg) * FAN_MS;
	int e;
	assert(max <= FAN_PARTS_MAX);
	while ((e = fan_peer_parse_all(to, max, count, text, why, bytes)) == FAN_PEER_UNKNOWN) {
		const uint64_t now_ns = fan_clock_ns();
		if (now_ns + PAUSE_MS * FAN_MS >= until_ns)
			break;
		if (cfg->waiting && now_ns >= tell_ns) {
			report_address(cfg, text, until_ns - now_ns);
			tell_ns = fan_clock_ns() + FAN_CONFIG_NOTE_MS * FAN_MS;
		}
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * FAN_MS}, NULL);
	}
	if (!e && *count > 1)
		order_addresses(to, *count);
	return e ? FAN_E_CONFIG : FAN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "file/option.h"
#include "lib/comm/comm.h"
#include "lib/comm/meeting.h"
#include "net/clock.h"
#include "request.h"
#include "world.h"

#define WHY_BYTES   (MPI_MAX_ERROR_STRING < 512 ? MPI_MAX_ERROR_STRING : 512)
#define PROGRESS_NS 1000000  /* between polls while a job is joined */
#define JOIN_MS	    10000    /* until a join without progress fails */
#define WAIT_MS	    86400000 /* until an operation does: MPI has no such limit */
#define ALIVE_MS    60000    /* of silence until a rank counts as lost */

static int keyval = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the list and the count */
static struct fan_mpi_group *groups;
static unsigned jobs_open;
static atomic_bool refused; /* a join has failed; no other is tried */

/* A thread may still read a group that another thread has just dropped, so its memory is kept for
 * the next group; `comm` then differs. */
static struct fan_mpi_group *spare;
_Atomic(struct fan_mpi_group *) fan_mpi_group_last;

static void release(void)
{
	pthread_mutex_lock(&lock);
	jobs_open--;
	pthread_mutex_unlock(&lock);
}

static void leave(struct fan_mpi_group *g)
{
	if (!g->job)
		return;
	fan_mpi_requests_wait(g);
	fanin_comm_destroy(g->job);
	g->job = NULL;
	release();
}

static void drop(struct fan_mpi_group *g)
{
	for (unsigned i = 0; i < FAN_LEARNER_KINDS; i++)
		fan_mpi_pass_forget(&g->passes[i]);
	pthread_mutex_lock(&lock);
	struct fan_mpi_group **at = &groups;
	while (*at && *at != g)
		at = &(*at)->next;
	if (*at)
		*at = g->next;
	pthread_mutex_unlock(&lock);
	leave(g);
	free(g->learner);
	g->comm = MPI_COMM_NULL;
	pthread_mutex_lock(&lock);
	g->next = spare;
	spare = g;
	pthread_mutex_unlock(&lock);
}

/* MPI calls it when a communicator ends without MPI_Comm_free, as in MPI_Finalize. */
static int gone(MPI_Comm comm, int key, void *group, void *unused)
{
	(void)comm, (void)key, (void)unused;
	drop(group);
	return MPI_SUCCESS;
}

bool fan_mpi_groups_init(void)
{
	return !PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, gone, &keyval, NULL);
}

void fan_mpi_groups_end(void)
{
	PMPI_Barrier(MPI_COMM_WORLD); /* so that no rank waits for one that has not left yet */
	while (groups) {
		struct fan_mpi_group *g = groups;
		PMPI_Comm_delete_attr(g->comm, keyval);
		if (groups == g) /* the MPI has not called `gone` */
			drop(g);
	}
	PMPI_Comm_free_keyval(&keyval);
	fan_mpi_group_last = NULL;
	while (spare) {
		struct fan_mpi_group *g = spare;
		spare = g->next;
		free(g);
	}
}

/* With the lock held. */
static struct fan_mpi_group *blank(void)
{
	struct fan_mpi_group *g = spare;
	if (!g)
		return calloc(1, sizeof *g);
	spare = g->next;
	g->calls = 0;
	g->bytes = 0;
	g->job = NULL;
	g->error = 0;
	g->learner = NULL;
	return g;
}

/* Are some ranks in another MPI_COMM_WORLD, where fanin may not be loaded? */
static bool has_strangers(MPI_Comm comm, int ranks)
{
	assert(ranks > 0);
	MPI_Group group;
	bool strange = false;
	int *numbers = calloc(2 * (size_t)ranks, sizeof *numbers);
	if (!numbers || PMPI_Comm_group(comm, &group)) {
		free(numbers);
		return true;
	}
	for (int i = 0; i < ranks; i++)
		numbers[i] = i;
	PMPI_Group_translate_ranks(group, ranks, numbers, fan_mpi_world.group, numbers + ranks);
	for (int i = 0; i < ranks; i++)
		strange |= numbers[ranks + i] == MPI_UNDEFINED;
	PMPI_Group_free(&group);
	free(numbers);
	return strange;
}

static enum fan_mpi_why why_off(MPI_Comm comm, int ranks)
{
	int inter = 0;
	PMPI_Comm_test_inter(comm, &inter);
	if (inter || ranks < 2 || ranks > FANIN_RANKS_MAX || has_strangers(comm, ranks))
		return FAN_WHY_COMM;
	return fan_mpi_world.use == FAN_USE_NEVER ? FAN_WHY_OFF : FAN_WHY_TAKEN;
}

/* With the lock held. */
static struct fan_mpi_group *add(MPI_Comm comm)
{
	struct fan_mpi_group *g = blank();
	if (!g)
		return NULL;
	for (unsigned i = 0; i < FAN_LEARNER_KINDS; i++)
		fan_mpi_pass_init(&g->passes[i]);
	PMPI_Comm_rank(comm, &g->rank);
	PMPI_Comm_size(comm, &g->ranks);
	g->off = why_off(comm, g->ranks);
	bool set = !PMPI_Comm_set_attr(comm, keyval, g);
	struct fan_mpi_group **list = set ? &groups : &spare;
	g->next = *list;
	*list = g;
	g->comm = set ? comm : MPI_COMM_NULL;
	return set ? g : NULL;
}

struct fan_mpi_group *fan_mpi_group_of(MPI_Comm comm)
{
	struct fan_mpi_group *g = atomic_load_explicit(&fan_mpi_group_last, memory_order_acquire);
	int found = 0;
	if (g && comm != MPI_COMM_NULL &&
	    atomic_load_explicit(&g->comm, memory_order_acquire) == comm)
		return g;
	g = NULL;
	if (comm == MPI_COMM_NULL || PMPI_Comm_get_attr(comm, keyval, &g, &found))
		return NULL;
	if (!found) {
		pthread_mutex_lock(&lock);
		PMPI_Comm_get_attr(comm, keyval, &g, &found);
		if (!found)
			g = add(comm);
		pthread_mutex_unlock(&lock);
	}
	if (g)
		atomic_store_explicit(&fan_mpi_group_last, g, memory_order_release);
	return g;
}

/* ---- where the ranks of a communicator meet, which they exchange through MPI ---- */

#define ADDR_BYTES    32
#define JOB_BYTES     64
#define PREFIX_BYTES  40 /* of FANIN_JOB that go into names of jobs */
#define ADDRESSES_MAX 30 /* of a host; answers have a bit for each, and two more */
#define ANSWERS	      2	 /* words of an answer; that of all has the bits that all ranks have set */

/* Bits of answers, after the bits for addresses; the first word has the bits of near addresses. */
#define SAME_HOST (1u << ADDRESSES_MAX)
#define WILLING	  (1u << (ADDRESSES_MAX + 1)) /* of the first word */

/* Where its ranks meet. */
struct place {
	char job[JOB_BYTES];   /* a name of its own */
	char addr[ADDR_BYTES]; /* "10.0.0.1:40000" at rank 0; "": a switch is named */
	bool local;	       /* all ranks are on its host */
};

/* An address of a host, as the network has it. */
struct address {
	uint32_t addr, mask;
};

/* The message of rank 0 to all ranks. */
struct offer {
	uint64_t nonce;			  /* makes the job's name unique; 0: there is none */
	int32_t host[FAN_MEETING_RECORD]; /* only the host's id is used */
	int32_t named;			  /* a switch or a controller */
	uint16_t port, count;
	struct address address[ADDRESSES_MAX];
};

static uint16_t own_addresses(struct address *a)
{
	struct ifaddrs *all;
	uint16_t n = 0;
	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i && n < ADDRESSES_MAX; i = i->ifa_next) {
		if (!i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET ||
		    !(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK)
			continue;
		a[n].addr = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr;
		a[n++].mask = ((struct sockaddr_in *)(void *)i->ifa_netmask)->sin_addr.s_addr;
	}
	freeifaddrs(all);
	return n;
}

/* A port that is free now; 0: none is. */
static uint16_t free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) ||
	    getsockname(fd, (struct sockaddr *)&at, &bytes))
		at.sin_port = 0;
	if (fd >= 0)
		close(fd);
	return ntohs(at.sin_port);
}

static void make(struct offer *o)
{
	memset(o, 0, sizeof *o);
	o->nonce = fan_clock_nonce();
	o->named = fan_meeting_is_named();
	fan_meeting_record(o->host, NULL);
	o->count = own_addresses(o->address);
	o->port = free_port();
}

static bool has_route(uint32_t addr)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	to.sin_addr.s_addr = addr;
	bool ok = fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof to);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* The addresses that this host reaches: `near` in a network of its own, `far` through a router as
 * well.  An address that this host has itself, as bridges of containers do, is not rank 0's. */
static void look(const struct offer *o, uint32_t *near, uint32_t *far)
{
	struct address own[ADDRESSES_MAX];
	unsigned count = own_addresses(own);
	*near = *far = 0;
	for (unsigned i = 0; i < o->count; i++) {
		uint32_t to = o->address[i].addr;
		bool mine = false, beside = false;
		for (unsigned k = 0; k < count; k++) {
			mine |= own[k].addr == to;
			beside |= (own[k].addr & own[k].mask) == (to & own[k].mask);
		}
		*near |= !mine && beside ? 1u << i : 0;
		*far |= !mine && (beside || has_route(to)) ? 1u << i : 0;
	}
}

/* The first address that all ranks reach. */
static bool choose(struct place *at, const struct offer *o, uint32_t near, uint32_t far)
{
	struct in_addr addr = {.s_addr = htonl(INADDR_LOOPBACK)};
	uint32_t common = near & (SAME_HOST - 1) ? near : far;
	unsigned i = 0;
	char text[INET_ADDRSTRLEN];
	at->local = near & SAME_HOST;
	while (i < o->count && !(common & 1u << i))
		i++;
	if (!o->port || (!at->local && i == o->count))
		return false;
	if (!at->local)
		addr.s_addr = o->address[i].addr;
	inet_ntop(AF_INET, &addr, text, sizeof text);
	snprintf(at->addr, sizeof at->addr, "%s:%u", text, (unsigned)o->port);
	return true;
}

static void answer_to(const struct offer *o, bool willing, uint32_t answer[ANSWERS])
{
	int32_t host[FAN_MEETING_RECORD];
	fan_meeting_record(host, NULL);
	look(o, &answer[0], &answer[1]);
	if (!memcmp(host, o->host, sizeof(struct fan_host_id)))
		answer[0] = answer[1] = (2 * SAME_HOST) - 1;
	if (willing && o->nonce && fan_meeting_is_named() == (bool)o->named)
		answer[0] |= WILLING;
}

static bool take(struct place *at, const struct offer *o, const uint32_t all[ANSWERS], char *why,
		 size_t bytes)
{
	const char *prefix = secure_getenv("FANIN_JOB");
	memset(at, 0, sizeof *at);
	snprintf(at->job, sizeof at->job, "%.*s-%016llx", PREFIX_BYTES,
		 prefix && *prefix ? prefix : "mpi", (unsigned long long)o->nonce);
	snprintf(why, bytes, "not all of its ranks can join a job now");
	if (!(all[0] & WILLING))
		return false;
	snprintf(why, bytes,
		 "no IPv4 address of rank 0 is within reach of all ranks: name a switch "
		 "in FANIN_SWITCH");
	return o->named || choose(at, o, all[0], all[1]);
}

/* Choose the meeting place.  Collective.  False: some rank is not `willing`, or no address of rank
 * 0 is within reach of all; `why`, `bytes` bytes, says which. */
static bool meet(struct place *at, const struct fan_mpi_group *g, bool willing, char *why,
		 size_t bytes)
{
	assert(g->rank >= 0);
	struct offer o;
	uint32_t mine[ANSWERS], all[ANSWERS];
	if (!g->rank)
		make(&o);
	PMPI_Bcast(&o, sizeof o, MPI_BYTE, 0, g->comm);
	answer_to(&o, willing, mine);
	PMPI_Allreduce(mine, all, ANSWERS, MPI_UINT32_T, MPI_BAND, g->comm);
	return take(at, &o, all, why, bytes);
}

/* ---- joining ---- */

/* Reserve one more job for `g`, and memory for its learner.  Whether it returns true or false, the
 * caller releases a job that is not joined. */
static bool reserve(struct fan_mpi_group *g)
{
	if (!g->learner)
		g->learner = calloc(1, sizeof *g->learner);
	pthread_mutex_lock(&lock);
	bool room = jobs_open < FAN_MPI_JOBS_MAX && !atomic_load(&refused) && g->learner;
	jobs_open++;
	pthread_mutex_unlock(&lock);
	return room;
}

struct joining {
	struct place at;
	int rank, ranks;
	fanin_comm *job; /* set by a failed join as well, for its error */
	int result;	 /* FANIN_OK: `job` is joined */
	atomic_bool done;
};

static void log_failed(const struct fan_mpi_group *g, const struct joining *j)
{
	char name[MPI_MAX_OBJECT_NAME] = "", what[MPI_MAX_OBJECT_NAME + 32];
	int bytes;
	PMPI_Comm_get_name(g->comm, name, &bytes);
	snprintf(what, sizeof what, "%s: rank %d", *name ? name : "a communicator", g->rank);
	fan_mpi_log(what, j->job ? fanin_comm_error(j->job) : fanin_strerror(j->result));
}

/* Join the job or fail, in a thread that never calls MPI. */
static void *run_join(void *arg)
{
	struct joining *j = arg;
	assert(j->rank >= 0 && j->rank < j->ranks);
	struct fanin_options o = FANIN_OPTIONS_INIT;
	const struct fan_comm_terms terms = {
		.meeting_addr = j->at.addr,
		.meeting_local = j->at.local,
		.join_ms = JOIN_MS,
	};
	o.rank = j->rank;
	o.ranks = j->ranks;
	o.job = j->at.job;
	if (!fan_option_variable("FANIN_TIMEOUT_MS"))
		o.timeout_ms = WAIT_MS;
	if (!fan_option_variable("FANIN_ALIVE_MS"))
		o.alive_ms = ALIVE_MS;
	j->result = fan_comm_create_on(&o, &terms, &j->job);
	if (!j->result)
		fan_comm_metrics_start(j->job);
	atomic_store(&j->done, true);
	return NULL;
}

/* Another rank may still wait for messages of the last collective call, so MPI makes progress
 * meanwhile. */
static void join_beside(struct joining *j)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, run_join, j)) {
		j->result = FANIN_E_SYSTEM;
		return;
	}
	while (!atomic_load(&j->done)) {
		fan_mpi_progress(NULL);
		nanosleep(&(struct timespec){.tv_nsec = PROGRESS_NS}, NULL);
	}
	pthread_join(thread, NULL);
}

/* Collective: afterwards all ranks have joined, or none has.  The first rank that could not join
 * prints why. */
static bool all_joined(const struct fan_mpi_group *g, const struct joining *j)
{
	assert(g->rank < g->ranks);
	int mine = j->result ? g->rank : g->ranks, first = 0;
	PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, g->comm);
	if (first == g->rank)
		log_failed(g, j);
	return first == g->ranks;
}

static void join(struct fan_mpi_group *g)
{
	assert(!g->job && !g->off);
	struct joining j = {.rank = g->rank, .ranks = g->ranks};
	char why[WHY_BYTES];
	bool willing = reserve(g);
	if (!meet(&j.at, g, willing, why, sizeof why)) {
		if (willing && !g->rank)
			fan_mpi_log("a communicator", why);
		release();
		g->off = FAN_WHY_OFF;
		return;
	}
	join_beside(&j);
	if (all_joined(g, &j)) {
		j.job->rank.idle.call = fan_mpi_progress;
		g->job = j.job;
		return;
	}
	fanin_comm_destroy(j.job);
	atomic_store(&refused, true);
	release();
	g->off = FAN_WHY_OFF;
}

bool fan_mpi_group_has_enough(const struct fan_mpi_group *g)
{
	return g->calls >= FAN_MPI_JOIN_CALLS || g->bytes >= FAN_MPI_JOIN_BYTES ||
	       fan_mpi_world.use == FAN_USE_ALWAYS;
}

void fan_mpi_group_join(struct fan_mpi_group *g)
{
	if (!g->job && !g->off && fan_mpi_group_has_enough(g))
		join(g);
}

/* ---- leaving ---- */

/* MPI_Comm_free and MPI_Comm_disconnect are collective: all leave together. */
static void leave_together(MPI_Comm comm)
{
	struct fan_mpi_group *g = NULL;
	int found = 0;
	if (!fan_mpi_world.on || comm == MPI_COMM_NULL ||
	    PMPI_Comm_get_attr(comm, keyval, &g, &found) || !found)
		return;
	if (!g->job)
		return;
	fan_mpi_requests_wait(g);
	PMPI_Barrier(comm);
	leave(g);
}

int fan_mpi_comm_free(MPI_Comm *comm)
{
	if (comm)
		leave_together(*comm);
	return FAN_NEXT(Comm_free, comm_free)(comm);
}

int fan_mpi_comm_disconnect(MPI_Comm *comm)
{
	if (comm)
		leave_together(*comm);
	return FAN_NEXT(Comm_disconnect, comm_disconnect)(comm);
}

/* ---- errors ---- */

int fan_mpi_group_result(struct fan_mpi_group *g, int e)
{
	int class;
	char text[WHY_BYTES];
	if (!e)
		return MPI_SUCCESS;
	if (!g->error) {
		const char *why = fanin_comm_error(g->job);
		snprintf(text, sizeof text, "fanin: %s", *why ? why : fanin_strerror(e));
		g->error = MPI_ERR_OTHER;
		if (!PMPI_Add_error_class(&class) && !PMPI_Add_error_code(class, &g->error))
			PMPI_Add_error_string(g->error, text);
	}
	PMPI_Comm_call_errhandler(g->comm, g->error);
	return g->error;
}

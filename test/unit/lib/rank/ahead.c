/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that run ahead of a slow one in real daemons on the loopback: exact sums, memory
 * within its bounds. */
#include "net/shard.h"
#include "unit/lib/team.h"

#define OPS   40
#define COUNT 20000 /* elements of each: 57 fragments */
#define SLOTS 24    /* fewer than the ranks are apart */
#define AHEAD 1024
#define CACHE 32
#define SLOW  2 /* the rank that is: in the middle, where nothing else tells it apart */

#define PATIENCE 300 /* times 10 ms: if nothing has given way then, nothing will this time */

static atomic_ullong kept;
static atomic_ulong yields, lent; /* as the switch has told last */
static unsigned long gave_way;	  /* yields of all runs */
static struct fan_daemon *asked;  /* to tell that; NULL: the slow rank does not wait for it */

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static unsigned long number_in(const char *line, const char *key)
{
	const char *at = strstr(line, key);
	return at ? strtoul(at + strlen(key), NULL, 10) : 0;
}

static void note_line(void *ctx, const char *line)
{
	(void)ctx;
	if (strncmp(line, "event=slots ", 12) != 0)
		return;
	atomic_store(&yields, number_in(line, " yields="));
	atomic_store(&lent, number_in(line, " lent="));
}

/* The slow rank lets the others run ahead, until slots have given way to them. */
static void let_run(const struct member *m)
{
	struct fan_shard_request dump = {.wish = FAN_SHARD_DUMP};
	for (int i = 0; i < PATIENCE && m->rank == SLOW && asked; i++) {
		if (atomic_load(&yields) > 0)
			return;
		fan_daemon_ask(asked, &dump);
		pause_ms(10);
	}
}

static void check_bounds(struct member *m)
{
	struct fanin_stats s = {.size = sizeof s};
	uint32_t cache = m->team->options.cache > 0 ? (uint32_t)m->team->options.cache : 0;
	EXPECT(fanin_comm_stats(m->comm, &s) == 0);
	EXPECT(s.ahead_asked == AHEAD && s.ahead_frags == AHEAD);
	EXPECT(s.window_frags < AHEAD);
	EXPECT(s.cache_frags == cache && s.cache_peak <= cache);
	atomic_fetch_add(&kept, s.cache_parts);
}

/* All operations are started before the first is waited for, so that the fast ranks are as far
 * ahead as they may. */
static void many_at_once(struct member *m)
{
	static int64_t buffer[TEAM_MAX][OPS][COUNT / 2];
	fanin_op *op[OPS];
	int n = m->team->ranks;
	for (int k = 0; k < OPS; k++) {
		int64_t *x = buffer[m->rank][k];
		for (int i = 0; i < COUNT / 2; i++)
			x[i] = (int64_t)i * (k + 1) + m->rank;
		if (k == 1)
			let_run(m);
		EXPECT(fanin_allreduce_start(m->comm, x, x, COUNT / 2, FANIN_INT64, FANIN_SUM,
					     &op[k]) == 0);
	}
	for (int k = 0; k < OPS; k++) {
		int wrong = 0;
		EXPECT(fanin_op_wait(op[k], -1) == 0);
		fanin_op_free(op[k]);
		for (int i = 0; i < COUNT / 2; i++)
			wrong +=
				buffer[m->rank][k][i] != (int64_t)i * (k + 1) * n + n * (n - 1) / 2;
		EXPECT(wrong == 0);
	}
	check_bounds(m);
}

/* A daemon whose aggregator grants a run-ahead of `ahead`. */
static struct fan_daemon *start(enum fan_policy policy, int ahead, char *address, size_t bytes)
{
	struct fan_daemon_options o;
	struct fan_daemon *d;
	char why[256];
	fan_daemon_defaults(&o);
	o.has_slots = policy != FAN_POLICY_SWITCHML;
	o.slots.policy = policy;
	o.slots.slots = SLOTS;
	o.core.ahead_max = (uint16_t)ahead;
	o.log = note_line;
	if (fan_daemon_start(&d, &o, why, sizeof why))
		fail_msg("%s", why);
	fan_peer at = fan_daemon_address(d);
	fan_peer_text(&at, address, bytes);
	return d;
}

static struct team team_ahead(int cache, void (*body)(struct member *))
{
	struct fanin_options options = FANIN_OPTIONS_INIT;
	struct team t = {.ranks = 4, .body = body, .options = options};
	t.options.timeout_ms = TEAM_PATIENT_MS;
	t.options.alive_ms = 60000;
	t.options.ahead = AHEAD;
	t.options.cache = cache;
	return t;
}

static void run(enum fan_policy policy, struct team *t)
{
	struct fan_daemon *d = start(policy, AHEAD, t->address, sizeof t->address);
	atomic_store(&kept, 0);
	atomic_store(&yields, 0);
	atomic_store(&lent, 0);
	asked = d;
	team_run(t);
	asked = NULL;
	fan_daemon_stop(d);
	gave_way += atomic_load(&yields);
	if (t->options.cache <= 0) /* else as the links are: test/net/ahead.sh */
		assert_true(atomic_load(&lent) == 0 && atomic_load(&kept) == 0);
}

/* M = 0: all goes to the aggregator. */
TEST(ahead__without_caches)
{
	struct team t = team_ahead(0, many_at_once);
	run(FAN_POLICY_ATP, &t);
	run(FAN_POLICY_ESA, &t);
}

TEST(ahead__with_caches)
{
	struct team t = team_ahead(CACHE, many_at_once);
	run(FAN_POLICY_ATP, &t);
	run(FAN_POLICY_ESA, &t);
	run(FAN_POLICY_ESA, &t);
	t.options.cache = 1;
	run(FAN_POLICY_ATP, &t);
}

/* How far the others got before the slow rank went on is up to the machine, each time; it is
 * never nothing every time. */
TEST(ahead__slots_gave_way)
{
	assert_true(gave_way > 0);
}

/* The aggregator alone, as where workers name the server. */
TEST(ahead__aggregator_alone)
{
	struct team t = team_ahead(CACHE, many_at_once);
	struct fan_daemon *d = start(FAN_POLICY_SWITCHML, AHEAD, t.address, sizeof t.address);
	team_run(&t);
	fan_daemon_stop(d);
}

static void in_step(struct member *m)
{
	struct fanin_stats s = {.size = sizeof s};
	int64_t x[4096];
	for (int i = 0; i < 4096; i++)
		x[i] = i + m->rank;
	EXPECT(fanin_allreduce(m->comm, x, x, 4096, FANIN_INT64, FANIN_SUM) == 0);
	for (int i = 0; i < 4096; i++)
		EXPECT(x[i] == 4 * i + 6);
	EXPECT(fanin_comm_stats(m->comm, &s) == 0);
	EXPECT(s.ahead_asked == AHEAD && s.ahead_frags == 0);
	EXPECT(s.cache_frags == 0 && s.ahead_now_frags == 0);
}

/* A switch that has no memory for it: the job is one like any other, and says so. */
TEST(ahead__is_not_granted)
{
	struct team t = team_ahead(CACHE, in_step);
	struct fan_daemon *d = start(FAN_POLICY_SWITCHML, 0, t.address, sizeof t.address);
	team_run(&t);
	fan_daemon_stop(d);
	d = start(FAN_POLICY_ATP, 0, t.address, sizeof t.address);
	team_run(&t);
	fan_daemon_stop(d);
}

static atomic_int refused;

/* The aggregator takes one and refuses the other, which then asks as the first did and is let in:
 * the first has waited for it all the while.  Mostly rank 0 is the first. */
static void refused_for_its_options(struct member *m)
{
	int64_t x = m->rank + 1;
	if (m->created == FANIN_E_JOB_MISMATCH) {
		struct fanin_options o = m->team->options;
		EXPECT(strstr(fanin_comm_error(m->comm),
			      m->rank ? "rank 1 asks not to run ahead, others do"
				      : "rank 0 asks to run ahead, others do not"));
		fanin_comm_destroy(m->comm);
		o.switch_addr = m->team->address;
		o.rank = m->rank;
		o.ranks = m->team->ranks;
		o.ahead = m->rank ? AHEAD : 0;
		atomic_fetch_add(&refused, 1);
		m->created = fanin_comm_create(&o, &m->comm);
	}
	EXPECT(fanin_allreduce(m->comm, &x, &x, 1, FANIN_INT64, FANIN_SUM) == 0);
	EXPECT(x == 3);
}

static void one_without(struct fanin_options *o, int rank)
{
	if (rank)
		o->ahead = 0;
}

/* All ranks ask for it, or none. */
TEST(ahead__ranks_that_disagree)
{
	struct team t = team_ahead(0, refused_for_its_options);
	struct fan_daemon *d = start(FAN_POLICY_SWITCHML, AHEAD, t.address, sizeof t.address);
	t.ranks = 2;
	t.adjust = one_without;
	t.may_fail = true;
	team_run(&t);
	assert_int_equal(atomic_load(&refused), 1);
	fan_daemon_stop(d);
}

UNIT_MAIN

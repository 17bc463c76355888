/* SPDX-License-Identifier: Apache-2.0 */
/* Switches that die while others live: all ranks go on, and every sum is exact. */
#include "unit/lib/team.h"

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include "core/wire/wire.h"

#define SWITCHES 3
#define RANKS	 3
#define ELEMS	 60001
#define FLIGHT	 8 /* operations started at a time */
#define ROUNDS	 12
#define DEAF	 6

/* Silence after which somebody is lost.  Whoever has no processor for so long is lost, too: then
 * all of it is done again with four times as much, up to the longest. */
#define ALIVE_MS	 1500
#define ALIVE_LONGEST_MS 24000

/* A relay in front of a switch, which can keep from ranks what the switch answers. */
struct relay {
	pthread_t thread;
	int fd;	       /* that ranks see */
	int up[RANKS]; /* to the switch; -1: the rank has not been heard */
	struct sockaddr_in rank[RANKS];
	struct sockaddr_in sw;
	atomic_uint deaf; /* ranks that get nothing */
	atomic_bool stop;
};

static void relay_up(struct relay *r)
{
	static uint8_t pkt[65536];
	struct sockaddr_in from;
	struct fan_frag f;
	socklen_t len = sizeof from;
	ssize_t n = recvfrom(r->fd, pkt, sizeof pkt, 0, (struct sockaddr *)&from, &len);
	if (n <= 0 || fan_wire_get(&f, pkt, (size_t)n) >= 0 || f.sender >= RANKS)
		return;
	if (r->up[f.sender] < 0) {
		r->up[f.sender] = socket(AF_INET, SOCK_DGRAM, 0);
		EXPECT(!connect(r->up[f.sender], (struct sockaddr *)&r->sw, sizeof r->sw));
	}
	r->rank[f.sender] = from;
	EXPECT(send(r->up[f.sender], pkt, (size_t)n, 0) == n);
}

static void relay_down(struct relay *r, int rank)
{
	static uint8_t pkt[65536];
	ssize_t n = recv(r->up[rank], pkt, sizeof pkt, 0);
	if (n > 0 && !(atomic_load(&r->deaf) >> rank & 1))
		sendto(r->fd, pkt, (size_t)n, 0, (struct sockaddr *)&r->rank[rank],
		       sizeof r->rank[rank]);
}

static void *relay_run(void *arg)
{
	struct relay *r = arg;
	while (!atomic_load(&r->stop)) {
		struct pollfd p[1 + RANKS] = {{.fd = r->fd, .events = POLLIN}};
		for (int i = 0; i < RANKS; i++)
			p[1 + i] = (struct pollfd){.fd = r->up[i], .events = POLLIN};
		poll(p, 1 + RANKS, 20);
		if (p[0].revents)
			relay_up(r);
		for (int i = 0; i < RANKS; i++)
			if (p[1 + i].revents)
				relay_down(r, i);
	}
	return NULL;
}

/* `address` becomes the relay's. */
static void relay_start(struct relay *r, char *address)
{
	struct sockaddr_in here = {.sin_family = AF_INET};
	socklen_t len = sizeof here;
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	*r = (struct relay){.up = {-1, -1, -1}, .sw = here};
	r->sw.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	r->fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(r->fd, (struct sockaddr *)&here, sizeof here), 0);
	assert_int_equal(getsockname(r->fd, (struct sockaddr *)&here, &len), 0);
	sprintf(address, "127.0.0.1:%d", ntohs(here.sin_port));
	assert_int_equal(pthread_create(&r->thread, NULL, relay_run, r), 0);
}

static void relay_stop(struct relay *r)
{
	atomic_store(&r->stop, true);
	pthread_join(r->thread, NULL);
	close(r->fd);
	for (int i = 0; i < RANKS; i++)
		if (r->up[i] >= 0)
			close(r->up[i]);
}

/* What a test does: stop a switch in some rounds, while operations are under way. */
struct plan {
	struct fan_daemon *sw[SWITCHES];
	char address[SWITCHES][80];
	int stop_in[SWITCHES]; /* the round; 0: never */
	unsigned shards;       /* of each switch; 0: 1 */
	bool start_again;      /* at once, at the same address */
	bool goodbye;	       /* it says so, and only that can tell of it in time */
	int late;	       /* rank that starts nothing in such a round for a while; -1: none */
	int deaf; /* rank that hears nothing of switch 1 in round DEAF, before nobody does;
		   * -1: none */
	struct relay relay;
	char list[SWITCHES * 90];
	bool last_try;
	atomic_bool starved; /* who lives was taken for lost, because it had no processor */
};

static void switches_up(struct plan *p)
{
	for (int i = 0; i < SWITCHES; i++) {
		p->sw[i] =
			team_switch(p->address[i], sizeof p->address[i], p->shards ? p->shards : 1);
		if (i == 1 && p->deaf >= 0)
			relay_start(&p->relay, p->address[i]);
		size_t used = strlen(p->list);
		snprintf(p->list + used, sizeof p->list - used, "%s%s", i ? "," : "",
			 p->address[i]);
	}
}

static void start_at(struct fan_daemon **d, const char *address)
{
	struct fan_daemon_options o;
	char why[256] = "";
	fan_daemon_defaults(&o);
	o.core.payload_bytes = FAN_PAYLOAD_MAX;
	EXPECT(!fan_peer_parse(&o.listen, address, why, sizeof why));
	EXPECT(!fan_daemon_start(d, &o, why, sizeof why));
}

/* All get results for a while, but one rank; then nobody. */
static void mute(struct plan *p)
{
	atomic_store(&p->relay.deaf, 1U << p->deaf);
	usleep(100 * 1000);
	atomic_store(&p->relay.deaf, (1U << RANKS) - 1);
}

static void stop_switches(struct plan *p, int round)
{
	if (p->deaf >= 0 && round == DEAF)
		mute(p);
	for (int i = 0; i < SWITCHES; i++) {
		if (p->stop_in[i] != round)
			continue;
		if (p->goodbye)
			fan_daemon_goodbye(p->sw[i]);
		fan_daemon_stop(p->sw[i]);
		p->sw[i] = NULL;
		if (p->start_again)
			start_at(&p->sw[i], p->address[i]);
	}
}

/* Element `i` of rank `rank` in operation `n`: small whole numbers, exact in float32. */
static float value(int rank, size_t i, int n)
{
	return (float)((i * 7 + (size_t)n * 13) % 1000 + (size_t)rank);
}

/* Operation `n` is as long as some others; every third is not in place, every fifth an average. */
struct flight {
	float *in, *out;
	size_t count;
	bool average;
	fanin_op *op;
	int started; /* what that has said */
};

static void start(struct member *m, struct flight *f, int n)
{
	f->count = n % 4 == 3 ? (size_t)n % 50 : ELEMS / (1 + (size_t)n % 5);
	f->average = n % 5 == 4;
	f->in = malloc(ELEMS * sizeof *f->in);
	f->out = n % 3 ? f->in : malloc(ELEMS * sizeof *f->out);
	f->op = NULL;
	if (!f->in || !f->out)
		abort();
	for (size_t i = 0; i < f->count; i++)
		f->in[i] = value(m->rank, i, n);
	f->started = fanin_allreduce_start(m->comm, f->in, f->out, f->count, FANIN_FLOAT32,
					   f->average ? FANIN_AVG : FANIN_SUM, &f->op);
}

/* What `end` returned; its elements are right if that was 0.  They are overwritten at once, as a
 * caller may do, though others may lack them still. */
static int finish(struct flight *f, int n)
{
	bool right = true;
	int e = f->started ? f->started : fanin_op_wait(f->op, -1);
	fanin_op_free(f->op);
	for (size_t i = 0; i < f->count && !e; i++)
		right &= f->out[i] == (f->average ? 1 : RANKS) * value(1, i, n);
	EXPECT(right);
	memset(f->out, 0xff, ELEMS * sizeof *f->out);
	if (f->out != f->in)
		free(f->out);
	free(f->in);
	return e;
}

/* Rounds of operations; ends with the first error. */
static int rounds(struct member *m)
{
	struct plan *p = m->team->ctx;
	struct flight f[FLIGHT];
	int e = 0;
	for (int round = 1; round <= ROUNDS && !e; round++) {
		bool late = m->rank == p->late && p->stop_in[1] == round;
		if (late)
			usleep(1200 * 1000);
		int all = 1 + (round + m->rank) % FLIGHT; /* ranks are not equally far */
		for (int n = 0; n < FLIGHT; n++) {
			if (n == all && m->rank == 0)
				stop_switches(p, round);
			start(m, &f[n], round * FLIGHT + n);
		}
		if (all == FLIGHT && m->rank == 0)
			stop_switches(p, round);
		for (int n = 0; n < FLIGHT; n++) {
			int one = finish(&f[n], round * FLIGHT + n);
			e = e ? e : one;
		}
		int32_t word[3] = {m->rank == 2 ? 77 : 0, 1, 1 << m->rank};
		if (!e)
			e = fanin_broadcast(m->comm, word, 1, FANIN_INT32, 2);
		if (!e)
			e = fanin_allreduce(m->comm, word, word, 3, FANIN_INT32, FANIN_SUM);
		EXPECT(e || (word[0] == RANKS * 77 && word[1] == RANKS && word[2] == 7));
		if (!e)
			e = fanin_barrier(m->comm);
	}
	return e;
}

/* Has a rank or a switch that lives been silent for as long as one that is dead?  `e`: of rounds().
 */
static bool starved(struct member *m, int e)
{
	struct plan *p = m->team->ctx;
	struct fanin_part part = {.size = sizeof part};
	bool found = e == FANIN_E_RANK_LOST || e == FANIN_E_RANK_LEFT;
	for (uint32_t k = 0; k < SWITCHES && !found; k++)
		found = !fanin_comm_part(m->comm, k, &part) && part.lost && p->stop_in[k] == 0 &&
			(k != 1 || p->deaf < 0);
	if (found)
		atomic_store(&p->starved, true);
	return found && !p->last_try;
}

static void expect_parts(struct member *m)
{
	const struct plan *p = m->team->ctx;
	struct fanin_part part = {.size = sizeof part};
	uint32_t sum = 0;
	for (uint32_t k = 0; k < SWITCHES; k++) {
		EXPECT(!fanin_comm_part(m->comm, k, &part));
		EXPECT(!strcmp(part.aggregator, p->address[k]) && part.rank == -1);
		bool lost = p->stop_in[k] > 0 || (k == 1 && p->deaf >= 0);
		/* who is started again is used again, if that takes no longer than this test */
		const bool is_back = p->start_again && p->stop_in[k] && !part.lost;
		EXPECT((part.lost == lost || is_back) && (!part.lost || !part.share_ppm));
		sum += part.share_ppm;
	}
	EXPECT(sum > 999990 && sum <= 1000000);
}

static void goes_on(struct member *m)
{
	struct fanin_stats s = {.size = sizeof s};
	int e = rounds(m);
	if (starved(m, e))
		return;
	EXPECT(e == 0);
	expect_parts(m);
	EXPECT(!fanin_comm_stats(m->comm, &s));
	EXPECT(s.parts == SWITCHES && s.ops == ROUNDS * (FLIGHT + 3));
	if (*fanin_comm_error(m->comm))
		fprintf(stderr, "rank %d: %s\n", m->rank, fanin_comm_error(m->comm));
}

/* Returns false when it is to be done again, with a longer silence. */
static bool run_once(const struct plan *from, void (*body)(struct member *), int mode, int alive_ms)
{
	struct plan p = *from;
	struct team t = team_new(RANKS, body);
	p.last_try = p.goodbye || alive_ms >= ALIVE_LONGEST_MS;
	switches_up(&p);
	t.list = p.list;
	t.ctx = &p;
	t.options.alive_ms = p.goodbye ? 600000 : alive_ms;
	t.options.mode = mode;
	team_run(&t);
	if (p.deaf >= 0)
		relay_stop(&p.relay);
	for (int i = 0; i < SWITCHES; i++)
		if (p.sw[i])
			fan_daemon_stop(p.sw[i]);
	team_free(&t);
	return p.last_try || !atomic_load(&p.starved);
}

static void run(const struct plan *p, void (*body)(struct member *), int mode)
{
	int alive_ms = ALIVE_MS;
	while (!run_once(p, body, mode, alive_ms))
		alive_ms *= 4;
}

TEST(regroup__without_one)
{
	struct plan p = {.stop_in = {0, 2, 0}, .late = -1, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_NATIVE);
}

TEST(regroup__the_first_one_too)
{
	struct plan p = {.stop_in = {3, 0, 8}, .late = -1, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_NATIVE);
}

TEST(regroup__two_at_once)
{
	struct plan p = {.stop_in = {0, 4, 4}, .late = -1, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_NATIVE);
}

TEST(regroup__with_several_shards)
{
	struct plan p = {.stop_in = {0, 2, 7}, .shards = 3, .late = -1, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_NATIVE);
}

TEST(regroup__in_fixed_point)
{
	struct plan p = {.stop_in = {0, 0, 5}, .late = -1, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_FIXED);
}

TEST(regroup__one_that_was_restarted)
{
	struct plan p = {.stop_in = {0, 3, 0}, .start_again = true, .late = -1, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_NATIVE);
}

TEST(regroup__operations_that_a_rank_has_not_started)
{
	struct plan p = {.stop_in = {0, 3, 0}, .late = 2, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_NATIVE);
}

TEST(regroup__gives_results_to_who_lacks_them)
{
	struct plan p = {.late = -1, .deaf = 2};
	run(&p, goes_on, FANIN_MODE_NATIVE);
	p = (struct plan){.late = -1, .deaf = 1};
	run(&p, goes_on, FANIN_MODE_FIXED);
}

static void ends(struct member *m)
{
	int e = rounds(m);
	if (starved(m, e))
		return;
	EXPECT(e == FANIN_E_UNREACHABLE);
	EXPECT(strstr(fanin_comm_error(m->comm), "stopped answering") ||
	       strstr(fanin_comm_error(m->comm), "lost"));
}

TEST(regroup__ends_without_any)
{
	struct plan p = {.stop_in = {2, 2, 2}, .late = -1, .deaf = -1};
	run(&p, ends, FANIN_MODE_NATIVE);
}

/* A rank that computes meanwhile hears of it as well. */
TEST(regroup__one_that_says_goodbye)
{
	struct plan p = {.stop_in = {0, 2, 0}, .goodbye = true, .late = 2, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_NATIVE);
	p = (struct plan){
		.stop_in = {4, 0, 2}, .goodbye = true, .shards = 2, .late = -1, .deaf = -1};
	run(&p, goes_on, FANIN_MODE_FIXED);
}

static void ends_stopped(struct member *m)
{
	EXPECT(rounds(m) == FANIN_E_STOPPED);
	EXPECT(strstr(fanin_comm_error(m->comm), " is being stopped"));
}

TEST(regroup__the_last_one_says_goodbye)
{
	struct plan p = {.stop_in = {2, 3, 4}, .goodbye = true, .late = -1, .deaf = -1};
	run(&p, ends_stopped, FANIN_MODE_NATIVE);
}

/* All ranks go on until rank 0 says that part 1 is there again; then part 0 stops, so that it is
 * needed. */
static int until_back(struct member *m)
{
	struct plan *p = m->team->ctx;
	struct fanin_part part = {.size = sizeof part};
	int e = 0;
	int32_t word[2] = {0};
	for (int n = 0; !e && !word[0]; n++) {
		float x[300];
		bool right = true;
		for (size_t i = 0; i < 300; i++)
			x[i] = value(m->rank, i, n);
		e = fanin_allreduce(m->comm, x, x, 300, FANIN_FLOAT32, FANIN_SUM);
		for (size_t i = 0; i < 300 && !e; i++)
			right &= x[i] == RANKS * value(1, i, n);
		EXPECT(right);
		if (n == 20 && m->rank == 0) {
			fan_daemon_goodbye(p->sw[1]);
			fan_daemon_stop(p->sw[1]);
			start_at(&p->sw[1], p->address[1]);
		}
		EXPECT(!fanin_comm_part(m->comm, 1, &part));
		word[0] = n > 30 && m->rank == 0 && !part.lost;
		if (!e)
			e = fanin_broadcast(m->comm, word, 1, FANIN_INT32, 0);
		usleep(1000);
	}
	return e;
}

static void comes_back(struct member *m)
{
	struct plan *p = m->team->ctx;
	struct fanin_part part = {.size = sizeof part};
	EXPECT(until_back(m) == 0);
	for (int k = 0; k < SWITCHES; k += 2) {
		int32_t one = 1;
		if (m->rank == 0)
			fan_daemon_goodbye(p->sw[k]);
		EXPECT(!fanin_allreduce(m->comm, &one, &one, 1, FANIN_INT32, FANIN_SUM));
		EXPECT(one == RANKS && !fanin_barrier(m->comm));
	}
	for (uint32_t k = 0; k < SWITCHES; k++) {
		EXPECT(!fanin_comm_part(m->comm, k, &part));
		EXPECT(k != 1 || !part.lost);
	}
	if (*fanin_comm_error(m->comm))
		fprintf(stderr, "rank %d: %s\n", m->rank, fanin_comm_error(m->comm));
}

TEST(regroup__one_that_is_there_again)
{
	struct plan p = {.goodbye = true, .late = -1, .deaf = -1};
	run(&p, comes_back, FANIN_MODE_NATIVE);
	p = (struct plan){.goodbye = true, .shards = 2, .late = -1, .deaf = -1};
	run(&p, comes_back, FANIN_MODE_FIXED);
}

int main(void)
{
	setenv("FANIN_HOSTS", "0", 1);
	return unit_run();
}

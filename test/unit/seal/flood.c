/* SPDX-License-Identifier: Apache-2.0 */
/* Drills 8 and 10: who asks for everything, from everywhere or with a key of its own, at an
 * aggregator of the default size. */
#define RANKS	  128
#define JOBS_MOST 64
#define MEMBERS	  2048
#define SLOTS	  8192
#define WINDOW	  512

#include "core/base/limits.h"
#include "seal/net.h"

#include <stdio.h>

#define JOIN_NS	  (10 * UINT64_C(1000)) /* from one JOIN to the next: 100,000 a second */
#define TRIP_NS	  (5 * FAN_MS) /* ranks answer that late: 500 JOINs, several times the table */
#define FLOOD	  300000       /* JOINs, 3 s */
#define SOURCES	  65536
#define NEWCOMERS 2 /* places from which a job comes meanwhile */
#define WITHIN_NS (1000 * FAN_MS)

static void open_flooded(bool sealed)
{
	open_net(0, sealed ? 0x77 : 0);
	net.alive_ms = 1000;
	net.join_ms = net.stall_ms = 3000;
}

static uint64_t flooded;
static const char *under; /* this name, as a rank of it; NULL: those of others */

/* One more JOIN, of a life that nobody has, from one address of many. */
static void flood(bool sealed)
{
	static uint8_t pkt[FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX + FAN_TAG_BYTES];
	uint8_t body[FAN_CTL_BYTES_MAX];
	const uint64_t n = flooded++;
	struct fan_join m = {.ranks = (uint16_t)(2 + n * 7 % 255),
			     .payload_bytes = PAYLOAD,
			     .alive_ms = FAN_ALIVE_MAX_MS};
	m.name_bytes = (uint8_t)snprintf(m.name, sizeof m.name, "own-%u", (unsigned)(n % 50021));
	if (under) {
		m.name_bytes = (uint8_t)snprintf(m.name, sizeof m.name, "%s", under);
		m.ranks = n % 8 ? NEWCOMERS : m.ranks;
	}
	struct fan_frag f = {
		.nonce = fan_rng_next(&net.rng) | 1, .type = FAN_TYPE_JOIN, .payload = body};
	f.sender = under ? n / 8 % NEWCOMERS : 0;
	const fan_peer from = {.addr = {66, n * 40503 % SOURCES}, .port = 6};
	f.payload_bytes = fan_ctl_put(body, &m);
	fan_wire_put(pkt, &f);
	memcpy(pkt + FAN_HEAD_BYTES, body, f.payload_bytes);
	size_t len = FAN_HEAD_BYTES + f.payload_bytes;
	if (sealed && n % 2) { /* the others are in clear, which draws a refusal */
		fan_put16(pkt + 2, fan_get16(pkt + 2) | FAN_F_SEALED);
		memset(pkt + len, (int)n, FAN_TAG_BYTES);
		len += FAN_TAG_BYTES;
	}
	size_t answer = 0;
	to_aggregator(from, pkt, len, &answer);
}

/* A round trip; `busy`: with the flood in it. */
static void trip(bool busy, bool sealed, unsigned ranks)
{
	OUT(out);
	for (unsigned i = 0; i < TRIP_NS / JOIN_NS; i++) {
		net.now_ns += JOIN_NS;
		if (busy)
			flood(sealed);
	}
	for (unsigned r = 0; r < ranks; r++) {
		tick_rank(r);
		carry();
	}
	for (unsigned i = 0; i < 16 && fan_node_deadline(net.station[0].node) <= net.now_ns; i++) {
		fan_node_tick(net.station[0].node, net.now_ns, &out);
		flush(0, &out);
		carry();
	}
}

/* Nanoseconds that `sums` take, one after the other. */
static uint64_t sums_take(unsigned sums, bool busy, bool sealed)
{
	const uint64_t since_ns = net.now_ns;
	for (unsigned i = 0; i < sums; i++) {
		begin_sum(2, i);
		while (!seal_ranks_have_sum(net.rank, 2) &&
		       net.now_ns - since_ns < 1000 * WITHIN_NS)
			trip(busy, sealed, 2);
		end_sum(2, i);
	}
	return net.now_ns - since_ns;
}

/* The job that runs keeps its speed; the one that comes is ready in time, and sums; from when it
 * comes on the flood is under `name`. */
static void survive(bool sealed, const char *name)
{
	const char *tenant = sealed ? "alice" : NULL;
	open_flooded(sealed);
	flooded = 0;
	under = NULL;
	form_as("alice", tenant, 2, 0);
	const uint64_t quiet_ns = sums_take(200, false, sealed);
	const uint64_t busy_ns = sums_take(200, true, sealed);
	assert_in_range(busy_ns * 9 / 10, 0, quiet_ns);
	while (flooded < FLOOD / 2)
		trip(true, sealed, 2);
	under = name;
	trip(true, sealed, 2);
	for (unsigned r = 0; r < NEWCOMERS; r++)
		start_rank_as(2 + r, r, NEWCOMERS, "alice/new", tenant, 0);
	const uint64_t since_ns = net.now_ns;
	while (!seal_ranks_are(net.rank, 2 + NEWCOMERS, FAN_W_READY) &&
	       net.now_ns - since_ns < WITHIN_NS)
		trip(true, sealed, 2 + NEWCOMERS);
	assert_true(seal_ranks_are(net.rank, 2 + NEWCOMERS, FAN_W_READY));
	/* what JOINs of nobody hold does not count */
	assert_int_equal(fan_worker_welcome(net.rank[2].w)->window, WINDOW);
	print_message("ready after %.1f ms, sums take %.3f of the time\n",
		      (double)(net.now_ns - since_ns) / 1e6, (double)busy_ns / (double)quiet_ns);
	while (flooded < FLOOD)
		trip(true, sealed, 2 + NEWCOMERS);
	assert_true(seal_ranks_are(net.rank, 2 + NEWCOMERS, FAN_W_READY));
	sum(2, 1);
	end_net();
}

TEST(drill_8__joins_at_an_open_switch)
{
	survive(false, NULL);
}

/* All JOINs have its name, most of them as many ranks as it has. */
TEST(drill_8__joins_under_the_newcomers_name)
{
	survive(false, "alice/new");
}

TEST(drill_8__joins_at_a_sealed_switch)
{
	survive(true, NULL);
	assert_int_equal(toy_repeats(), 0);
}

/* A tenant begins as many jobs as there may be but one, each with the largest window. */
TEST(drill_10__an_insider_asks_for_all_slots)
{
	char name[32];
	open_flooded(true);
	for (unsigned j = 1; j < JOBS_MOST; j++) {
		snprintf(name, sizeof name, "mallory/%u", j);
		for (unsigned r = 0; r < 2; r++)
			start_rank_as(2 * j + r, r, 2, name, "mallory", 0);
		for (unsigned i = 0; i < 20; i++)
			step();
		assert_int_equal(fan_worker_phase(net.rank[2 * j].w), FAN_W_READY);
	}
	assert_true(fan_worker_welcome(net.rank[2].w)->window == WINDOW);
	start_rank(0, 2, "alice", "alice", 0);
	start_rank(1, 2, "alice", "alice", 0);
	assert_true(until(2, FAN_W_READY, 500));
	assert_in_range(fan_worker_welcome(net.rank[0].w)->window, FAN_SLOTS_LEAST / 2, WINDOW);
	sum(2, 1);
	end_net();
}

UNIT_MAIN

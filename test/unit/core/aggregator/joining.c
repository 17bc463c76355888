/* SPDX-License-Identifier: Apache-2.0 */
/* joining.c - how long a job takes to form when packets are lost and its ranks, or the switch, stop
 * for a while: not longer than they stop and a few rounds.
 *
 * Real workers join in virtual time.  A rank that has not answered goes after a second, so a
 * rank that stops for longer must be let in again, and must not be thrown out each time. */
#include "unit/core/aggregator_rig.h"

#include "core/worker/worker.h"

enum { RANKS_MOST = 4, PACKETS_MOST = 256, PACKET_BYTES = 512, STOPS = 4, STEP_NS = 1000000 };

/* A datagram on its way; `to`: a rank, or RANKS_MOST, the aggregator. */
struct packet {
	uint64_t at_ns;
	unsigned from, to;
	size_t bytes;
	uint8_t data[PACKET_BYTES];
};

static struct {
	struct fan_rng rng;
	struct fan_worker *w[RANKS_MOST];
	unsigned ranks;
	uint64_t loss; /* of 100 */
	struct packet packet[PACKETS_MOST];
	unsigned count;
	/* One stops: [begin, end), the last index is the aggregator. */
	struct {
		uint64_t begin_ns, end_ns;
	} stop[RANKS_MOST + 1][STOPS];
	uint64_t now_ns;
} world;

static void post(unsigned from, unsigned to, const struct fan_out_item *it)
{
	if (fan_rng_below(&world.rng, 100) < world.loss)
		return;
	assert_in_range(world.count, 0, PACKETS_MOST - 1);
	struct packet *p = &world.packet[world.count++];
	p->at_ns = world.now_ns + STEP_NS + fan_rng_below(&world.rng, 5) * FAN_MS;
	p->from = from;
	p->to = to;
	p->bytes = fan_out_item_bytes(it);
	assert_in_range(p->bytes, 1, PACKET_BYTES);
	fan_out_item_copy(it, p->data);
}

static unsigned rank_at(const fan_peer *at)
{
	return (unsigned)at->addr[1] - 1;
}

/* What the aggregator says.  Nobody hears its group. */
static void post_answers(const struct fan_out *out)
{
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_PEER)
			post(RANKS_MOST, rank_at(&it->peer), it);
		for (unsigned r = 0; it->dest == FAN_TO_GROUP && r < it->group->ranks; r++)
			if (!fan_peer_is_none(&it->group->peers[r]))
				post(RANKS_MOST, r, it);
	}
}

static bool stands(unsigned who)
{
	for (unsigned i = 0; i < STOPS; i++)
		if (world.now_ns >= world.stop[who][i].begin_ns &&
		    world.now_ns < world.stop[who][i].end_ns)
			return true;
	return false;
}

static void deliver(const struct packet *p)
{
	struct fan_out_item item[FAN_AGGREGATOR_OUT_MAX];
	uint8_t scratch[FAN_AGGREGATOR_OUT_MAX * 256];
	struct fan_out out;
	fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
	if (p->to < RANKS_MOST) {
		fan_worker_recv(world.w[p->to], world.now_ns, p->data, p->bytes, false, false);
		return;
	}
	fan_aggregator_recv(rig.ag, world.now_ns, rig_peer(p->from), p->data, p->bytes, false,
			    &out);
	fan_aggregator_audit(rig.ag);
	post_answers(&out);
}

/* Who has stopped finds its packets afterwards. */
static void deliver_due(void)
{
	for (unsigned i = 0; i < world.count;) {
		struct packet p = world.packet[i];
		if (p.at_ns > world.now_ns || stands(p.to)) {
			i++;
			continue;
		}
		world.packet[i] = world.packet[--world.count];
		deliver(&p);
	}
}

static void tick_all(void)
{
	struct fan_out_item item[FAN_AGGREGATOR_OUT_MAX];
	uint8_t scratch[FAN_AGGREGATOR_OUT_MAX * 256];
	struct fan_out out;
	for (unsigned r = 0; r < world.ranks; r++) {
		fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
		if (stands(r) || fan_worker_deadline(world.w[r]) > world.now_ns)
			continue;
		fan_worker_tick(world.w[r], world.now_ns, &out);
		for (unsigned i = 0; i < out.count; i++)
			post(r, RANKS_MOST, &out.item[i]);
	}
	if (stands(RANKS_MOST))
		return;
	fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
	fan_aggregator_tick(rig.ag, world.now_ns, &out);
	post_answers(&out);
}

static bool all_ready(void)
{
	for (unsigned r = 0; r < world.ranks; r++)
		if (fan_worker_phase(world.w[r]) != FAN_W_READY)
			return false;
	return true;
}

static void make_ranks(bool group)
{
	for (unsigned r = 0; r < world.ranks; r++) {
		struct fan_worker_config cfg = {
			.name = "job",
			.rank = (uint16_t)r,
			.ranks = (uint16_t)world.ranks,
			.payload_bytes = RIG_PAYLOAD,
			.window_max = 4,
			.alive_ms = 12000,
			.join_ms = 600000,
			.stall_ms = 600000,
			.options = group ? FAN_JOIN_GROUP : 0,
			.nonce = 100 + r,
		};
		void *mem = aligned_alloc(64, (fan_worker_bytes(&cfg) + 63) / 64 * 64);
		world.w[r] = fan_worker_init(mem, &cfg, 0);
	}
}

/* Forms one job; for how long it took beyond the time for which somebody stood still. */
static uint64_t form(uint64_t seed, uint64_t loss, uint64_t stop_ms)
{
	memset(&world, 0, sizeof world);
	world.rng = fan_rng_stream(seed, 0);
	world.ranks = 2 + (unsigned)fan_rng_below(&world.rng, RANKS_MOST - 1);
	world.loss = loss;
	rig.cfg.group_family = 4;
	rig_again();
	make_ranks(fan_rng_below(&world.rng, 2));
	uint64_t stopped_ns = 0;
	for (unsigned i = 0; i < STOPS && stop_ms; i++) {
		unsigned who = (unsigned)fan_rng_below(&world.rng, RANKS_MOST + 1);
		world.stop[who][i].begin_ns = fan_rng_below(&world.rng, 5000) * FAN_MS / 10;
		world.stop[who][i].end_ns =
			world.stop[who][i].begin_ns + fan_rng_below(&world.rng, stop_ms) * FAN_MS;
	}
	while (!all_ready()) {
		bool anybody = false;
		for (unsigned who = 0; who <= RANKS_MOST; who++)
			anybody |= (who < world.ranks || who == RANKS_MOST) && stands(who);
		stopped_ns += anybody ? STEP_NS : 0;
		deliver_due();
		tick_all();
		world.now_ns += STEP_NS;
		assert_in_range(world.now_ns, 0, 600000 * FAN_MS);
	}
	for (unsigned r = 0; r < world.ranks; r++)
		free(world.w[r]);
	return world.now_ns - stopped_ns;
}

static uint64_t longest(uint64_t loss, uint64_t stop_ms, uint64_t seeds)
{
	uint64_t most = 0, which = 0;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		uint64_t ns = form(seed, loss, stop_ms);
		if (ns > most)
			which = seed;
		most = ns > most ? ns : most;
	}
	print_message("loss %u %%, stops of up to %u ms: %u ms at most, seed %u\n", (unsigned)loss,
		      (unsigned)stop_ms, (unsigned)(most / FAN_MS), (unsigned)which);
	return most;
}

TEST_WITH(joining__undisturbed, rig_open, rig_close)
{
	assert_in_range(longest(0, 0, 20), 0, 200 * FAN_MS);
}

TEST_WITH(joining__with_loss, rig_open, rig_close)
{
	assert_in_range(longest(20, 0, 500), 0, 2000 * FAN_MS);
}

TEST_WITH(joining__with_stops, rig_open, rig_close)
{
	assert_in_range(longest(0, 1500, 500), 0, 1000 * FAN_MS);
	assert_in_range(longest(5, 3000, 500), 0, 1500 * FAN_MS);
}

UNIT_MAIN

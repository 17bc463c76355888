/* SPDX-License-Identifier: Apache-2.0 */
/* switches.c - sealed jobs behind switches with shared slots.  Drills have drills.c's numbers. */
#include <stdio.h>

#include "seal/net.h"

TEST_WITH(switches__job_sums, NULL, close_net)
{
	for (unsigned levels = 1; levels < STATIONS; levels++) {
		open_net(levels, 0x77);
		form("alice/run", RANKS, levels);
		for (unsigned i = 0; i < 5; i++)
			sum(RANKS, i);
		leave(RANKS);
		assert_int_equal(tags(), 0);
		for (unsigned i = 0; i <= levels; i++)
			assert_int_equal(stats(i)->unsent, 0);
		assert_in_range(fan_switch_stats(net.station[levels].node->slots)->partials, 30,
				1000);
		for (unsigned i = 0; i < net.taped; i++) /* nothing travels in clear */
			assert_true(fan_get16(net.tape[i].bytes + 2) & FAN_F_SEALED);
		if (levels + 1 < STATIONS)
			close_net(NULL);
	}
}

/* Ranks at both switches, and one at the aggregator itself. */
TEST_WITH(switches__and_ranks_beside_them, NULL, close_net)
{
	open_net(2, 0x77);
	for (unsigned r = 0; r < RANKS; r++)
		start_rank(r, RANKS, "alice", "alice", r % 3);
	assert_true(until(RANKS, FAN_W_READY, 500));
	for (unsigned i = 0; i < 5; i++)
		sum(RANKS, i);
	assert_int_equal(tags(), 0);
}

/* Silence is all that tells of it; the heartbeat is 1.25 s. */
TEST_WITH(switches__one_that_restarts, NULL, close_net)
{
	for (unsigned which = 1; which < STATIONS; which++) {
		open_net(2, 0x77);
		form("alice", RANKS, 2);
		sum(RANKS, 1);
		unsigned most = 0;
		for (unsigned i = 0; i < 5; i++) {
			stop_station(which);
			start_station(which, which - 1, 0x77);
			for (unsigned n = 0; n < 300 * i; n++)
				step();
			begin_sum(RANKS, i);
			unsigned ms = end_sum(RANKS, i);
			most = ms > most ? ms : most;
		}
		print_message("switch %u restarted: the job stood for %u ms at most\n", which,
			      most);
		assert_in_range(most, 2, 2000);
		if (which + 1 < STATIONS)
			close_net(NULL);
	}
}

TEST_WITH(drill_1__without_the_key, NULL, close_net)
{
	open_net(1, 0x77);
	form("alice", 2, 1);
	start_rank(2, 4, "alice/other", "eve", 1); /* another tenant's */
	start_rank(3, 4, "eve", "alice", 1);
	for (unsigned i = 0; i < 300; i++)
		step();
	assert_int_equal(fan_worker_phase(net.rank[2].w), FAN_W_JOINING);
	assert_int_equal(fan_worker_phase(net.rank[3].w), FAN_W_JOINING);
	assert_in_range(stats(1)->drops[FAN_SEAL_TAG], 8, 20);
	assert_int_equal(stats(0)->drops[FAN_SEAL_TAG], 0);
	assert_int_equal(fan_node_jobs(net.station[0].node), 1);
	sum(2, 7);
}

TEST_WITH(drill_1__switch_of_another_fabric, NULL, close_net)
{
	open_net(1, 0x77);
	stop_station(0);
	start_station(0, 0, 0x66);
	start_rank(0, 2, "alice", "alice", 1);
	for (unsigned i = 0; i < 300; i++)
		step();
	assert_int_equal(fan_worker_phase(net.rank[0].w), FAN_W_JOINING);
	assert_in_range(stats(0)->drops[FAN_SEAL_TAG], 4, 10);
	assert_int_equal(fan_node_jobs(net.station[0].node), 0);
}

/* Each bit, at whoever the packet is for. */
static void flip(const struct packet *p, unsigned station)
{
	struct packet c = *p;
	for (size_t bit = 0; bit < 8 * p->len; bit++) {
		uint16_t flags = fan_get16(c.bytes + 2);
		c.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		bool version = c.bytes[0] != FAN_WIRE_VERSION;
		bool clear =
			flags != fan_get16(c.bytes + 2) && !(fan_get16(c.bytes + 2) & FAN_F_SEALED);
		if (!version) {
			unsigned n = to_station(station, &c.from, c.bytes, c.len);
			assert_true(n == 0 || (clear && n == 1));
		}
		c.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	net.queued = 0;
}

TEST_WITH(drill_3__bits_flipped, NULL, close_net)
{
	open_net(2, 0x77);
	form("alice", RANKS, 2);
	sum(RANKS, 1);
	const fan_peer a = station_at(0), s = station_at(1), low = station_at(2), r = rank_at(0);
	uint64_t before = stats(1)->opened;
	flip(last_of(low, s, FAN_TYPE_RELAY, FAN_TYPE_JOIN), 1);
	flip(last_of(low, s, FAN_TYPE_RELAY, 0), 1);
	flip(last_of(low, s, FAN_TYPE_PARTIAL, 0), 1);
	flip(last_of(a, s, FAN_TYPE_RELAY, FAN_TYPE_WELCOME), 1);
	flip(last_of(a, s, FAN_TYPE_RELAY, 0), 1);
	flip(last_of(a, s, FAN_TYPE_RESULT, 0), 1);
	assert_int_equal(stats(1)->opened, before);
	before = stats(2)->opened;
	flip(last_of(r, low, FAN_TYPE_DATA, 0), 2);
	flip(last_of(s, low, FAN_TYPE_RESULT, 0), 2);
	flip(last_of(s, low, FAN_TYPE_RELAY, FAN_TYPE_WELCOME), 2);
	assert_int_equal(stats(2)->opened, before);
	sum(RANKS, 2);
}

/* All that was ever sent comes once more: to whom it was for, and as from everybody else. */
TEST_WITH(drill_4__replayed, NULL, close_net)
{
	open_net(2, 0x77);
	form("alice", RANKS, 2);
	sum(RANKS, 1);
	leave(RANKS);
	form("alice", RANKS, 2);
	sum(RANKS, 2);
	const unsigned taped = net.taped;
	for (unsigned other = 0; other < 8; other++) {
		begin_sum(RANKS, other);
		for (unsigned i = 0; i < taped; i++) {
			struct packet p = net.tape[i];
			if (other >= 1 && other <= 3)
				p.from = station_at(other - 1);
			else if (other >= 4 && other <= 6)
				p.to = station_at(other - 4);
			if (!fan_peer_equal(&p.from, &p.to))
				deliver(&p);
			carry();
			if (i % 64 == 0)
				step();
		}
		end_sum(RANKS, other);
	}
	assert_int_equal(fan_worker_stats(net.rank[0].w)->window, WINDOW);
}

/* Who repeats JOINs of the past to a switch that has begun again does not keep ranks from joining
 * again; nor do the answers to them. */
TEST_WITH(drill_4__replayed_while_a_switch_restarts, NULL, close_net)
{
	open_net(2, 0x77);
	form("alice", RANKS, 2);
	sum(RANKS, 1);
	for (unsigned which = 1; which < STATIONS; which++) {
		const unsigned taped = net.taped;
		stop_station(which);
		start_station(which, which - 1, 0x77);
		begin_sum(RANKS, 3);
		for (unsigned ms = 0; ms < 3000; ms++) {
			step();
			for (unsigned i = 0; i < taped; i++)
				if (i % 97 == ms % 97 && (net.tape[i].bytes[1] == FAN_TYPE_JOIN ||
							  net.tape[i].bytes[1] == FAN_TYPE_RELAY ||
							  net.tape[i].bytes[1] == FAN_TYPE_WELCOME))
					deliver(&net.tape[i]);
			carry();
		}
		end_sum(RANKS, 3);
	}
}

/* An answer counts from where the JOIN went alone: else that would be the next hop from then on. */
TEST_WITH(drill_4__answer_from_elsewhere, NULL, close_net)
{
	open_net(1, 0x77);
	form("alice", RANKS, 1);
	const struct packet p =
		*last_of(station_at(0), station_at(1), FAN_TYPE_RELAY, FAN_TYPE_WELCOME);
	const fan_peer rank = rank_at(0);
	const uint64_t before = stats(1)->drops[FAN_SEAL_TAG];
	to_station(1, &rank, p.bytes, p.len);
	assert_int_equal(stats(1)->drops[FAN_SEAL_TAG], before + 1);
	sum(RANKS, 1);
}

/* A JOIN of the past, and then the answer to it: it is not to what the switch has asked now. */
TEST_WITH(drill_4__answer_of_the_past, NULL, close_net)
{
	open_net(1, 0x77);
	form("alice", RANKS, 1);
	const struct packet told =
		*last_of(station_at(0), station_at(1), FAN_TYPE_RELAY, FAN_TYPE_WELCOME);
	const unsigned token = fan_get16(told.bytes + 16);
	leave(RANKS);
	for (unsigned r = 0; r < RANKS; r++) /* tokens are given in the order of JOINs */
		deliver(last_of(rank_at(r), station_at(1), FAN_TYPE_JOIN, 0));
	net.queued = 0;
	assert_in_range(token, 1, RANKS);
	const uint64_t before = stats(1)->drops[FAN_SEAL_TAG];
	deliver(&told);
	assert_int_equal(stats(1)->drops[FAN_SEAL_TAG], before + 1);
}

/* Who repeats a rank's JOIN from another address is not taken for the rank. */
TEST_WITH(drill_4__join_from_elsewhere, NULL, close_net)
{
	open_net(1, 0x77);
	form("alice", RANKS, 1);
	sum(RANKS, 1);
	const struct packet p = *last_of(rank_at(0), station_at(1), FAN_TYPE_JOIN, 0);
	const fan_peer stranger = {.addr = {66, 6}, .port = 66};
	to_station(1, &stranger, p.bytes, p.len);
	carry();
	sum(RANKS, 2);
	const struct fan_switch_stats *st = fan_switch_stats(net.station[1].node->slots);
	assert_int_equal(st->drops[FAN_DROP_SENDER], 0);
}

/* The WELCOME of a switch's former life does not bring its keys back. */
TEST_WITH(drill_4__welcome_of_the_former_life, NULL, close_net)
{
	open_net(1, 0x77);
	form("alice", RANKS, 1);
	const struct packet p = *last_of(station_at(1), rank_at(0), FAN_TYPE_WELCOME, 0);
	stop_station(1);
	start_station(1, 0, 0x77);
	sum(RANKS, 1);
	const uint64_t before = net.rank[0].seal.drops[FAN_SEAL_REPLAY];
	deliver(&p);
	assert_int_equal(net.rank[0].seal.drops[FAN_SEAL_REPLAY], before + 1);
	begin_sum(RANKS, 2);
	assert_in_range(end_sum(RANKS, 2), 1, 100);
}

/* A tenant that sees the wire makes a switch's key for a job of its own, and speaks of another's.
 */
TEST_WITH(drill_6__relay_about_another_job, NULL, close_net)
{
	open_net(1, 0x77);
	form("alice", 2, 1);
	const fan_peer a = station_at(0), s = station_at(1);
	struct packet join = *last_of(s, a, FAN_TYPE_RELAY, FAN_TYPE_JOIN);
	struct packet told = *last_of(a, s, FAN_TYPE_RELAY, FAN_TYPE_WELCOME);
	struct fan_traffic t = {.job = fan_get32(told.bytes + 4) & 0xffff,
				.epoch = fan_get32(told.bytes + 8)};
	uint8_t key[FAN_CIPHER_KEY_BYTES], tenant[FAN_KEY_BYTES], fabric[FAN_KEY_BYTES];
	memset(fabric, 0x77, sizeof fabric);
	fan_tenant_key(toy_cipher(), tenant, fabric, "alice", 5);
	memcpy(t.salt, told.bytes + told.len - FAN_SEAL_MORE - FAN_SEAL_SALT_BYTES,
	       FAN_SEAL_SALT_BYTES);
	fan_traffic_hop(toy_cipher(), key, tenant, &t,
			fan_get64(join.bytes + join.len - FAN_SEAL_MORE - FAN_RELAY_MORE));
	void *k = toy_cipher()->open(key);
	for (unsigned other = 0; other < 2; other++) {
		uint8_t body[FAN_CTL_BYTES_MAX], inner[FAN_CTL_BYTES_MAX], sealed[BYTES];
		OUT(out);
		const struct fan_leave bye = {.err = FAN_E_STALLED};
		struct fan_out_item leaves = {.dest = FAN_TO_PEER};
		struct fan_frag h = {.type = FAN_TYPE_LEAVE,
				     .job = t.job + other,
				     .epoch = t.epoch,
				     .nonce = 77};
		fan_ctl_finish(&leaves, &h, body, fan_ctl_put(body, &bye));
		size_t bytes = fan_out_item_copy(&leaves, inner);
		const struct fan_envelope v = {.token = 1, .hops = 1};
		struct fan_out_item *it = fan_out_add(&out, FAN_TO_PEER);
		fan_envelope_put(it, &out, &v, t.job, t.epoch, inner, inner + FAN_HEAD_BYTES,
				 bytes - FAN_HEAD_BYTES);
		assert_true(fan_seal_item(toy_cipher(), k, 100000 + other, it, sealed));
		uint8_t pkt[BYTES];
		bytes = fan_out_item_copy(it, pkt);
		uint64_t before = stats(0)->drops[FAN_SEAL_TAG];
		to_station(0, &s, pkt, bytes);
		assert_int_equal(stats(0)->drops[FAN_SEAL_TAG] - before, other);
	}
	toy_cipher()->close(k);
}

/* A rank, a switch or the aggregator alone has a key, or has none: the rank learns it. */
TEST_WITH(drill_13__one_without_a_key, NULL, close_net)
{
	for (unsigned without = 0; without < 3; without++) {
		open_net(1, 0x77);
		for (unsigned i = 0; i < 2; i++)
			if (i == without || without == 2) {
				stop_station(i);
				start_station(i, 0, without == 2 ? 0x77 : 0);
			}
		start_rank(0, 2, "alice", without == 2 ? NULL : "alice", 1);
		assert_true(until(1, FAN_W_FAILED, 1500));
		assert_int_equal(fan_worker_fault(net.rank[0].w)->err, FAN_E_SEALED);
		assert_int_equal(fan_worker_fault(net.rank[0].w)->desc_a, without == 2);
		if (without + 1 < 3)
			close_net(NULL);
	}
}

/* An open switch below a sealed aggregator: its ranks are open, too. */
TEST_WITH(drill_13__open_switch_below_a_sealed_server, NULL, close_net)
{
	open_net(1, 0x77);
	stop_station(1);
	start_station(1, 0, 0);
	start_rank(0, 2, "alice", NULL, 1);
	assert_true(until(1, FAN_W_FAILED, 500));
	assert_int_equal(fan_worker_fault(net.rank[0].w)->err, FAN_E_SEALED);
	assert_int_equal(stats(0)->refused, 1);
}

/* Entries of a set are few: those that have proved nothing give way. */
TEST_WITH(hop__proved_ones_stay, NULL, close_net)
{
	memset(&net, 0, sizeof net);
	toy_reset(3);
	const fan_peer at = {.addr = {1, 2}, .port = 3};
	const uint8_t tenant[FAN_KEY_BYTES] = {1};
	const struct fan_traffic life = {.job = 5, .epoch = 6};
	struct fan_hops *below = fan_hops_new(toy_cipher()), *mine = fan_hops_new(toy_cipher());
	assert_true(fan_hops_above(mine, &at, tenant, &life));
	assert_true(fan_hops_below(below, &at, tenant, &life, mine->instance));
	for (unsigned turn = 0; turn < 2; turn++) {
		uint8_t space[64], pkt[128];
		struct fan_frag h = {.type = FAN_TYPE_PROBE, .job = 5, .epoch = 6};
		struct fan_out_item it = {.dest = FAN_TO_PEER};
		struct fan_seal_head head;
		enum fan_seal_verdict v;
		fan_wire_put(it.head, &h);
		assert_true(fan_hops_seal(mine, fan_hops_find_above(mine, &at, 5, 6), &it, space));
		size_t len = fan_out_item_copy(&it, pkt);
		assert_true(fan_seal_head(&head, pkt, len));
		assert_true(fan_hops_open(below, &at, &head, pkt, &len, &v));
		assert_int_equal(v, FAN_SEAL_GOOD);
		for (unsigned i = 0; i < 4 * FAN_HOP_WAYS; i++) /* of the past */
			assert_true(fan_hops_below(below, &at, tenant, &life, 1000 + i));
		assert_in_range(below->count, 1, FAN_HOP_WAYS);
	}
	fan_hops_free(below);
	fan_hops_free(mine);
}

UNIT_MAIN

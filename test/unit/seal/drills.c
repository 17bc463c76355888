/* SPDX-License-Identifier: Apache-2.0 */
/* drills.c - what somebody without the key can do to a sealed job, who sees every packet: nothing.
 * In each, sums are right and the counters tell.  By number; flood.c, switches.c (one switch with
 * shared slots, and two) and routes.c (routes that change) have the same:
 *
 *  1  JOIN without key, or with another tenant's: no answer, no state
 *  2  DATA with the right job, epoch, rank, address, fragment: dropped, tag
 *  3  each bit of JOIN, BEAT, DATA, WELCOME, STATE, RESULT flipped: dropped, no answer
 *  4  all packets of a job replayed, at once, in its next life, at another shard: dropped
 *  5  RESULT, NEED, STATE FAILED, WHO, MISS, FLUSH to a rank, in clear and with a tag: dropped; a
 *     REFUSE of another switch: dropped as long as the rank's own says something else
 *  6  LEAVE, BEAT, WHO, FLUSH, RELAY, PARTIAL from a member's address: dropped
 *  7  200,000 packets, random and cut from the job: no answer to a bad tag, none that is longer
 *  8  100,000 JOINs a second from 65,536 addresses: sums take no longer, a new job forms (flood.c)
 *  9  JOINs of 20 jobs of the past, replayed three times: the next job forms and sums
 * 10  a tenant begins 63 jobs of 64 with the largest window: the next tenant's sums (flood.c)
 * 11  strangers at a controller: test/ctl/strangers, test/ctl/lines, test/unit/net/lines.c
 * 12  keys wrong, missing, readable by others, rotated while jobs run: said; jobs go on
 * 13  a sealed rank at an open switch, and the reverse, also with slots, a server, a controller's
 *     routes (test/net/controller): refused with the cause
 * 14  a recorded job has no 8 bytes of a tensor in it
 * 15  restarts, jobs that come again, loss: no pair of key and counter twice, here as in all */
#include <stdio.h>

#include "seal/net.h"

#include "core/wire/ctlmsg.h"
#include "seal/cipher.h"
#include "seal/gate_priv.h"

static const fan_peer stranger = {.addr = {66, 6}, .port = 66};

static int open_toy(void **state __attribute__((unused)))
{
	open_net(0, 0x77);
	net.alive_ms = 1000;
	net.join_ms = net.stall_ms = 3000;
	return 0;
}

static bool is_up(const struct packet *p)
{
	const fan_peer at = station_at(0);
	return fan_peer_equal(&p->to, &at);
}

/* The last recorded packet of a type, that rank `rank` has sent or got. */
static const struct packet *last(bool up, unsigned type, unsigned rank)
{
	return up ? last_of(rank_at(rank), station_at(0), type, 0)
		  : last_of(station_at(0), rank_at(rank), type, 0);
}

static void turn(unsigned r)
{
	tick_rank(r);
	carry();
}

static unsigned to_switch(fan_peer from, const uint8_t *bytes, size_t len)
{
	size_t answer = 0;
	return to_aggregator(from, bytes, len, &answer);
}

TEST_WITH(sealed__job_sums, open_toy, close_net)
{
	form("alice/run", 4, 0);
	for (unsigned i = 0; i < 5; i++)
		sum(4, i);
	leave(4);
	assert_int_equal(stats(0)->drops[FAN_SEAL_TAG], 0);
	assert_int_equal(stats(0)->drops[FAN_SEAL_REPLAY], 0);
	assert_int_equal(stats(0)->unsent, 0);
	assert_in_range(toy_sealed(), 300, 10000);
}

TEST_WITH(sealed__job_sums_in_spite_of_loss, open_toy, close_net)
{
	form("alice", 3, 0);
	net.lose = 20;
	for (unsigned i = 0; i < 10; i++)
		sum(3, i);
	net.lose = 0;
	leave(3);
}

/* Every bit of the way is sealed or signed: the flag stands in each packet but REPORTs. */
TEST_WITH(sealed__nothing_travels_in_clear, open_toy, close_net)
{
	form("alice", 3, 0);
	sum(3, 1);
	leave(3);
	assert_in_range(net.taped, 100, TAPE - 1);
	for (unsigned i = 0; i < net.taped; i++)
		assert_true(fan_get16(net.tape[i].bytes + 2) & FAN_F_SEALED);
}

TEST_WITH(drill_1__join_without_the_key, open_toy, close_net)
{
	form("alice", 2, 0);
	start_rank(2, 4, "alice/other", "eve", 0); /* another tenant's */
	start_rank(3, 4, "eve", "alice", 0);
	for (unsigned i = 0; i < 300; i++)
		step();
	assert_int_equal(fan_worker_phase(net.rank[2].w), FAN_W_JOINING);
	assert_int_equal(fan_worker_phase(net.rank[3].w), FAN_W_JOINING);
	assert_in_range(stats(0)->drops[FAN_SEAL_TAG], 8, 20);
	assert_int_equal(fan_node_jobs(net.station[0].node), 1);
	sum(2, 7);
	for (unsigned i = 0; i < net.taped; i++) /* nor any answer */
		for (unsigned r = 2; r < 4; r++) {
			const fan_peer at = rank_at(r);
			assert_false(fan_peer_equal(&net.tape[i].to, &at));
		}
}

/* A contribution with everything right that can be seen. */
TEST_WITH(drill_2__forged_data, open_toy, close_net)
{
	form("alice", 2, 0);
	sum(2, 1);
	struct packet p = *last(true, FAN_TYPE_DATA, 1);
	begin_sum(2, 2);
	turn(0);
	uint64_t before = stats(0)->drops[FAN_SEAL_TAG];
	for (uint32_t n = 0; n < 200; n++) {
		uint32_t counter = fan_get32(p.bytes + 32) + n;
		fan_put32(p.bytes + 32, counter);
		fan_put64(p.bytes + 16, fan_get64(p.bytes + 16) + n % 8);
		p.bytes[40] ^= (uint8_t)n;
		assert_int_equal(to_switch(rank_at(1), p.bytes, p.len), 0);
	}
	assert_in_range(stats(0)->drops[FAN_SEAL_TAG] - before, 190, 200);
	end_sum(2, 2);
}

/* The same with the seal left out, and with one that is no seal. */
TEST_WITH(drill_2__data_in_clear, open_toy, close_net)
{
	form("alice", 2, 0);
	begin_sum(2, 2);
	turn(0);
	struct packet p = *last(true, FAN_TYPE_DATA, 0);
	fan_put16(p.bytes + 2, fan_get16(p.bytes + 2) & (uint16_t)~FAN_F_SEALED);
	fan_wire_recheck(p.bytes, p.len - FAN_TAG_BYTES);
	uint64_t before = stats(0)->drops[FAN_SEAL_CLEAR];
	assert_int_equal(to_switch(rank_at(1), p.bytes, p.len - FAN_TAG_BYTES), 0);
	assert_int_equal(stats(0)->drops[FAN_SEAL_CLEAR] - before, 1);
	end_sum(2, 2);
}

/* In its own process a rank needs no seal, for data of a job that both have keys of. */
TEST_WITH(inside__only_data_of_a_job_with_keys, open_toy, close_net)
{
	form("alice", 2, 0);
	begin_sum(2, 2);
	turn(0);
	struct packet up = *last(true, FAN_TYPE_DATA, 0);
	end_sum(2, 2);
	struct packet down = *last(false, FAN_TYPE_RESULT, 0);
	struct fan_gate *g = net.station[0].gate;
	const struct fan_seal_rank *s = &net.rank[0].seal;
	assert_false(fan_gate_is_known(g, up.bytes, up.len)); /* sealed */
	assert_false(fan_seal_rank_is_known(s, down.bytes, down.len));
	fan_put16(up.bytes + 2, fan_get16(up.bytes + 2) & (uint16_t)~FAN_F_SEALED);
	fan_put16(down.bytes + 2, fan_get16(down.bytes + 2) & (uint16_t)~FAN_F_SEALED);
	assert_true(fan_gate_is_known(g, up.bytes, up.len));
	assert_true(fan_seal_rank_is_known(s, down.bytes, down.len));
	for (unsigned at = 0; at < 14; at++) { /* version, type, job, epoch, sender */
		if (at == 2 || at == 3 || at == 6 || at == 7)
			continue; /* flags; the route */
		up.bytes[at] ^= 0x40;
		down.bytes[at] ^= 0x40;
		assert_false(fan_gate_is_known(g, up.bytes, up.len));
		assert_true(at >= 12 || !fan_seal_rank_is_known(s, down.bytes, down.len));
		up.bytes[at] ^= 0x40;
		down.bytes[at] ^= 0x40;
	}
	assert_false(fan_gate_is_known(g, up.bytes, FAN_HEAD_BYTES - 1));
	assert_false(fan_seal_rank_is_known(s, down.bytes, FAN_HEAD_BYTES - 1));
}

/* Every bit of every kind of packet, in both directions: dropped, and no answer. */
TEST_WITH(drill_3__flipped_bits, open_toy, close_net)
{
	static const uint8_t ups[] = {FAN_TYPE_JOIN, FAN_TYPE_BEAT, FAN_TYPE_DATA};
	static const uint8_t downs[] = {FAN_TYPE_WELCOME, FAN_TYPE_STATE, FAN_TYPE_RESULT};
	form("alice", 2, 0);
	sum(2, 1);
	for (unsigned t = 0; t < 3; t++) {
		struct packet up = *last(true, ups[t], 0), down = *last(false, downs[t], 0);
		for (unsigned bit = 8; bit < 8 * up.len; bit++) { /* not the version */
			up.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			unsigned answers = to_switch(stranger, up.bytes, up.len);
			bool clear = !(fan_get16(up.bytes + 2) & FAN_F_SEALED);
			assert_int_equal(answers, 0);
			assert_true(!clear || bit == 30);
			up.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		for (unsigned bit = 8; bit < 8 * down.len; bit++) {
			down.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_equal(to_rank(0, down.bytes, down.len, bit % 2), FAN_DROP);
			down.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
	sum(2, 2);
}

/* All that was ever said, again: in the same life, in the next of the same job, at another shard.
 */
TEST_WITH(drill_4__replays, open_toy, close_net)
{
	form("alice", 2, 0);
	sum(2, 1);
	unsigned taped = net.taped;
	uint64_t opened = stats(0)->opened;
	for (unsigned life = 0; life < 2; life++) {
		begin_sum(2, 2 + life);
		turn(0);
		opened = stats(0)->opened;
		for (unsigned i = 0; i < taped; i++) {
			const struct packet p = net.tape[i];
			if (is_up(&p))
				to_switch(p.from, p.bytes, p.len);
			else if (p.bytes[1] != FAN_TYPE_REFUSE)
				assert_int_equal(
					to_rank((unsigned)p.to.addr[1] - 1, p.bytes, p.len, true),
					FAN_DROP);
		}
		assert_int_equal(stats(0)->opened, opened); /* JOINs are not counted here */
		end_sum(2, 2 + life);
		leave(2);
		form("alice", 2, 0);
	}
	const struct net here = net; /* another shard of the same fabric */
	open_toy(NULL);
	for (unsigned i = 0; i < taped; i++)
		if (is_up(&here.tape[i]) && here.tape[i].bytes[1] != FAN_TYPE_JOIN)
			to_switch(rank_at(0), here.tape[i].bytes, here.tape[i].len);
	assert_int_equal(stats(0)->opened, 0);
	end_net();
	net = here;
}

/* A WELCOME that was good for an earlier life offers the next one no keys. */
TEST_WITH(drill_4__welcome_of_another_life, open_toy, close_net)
{
	form("alice", 2, 0);
	const struct packet old = *last(false, FAN_TYPE_WELCOME, 0);
	leave(2);
	start_rank(0, 2, "alice", "alice", 0);
	net.lose = 1; /* nothing arrives */
	turn(0);
	assert_int_equal(to_rank(0, old.bytes, old.len, false), FAN_DROP);
	assert_int_equal(net.rank[0].seal.offered.job, 0);
}

static void forged_to_rank(unsigned type, bool sealed, bool by_group)
{
	uint8_t body[FAN_CTL_BYTES_MAX] = {0}, pkt[FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX];
	const struct packet *seen = last(false, FAN_TYPE_RESULT, 0);
	const struct fan_state failed = {
		.state = FAN_JOB_FAILED, .err = FAN_E_RANK_LOST, .missing = {2}};
	struct fan_frag f = {.job = fan_get32(seen->bytes + 4),
			     .epoch = fan_get32(seen->bytes + 8),
			     .frag = fan_get64(seen->bytes + 16) + 1,
			     .sender = FAN_RANK_NONE,
			     .type = (uint8_t)type,
			     .payload = body};
	if (type == FAN_TYPE_STATE)
		f.payload_bytes = fan_ctl_put(body, &failed);
	fan_wire_put(pkt, &f);
	memcpy(pkt + FAN_HEAD_BYTES, body, sizeof body);
	size_t len = FAN_HEAD_BYTES + f.payload_bytes;
	if (sealed) {
		fan_put16(pkt + 2, fan_get16(pkt + 2) | FAN_F_SEALED);
		len += FAN_TAG_BYTES;
	}
	assert_int_equal(to_rank(0, pkt, len, by_group), FAN_DROP);
}

TEST_WITH(drill_5__forged_results_needs_states, open_toy, close_net)
{
	static const uint8_t types[] = {FAN_TYPE_RESULT, FAN_TYPE_NEED, FAN_TYPE_STATE,
					FAN_TYPE_WHO,	 FAN_TYPE_MISS, FAN_TYPE_FLUSH};
	form("alice", 2, 0);
	sum(2, 1);
	begin_sum(2, 2);
	turn(0);
	for (unsigned i = 0; i < sizeof types; i++)
		for (unsigned how = 0; how < 4; how++)
			forged_to_rank(types[i], how & 1, how & 2);
	assert_int_equal(fan_worker_phase(net.rank[0].w), FAN_W_READY);
	end_sum(2, 2);
}

/* A JOIN that was repeated at another switch of the fabric, where a job of that name has other
 * ranks, draws a REFUSE that is signed. */
static struct packet refused_elsewhere(const struct packet *join)
{
	const struct net here = net;
	open_toy(NULL);
	start_rank(1, 3, "alice", "alice", 0);
	for (unsigned i = 0; i < 5; i++)
		step();
	assert_int_equal(fan_worker_phase(net.rank[1].w), FAN_W_FORMING);
	assert_int_equal(to_switch(rank_at(0), join->bytes, join->len), 1);
	const struct packet no = *last(false, FAN_TYPE_REFUSE, 0);
	end_net();
	net = here;
	return no;
}

/* Drill 5: ranks wait for what their own switch says. */
TEST_WITH(drill_5__refusal_of_another_switch, open_toy, close_net)
{
	start_rank(0, 2, "alice", "alice", 0);
	net.lose = 1;
	for (unsigned i = 0; i < 6; i++, net.now_ns += 50 * FAN_MS) {
		turn(0);
		const struct packet join = *last(true, FAN_TYPE_JOIN, 0);
		const struct packet no = refused_elsewhere(&join);
		assert_int_equal(to_rank(0, no.bytes, no.len, false), FAN_DROP);
		assert_int_equal(net.rank[0].seal.drops[FAN_SEAL_REPLAY], i + 1);
	}
	net.lose = 0;
	start_rank(1, 2, "alice", "alice", 0);
	assert_true(until(2, FAN_W_READY, 500));
	sum(2, 1);
}

/* What its own switch says again and again is the case. */
TEST_WITH(drill_5__refusal_is_believed, open_toy, close_net)
{
	form("alice", 2, 0);
	start_rank(2, 3, "alice", "alice", 0);
	const uint64_t since_ns = net.now_ns;
	while (fan_worker_phase(net.rank[2].w) == FAN_W_JOINING)
		step();
	assert_int_equal(fan_worker_fault(net.rank[2].w)->err, FAN_E_RANK_TAKEN);
	assert_in_range(net.now_ns - since_ns, 300 * FAN_MS, 500 * FAN_MS);
	sum(2, 1);
}

/* Drill 6: what ends or moves a member, with its address and nonce, and without the key. */
TEST_WITH(drill_6__forged_leaves_and_beats, open_toy, close_net)
{
	static const uint8_t types[] = {FAN_TYPE_LEAVE,	 FAN_TYPE_BEAT,	 FAN_TYPE_WHO,
					FAN_TYPE_FLUSH,	 FAN_TYPE_RELAY, FAN_TYPE_STATE,
					FAN_TYPE_PARTIAL};
	form("alice", 2, 0);
	begin_sum(2, 2);
	const struct packet beat = *last(true, FAN_TYPE_BEAT, 1);
	for (unsigned i = 0; i < sizeof types; i++) {
		struct packet p = beat;
		p.bytes[1] = types[i];
		assert_int_equal(to_switch(rank_at(1), p.bytes, p.len), 0);
		fan_put16(p.bytes + 2, 0);
		fan_wire_recheck(p.bytes, p.len);
		assert_int_equal(to_switch(rank_at(1), p.bytes, p.len), 0);
	}
	end_sum(2, 2);
}

/* Drill 7: random packets, and those of the job with other types and lengths. */
TEST_WITH(drill_7__no_answer_is_longer, open_toy, close_net)
{
	uint8_t pkt[400];
	form("alice", 2, 0);
	sum(2, 1);
	for (unsigned n = 0; n < 200000; n++) {
		const struct packet *p = &net.tape[fan_rng_below(&net.rng, 200) % net.taped];
		size_t len = 1 + fan_rng_below(&net.rng, sizeof pkt), answer = 0;
		bool whole = n % 3 == 0 && p->len <= sizeof pkt;
		for (unsigned i = 0; i < sizeof pkt; i++)
			pkt[i] = (uint8_t)fan_rng_next(&net.rng);
		if (whole)
			memcpy(pkt, p->bytes, len = p->len);
		pkt[0] = FAN_WIRE_VERSION;
		pkt[1] = (uint8_t)(n / 3 % 26);
		bool sealed = n & 1;
		fan_put16(pkt + 2, sealed ? FAN_F_SEALED : 0);
		if (!sealed && len >= FAN_HEAD_BYTES)
			fan_wire_recheck(pkt, len);
		to_aggregator(stranger, pkt, len, &answer);
		assert_true(answer <= len);
		assert_true(!answer || !sealed || pkt[1] == FAN_TYPE_JOIN);
	}
	sum(2, 2);
}

/* Drill 9: JOINs of jobs of the past keep nobody out. */
TEST_WITH(drill_9__replayed_joins, open_toy, close_net)
{
	char job[16];
	for (unsigned n = 0; n < 20; n++) {
		snprintf(job, sizeof job, "alice/%u", n);
		form(job, 2, 0);
		leave(2);
	}
	unsigned taped = net.taped;
	for (unsigned k = 0; k < 3; k++) {
		for (unsigned i = 0; i < taped; i++)
			if (is_up(&net.tape[i]) && net.tape[i].bytes[1] == FAN_TYPE_JOIN)
				to_switch((fan_peer){.addr = {66, i}, .port = 1}, net.tape[i].bytes,
					  net.tape[i].len);
		form("alice/new", 3, 0);
		sum(3, k);
		leave(3);
	}
}

/* Drill 12: two keys are valid while they are changed, and jobs go on. */
TEST_WITH(drill_12__keys_are_rotated, open_toy, close_net)
{
	uint8_t old[FAN_KEY_BYTES];
	struct fan_keys both = {.count = 2}, fresh = {.count = 1};
	form("alice/1", 2, 0);
	memcpy(old, net.fabric, sizeof old);
	memset(both.key[0], 0x42, FAN_KEY_BYTES);
	memcpy(both.key[1], old, FAN_KEY_BYTES);
	memcpy(fresh.key[0], both.key[0], FAN_KEY_BYTES);
	fan_gate_set_keys(net.station[0].gate, &both);
	sum(2, 1);
	leave(2);
	form("alice/2", 2, 0); /* with the old one still */
	sum(2, 2);
	leave(2);
	memcpy(net.fabric, fresh.key[0], FAN_KEY_BYTES);
	form("alice/3", 2, 0); /* and the new one already */
	fan_gate_set_keys(net.station[0].gate, &fresh);
	sum(2, 3);
	leave(2);
	memcpy(net.fabric, old, FAN_KEY_BYTES);
	start_rank(0, 2, "alice/4", "alice", 0);
	for (unsigned i = 0; i < 200; i++)
		step();
	assert_int_equal(fan_worker_phase(net.rank[0].w), FAN_W_JOINING);
}

/* Drill 13, at a sealed switch: the cause comes at once. */
TEST_WITH(drill_13__open_rank_is_refused, open_toy, close_net)
{
	form("alice", 2, 0);
	start_rank(2, 4, "bob", NULL, 0);
	for (unsigned i = 0; i < 5; i++)
		step();
	assert_int_equal(fan_worker_phase(net.rank[2].w), FAN_W_FAILED);
	assert_int_equal(fan_worker_fault(net.rank[2].w)->err, FAN_E_SEALED);
	assert_in_range(stats(0)->refused, 1, 5);
	sum(2, 1);
}

/* Drill 13, the reverse: an unproved refusal is believed when nothing else has come for a second.
 */
TEST_WITH(drill_13__switch_without_key_is_believed_late, open_toy, close_net)
{
	struct fan_out_item item[4];
	uint8_t scratch[4 * 512], pkt[BYTES];
	struct fan_out out;
	start_rank(0, 2, "alice", "alice", 0);
	turn(0);
	fan_out_init(&out, item, 4, scratch, sizeof scratch);
	const fan_peer to = rank_at(0);
	const struct packet join = *last(true, FAN_TYPE_JOIN, 0);
	assert_true(fan_seal_refuse(join.bytes, join.len, &to, false, &out));
	size_t len = fan_out_item_copy(&item[0], pkt);
	net.lose = 1; /* nothing else answers */
	start_rank(0, 2, "alice", "alice", 0);
	turn(0);
	memcpy(pkt + 16, last(true, FAN_TYPE_JOIN, 0)->bytes + 16, 8);
	fan_wire_recheck(pkt, len);
	assert_int_equal(to_rank(0, pkt, len, false), FAN_DROP);
	net.now_ns += 1000 * FAN_MS;
	assert_int_equal(to_rank(0, pkt, len, false), FAN_CTL);
	assert_int_equal(fan_worker_fault(net.rank[0].w)->err, FAN_E_SEALED);
	pkt[20] ^= 1;
	fan_wire_recheck(pkt, len);
	start_rank(1, 2, "alice", "alice", 0);
	turn(1);
	net.now_ns += 2000 * FAN_MS;
	assert_int_equal(to_rank(1, pkt, len, false), FAN_DROP); /* not to its JOIN */
}

/* Drill 14: of 4000 runs of 8 bytes of the tensors, none is in what travelled. */
TEST_WITH(drill_14__no_byte_of_a_tensor, open_toy, close_net)
{
	close_net(NULL);
	net_cipher = fan_cipher_gcrypt();
	open_toy(NULL);
	form("alice", 2, 0);
	sum(2, 3);
	unsigned open = 0, found = 0;
	for (unsigned i = 0; i < net.taped; i++) {
		const struct packet *p = &net.tape[i];
		for (unsigned r = 0; r < 2 && p->len > FAN_HEAD_BYTES; r++)
			for (unsigned e = 1; e + 2 < RANK_ELEMS; e += 2) {
				found += memmem(p->bytes, p->len, &net.rank[r].in[e], 8) != NULL;
				found += memmem(p->bytes, p->len, &net.rank[r].out[e], 8) != NULL;
			}
		open += p->bytes[1] == FAN_TYPE_DATA || p->bytes[1] == FAN_TYPE_RESULT;
	}
	assert_in_range(open, 100, TAPE);
	assert_int_equal(found, 0);
}

/* Drill 15: ranks that start again, jobs that come again, under loss.  close_net looks. */
TEST_WITH(drill_15__no_counter_twice, open_toy, close_net)
{
	for (unsigned n = 0; n < 10; n++) {
		net.lose = n % 2 ? 10 : 0;
		form("alice", 3, 0);
		sum(3, n);
		if (n % 3 == 0) { /* one dies, and comes back as another life */
			start_rank(1, 3, "alice", "alice", 0);
			for (unsigned i = 0; i < 3000; i++)
				step();
		} else {
			net.lose = 0;
			leave(3);
		}
	}
	assert_in_range(toy_sealed(), 1000, 100000);
}

/* What is kept for ranks is bounded, and goes with them. */
TEST_WITH(gate__keys_of_the_dead_make_room, open_toy, close_net)
{
	char job[16];
	for (unsigned n = 0; n < 200; n++) {
		snprintf(job, sizeof job, "alice/%u", n);
		form(job, 4, 0);
		leave(4);
		assert_in_range(stats(0)->ranks, 4, 2 * 4 * 8);
	}
}

/* A tenant whose ranks come again and again has its own keys give way, not those of an idle job. */
TEST_WITH(gate__tenants_push_out_their_own, open_toy, close_net)
{
	form("alice", 2, 0);
	struct fan_gate *g = net.station[0].gate;
	const unsigned alice = last(true, FAN_TYPE_BEAT, 0)->bytes[4];
	for (uint32_t n = 0; n < 3 * FAN_GATE_RANKS_MAX / FAN_RANKS_MAX; n++)
		for (uint16_t r = 0; r < FAN_RANKS_MAX; r++) {
			const uint32_t place = n % 40 == alice ? 41 : n % 40;
			g->join = (struct fan_gate_join){
				.is_open = true, .nonce = 256u * n + r + 1, .rank = r};
			memset(g->join.tenant, 0xbb, sizeof g->join.tenant);
			assert_non_null(fan_gate_answer_epoch(g, 0x100 | place, 1000 + n, NULL));
			assert_in_range(g->stats.ranks, 2, FAN_GATE_RANKS_MAX + 1);
		}
	sum(2, 3);
}

UNIT_MAIN

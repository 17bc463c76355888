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

#include "core/wire/ctlmsg.h"
#include "seal/cipher.h"
#include "seal/gate_priv.h"
#include "seal/rig.h"

static const fan_peer stranger = {.addr = {66, 6}, .port = 66};

static int open_toy(void **state)
{
	(void)state;
	rig_open(toy_cipher(), true);
	return 0;
}

static int close_toy(void **state)
{
	(void)state;
	assert_int_equal(toy_repeats(), 0); /* drill 15, in every one */
	rig_close();
	assert_int_equal(toy_open_keys(), 0);
	return 0;
}

/* The last recorded packet of a type, that rank `rank` has sent or got. */
static const struct rig_packet *last_of(bool up, unsigned type, unsigned rank)
{
	for (unsigned i = rig.taped; i-- > 0;)
		if (rig.tape[i].up == up && rig.tape[i].bytes[1] == type &&
		    rig.tape[i].rank == rank)
			return &rig.tape[i];
	fail_msg("no packet of type %u", type);
	return NULL;
}

TEST_WITH(sealed__job_sums, open_toy, close_toy)
{
	rig_form("alice/run", "alice", 4);
	for (unsigned i = 0; i < 5; i++)
		rig_sum(4, i);
	rig_leave(4);
	assert_int_equal(rig_gate()->drops[FAN_SEAL_TAG], 0);
	assert_int_equal(rig_gate()->drops[FAN_SEAL_REPLAY], 0);
	assert_int_equal(rig_gate()->unsent, 0);
	assert_in_range(toy_sealed(), 300, 10000);
}

TEST_WITH(sealed__job_sums_in_spite_of_loss, open_toy, close_toy)
{
	rig_form("alice", "alice", 3);
	rig.lose = 20;
	for (unsigned i = 0; i < 10; i++)
		rig_sum(3, i);
	rig.lose = 0;
	rig_leave(3);
}

/* Every bit of the way is sealed or signed: the flag stands in each packet but REPORTs. */
TEST_WITH(sealed__nothing_travels_in_clear, open_toy, close_toy)
{
	rig_form("alice", "alice", 3);
	rig_sum(3, 1);
	rig_leave(3);
	assert_in_range(rig.taped, 100, RIG_TAPE - 1);
	for (unsigned i = 0; i < rig.taped; i++)
		assert_true(fan_get16(rig.tape[i].bytes + 2) & FAN_F_SEALED);
}

TEST_WITH(drill_1__join_without_the_key, open_toy, close_toy)
{
	rig_form("alice", "alice", 2);
	rig_start_rank(2, 4, "alice/other", "eve"); /* another tenant's */
	rig_start_rank(3, 4, "eve", "alice");
	for (unsigned i = 0; i < 300; i++)
		rig_step();
	assert_int_equal(fan_worker_phase(rig.rank[2].w), FAN_W_JOINING);
	assert_int_equal(fan_worker_phase(rig.rank[3].w), FAN_W_JOINING);
	assert_in_range(rig_gate()->drops[FAN_SEAL_TAG], 8, 20);
	assert_int_equal(fan_node_jobs(rig.node), 1);
	rig_sum(2, 7);
	for (unsigned i = 0; i < rig.taped; i++) /* nor any answer */
		assert_false(!rig.tape[i].up && rig.tape[i].rank >= 2);
}

/* A contribution with everything right that can be seen. */
TEST_WITH(drill_2__forged_data, open_toy, close_toy)
{
	rig_form("alice", "alice", 2);
	rig_sum(2, 1);
	struct rig_packet p = *last_of(true, FAN_TYPE_DATA, 1);
	rig_begin_sum(2, 2);
	rig_tick_rank(0);
	uint64_t before = rig_gate()->drops[FAN_SEAL_TAG];
	for (uint32_t n = 0; n < 200; n++) {
		uint32_t counter = fan_get32(p.bytes + 32) + n;
		fan_put32(p.bytes + 32, counter);
		fan_put64(p.bytes + 16, fan_get64(p.bytes + 16) + n % 8);
		p.bytes[40] ^= (uint8_t)n;
		assert_int_equal(rig_to_switch(rig_peer(1), p.bytes, p.len, NULL), 0);
	}
	assert_in_range(rig_gate()->drops[FAN_SEAL_TAG] - before, 190, 200);
	rig_end_sum(2, 2);
}

/* The same with the seal left out, and with one that is no seal. */
TEST_WITH(drill_2__data_in_clear, open_toy, close_toy)
{
	rig_form("alice", "alice", 2);
	rig_begin_sum(2, 2);
	rig_tick_rank(0);
	struct rig_packet p = *last_of(true, FAN_TYPE_DATA, 0);
	fan_put16(p.bytes + 2, fan_get16(p.bytes + 2) & (uint16_t)~FAN_F_SEALED);
	fan_wire_recheck(p.bytes, p.len - FAN_TAG_BYTES);
	uint64_t before = rig_gate()->drops[FAN_SEAL_CLEAR];
	assert_int_equal(rig_to_switch(rig_peer(1), p.bytes, p.len - FAN_TAG_BYTES, NULL), 0);
	assert_int_equal(rig_gate()->drops[FAN_SEAL_CLEAR] - before, 1);
	rig_end_sum(2, 2);
}

/* Every bit of every kind of packet, in both directions: dropped, and no answer. */
TEST_WITH(drill_3__flipped_bits, open_toy, close_toy)
{
	static const uint8_t ups[] = {FAN_TYPE_JOIN, FAN_TYPE_BEAT, FAN_TYPE_DATA};
	static const uint8_t downs[] = {FAN_TYPE_WELCOME, FAN_TYPE_STATE, FAN_TYPE_RESULT};
	rig_form("alice", "alice", 2);
	rig_sum(2, 1);
	for (unsigned t = 0; t < 3; t++) {
		struct rig_packet up = *last_of(true, ups[t], 0),
				  down = *last_of(false, downs[t], 0);
		for (unsigned bit = 8; bit < 8 * up.len; bit++) { /* not the version */
			up.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			unsigned answers = rig_to_switch(stranger, up.bytes, up.len, NULL);
			bool clear = !(fan_get16(up.bytes + 2) & FAN_F_SEALED);
			assert_int_equal(answers, 0);
			assert_true(!clear || bit == 30);
			up.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		for (unsigned bit = 8; bit < 8 * down.len; bit++) {
			down.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_equal(rig_to_rank(0, down.bytes, down.len, bit % 2), FAN_DROP);
			down.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
	rig_sum(2, 2);
}

/* All that was ever said, again: in the same life, in the next of the same job, at another shard.
 */
TEST_WITH(drill_4__replays, open_toy, close_toy)
{
	rig_form("alice", "alice", 2);
	rig_sum(2, 1);
	unsigned taped = rig.taped;
	uint64_t opened = rig_gate()->opened;
	for (unsigned life = 0; life < 2; life++) {
		rig_begin_sum(2, 2 + life);
		rig_tick_rank(0);
		opened = rig_gate()->opened;
		for (unsigned i = 0; i < taped; i++) {
			const struct rig_packet p = rig.tape[i];
			if (p.up)
				rig_to_switch(rig_peer(p.rank), p.bytes, p.len, NULL);
			else if (p.bytes[1] != FAN_TYPE_REFUSE)
				assert_int_equal(rig_to_rank(p.rank, p.bytes, p.len, true),
						 FAN_DROP);
		}
		assert_int_equal(rig_gate()->opened, opened); /* JOINs are not counted here */
		rig_end_sum(2, 2 + life);
		rig_leave(2);
		rig_form("alice", "alice", 2);
	}
	struct rig other = rig; /* another shard of the same fabric */
	rig_open(toy_cipher(), true);
	for (unsigned i = 0; i < taped; i++)
		if (rig.tape[i].up && rig.tape[i].bytes[1] != FAN_TYPE_JOIN)
			rig_to_switch(rig_peer(0), rig.tape[i].bytes, rig.tape[i].len, NULL);
	assert_int_equal(rig_gate()->opened, 0);
	fan_gate_free(rig.gate);
	free(rig.mem);
	rig = other;
}

/* A WELCOME that was good for an earlier life offers the next one no keys. */
TEST_WITH(drill_4__welcome_of_another_life, open_toy, close_toy)
{
	rig_form("alice", "alice", 2);
	const struct rig_packet old = *last_of(false, FAN_TYPE_WELCOME, 0);
	rig_leave(2);
	rig_start_rank(0, 2, "alice", "alice");
	rig.lose = 1; /* nothing arrives */
	rig_tick_rank(0);
	assert_int_equal(rig_to_rank(0, old.bytes, old.len, false), FAN_DROP);
	assert_int_equal(rig.rank[0].seal.offered.job, 0);
}

static void forged_to_rank(unsigned type, bool sealed, bool by_group)
{
	uint8_t body[FAN_CTL_BYTES_MAX] = {0}, pkt[FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX];
	const struct rig_packet *seen = last_of(false, FAN_TYPE_RESULT, 0);
	const struct fan_state failed = {
		.state = FAN_JOB_FAILED, .err = FAN_E_RANK_LOST, .missing = {2}};
	struct fan_frag f = {.job = fan_get32(seen->bytes + 4),
			     .epoch = fan_get32(seen->bytes + 8),
			     .frag = fan_get64(seen->bytes + 16) + 1,
			     .sender = FAN_RANK_NONE,
			     .type = (uint8_t)type,
			     .payload = body};
	if (type == FAN_TYPE_STATE)
		f.payload_bytes = fan_state_put(body, &failed);
	fan_wire_put(pkt, &f);
	memcpy(pkt + FAN_HEAD_BYTES, body, sizeof body);
	size_t len = FAN_HEAD_BYTES + f.payload_bytes;
	if (sealed) {
		fan_put16(pkt + 2, fan_get16(pkt + 2) | FAN_F_SEALED);
		len += FAN_TAG_BYTES;
	}
	assert_int_equal(rig_to_rank(0, pkt, len, by_group), FAN_DROP);
}

TEST_WITH(drill_5__forged_results_needs_states, open_toy, close_toy)
{
	static const uint8_t types[] = {FAN_TYPE_RESULT, FAN_TYPE_NEED, FAN_TYPE_STATE,
					FAN_TYPE_WHO,	 FAN_TYPE_MISS, FAN_TYPE_FLUSH};
	rig_form("alice", "alice", 2);
	rig_sum(2, 1);
	rig_begin_sum(2, 2);
	rig_tick_rank(0);
	for (unsigned i = 0; i < sizeof types; i++)
		for (unsigned how = 0; how < 4; how++)
			forged_to_rank(types[i], how & 1, how & 2);
	assert_int_equal(fan_worker_phase(rig.rank[0].w), FAN_W_READY);
	rig_end_sum(2, 2);
}

/* A JOIN that was repeated at another switch of the fabric, where a job of that name has other
 * ranks, draws a REFUSE that is signed. */
static struct rig_packet refused_elsewhere(const struct rig_packet *join)
{
	struct rig here = rig;
	here.tape = malloc(RIG_TAPE * sizeof *here.tape);
	memcpy(here.tape, rig.tape, rig.taped * sizeof *here.tape);
	rig_open(toy_cipher(), true);
	rig_start_rank(1, 3, "alice", "alice");
	for (unsigned i = 0; i < 5; i++)
		rig_step();
	assert_int_equal(fan_worker_phase(rig.rank[1].w), FAN_W_FORMING);
	assert_int_equal(rig_to_switch(rig_peer(0), join->bytes, join->len, NULL), 1);
	const struct rig_packet no = *last_of(false, FAN_TYPE_REFUSE, 0);
	rig_close();
	rig = here;
	return no;
}

/* Drill 5: ranks wait for what their own switch says. */
TEST_WITH(drill_5__refusal_of_another_switch, open_toy, close_toy)
{
	rig_start_rank(0, 2, "alice", "alice");
	rig.lose = 1;
	for (unsigned i = 0; i < 6; i++, rig.now_ns += 50 * FAN_MS) {
		rig_tick_rank(0);
		const struct rig_packet join = *last_of(true, FAN_TYPE_JOIN, 0);
		const struct rig_packet no = refused_elsewhere(&join);
		assert_int_equal(rig_to_rank(0, no.bytes, no.len, false), FAN_DROP);
		assert_int_equal(rig.rank[0].seal.drops[FAN_SEAL_REPLAY], i + 1);
	}
	rig.lose = 0;
	rig_start_rank(1, 2, "alice", "alice");
	assert_true(rig_until(2, FAN_W_READY, 500));
	rig_sum(2, 1);
}

/* What its own switch says again and again is the case. */
TEST_WITH(drill_5__refusal_is_believed, open_toy, close_toy)
{
	rig_form("alice", "alice", 2);
	rig_start_rank(2, 3, "alice", "alice");
	const uint64_t since_ns = rig.now_ns;
	while (fan_worker_phase(rig.rank[2].w) == FAN_W_JOINING)
		rig_step();
	assert_int_equal(fan_worker_fault(rig.rank[2].w)->err, FAN_E_RANK_TAKEN);
	assert_in_range(rig.now_ns - since_ns, 300 * FAN_MS, 500 * FAN_MS);
	rig_sum(2, 1);
}

/* Drill 6: what ends or moves a member, with its address and nonce, and without the key. */
TEST_WITH(drill_6__forged_leaves_and_beats, open_toy, close_toy)
{
	static const uint8_t types[] = {FAN_TYPE_LEAVE,	 FAN_TYPE_BEAT,	 FAN_TYPE_WHO,
					FAN_TYPE_FLUSH,	 FAN_TYPE_RELAY, FAN_TYPE_STATE,
					FAN_TYPE_PARTIAL};
	rig_form("alice", "alice", 2);
	rig_begin_sum(2, 2);
	const struct rig_packet beat = *last_of(true, FAN_TYPE_BEAT, 1);
	for (unsigned i = 0; i < sizeof types; i++) {
		struct rig_packet p = beat;
		p.bytes[1] = types[i];
		assert_int_equal(rig_to_switch(rig_peer(1), p.bytes, p.len, NULL), 0);
		fan_put16(p.bytes + 2, 0);
		fan_wire_recheck(p.bytes, p.len);
		assert_int_equal(rig_to_switch(rig_peer(1), p.bytes, p.len, NULL), 0);
	}
	rig_end_sum(2, 2);
}

/* Drill 7: random packets, and those of the job with other types and lengths. */
TEST_WITH(drill_7__no_answer_is_longer, open_toy, close_toy)
{
	uint8_t pkt[400];
	rig_form("alice", "alice", 2);
	rig_sum(2, 1);
	for (unsigned n = 0; n < 200000; n++) {
		const struct rig_packet *p = &rig.tape[fan_rng_below(&rig.rng, 200) % rig.taped];
		size_t len = 1 + fan_rng_below(&rig.rng, sizeof pkt), answer = 0;
		bool whole = n % 3 == 0 && p->len <= sizeof pkt;
		for (unsigned i = 0; i < sizeof pkt; i++)
			pkt[i] = (uint8_t)fan_rng_next(&rig.rng);
		if (whole)
			memcpy(pkt, p->bytes, len = p->len);
		pkt[0] = FAN_WIRE_VERSION;
		pkt[1] = (uint8_t)(n / 3 % 26);
		bool sealed = n & 1;
		fan_put16(pkt + 2, sealed ? FAN_F_SEALED : 0);
		if (!sealed && len >= FAN_HEAD_BYTES)
			fan_wire_recheck(pkt, len);
		rig_to_switch(stranger, pkt, len, &answer);
		assert_true(answer <= len);
		assert_true(!answer || !sealed || pkt[1] == FAN_TYPE_JOIN);
	}
	rig_sum(2, 2);
}

/* Drill 9: JOINs of jobs of the past keep nobody out. */
TEST_WITH(drill_9__replayed_joins, open_toy, close_toy)
{
	char job[16];
	for (unsigned n = 0; n < 20; n++) {
		snprintf(job, sizeof job, "alice/%u", n);
		rig_form(job, "alice", 2);
		rig_leave(2);
	}
	unsigned taped = rig.taped;
	for (unsigned k = 0; k < 3; k++) {
		for (unsigned i = 0; i < taped; i++)
			if (rig.tape[i].up && rig.tape[i].bytes[1] == FAN_TYPE_JOIN)
				rig_to_switch((fan_peer){.addr = {66, i}, .port = 1},
					      rig.tape[i].bytes, rig.tape[i].len, NULL);
		rig_form("alice/new", "alice", 3);
		rig_sum(3, k);
		rig_leave(3);
	}
}

/* Drill 12: two keys are valid while they are changed, and jobs go on. */
TEST_WITH(drill_12__keys_are_rotated, open_toy, close_toy)
{
	uint8_t old[FAN_KEY_BYTES];
	struct fan_keys both = {.count = 2}, fresh = {.count = 1};
	rig_form("alice/1", "alice", 2);
	memcpy(old, rig.fabric, sizeof old);
	memset(both.key[0], 0x42, FAN_KEY_BYTES);
	memcpy(both.key[1], old, FAN_KEY_BYTES);
	memcpy(fresh.key[0], both.key[0], FAN_KEY_BYTES);
	fan_gate_set_keys(rig.gate, &both);
	rig_sum(2, 1);
	rig_leave(2);
	rig_form("alice/2", "alice", 2); /* with the old one still */
	rig_sum(2, 2);
	rig_leave(2);
	memcpy(rig.fabric, fresh.key[0], FAN_KEY_BYTES);
	rig_form("alice/3", "alice", 2); /* and the new one already */
	fan_gate_set_keys(rig.gate, &fresh);
	rig_sum(2, 3);
	rig_leave(2);
	memcpy(rig.fabric, old, FAN_KEY_BYTES);
	rig_start_rank(0, 2, "alice/4", "alice");
	for (unsigned i = 0; i < 200; i++)
		rig_step();
	assert_int_equal(fan_worker_phase(rig.rank[0].w), FAN_W_JOINING);
}

/* Drill 13, at a sealed switch: the cause comes at once. */
TEST_WITH(drill_13__open_rank_is_refused, open_toy, close_toy)
{
	rig_form("alice", "alice", 2);
	rig_start_rank(2, 4, "bob", NULL);
	assert_true(rig_until(0, 0, 0));
	for (unsigned i = 0; i < 5; i++)
		rig_step();
	assert_int_equal(fan_worker_phase(rig.rank[2].w), FAN_W_FAILED);
	assert_int_equal(fan_worker_fault(rig.rank[2].w)->err, FAN_E_SEALED);
	assert_in_range(rig_gate()->refused, 1, 5);
	rig_sum(2, 1);
}

/* Drill 13, the reverse: an unproved refusal is believed when nothing else has come for a second.
 */
TEST_WITH(drill_13__switch_without_key_is_believed_late, open_toy, close_toy)
{
	struct fan_out_item item[4];
	uint8_t scratch[4 * 512], pkt[RIG_BYTES];
	struct fan_out out;
	rig_start_rank(0, 2, "alice", "alice");
	rig_tick_rank(0);
	fan_out_init(&out, item, 4, scratch, sizeof scratch);
	const fan_peer to = rig_peer(0);
	const struct rig_packet join = *last_of(true, FAN_TYPE_JOIN, 0);
	assert_true(fan_seal_refuse(join.bytes, join.len, &to, false, &out));
	size_t len = fan_out_item_copy(&item[0], pkt);
	fan_gate_free(rig.gate);
	rig.gate = NULL; /* so nothing else answers */
	rig_start_rank(0, 2, "alice", "alice");
	rig_tick_rank(0);
	memcpy(pkt + 16, last_of(true, FAN_TYPE_JOIN, 0)->bytes + 16, 8);
	fan_wire_recheck(pkt, len);
	assert_int_equal(rig_to_rank(0, pkt, len, false), FAN_DROP);
	rig.now_ns += 1000 * FAN_MS;
	assert_int_equal(rig_to_rank(0, pkt, len, false), FAN_CTL);
	assert_int_equal(fan_worker_fault(rig.rank[0].w)->err, FAN_E_SEALED);
	pkt[20] ^= 1;
	fan_wire_recheck(pkt, len);
	rig_start_rank(1, 2, "alice", "alice");
	rig_tick_rank(1);
	rig.now_ns += 2000 * FAN_MS;
	assert_int_equal(rig_to_rank(1, pkt, len, false), FAN_DROP); /* not to its JOIN */
}

/* Drill 14: of 4000 runs of 8 bytes of the tensors, none is in what travelled. */
TEST_WITH(drill_14__no_byte_of_a_tensor, open_toy, close_toy)
{
	rig_close();
	rig_open(fan_cipher_gcrypt(), true);
	rig_form("alice", "alice", 2);
	rig_sum(2, 3);
	unsigned open = 0, found = 0;
	for (unsigned i = 0; i < rig.taped; i++) {
		const struct rig_packet *p = &rig.tape[i];
		for (unsigned r = 0; r < 2 && p->len > FAN_HEAD_BYTES; r++)
			for (unsigned e = 1; e + 2 < RANK_ELEMS; e += 2) {
				found += memmem(p->bytes, p->len, &rig.rank[r].in[e], 8) != NULL;
				found += memmem(p->bytes, p->len, &rig.rank[r].out[e], 8) != NULL;
			}
		open += p->bytes[1] == FAN_TYPE_DATA || p->bytes[1] == FAN_TYPE_RESULT;
	}
	assert_in_range(open, 100, RIG_TAPE);
	assert_int_equal(found, 0);
}

/* Drill 15: ranks that start again, jobs that come again, under loss.  close_toy looks. */
TEST_WITH(drill_15__no_counter_twice, open_toy, close_toy)
{
	for (unsigned n = 0; n < 10; n++) {
		rig.lose = n % 2 ? 10 : 0;
		rig_form("alice", "alice", 3);
		rig_sum(3, n);
		if (n % 3 == 0) { /* one dies, and comes back as another life */
			rig_start_rank(1, 3, "alice", "alice");
			for (unsigned i = 0; i < 3000; i++)
				rig_step();
		} else {
			rig.lose = 0;
			rig_leave(3);
		}
	}
	assert_in_range(toy_sealed(), 1000, 100000);
}

/* What is kept for ranks is bounded, and goes with them. */
TEST_WITH(gate__keys_of_the_dead_make_room, open_toy, close_toy)
{
	char job[16];
	for (unsigned n = 0; n < 200; n++) {
		snprintf(job, sizeof job, "alice/%u", n);
		rig_form(job, "alice", 4);
		rig_leave(4);
		assert_in_range(rig_gate()->ranks, 4, 2 * 4 * 8);
	}
}

/* A tenant whose ranks come again and again has its own keys give way, not those of an idle job. */
TEST_WITH(gate__tenants_push_out_their_own, open_toy, close_toy)
{
	rig_form("alice", "alice", 2);
	struct fan_gate *g = rig.gate;
	const unsigned alice = last_of(true, FAN_TYPE_BEAT, 0)->bytes[4];
	for (uint32_t n = 0; n < 3 * FAN_GATE_RANKS_MAX / FAN_RANKS_MAX; n++)
		for (uint16_t r = 0; r < FAN_RANKS_MAX; r++) {
			const uint32_t place = n % 40 == alice ? 41 : n % 40;
			g->join = (struct fan_gate_join){
				.is_open = true, .nonce = 256u * n + r + 1, .rank = r};
			memset(g->join.tenant, 0xbb, sizeof g->join.tenant);
			assert_non_null(fan_gate_answer_epoch(g, 0x100 | place, 1000 + n, NULL));
			assert_in_range(g->stats.ranks, 2, FAN_GATE_RANKS_MAX + 1);
		}
	rig_sum(2, 3);
}

UNIT_MAIN

/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - how long a job takes to form when packets are lost and its ranks, or the switch, stop
 * for a while: not longer than they stop and a few rounds.
 *
 * Real workers join in virtual time.  A rank that has not answered goes after a second, so a
 * rank that stops for longer must be let in again, and must not be thrown out each time. */
#include "core/worker/worker.h"
#include "unit/core/aggregator_rig.h"

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

/* Two launches of one job name at an aggregator. */
enum { SECOND = 900, OTHER_HOST = 7 }; /* nonce of a second process of a rank, and where it is */

static uint32_t proof; /* of the last REFUSE RANK_TAKEN */

/* A second process asks to be `rank`, with what it was refused with before.  The error of the
 * REFUSE, which is the last answer. */
static int claim(const struct fan_join *job, uint16_t rank, uint64_t nonce)
{
	struct fan_join m = *job;
	struct fan_refuse no;
	uint8_t body[RIG_BODY];
	m.claim = proof;
	struct fan_frag f = rig_control(FAN_TYPE_JOIN, rank, nonce, body, fan_ctl_put(body, &m));
	assert_int_equal(rig_send(rig_peer(OTHER_HOST), &f), FAN_CTL);
	assert_true(rig.gots > 0);
	assert_int_equal(rig_type(rig.gots - 1), FAN_TYPE_REFUSE);
	assert_int_equal(fan_ctl_get(&no, &rig.got[rig.gots - 1].f), FAN_OK);
	proof = no.err == FAN_E_RANK_TAKEN ? no.have : 0;
	return no.err;
}

static void later(uint64_t ms)
{
	rig_pass(ms * FAN_MS);
}

/* Claims of rank 1, which lives: each is refused with nothing else told. */
static void claims_are_refused(const struct fan_join *m, uint64_t nonce)
{
	proof = 0;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(claim(m, 1, SECOND + i), FAN_E_RANK_TAKEN);
		later(1);
		rig_beat(1, nonce, 0, 0);
	}
}

static enum fan_job_state state_of(unsigned place)
{
	return rig.ag->jobs.job[place].state;
}

TEST_WITH(claim__both_live, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	const struct fan_join m = rig_join_of("a", 2);
	proof = 0;
	assert_int_equal(claim(&m, 1, SECOND), FAN_E_RANK_TAKEN);
	assert_int_equal(rig.gots, 1);
	assert_int_equal(claim(&m, 1, SECOND + 1), FAN_E_RANK_TAKEN);
	assert_int_equal(rig_type(0), FAN_TYPE_WHO); /* to the member, which is to send a BEAT */
	later(1);
	assert_int_equal(claim(&m, 1, SECOND + 2), FAN_E_RANK_TAKEN); /* it was not heard */
	assert_int_equal(rig_beat(1, rig_nonce(1), 0, 0), FAN_CTL);
	assert_int_equal(rig_state(0).state, FAN_JOB_READY);
	assert_int_equal(claim(&m, 1, SECOND + 3), FAN_E_LAUNCHES);
	const struct fan_state s = rig_state(0);
	assert_int_equal(s.err, FAN_E_LAUNCHES);
	assert_int_equal(s.missing[0], 2);
	assert_memory_equal(s.hosts, rig_peer(1).addr, 16);
	assert_memory_equal(s.hosts + 16, rig_peer(OTHER_HOST).addr, 16);
	assert_int_equal(state_of(0), FAN_JOB_FAILED);
}

/* A claim needs what the refusal said: whoever makes up an address has not heard it. */
TEST_WITH(claim__without_proof, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	const struct fan_join m = rig_join_of("a", 2);
	for (unsigned i = 0; i < 4; i++) {
		proof = i;
		assert_int_equal(claim(&m, 1, SECOND + i), FAN_E_RANK_TAKEN);
		rig_beat(1, rig_nonce(1), 0, 0);
	}
	assert_int_equal(state_of(0), FAN_JOB_READY);
}

/* The member has been killed: its successor claims its rank, and nobody fails for it. */
TEST_WITH(claim__by_a_successor, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	proof = 0;
	for (uint16_t r = 0; r < 2; r++)
		assert_int_equal(rig_join(r, rig_nonce(r), &m), FAN_OK);
	rig_beat(1, rig_nonce(1), 0, 0); /* sure, and never heard again */
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(claim(&m, 1, SECOND + i), FAN_E_RANK_TAKEN);
		later(50);
		rig_beat(0, rig_nonce(0), 0, 0);
	}
	assert_int_equal(state_of(0), FAN_JOB_READY);
}

/* A launch of another size comes while a job is READY: it is told so once a member shows that it
 * lives, and until then to wait, as the successor of one that was killed must. */
TEST_WITH(claim__by_another_size, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	rig.ag->jobs.job[0].launch = 7; /* a launcher's next life may have the same id */
	struct fan_join m = rig_join_of("a", 4);
	m.launch = 7;
	for (uint16_t r = 1; r < 4; r += 2) {
		proof = 0;
		for (unsigned i = 0; i < 4; i++) {
			assert_int_equal(claim(&m, r, SECOND + i), FAN_E_RANK_TAKEN);
			later(50);
			rig_beat(0, rig_nonce(0), 0, 0); /* not the member that is asked */
		}
		assert_int_equal(rig_beat(1, rig_nonce(1), 0, 0), FAN_CTL);
		const uint32_t right = proof;
		proof++;
		assert_int_equal(claim(&m, r, SECOND + 8), FAN_E_RANK_TAKEN);
		proof = right;
		assert_int_equal(claim(&m, r, SECOND + 9), FAN_E_JOB_MISMATCH);
		assert_int_equal(state_of(0), FAN_JOB_READY);
		rig.ag->jobs.job[0].members[1].claim_ns = 0;
	}
	struct fan_join other = rig_join_of("a", 2);
	other.options ^= FAN_JOIN_SUMMED;
	other.launch = 7;
	proof = 0;
	assert_int_equal(claim(&other, 0, SECOND + 10), FAN_E_RANK_TAKEN);
}

/* Until all are there nobody knows who is whose: then it is too late. */
TEST_WITH(claim__while_the_job_forms, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 3);
	proof = 0;
	for (uint16_t r = 0; r < 2; r++) {
		assert_int_equal(rig_join(r, rig_nonce(r), &m), FAN_OK);
		rig_beat(r, rig_nonce(r), 0, 0);
	}
	assert_int_equal(claim(&m, 1, SECOND), FAN_E_RANK_TAKEN);
	assert_int_equal(claim(&m, 1, SECOND + 1), FAN_E_RANK_TAKEN);
	later(1);
	rig_beat(1, rig_nonce(1), 0, 0);
	assert_int_equal(state_of(0), FAN_JOB_FORMING);
	assert_int_equal(rig_join(2, rig_nonce(2), &m), FAN_OK);
	rig_beat(2, rig_nonce(2), 0, 0);
	assert_int_equal(state_of(0), FAN_JOB_FAILED);
	assert_int_equal(rig.ag->jobs.job[0].fault.err, FAN_E_LAUNCHES);
}

/* Ranks of both launches that come just after are refused, others of that name later are not. */
TEST_WITH(claim__holds_the_name, rig_open, rig_close)
{
	claim__both_live(state);
	struct fan_join m = rig_join_of("a", 2);
	proof = 0;
	assert_int_equal(claim(&m, 0, SECOND + 9), FAN_E_LAUNCHES);
	m.launch = 5;
	assert_int_equal(rig_join(0, 77, &m), FAN_OK);
	m.launch = 0;
	later(FAN_CLAIMS_HELD_NS / FAN_MS);
	assert_int_equal(rig_join(0, 78, &m), FAN_OK);
	m = rig_join_of("b", 2);
	assert_int_equal(rig_join(0, 79, &m), FAN_OK);
}

TEST_WITH(claim__long_after_the_beginning, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	const struct fan_join m = rig_join_of("a", 2);
	for (unsigned s = 0; s < FAN_CLAIMS_NS / FAN_MS / 500; s++) {
		later(500);
		rig_beat(0, rig_nonce(0), 0, 0);
		rig_beat(1, rig_nonce(1), 0, 0);
	}
	claims_are_refused(&m, rig_nonce(1));
	assert_int_equal(state_of(0), FAN_JOB_READY);
}

/* Launches that are told apart have jobs of their own, of one name. */
TEST_WITH(claim__launches_that_are_known, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	uint32_t job[2];
	for (unsigned l = 0; l < 2; l++)
		for (uint16_t r = 0; r < 2; r++) {
			m.launch = 2 * l + 1;
			assert_int_equal(rig_join(r, rig_nonce(r) + l, &m), FAN_OK);
			rig_beat(r, rig_nonce(r) + l, 0, 0);
			job[l] = rig.job;
		}
	assert_int_not_equal(job[0], job[1]);
	assert_int_equal(state_of(0), FAN_JOB_READY);
	assert_int_equal(state_of(1), FAN_JOB_READY);
	/* in one launch it is a rank that was started anew */
	claims_are_refused(&m, rig_nonce(1) + 1);
	assert_int_equal(state_of(1), FAN_JOB_READY);
}

/* A launcher's id may be a user's: two launches have it. */
TEST_WITH(claim__launches_of_one_id, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	m.launch = 6;
	for (uint16_t r = 0; r < 2; r++)
		assert_int_equal(rig_join(r, rig_nonce(r), &m), FAN_OK);
	for (uint16_t r = 0; r < 2; r++)
		rig_beat(r, rig_nonce(r), 0, 0);
	proof = 0;
	assert_int_equal(claim(&m, 1, SECOND), FAN_E_RANK_TAKEN);
	assert_int_equal(claim(&m, 1, SECOND + 1), FAN_E_RANK_TAKEN);
	later(1);
	rig_beat(1, rig_nonce(1), 0, 0);
	assert_int_equal(claim(&m, 1, SECOND + 2), FAN_E_LAUNCHES);
	assert_int_equal(claim(&m, 0, SECOND + 3), FAN_E_LAUNCHES); /* which is held for this id */
	m.launch = 8;
	assert_int_equal(rig_join(0, 99, &m), FAN_OK);
}

/* Some ranks of one launch know its id and others do not: they are told so, in either order. */
TEST_WITH(claim__some_know_their_launch, rig_open, rig_close)
{
	for (uint64_t first = 0; first < 2; first++) {
		struct fan_join m = rig_join_of(first ? "a" : "b", 2);
		m.launch = first;
		assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK);
		rig_beat(0, rig_nonce(0), 0, 0);
		m.launch = !first;
		assert_int_equal(rig_join(1, rig_nonce(1), &m), FAN_E_JOB_MISMATCH);
	}
}

UNIT_MAIN

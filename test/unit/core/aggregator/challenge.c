/* SPDX-License-Identifier: Apache-2.0 */
/* challenge.c - places that others have are for who has proved its address.
 *
 * The table has room for 4 jobs.  Hands of the test send one message at a time; rig_join alone
 * answers a challenge. */
#include "unit/core/aggregator_rig.h"

#include <stdio.h>

#define JOBS 4

static fan_peer elsewhere(unsigned n)
{
	return (fan_peer){.addr = {66, n + 1}, .port = 6};
}

/* One more JOIN under an address where nobody answers; true: it was challenged. */
static bool forge(unsigned n, uint16_t rank, const struct fan_join *m)
{
	uint8_t body[RIG_BODY];
	const struct fan_frag f = {
		.nonce = 7000 + n,
		.sender = rank,
		.type = FAN_TYPE_JOIN,
		.payload = body,
		.payload_bytes = fan_ctl_put(body, m),
	};
	assert_int_equal(rig_send(elsewhere(n), &f), FAN_CTL);
	assert_int_equal(rig.gots, 1);
	assert_int_equal(rig_type(0), FAN_TYPE_WELCOME);
	return fan_job_id_is(rig.got[0].f.job, 0);
}

static struct fan_join named(const char *form, unsigned n)
{
	char name[FAN_NAME_MAX];
	snprintf(name, sizeof name, form, n);
	return rig_join_of(name, 2);
}

/* So many places are taken by jobs of nobody. */
static void fill_some(unsigned jobs)
{
	for (unsigned n = 0; n < jobs; n++) {
		const struct fan_join m = named("own-%u", n);
		assert_false(forge(n, 0, &m));
	}
}

static void fill(void)
{
	fill_some(JOBS);
}

static unsigned forming(void)
{
	unsigned jobs = 0;
	for (unsigned i = 0; i < rig.ag->jobs.used; i++)
		jobs += rig.ag->jobs.job[i].state == FAN_JOB_FORMING;
	return jobs;
}

/* Whoever has a place keeps it, sure or not, whatever is forged meanwhile. */
TEST_WITH(challenge__forged_joins_take_no_place, rig_open, rig_close)
{
	const struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK);
	for (unsigned n = 0; n < 1000; n++) {
		const struct fan_join own = named("own-%u", n);
		assert_true(forge(n, 0, &own) == (n >= JOBS - 1));
	}
	assert_int_equal(rig_beat(0, rig_nonce(0), 0, 0), FAN_CTL);
	assert_int_equal(rig_state(0).state, FAN_JOB_FORMING);
	assert_int_equal(fan_aggregator_stats(rig.ag)->challenges, 1000 - (JOBS - 1));
}

/* Neither does a rank of a job that forms. */
TEST_WITH(challenge__a_rank_is_not_taken_by_a_word, rig_open, rig_close)
{
	const struct fan_join m = rig_join_of("a", 2);
	for (uint16_t r = 0; r < 2; r++)
		assert_int_equal(rig_join(r, rig_nonce(r), &m), FAN_OK);
	for (unsigned n = 0; n < 100; n++)
		assert_true(forge(n, n % 2, &m));
	for (uint16_t r = 0; r < 2; r++)
		assert_int_equal(rig_beat(r, rig_nonce(r), 0, 0), FAN_CTL);
	assert_int_equal(rig_state(0).state, FAN_JOB_READY);
}

/* Nor a name under which nobody has answered. */
TEST_WITH(challenge__a_name_is_not_ended_by_a_word, rig_open, rig_close)
{
	const struct fan_join m = rig_join_of("a", 2), more = rig_join_of("a", 3);
	assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK);
	assert_true(forge(0, 0, &more));
	assert_int_equal(rig_beat(0, rig_nonce(0), 0, 0), FAN_CTL);
	assert_int_equal(rig_state(0).ranks, 2);
}

/* Who answers is in, and has its rank for as long as if it had sent a BEAT. */
TEST_WITH(challenge__who_answers_is_in, rig_open, rig_close)
{
	fill();
	const struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
	assert_true(rig_welcomed(0));
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK); /* not before it has answered */
	assert_true(rig_welcomed(0));
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig_join(0, 6, &m), FAN_E_RANK_TAKEN);
	for (unsigned n = 0; n < 10; n++) { /* those that prove more find others to take from */
		const struct fan_join other = named("b%u", n);
		rig_join(1, 100 + n, &other);
	}
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
	assert_false(rig_welcomed(0));
	assert_int_equal(rig_beat(0, 5, 0, 0), FAN_CTL);
	assert_int_equal(rig_state(0).state, FAN_JOB_FORMING);
}

/* One answer is good for one place. */
TEST_WITH(challenge__proof_is_used_up, rig_open, rig_close)
{
	fill();
	struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	fill_some(JOBS - 1);
	m = rig_join_of("b", 2);
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
	assert_true(rig_welcomed(0));
}

/* Nor does it outlive the next JOIN, that finds room without: the same JOIN of the past, which the
 * network has kept, would take the rank of the life that follows.  The answer may come after that
 * JOIN. */
static void proof_is_not_kept(bool answers_late)
{
	const struct fan_join m = rig_join_of("a", 2);
	const uint64_t first = rig_nonce(0), second = first + 1;
	rig_again();
	fill();
	rig_pass(FAN_UNSURE_NS * 9 / 10);
	assert_int_equal(rig_ask(0, first, &m), FAN_OK);
	assert_true(rig_welcomed(0));
	const struct rig challenged = rig;
	if (!answers_late)
		assert_int_equal(rig_beat(0, first, 0, 0), FAN_DROP);
	rig_pass(FAN_UNSURE_NS / 2);
	assert_int_equal(forming(), 0); /* there is room now */
	assert_int_equal(rig_ask(0, first, &m), FAN_OK);
	assert_false(rig_welcomed(0));
	const struct rig in = rig;
	if (answers_late) {
		rig.job = challenged.job;
		rig.epoch = challenged.epoch;
		rig.cookie[0] = challenged.cookie[0];
		assert_int_equal(rig_beat(0, first, 0, 0), FAN_DROP);
		rig.job = in.job;
		rig.epoch = in.epoch;
	}
	assert_int_equal(rig_leave(0, FAN_OK), FAN_CTL);
	assert_int_equal(forming(), 0);
	assert_int_equal(rig_ask(0, second, &m), FAN_OK);
	assert_false(rig_welcomed(0));
	assert_int_equal(rig_ask(0, first, &m), FAN_OK); /* of the past */
	assert_true(rig_welcomed(0));
	assert_int_equal(rig_ask(0, second, &m), FAN_OK);
	assert_false(rig_welcomed(0));
}

TEST_WITH(challenge__proof_is_of_the_next_join, rig_open, rig_close)
{
	proof_is_not_kept(false);
	proof_is_not_kept(true);
}

/* Challenge rank 0; its BEAT, as changed by `change`, which draws STATE NONE in any case. */
static bool is_proved_by(void (*change)(struct fan_frag *f, fan_peer *from), uint64_t late_ns)
{
	uint8_t body[RIG_BODY];
	const struct fan_join m = rig_join_of("a", 2);
	rig_again();
	rig.job = rig.epoch = 0;
	fill();
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
	assert_true(rig_welcomed(0));
	const struct fan_beat beat = {.cookie = rig.cookie[0]};
	struct fan_frag f = rig_control(FAN_TYPE_BEAT, 0, 5, body, fan_ctl_put(body, &beat));
	fan_peer from = rig_peer(0);
	if (change)
		change(&f, &from);
	rig.now_ns += late_ns;
	assert_int_equal(rig_send(from, &f), FAN_DROP);
	assert_int_equal(rig_state(0).state, FAN_JOB_NONE);
	fill();
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
	return !rig_welcomed(0);
}

static void other_nonce(struct fan_frag *f, fan_peer *from)
{
	(void)from;
	f->nonce++;
}

static void other_rank(struct fan_frag *f, fan_peer *from)
{
	(void)from;
	f->sender++;
}

static void other_epoch(struct fan_frag *f, fan_peer *from)
{
	(void)from;
	f->epoch--;
}

static void other_port(struct fan_frag *f, fan_peer *from)
{
	(void)f;
	from->port++;
}

static void other_host(struct fan_frag *f, fan_peer *from)
{
	(void)f;
	from->addr[1]++;
}

/* The cookie is of one life of one rank, from one address, for two seconds at most. */
TEST_WITH(challenge__cookie_is_of_one, rig_open, rig_close)
{
	assert_true(is_proved_by(NULL, 0));
	assert_true(is_proved_by(NULL, FAN_UNSURE_NS));
	assert_false(is_proved_by(NULL, 2 * FAN_UNSURE_NS));
	assert_false(is_proved_by(other_nonce, 0));
	assert_false(is_proved_by(other_rank, 0));
	assert_false(is_proved_by(other_epoch, 0));
	assert_false(is_proved_by(other_port, 0));
	assert_false(is_proved_by(other_host, 0));
}

/* A proof is worth nothing after a second. */
TEST_WITH(challenge__proof_grows_old, rig_open, rig_close)
{
	const struct fan_join m = rig_join_of("a", 2);
	for (unsigned late = 0; late < 2; late++) {
		rig_again();
		fill();
		assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
		assert_true(rig_welcomed(0));
		assert_int_equal(rig_beat(0, 5, 0, 0), FAN_DROP);
		rig.at_once = true;
		rig.now_ns += FAN_UNSURE_NS + late;
		assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
		assert_true(rig_welcomed(0) == (late > 0));
	}
}

/* One host that proves as much as it can keeps as many proofs as a row has places, and one of
 * another row keeps its own. */
TEST_WITH(challenge__a_host_has_one_row, rig_open, rig_close)
{
	unsigned kept = 0;
	rig.cfg.secret.k[0] = 71; /* under which the two hosts have different rows */
	rig_again();
	fill();
	const struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
	assert_true(rig_welcomed(0));
	assert_int_equal(rig_beat(0, 5, 0, 0), FAN_DROP);
	for (unsigned n = 0; n < 200; n++) {
		const struct fan_join own = rig_join_of("mallory", 256);
		assert_int_equal(rig_ask(1, 100 + n, &own), FAN_OK);
		assert_true(rig_welcomed(1));
		assert_int_equal(rig_beat(1, 100 + n, 0, 0), FAN_DROP);
	}
	for (unsigned i = 0; i < FAN_PROOF_ROWS; i++)
		for (unsigned k = 0; k < FAN_PROOFS_IN_ROW; k++)
			kept += rig.ag->proofs[i][k].ns != 0;
	assert_int_equal(kept, FAN_PROOFS_IN_ROW + 1);
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
	assert_false(rig_welcomed(0));
}

/* A job with room for no more workers is not that there is no room for jobs: nobody gives way. */
TEST_WITH(challenge__too_many_workers_end_nobody, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	m.workers = FAN_WORKERS_MAX;
	fill();
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(forming(), 1); /* all of nobody gave way */
	fill_some(JOBS - 1);
	assert_int_equal(rig_join(1, 6, &m), FAN_E_MEMBERS_FULL);
	assert_int_equal(forming(), JOBS);
}

/* Where JOINs are authenticated, who comes is in. */
TEST_WITH(challenge__none_where_joins_are_authentic, rig_open, rig_close)
{
	rig.cfg.authentic = true;
	rig_again();
	fill();
	const struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_ask(0, 5, &m), FAN_OK);
	assert_false(rig_welcomed(0));
	assert_int_equal(fan_aggregator_stats(rig.ag)->challenges, 0);
}

/* What a rank behind a switch says, in an envelope; the answer in its own. */
static struct fan_frag via(const fan_peer *below, const struct fan_frag *f)
{
	struct fan_envelope v;
	rig_via(*below, 3, *f, f->payload, f->payload_bytes);
	struct fan_frag inner = rig_inside(0, *below, &v);
	assert_int_equal(v.token, 3);
	return inner;
}

/* A rank behind a switch, on a route, is challenged as well, and the answer goes back by it. */
TEST_WITH(challenge__behind_a_switch, rig_open, rig_close)
{
	static const fan_peer below = {.addr = {7, 7}, .port = 8};
	uint8_t body[RIG_BODY];
	const struct fan_join m = rig_join_of("a", 2);
	struct fan_welcome w;
	fill();
	rig.job = 9u << FAN_ROUTE_BITS;
	const struct fan_frag join = rig_control(FAN_TYPE_JOIN, 0, 5, body, fan_ctl_put(body, &m));
	struct fan_frag f = via(&below, &join);
	assert_int_equal(f.job, 9u << FAN_ROUTE_BITS);
	assert_int_equal(fan_ctl_get(&w, &f), FAN_OK);
	uint8_t more[RIG_BODY];
	const struct fan_beat beat = {.cookie = w.cookie};
	rig.epoch = f.epoch;
	f = rig_control(FAN_TYPE_BEAT, 0, 5, more, fan_ctl_put(more, &beat));
	assert_int_equal(via(&below, &f).type, FAN_TYPE_STATE);
	f = via(&below, &join);
	assert_int_equal(f.type, FAN_TYPE_WELCOME);
	assert_false(fan_job_id_is(f.job, 0));
	assert_int_equal(fan_route_number(f.job), 9);
}

/* So many messages, each from an address of its own; how many are answered. */
static unsigned answers(enum fan_type type, unsigned messages)
{
	const struct fan_join own = named("more-%u", 0);
	uint8_t body[RIG_BODY];
	unsigned answered = 0;
	memset(body, 0, sizeof body);
	for (unsigned n = 0; n < messages; n++) {
		const struct fan_frag f = {
			.job = type == FAN_TYPE_JOIN ? 0 : 0x7777,
			.epoch = type == FAN_TYPE_JOIN ? 0 : 5,
			.nonce = type * 10000u + n + 1,
			.sender = 0,
			.type = (uint8_t)type,
			.payload = body,
			.payload_bytes =
				type == FAN_TYPE_JOIN ? fan_ctl_put(body, &own) : FAN_CTL_UP_MIN,
		};
		rig_send(elsewhere(100 + n), &f);
		answered += rig.gots;
	}
	return answered;
}

/* Answers to those who have proved nothing are few; those who ask again have some of their own;
 * members, and who proves its address, have theirs all the same, and the next millisecond has
 * answers again. */
TEST_WITH(challenge__a_flood_draws_few_answers, rig_open, rig_close)
{
	static const enum fan_type types[] = {FAN_TYPE_JOIN, FAN_TYPE_BEAT, FAN_TYPE_LEAVE};
	const struct fan_join m = rig_join_of("a", 2), b = rig_join_of("b", 2);
	assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK);
	const uint32_t job = rig.job, epoch = rig.epoch;
	fill_some(JOBS - 1);
	assert_int_equal(rig_ask(1, 5, &b), FAN_OK);
	assert_true(rig_welcomed(1));
	rig.at_once = true;
	assert_in_range(answers(FAN_TYPE_JOIN, 2 * FAN_STRANGERS_BURST),
			FAN_STRANGERS_BURST - 2 * JOBS, FAN_STRANGERS_BURST + FAN_STRANGERS_AGAIN);
	for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
		rig.now_ns += FAN_MS;
		assert_int_equal(answers(types[i], 100), FAN_STRANGERS_MAX);
		rig.now_ns += FAN_MS;
		assert_int_equal(answers(types[i], 100), FAN_STRANGERS_MAX + FAN_STRANGERS_AGAIN);
	}
	rig_beat(1, 5, 0, 0); /* the proof */
	assert_int_equal(rig.gots, 1);
	rig.job = job;
	rig.epoch = epoch;
	assert_int_equal(rig_beat(0, rig_nonce(0), 0, 0), FAN_CTL);
	assert_int_equal(rig.gots, 1);
}

UNIT_MAIN

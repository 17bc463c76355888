/* SPDX-License-Identifier: Apache-2.0 */
/* Two launches of one job name at an aggregator. */
#include "unit/core/aggregator_rig.h"

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
	struct fan_frag f = rig_control(FAN_TYPE_JOIN, rank, nonce, body, fan_join_put(body, &m));
	assert_int_equal(rig_send(rig_peer(OTHER_HOST), &f), FAN_CTL);
	assert_true(rig.gots > 0);
	assert_int_equal(rig_type(rig.gots - 1), FAN_TYPE_REFUSE);
	assert_int_equal(fan_refuse_get(&no, &rig.got[rig.gots - 1].f), FAN_OK);
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

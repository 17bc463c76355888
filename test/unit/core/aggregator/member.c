/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/aggregator_rig.h"

static struct fan_join named(unsigned n, uint16_t ranks, unsigned options, uint16_t window)
{
	char name[16] = {'j', (char)('a' + n)};
	struct fan_join m = rig_join_of(name, ranks);
	m.options = (uint8_t)options;
	m.window = window;
	return m;
}

TEST_WITH(member__same_nonce_is_welcomed_again, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	uint32_t job = rig.job;
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.job, job);
	assert_int_equal(rig.ag->jobs.job[0].in, 1);
}

/* What proves an address on one path proves none on another, nor for another rank. */
TEST_WITH(member__a_cookie_is_of_one_path, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig_join(1, 5, &m), FAN_OK);
	const struct fan_job *j = &rig.ag->jobs.job[0];
	const fan_peer here = rig_peer(0), there = rig_peer(1);
	const uint64_t c = fan_jobs_cookie(&rig.ag->jobs, j, 0, 0, &here);
	assert_int_equal(rig.cookie[0], c);
	assert_true(c != fan_jobs_cookie(&rig.ag->jobs, j, 0, 1, &here));
	assert_true(c != fan_jobs_cookie(&rig.ag->jobs, j, 1, 0, &here));
	assert_true(c != fan_jobs_cookie(&rig.ag->jobs, j, 0, 0, &there));
}

TEST_WITH(member__rank_taken_once_it_has_answered, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	rig_beat(0, 5, 0, 0);
	assert_int_equal(rig_join(0, 6, &m), FAN_E_RANK_TAKEN);
}

/* A JOIN that was late on its way must not keep the living out. */
TEST_WITH(member__ghost_gives_way, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK); /* nobody sends BEATs for it */
	assert_int_equal(rig_join(1, 7, &m), FAN_OK);
	assert_int_equal(rig.ag->jobs.job[0].state, FAN_JOB_FORMING);
	rig_beat(1, 7, 0, 0);
	assert_int_equal(rig_state(0).missing[0], 1);
	assert_int_equal(rig_join(0, 6, &m), FAN_OK);
	assert_int_equal(rig.ag->jobs.job[0].in, 2);
	const struct fan_beat none = {.flags = 0}; /* the one that was displaced learns of it */
	uint8_t body[RIG_BODY];
	struct fan_frag f = rig_control(FAN_TYPE_BEAT, 0, 5, body, fan_ctl_put(body, &none));
	rig_send(rig_peer(9), &f);
	assert_int_equal(rig_state(0).state, FAN_JOB_NONE);
	const uint32_t told = rig.epoch; /* to it, too */
	rig_beat(0, 6, 0, 0);
	assert_int_equal(rig_state(0).state, FAN_JOB_NONE);
	assert_int_equal(rig_join(0, 99, &m), FAN_E_RANK_TAKEN); /* their ranks stay theirs */
	assert_int_equal(rig_join(0, 6, &m), FAN_OK);
	assert_int_not_equal(rig.epoch, told);
	rig_beat(0, 6, 0, 0);
	assert_int_equal(rig_join(1, 7, &m), FAN_OK);
	rig_beat(1, 7, 0, 0);
	assert_int_equal(rig_state(0).state, FAN_JOB_READY);
}

TEST_WITH(member__ready_job_is_closed, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_join(1, 99, &m), FAN_E_RANK_TAKEN);
}

/* Ranks that have left may begin the next job of the name before all have left. */
TEST_WITH(member__name_is_free_when_a_rank_has_left, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	uint32_t first = rig.job;
	assert_int_equal(rig_leave(0, FAN_OK), FAN_CTL);
	struct fan_join m = rig_join_of("a", 2);
	assert_int_equal(rig_join(0, 55, &m), FAN_OK);
	assert_int_not_equal(rig.job, first);
	assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK); /* a late one of the first */
	assert_int_equal(rig.job, first);
}

TEST_WITH(member__ranks_disagree_about_the_job, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 3);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	rig_beat(0, 5, 0, 0);
	m.ranks = 2;
	assert_int_equal(rig_join(1, 6, &m), FAN_E_JOB_MISMATCH);
	m = rig_join_of("a", 3);
	m.payload_bytes = 72;
	assert_int_equal(rig_join(1, 6, &m), FAN_E_JOB_MISMATCH);
	m = rig_join_of("a", 3);
	m.options = FAN_JOIN_SUMMED;
	assert_int_equal(rig_join(1, 6, &m), FAN_E_JOB_MISMATCH);
	m = rig_join_of("a", 3);
	m.window = 3; /* the job has 4 */
	assert_int_equal(rig_join(1, 6, &m), FAN_E_JOB_MISMATCH);
	m.window = 4;
	m.options = FAN_JOIN_GROUP; /* need not agree */
	assert_int_equal(rig_join(1, 6, &m), FAN_OK);
	assert_int_equal(rig_join(3, 6, &m), FAN_E_INVALID);
}

TEST_WITH(member__full, rig_open, rig_close)
{
	struct fan_join m;
	for (unsigned i = 0; i < 4; i++) {
		m = named(i, 2, 0, 0);
		assert_int_equal(rig_join(0, 5, &m), FAN_OK);
		rig_beat(0, 5, 0, 0);
	}
	m = named(4, 2, 0, 0);
	assert_int_equal(rig_join(0, 5, &m), FAN_E_JOBS_FULL);
	rig_again();
	m = named(0, 31, 0, 0);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	rig_beat(0, 5, 0, 0);
	m = named(1, 2, 0, 0);
	assert_int_equal(rig_join(0, 5, &m), FAN_E_MEMBERS_FULL);
	m.payload_bytes = 136;
	assert_int_equal(rig_join(0, 5, &m), FAN_E_PAYLOAD);
	rig.cfg.slots = 6;
	rig_again();
	m = named(0, 2, 0, 0);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 4);
	rig_beat(0, 5, 0, 0);
	m = named(1, 2, 0, 0);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 2); /* less rather than none */
	rig_beat(0, 5, 0, 0);
	m = named(2, 2, 0, 0);
	assert_int_equal(rig_join(0, 5, &m), FAN_E_SLOTS_FULL);
}

TEST_WITH(member__window, rig_open, rig_close)
{
	rig.cfg.window_max = 32;
	rig.cfg.slots = 256;
	rig_again();
	struct fan_join m = named(0, 2, 0, 8);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 8); /* as asked */
	m = named(1, 2, 0, 0);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 32); /* the quota */
	rig.cfg.rx_bytes = 2 * 10 * (RIG_PAYLOAD + FAN_HEAD_BYTES);
	rig_again();
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 10); /* what the receive queue holds */
	rig.cfg.rx_queues = 2;
	rig_again();
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 20); /* each rank has one */
	m = named(1, 3, 0, 0);
	rig_again();
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 10); /* two of three ranks share one */
	m = named(1, 2, 0, 0);
	rig.cfg.rx_queues = 0;
	rig.cfg.rx_bytes = 10;
	rig_again();
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 2); /* the least that works */
}

/* The slots of a failed job are free at once, wherever they lay. */
TEST_WITH(member__failed_job_holds_no_slots, rig_open, rig_close)
{
	rig.cfg.slots = 8;
	rig.cfg.greedy = true;
	rig_again();
	struct fan_join m = named(0, 2, 0, 0);
	assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK); /* slots 0..3 */
	rig_beat(0, rig_nonce(0), 0, 0);
	const uint32_t first = rig.job, epoch = rig.epoch;
	rig_form("z", 2, 0); /* slots 4..7 */
	assert_int_equal(rig_leave(0, FAN_E_STALLED), FAN_CTL);
	rig.job = first;
	rig.epoch = epoch;
	assert_int_equal(rig_leave(0, FAN_OK), FAN_CTL);
	m = named(1, 2, FAN_JOIN_WIDE, 4); /* all eight */
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	assert_int_equal(rig.window, 4);
}

/* Where runs of two slots are free, of three that are wanted a job gets two: nobody takes a WELCOME
 * of one. */
TEST_WITH(member__no_window_of_one, rig_open, rig_close)
{
	rig.cfg.slots = 7;
	rig.cfg.greedy = true;
	rig_again();
	struct fan_join m = named(0, 2, 0, 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK); /* slots 0 and 1 */
	rig_beat(0, 5, 0, 0);
	const uint32_t first = rig.job, epoch = rig.epoch;
	m = named(1, 2, 0, 3);
	assert_int_equal(rig_join(0, 6, &m), FAN_OK); /* slots 2 to 4 */
	rig_beat(0, 6, 0, 0);
	assert_int_equal(rig.window, 3);
	uint8_t body[RIG_BODY];
	const struct fan_leave bye = {.err = FAN_OK};
	rig.job = first;
	rig.epoch = epoch;
	assert_int_equal(rig_ctl(FAN_TYPE_LEAVE, 0, 5, body, fan_ctl_put(body, &bye)), FAN_CTL);
	m = named(2, 2, 0, 3);
	assert_int_equal(rig_join(0, 7, &m), FAN_OK);
	assert_int_equal(rig.window, 2);
}

static void overlap(const struct fan_jobs *t)
{
	for (unsigned a = 0; a < t->used; a++) {
		const struct fan_job *j = &t->job[a];
		if (j->state == FAN_JOB_NONE)
			continue;
		assert_true(j->pool.base + j->pool.units <= t->slots.units || !j->pool.units);
		assert_true(j->member_base + j->ranks <= t->members_max);
		for (unsigned b = 0; b < a; b++) {
			const struct fan_job *o = &t->job[b];
			if (o->state == FAN_JOB_NONE)
				continue;
			assert_true(!j->pool.units || !o->pool.units ||
				    j->pool.base + j->pool.units <= o->pool.base ||
				    o->pool.base + o->pool.units <= j->pool.base);
			assert_true(j->member_base + j->ranks <= o->member_base ||
				    o->member_base + o->ranks <= j->member_base);
		}
	}
}

/* Jobs come, go and fail in any order: no slot or member has two owners. */
TEST_WITH(member__churn, rig_open, rig_close)
{
	struct fan_rng r = test_rng();
	static uint8_t body[RIG_BODY];
	rig.cfg.jobs_max = 12;
	rig.cfg.window_max = 16;
	rig_again();
	unsigned joined = 0, refused = 0;
	for (unsigned n = 0; n < 30000; n++) {
		unsigned i = (unsigned)fan_rng_below(&r, 12);
		const struct fan_job *j = &rig.ag->jobs.job[i];
		const bool is = i < rig.ag->jobs.used && j->state != FAN_JOB_NONE;
		if (is && fan_rng_below(&r, 2)) {
			struct fan_leave bye = {.err = FAN_OK};
			uint64_t nonce = j->members[0].nonce;
			bye.err = fan_rng_below(&r, 2) ? FAN_OK : FAN_E_STALLED;
			rig.job = j->id;
			rig.epoch = j->epoch;
			rig_ctl(FAN_TYPE_LEAVE, (uint16_t)fan_rng_below(&r, 2), nonce, body,
				fan_ctl_put(body, &bye));
		} else {
			unsigned name = (unsigned)fan_rng_below(&r, 20);
			/* a life is in one job, and always asks for the same */
			const uint64_t nonce = 10 * name, life = nonce + 1 + fan_rng_below(&r, 6);
			struct fan_join m = named(name, (uint16_t)(2 + name % 5), name % 8,
						  (uint16_t)(life % 2 * 8));
			uint16_t rank = (uint16_t)fan_rng_below(&r, 2);
			int err = rig_join(rank, life, &m);
			joined += err == FAN_OK;
			refused += err == FAN_E_SLOTS_FULL || err == FAN_E_MEMBERS_FULL;
			if (err == FAN_OK)
				rig_beat(rank, nonce + fan_rng_below(&r, 6), 0, 0);
		}
		overlap(&rig.ag->jobs);
	}
	assert_true(joined > 1000 && refused > 100);
}

TEST_WITH(member__names_are_compared_whole, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("ab", 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	uint32_t job = rig.job;
	m = rig_join_of("a", 2);
	assert_int_equal(rig_join(1, 5, &m), FAN_OK);
	assert_int_not_equal(rig.job, job);
	memset(m.name, 'x', FAN_NAME_MAX);
	m.name_bytes = FAN_NAME_MAX;
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	job = rig.job;
	assert_int_equal(rig_join(1, 5, &m), FAN_OK);
	assert_int_equal(rig.job, job);
}

static enum fan_verdict join_unanswered_of(uint16_t rank, uint64_t nonce, const char *name,
					   uint16_t ranks)
{
	uint8_t body[RIG_BODY];
	const struct fan_join m = rig_join_of(name, ranks);
	enum fan_verdict v = rig_ctl(FAN_TYPE_JOIN, rank, nonce, body, fan_ctl_put(body, &m));
	assert_int_equal(rig.gots, 0);
	return v;
}

static enum fan_verdict join_unanswered(uint16_t rank, uint64_t nonce, const char *name)
{
	return join_unanswered_of(rank, nonce, name, 2);
}

/* Whose process ends: its jobs are awaited, nobody else comes, strangers hold up nothing. */
TEST_WITH(member__nobody_joins_what_drains, rig_open, rig_close)
{
	const struct fan_join early = rig_join_of("early", 2);
	const struct fan_drain own = {.count = 1, .head = {"own"}}, all = {.count = 0};
	assert_int_equal(rig_join(0, 77, &early), FAN_OK);
	rig_form("stranger", 2, 0);
	rig_form("own/c1", 2, 0);
	fan_aggregator_drain(rig.ag, rig.now_ns, &all);
	assert_int_equal(fan_aggregator_undrained(rig.ag),
			 2); /* one that forms never will be ready */
	fan_aggregator_drain(rig.ag, rig.now_ns, &own);
	assert_int_equal(fan_aggregator_undrained(rig.ag), 1);
	assert_int_equal(join_unanswered(0, 78, "another"), FAN_DROP);
	assert_int_equal(join_unanswered(1, 78, "early"),
			 FAN_DROP); /* not refused: it tries again */
	assert_int_equal(join_unanswered(1, 78, "own/c1"), FAN_DROP);
	rig_leave(0, FAN_OK); /* of own/c1, the last one that formed */
	assert_int_equal(fan_aggregator_undrained(rig.ag), 1);
	rig_leave(1, FAN_OK);
	assert_int_equal(fan_aggregator_undrained(rig.ag), 0);
	assert_int_equal(rig_ask(0, 77, &early), FAN_OK); /* who is in has lost its WELCOME, say */
}

/* What would be refused comes too early for the next one; members are told as ever. */
TEST_WITH(member__nobody_is_refused_by_what_drains, rig_open, rig_close)
{
	const struct fan_drain all = {.count = 0};
	const struct fan_join own = rig_join_of("own", 3);
	rig_form("own", 3, 0);
	fan_aggregator_drain(rig.ag, rig.now_ns, &all);
	assert_int_equal(join_unanswered(2, 78, "own"), FAN_DROP);	   /* JOB_MISMATCH */
	assert_int_equal(join_unanswered_of(1, 78, "own", 3), FAN_DROP);   /* RANK_TAKEN */
	assert_int_equal(join_unanswered_of(3, 78, "other", 3), FAN_DROP); /* INVALID */
	assert_int_equal(rig_ask(1, rig_nonce(1), &own), FAN_OK);
	rig_leave(0, FAN_E_NOMEM); /* so the job has failed */
	assert_int_equal(rig_ask(1, rig_nonce(1), &own), FAN_E_NOMEM);
	assert_int_equal(join_unanswered_of(0, 78, "own", 3), FAN_DROP); /* its name is not free */
}

UNIT_MAIN

/* SPDX-License-Identifier: Apache-2.0 */
/* stranger.c - what somebody who sees no packet of a job can do to it: nothing.
 *
 * The victim is the job "victim", whose id and epoch stand in `secret`. */
#include "unit/core/aggregator_rig.h"

static struct {
	uint32_t job, epoch;
} secret;

static fan_peer elsewhere(unsigned n)
{
	return (fan_peer){.addr = {66, n + 1}, .port = 6};
}

static void form_victim(void)
{
	rig_form("victim", 2, 0);
	secret.job = rig.job;
	secret.epoch = rig.epoch;
}

/* A contribution with the address of rank 0, and with an id and epoch that the stranger guesses. */
static enum fan_verdict forge(uint32_t job, uint32_t epoch)
{
	static const int32_t value = 666;
	struct fan_frag f = rig_data(0, 0, &value);
	f.job = job;
	f.epoch = epoch;
	return rig_send(rig_peer(0), &f);
}

/* Jobs of one's own tell nothing of the ids and epochs of others: neither the one before nor any
 * near it. */
static void stranger__own_jobs_tell_no_epoch(void **state)
{
	(void)state;
	form_victim();
	rig.job = rig.epoch = 0;
	struct fan_join m = rig_join_of("own", 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	for (uint32_t n = 0; n < 1000; n++) {
		assert_int_equal(forge(secret.job, rig.epoch - n), FAN_DROP);
		assert_int_equal(forge(secret.job, rig.epoch + n), FAN_DROP);
	}
	assert_int_equal(forge(rig.job - 1 - 0x100, secret.epoch), FAN_DROP);
	assert_int_equal(forge(secret.job, secret.epoch), FAN_WAIT); /* who knows both is a rank */
}

/* Not even with all ids of the table and the epoch of the next life of each. */
static void stranger__lives_have_nothing_in_common(void **state)
{
	(void)state;
	uint32_t before = 0;
	for (unsigned n = 0; n < 300; n++) {
		struct fan_join m = rig_join_of("own", 2);
		assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK);
		assert_true((rig.job >> 8 & 0xff) != 0);
		assert_not_in_range(rig.epoch - before + 1000, 0, 2000);
		before = rig.epoch;
		rig_leave(0, FAN_OK);
	}
}

/* A BEAT with the address of a member and another nonce, to which the answer would go to that
 * member: none. */
static void stranger__beat_with_another_nonce(void **state)
{
	(void)state;
	form_victim();
	assert_int_equal(rig_beat(0, 12345, 7, 0), FAN_DROP);
	assert_int_equal(fan_aggregator_last_drop(rig.ag), FAN_DROP_SENDER);
	assert_int_equal(rig.gots, 0);
	assert_int_equal(rig_beat(0, 0, 7, 0), FAN_DROP); /* nobody's */
	assert_int_equal(fan_aggregator_last_drop(rig.ag), FAN_DROP_FORMAT);
	assert_int_equal(rig.gots, 0);
}

static void query(fan_peer from, struct fan_report *m)
{
	uint8_t body[FAN_REPORT_BYTES];
	const struct fan_query q = {.index = 0};
	struct fan_frag f =
		rig_control(FAN_TYPE_QUERY, FAN_RANK_NONE, 7, body, fan_query_put(body, &q));
	f.job = f.epoch = 0;
	f.topic = FAN_TOPIC_JOB;
	assert_int_equal(rig_send(from, &f), FAN_CTL);
	assert_int_equal(fan_report_get(m, &rig.got[0].f), FAN_OK);
}

static void stranger__query_tells_no_open_fragment(void **state)
{
	(void)state;
	struct fan_report m;
	const fan_peer local = {.addr = {0, UINT64_C(1) << 56}, .port = 5}; /* ::1 */
	form_victim();
	for (uint64_t n = 0; n < 1030; n++) {
		rig_add(0, n, 1);
		rig_add(1, n, 1);
	}
	rig_add(0, 1030, 1);
	query(elsewhere(0), &m);
	assert_int_equal(m.waiting, 1);
	assert_true(m.oldest == UINT64_MAX);
	assert_int_equal(m.results, 1024);
	query((fan_peer){.addr = {1, 1}, .port = 1234}, &m); /* the host of rank 0 */
	assert_int_equal(m.oldest, 1030);
	assert_int_equal(m.results, 1030);
	query(local, &m);
	assert_int_equal(m.oldest, 1030);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(stranger__own_jobs_tell_no_epoch),
		RIG_TEST(stranger__lives_have_nothing_in_common),
		RIG_TEST(stranger__beat_with_another_nonce),
		RIG_TEST(stranger__query_tells_no_open_fragment),
	};
	return RUN(tests);
}

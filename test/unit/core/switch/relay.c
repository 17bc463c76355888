/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/switch_rig.h"

TEST_WITH(relay__tokens_stand_for_children, bed_open, NULL)
{
	uint16_t a = bed_join(2, 0, "a"), b = bed_join(2, 1, "a");
	assert_int_not_equal(a, b);
	assert_int_equal(bed_join(2, 0, "a"), a); /* again: the same */
	assert_int_equal(bed_welcome(2, 1, b, 1), FAN_CTL);
	fan_peer to = bed_worker(2, 1);
	assert_int_equal(bed.gots, 1);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_WELCOME);
	assert_true(fan_peer_equal(&bed.got[0].peer, &to));
	assert_int_equal(bed_welcome(2, 1, 9999, 1), FAN_DROP); /* nobody's */
}

/* An answer to an earlier life of the token's child installs nothing. */
TEST_WITH(relay__answers_for_others_are_dropped, bed_open, NULL)
{
	uint16_t a = bed_join(2, 0, "a");
	assert_int_equal(bed_welcome(2, 1, a, 1), FAN_DROP);
	assert_int_equal(bed_add(2, 0, 0, 1, 0, 0), FAN_DROP);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_WHO);
}

TEST_WITH(relay__shards_must_be_as_many, bed_open, NULL)
{
	struct fan_refuse no;
	bed.cfg.shards = 2;
	bed_begin();
	uint16_t a = bed_join(0, 0, "a");
	assert_int_equal(bed_welcome(0, 0, a, 3), FAN_CTL);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_REFUSE);
	assert_int_equal(bed.got[0].f.nonce, 1);
	assert_int_equal(fan_ctl_get(&no, &bed.got[0].f), FAN_OK);
	assert_int_equal(no.err, FAN_E_SHARDS);
	assert_int_equal(no.have, 2);
	assert_int_equal(no.want, 3);
	assert_int_equal(bed_welcome(0, 0, a, 2), FAN_CTL);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_WELCOME);
}

TEST_WITH(relay__who_has_left_is_forgotten, bed_open, NULL)
{
	struct fan_switch_report before, after;
	fan_switch_report(bed.sw, &before);
	for (uint16_t r = 0; r < BED_RANKS; r++) {
		uint16_t token = bed_beat(0, r);
		struct fan_state m;
		assert_int_equal(bed_left(0, r, token), FAN_CTL);
		fan_peer to = bed_worker(0, r);
		assert_int_equal(bed.got[0].f.type, FAN_TYPE_STATE);
		assert_int_equal(fan_ctl_get(&m, &bed.got[0].f), FAN_OK);
		assert_int_equal(m.state, FAN_JOB_LEFT);
		assert_true(fan_peer_equal(&bed.got[0].peer, &to));
	}
	fan_switch_report(bed.sw, &after);
	assert_int_equal(after.children, before.children - BED_RANKS);
	assert_int_equal(after.jobs, before.jobs - 1);
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_DROP);
	assert_int_equal(bed_add(1, 0, 0, 1, 0, 0), FAN_WAIT); /* the other job goes on */
}

/* No child may speak for a rank that another one has. */
TEST_WITH(relay__ranks_of_others, bed_open, NULL)
{
	uint8_t body[64];
	const struct fan_beat m = {.flags = 0};
	size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = bed_frag(FAN_TYPE_BEAT, bed_job(0), 0, 1);
	assert_int_equal(bed_give(bed_worker(1, 0), &f, body, bytes), FAN_DROP);
	assert_int_equal(bed.gots, 0);
}

TEST_WITH(relay__table_is_full, bed_open, NULL)
{
	struct fan_refuse no;
	bed.cfg.children_max = 2;
	bed_begin();
	for (uint16_t r = 0; r < 2; r++) { /* sure ones give way to nobody */
		uint16_t token = bed_beat(0, r);
		assert_int_equal(bed_state(0, r, token), FAN_CTL);
	}
	uint8_t body[256];
	struct fan_join m = {.ranks = BED_RANKS, .payload_bytes = 64, .alive_ms = 1000};
	m.name_bytes = 1;
	m.name[0] = 'a';
	size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = {.nonce = 77, .sender = 2, .type = FAN_TYPE_JOIN};
	assert_int_equal(bed_give(bed_worker(0, 2), &f, body, bytes), FAN_CTL);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_REFUSE);
	assert_int_equal(bed.got[0].f.nonce, 77);
	assert_int_equal(fan_ctl_get(&no, &bed.got[0].f), FAN_OK);
	assert_int_equal(no.err, FAN_E_MEMBERS_FULL);
	assert_int_equal(no.have, 2);
}

/* Children that are sure are told under their nonces, again and again; who joins is refused. */
TEST_WITH(relay__stops, bed_open, NULL)
{
	uint8_t body[256], scratch[FAN_SWITCH_OUT_MAX * 256], packet[512];
	struct fan_out_item item[FAN_SWITCH_OUT_MAX];
	struct fan_out out;
	bed_begin();
	for (uint16_t r = 0; r < 2; r++) {
		uint16_t token = bed_beat(0, r);
		assert_int_equal(bed_state(0, r, token), FAN_CTL);
	}
	bed_beat(0, 2);
	fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
	fan_switch_tell(bed.sw, bed.now_ns, &out);
	assert_int_equal(out.count, 0);
	fan_switch_goodbye(bed.sw, bed.now_ns);
	for (unsigned turn = 0; turn < 2; turn++) {
		assert_true(fan_switch_deadline(bed.sw) <= bed.now_ns);
		fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
		fan_switch_tell(bed.sw, bed.now_ns, &out);
		assert_int_equal(out.count, 2);
		for (unsigned r = 0; r < 2; r++) {
			const fan_peer at = bed_worker(0, r);
			struct fan_frag f;
			struct fan_state s;
			fan_out_item_copy(&item[r], packet);
			assert_int_equal(fan_wire_get(&f, packet, fan_out_item_bytes(&item[r])),
					 -1);
			assert_int_equal(fan_ctl_get(&s, &f), FAN_OK);
			assert_true(fan_peer_equal(&item[r].peer, &at));
			assert_int_equal(s.state, FAN_JOB_AWAY);
			assert_int_equal(f.nonce, 1 + r);
			assert_int_equal(f.job, bed_job(0));
		}
		bed.now_ns += FAN_STOP_TELL_NS;
	}
	struct fan_refuse no;
	struct fan_join m = {.ranks = BED_RANKS, .payload_bytes = 64, .alive_ms = 1000};
	m.name_bytes = 1;
	m.name[0] = 'a';
	struct fan_frag f = {.nonce = 77, .sender = 3, .type = FAN_TYPE_JOIN};
	assert_int_equal(bed_give(bed_worker(0, 3), &f, body, fan_ctl_put(body, &m)), FAN_CTL);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_REFUSE);
	assert_int_equal(fan_ctl_get(&no, &bed.got[0].f), FAN_OK);
	assert_int_equal(no.err, FAN_E_STOPPED);
	f.path = 1; /* of a life that may be known: as before */
	assert_int_equal(bed_give(bed_worker(0, 3), &f, body, fan_ctl_put(body, &m)), FAN_CTL);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_RELAY);
}

UNIT_MAIN

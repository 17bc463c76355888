/* SPDX-License-Identifier: Apache-2.0 */
/* stranger.c - what somebody who sees no packet of a job can do to it: nothing.
 *
 * The victim is the job "victim", whose id and epoch stand in `secret`. */
#include "unit/core/aggregator_rig.h"

#include <stdio.h>

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
TEST_WITH(stranger__own_jobs_tell_no_epoch, rig_open, rig_close)
{
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
TEST_WITH(stranger__lives_have_nothing_in_common, rig_open, rig_close)
{
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
TEST_WITH(stranger__beat_with_another_nonce, rig_open, rig_close)
{
	form_victim();
	rig_refused(rig_beat(0, 12345, 7, 0), FAN_DROP_SENDER);
	assert_int_equal(rig.gots, 0);
	rig_refused(rig_beat(0, 0, 7, 0), FAN_DROP_FORMAT); /* nobody's */
	assert_int_equal(rig.gots, 0);
}

static void query(fan_peer from, struct fan_report *m)
{
	rig_ask_about(from, FAN_TOPIC_JOB, 0, 0);
	assert_int_equal(fan_ctl_get(m, &rig.got[0].f), FAN_OK);
}

TEST_WITH(stranger__query_tells_no_open_fragment, rig_open, rig_close)
{
	struct fan_report m;
	const fan_peer local = {.addr = {0, UINT64_C(1) << 56}, .port = 5}; /* ::1 */
	form_victim();
	rig.now_ns += 7000 * FAN_MS; /* between operations */
	rig_add(0, 0, 1);
	rig.now_ns += 40 * FAN_MS;
	query(local, &m);
	assert_int_equal(m.age_ms, 40);
	assert_int_equal(m.operations, 1);
	rig_add(1, 0, 1);
	query(local, &m);
	assert_int_equal(m.operations, 0);
	for (uint64_t n = 1; n < 1030; n++) {
		rig_add(0, n, 1);
		rig_add(1, n, 1);
	}
	rig_add(0, 1030, 1);
	rig.now_ns += 2500 * FAN_MS;
	query(elsewhere(0), &m);
	assert_int_equal(m.waiting, 1);
	assert_true(m.oldest == UINT64_MAX);
	assert_int_equal(m.age_ms, 2500);
	assert_int_equal(m.operations, 0);
	assert_int_equal(m.results, 1024);
	query((fan_peer){.addr = {1, 1}, .port = 1234}, &m); /* the host of rank 0 */
	assert_int_equal(m.oldest, 1030);
	assert_int_equal(m.results, 1030);
	assert_int_equal(m.age_ms, 2500);
	query(local, &m);
	assert_int_equal(m.oldest, 1030);
}

/* ---- answers, and what goes to addresses that are not proved ---- */

/* Bytes that came from an address and went to it.  Address 0 is the stranger's own. */
enum { ADDRESSES = 4 };
static struct {
	size_t in, out;
	bool proved;
} traffic[ADDRESSES];

/* By type of request: bytes of those under addresses that are not proved, and of what went there.
 */
static struct {
	size_t in, out;
} request[FAN_TYPE_REPORT + 1];
static uint8_t asked; /* the type of the last one */

static const char *type_name(unsigned type)
{
	static const char *const name[FAN_TYPE_REPORT + 1] = {
		[FAN_TYPE_DATA] = "DATA",	  [FAN_TYPE_PARTIAL] = "PARTIAL",
		[FAN_TYPE_PROBE] = "PROBE",	  [FAN_TYPE_MISS] = "MISS",
		[FAN_TYPE_PROGRESS] = "PROGRESS", [FAN_TYPE_JOIN] = "JOIN",
		[FAN_TYPE_BEAT] = "BEAT",	  [FAN_TYPE_LEAVE] = "LEAVE",
		[FAN_TYPE_QUERY] = "QUERY",
	};
	return name[type];
}

/* No type of request makes more go to an address that is not proved than comes from there. */
static void print_ratios(void)
{
	for (unsigned t = 0; t <= FAN_TYPE_REPORT; t++) {
		if (!request[t].in)
			continue;
		print_message("%-9s %9zu bytes in %9zu bytes out: %.3f\n", type_name(t),
			      request[t].in, request[t].out,
			      (double)request[t].out / (double)request[t].in);
		assert_in_range(request[t].out, 0, request[t].in);
	}
}

static void count_out(const fan_peer *to, size_t bytes)
{
	for (unsigned n = 0; n < ADDRESSES; n++) {
		const fan_peer at = elsewhere(n);
		if (!fan_peer_same_host(to, &at))
			continue;
		traffic[n].out += bytes;
		request[asked].out += traffic[n].proved ? 0 : bytes;
		if (!traffic[n].proved)
			assert_in_range(traffic[n].out, 0, traffic[n].in);
	}
}

static void count_all(const struct fan_out *out)
{
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_PEER)
			count_out(&it->peer, fan_out_item_bytes(it));
		for (unsigned r = 0; it->dest == FAN_TO_GROUP && r < it->group->ranks; r++)
			count_out(&it->group->peers[r], fan_out_item_bytes(it));
	}
}

static void give(unsigned n, const struct fan_frag *f, size_t cut, uint8_t version)
{
	static uint8_t packet[FAN_HEAD_BYTES + FAN_ECHO_MAX];
	struct fan_out_item item[FAN_AGGREGATOR_OUT_MAX];
	uint8_t scratch[FAN_AGGREGATOR_OUT_MAX * 256];
	struct fan_out out;
	fan_wire_put(packet, f);
	if (f->payload_bytes)
		memcpy(packet + FAN_HEAD_BYTES, f->payload, f->payload_bytes);
	size_t bytes = FAN_HEAD_BYTES + (f->payload_bytes > cut ? f->payload_bytes - cut : 0);
	packet[0] = version;
	if (f->type >= FAN_TYPE_CTL) {
		uint32_t crc = fan_crc32c(0, packet, 32);
		crc = fan_crc32c(crc, packet + FAN_HEAD_BYTES, bytes - FAN_HEAD_BYTES);
		fan_put32(packet + 32, crc);
	}
	traffic[n].in += bytes;
	asked = f->type;
	request[asked].in += traffic[n].proved ? 0 : bytes;
	fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
	fan_aggregator_recv(rig.ag, rig.now_ns, elsewhere(n), packet, bytes, false, &out);
	fan_aggregator_audit(rig.ag);
	count_all(&out);
	rig_decode(&out);
}

/* A message of any type, as good as somebody can make it who is rank 0 of the job. */
static struct fan_frag any_message(struct fan_rng *r, uint8_t *body)
{
	static const uint8_t types[] = {FAN_TYPE_DATA, FAN_TYPE_PARTIAL,  FAN_TYPE_PROBE,
					FAN_TYPE_MISS, FAN_TYPE_PROGRESS, FAN_TYPE_JOIN,
					FAN_TYPE_BEAT, FAN_TYPE_LEAVE,	  FAN_TYPE_QUERY};
	const uint16_t rank = (uint16_t)fan_rng_below(r, 3);
	struct fan_frag f = rig_control(types[fan_rng_below(r, sizeof types)], rank,
					fan_rng_below(r, 4), body, 0);
	struct fan_join join = rig_join_of(fan_rng_below(r, 3) ? "mine" : "other",
					   (uint16_t)(2 + fan_rng_below(r, 2)));
	const struct fan_beat beat = {.cookie = rig.cookie[0]};
	const struct fan_leave leave = {.err = FAN_OK};
	const struct fan_query query = {.index = (uint16_t)fan_rng_below(r, 3)};
	const struct fan_echo echo = {.body_bytes = (uint16_t)(64 + fan_rng_below(r, 200))};
	join.options = (uint8_t)fan_rng_below(r, 32);
	f.path = (uint8_t)fan_rng_below(r, 3);
	f.topic = (uint8_t)fan_rng_below(r, FAN_TOPIC_COUNT);
	f.frag = fan_rng_below(r, 2);
	switch (f.type) {
	case FAN_TYPE_JOIN: f.payload_bytes = fan_ctl_put(body, &join); break;
	case FAN_TYPE_BEAT: f.payload_bytes = fan_ctl_put(body, &beat); break;
	case FAN_TYPE_LEAVE: f.payload_bytes = fan_ctl_put(body, &leave); break;
	case FAN_TYPE_QUERY:
		f.payload_bytes = f.topic == FAN_TOPIC_ECHO ? fan_ctl_put(body, &echo)
							    : fan_ctl_put(body, &query);
		break;
	case FAN_TYPE_MISS: f.missing = UINT64_MAX; break;
	case FAN_TYPE_PROBE: f.flags = FAN_F_INSIST; break;
	case FAN_TYPE_DATA:
		f = rig_data(rank, f.frag, (const int32_t *)(const void *)body);
		f.nonce = 0;
		break;
	default: break;
	}
	return f;
}

/* Whatever is sent under the address of others, no more goes there than has come.  The stranger is
 * a rank of a job at its own address 0, where it learns what it can. */
TEST_WITH(stranger__answers_are_not_longer_than_questions, rig_open, rig_close)
{
	enum { PACKETS = 200000 };
	static _Alignas(8) uint8_t body[FAN_ECHO_MAX];
	struct fan_rng r = test_rng();
	memset(traffic, 0, sizeof traffic);
	memset(request, 0, sizeof request);
	unsigned ready = 0;
	for (unsigned n = 0; n < PACKETS; n++) {
		unsigned at = (unsigned)fan_rng_below(&r, ADDRESSES);
		struct fan_frag f = any_message(&r, body);
		traffic[0].proved = true;
		give(at, &f, fan_rng_below(&r, 8) ? 0 : fan_rng_below(&r, 40),
		     fan_rng_below(&r, 20) ? FAN_WIRE_VERSION : 3);
		struct fan_welcome w;
		if (at == 0 && rig_type(0) == FAN_TYPE_WELCOME &&
		    fan_ctl_get(&w, &rig.got[0].f) == FAN_OK) {
			rig.job = rig.got[0].f.job;
			rig.epoch = rig.got[0].f.epoch;
			rig.cookie[0] = w.cookie;
		}
		ready += rig.ag->jobs.job[0].state == FAN_JOB_READY;
		rig.now_ns += fan_rng_below(&r, 20) * FAN_MS;
		rig_tick();
		for (unsigned i = 0; i < rig.gots; i++)
			if (rig.got[i].dest == FAN_TO_PEER)
				count_out(&rig.got[i].peer,
					  FAN_HEAD_BYTES + rig.got[i].f.payload_bytes);
	}
	for (unsigned n = 1; n < ADDRESSES; n++)
		assert_in_range(traffic[n].out, traffic[n].in / 100, traffic[n].in);
	print_ratios();
	(void)ready;
}

/* JOIN of `rank` in the job that `m` says, from an address of the stranger's choice. */
static void join_from(unsigned n, uint16_t rank, uint64_t nonce, uint8_t path,
		      const struct fan_join *m)
{
	uint8_t body[RIG_BODY];
	struct fan_frag f = rig_control(FAN_TYPE_JOIN, rank, nonce, body, fan_ctl_put(body, m));
	f.job = f.epoch = 0;
	f.path = path;
	rig_send(elsewhere(n), &f);
}

/* As a rank with the address of a victim, which would get RESULTs then: the WELCOME goes there, and
 * without its cookie the rank is none. */
TEST_WITH(stranger__a_rank_elsewhere_is_none, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("mine", 2);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	join_from(1, 1, 6, 0, &m);
	assert_int_equal(rig_type(0), FAN_TYPE_WELCOME);
	assert_int_equal(rig_beat(0, 5, 0, 0), FAN_CTL);
	uint8_t body[RIG_BODY];
	const struct fan_beat beat = {.cookie = rig.cookie[0]};
	struct fan_frag f = rig_control(FAN_TYPE_BEAT, 1, 6, body, fan_ctl_put(body, &beat));
	assert_int_equal(rig_send(elsewhere(1), &f), FAN_DROP);
	assert_int_equal(rig.gots, 0);
	assert_int_equal(rig.ag->jobs.job[0].in, 2);
	rig_pass(FAN_UNSURE_NS - FAN_UNSURE_NS / 4);
	rig_beat(0, 5, 0, 0);
	rig_pass(FAN_UNSURE_NS - FAN_UNSURE_NS / 4);
	assert_int_equal(rig.ag->jobs.job[0].in, 1); /* a second, whatever it has asked for */
}

/* A rank of the stranger's that says it has moved to the address of a victim. */
TEST_WITH(stranger__a_rank_does_not_move_elsewhere, rig_open, rig_close)
{
	form_victim(); /* its own, this time */
	struct fan_join m = rig_join_of("victim", 2);
	join_from(1, 1, rig_nonce(1), 1, &m);
	assert_int_equal(rig_type(0), FAN_TYPE_WELCOME);
	uint8_t body[RIG_BODY];
	const struct fan_beat beat = {.cookie = rig.cookie[1]};
	struct fan_frag f =
		rig_control(FAN_TYPE_BEAT, 1, rig_nonce(1), body, fan_ctl_put(body, &beat));
	assert_int_equal(rig_send(elsewhere(1), &f), FAN_DROP);
	assert_int_equal(rig.gots, 0);
	rig_add(0, 0, 1);
	rig_add(1, 0, 1);
	f = (struct fan_frag){.job = rig.job,
			      .epoch = rig.epoch,
			      .flags = FAN_F_INSIST,
			      .sender = 1,
			      .type = FAN_TYPE_PROBE};
	assert_int_equal(rig_send(elsewhere(1), &f), FAN_DROP);
	assert_int_equal(rig.gots, 0);
}

/* ---- places ---- */

static void is_admitted(const char *name)
{
	rig.life++;
	rig_form(name, 2, 0);
}

/* Forged JOINs fill every table; who comes and answers gets a place all the same. */
TEST_WITH(stranger__joins_keep_nobody_out, rig_open, rig_close)
{
	for (unsigned ranks = 2; ranks <= 30; ranks += 28) {
		char name[FAN_NAME_MAX];
		for (unsigned n = 0; n < 1000; n++) {
			snprintf(name, sizeof name, "x%u", n);
			struct fan_join m = rig_join_of(name, (uint16_t)ranks);
			m.alive_ms = FAN_ALIVE_MAX_MS;
			join_from(n, 0, 7, 0, &m);
			assert_int_equal(rig_type(0), FAN_TYPE_WELCOME);
		}
		snprintf(name, sizeof name, "honest%u", ranks);
		is_admitted(name);
	}
	rig_pass(FAN_UNSURE_NS + FAN_UNSURE_NS / 2);
	unsigned jobs = 0;
	for (unsigned i = 0; i < rig.ag->jobs.used; i++)
		jobs += rig.ag->jobs.job[i].state == FAN_JOB_FORMING;
	assert_int_equal(jobs, 0);
}

/* One that answers, and begins as many jobs as it can: the next comes from elsewhere. */
TEST_WITH(stranger__one_source_does_not_hold_all_places, rig_open, rig_close)
{
	uint8_t body[RIG_BODY];
	for (unsigned n = 0; n < 4; n++) {
		char name[FAN_NAME_MAX];
		snprintf(name, sizeof name, "x%u", n);
		struct fan_join m = rig_join_of(name, 2);
		join_from(0, 0, 7, 0, &m);
		const struct fan_beat beat = {.cookie = rig_welcome().cookie};
		struct fan_frag f =
			rig_control(FAN_TYPE_BEAT, 0, 7, body, fan_ctl_put(body, &beat));
		f.job = rig.got[0].f.job;
		f.epoch = rig.got[0].f.epoch;
		assert_int_equal(rig_send(elsewhere(0), &f), FAN_CTL);
	}
	is_admitted("honest");
}

/* The victim's name with another number of ranks. */
TEST_WITH(stranger__a_name_is_not_taken_by_a_word, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("victim", 7);
	join_from(1, 0, 7, 0, &m);
	form_victim();
}

/* Ten minutes of silence for all, asked for by one that does not answer. */
TEST_WITH(stranger__patience_is_what_members_ask_for, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("victim", 2);
	m.alive_ms = FAN_ALIVE_MAX_MS;
	join_from(1, 1, 7, 0, &m);
	m.alive_ms = 1000;
	for (uint16_t r = 0; r < 2; r++) {
		assert_int_equal(rig_join(r, rig_nonce(r), &m), FAN_OK);
		assert_int_equal(rig_welcome().alive_ms, 1000);
		rig_beat(r, rig_nonce(r), 0, 0);
		assert_int_equal(rig.ag->jobs.job[0].alive_ms, 1000);
	}
}

/* A stranger joins as the rank that has not come yet, and learns job and epoch: when that comes,
 * they are others. */
TEST_WITH(stranger__what_it_was_told_is_worth_nothing, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("victim", 2);
	assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK);
	assert_int_equal(rig_beat(0, rig_nonce(0), 0, 0), FAN_CTL);
	join_from(1, 1, 7, 0, &m);
	const uint32_t job = rig.got[0].f.job, epoch = rig.got[0].f.epoch;
	assert_int_equal(rig_join(1, rig_nonce(1), &m), FAN_OK);
	assert_int_equal(rig_beat(1, rig_nonce(1), 0, 0), FAN_CTL);
	for (uint16_t r = 0; r < 2; r++) {
		assert_int_equal(rig_state(0).state, FAN_JOB_NONE); /* join again */
		assert_int_equal(rig_join(r, rig_nonce(r), &m), FAN_OK);
		rig_beat(r, rig_nonce(r), 0, 0);
		if (r == 0)
			rig.epoch++; /* as rank 1 still believes */
		if (r == 0)
			rig_beat(1, rig_nonce(1), 0, 0);
	}
	assert_int_equal(rig_state(0).state, FAN_JOB_READY);
	assert_int_not_equal(rig.epoch, epoch);
	assert_int_equal(forge(job, epoch), FAN_DROP);
}

/* ---- not a stranger, but old ---- */

/* A worker of 0.1, whose JOIN is no longer than it must be, learns why it cannot come. */
TEST_WITH(stranger__old_workers_are_told, rig_open, rig_close)
{
	uint8_t body[RIG_BODY];
	const struct fan_join m = rig_join_of("old", 2);
	fan_ctl_put(body, &m);
	struct fan_frag f = rig_control(FAN_TYPE_JOIN, 0, 5, body, 12 + m.name_bytes);
	struct fan_refuse no;
	assert_int_equal(rig_send(elsewhere(0), &f), FAN_CTL);
	assert_int_equal(fan_ctl_get(&no, &rig.got[0].f), FAN_OK);
	assert_int_equal(no.err, FAN_E_VERSION);
	assert_true(rig.got[0].f.payload_bytes <= f.payload_bytes);
	f.payload_bytes--; /* its name is not whole */
	assert_int_equal(rig_send(elsewhere(0), &f), FAN_DROP);
	assert_int_equal(rig.gots, 0);
	/* not short, but wrong: a name that is too long */
	body[11] = FAN_NAME_MAX + 1;
	f.payload_bytes = FAN_CTL_UP_MIN;
	assert_int_equal(rig_send(elsewhere(0), &f), FAN_DROP);
	assert_int_equal(rig.gots, 0);
}

/* ---- not a stranger, but many ---- */

/* 64 jobs of 2 ranks, as they come by default, fit a default switch; the first have all they can
 * use. */
TEST_WITH(stranger__64_jobs_fit, rig_open, rig_close)
{
	rig.cfg = (struct fan_aggregator_config){.slots = 8192,
						 .payload_bytes = RIG_PAYLOAD,
						 .jobs_max = FAN_JOBS_MAX,
						 .members_max = FAN_MEMBERS_MAX,
						 .window_max = FAN_WINDOW_QUOTA,
						 .shards = 1,
						 .secret = {{1, 2}}};
	free(rig.mem);
	size_t bytes = (fan_aggregator_bytes(&rig.cfg) + 63) / 64 * 64;
	rig.mem = aligned_alloc(64, bytes);
	rig_again();
	for (unsigned n = 0; n < FAN_JOBS_MAX; n++) {
		char name[FAN_NAME_MAX];
		snprintf(name, sizeof name, "job%u", n);
		rig_form(name, 2, FAN_JOIN_WIDE);
		assert_in_range(rig.window, n < 4 ? FAN_WINDOW_QUOTA : 8, FAN_WINDOW_QUOTA);
	}
}

UNIT_MAIN

/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks behind shared slots in real daemons on the loopback: every operation, exact. */
#include "unit/lib/team.h"

#include <math.h>

#define COUNT  30000
#define ROUNDS 3
#define SLOTS  24 /* so few that fragments collide */

/* Operations of all kinds.  Whole numbers, exact in any order. */
static void operations(struct member *m)
{
	static float buffer[TEAM_MAX][COUNT];
	float *x = buffer[m->rank];
	int n = m->team->ranks;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < COUNT; i++)
			x[i] = (float)(i % 20 + m->rank + round);
		EXPECT(fanin_allreduce(m->comm, x, x, COUNT, FANIN_FLOAT32, FANIN_SUM) == 0);
		float off = (float)(n * round + n * (n - 1) / 2);
		int wrong = 0;
		for (int i = 0; i < COUNT; i++)
			wrong += x[i] != (float)(i % 20 * n) + off;
		EXPECT(wrong == 0);
		for (int i = 0; i < COUNT; i++)
			x[i] = (float)(m->rank == 1 ? i % 64 : 99);
		EXPECT(fanin_broadcast(m->comm, x, COUNT, FANIN_FLOAT32, 1) == 0);
		for (int i = 0; i < COUNT; i++)
			wrong += x[i] != (float)(i % 64);
		EXPECT(wrong == 0);
		EXPECT(fanin_reduce(m->comm, x, x, COUNT, FANIN_FLOAT32, FANIN_MAX, 2) == 0);
		for (int i = 0; i < COUNT && m->rank == 2; i++)
			wrong += x[i] != (float)(i % 64);
		EXPECT(wrong == 0);
		EXPECT(fanin_barrier(m->comm) == 0);
	}
}

/* One more daemon, on any port. */
static struct fan_daemon *start(struct fan_daemon_options *o, char *address, size_t bytes)
{
	struct fan_daemon *d;
	char why[256];
	if (fan_daemon_start(&d, o, why, sizeof why))
		fail_msg("%s", why);
	fan_peer at = fan_daemon_address(d);
	fan_peer_text(&at, address, bytes);
	return d;
}

static struct fan_daemon *start_slots(enum fan_policy policy, const struct fan_daemon *above,
				      char *address, size_t bytes)
{
	struct fan_daemon_options o;
	fan_daemon_defaults(&o);
	o.has_slots = true;
	o.slots.policy = policy;
	o.slots.slots = SLOTS;
	if (above)
		o.server = fan_daemon_address(above);
	return start(&o, address, bytes);
}

static void run_at(const char *address, const struct fanin_options *options)
{
	struct team t = {.ranks = 4, .body = operations, .options = *options};
	t.options.timeout_ms = TEAM_PATIENT_MS;
	t.options.alive_ms = 60000;
	snprintf(t.address, sizeof t.address, "%s", address);
	team_run(&t);
}

static void aggregator_inside(enum fan_policy policy, const struct fanin_options *options)
{
	char address[80];
	struct fan_daemon *d = start_slots(policy, NULL, address, sizeof address);
	run_at(address, options);
	fan_daemon_stop(d);
}

TEST(switches__aggregator_inside)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	aggregator_inside(FAN_POLICY_ATP, &o);
	aggregator_inside(FAN_POLICY_ESA, &o);
	aggregator_inside(FAN_POLICY_GRID, &o);
}

TEST(switches__modes_and_wires)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.wire = FANIN_BFLOAT16; /* sums are wider than a slot: unsummed, and right */
	aggregator_inside(FAN_POLICY_ATP, &o);
	o.wire = FANIN_WIRE_INT8;
	aggregator_inside(FAN_POLICY_ATP, &o);
	aggregator_inside(FAN_POLICY_ESA, &o);
}

#define BLOCK_COUNT 3001

/* Element `i` of `rank`: no code; here and there, large. */
static float real(int rank, size_t i)
{
	float v = (float)((int)((i * 7 + (size_t)rank * 5) % 61) - 30) / 7;
	return v * (i % 900 < 32 ? 1000 : 1);
}

/* What all ranks' sums in eight bits are and what each has lost; reals are no codes. */
static float block_out[TEAM_MAX][BLOCK_COUNT], block_sent[TEAM_MAX][BLOCK_COUNT];

/* What fits a packet, least values, parameters and integers are not rounded. */
static void not_in_blocks(struct member *m, float *in)
{
	static int32_t whole[TEAM_MAX][BLOCK_COUNT];
	int32_t *x = whole[m->rank];
	float exact[256];
	size_t wrong = 0;
	memcpy(exact, in, sizeof exact);
	EXPECT(!fanin_allreduce(m->comm, exact, exact, 256, FANIN_FLOAT32, FANIN_MAX));
	for (size_t i = 0; i < 256; i++)
		exact[i] = m->rank ? 0 : in[i];
	EXPECT(!fanin_allreduce(m->comm, exact, exact, 256, FANIN_FLOAT32, FANIN_SUM));
	EXPECT(m->rank || !memcmp(exact, in, sizeof exact));
	EXPECT(!fanin_broadcast(m->comm, exact, 256, FANIN_FLOAT32, 0));
	EXPECT(!fanin_allreduce(m->comm, in, in, BLOCK_COUNT, FANIN_FLOAT32, FANIN_MIN));
	for (size_t i = 0; i < BLOCK_COUNT; i++) {
		float least = INFINITY;
		for (int r = 0; r < m->team->ranks; r++)
			least = fminf(least, real(r, i));
		wrong += in[i] != least;
		x[i] = (int32_t)i * 1001 + m->rank;
	}
	EXPECT(!fanin_allreduce(m->comm, x, x, BLOCK_COUNT, FANIN_INT32, FANIN_SUM));
	for (size_t i = 0; i < BLOCK_COUNT; i++)
		wrong += x[i] != (int32_t)i * 1001 * m->team->ranks + 6;
	EXPECT(!wrong);
}

/* A NaN, an infinity, and what is too small for eight bits, each in a block of its own or in one
 * that rounds to zeros; averages, and bfloat16. */
static void odd_blocks(struct member *m)
{
	enum { COUNT_OF = 640 }; /* fits a packet in eight bits: blocks begin at multiples of 32 */
	float x[COUNT_OF];
	uint16_t half[COUNT_OF];
	size_t wrong = 0;
	for (size_t i = 0; i < COUNT_OF; i++)
		x[i] = i < 320 ? 64 : i < 384 ? 0x1p-140f : 0;
	x[5] = m->rank == 1 ? NAN : 1;
	x[40] = m->rank == 2 ? INFINITY : 1;
	x[70] = 3.0e38f; /* so the sum of four is beyond the largest */
	EXPECT(!fanin_allreduce(m->comm, x, x, COUNT_OF, FANIN_FLOAT32, FANIN_SUM));
	for (size_t i = 0; i < COUNT_OF; i++)
		wrong += i < 96 ? !isnan(x[i]) : x[i] != (i < 320 ? 256 : 0);
	for (size_t i = 0; i < COUNT_OF; i++)
		half[i] = i % 2 ? 0x3f80 : 0xc040; /* 1, -3 */
	EXPECT(!fanin_allreduce(m->comm, half, half, COUNT_OF, FANIN_BFLOAT16, FANIN_AVG));
	for (size_t i = 0; i < COUNT_OF; i++)
		wrong += half[i] != (i % 2 ? 0x3f80 : 0xc040);
	EXPECT(!wrong);
}

/* A group of a job in eight bits has them too. */
static void blocks_of_a_group(struct member *m)
{
	static const int two[] = {1, 3};
	float x[BLOCK_COUNT];
	fanin_comm *group = NULL;
	size_t rounded = 0;
	if (m->rank % 2 == 0)
		return;
	for (size_t i = 0; i < BLOCK_COUNT; i++)
		x[i] = real(1, i);
	EXPECT(!fanin_comm_group(m->comm, "odd", two, 2, &group));
	EXPECT(!fanin_allreduce(group, x, x, BLOCK_COUNT, FANIN_FLOAT32, FANIN_AVG));
	for (size_t i = 0; i < BLOCK_COUNT; i++)
		rounded += x[i] != real(1, i);
	EXPECT(rounded > BLOCK_COUNT / 4);
	fanin_comm_destroy(group);
}

static void blocks_wire(struct member *m)
{
	float in[BLOCK_COUNT], lost[BLOCK_COUNT] = {0};
	float *out = block_out[m->rank], *sent = block_sent[m->rank];
	fanin_op *op;
	size_t wrong = 0;
	for (size_t i = 0; i < BLOCK_COUNT; i++)
		in[i] = real(m->rank, i);
	EXPECT(!fanin_allreduce_lossy_start(m->comm, in, out, lost, BLOCK_COUNT, FANIN_FLOAT32,
					    FANIN_SUM, &op));
	EXPECT(!fanin_op_wait(op, -1));
	fanin_op_free(op);
	for (size_t i = 0; i < BLOCK_COUNT; i++) {
		sent[i] = in[i] - lost[i];
		wrong += fabsf(lost[i]) > 8 * ((i + 32) % 900 < 96 ? 1000.0f : 1) / 128;
	}
	EXPECT(!wrong);
	not_in_blocks(m, in);
	odd_blocks(m);
	blocks_of_a_group(m);
}

/* All of it at `address`; the same bits everywhere, rounded where they are summed. */
static void run_in_blocks(const char *address, const char *key_file)
{
	struct team t = {.ranks = 4, .body = blocks_wire};
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.wire = FANIN_WIRE_INT8;
	o.key_file = key_file;
	o.timeout_ms = TEAM_PATIENT_MS;
	o.alive_ms = 60000;
	t.options = o;
	snprintf(t.address, sizeof t.address, "%s", address);
	team_run(&t);
	size_t rounded = 0;
	for (size_t i = 0; i < BLOCK_COUNT; i++) {
		double sum = 0;
		for (int r = 0; r < 4; r++) {
			assert_memory_equal(&block_out[r][i], &block_out[0][i], sizeof(float));
			sum += (double)block_sent[r][i];
		}
		double bound = 32 * ((i + 32) % 900 < 96 ? 1000.0 : 1) / 128;
		assert_true(fabs((double)block_out[0][i] - sum) <= bound);
		rounded += (double)block_out[0][i] != sum;
	}
	assert_true(rounded > BLOCK_COUNT / 4); /* it went in eight bits */
}

/* At an aggregator, and at slots in front of it. */
TEST(switches__eight_bits_on_the_wire)
{
	struct fan_daemon_options o;
	char address[80];
	fan_daemon_defaults(&o);
	struct fan_daemon *aggregator = start(&o, address, sizeof address);
	run_in_blocks(address, NULL);
	for (enum fan_policy p = FAN_POLICY_ATP; fan_policy_shares((int)p); p++) {
		struct fan_daemon *slots = start_slots(p, aggregator, address, sizeof address);
		run_in_blocks(address, NULL);
		fan_daemon_stop(slots);
	}
	fan_daemon_stop(aggregator);
}

TEST(switches__eight_bits_sealed)
{
	struct fan_daemon_options o;
	char address[80], path[] = "/tmp/fanin-key-XXXXXX", text[FAN_KEY_TEXT_BYTES];
	fan_daemon_defaults(&o);
	o.keys.count = 1;
	o.of_tenant = true;
	memset(o.keys.key[0], 7, FAN_KEY_BYTES);
	fan_key_text(text, o.keys.key[0]);
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	struct fan_daemon *d = start(&o, address, sizeof address);
	run_in_blocks(address, path);
	fan_daemon_stop(d);
	o.has_slots = true;
	o.slots.policy = FAN_POLICY_ATP;
	o.slots.slots = SLOTS;
	d = start(&o, address, sizeof address);
	run_in_blocks(address, path);
	fan_daemon_stop(d);
	unlink(path);
}

/* An aggregator, a switch in front of it, and another in front of that; what is passed on must stay
 * as it came until it has been sent. */
TEST(switches__rows)
{
	struct fanin_options options = FANIN_OPTIONS_INIT;
	struct fan_daemon_options o;
	char address[80];
	for (enum fan_policy p = FAN_POLICY_ATP; fan_policy_shares((int)p); p++) {
		fan_daemon_defaults(&o);
		struct fan_daemon *aggregator = start(&o, address, sizeof address);
		struct fan_daemon *upper = start_slots(p, aggregator, address, sizeof address);
		run_at(address, &options);
		struct fan_daemon *lower = start_slots(p, upper, address, sizeof address);
		run_at(address, &options);
		fan_daemon_stop(lower);
		fan_daemon_stop(upper);
		fan_daemon_stop(aggregator);
	}
}

static struct fan_daemon *dying;
static struct fan_daemon_options successor;
static atomic_int at_server, came_back;

/* Sums until the test has seen what it waits for: the path past the switch, and back. */
static void sums_while_the_switch_dies(struct member *m)
{
	struct fanin_stats s = {.size = sizeof s};
	int64_t x[512], on = 1;
	for (int round = 0; on; round++) {
		if (m->rank == 0 && round == 20) {
			fan_daemon_stop(dying);
			dying = NULL;
		}
		for (int i = 0; i < 512; i++)
			x[i] = (int64_t)i * round + m->rank;
		EXPECT(fanin_allreduce(m->comm, x, x, 512, FANIN_INT64, FANIN_SUM) == 0);
		for (int i = 0; i < 512; i++)
			EXPECT(x[i] == (int64_t)i * round * 2 + 1);
		EXPECT(fanin_comm_stats(m->comm, &s) == 0);
		if (s.server && s.moves == 1)
			atomic_fetch_or(&at_server, 1 << m->rank);
		if (!s.server && s.moves == 2)
			atomic_fetch_or(&came_back, 1 << m->rank);
		if (m->rank == 0 && !dying && atomic_load(&at_server) == 3) {
			char why[256];
			EXPECT(fan_daemon_start(&dying, &successor, why, sizeof why) == 0);
		}
		on = atomic_load(&came_back) != 3 && !atomic_load(&team_wrong);
		int e = fanin_allreduce(m->comm, &on, &on, 1, FANIN_INT64, FANIN_MIN);
		EXPECT(e == FANIN_OK);
		if (e)
			return;
	}
}

static void die_and_come_back(int ahead)
{
	struct fan_daemon_options o;
	char server[80], address[80];
	fan_daemon_defaults(&o);
	o.core.ahead_max = (uint16_t)ahead;
	struct fan_daemon *aggregator = start(&o, server, sizeof server);
	o.has_slots = true;
	o.server = fan_daemon_address(aggregator);
	dying = start(&o, address, sizeof address);
	successor = o;
	successor.listen = fan_daemon_address(dying);
	struct fanin_options options = FANIN_OPTIONS_INIT;
	struct team t = {.ranks = 2, .body = sums_while_the_switch_dies, .options = options};
	t.options.timeout_ms = TEAM_PATIENT_MS;
	t.options.alive_ms = 4000;
	t.options.server_addr = server;
	t.options.ahead = ahead;
	snprintf(t.address, sizeof t.address, "%s", address);
	atomic_store(&at_server, 0);
	atomic_store(&came_back, 0);
	team_run(&t);
	assert_int_equal(atomic_load(&came_back), 3);
	fan_daemon_stop(dying);
	fan_daemon_stop(aggregator);
}

TEST(switches__the_switch_dies_and_comes_back)
{
	die_and_come_back(0);
}

TEST(switches__the_switch_dies_while_ranks_run_ahead)
{
	die_and_come_back(64);
}

static int refused(struct fan_daemon_options *o, char *why, size_t bytes)
{
	struct fan_daemon *d;
	int e = fan_daemon_start(&d, o, why, bytes);
	assert_null(d);
	return e;
}

TEST(switches__bad_options_are_refused)
{
	struct fan_daemon_options o;
	char why[256];
	fan_daemon_defaults(&o);
	o.has_slots = true;
	assert_int_equal(fan_peer_parse(&o.listen, "127.0.0.1:7", why, sizeof why), 0);
	o.server = o.listen;
	assert_int_equal(refused(&o, why, sizeof why), FANIN_E_INVALID);
	assert_non_null(strstr(why, "this switch itself"));
	o.server.port = 65535;
	o.threads = 2;
	assert_int_equal(refused(&o, why, sizeof why), FANIN_E_INVALID);
	assert_non_null(strstr(why, "server: 127.0.0.1:65535: expected a port from 1 to 65534"));
	o.threads = 1;
	o.slots.slots = 0;
	assert_int_equal(refused(&o, why, sizeof why), FANIN_E_INVALID);
}

UNIT_MAIN

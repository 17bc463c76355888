/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "core/wire/ctlmsg.h"
#include "core/wire/wire.h"
#include "net/neighbours.h"
#include "unit/unit.h"

static struct fan_neighbours n;
static struct fan_out_item item[FAN_NEIGHBOURS_MAX];
static struct fan_out out;
static uint64_t now_ns;

static struct fan_neighbour neighbour(const char *name, uint32_t port)
{
	struct fan_neighbour who = {.at = {{0, 1}, port, 0}};
	snprintf(who.name, sizeof who.name, "%s", name);
	return who;
}

static int begin(void **state)
{
	const struct fan_neighbour of[2] = {neighbour("X", 1), neighbour("Y", 2)};
	(void)state;
	memset(&n, 0, sizeof n);
	now_ns = 1000;
	fan_neighbours_set(&n, 5, of, 2, now_ns);
	return 0;
}

/* A turn: judge and ask; `out` has the questions. */
static bool turn(void)
{
	assert_true(now_ns >= n.due_ns);
	bool changed = fan_neighbours_turn(&n, now_ns);
	fan_out_init(&out, item, FAN_NEIGHBOURS_MAX, NULL, 0);
	for (unsigned i = 0; i < n.count; i++)
		fan_neighbours_ask(&n, i, &out);
	now_ns += FAN_ECHO_MS * FAN_MS;
	return changed;
}

/* What neighbour `i` was asked, answered. */
static size_t answer_to(unsigned i, uint8_t *p)
{
	static uint8_t body[FAN_ECHO_MAX];
	const struct fan_echoed who = {.payload_bytes = 1408, .shards = 1, .window = 64};
	struct fan_out_item it;
	uint8_t asked[FAN_ECHO_BYTES];
	fan_out_item_copy(&item[i], asked);
	struct fan_frag f = {.type = FAN_TYPE_REPORT,
			     .topic = FAN_TOPIC_ECHO,
			     .sender = FAN_RANK_NONE,
			     .nonce = fan_wire_nonce(asked)};
	fan_ctl_put(body, &who);
	fan_ctl_finish(&it, &f, body, FAN_ECHO_MIN);
	return fan_out_item_copy(&it, p);
}

static bool answers(unsigned i)
{
	uint8_t p[FAN_ECHO_BYTES];
	size_t bytes = answer_to(i, p);
	return fan_neighbours_take(&n, &item[i].peer, p, bytes);
}

/* Turns in which X answers if `x`, and Y always. */
static unsigned turns(unsigned count, bool x)
{
	unsigned changes = 0;
	for (unsigned i = 0; i < count; i++) {
		changes += turn();
		if (x)
			assert_true(answers(0));
		assert_true(answers(1));
	}
	return changes;
}

TEST_WITH(neighbours__silent_after_four_turns, begin, NULL)
{
	assert_int_equal(turns(3, true), 0);
	assert_int_equal(turns(FAN_NEIGHBOUR_DOWN, false), 0);
	assert_true(turn()); /* the last question had until now */
	assert_true(n.of[0].silent && n.of[0].changed);
	assert_false(n.of[1].silent || n.of[1].changed);
}

TEST_WITH(neighbours__one_answer_in_time_is_enough, begin, NULL)
{
	for (unsigned i = 0; i < 10; i++) {
		turns(FAN_NEIGHBOUR_DOWN - 1, false);
		turns(1, true);
	}
	assert_false(n.of[0].silent);
}

TEST_WITH(neighbours__heard_after_four_answers_in_a_row, begin, NULL)
{
	turns(FAN_NEIGHBOUR_DOWN + 1, false);
	assert_true(n.of[0].silent);
	for (unsigned i = 0; i < 10; i++) {
		turns(FAN_NEIGHBOUR_UP - 1, true);
		turns(1, false);
	}
	assert_true(n.of[0].silent);
	assert_int_equal(turns(FAN_NEIGHBOUR_UP + 1, true), 1);
	assert_false(n.of[0].silent);
}

/* Slow is not silent: answers to questions of a few turns ago count. */
TEST_WITH(neighbours__late_answers_count, begin, NULL)
{
	uint8_t late[FAN_ECHO_BYTES];
	fan_peer from;
	size_t bytes = 0;
	turn();
	bytes = answer_to(0, late);
	from = item[0].peer;
	for (unsigned i = 1; i < FAN_NEIGHBOUR_DOWN; i++)
		turn();
	assert_true(fan_neighbours_take(&n, &from, late, bytes));
	turn();
	assert_false(fan_neighbours_take(&n, &from, late, bytes));
}

TEST_WITH(neighbours__what_is_no_answer_does_not_count, begin, NULL)
{
	uint8_t p[FAN_ECHO_BYTES];
	turn();
	size_t bytes = answer_to(0, p);
	fan_peer from = item[0].peer, other = item[1].peer;
	assert_false(fan_neighbours_take(&n, &other, p, bytes)); /* of X, by Y */
	other = from;
	other.port++;
	assert_false(fan_neighbours_take(&n, &other, p, bytes));
	fan_out_item_copy(&item[0], p); /* its own question, sent back */
	assert_false(fan_neighbours_take(&n, &from, p, bytes));
	assert_false(n.of[0].answered);
	assert_true(answers(0));
}

TEST_WITH(neighbours__new_list_keeps_who_stays, begin, NULL)
{
	const struct fan_neighbour of[2] = {neighbour("Z", 3), neighbour("X", 1)};
	const struct fan_neighbour moved = neighbour("X", 9);
	turns(FAN_NEIGHBOUR_DOWN + 1, false);
	assert_true(n.of[0].silent);
	fan_neighbours_set(&n, 6, of, 2, now_ns);
	assert_int_equal(n.number, 6);
	assert_false(n.of[0].silent);
	assert_true(n.of[1].silent);
	n.number = 0;
	assert_int_equal(n.number, 0);
	assert_int_equal(n.count, 2);
	fan_neighbours_set(&n, 7, &moved, 1, now_ns); /* the same name elsewhere is another */
	assert_false(n.of[0].silent);
	fan_neighbours_set(&n, 8, NULL, 0, now_ns);
	assert_int_equal(n.count, 0);
	assert_false(turn());
}

/* A thread that was not run for a while has one turn for it, and blames nobody for more. */
TEST_WITH(neighbours__a_late_turn_is_one, begin, NULL)
{
	turns(2, true);
	now_ns += 60000 * FAN_MS;
	turns(FAN_NEIGHBOUR_DOWN, false);
	assert_false(n.of[0].silent);
	assert_true(n.due_ns <= now_ns);
}

UNIT_MAIN

/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregators that answer, connections, and the path past a switch. */
#include "unit/unit.h"

#include <fanin.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/err.h"
#include "lib/link/connection.h"
#include "net/echo.h"
#include "net/udp.h"

/* ---- echo ---- */

/* Which aggregators answer: a switch does, a closed port and a socket that says nothing do not. */

TEST(reach__only_switches_answer)
{
	struct fanin_switch_options o = FANIN_SWITCH_OPTIONS_INIT;
	const struct fan_udp_options mute_options = {.buffer_bytes = 65536};
	struct fan_udp mute;
	fanin_switch *sw;
	fan_peer at[4];
	bool answers[4];
	char why[256];
	assert_false(fanin_switch_start(&o, &sw, why, sizeof why));
	memset(at, 0, sizeof at);
	assert_false(fan_peer_parse(&at[0], fanin_switch_address(sw), why, sizeof why));
	assert_false(fan_peer_parse(&at[1], "127.0.0.1:9", why, sizeof why));
	struct fan_udp_options bound = mute_options;
	assert_false(fan_peer_parse(&bound.bind, "127.0.0.1:0", why, sizeof why));
	assert_false(fan_udp_open(&mute, &bound));
	at[2] = fan_udp_local(&mute);
	fan_echo_all(at, 4, answers); /* the last has no port */
	assert_true(answers[0]);
	for (int i = 1; i < 4; i++)
		assert_false(answers[i]);
	fan_udp_close(&mute);
	fanin_switch_stop(sw, 0);
}

/* ---- connection ---- */

static struct fan_connection cn;

static void open_to(const fan_peer *at)
{
	const struct fan_worker_config cfg = {.name = "j",
					      .rank = 1,
					      .ranks = 2,
					      .payload_bytes = 1408,
					      .window_max = 64,
					      .alive_ms = 10000,
					      .join_ms = 30000,
					      .stall_ms = 30000,
					      .nonce = 7};
	char why[FAN_CONNECTION_WHY_BYTES];
	assert_int_equal(fan_connection_open(&cn, &cfg, at, NULL, FAN_MS, why), FAN_OK);
}

static int begin(void **state __attribute__((unused)))
{
	cn = (struct fan_connection){.epoll_fd = epoll_create1(0)};
	return cn.epoll_fd < 0;
}

static int end(void **state __attribute__((unused)))
{
	fan_connection_close(&cn);
	close(cn.epoll_fd);
	return 0;
}

/* One that had gone past its switch begins at the switch again, and counts on its changes of path.
 */
TEST_WITH(connection__opened_again_is_at_its_switch, begin, end)
{
	fan_peer at;
	assert_true(fan_peer_read(&at, "127.0.0.1:9"));
	for (unsigned i = 0; i < 2; i++) {
		open_to(&at);
		assert_false(cn.failover.at_server);
		assert_int_equal(cn.failover.aside.fd, -1);
		assert_int_equal(cn.failover.echo.asked, 0);
		assert_int_equal(cn.failover.moves, i);
		cn.failover.at_server = true;
		cn.failover.echo.asked = 3;
		cn.failover.moves++;
		fan_connection_close(&cn);
	}
}

/* ---- failover ---- */

/* One that does not answer to join is asked, again and again, and what it answers to that is no
 * answer to join. */
TEST_WITH(failover__asks_a_switch_that_does_not_answer_to_join, begin, end)
{
	const uint64_t first_ns = FAN_MS + FAN_FAILOVER_JOIN_MS * FAN_MS;
	struct fan_udp_options o = {.buffer_bytes = 65536};
	struct fan_udp mute;
	uint8_t pkt[FAN_ECHO_BYTES], body[FAN_ECHO_MAX];
	assert_true(fan_peer_read(&o.bind, "127.0.0.1:0"));
	assert_false(fan_udp_open(&mute, &o));
	const fan_peer at = fan_udp_local(&mute);
	open_to(&at);
	assert_true(fan_failover_deadline(&cn) == first_ns);
	fan_failover_work(&cn, first_ns - 1);
	assert_int_equal(cn.failover.echo.asked, 0);
	fan_failover_work(&cn, first_ns);
	assert_int_equal(cn.failover.echo.asked, 1);
	assert_true(fan_failover_deadline(&cn) == first_ns + FAN_ECHO_MS * FAN_MS);

	const struct fan_echoed who = {.payload_bytes = 1408, .shards = 1, .window = 16};
	struct fan_frag h = {
		.type = FAN_TYPE_REPORT, .topic = FAN_TOPIC_ECHO, .nonce = cn.failover.echo.nonce};
	struct fan_out_item it;
	fan_ctl_put(body, &who);
	fan_ctl_finish(&it, &h, body, FAN_ECHO_MIN);
	const size_t bytes = fan_out_item_copy(&it, pkt);
	assert_true(fan_failover_heard(&cn.failover, pkt, bytes));
	assert_true(cn.failover.answered);
	fan_failover_came(&cn, first_ns); /* something else: what it answered before says nothing */
	assert_false(cn.failover.answered);
	assert_false(fan_failover_heard(&cn.failover, pkt, bytes));
	assert_true(fan_failover_deadline(&cn) == first_ns + FAN_FAILOVER_JOIN_MS * FAN_MS);
	fan_udp_close(&mute);
}

/* Past the switch, what the server sends says nothing of the switch. */
TEST_WITH(failover__at_the_server_the_switch_is_asked_all_the_same, begin, end)
{
	fan_peer at;
	assert_true(fan_peer_read(&at, "127.0.0.1:9"));
	open_to(&at);
	const uint64_t due_ns = fan_failover_deadline(&cn);
	assert_false(fan_connection_dial(&at, &cn.failover.aside));
	cn.failover.at_server = true;
	fan_failover_came(&cn, due_ns);
	assert_true(fan_failover_deadline(&cn) == due_ns);
	fan_failover_work(&cn, due_ns);
	assert_int_equal(cn.failover.echo.asked, 1);
	assert_int_equal(cn.failover.aside.sends, 1);
	assert_int_equal(cn.udp.sends, 0);
}

UNIT_MAIN

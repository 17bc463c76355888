/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregators that answer, and connections. */
#include "unit/unit.h"

#include <fanin.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/err.h"
#include "lib/link/connection.h"
#include "lib/link/echo_test.h"
#include "net/udp.h"

/* ---- echo_test ---- */

/* Which aggregators answer: a switch does, a closed port and a socket that says nothing do not. */

static void reach__only_switches_answer(void **state)
{
	struct fanin_switch_options o = FANIN_SWITCH_OPTIONS_INIT;
	const struct fan_udp_options mute_options = {.buffer_bytes = 65536};
	struct fan_udp mute;
	fanin_switch *sw;
	fan_peer at[4];
	bool answers[4];
	char why[256];
	(void)state;
	assert_false(fanin_switch_start(&o, &sw, why, sizeof why));
	memset(at, 0, sizeof at);
	assert_false(fan_peer_parse(&at[0], fanin_switch_address(sw), why, sizeof why));
	assert_false(fan_peer_parse(&at[1], "127.0.0.1:9", why, sizeof why));
	struct fan_udp_options bound = mute_options;
	assert_false(fan_peer_parse(&bound.bind, "127.0.0.1:0", why, sizeof why));
	assert_false(fan_udp_open(&mute, &bound));
	at[2] = fan_udp_local(&mute);
	fan_echo_test(at, 4, answers); /* the last has no port */
	assert_true(answers[0]);
	for (int i = 1; i < 4; i++)
		assert_false(answers[i]);
	fan_udp_close(&mute);
	fanin_switch_stop(sw, 0);
}

/* ---- connection ---- */

/* One that had gone past its switch begins at the switch again, and counts on its changes of path.
 */
static void connection__opened_again_is_at_its_switch(void **state)
{
	struct fan_connection cn = {.epoll_fd = epoll_create1(0)};
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
	fan_peer at;
	(void)state;
	assert_false(fan_peer_parse(&at, "127.0.0.1:9", why, sizeof why));
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fan_connection_open(&cn, &cfg, &at, NULL, FAN_MS, why), FAN_OK);
		assert_false(cn.failover.at_server);
		assert_int_equal(cn.failover.aside.fd, -1);
		assert_int_equal(cn.failover.ask_ns, 0);
		assert_int_equal(cn.failover.moves, i);
		cn.failover.at_server = true;
		cn.failover.ask_ns = FAN_MS;
		cn.failover.moves++;
		fan_connection_close(&cn);
	}
	close(cn.epoll_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reach__only_switches_answer),
		cmocka_unit_test(connection__opened_again_is_at_its_switch),
	};
	return RUN(tests);
}

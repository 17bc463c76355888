/* SPDX-License-Identifier: Apache-2.0 */
/* Which aggregators answer: a switch does, a closed port and a socket that says nothing do not. */
#include "unit/unit.h"

#include <fanin.h>
#include <string.h>

#include "lib/link/echo_test.h"
#include "net/udp.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reach__only_switches_answer),
	};
	return RUN(tests);
}

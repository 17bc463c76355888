/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ask.h"
#include "bench.h"
#include "core/switch.h"

#define TRIES 3

/* The policy of the switch at `to`.  One that shares no slots gives each job its own. */
static const char *ask_policy(const fan_peer *to)
{
	static uint8_t buffer[FAN_UDP_RECV_BYTES];
	char why[ARGS_WHY_BYTES];
	struct ask_talk t = {.buffer = buffer, .why = why};
	struct fan_tallied m = {.policy = FAN_POLICY_SWITCHML};
	const struct fan_udp_options o = {.connect = *to};
	const struct ask_question w = {FAN_TYPE_TALLY, 0, NULL, &m};
	int n = 0;

	if (fan_udp_open(&t.udp, &o))
		return "unknown";
	for (int i = 0; i < TRIES && n != 1; i++)
		n = ask_once(&t, &w);
	fan_udp_close(&t.udp);
	if (n != 1)
		return "unknown";
	return m.policy == FAN_POLICY_ATP ? "atp" : m.policy == FAN_POLICY_ESA ? "esa" : "switchml";
}

bool bench_follows(const char *switch_text)
{
	return strstr(switch_text, " (controller)") != NULL;
}

const char *bench_policy(const char *switch_text)
{
	char address[ARGS_TEXT_BYTES], why[ARGS_WHY_BYTES];
	size_t bytes = strcspn(switch_text, " "); /* " (inside rank 0)" may follow */
	fan_peer to;

	if (bench_follows(switch_text))
		return "plan";
	if (bytes >= sizeof address)
		return "unknown";
	memcpy(address, switch_text, bytes);
	address[bytes] = '\0';
	return fan_peer_parse(&to, address, why, sizeof why) ? "unknown" : ask_policy(&to);
}

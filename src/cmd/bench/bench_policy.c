/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bench.h"
#include "cmd/ask.h"
#include "core/base/policy_kind.h"
#include "core/wire/ctlmsg.h"

#define TRIES 3

/* The policy of the switch at `to`.  One that shares no slots gives each job its own. */
static const char *ask_policy(const fan_peer *to)
{
	struct ask_talk t;
	struct fan_slot_stats m = {.policy = FAN_POLICY_SWITCHML};
	const struct ask_question w = {.topic = FAN_TOPIC_SLOTS, .slots = &m};

	if (ask_open(&t, to, 0))
		return "unknown";
	const bool answered = ask_times(&t, &w, TRIES);
	fan_udp_close(&t.udp);
	return answered ? fan_policy_name(m.policy) : "unknown";
}

bool bench_follows(const char *switch_text)
{
	return strstr(switch_text, " (controller)") != NULL;
}

/* What fanin_comm_switch tells, as an address.  0, or -1. */
static int address_of(fan_peer *to, const char *switch_text)
{
	char address[ARGS_TEXT_BYTES], why[ARGS_WHY_BYTES];
	size_t bytes = strcspn(switch_text, " ,"); /* " (inside rank 0)" or others may follow */

	if (bytes >= sizeof address)
		return -1;
	memcpy(address, switch_text, bytes);
	address[bytes] = '\0';
	return fan_peer_parse(to, address, why, sizeof why) ? -1 : 0;
}

const char *bench_policy(const char *switch_text)
{
	fan_peer to;

	if (bench_follows(switch_text))
		return "plan";
	if (strncmp(switch_text, "shared memory", strlen("shared memory")) == 0)
		return "switchml"; /* of the switches inside ranks, between hosts */
	const char *policy = address_of(&to, switch_text) ? "unknown" : ask_policy(&to);
	for (const char *next = strchr(switch_text, ','); next; next = strchr(next + 1, ','))
		if (address_of(&to, next + 1) || strcmp(ask_policy(&to), policy) != 0)
			return "several"; /* or one does not answer */
	return policy;
}

/* Leave only what is about job `name`. */
static void keep_only(json_t *ranks, const char *name)
{
	for (size_t i = json_array_size(ranks); i-- > 0;) {
		const json_t *job = json_object_get(json_array_get(ranks, i), "job");
		if (*name && strcmp(json_string_value(job), name) != 0)
			json_array_remove(ranks, i);
	}
}

json_t *bench_rank_stats(const char *switch_text, const char *name, unsigned shards)
{
	struct ask_talk t;
	fan_peer to;
	json_t *ranks = json_array();

	for (unsigned s = 0; s < shards && !address_of(&to, switch_text); s++) {
		if (ask_open(&t, &to, s))
			break;
		unsigned jobs = 1;
		for (unsigned i = 0; i < FAN_JOBS_MAX && i < jobs; i++)
			jobs = rank_stats_ask(&t, i, s, ranks);
		fan_udp_close(&t.udp);
	}
	keep_only(ranks, name);
	return ranks;
}

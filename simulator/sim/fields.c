/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/recovery/congestion.h"
#include "file/text.h"
#include "scenario.h"

#define WORDS_BYTES 160
#define BPS_MAX	    UINT64_C(100000000000000)  /* 100 Tb/s */
#define TIME_MAX    UINT64_C(1000000000000000) /* a million seconds */
#define DELAY_MAX   UINT64_C(10000000000)      /* 10 s */
#define MILLION	    1000000
#define U32_MAX	    UINT32_MAX

enum kind {
	TEXT,  /* char[FAN_FIELD_NAME] */
	WORD,  /* int: the index in `words` */
	WORD8, /* uint8_t: the same */
	BOOL,
	U16, /* whole numbers */
	U32,
	U64,
	OTHER, /* read elsewhere */
};

struct field {
	const char *object, *key;
	enum kind kind;
	size_t at; /* offset in the struct */
	uint64_t least, most;
	const char *const *words; /* ended by NULL; "": none has this index */
};

static const char *const kinds[] = {"worker", "switch", "server", "router", NULL};
static const char *const modes[] = {"native", "fixed", NULL};
static const char *const wires[] = {"float32", "float16", "bfloat16", "",     "",  "",
				    "",	       "",	  "",	      "int8", NULL};
static const char *const reduces[] = {"fanin", "ring", "tree", "two-level-ring", NULL};
static const char *const priorities[] = {"remaining", "attained", "started", "none", NULL};
const char *const fan_tcp_kinds[] = {"cubic", "dctcp", NULL};
const char *const fan_scenario_policies[] = {FAN_POLICY_NAMES, "none", NULL};
const char *const fan_scenario_congestions[] = {FAN_CONGESTION_NAMES, NULL};

#define AT(type, member) offsetof(struct fan_##type, member)
#define S(member)	 AT(scenario, member)
#define N(member)	 AT(scenario_node, member)
#define L(member)	 AT(scenario_link, member)
#define J(member)	 AT(scenario_job, member)
#define C(member)	 AT(scenario_job, cfg.member)
#define W(member)	 AT(slow, member)
#define B(member)	 AT(scenario_flow, member)
#define T(member)	 AT(scenario_tcp, member)
#define X(member)	 AT(scenario_change, member)
#define R(member)	 AT(scenario_route, member)
#define E(member)	 AT(scenario_entry, member)

/* clang-format off */
static const struct field fields[] = {
	{"scenario", "name", TEXT, S(name), 0, 0, NULL},
	{"scenario", "seed", U64, S(seed), 0, UINT64_C(1) << 53, NULL},
	{"scenario", "limit_ns", U64, S(limit_ns), 1000, TIME_MAX, NULL},
	{"scenario", "sample_ns", U64, S(sample_ns), 1000, TIME_MAX, NULL},
	{"scenario", "ecmp", BOOL, S(ecmp), 0, 0, NULL},
	{"scenario", "nodes", OTHER, 0, 0, 0, NULL},
	{"scenario", "links", OTHER, 0, 0, 0, NULL},
	{"scenario", "models", OTHER, 0, 0, 0, NULL},
	{"scenario", "jobs", OTHER, 0, 0, 0, NULL},
	{"scenario", "background", OTHER, 0, 0, 0, NULL},
	{"scenario", "flows", OTHER, 0, 0, 0, NULL},
	{"scenario", "changes", OTHER, 0, 0, 0, NULL},
	{"scenario", "routes", OTHER, 0, 0, 0, NULL},

	{"node", "name", TEXT, N(name), 0, 0, NULL},
	{"node", "kind", WORD, N(kind), 0, 0, kinds},
	{"node", "policy", WORD, N(policy), 0, 0, fan_scenario_policies},
	{"node", "bps", U64, N(bps), 1, BPS_MAX, NULL},
	{"node", "sums_bps", U64, N(sums_bps), 1, BPS_MAX, NULL},
	{"node", "ecn_bytes", U32, N(ecn_bytes), 0, FAN_LINK_QUEUE_MAX, NULL},
	{"node", "slots", U32, N(slots), 1, FAN_SLOTS_MAX, NULL},
	{"node", "window", U32, N(window), 2, FAN_WINDOW_MAX, NULL},
	{"node", "jobs", U32, N(jobs), 1, FAN_JOBS_MAX, NULL},
	{"node", "buffer_bytes", U32, N(buffer_bytes), 0, U32_MAX, NULL},
	{"node", "ahead_max", U16, N(ahead_max), 0, FAN_AHEAD_MAX, NULL},
	{"node", "quota", U32, N(quota), 0, FAN_SLOTS_MAX, NULL},
	{"node", "free_early", BOOL, N(free_early), 0, 0, NULL},
	{"node", "preemption", BOOL, N(preemption), 0, 0, NULL},
	{"node", "ageing", BOOL, N(ageing), 0, 0, NULL},
	{"node", "priorities", BOOL, N(priorities), 0, 0, NULL},
	{"node", "reminders", BOOL, N(reminders), 0, 0, NULL},
	{"node", "payload_bytes", U16, N(payload_bytes), FAN_PAYLOAD_MIN, FAN_PAYLOAD_MAX, NULL},
	{"node", "multicast", BOOL, N(multicast), 0, 0, NULL},
	{"node", "server", U32, N(server), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"node", "parent", U32, N(parent), 0, FAN_SCENARIO_NODES_MAX, NULL},

	{"link", "a", U32, L(a), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"link", "b", U32, L(b), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"link", "bps", U64, L(cfg.bps), 1, BPS_MAX, NULL},
	{"link", "back_bps", U64, L(back_bps), 1, BPS_MAX, NULL},
	{"link", "delay_ns", U64, L(cfg.delay_ns), 0, DELAY_MAX, NULL},
	{"link", "queue_bytes", U32, L(cfg.queue_bytes), 64, FAN_LINK_QUEUE_MAX, NULL},
	{"link", "ecn_bytes", U32, L(cfg.ecn_bytes), 0, FAN_LINK_QUEUE_MAX, NULL},
	{"link", "overhead_bytes", U32, L(cfg.overhead_bytes), 0, 1000, NULL},
	{"link", "loss", U32, L(cfg.fault.loss), 0, MILLION, NULL},
	{"link", "loss_burst", U32, L(cfg.fault.burst), 0, MILLION, NULL},
	{"link", "loss_burst_ns", U64, L(cfg.fault.burst_ns), 0, DELAY_MAX, NULL},
	{"link", "duplicate", U32, L(cfg.fault.duplicate), 0, MILLION, NULL},
	{"link", "reorder", U32, L(cfg.fault.reorder), 0, MILLION, NULL},
	{"link", "reorder_ns", U64, L(cfg.fault.reorder_ns), 0, DELAY_MAX, NULL},
	{"link", "corrupt", U32, L(cfg.fault.corrupt), 0, MILLION, NULL},
	{"link", "jitter_ns", U64, L(cfg.fault.jitter_ns), 0, DELAY_MAX, NULL},

	{"job", "name", TEXT, C(name), 0, 0, NULL},
	{"job", "model", U32, J(model), 0, FAN_SCENARIO_JOBS_MAX, NULL},
	{"job", "hosts", OTHER, 0, 0, 0, NULL},
	{"job", "seats", OTHER, 0, 0, 0, NULL},
	{"job", "slow", OTHER, 0, 0, 0, NULL},
	{"job", "at", U32, J(at), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"job", "shared", BOOL, J(shared), 0, 0, NULL},
	{"job", "tensor", TEXT, J(tensor), 0, 0, NULL},
	{"job", "reduce", WORD, J(reduce), 0, 0, reduces},
	{"job", "bucket_bytes", U64, J(bucket_bytes), 0, UINT64_C(1) << 53, NULL},
	{"job", "arrival_ns", U64, C(arrival_ns), 0, TIME_MAX * (FAN_SCENARIO_JOBS_MAX + 1), NULL},
	{"job", "iterations", U32, C(iterations), 1, MILLION, NULL},
	{"job", "payload_bytes", U16, C(payload_bytes), FAN_PAYLOAD_MIN, FAN_PAYLOAD_MAX, NULL},
	{"job", "pace_bps", U64, C(pace_bps), 1, BPS_MAX, NULL},
	{"job", "window", U16, C(window), 2, FAN_WINDOW_MAX, NULL},
	{"job", "ahead", U16, C(ahead), 0, FAN_AHEAD_MAX, NULL},
	{"job", "cache_frags", U32, C(cache_frags), 0, FAN_CACHE_MAX, NULL},
	{"job", "mode", WORD8, C(mode), 0, 0, modes},
	{"job", "wire", WORD8, C(wire), 0, 0, wires},
	{"job", "priority", WORD8, C(priority), 0, 0, priorities},
	{"job", "congestion", WORD8, C(congestion), 0, 0, fan_scenario_congestions},
	{"job", "overlap", BOOL, C(overlap), 0, 0, NULL},
	{"job", "verify", BOOL, C(verify), 0, 0, NULL},
	{"job", "jitter", U32, C(jitter), 0, MILLION, NULL},
	{"job", "pareto", U32, C(pareto), 0, 1000 * MILLION, NULL},
	{"job", "route", U16, C(route), 1, UINT16_MAX, NULL},
	{"job", "retries", U32, C(retries), 0, 1000, NULL},
	{"job", "alive_ms", U32, C(alive_ms), 100, 600000, NULL},
	{"job", "stall_ms", U32, C(stall_ms), 100, 100000000, NULL},

	{"slow", "rank", U32, W(rank), 0, FAN_WORKERS_MAX - 1, NULL},
	{"slow", "ranks", U32, W(ranks), 0, FAN_WORKERS_MAX, NULL},
	{"slow", "computes", BOOL, W(computes), 0, 0, NULL},
	{"slow", "sends", BOOL, W(sends), 0, 0, NULL},
	{"slow", "speed", U32, W(speed), 1, MILLION, NULL},
	{"slow", "from_ns", U64, W(from_ns), 0, TIME_MAX, NULL},
	{"slow", "to_ns", U64, W(to_ns), 1, TIME_MAX, NULL},
	{"slow", "interval_ns", U64, W(interval_ns), 1000, TIME_MAX, NULL},
	{"slow", "chance", U32, W(chance), 0, MILLION, NULL},

	{"background", "from", U32, B(from), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"background", "to", U32, B(to), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"background", "bps", U64, B(bps), 1, BPS_MAX, NULL},
	{"background", "packet_bytes", U16, B(packet_bytes), 64, 9000, NULL},
	{"background", "start_ns", U64, B(start_ns), 0, TIME_MAX, NULL},
	{"background", "stop_ns", U64, B(stop_ns), 0, TIME_MAX, NULL},
	{"background", "jitter", U32, B(jitter), 0, MILLION, NULL},

	{"flow", "from", U32, T(from), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"flow", "to", U32, T(to), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"flow", "kind", WORD, T(kind), 0, 0, fan_tcp_kinds},
	{"flow", "start_ns", U64, T(start_ns), 0, TIME_MAX, NULL},
	{"flow", "stop_ns", U64, T(stop_ns), 0, TIME_MAX, NULL},
	{"flow", "bytes", U64, T(bytes), 1, TIME_MAX, NULL},
	{"flow", "ack_segments", U32, T(ack_segments), 1, 64, NULL},

	{"change", "at_ns", U64, X(at_ns), 0, TIME_MAX, NULL},
	{"change", "link", U32, X(link), 0, FAN_SCENARIO_LINKS_MAX, NULL},
	{"change", "bps", U64, X(bps), 1, BPS_MAX, NULL},
	{"change", "down", BOOL, X(down), 0, 0, NULL},
	{"change", "up", BOOL, X(up), 0, 0, NULL},
	{"change", "node", U32, X(node), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"change", "restart_ns", U64, X(restart_ns), 0, TIME_MAX, NULL},

	{"route", "path", OTHER, 0, 0, 0, NULL},
	{"route", "node", U32, R(node), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"route", "number", U16, R(number), 1, UINT16_MAX, NULL},
	{"route", "quota", U32, R(quota), 0, FAN_SLOTS_MAX, NULL},
	{"route", "entries", OTHER, 0, 0, 0, NULL},

	{"entry", "from", U32, E(from), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"entry", "next", U32, E(next), 0, FAN_SCENARIO_NODES_MAX, NULL},
	{"entry", "depth", U16, E(depth), 1, FAN_ROUTE_HOPS_MAX, NULL},
	{"entry", "sums", BOOL, E(sums), 0, 0, NULL},
	{"entry", "ranks", OTHER, 0, 0, 0, NULL},
};
/* clang-format on */

int fan_reader_fail(struct fan_reader *r, const char *key, const char *format, ...)
{
	struct fan_text t = fan_text_in(r->why, sizeof r->why);
	va_list args;
	fan_text_add(&t, "%s%s%s: ", r->path, r->path[0] && key ? "." : "", key ? key : "");
	va_start(args, format);
	fan_text_vadd(&t, format, args);
	va_end(args);
	fan_text_plain(r->why);
	return -1;
}

static int read_text(struct fan_reader *r, const json_t *v, const struct field *f, char *to)
{
	const char *s = json_string_value(v);
	if (!s || strlen(s) >= FAN_FIELD_NAME)
		return fan_reader_fail(r, f->key, "expected a text of at most %d bytes",
				       FAN_FIELD_NAME - 1);
	memcpy(to, s, strlen(s) + 1);
	return 0;
}

static int read_word(struct fan_reader *r, const json_t *v, const struct field *f, void *to)
{
	const char *s = json_string_value(v);
	char all[WORDS_BYTES];
	struct fan_text t = fan_text_in(all, sizeof all);
	for (int i = 0; f->words[i]; i++) {
		if (s && *s && strcmp(s, f->words[i]) == 0) {
			if (f->kind == WORD8)
				*(uint8_t *)to = (uint8_t)i;
			else
				*(int *)to = i;
			return 0;
		}
		if (*f->words[i])
			fan_text_add(&t, "%s%s", i ? ", " : "", f->words[i]);
	}
	return fan_reader_fail(r, f->key, "expected one of %s", all);
}

static int read_number(struct fan_reader *r, const json_t *v, const struct field *f, void *to)
{
	json_int_t n = json_integer_value(v);
	if (!json_is_integer(v) || n < 0 || (uint64_t)n < f->least || (uint64_t)n > f->most)
		return fan_reader_fail(r, f->key, "expected a whole number from %llu to %llu",
				       (unsigned long long)f->least, (unsigned long long)f->most);
	if (f->kind == U16)
		*(uint16_t *)to = (uint16_t)n;
	else if (f->kind == U32)
		*(uint32_t *)to = (uint32_t)n;
	else
		*(uint64_t *)to = (uint64_t)n;
	return 0;
}

static int read_field(struct fan_reader *r, const json_t *v, const struct field *f, void *to)
{
	switch (f->kind) {
	case TEXT: return read_text(r, v, f, to);
	case WORD:
	case WORD8: return read_word(r, v, f, to);
	case OTHER: return 0;
	case BOOL:
		if (!json_is_boolean(v))
			return fan_reader_fail(r, f->key, "expected true or false");
		*(bool *)to = json_is_true(v);
		return 0;
	default: return read_number(r, v, f, to);
	}
}

int fan_fields_read(struct fan_reader *r, const json_t *object, const char *kind, void *to)
{
	const size_t count = sizeof fields / sizeof *fields;
	const char *key;
	size_t first = 0;
	json_t *v;
	if (!json_is_object(object))
		return fan_reader_fail(r, NULL, "expected an object");
	while (first < count && strcmp(fields[first].object, kind))
		first++;
	json_object_foreach ((json_t *)object, key, v) {
		size_t i = first;
		while (i < count && strcmp(fields[i].key, key))
			i++;
		if (i == count || strcmp(fields[i].object, kind))
			return fan_reader_fail(r, key, "no such key");
		if (read_field(r, v, &fields[i], (uint8_t *)to + fields[i].at))
			return -1;
	}
	return 0;
}

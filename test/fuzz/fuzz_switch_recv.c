/* SPDX-License-Identifier: Apache-2.0 */
/* A switch.  The input is a list of datagrams with right checksums, from workers,
 * switches below, strangers and the aggregator.  Whatever comes: what leaves is well formed and
 * goes to somebody, drops are counted, and the job's own sums are still right.
 * Target routed_recv is this file, too; there the job has a route. */
#include "core/switch/switch_priv.h"
#include "packets.h"

#define NODES	      6 /* 0: the aggregator */
#define AUDIT_PACKETS 4 /* from one look at all that must hold to the next */
#define CORE	      5
#define RANKS	      4

#ifdef FUZZ_routed_recv
#define ROUTES 1
#define JOB    (5u << FAN_ROUTE_BITS | 1)
#else
#define ROUTES 0
#define JOB    1
#endif

static _Alignas(64) uint8_t memory[2 << 20];
static struct fan_switch *sh;
static uint64_t now_ns, dropped;
static uint8_t beat; /* flags of BEATs */

static fan_peer node(unsigned i)
{
	return (fan_peer){.addr = {7, i + 1}, .port = 1};
}

static void give(unsigned from, const uint8_t *packet, size_t len, bool marked)
{
	struct fan_out_item item[FAN_SWITCH_OUT_MAX];
	uint8_t scratch[FAN_SWITCH_OUT_MAX * 256], copy[FAN_PACKET_MAX];
	struct fan_out out;
	fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
	dropped += fan_switch_recv(sh, now_ns, node(from), packet, len, marked, &out) == FAN_DROP;
	if (fan_switch_stats(sh)->packets % AUDIT_PACKETS == 0)
		fan_switch_audit(sh);
	for (unsigned i = 0; i < out.count; i++) {
		struct fan_frag f;
		fuzz_look(copy, &item[i], &f);
	}
}

static void send(unsigned from, struct fan_frag *f, const uint8_t *body, size_t bytes)
{
	uint8_t packet[1024];
	give(from, packet, fuzz_put(packet, f, body, bytes), false);
}

/* The rank's BEAT, in an envelope if `token`, and the aggregator's answer. */
static void introduce(unsigned from, uint16_t rank, uint16_t token)
{
	uint8_t body[256], packet[512];
	const struct fan_beat m = {.flags = beat};
	const struct fan_state s = {.state = FAN_JOB_READY};
	struct fan_envelope v = {.token = token};
	struct fan_frag h = {
		.nonce = 1, .job = JOB, .epoch = 2, .sender = rank, .type = FAN_TYPE_BEAT};
	size_t len = fuzz_put_control(packet, &h, body, fan_ctl_put(body, &m), &v, 0, 0);
	give(from, packet, len, false);
	v = (struct fan_envelope){.rank = rank, .ranks = RANKS, .window = 4, .payload_bytes = 64};
	for (v.token = 1; v.token <= 8; v.token++) { /* one of these is the rank's */
		h = (struct fan_frag){.job = JOB, .epoch = 2, .type = FAN_TYPE_STATE};
		h.sender = FAN_RANK_NONE;
		len = fuzz_put_control(packet, &h, body, fan_ctl_put(body, &s), &v, JOB, 2);
		give(0, packet, len, false);
		if (ROUTES)
			give(CORE, packet, len, false);
	}
}

/* Ranks 1 and 2 are summed here; 0, and 3 from node 4, at the core, whose sum comes back. */
static void install(void)
{
	const struct fan_route_entry entry[] = {
		{.next = node(CORE), .ranks = {0x1}, .depth = 3},
		{.next = node(0), .ranks = {0x6}, .depth = 1, .sums = true},
		{.from = node(4), .next = node(CORE), .ranks = {0x8}, .depth = 3},
		{.from = node(CORE), .next = node(0), .ranks = {0x9}, .depth = 1},
	};
	const struct fan_route_config c = {.number = 5, .entry = entry, .entries = 4};
	FUZZ_CHECK(fan_switch_route(sh, &c) == FAN_OK);
}

static void fragment(struct fuzz *z, unsigned from)
{
	static const uint8_t types[] = {FAN_TYPE_DATA,	FAN_TYPE_DATA,	  FAN_TYPE_PARTIAL,
					FAN_TYPE_PROBE, FAN_TYPE_NEED,	  FAN_TYPE_RESULT,
					FAN_TYPE_FLUSH, FAN_TYPE_PROGRESS};
	uint8_t body[512], kind = fuzz_8(z);
	struct fan_frag f = {.frag = fuzz_frag(z), .job = JOB, .epoch = 2, .type = types[kind & 7]};
	f.sender = kind & 8 ? fuzz_8(z) : (uint16_t)(from ? from - 1 : 0);
	send(from, &f, body, fuzz_part(z, &f, kind, body));
}

static void raw(struct fuzz *z, unsigned from)
{
	uint8_t packet[255];
	give(from, packet, fuzz_raw(z, packet), true);
}

/* The pairs of ranks can be asked for to their end. */
static void ask_helps(void)
{
	uint8_t packet[512], body[FAN_REPORT_BYTES], scratch[FAN_SWITCH_OUT_MAX * 256];
	struct fan_out_item item[FAN_SWITCH_OUT_MAX];
	struct fan_query q = {.index = 0};
	struct fan_helper_stats m;
	unsigned asked = 0;
	do {
		struct fan_frag f = {.type = FAN_TYPE_QUERY,
				     .topic = FAN_TOPIC_HELPERS,
				     .sender = FAN_RANK_NONE};
		struct fan_out out;
		fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
		size_t len = fuzz_put(packet, &f, body, fan_ctl_put(body, &q));
		fan_switch_recv(sh, now_ns, node(NODES), packet, len, false, &out);
		FUZZ_CHECK(out.count == 1);
		fuzz_look(packet, &item[0], &f);
		FUZZ_CHECK(f.type == FAN_TYPE_REPORT && f.topic == FAN_TOPIC_HELPERS);
		FUZZ_CHECK(fan_ctl_get(&m, &f) == FAN_OK);
		FUZZ_CHECK(++asked <= FAN_RANKS_MAX);
		q.first = m.next;
	} while (m.next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = {data, size};
	uint8_t first = fuzz_8(&z);
	const struct fan_switch_config cfg = {
		.policy = !(first & 1) ? FAN_POLICY_ATP
			  : size % 3   ? FAN_POLICY_ESA
				       : FAN_POLICY_GRID,
		.slots = 1 + (first >> 1 & 3),
		.quota = first >> 3 & 1,
		.payload_bytes = 64,
		.children_max = 8,
		.spares = 1,
		.options = first >> 4,
		.routes = ROUTES,
		.aggregator = node(0),
	};
	now_ns = FAN_MS;
	dropped = 0;
	beat = size % 2 ? FAN_BEAT_AHEAD | FAN_BEAT_HELPER : 0;
	if (fan_switch_bytes(&cfg) > sizeof memory)
		abort();
	sh = fan_switch_init(memory, &cfg);
	if (ROUTES)
		install();
	for (uint16_t r = 0; r < RANKS; r++)
		introduce(1u + r, r, r == 3 ? 9 : 0);
	while (z.left) {
		uint8_t what = fuzz_8(&z);
		unsigned from = (what & 7) % NODES;
		switch (what >> 3 & 7) {
		case 0: raw(&z, from); break;
		case 1: {
			uint16_t rank = fuzz_8(&z) % 5;
			introduce(from, rank, fuzz_8(&z) % 3);
			break;
		}
		case 2:
			now_ns += (uint64_t)fuzz_16(&z) << 20;
			fan_switch_tick(sh, now_ns);
			FUZZ_CHECK(fan_switch_deadline(sh) > now_ns);
			break;
		default: fragment(&z, from); break;
		}
	}
	fan_switch_audit(sh);
	ask_helps();
	struct fan_switch_report r;
	fan_switch_report(sh, &r);
	FUZZ_CHECK(r.slots_used <= cfg.slots);
	uint64_t counted = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		counted += fan_switch_stats(sh)->drops[i];
	FUZZ_CHECK(counted == dropped);
	return 0;
}

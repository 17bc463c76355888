/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator.h - the aggregator under test of a fuzz target, which says what leaves by look_at().
 */
#ifndef TEST_FUZZ_AGGREGATOR_H
#define TEST_FUZZ_AGGREGATOR_H

#include "core/aggregator/aggregator.h"
#include "packets.h"

static _Alignas(64) uint8_t memory[1 << 20];
static struct fan_aggregator *sw;
static uint64_t now_ns, dropped;
static uint32_t job[2], epoch[2]; /* the job that is attacked, and the one beside it */
static uint64_t cookie[256];
static int32_t result;	   /* the last RESULT of one int32 */
static size_t asked_bytes; /* the datagram that is answered */

static void look_at(const struct fan_out *out);

static void begin(const struct fan_aggregator_config *cfg)
{
	now_ns = FAN_MS;
	dropped = 0;
	if (fan_aggregator_bytes(cfg) > sizeof memory)
		abort();
	sw = fan_aggregator_init(memory, cfg);
}

static fan_peer node(unsigned i)
{
	return (fan_peer){.addr = {7, i + 1}, .port = 1};
}

static void give(unsigned from, const uint8_t *packet, size_t len)
{
	struct fan_out_item item[FAN_AGGREGATOR_OUT_MAX];
	uint8_t scratch[FAN_AGGREGATOR_OUT_MAX * 256];
	struct fan_out out;
	fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
	asked_bytes = len;
	dropped += fan_aggregator_recv(sw, now_ns, node(from), packet, len, now_ns & 1, &out) ==
		   FAN_DROP;
	look_at(&out);
	fan_aggregator_audit(sw);
}

static void send(unsigned from, struct fan_frag *f, const uint8_t *body, size_t bytes)
{
	uint8_t packet[FAN_PACKET_MAX];
	give(from, packet, fuzz_put(packet, f, body, bytes));
}

/* Let it do all that time asks for, in `ticks_max` ticks at most. */
static void tick(unsigned ticks_max)
{
	struct fan_out_item item[FAN_AGGREGATOR_OUT_MAX];
	uint8_t scratch[FAN_AGGREGATOR_OUT_MAX * FAN_ITEM_SCRATCH];
	struct fan_out out;
	fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
	for (unsigned i = 0; fan_aggregator_deadline(sw) <= now_ns; i++) {
		FUZZ_CHECK(i < ticks_max);
		fan_aggregator_tick(sw, now_ns, &out);
		look_at(&out);
		fan_out_reset(&out);
		fan_aggregator_audit(sw);
	}
}

/* All that was dropped is counted. */
static void check_drops(void)
{
	uint64_t counted = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		counted += fan_aggregator_stats(sw)->drops[i];
	FUZZ_CHECK(counted == dropped);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include "wire.h"

/* Offsets in a header; wire.h has its picture. */
#define TYPE_AT	 1
#define FLAGS_AT 2
#define SEQ_AT	 14
#define FRAG_AT	 16
#define KIND_AT	 24 /* up to MORE_AT: what fragments of an operation have in common */
#define MORE_AT	 31 /* how many fragments of a run follow the first */
#define CHECK_AT 32

static bool may_be_run(const uint8_t *head)
{
	return (head[TYPE_AT] == FAN_TYPE_DATA || head[TYPE_AT] == FAN_TYPE_RESULT) &&
	       fan_get16(head + FLAGS_AT) & FAN_F_EMPTY;
}

static bool same_target(const struct fan_out_item *a, const struct fan_out_item *b)
{
	return a->dest == b->dest && (a->dest == FAN_TO_GROUP ? a->group == b->group
							      : fan_peer_equal(&a->peer, &b->peer));
}

/* Is `it` the fragment behind the `frags` that begin with `run`? */
static bool continues(const struct fan_out_item *run, unsigned frags, const struct fan_out_item *it)
{
	const uint8_t *a = run->head, *b = it->head;
	return memcmp(a, b, SEQ_AT) == 0 &&
	       fan_get16(b + SEQ_AT) == (uint16_t)(fan_get16(a + SEQ_AT) + frags) &&
	       fan_get64(b + FRAG_AT) == fan_get64(a + FRAG_AT) + frags &&
	       memcmp(a + KIND_AT, b + KIND_AT, MORE_AT - KIND_AT) == 0;
}

static void finish(struct fan_out_item *run, unsigned frags)
{
	if (frags < 2)
		return;
	fan_put16(run->head + FLAGS_AT, fan_get16(run->head + FLAGS_AT) | FAN_F_RUN);
	run->head[MORE_AT] = (uint8_t)(frags - 1);
	fan_wire_recheck(run->head, FAN_HEAD_BYTES);
}

void fan_run_pack(struct fan_out *out, bool all)
{
	struct fan_out_item *run = NULL;
	unsigned frags = 0;
	for (unsigned i = 0; i < out->count; i++) {
		struct fan_out_item *it = &out->item[i];
		bool may = all || (it->dest == FAN_TO_GROUP && it->group->reads_runs);
		if (!may || it->payload_bytes || !may_be_run(it->head))
			continue;
		bool same = run && (all || same_target(run, it)); /* a worker's have no peer */
		if (same && frags < FAN_RUN_MAX && continues(run, frags, it)) {
			it->dest = FAN_TO_NOBODY;
			frags++;
			continue;
		}
		finish(run, frags);
		run = it;
		frags = 1;
	}
	finish(run, frags);
}

unsigned fan_run_frags(const uint8_t *pkt, size_t len)
{
	if (len != FAN_HEAD_BYTES || !(fan_get16(pkt + FLAGS_AT) & FAN_F_RUN))
		return 1;
	unsigned frags = pkt[MORE_AT] + 1u;
	bool is_run = may_be_run(pkt) && frags >= 2 && frags <= FAN_RUN_MAX;
	return is_run && fan_wire_is_whole(pkt, len) ? frags : 1;
}

void fan_run_take(uint8_t *head, const uint8_t *pkt, unsigned n)
{
	memcpy(head, pkt, FAN_HEAD_BYTES);
	fan_put16(head + FLAGS_AT, (uint16_t)(fan_get16(pkt + FLAGS_AT) & ~FAN_F_RUN));
	fan_put16(head + SEQ_AT, (uint16_t)(fan_get16(pkt + SEQ_AT) + n));
	fan_put64(head + FRAG_AT, fan_get64(pkt + FRAG_AT) + n);
	head[MORE_AT] = 0;
	fan_wire_recheck(head, FAN_HEAD_BYTES);
}

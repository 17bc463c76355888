/* SPDX-License-Identifier: Apache-2.0 */
/* Any datagram: what is accepted promises what it carries, and encodes to itself. */
#include "core/sum/contribution.h"
#include "core/wire/envelope.h"
#include "core/wire/run.h"
#include "fuzz.h"

#define COMMON_BYTES 16u

static void check_bitmap(const struct fan_frag *f)
{
	struct fan_contribution p;
	uint64_t set[FAN_RANK_WORDS];
	const unsigned ranks = 2 + (unsigned)(f->frag % (FAN_RANKS_MAX - 1));
	FUZZ_CHECK(f->words >= 1 && f->words <= FAN_RANK_WORDS);
	bool named = fan_partial_ranks(set, f, ranks);
	FUZZ_CHECK(!named || (fan_ranks_first(set) < ranks && fan_ranks_count(set) >= 1));
	if (f->type == FAN_TYPE_NEED || fan_contribution_get(&p, f, ranks) >= 0)
		return;
	FUZZ_CHECK(named && fan_ranks_equal(p.ranks, set) && p.first == fan_ranks_first(set));
	FUZZ_CHECK(p.elements + p.bytes == f->payload + f->payload_bytes);
	FUZZ_CHECK(p.bytes == (f->flags & FAN_F_EMPTY ? 0 : fan_partial_acc_bytes(f)));
}

static void check_relay(const struct fan_frag *f)
{
	struct fan_envelope v;
	struct fan_frag inner;
	if (fan_envelope_get(&v, f) == FAN_OK)
		fan_wire_get(&inner, v.inner, v.inner_bytes);
}

/* What `f` says is in the header again.  Where its type has no field, zeros are written, and
 * whatever came is not looked at. */
static void check_again(const struct fan_frag *f, const uint8_t *p, size_t len)
{
	static uint8_t packet[FAN_PACKET_MAX];
	uint8_t again[FAN_HEAD_BYTES];
	struct fan_frag g;
	if (len > sizeof packet)
		return;
	memcpy(packet, p, len);
	fan_wire_put(packet, f);
	FUZZ_CHECK(memcmp(packet, p, COMMON_BYTES) == 0);
	for (size_t i = COMMON_BYTES; i < FAN_HEAD_BYTES - 4; i++)
		FUZZ_CHECK(packet[i] == p[i] || packet[i] == 0);
	FUZZ_CHECK(fan_wire_get(&g, packet, len) == -1);
	fan_wire_put(again, &g);
	FUZZ_CHECK(memcmp(again, packet, sizeof again) == 0);
}

static void check(const uint8_t *p, size_t len)
{
	struct fan_frag f;
	int why = fan_wire_get(&f, p, len);
	FUZZ_CHECK(why >= -1 && why < FAN_DROP_COUNT);
	if (why >= 0)
		return;
	FUZZ_CHECK(f.payload == p + FAN_HEAD_BYTES && f.payload_bytes == len - FAN_HEAD_BYTES);
	FUZZ_CHECK(f.type > FAN_TYPE_RESULT || fan_dtype_bytes(f.dtype) > 0);
	FUZZ_CHECK(f.to <= FAN_RANKS_MAX && f.helper <= FAN_RANKS_MAX && f.root <= FAN_RANKS_MAX);
	if (f.type == FAN_TYPE_PARTIAL || (f.type == FAN_TYPE_NEED && f.words))
		check_bitmap(&f);
	if (f.type == FAN_TYPE_RELAY)
		check_relay(&f);
	check_again(&f, p, len);
}

/* Whatever claims to be a run has a length within bounds, and what is taken out is no run. */
static void check_run(const uint8_t *p, size_t len)
{
	uint8_t head[FAN_HEAD_BYTES];
	unsigned frags = fan_run_frags(p, len);
	FUZZ_CHECK(frags >= 1 && frags <= FAN_RUN_MAX);
	for (unsigned n = 0; frags > 1 && n < frags; n++) {
		fan_run_take(head, p, n);
		FUZZ_CHECK(fan_run_frags(head, sizeof head) == 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t packet[FAN_PACKET_MAX];
	check(data, size);
	if (size > sizeof packet)
		return 0;
	memcpy(packet, data, size);
	fuzz_fix(packet, size);
	check(packet, size);
	fan_wire_is_whole(data, size);
	check_run(packet, size);
	return 0;
}

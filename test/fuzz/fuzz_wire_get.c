/* SPDX-License-Identifier: Apache-2.0 */
/* Any datagram: what is accepted promises what it carries, and encodes to itself. */
#include "core/partial.h"
#include "core/via.h"
#include "fuzz.h"

static void check_bitmap(const struct fan_frag *f)
{
	struct fan_partial p;
	const unsigned ranks = 2 + (unsigned)(f->frag % (FAN_RANKS_MAX - 1));
	FUZZ_CHECK(f->type == FAN_TYPE_DATA || f->type == FAN_TYPE_NEED);
	if (!fan_partial_get(&p, f, ranks))
		return;
	FUZZ_CHECK(p.first < ranks && fan_ranks_count(p.ranks) >= 1);
	FUZZ_CHECK(p.elements + p.bytes == f->payload + f->payload_bytes);
	bool some = f->type == FAN_TYPE_DATA && !(f->flags & FAN_F_EMPTY);
	FUZZ_CHECK(p.bytes == (some ? fan_partial_acc_bytes(f) : 0));
}

static void check_via(const struct fan_frag *f)
{
	struct fan_via v;
	struct fan_frag inner;
	if (fan_via_get(&v, f) == FAN_OK)
		fan_wire_get(&inner, v.inner, v.inner_bytes);
}

static void check(const uint8_t *p, size_t len)
{
	struct fan_frag f;
	int why = fan_wire_get(&f, p, len);
	FUZZ_CHECK(why >= -1 && why < FAN_DROP_COUNT);
	if (why >= 0)
		return;
	FUZZ_CHECK(f.payload == p + FAN_HEAD_BYTES && f.payload_bytes == len - FAN_HEAD_BYTES);
	bool elements = f.type == FAN_TYPE_DATA || f.type == FAN_TYPE_RESULT;
	FUZZ_CHECK(!elements || fan_dtype_bytes(f.dtype) > 0);
	FUZZ_CHECK((f.flags & ~FAN_F_KNOWN) == 0);
	if (f.type < FAN_TYPE_CTL && f.flags & FAN_F_PARTIAL)
		check_bitmap(&f);
	if (f.type == FAN_TYPE_VIA)
		check_via(&f);
	uint8_t again[FAN_HEAD_BYTES];
	fan_wire_put(again, &f);
	FUZZ_CHECK(memcmp(again, p, sizeof again) == 0);
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
	return 0;
}

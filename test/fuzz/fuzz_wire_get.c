/* SPDX-License-Identifier: Apache-2.0 */
/* Any datagram: what is accepted promises what it carries, and encodes to itself. */
#include "fuzz.h"

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

/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of control messages: the first byte chooses the kind.  What is accepted encodes
 * to the same bytes, as far as this revision knows them. */
#include "core/wire/ctlmsg.h"
#include "fuzz.h"

#define BODY_MAX	 (FAN_CTL_BYTES_MAX - FAN_HEAD_BYTES)
#define REPORT		 6u /* its kind */
#define REPORT_AGE_BYTES 6u /* age and operations, which may be absent */

#define TRY(type)                                                                                  \
	do {                                                                                       \
		struct fan_##type m;                                                               \
		memset(&m, 0, sizeof m);                                                           \
		if (fan_##type##_get(&m, &f) == FAN_OK)                                            \
			bytes = fan_##type##_put(again, &m);                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct fan_frag f = {.payload = data + 1, .payload_bytes = size - 1};
	uint8_t again[BODY_MAX];
	size_t bytes = 0;
	unsigned kind = data[0] < 240	? data[0] % 8
			: data[0] < 252 ? 8 + data[0] % 3
			: data[0] < 254 ? 11
					: 12;
	switch (kind) {
	case 0: { /* 0 and 1 worker are the same: it reads as the same message again */
		struct fan_join m, n;
		memset(&m, 0, sizeof m);
		memset(&n, 0, sizeof n);
		if (fan_join_get(&m, &f) != FAN_OK)
			return 0;
		const struct fan_frag g = {.payload = again,
					   .payload_bytes = fan_join_put(again, &m)};
		FUZZ_CHECK(fan_join_get(&n, &g) == FAN_OK && memcmp(&m, &n, sizeof m) == 0);
		return 0;
	}
	case 1: TRY(welcome); break;
	case 2: TRY(refuse); break;
	case 3: TRY(beat); break;
	case 4: TRY(state); break;
	case 5: TRY(leave); break;
	case REPORT: TRY(report); break;
	case 10: TRY(slot_stats); break;
	case 11: TRY(rank_stats); break;
	case 12: TRY(helper_stats); break;
	case 9: { /* what fills it up is not looked at */
		struct fan_echoed m;
		if (fan_echoed_get(&m, &f) == FAN_OK)
			FUZZ_CHECK(fan_echoed_put(again, &m) <= f.payload_bytes &&
				   memcmp(again, f.payload, 8u + m.version_bytes) == 0);
		return 0;
	}
	case 8: {
		struct fan_echo m;
		uint8_t whole[FAN_ECHO_MAX];
		if (fan_echo_get(&m, &f) == FAN_OK)
			FUZZ_CHECK(fan_echo_put(whole, &m) == f.payload_bytes &&
				   m.answer_bytes <= m.body_bytes &&
				   memcmp(whole, f.payload, 2) == 0);
		return 0;
	}
	default: {
		struct fan_query m;
		if (fan_query_get(&m, &f) == FAN_OK)
			FUZZ_CHECK(fan_query_put(again, &m) <= f.payload_bytes &&
				   memcmp(again, f.payload, 4) == 0);
		return 0;
	}
	}
	if (kind == REPORT && bytes > f.payload_bytes) /* of an older aggregator */
		bytes -= REPORT_AGE_BYTES;
	FUZZ_CHECK(bytes <= f.payload_bytes);
	if (kind == 3 || kind == 5) /* requests: what fills them up is not looked at */
		while (bytes && again[bytes - 1] == 0)
			bytes--;
	FUZZ_CHECK(memcmp(again, f.payload, bytes) == 0);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

/* The wire is little-endian and payloads are used where they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fanin needs a little-endian machine");

#define CHECK_AT (FAN_HEAD_BYTES - 4) /* the checksum is the header's last field */

/* Four bits at a time: for machines without an instruction for it. */
static uint32_t crc32c_portable(uint32_t crc, const uint8_t *p, size_t len)
{
	static const uint32_t nibble[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		crc = crc >> 4 ^ nibble[crc & 15];
		crc = crc >> 4 ^ nibble[crc & 15];
	}
	return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const uint8_t *p,
							       size_t len)
{
	uint64_t c = crc;
	for (; len >= 8; len -= 8, p += 8) {
		uint64_t word;
		memcpy(&word, p, 8);
		c = _mm_crc32_u64(c, word);
	}
	crc = (uint32_t)c;
	if (len >= 4) {
		uint32_t word;
		memcpy(&word, p, 4);
		crc = _mm_crc32_u32(crc, word);
		len -= 4;
		p += 4;
	}
	for (; len > 0; len--, p++)
		crc = _mm_crc32_u8(crc, *p);
	return crc;
}
#endif

uint32_t fan_crc32c(uint32_t crc, const void *p, size_t len)
{
	crc = ~crc;
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return ~crc32c_sse42(crc, p, len);
#endif
	return ~crc32c_portable(crc, p, len);
}

/* Is the combination of type, dtype and op one that exists?  `f` is a fragment. */
static bool fragment_is_sane(const struct fan_frag *f)
{
	if (f->dtype >= FAN_DTYPE_COUNT || f->op >= FAN_REDOP_COUNT)
		return false;
	if (f->op == FAN_BARRIER)
		return f->count == 0;
	if (f->dtype == FAN_UINT8)
		return f->op == FAN_BCAST;
	if (f->dtype == FAN_EXP16)
		return f->op == FAN_MAX;
	if (f->dtype == FAN_FIXED32)
		return f->op == FAN_SUM || f->op == FAN_AVG;
	return true;
}

/* The same of a message with a bitmap, in bytes; SIZE_MAX if none can have one like it. */
static size_t promised_with_bitmap(const struct fan_frag *f)
{
	unsigned words = f->type == FAN_TYPE_NEED ? f->count : f->sender & 0xff;
	if ((f->type != FAN_TYPE_NEED && f->type != FAN_TYPE_DATA) || words < 1 ||
	    words > FAN_RANK_WORDS)
		return SIZE_MAX;
	size_t bytes = words * sizeof(uint64_t);
	if (f->type == FAN_TYPE_NEED || f->flags & FAN_F_EMPTY)
		return bytes;
	/* a broadcast is kept as it came, everything else grows as it is summed */
	unsigned width =
		f->op == FAN_BCAST ? fan_dtype_bytes(f->dtype) : fan_dtype_acc_bytes(f->dtype);
	return bytes + (size_t)f->count * width;
}

/* Which payload the header promises, in bytes. */
static size_t promised_bytes(const struct fan_frag *f)
{
	if (f->type >= FAN_TYPE_CTL)
		return f->count;
	if (f->flags & FAN_F_PARTIAL)
		return promised_with_bitmap(f);
	if ((f->type != FAN_TYPE_DATA && f->type != FAN_TYPE_RESULT) || f->flags & FAN_F_EMPTY)
		return 0;
	return (size_t)f->count * fan_dtype_bytes(f->dtype);
}

static void get_fields(struct fan_frag *f, const uint8_t *p)
{
	f->type = p[1];
	f->flags = fan_get16(p + 2);
	f->job = fan_get32(p + 4);
	f->epoch = fan_get32(p + 8);
	f->sender = fan_get16(p + 12);
	f->dtype = p[14] & 15;
	f->op = p[14] >> 4;
	f->priority = p[15];
	f->frag = fan_get64(p + 16);
	f->count = fan_get16(p + 24);
	f->exponent = (int16_t)fan_get16(p + 26);
}

static bool check_matches(const struct fan_frag *f, const uint8_t *p)
{
	uint32_t crc = fan_crc32c(0, p, CHECK_AT);
	if (f->flags & FAN_F_SUMMED)
		crc = fan_crc32c(crc, f->payload, f->payload_bytes);
	return crc == fan_get32(p + CHECK_AT);
}

int fan_wire_get(struct fan_frag *f, const uint8_t *p, size_t len)
{
	if (len < FAN_HEAD_BYTES)
		return FAN_DROP_SHORT;
	if (p[0] != FAN_WIRE_VERSION)
		return FAN_DROP_VERSION;
	get_fields(f, p);
	f->payload = p + FAN_HEAD_BYTES;
	f->payload_bytes = len - FAN_HEAD_BYTES;
	if (!check_matches(f, p))
		return FAN_DROP_CHECK;
	bool ctl = f->type >= FAN_TYPE_JOIN && f->type <= FAN_TYPE_HELPS;
	if (!ctl && (f->type < FAN_TYPE_DATA || f->type > FAN_TYPE_MISS))
		return FAN_DROP_TYPE;
	if (f->flags & ~FAN_F_KNOWN || (ctl && !(f->flags & FAN_F_SUMMED)))
		return FAN_DROP_FORMAT;
	bool elements = f->type == FAN_TYPE_DATA || f->type == FAN_TYPE_RESULT;
	if (elements && !fragment_is_sane(f))
		return FAN_DROP_FORMAT;
	size_t want = promised_bytes(f);
	if (f->payload_bytes == want)
		return -1;
	if (want == SIZE_MAX)
		return FAN_DROP_FORMAT;
	return f->payload_bytes < want ? FAN_DROP_SHORT : FAN_DROP_LONG;
}

bool fan_wire_is_whole(const uint8_t *p, size_t len)
{
	if (len < FAN_HEAD_BYTES)
		return false;
	uint32_t crc = fan_crc32c(0, p, CHECK_AT);
	crc = fan_crc32c(crc, p + FAN_HEAD_BYTES, len - FAN_HEAD_BYTES);
	return crc == fan_get32(p + CHECK_AT);
}

void fan_wire_put(uint8_t *head, const struct fan_frag *f)
{
	head[0] = FAN_WIRE_VERSION;
	head[1] = f->type;
	fan_put16(head + 2, f->flags);
	fan_put32(head + 4, f->job);
	fan_put32(head + 8, f->epoch);
	fan_put16(head + 12, f->sender);
	head[14] = (uint8_t)(f->op << 4 | f->dtype);
	head[15] = f->priority;
	fan_put64(head + 16, f->frag);
	fan_put16(head + 24, f->count);
	fan_put16(head + 26, (uint16_t)f->exponent);
	uint32_t crc = fan_crc32c(0, head, CHECK_AT);
	if (f->flags & FAN_F_SUMMED)
		crc = fan_crc32c(crc, f->payload, f->payload_bytes);
	fan_put32(head + CHECK_AT, crc);
}

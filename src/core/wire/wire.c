/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <assert.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

/* The wire is little-endian and payloads are used where they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fanin needs a little-endian machine");

#define COMMON_BYTES 16u		  /* that all messages have the same */
#define TAIL_BYTES   16u		  /* of which each type has its own */
#define CHECK_AT     (FAN_HEAD_BYTES - 4) /* the checksum is the header's last field */
#define PLACE_SHIFT  12u
#define SEQ_ONE	     (UINT64_C(1) << 48) /* of the number, in the second word of 8 bytes */

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
__attribute__((target("sse4.2,crc32"))) static uint32_t crc32c_sse42(uint32_t crc, const uint8_t *p,
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

/* Is the combination of dtype and op one that exists? */
static inline bool kind_is_sane(const struct fan_frag *f)
{
#define OP(op) (1u << FAN_##op)
#define SUMS   (OP(SUM) | OP(AVG))
	static const uint8_t ops[16] = {
		[FAN_FLOAT32] = SUMS | OP(MIN) | OP(MAX) | OP(BCAST) | OP(BARRIER),
		[FAN_FLOAT16] = SUMS | OP(MIN) | OP(MAX) | OP(BCAST) | OP(BARRIER),
		[FAN_BFLOAT16] = SUMS | OP(MIN) | OP(MAX) | OP(BCAST) | OP(BARRIER),
		[FAN_INT32] = SUMS | OP(MIN) | OP(MAX) | OP(BCAST) | OP(BARRIER),
		[FAN_INT64] = SUMS | OP(MIN) | OP(MAX) | OP(BCAST) | OP(BARRIER),
		[FAN_FIXED32] = SUMS | OP(BARRIER),
		[FAN_EXP16] = OP(MAX) | OP(BARRIER),
		[FAN_UINT8] = OP(BCAST) | OP(BARRIER),
		[FAN_FLOAT64] = SUMS | OP(MIN) | OP(MAX) | OP(BCAST) | OP(BARRIER),
		[FAN_BLOCK8] = SUMS | OP(BARRIER),
	};
	return ops[f->dtype] >> f->op & 1 && (f->op != FAN_BARRIER || f->count == 0);
}

static inline size_t elements_of(const struct fan_frag *f)
{
	return f->flags & FAN_F_EMPTY ? 0 : f->count;
}

/* A bitmap stands before the elements of a PARTIAL: 1 to FAN_RANK_WORDS words, at the least those
 * missing. */
static size_t promised_by_partial(struct fan_frag *f)
{
	/* a broadcast is kept as it came, everything else grows as it is summed */
	unsigned width =
		f->op == FAN_BCAST ? fan_dtype_bytes(f->dtype) : fan_dtype_acc_bytes(f->dtype);
	size_t elements = elements_of(f) * width;
	size_t bitmap = f->payload_bytes > elements ? f->payload_bytes - elements : 0;
	size_t words = bitmap / 8 < FAN_RANK_WORDS ? bitmap / 8 : FAN_RANK_WORDS;
	f->words = words ? (uint8_t)words : 1;
	return f->words * 8u + elements;
}

/* Which payload the header of a fragment's message promises, in bytes; SIZE_MAX: it is malformed.
 * A PARTIAL learns how many words its bitmap has. */
static inline size_t promised_bytes(struct fan_frag *f)
{
	if (f->type == FAN_TYPE_DATA || f->type == FAN_TYPE_RESULT)
		return fan_wire_bytes(f->dtype, elements_of(f));
	if (f->type == FAN_TYPE_PARTIAL)
		return promised_by_partial(f);
	return f->words > FAN_RANK_WORDS ? SIZE_MAX : f->words * 8u; /* of a NEED, or none */
}

#define INLINE static inline __attribute__((always_inline))

/* A rank field, which has the place in its upper bits where there is one. */
INLINE fan_tag get_tag(struct fan_frag *f, const uint8_t *p, unsigned has)
{
	uint16_t v = fan_get16(p);
	if (!(has & FAN_HAS_PLACE))
		return v;
	f->place = (uint8_t)(v >> PLACE_SHIFT);
	return v & ((1u << PLACE_SHIFT) - 1u);
}

INLINE void get_relay(struct fan_frag *f, const uint8_t *p)
{
	f->relay.token = fan_get16(p);
	f->relay.ranks = fan_get16(p + 2);
	f->relay.window = fan_get16(p + 4);
	f->relay.payload_bytes = fan_get16(p + 6);
	f->relay.rank = p[8];
	f->relay.hops = p[9];
}

/* Read the fields `has` at `p`.  Where it is a constant, the compiler leaves a few loads. */
INLINE void get_tail(struct fan_frag *f, const uint8_t *p, unsigned has)
{
	if (has & FAN_HAS_NONCE) {
		f->nonce = fan_get64(p);
		p += 8;
	}
	if (has & FAN_HAS_FRAG) {
		f->frag = fan_get64(p);
		p += 8;
	}
	if (has & FAN_HAS_MISSING) {
		f->missing = fan_get64(p);
		p += 8;
	}
	if (has & FAN_HAS_HELPER) {
		f->helper = get_tag(f, p, has);
		p += 2;
	}
	if (has & FAN_HAS_TO) {
		f->to = get_tag(f, p, has);
		p += 2;
	}
	if (has & FAN_HAS_ROOT) {
		f->root = get_tag(f, p, has);
		p += 2;
	}
	if (has & FAN_HAS_LAST) {
		f->last = fan_get16(p);
		p += 2;
	}
	if (has & FAN_HAS_DISTANCES) {
		f->behind = fan_get16(p);
		f->before = fan_get16(p + 2);
		p += 4;
	}
	if (has & FAN_HAS_ELEMENTS) {
		f->count = fan_get16(p);
		f->exponent = (int16_t)fan_get16(p + 2);
		f->dtype = p[4] & 15;
		f->op = p[4] >> 4;
		p += 5;
	}
	if (has & FAN_HAS_PRIORITY)
		f->priority = *p++;
	if (has & FAN_HAS_DEPTH)
		f->depth = *p++;
	if (has & FAN_HAS_PATH)
		f->path = *p++;
	if (has & FAN_HAS_TOPIC)
		f->topic = *p++;
	if (has & FAN_HAS_WORDS)
		f->words = *p++;
	if (has & FAN_HAS_RELAY)
		get_relay(f, p);
}

INLINE void put_relay(uint8_t *p, const struct fan_frag *f)
{
	fan_put16(p, f->relay.token);
	fan_put16(p + 2, f->relay.ranks);
	fan_put16(p + 4, f->relay.window);
	fan_put16(p + 6, f->relay.payload_bytes);
	p[8] = f->relay.rank;
	p[9] = f->relay.hops;
}

INLINE uint8_t *put_tag(uint8_t *p, const struct fan_frag *f, fan_tag tag, unsigned has)
{
	fan_put16(p, (uint16_t)(tag | (has & FAN_HAS_PLACE ? f->place << PLACE_SHIFT : 0)));
	return p + 2;
}

INLINE uint8_t *put_elements(uint8_t *p, const struct fan_frag *f)
{
	fan_put16(p, f->count);
	fan_put16(p + 2, (uint16_t)f->exponent);
	p[4] = (uint8_t)(f->op << 4 | f->dtype);
	return p + 5;
}

/* Write the fields `has` at `p`, and zeros behind them. */
INLINE void put_tail(uint8_t *p, const struct fan_frag *f, unsigned has)
{
	memset(p, 0, TAIL_BYTES);
	if (has & FAN_HAS_NONCE)
		fan_put64(p, f->nonce);
	p += has & FAN_HAS_NONCE ? 8 : 0;
	if (has & FAN_HAS_FRAG)
		fan_put64(p, f->frag);
	p += has & FAN_HAS_FRAG ? 8 : 0;
	if (has & FAN_HAS_MISSING)
		fan_put64(p, f->missing);
	p += has & FAN_HAS_MISSING ? 8 : 0;
	if (has & FAN_HAS_HELPER)
		p = put_tag(p, f, f->helper, has);
	if (has & FAN_HAS_TO)
		p = put_tag(p, f, f->to, has);
	if (has & FAN_HAS_ROOT)
		p = put_tag(p, f, f->root, has);
	if (has & FAN_HAS_LAST)
		fan_put16(p, f->last);
	p += has & FAN_HAS_LAST ? 2 : 0;
	if (has & FAN_HAS_DISTANCES) {
		fan_put16(p, f->behind);
		fan_put16(p + 2, f->before);
	}
	p += has & FAN_HAS_DISTANCES ? 4 : 0;
	if (has & FAN_HAS_ELEMENTS)
		p = put_elements(p, f);
	if (has & FAN_HAS_PRIORITY)
		*p++ = f->priority;
	if (has & FAN_HAS_DEPTH)
		*p++ = f->depth;
	if (has & FAN_HAS_PATH)
		*p++ = f->path;
	if (has & FAN_HAS_TOPIC)
		*p++ = f->topic;
	if (has & FAN_HAS_WORDS)
		*p++ = f->words;
	if (has & FAN_HAS_RELAY)
		put_relay(p, f);
}

/* The table's entry of each type: all known flags are below the bit that marks it as existing. */
#define EXISTS 0x10000u
#define TYPES  32u

static const struct {
	uint32_t fields;
	uint32_t flags;
} row[TYPES] = {
#define X(name, number, has, may, text) [number] = {has, (may) | EXISTS},
	FAN_MESSAGES(X)
#undef X
};

static const char *const names[TYPES] = {
#define X(name, number, has, may, text) [number] = #name,
	FAN_MESSAGES(X)
#undef X
};

/* Fields of the types that most packets are, for the compiler. */
enum {
#define X(name, number, has, may, text) HAS_##name = has,
	FAN_MESSAGES(X)
#undef X
};

static void get_fields(struct fan_frag *f, const uint8_t *p)
{
	*f = (struct fan_frag){
		.type = p[1],
		.flags = fan_get16(p + 2),
		.job = fan_get32(p + 4),
		.epoch = fan_get32(p + 8),
		.sender = fan_get16(p + 12),
		.seq = fan_get16(p + 14),
	};
	p += COMMON_BYTES;
	switch (f->type) {
	case FAN_TYPE_DATA: get_tail(f, p, HAS_DATA); break;
	case FAN_TYPE_RESULT: get_tail(f, p, HAS_RESULT); break;
	case FAN_TYPE_PARTIAL:
		get_tail(f, p, HAS_PARTIAL);
		f->helper = FAN_TAG(f->sender);
		f->sender = FAN_RANK_NONE;
		break;
	default: get_tail(f, p, f->type < TYPES ? row[f->type].fields : 0); break;
	}
}

static inline uint32_t check_of(const uint8_t *head, const uint8_t *payload, size_t payload_bytes)
{
	uint32_t crc = fan_crc32c(0, head, CHECK_AT);
	return payload_bytes ? fan_crc32c(crc, payload, payload_bytes) : crc;
}

/* Elements are covered where the job wants it, everything else always. */
static bool is_covered(uint8_t type, uint16_t flags)
{
	return type > FAN_TYPE_RESULT || flags & FAN_F_SUMMED;
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
	size_t covered = is_covered(f->type, f->flags) ? f->payload_bytes : 0;
	if (check_of(p, f->payload, covered) != fan_get32(p + CHECK_AT))
		return FAN_DROP_CHECK;
	if (f->type >= TYPES || !row[f->type].flags)
		return FAN_DROP_TYPE;
	if (f->flags & ~row[f->type].flags || f->to > FAN_RANKS_MAX || f->helper > FAN_RANKS_MAX ||
	    f->root > FAN_RANKS_MAX)
		return FAN_DROP_FORMAT;
	if (f->type >= FAN_TYPE_CTL)
		return -1;
	if (!kind_is_sane(f)) /* without elements, it is a sum of none */
		return FAN_DROP_FORMAT;
	size_t want = promised_bytes(f);
	if (f->payload_bytes == want)
		return -1;
	if (want == SIZE_MAX)
		return FAN_DROP_FORMAT;
	return f->payload_bytes < want ? FAN_DROP_SHORT : FAN_DROP_LONG;
}

bool fan_wire_expect(struct fan_expected *x, const struct fan_frag *f, const uint8_t *pkt)
{
	if ((f->type != FAN_TYPE_DATA && f->type != FAN_TYPE_RESULT) || !f->payload_bytes ||
	    is_covered(f->type, f->flags))
		return false;
	x->f = *f;
	memcpy(x->head, pkt, sizeof x->head);
	x->head[1] += SEQ_ONE;
	x->head[2]++;
	return true;
}

bool fan_wire_is_expected(struct fan_expected *x, const uint8_t *pkt, size_t len)
{
	if (len != FAN_HEAD_BYTES + x->f.payload_bytes ||
	    memcmp(pkt, x->head, sizeof x->head) != 0 ||
	    check_of(pkt, NULL, 0) != fan_get32(pkt + CHECK_AT))
		return false;
	x->f.seq++;
	x->f.frag++;
	x->f.payload = pkt + FAN_HEAD_BYTES;
	x->head[1] += SEQ_ONE;
	x->head[2]++;
	return true;
}

void fan_wire_head(struct fan_frag *f, const uint8_t *head)
{
	get_fields(f, head);
}

bool fan_wire_is_whole(const uint8_t *p, size_t len)
{
	return len >= FAN_HEAD_BYTES &&
	       check_of(p, p + FAN_HEAD_BYTES, len - FAN_HEAD_BYTES) == fan_get32(p + CHECK_AT);
}

void fan_wire_recheck(uint8_t *p, size_t len)
{
	size_t covered = is_covered(p[1], fan_get16(p + 2)) ? len - FAN_HEAD_BYTES : 0;
	fan_put32(p + CHECK_AT, check_of(p, p + FAN_HEAD_BYTES, covered));
}

uint64_t fan_wire_nonce(const uint8_t *p)
{
	return fan_get64(p + COMMON_BYTES);
}

uint8_t fan_wire_topic(const uint8_t *p)
{
	return p[COMMON_BYTES + 8]; /* behind the nonce */
}

void fan_wire_put(uint8_t *head, const struct fan_frag *f)
{
	uint8_t *tail = head + COMMON_BYTES;
	assert(f->type < TYPES && row[f->type].flags && !(f->flags & ~row[f->type].flags));
	head[0] = FAN_WIRE_VERSION;
	head[1] = f->type;
	fan_put16(head + 2, f->flags);
	fan_put32(head + 4, f->job);
	fan_put32(head + 8, f->epoch);
	fan_put16(head + 12, f->type == FAN_TYPE_PARTIAL ? fan_tag_rank(f->helper) : f->sender);
	fan_put16(head + 14, f->seq);
	switch (f->type) {
	case FAN_TYPE_DATA: put_tail(tail, f, HAS_DATA); break;
	case FAN_TYPE_RESULT: put_tail(tail, f, HAS_RESULT); break;
	case FAN_TYPE_PARTIAL: put_tail(tail, f, HAS_PARTIAL); break;
	default: put_tail(tail, f, row[f->type].fields); break;
	}
	size_t covered = is_covered(f->type, f->flags) ? f->payload_bytes : 0;
	fan_put32(head + CHECK_AT, check_of(head, f->payload, covered));
}

const char *fan_type_name(unsigned type)
{
	return type < TYPES && names[type] ? names[type] : "unknown";
}

/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - the header of every datagram, and the table of messages.
 *
 *      0       1       2       3       4       5       6       7       8
 *     +-------+-------+---------------+---------------+---------------+
 *     |version| type  |     flags     |      job      |     route     |
 *     +-------+-------+---------------+---------------+---------------+
 *     |             epoch             |    sender     |      seq      |
 *     +-------------------------------+---------------+---------------+
 *     |                                                               |
 *     |                 16 bytes of fields, by type                   |
 *     +-------------------------------+-------------------------------+
 *     |             check             | payload or body
 *     +-------------------------------+
 *     (then, in a sealed packet, an authentication tag of 16 bytes)
 *
 * The table FAN_MESSAGES gives the fields and flags of each type.  A field has one meaning,
 * whatever the type.  All integers are little-endian.  Codecs copy bytes and never overlay
 * structs.  doc/protocol/base.md, section 3. */
#ifndef FAN_WIRE_WIRE_H
#define FAN_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/limits.h"

/* Fields of the 16 bytes.  A message has its fields in this order. */
enum fan_wire_field {
	FAN_HAS_NONCE = 1 << 0,	  /* 8 bytes */
	FAN_HAS_FRAG = 1 << 1,	  /* 8 */
	FAN_HAS_MISSING = 1 << 2, /* 8 */
	FAN_HAS_PLACE = 1 << 3,	  /* the upper 4 bits of HELPER, TO or ROOT, which comes with it */
	FAN_HAS_HELPER = 1 << 4,  /* 2 */
	FAN_HAS_TO = 1 << 5,	  /* 2 */
	FAN_HAS_ROOT = 1 << 15,	  /* 2 */
	FAN_HAS_LAST = 1 << 6,	  /* 2 */
	FAN_HAS_DISTANCES = 1 << 7, /* behind 2, before 2 */
	FAN_HAS_ELEMENTS = 1 << 8,  /* count 2, exponent 2, kind 1: op << 4 | dtype */
	FAN_HAS_PRIORITY = 1 << 9,  /* 1 */
	FAN_HAS_DEPTH = 1 << 10,    /* 1 */
	FAN_HAS_PATH = 1 << 11,	    /* 1 */
	FAN_HAS_TOPIC = 1 << 12,    /* 1 */
	FAN_HAS_WORDS = 1 << 13,    /* 1 */
	FAN_HAS_RELAY = 1 << 14,    /* token 2, ranks 2, window 2, payload 2, rank 1, hops 1 */
};

/* Flags.  A packet with a bit that its type does not have is malformed. */
enum fan_flag {
	FAN_F_FIRST = 1 << 0,	  /* first fragment of its operation */
	FAN_F_LAST = 1 << 1,	  /* last fragment of its operation */
	FAN_F_REDUCE = 1 << 2,	  /* only the root gets the payload of the result */
	FAN_F_ROOT = 1 << 3,	  /* the sender is the root of this broadcast or reduce */
	FAN_F_EMPTY = 1 << 4,	  /* stands for `count` elements but carries none */
	FAN_F_SUMMED = 1 << 5,	  /* `check` covers the payload as well */
	FAN_F_ECN = 1 << 6,	  /* a queue on the path has marked congestion */
	FAN_F_COLLISION = 1 << 7, /* its slot was taken */
	FAN_F_DIRECT = 1 << 8,	  /* to the aggregator past all slots: after a NEED, or late */
	FAN_F_REPLAY = 1 << 9,	  /* a result that was sent before */
	FAN_F_INSIST = 1 << 10,	  /* answer even if the result seems to be in flight */
	FAN_F_ASK = 1 << 11,	  /* answer with PROGRESS */
	FAN_F_FULL = 1 << 12,	  /* the helper had no room */
	FAN_F_AWAY = 1 << 13,	  /* the contribution had gone on from the nearest switch */
	FAN_F_SEALED = 1 << 14,	  /* encrypted, with a tag behind: src/seal */
	FAN_F_RUN = 1 << 15,	  /* stands for fragments behind it, too: run.h */
};
/* Flags that switches set in fragments; a sum has those of all its contributions. */
#define FAN_F_MET (FAN_F_ECN | FAN_F_COLLISION)
#define FAN_F_FRAGMENT                                                                             \
	(FAN_F_FIRST | FAN_F_LAST | FAN_F_REDUCE | FAN_F_EMPTY | FAN_F_SUMMED | FAN_F_MET)

/* X(name, number, fields, flags, text): every message.  The first three carry elements; numbers
 * from FAN_TYPE_CTL on are control messages, which have a body.  The check covers elements only
 * with SUMMED, and all other bytes always.  JOIN, REFUSE, QUERY and their nonce have these
 * numbers and places in every version. */
#define FAN_MESSAGES(X)                                                                            \
	X(DATA, 1,                                                                                 \
	  FAN_HAS_FRAG | FAN_HAS_PLACE | FAN_HAS_HELPER | FAN_HAS_ELEMENTS | FAN_HAS_PRIORITY,     \
	  FAN_F_FRAGMENT | FAN_F_ROOT | FAN_F_DIRECT | FAN_F_ASK, "a rank's contribution")         \
	X(PARTIAL, 2,                                                                              \
	  FAN_HAS_FRAG | FAN_HAS_PLACE | FAN_HAS_ROOT | FAN_HAS_ELEMENTS | FAN_HAS_PRIORITY,       \
	  FAN_F_FRAGMENT | FAN_F_FULL, "the sum of some contributions: contribution.h")            \
	X(RESULT, 3, FAN_HAS_FRAG | FAN_HAS_PLACE | FAN_HAS_TO | FAN_HAS_ELEMENTS,                 \
	  FAN_F_FRAGMENT | FAN_F_REPLAY, "the finished fragment")                                  \
	X(PROBE, 4, FAN_HAS_FRAG | FAN_HAS_PLACE | FAN_HAS_HELPER | FAN_HAS_LAST, FAN_F_INSIST,    \
	  "I miss the result of this fragment")                                                    \
	X(NEED, 5, FAN_HAS_FRAG | FAN_HAS_TO | FAN_HAS_DEPTH | FAN_HAS_WORDS, FAN_F_COLLISION,     \
	  "I miss these ranks' contributions to this fragment")                                    \
	X(MISS, 6, FAN_HAS_MISSING | FAN_HAS_TO | FAN_HAS_LAST, 0,                                 \
	  "I miss these sequence numbers")                                                         \
	X(FLUSH, 7, FAN_HAS_FRAG | FAN_HAS_PLACE | FAN_HAS_HELPER | FAN_HAS_DEPTH, 0,              \
	  "send up what you hold of this fragment")                                                \
	X(PROGRESS, 8, FAN_HAS_FRAG | FAN_HAS_HELPER | FAN_HAS_TO | FAN_HAS_DISTANCES,             \
	  FAN_F_ASK | FAN_F_FULL | FAN_F_AWAY | FAN_F_ECN,                                         \
	  "how far the others are; ASK: how far?")                                                 \
	X(JOIN, 16, FAN_HAS_NONCE | FAN_HAS_PATH, 0, "make me rank r of job NAME")                 \
	X(WELCOME, 17, FAN_HAS_NONCE | FAN_HAS_PATH, 0, "you are: ids, window, multicast group")   \
	X(REFUSE, 18, FAN_HAS_NONCE, 0, "no, because")                                             \
	X(BEAT, 19, FAN_HAS_NONCE | FAN_HAS_FRAG, 0, "alive, heard the group, waiting for")        \
	X(STATE, 20, FAN_HAS_NONCE | FAN_HAS_DEPTH, 0,                                             \
	  "how the job stands; what was heard by group")                                           \
	X(LEAVE, 21, FAN_HAS_NONCE, 0, "done, or given up because")                                \
	X(WHO, 22, FAN_HAS_DEPTH, 0, "I do not know you: send a BEAT")                             \
	X(RELAY, 23, FAN_HAS_RELAY, 0, "a control message that passes switches: envelope.h")       \
	X(QUERY, 24, FAN_HAS_NONCE | FAN_HAS_TOPIC, 0, "tell me about")                            \
	X(REPORT, 25, FAN_HAS_NONCE | FAN_HAS_TOPIC, 0, "the answer")

enum fan_type {
#define X(name, number, fields, flags, text) FAN_TYPE_##name = number,
	FAN_MESSAGES(X)
#undef X
		FAN_TYPE_CTL = 16,
};

/* Element types on the wire. */
enum fan_dtype {
	FAN_FLOAT32 = 0,
	FAN_FLOAT16 = 1,  /* IEEE binary16; summed in float32 */
	FAN_BFLOAT16 = 2, /* upper half of a float32; summed in float32 */
	FAN_INT32 = 3,
	FAN_INT64 = 4,
	FAN_FIXED32 = 5, /* block fixed point with sticky NaN and infinities: quant.h */
	FAN_EXP16 = 6,	 /* block exponents of the fixed mode, int16 */
	FAN_UINT8 = 7,	 /* bytes; broadcast only */
	FAN_FLOAT64 = 8, /* IEEE binary64 */
	FAN_BLOCK8 = 9,	 /* of float32, eight bits in blocks: reduce.h; summed in float32 */
	FAN_DTYPE_COUNT
};

/* Operations. */
enum fan_redop {
	FAN_SUM = 0,
	FAN_AVG = 1,	 /* sum, divided by the number of ranks */
	FAN_MIN = 2,	 /* NaN if any is NaN */
	FAN_MAX = 3,	 /* NaN if any is NaN */
	FAN_BCAST = 4,	 /* the root's elements; the others send none */
	FAN_BARRIER = 5, /* no elements */
	FAN_REDOP_COUNT
};

/* A rank + 1, or 0: none, so that a field that is not set names no rank. */
typedef uint16_t fan_tag;
#define FAN_TAG(rank) ((fan_tag)((rank) + 1))
static inline uint16_t fan_tag_rank(fan_tag tag) /* FAN_RANK_NONE: none */
{
	return (uint16_t)(tag - 1);
}

/* A decoded header: the fields that its type has in FAN_MESSAGES; all others are 0.  `payload`
 * points into the packet. */
struct fan_frag {
	uint64_t frag;	  /* fragment number in the job's life */
	uint64_t nonce;	  /* control: of one life of a worker, or of one query */
	uint64_t missing; /* bit i: sequence number `last` - i has not come */
	uint32_t job;	  /* with its route in the upper half: route_table.h */
	uint32_t epoch;
	uint16_t flags;	  /* enum fan_flag */
	uint16_t sender;  /* rank, or FAN_RANK_NONE, as in every PARTIAL */
	uint16_t seq;	  /* sequence number of the packet, if its sender numbers it */
	uint16_t count;	  /* elements of dtype */
	uint16_t last;	  /* highest sequence number that has come */
	uint16_t behind;  /* PROGRESS: fragments from the slowest rank to this one */
	uint16_t before;  /* PROGRESS: fragments from this rank to the furthest */
	int16_t exponent; /* FIXED32: the block's agreed exponent; otherwise its operation's mark */
	fan_tag to;	  /* the only receiving rank; 0: all */
	/* the helper that sends or receives it; 0: none.  In a PARTIAL the sender on the wire */
	fan_tag helper;
	fan_tag root;  /* PARTIAL: the root, if it has contributed; otherwise 0 */
	uint8_t type;  /* enum fan_type */
	uint8_t dtype; /* enum fan_dtype */
	uint8_t place; /* of the fragment: one of FAN_PLACES shared slots */
	/* enum fan_redop.  Not beside dtype: one comparison of both stalls on the store buffer */
	uint8_t op;
	uint8_t priority; /* 0 lowest */
	uint8_t depth;	  /* hops from the aggregator down a route */
	uint8_t path;	  /* number of the path in the life of its rank */
	uint8_t topic;	  /* enum fan_topic */
	/* of the bitmap over ranks at the start of the payload; 0: none.  In a PARTIAL it follows
	 * from the length */
	uint8_t words;
	struct {
		uint16_t token; /* of the child; never 0 */
		uint8_t hops;	/* switches passed; 0 downwards */
		uint8_t rank;
		uint16_t ranks, window, payload_bytes;
	} relay;		/* RELAY: envelope.h */
	const uint8_t *payload; /* NULL, of a simulation's fragment: its elements do not matter */
	size_t payload_bytes;
};

/* Bytes of one element, one hexadecimal digit a type from FAN_FLOAT32 at the right: on the wire,
 * and while it is summed. */
#define FAN_DTYPE_DIGITS     UINT64_C(0x1812484224)
#define FAN_DTYPE_ACC_DIGITS UINT64_C(0x4812484444)

#define FAN_BLOCK8_ELEMENTS 32u /* of a block, which has a byte more than elements */

/* The digit of `dtype`, which is less than FAN_DTYPE_COUNT. */
static inline unsigned fan_dtype_digit(uint64_t digits, unsigned dtype)
{
	return digits >> 4 * (dtype & 15) & 15;
}

/* Bytes of one element of `dtype` on the wire, without the exponents of BLOCK8; 0 for an unknown
 * type. */
static inline unsigned fan_dtype_bytes(unsigned dtype)
{
	return dtype < FAN_DTYPE_COUNT ? fan_dtype_digit(FAN_DTYPE_DIGITS, dtype) : 0;
}

/* Bytes of one element while it is being summed in a slot; 0 for an unknown type. */
static inline unsigned fan_dtype_acc_bytes(unsigned dtype)
{
	return dtype < FAN_DTYPE_COUNT ? fan_dtype_digit(FAN_DTYPE_ACC_DIGITS, dtype) : 0;
}

/* Bytes of `count` elements of `dtype`, which is less than FAN_DTYPE_COUNT, on the wire. */
static inline size_t fan_wire_bytes(unsigned dtype, size_t count)
{
	const size_t bytes = count * fan_dtype_digit(FAN_DTYPE_DIGITS, dtype);
	if (__builtin_expect(dtype != FAN_BLOCK8, 1))
		return bytes;
	return bytes + (count + FAN_BLOCK8_ELEMENTS - 1) / FAN_BLOCK8_ELEMENTS;
}

/* Decode one datagram of `len` bytes at `p` into `*f`.  `p` needs no alignment and
 * must outlive `f->payload`.  Checks, in this order: length, version, checksum, type,
 * flags, and for fragments dtype, op and the exact length of the payload.  The caller
 * checks job, epoch and sender.
 *
 * Returns -1 if the packet is well formed, otherwise the enum fan_drop to count. */
int fan_wire_get(struct fan_frag *f, const uint8_t *p, size_t len);

/* Is this an undamaged control message of any version?  All versions from 2 on share the places
 * of version, type, nonce and check, and the computation of a control message's check. */
bool fan_wire_is_whole(const uint8_t *p, size_t len);

/* Header prediction (V. Jacobson, 4BSD header prediction, 1990): after one fragment its sender's
 * next packet is mostly the next fragment, with a header that is the same otherwise. */
struct fan_expected {
	uint64_t head[4];  /* of the next packet, all but its checksum */
	struct fan_frag f; /* the last packet */
};

/* Expect what follows `pkt`, which fan_wire_get has read to `f`.  False: it cannot be predicted. */
bool fan_wire_expect(struct fan_expected *x, const struct fan_frag *f, const uint8_t *pkt);

/* Is `pkt` the one expected?  Then x->f is as fan_wire_get would read it, and the next is expected.
 */
bool fan_wire_is_expected(struct fan_expected *x, const uint8_t *pkt, size_t len);

/* Encode the header of `*f` into `head`, FAN_HEAD_BYTES bytes, checksum included.
 * With FAN_F_SUMMED the checksum also covers f->payload, f->payload_bytes bytes,
 * which the caller sends behind the header. */
void fan_wire_put(uint8_t *head, const struct fan_frag *f);

/* Decode a header that fan_wire_put has written, without its payload. */
void fan_wire_head(struct fan_frag *f, const uint8_t *head);

/* Write the check of the packet at `p`, of at least FAN_HEAD_BYTES bytes, anew: its header has been
 * changed. */
void fan_wire_recheck(uint8_t *p, size_t len);

/* The nonce of a control message of any version, of at least FAN_HEAD_BYTES bytes. */
uint64_t fan_wire_nonce(const uint8_t *p);

/* The topic of a QUERY or REPORT, of at least FAN_HEAD_BYTES bytes. */
uint8_t fan_wire_topic(const uint8_t *p);

/* The name of a message's type ("DATA"); "unknown" for any other value. */
const char *fan_type_name(unsigned type);

/* CRC-32C (Castagnoli, as in RFC 3720, B.4) of `len` bytes, continued from `crc`
 * (0 to begin). */
uint32_t fan_crc32c(uint32_t crc, const void *p, size_t len);

/* Little-endian get and put, for any alignment. */
static inline uint16_t fan_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t fan_get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t fan_get64(const uint8_t *p)
{
	return (uint64_t)fan_get32(p) | (uint64_t)fan_get32(p + 4) << 32;
}

static inline void fan_put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static inline void fan_put32(uint8_t *p, uint32_t v)
{
	fan_put16(p, (uint16_t)v);
	fan_put16(p + 2, (uint16_t)(v >> 16));
}

static inline void fan_put64(uint8_t *p, uint64_t v)
{
	fan_put32(p, (uint32_t)v);
	fan_put32(p + 4, (uint32_t)(v >> 32));
}

#endif

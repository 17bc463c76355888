/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - the fixed header that opens every datagram, and what may follow it.
 *
 *      0       1       2       3       4               8
 *     +-------+-------+---------------+---------------+
 *     |version| type  |     flags     |      job      |
 *     +-------+-------+-------+-------+---------------+
 *     |     epoch     |sender |kind|pr|               |   kind = op << 4 | dtype
 *     +---------------+-------+-------+---------------+   pr   = priority
 *     |            fragment number (64 bits)          |
 *     +-------+-------+---------------+---------------+
 *     | count | exponent |            check           |
 *     +-------+-------+---------------+---------------+
 *     | payload: count elements of dtype, or a control message's body
 *     | (then, some day, an authentication tag of 16 bytes: flag TAG)
 *
 * All integers are little-endian.  Codecs copy bytes, they never overlay structs.
 * protocol.md, section 3. */
#ifndef FAN_WIRE_H
#define FAN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "limits.h"

/* Message types.  Below FAN_TYPE_CTL: fragments; from it on: control, ctlmsg.h. */
enum fan_type {
	FAN_TYPE_DATA = 1,   /* worker -> switch: a contribution */
	FAN_TYPE_RESULT = 2, /* switch -> workers: the finished fragment */
	FAN_TYPE_PROBE = 3,  /* worker -> switch: "I miss the result of this fragment" */
	FAN_TYPE_NEED = 4,   /* switch -> worker: "I miss your part of this fragment" */
	FAN_TYPE_FLUSH = 5,  /* home -> shared switch: let go what you hold of this fragment */
	FAN_TYPE_PACE = 6,   /* switch -> worker: your part is here, and so far are the others */
	FAN_TYPE_MISS = 7,   /* either way: these of your numbers have not come */
	FAN_TYPE_CTL = 32,
	FAN_TYPE_JOIN = 32,	  /* worker -> switch: make me rank r of job NAME */
	FAN_TYPE_WELCOME = 33,	  /* switch -> worker: ids, window, multicast group */
	FAN_TYPE_REFUSE = 34,	  /* switch -> worker: no, because */
	FAN_TYPE_BEAT = 35,	  /* worker -> switch: alive, heard the group, waiting for */
	FAN_TYPE_STATE = 36,	  /* switch -> worker(s): the job's state, who is missing */
	FAN_TYPE_LEAVE = 37,	  /* worker -> switch: done, or given up because */
	FAN_TYPE_LEFT = 38,	  /* switch -> worker: LEAVE has been noted */
	FAN_TYPE_GROUP_TEST = 39, /* switch -> group: say in your BEAT that you heard this */
	FAN_TYPE_QUERY = 40,	  /* anyone -> switch: tell me about job number i */
	FAN_TYPE_REPORT = 41,	  /* switch -> asker */
	FAN_TYPE_ECHO = 42,	  /* anyone -> switch: do these bytes reach you? */
	FAN_TYPE_ECHOED = 43,	  /* switch -> asker: as many back, and who I am */
	FAN_TYPE_VIA = 44,	  /* shared switch <-> home: a control message on its way */
	FAN_TYPE_WHO = 45,	  /* shared switch -> worker: I do not know you, send a BEAT */
	FAN_TYPE_TALLY = 46,	  /* anyone -> switch: what do shared slots do for job number i */
	FAN_TYPE_TALLIED = 47,	  /* switch -> asker */
	FAN_TYPE_LAG = 48,	  /* anyone -> switch: how do the ranks of job number i stand */
	FAN_TYPE_LAGS = 49,	  /* switch -> asker */
	FAN_TYPE_HELP = 50,	  /* anyone -> switch: which of its ranks keep for which */
	FAN_TYPE_HELPS = 51,	  /* switch -> asker */
};

/* Flags.  A packet with a bit that is not named here is malformed. */
enum fan_flag {
	FAN_F_FIRST = 1 << 0,	   /* first fragment of its operation */
	FAN_F_LAST = 1 << 1,	   /* last fragment of its operation */
	FAN_F_RESEND = 1 << 2,	   /* sent before: an answer to NEED, or a replay */
	FAN_F_ECN = 1 << 3,	   /* congestion was met on the way */
	FAN_F_COLLISION = 1 << 4,  /* found its slot taken */
	FAN_F_SUMMED = 1 << 5,	   /* `check` covers payload or body as well */
	FAN_F_TAG = 1 << 6,	   /* reserved: authentication tag behind the payload */
	FAN_F_PARTIAL = 1 << 7,	   /* a bitmap over ranks stands before the payload: partial.h */
	FAN_F_EMPTY = 1 << 8,	   /* `count` elements are meant but none are carried */
	FAN_F_ROOT = 1 << 9,	   /* the sender is the root of this broadcast or reduce */
	FAN_F_REDUCE = 1 << 10,	   /* only the root wants the payload of the result */
	FAN_F_LEAD = 1 << 11,	   /* DATA of one rank: answer with PACE.  With a bitmap, and in
				    * PROBE: comes from the leading worker `priority` */
	FAN_F_PROPOSAL = 15 << 12, /* which of 16 shared slots the fragment may be in */
};
#define FAN_PROPOSAL_SHIFT 12
/* What a fragment has met on its way, and which way that was. */
#define FAN_F_WAY (FAN_F_ECN | FAN_F_COLLISION | FAN_F_PROPOSAL)
#define FAN_F_KNOWN                                                                                \
	(FAN_F_FIRST | FAN_F_LAST | FAN_F_RESEND | FAN_F_SUMMED | FAN_F_EMPTY | FAN_F_ROOT |       \
	 FAN_F_REDUCE | FAN_F_PARTIAL | FAN_F_LEAD | FAN_F_WAY)

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

/* A decoded header.  For fragments, `payload` points into the packet. */
struct fan_frag {
	uint64_t frag; /* fragment number in the job's life; control: a nonce */
	uint32_t job;
	uint32_t epoch;
	uint16_t flags;	  /* enum fan_flag */
	uint16_t sender;  /* rank, or FAN_RANK_NONE for the switch; RESULT: its number;
			   * PARTIAL: partial.h */
	uint16_t count;	  /* elements of dtype; control: bytes of the body; PROBE: the number
			   * of the last result heard; PACE: pace.h */
	int16_t exponent; /* FIXED32: the block's agreed exponent; else 0 */
	uint8_t type;	  /* enum fan_type */
	uint8_t dtype;	  /* enum fan_dtype */
	uint8_t priority; /* DATA: 0 lowest.  To a rank behind a shared switch: that rank.
			   * DATA, PROBE of a rank that numbers them: the number */
	uint8_t op;	  /* enum fan_redop.  Not beside dtype: compared as one, the two
			   * would be waited for until they are out of the store buffer */
	const uint8_t *payload;
	size_t payload_bytes;
};

/* Bytes of one element of `dtype` on the wire; 0 for an unknown type. */
static inline unsigned fan_dtype_bytes(unsigned dtype)
{
	const uint32_t digits = 0x12484224; /* one a type, FAN_FLOAT32 the last */
	return dtype < FAN_DTYPE_COUNT ? digits >> 4 * dtype & 15 : 0;
}

/* Bytes of one element while it is being summed in a slot; 0 for an unknown type. */
static inline unsigned fan_dtype_acc_bytes(unsigned dtype)
{
	bool half = dtype == FAN_FLOAT16 || dtype == FAN_BFLOAT16;
	return half ? 4 : fan_dtype_bytes(dtype);
}

/* Decode one datagram of `len` bytes at `p` into `*f`.  `p` needs no alignment and
 * must outlive `f->payload`.  Checks, in this order: length, version, checksum, type,
 * flags, and for fragments dtype, op and that exactly the promised payload follows.
 * Does not know jobs: the caller checks job, epoch and sender.
 *
 * Returns -1 when the packet is well formed, else the reason to count it under. */
int fan_wire_get(struct fan_frag *f, const uint8_t *p, size_t len);

/* Is this a control message of whatever version, undamaged?  All versions share the
 * places of version, type, nonce and check, and how a control message's is computed. */
bool fan_wire_is_whole(const uint8_t *p, size_t len);

/* Encode the header of `*f` into `head`, FAN_HEAD_BYTES bytes, checksum included.
 * With FAN_F_SUMMED the checksum also covers f->payload, f->payload_bytes bytes,
 * which the caller sends behind the header. */
void fan_wire_put(uint8_t *head, const struct fan_frag *f);

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

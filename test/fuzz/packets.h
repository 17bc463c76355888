/* SPDX-License-Identifier: Apache-2.0 */
/* packets.h - datagrams for the fuzz targets of the core: made to be given to it, and looked at
 * when they leave it. */
#ifndef TEST_FUZZ_PACKETS_H
#define TEST_FUZZ_PACKETS_H

#include "core/sum/contribution.h"
#include "core/wire/envelope.h"
#include "fuzz.h"

/* The datagram of `it` into `packet`, of FAN_PACKET_MAX bytes; its length. */
static inline size_t fuzz_datagram(uint8_t *packet, const struct fan_out_item *it)
{
	FUZZ_CHECK(fan_out_item_bytes(it) <= FAN_PACKET_MAX);
	return fan_out_item_copy(it, packet);
}

/* The same of one that leaves: it is well formed, and goes to somebody.  `*f` is in `packet`. */
static inline void fuzz_look(uint8_t *packet, const struct fan_out_item *it, struct fan_frag *f)
{
	FUZZ_CHECK(fan_wire_get(f, packet, fuzz_datagram(packet, it)) == -1);
	FUZZ_CHECK(it->dest == FAN_TO_PEER ? !fan_peer_is_none(&it->peer) : !!it->group);
}

/* The datagram of `f` with this body; its length. */
static inline size_t fuzz_put(uint8_t *packet, struct fan_frag *f, const uint8_t *body,
			      size_t bytes)
{
	f->payload = body;
	f->payload_bytes = bytes;
	fan_wire_put(packet, f);
	memcpy(packet + FAN_HEAD_BYTES, body, bytes);
	return FAN_HEAD_BYTES + bytes;
}

/* Make a header a run of `more` messages behind the first, or what is none for so many. */
static inline void fuzz_run(uint8_t *head, uint8_t more)
{
	fan_put16(head + 2, fan_get16(head + 2) | FAN_F_RUN);
	head[31] = more;
	fan_wire_recheck(head, FAN_HEAD_BYTES);
}

/* The datagram of a control message; in an envelope, of a job and epoch, if `v` has a token. */
static inline size_t fuzz_put_control(uint8_t *packet, struct fan_frag *h, const uint8_t *body,
				      size_t bytes, const struct fan_envelope *v, uint32_t job,
				      uint32_t epoch)
{
	uint8_t scratch[1024];
	struct fan_out_item it;
	struct fan_out out;
	fan_out_init(&out, &it, 1, scratch, sizeof scratch);
	fan_ctl_finish(&it, h, body, bytes);
	if (v->token)
		fan_envelope_put(&it, &out, v, job, epoch, it.head, it.payload, it.payload_bytes);
	return fuzz_datagram(packet, &it);
}

/* Any bytes with a right checksum; how many. */
static inline size_t fuzz_raw(struct fuzz *z, uint8_t *packet)
{
	size_t len = fuzz_8(z);
	fuzz_bytes(z, packet, len);
	fuzz_fix(packet, len);
	return len;
}

/* Flags of those that a message of this type may have. */
static inline uint16_t fuzz_flags(struct fuzz *z, unsigned type)
{
	static const uint16_t may[] = {
#define X(name, number, fields, flags, text) [number] = (flags),
		FAN_MESSAGES(X)
#undef X
	};
	return fuzz_16(z) & may[type];
}

/* Mostly nobody, or one of the first ranks. */
static inline fan_tag fuzz_tag(struct fuzz *z)
{
	uint8_t b = fuzz_8(z);
	return b < 128 ? 0 : b < 255 ? 1u + b % 8u : FAN_RANKS_MAX;
}

/* A bitmap of `words` into `b`, mostly of the first ranks; its length. */
static inline size_t fuzz_bitmap(struct fuzz *z, uint8_t *b, unsigned words)
{
	uint8_t low = fuzz_8(z);
	if (low == 255) {
		fuzz_bytes(z, b, words * 8u);
	} else {
		memset(b, 0, words * 8u);
		b[0] = low % 32;
	}
	return words * 8u;
}

/* Fill in what `f`, of a type that carries no body, says beside job, epoch, sender and number,
 * and `body`, of 512 bytes, with what it carries; its length. */
static inline size_t fuzz_part(struct fuzz *z, struct fan_frag *f, uint8_t kind, uint8_t *body)
{
	size_t bytes = 0;
	f->flags = fuzz_flags(z, f->type);
	f->op = fuzz_8(z) % 6;
	f->dtype = kind >> 4 & 7;
	f->count = fuzz_8(z) % 24;
	f->priority = fuzz_8(z);
	f->place = f->priority % FAN_PLACES;
	f->depth = f->priority % 8;
	f->last = f->priority;
	f->missing = f->priority;
	f->behind = f->count;
	f->before = f->priority;
	f->helper = fuzz_tag(z);
	f->to = f->helper;
	if (f->type == FAN_TYPE_PARTIAL) {
		f->root = fuzz_tag(z);
		bytes = fuzz_bitmap(z, body, f->priority < 240 ? 1 : 1 + f->priority % 4);
	} else if (f->type == FAN_TYPE_NEED && !f->to) {
		f->words = f->priority < 240 ? 1 : f->priority % 5;
		bytes = fuzz_bitmap(z, body, f->words);
	}
	if (f->type > FAN_TYPE_RESULT || f->flags & FAN_F_EMPTY)
		return bytes;
	size_t elements = f->type == FAN_TYPE_PARTIAL ? fan_partial_acc_bytes(f)
						      : fan_wire_bytes(f->dtype, f->count);
	fuzz_bytes(z, body + bytes, elements);
	return bytes + elements;
}

#endif

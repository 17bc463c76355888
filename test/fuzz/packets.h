/* SPDX-License-Identifier: Apache-2.0 */
/* packets.h - datagrams for the fuzz targets of the core: made to be given to it, and looked at
 * when they leave it. */
#ifndef TEST_FUZZ_PACKETS_H
#define TEST_FUZZ_PACKETS_H

#include "core/partial.h"
#include "core/via.h"
#include "fuzz.h"

/* The datagram of `it` into `packet`, of FAN_PACKET_MAX bytes; its length. */
static inline size_t fuzz_datagram(uint8_t *packet, const struct fan_out_item *it)
{
	FUZZ_CHECK(it->payload_bytes <= FAN_PACKET_MAX - FAN_HEAD_BYTES);
	memcpy(packet, it->head, FAN_HEAD_BYTES);
	if (it->payload_bytes)
		memcpy(packet + FAN_HEAD_BYTES, it->payload, it->payload_bytes);
	return FAN_HEAD_BYTES + it->payload_bytes;
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

/* The datagram of a control message; in an envelope, of a job and epoch, if `v` has a token. */
static inline size_t fuzz_put_control(uint8_t *packet, struct fan_frag *h, const uint8_t *body,
				      size_t bytes, const struct fan_via *v, uint32_t job,
				      uint32_t epoch)
{
	uint8_t scratch[1024];
	struct fan_out_item it;
	struct fan_out out;
	fan_out_init(&out, &it, 1, scratch, sizeof scratch);
	fan_ctl_finish(&it, h, body, bytes);
	if (v->token)
		fan_via_put(&it, &out, v, job, epoch, it.head, it.payload, it.payload_bytes);
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

/* Fill in what a DATA or a question for it says of its elements, and `body`, of 512 bytes; its
 * length. */
static inline size_t fuzz_part(struct fuzz *z, struct fan_frag *f, uint8_t kind, uint8_t *body)
{
	f->flags = fuzz_16(z) & FAN_F_KNOWN;
	f->op = fuzz_8(z) % 6;
	f->dtype = kind >> 4 & 7;
	f->count = fuzz_8(z) % 24;
	f->priority = fuzz_8(z);
	size_t bytes = (size_t)f->count * fan_dtype_bytes(f->dtype);
	if (f->flags & FAN_F_PARTIAL && f->type == FAN_TYPE_DATA) {
		f->sender = (uint16_t)(1 + fuzz_8(z) % 4 + (fuzz_8(z) << 8));
		bytes = (f->sender & 7) * 8u +
			(f->flags & FAN_F_EMPTY ? 0 : fan_partial_acc_bytes(f));
	} else if ((f->type != FAN_TYPE_DATA && f->type != FAN_TYPE_RESULT) ||
		   f->flags & FAN_F_EMPTY) {
		bytes = 0;
	}
	fuzz_bytes(z, body, bytes);
	return bytes;
}

#endif

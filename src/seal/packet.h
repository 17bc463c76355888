/* SPDX-License-Identifier: Apache-2.0 */
/* packet.h - sealed and signed packets: doc/protocol/sealed.md, section 3.
 *
 * A sealed packet has its header in clear, with the flag SEALED and the lower half of a counter in
 * place of the check, then the encrypted payload or body, then a tag over all.  A signed one, JOIN
 * and what answers it, is in clear as a whole, with SEALED and no check, and ends with a MAC under
 * the tenant's key.  The core sees neither: it gets and gives packets with a check. */
#ifndef FAN_SEAL_PACKET_H
#define FAN_SEAL_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/out.h"
#include "hkdf.h"

#define FAN_SEAL_MORE FAN_TAG_BYTES /* bytes by which a packet grows, but for a WELCOME */

/* Bytes beyond its payload before it was sealed: its header, and by what any grows. */
#define FAN_SEAL_ROOM (FAN_HEAD_BYTES + 2 * FAN_SEAL_MORE)

/* ---- replay ---- */

/* Which counters of a key have come, so that no packet is taken twice.
 *
 * The lower 32 bits of a counter travel; the upper ones bring it nearest to the
 * highest counter that has come.  As RFC 6479, a ring of bits that is never shifted. */

#define FAN_REPLAY_WORDS 64   /* a power of two, with room for more than each window */
#define FAN_REPLAY_UP	 1024 /* counters behind the highest that may still come from a rank */
#define FAN_REPLAY_DOWN	 2048 /* and to a rank, by group and by unicast */

struct fan_replay {
	uint64_t highest; /* that has come; counters begin with 1 */
	uint64_t bits[FAN_REPLAY_WORDS];
};

/* ---- packets ---- */

/* Fields of a header, for whoever decides what a packet is before it is opened. */
struct fan_seal_head {
	uint8_t type;
	bool sealed;	/* or signed */
	bool is_signed; /* of a RELAY or STATE, which are either: there is no counter */
	uint16_t sender;
	uint32_t job, epoch;
};

/* Read them.  False: it is no packet of this version. */
bool fan_seal_head(struct fan_seal_head *h, const uint8_t *pkt, size_t len);

enum fan_seal_verdict {
	FAN_SEAL_GOOD,
	FAN_SEAL_TAG,	 /* forged, damaged, or of another key */
	FAN_SEAL_REPLAY, /* it has arrived before, or is older than the window */
	FAN_SEAL_CLEAR,	 /* not sealed, though it should be */
	FAN_SEAL_COUNT
};

/* Seal `it` under `key` with `counter`, which that key has never had: its payload, encrypted, and
 * the tag go to `to`, it->payload_bytes + FAN_SEAL_MORE bytes.  False: it could not be done. */
bool fan_seal_item(const struct fan_cipher *c, void *key, uint64_t counter, struct fan_out_item *it,
		   uint8_t *to);

/* Open the sealed packet `pkt` of `*len` bytes in place, as it was before it was sealed; `window`:
 * FAN_REPLAY_UP or _DOWN.  Unless the verdict is GOOD, `pkt` is unspecified, and `r` unchanged. */
enum fan_seal_verdict fan_seal_open(const struct fan_cipher *c, void *key, struct fan_replay *r,
				    uint64_t window, uint8_t *pkt, size_t *len);

/* Data that a signature covers beside the message. */
struct fan_signed_with {
	const uint8_t *more; /* goes behind the message */
	size_t more_bytes;
	const uint8_t *known; /* is not sent: the receiver has it already */
	size_t known_bytes;
};

/* Sign `it` with the key of a tenant; `to` has room for its payload, what goes behind it, and
 * FAN_SEAL_MORE. */
void fan_sign_item(const struct fan_cipher *c, const uint8_t tenant[FAN_KEY_BYTES],
		   struct fan_out_item *it, uint8_t *to, const struct fan_signed_with *w);

/* Does the packet end with that tenant's signature of itself and of the `known_bytes` bytes at
 * `known`? */
bool fan_signed_is_by(const struct fan_cipher *c, const uint8_t tenant[FAN_KEY_BYTES],
		      const uint8_t *pkt, size_t len, const uint8_t *known, size_t known_bytes);

/* Restore the packet as it was before it was signed, without the `more_bytes` bytes appended to it.
 * Returns its length. */
size_t fan_signed_open(uint8_t *pkt, size_t len, size_t more_bytes);

#endif

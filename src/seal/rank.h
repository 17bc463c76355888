/* SPDX-License-Identifier: Apache-2.0 */
/* rank.h - a rank's end of a sealed job, on one shard.
 *
 * It stands between a worker (or the uplink of an aggregator, which is one) and its socket: the
 * worker's datagrams are sealed as they leave and opened as they arrive.  WELCOME
 * gives the keys, which are used once the worker sends for the job that it names.  The counter of
 * sent packets never decreases, whatever the keys are. */
#ifndef FAN_SEAL_RANK_H
#define FAN_SEAL_RANK_H

#include "packet.h"

#define FAN_SEAL_BELIEVE_NS    (1000 * FAN_MS) /* after the first JOIN, that keys are not shared */
#define FAN_SEAL_REFUSED_JOINS 8	       /* without a WELCOME, before a REFUSE is believed */
#define FAN_SEAL_FORMER	       8	       /* keys *down* whose windows are kept */

struct fan_seal_rank {
	const struct fan_cipher *cipher;
	uint8_t tenant[FAN_KEY_BYTES];
	uint16_t rank;
	uint64_t nonce;		    /* of its JOINs; 0: none has been sent */
	uint64_t join_ns;	    /* time of the first */
	unsigned refused;	    /* JOINs since a REFUSE that no WELCOME followed; 0: none */
	uint8_t path;		    /* of the last JOIN */
	uint8_t offered_path;	    /* of the WELCOME that `offered` is from */
	uint8_t at_path;	    /* of the WELCOME that `at` is from, or that repeated it */
	uint64_t sent;		    /* counter of the last packet */
	struct fan_traffic offered; /* by the last WELCOME; job 0: none has come */
	struct fan_traffic at;	    /* the keys below; job 0: there are none */
	void *up, *down;
	struct fan_replay heard;
	/* The window of a key *down* that was in use before.  A rank that moves between routes may
	 * return to a next hop, whose key has not changed. */
	struct fan_seal_former {
		struct fan_traffic of; /* job 0: none */
		struct fan_replay heard;
	} former[FAN_SEAL_FORMER];	/* a ring */
	unsigned next_former;		/* next place of that ring */
	uint64_t drops[FAN_SEAL_COUNT]; /* by verdict */
};

/* Make it; `tenant` is the tenant's key. */
void fan_seal_rank_init(struct fan_seal_rank *s, const struct fan_cipher *c,
			const uint8_t tenant[FAN_KEY_BYTES]);
void fan_seal_rank_free(struct fan_seal_rank *s);

/* Are its keys those of this job and epoch? */
bool fan_seal_rank_is_in(const struct fan_seal_rank *s, uint32_t job, uint32_t epoch);

/* Is it a result in clear, of the job and epoch of these keys?  One of the aggregator in this
 * process needs no more. */
bool fan_seal_rank_is_known(const struct fan_seal_rank *s, const uint8_t *pkt, size_t len);

/* Open the datagram `pkt` of `len` bytes in place.  Returns the length of the opened packet; 0:
 * drop it. */
size_t fan_seal_rank_recv(struct fan_seal_rank *s, uint64_t now_ns, uint8_t *pkt, size_t len);

/* Seal one item; `to` has room for its payload and 2 * FAN_SEAL_MORE bytes.  False: it cannot be
 * sent, since there is no key for it. */
bool fan_seal_rank_item(struct fan_seal_rank *s, uint64_t now_ns, struct fan_out_item *it,
			uint8_t *to);

/* Seal all items of `out`, one behind the other at `to`, which has `stride` bytes for each.  Those
 * that cannot be sealed, and those to nobody, are removed. */
void fan_seal_rank_send(struct fan_seal_rank *s, uint64_t now_ns, struct fan_out *out, uint8_t *to,
			size_t stride);

#endif

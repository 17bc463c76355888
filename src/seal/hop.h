/* SPDX-License-Identifier: Apache-2.0 */
/* hop.h - the keys of neighbours that are switches: doc/protocol/sealed.md, section 4.
 *
 * A switch has one key up for each job and next hop, whatever ranks use it.  So a gate finds a
 * switch below by its address, job and instance, since a restarted switch must not use a key again;
 * and a next hop by its address and job.
 *
 * A repeated RELAY of a past instance makes an entry.  An entry is unproved until a sealed packet
 * has arrived from it; it is replaced first, and displaces no proved one. */
#ifndef FAN_SEAL_HOP_H
#define FAN_SEAL_HOP_H

#include "packet.h"

#define FAN_HOP_SETS 1024 /* of neighbours' keys: for 64 jobs with 32 neighbours each */
#define FAN_HOP_WAYS 8	  /* places of a set */

#define FAN_INSTANCE_BYTES 8 /* of a switch's nonce */
#define FAN_FRESH_BYTES	   8 /* that answers must be made for */
#define FAN_RELAY_MORE	   (FAN_INSTANCE_BYTES + FAN_FRESH_BYTES) /* behind a signed RELAY up */

/* A message inside a RELAY. */
struct fan_seal_inner {
	uint8_t type;
	uint16_t token, rank; /* the RELAY's token; the rank that speaks */
	uint32_t job, epoch;
	uint64_t nonce;
	const uint8_t *at; /* its first byte */
	size_t bytes;	   /* from `at` to the end of the RELAY */
};

/* Look into the RELAY of header `head` and body `body`.  False: there is no message in it. */
bool fan_seal_inner_get(struct fan_seal_inner *in, const uint8_t *head, const uint8_t *body,
			size_t body_bytes);

struct fan_hop {
	void *theirs; /* opens what comes from there; NULL: the place is free */
	void *ours;   /* seals what goes there; NULL: it is a switch below */
	fan_peer at;
	uint32_t job, epoch; /* without its route */
	bool proved;
	uint64_t used;			   /* order of the last packet */
	uint64_t instance;		   /* of the switch below */
	uint8_t salt[FAN_SEAL_SALT_BYTES]; /* of the next hop */
	uint64_t sent;			   /* counter of the last packet to it */
	struct fan_replay heard;
};

struct fan_hops {
	const struct fan_cipher *cipher;
	uint64_t instance; /* of this switch */
	uint64_t turn;	   /* order of packets */
	uint64_t base;	   /* at least all counters of keys that are forgotten */
	unsigned count;
	struct fan_hop hop[FAN_HOP_SETS][FAN_HOP_WAYS];
};

/* NULL: no memory, or no random numbers. */
struct fan_hops *fan_hops_new(const struct fan_cipher *c);
void fan_hops_free(struct fan_hops *t); /* NULL is allowed */

/* Instance `instance` of the switch at `at` learns of the life `life` of a job of `tenant`, and
 * keeps its other entries.  False: no memory. */
bool fan_hops_below(struct fan_hops *t, const fan_peer *at, const uint8_t tenant[FAN_KEY_BYTES],
		    const struct fan_traffic *life, uint64_t instance);

/* The next hop at `at` has named the life `life`.  False: no memory. */
bool fan_hops_above(struct fan_hops *t, const fan_peer *at, const uint8_t tenant[FAN_KEY_BYTES],
		    const struct fan_traffic *life);

/* The next hop of the job at `at`; NULL: there is none. */
struct fan_hop *fan_hops_find_above(struct fan_hops *t, const fan_peer *at, uint32_t job,
				    uint32_t epoch);

/* Open the sealed packet `pkt` of `*len` bytes in place, as fan_seal_open does, with the verdict in
 * `*v`.  False: no known switch or next hop has sent it, and it is unchanged. */
bool fan_hops_open(struct fan_hops *t, const fan_peer *from, const struct fan_seal_head *h,
		   uint8_t *pkt, size_t *len, enum fan_seal_verdict *v);

/* Seal `it`, of the job of `to`. */
bool fan_hops_seal(struct fan_hops *t, struct fan_hop *to, struct fan_out_item *it, uint8_t *space);

#endif

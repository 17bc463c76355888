/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - the end of sealed jobs at an aggregator or a switch, on one shard, all of whose jobs are
 * sealed.
 *
 * Towards a parent it is a rank's end of each job (rank.h), with the same keys.  At a switch it is
 * an aggregator's end for those below, and has a key of its own for each job and next hop (hop.h).
 *
 * It stands between the shard's node and its sockets.  It answers nothing and keeps nothing
 * until a MAC or a tag is verified, but refuses a JOIN in clear, so that its sender learns the
 * cause.  The first WELCOME of each life of a job makes its keys; those of the previous life are
 * kept for stragglers. */
#ifndef FAN_SEAL_GATE_H
#define FAN_SEAL_GATE_H

#include "core/base/limits.h"
#include "key_file.h"
#include "packet.h"

#define FAN_GATE_LIVES	   2			 /* of the job at each place of an aggregator */
#define FAN_GATE_WAYS	   8			 /* of a switch's jobs at each place */
#define FAN_GATE_RANKS_MAX (2 * FAN_MEMBERS_MAX) /* with keys, of all lives */
#define FAN_GATE_TENANTS   8			 /* whose keys are cached */

struct fan_gate;

struct fan_gate_config {
	const struct fan_cipher *cipher;
	struct fan_keys keys;
	bool of_tenant;		/* the keys are one tenant's, and valid for all job names */
	fan_peer parent;	/* none: the shard has no parent */
	unsigned children;	/* most tokens of a switch that has a next hop; 0: it is none */
	uint16_t payload_bytes; /* most of a fragment */
	unsigned items;		/* most of an `out` */
};

struct fan_gate_stats {
	uint64_t opened;		/* packets */
	uint64_t drops[FAN_SEAL_COUNT]; /* by verdict */
	uint64_t refused;		/* JOINs in clear */
	uint64_t unsent;		/* packets of the node for which there was no key */
	unsigned ranks;			/* that have keys */
};

/* NULL: no memory, or no random numbers. */
struct fan_gate *fan_gate_new(const struct fan_gate_config *cfg);
void fan_gate_free(struct fan_gate *g); /* NULL is allowed */

/* Use these keys for JOINs from now on.  Jobs keep the keys that they have. */
void fan_gate_set_keys(struct fan_gate *g, const struct fan_keys *keys);

/* Open the datagram `pkt` of `len` bytes from `from` in place, for the node.  Returns the length of
 * the opened packet; 0: it is dropped, or answered in `out`, which has room for an item. */
size_t fan_gate_recv(struct fan_gate *g, uint64_t now_ns, const fan_peer *from, uint8_t *pkt,
		     size_t len, struct fan_out *out);

/* Is it a contribution in clear, of a rank that has keys?  One of a rank in this process needs no
 * more. */
bool fan_gate_is_known(struct fan_gate *g, const uint8_t *pkt, size_t len);

/* Was the last datagram opened a JOIN?  If so, once the node has handled it, call fan_gate_answer:
 * what the node wrote to `out` is the answer. */
bool fan_gate_is_join(const struct fan_gate *g);
void fan_gate_answer(struct fan_gate *g, struct fan_out *out);

/* Seal the items that fan_gate_answer has not sealed.  Call it before `out` is sent. */
void fan_gate_send(struct fan_gate *g, uint64_t now_ns, struct fan_out *out);

const struct fan_gate_stats *fan_gate_stats(const struct fan_gate *g);

/* Write to `out` the REFUSE, of 11 bytes, that answers a JOIN, in a RELAY or not, for which only
 * one side has a key; `have`: this side does.  False: it is no whole JOIN. */
bool fan_seal_refuse(const uint8_t *pkt, size_t len, const fan_peer *to, bool have,
		     struct fan_out *out);

#endif

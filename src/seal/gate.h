/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - an aggregator's, or a switch's, end of sealed jobs, on one shard: all of its jobs are
 * sealed.
 *
 * Towards a parent it is a rank's end of each job (rank.h), with the same keys.  At a switch it is
 * an aggregator's end for those below, and has a key of its own for each job and next hop (hop.h).
 *
 * It stands between the shard's node and its sockets.  Before a MAC or a tag has been found good
 * nothing is answered and nothing is kept; but a JOIN in clear is refused, so that its sender
 * learns the cause.  Keys of a job are made with the first WELCOME of each of its lives; those of
 * the life before are kept for stragglers. */
#ifndef FAN_SEAL_GATE_H
#define FAN_SEAL_GATE_H

#include "core/base/limits.h"
#include "key_file.h"
#include "packet.h"

#define FAN_GATE_LIVES	   2			 /* of the job at each place of an aggregator */
#define FAN_GATE_WAYS	   8			 /* of a switch's jobs at each place */
#define FAN_GATE_RANKS_MAX (2 * FAN_MEMBERS_MAX) /* with keys, of all lives */
#define FAN_GATE_TENANTS   8			 /* whose keys are at hand */

struct fan_gate;

struct fan_gate_config {
	const struct fan_cipher *cipher;
	struct fan_keys keys;
	bool of_tenant;		/* the keys are those of one tenant, and good for all job names */
	fan_peer parent;	/* none: the shard has no parent */
	unsigned children;	/* most tokens of a switch that has a next hop; 0: it is none */
	uint16_t payload_bytes; /* most of a fragment */
	unsigned items;		/* most of an `out` */
};

struct fan_gate_stats {
	uint64_t opened, sealed;	/* packets */
	uint64_t drops[FAN_SEAL_COUNT]; /* by verdict */
	uint64_t refused;		/* JOINs in clear */
	uint64_t unsent;		/* packets of the node for which there was no key */
	unsigned ranks;			/* that have keys */
};

/* NULL: no memory, or no random numbers. */
struct fan_gate *fan_gate_new(const struct fan_gate_config *cfg);
void fan_gate_free(struct fan_gate *g); /* NULL is allowed */

/* Take other keys for JOINs from now on; jobs go on with those that they have. */
void fan_gate_set_keys(struct fan_gate *g, const struct fan_keys *keys);

/* Open the datagram `pkt` of `len` bytes from `from` in place, for the node.  Returns its length
 * then; 0: it is dropped, or was answered in `out`, which has room for an item. */
size_t fan_gate_recv(struct fan_gate *g, uint64_t now_ns, const fan_peer *from, uint8_t *pkt,
		     size_t len, struct fan_out *out);

/* Was the datagram that was opened last a JOIN?  Then, when the node has taken it: what it has
 * written to `out` answers it. */
bool fan_gate_is_join(const struct fan_gate *g);
void fan_gate_answer(struct fan_gate *g, struct fan_out *out);

/* Seal all that has not been by fan_gate_answer; before `out` is sent. */
void fan_gate_send(struct fan_gate *g, uint64_t now_ns, struct fan_out *out);

const struct fan_gate_stats *fan_gate_stats(const struct fan_gate *g);

/* Write to `out` the answer to a JOIN, in a RELAY or not, that only one side has a key for: `have`
 * is ours, in a body of 11 bytes, as REFUSE has it.  False: it is no whole JOIN. */
bool fan_seal_refuse(const uint8_t *pkt, size_t len, const fan_peer *to, bool have,
		     struct fan_out *out);

#endif

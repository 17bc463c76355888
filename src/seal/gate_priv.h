/* SPDX-License-Identifier: Apache-2.0 */
/* gate_priv.h - the state of a gate, for gate.c (datagrams in and out) and gate_epoch.c (keys of
 * jobs and their ranks). */
#ifndef FAN_SEAL_GATE_PRIV_H
#define FAN_SEAL_GATE_PRIV_H

#include "core/wire/ctlmsg.h"
#include "gate.h"
#include "hop.h"
#include "rank.h"

#define FAN_GATE_PLACES FAN_GROUPS_MAX /* of jobs: places of the table of their lives */

/* One life of a rank.  Each life has a key of its own. */
struct fan_gate_peer {
	uint64_t nonce;
	void *up;
	struct fan_replay heard;
};

/* One life of a job. */
struct fan_gate_epoch {
	struct fan_traffic traffic; /* job 0: none */
	uint8_t tenant[FAN_KEY_BYTES];
	void *down;
	uint64_t sent;	  /* counter of the last packet */
	uint64_t used_at; /* number of the last packet that the gate opened for it */
	bool proved;	  /* a sealed packet has been opened for it */
	unsigned ranks;	  /* in `peer` */
	struct fan_gate_peer *peer[FAN_RANKS_MAX];
};

/* An opened JOIN, or the answer to one that a switch has forwarded, until the node's answer to it
 * is written. */
struct fan_gate_join {
	bool is_open;
	bool relayed; /* it arrived, or its answer leaves, in a RELAY */
	/* the end of that RELAY: the switch's instance and fresh bytes */
	uint8_t to[FAN_RELAY_MORE];
	uint64_t nonce;
	uint16_t rank;
	uint8_t tenant[FAN_KEY_BYTES];
};

/* At a switch: the last JOIN that it has forwarded with a token. */
struct fan_gate_child {
	struct fan_gate_join join;
	fan_peer next;	/* where to */
	uint64_t fresh; /* sent with it; 0: there was none */
	bool answered;	/* the next JOIN needs fresh bytes of its own */
};

struct fan_gate_tenant {
	size_t bytes; /* of the name; 0: none */
	char name[FAN_TENANT_MAX];
	unsigned of; /* the key of the fabric that it is made from */
	uint8_t key[FAN_KEY_BYTES];
};

struct fan_gate_uplink {
	struct fan_seal_rank rank;
	uint64_t used_ns;
};

struct fan_gate {
	struct fan_gate_config cfg;
	uint8_t extracted[FAN_KEYS_MAX][FAN_MAC_BYTES]; /* from cfg.keys, for those of tenants */
	struct fan_gate_stats stats;
	/* FAN_GATE_PLACES rows.  An aggregator numbers its jobs itself: the low byte is the row,
	 * and the later life is first.  Packets at a switch may belong to several aggregators,
	 * whose numbers may be equal: its rows have `lives` jobs, found by the whole number and the
	 * epoch. */
	struct fan_gate_epoch *life;
	unsigned lives; /* in a row: FAN_GATE_LIVES or FAN_GATE_WAYS */
	struct fan_gate_join join;
	struct fan_gate_tenant tenant[FAN_GATE_TENANTS]; /* whose JOINs were verified, in a ring */
	unsigned next_tenant;
	struct fan_gate_uplink *uplink; /* FAN_GATE_PLACES of them; NULL: there is no parent */
	struct fan_hops *hops;		/* neighbours that are switches */
	struct fan_gate_child *child;	/* cfg.children of them, by token */
	uint64_t fresh;			/* drawn last */
	uint64_t now_ns;
	size_t stride;
	unsigned done;	/* items of `out` that are as they are sent */
	uint8_t *space; /* `stride` bytes for each of cfg.items: of sealed ones, side by side */
	size_t used;	/* bytes of `space` */
};

/* gate_epoch.c */

/* The table of lives.  False: no memory. */
bool fan_gate_make_lives(struct fan_gate *g);
void fan_gate_free_lives(struct fan_gate *g);

/* A sealed packet has been opened for the life. */
void fan_gate_note_packet(const struct fan_gate *g, struct fan_gate_epoch *l);

/* The life of this job and epoch; NULL: there is none, or it has been replaced. */
struct fan_gate_epoch *fan_gate_find_epoch(struct fan_gate *g, uint32_t job, uint32_t epoch);

/* The life that the answer to g->join names, with keys for the sender of that JOIN: a rank, or the
 * switch at `at`.  NULL: there is no room, or the life is another tenant's. */
struct fan_gate_epoch *fan_gate_answer_epoch(struct fan_gate *g, uint32_t job, uint32_t epoch,
					     const fan_peer *at);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gate_priv.h - the state of a gate, for gate.c (datagrams in and out), gate_life.c (keys of jobs
 * and their ranks), gate_join.c (what is signed) and gate_parent.c (towards a parent). */
#ifndef FAN_SEAL_GATE_PRIV_H
#define FAN_SEAL_GATE_PRIV_H

#include "core/wire/ctlmsg.h"
#include "gate.h"
#include "hop.h"
#include "rank.h"

#define FAN_GATE_PLACES FAN_GROUPS_MAX /* of jobs: places of the table of their lives */

/* One life of a rank, whose key is not that of another. */
struct fan_gate_peer {
	uint64_t nonce;
	void *up;
	struct fan_replay heard;
};

/* One life of a job. */
struct fan_gate_life {
	struct fan_traffic traffic; /* job 0: none */
	uint8_t tenant[FAN_KEY_BYTES];
	void *down;
	uint64_t sent;	  /* counter of the last packet */
	uint64_t used_at; /* packet of the gate that was opened last for it */
	bool proved;	  /* there was one that was sealed */
	unsigned ranks;	  /* in `peer` */
	struct fan_gate_peer *peer[FAN_RANKS_MAX];
};

/* A JOIN that has been opened, or the answer to one that a switch has sent on, until what the node
 * makes of it is written. */
struct fan_gate_join {
	bool is_open;
	bool relayed; /* it has come, or its answer goes, in a RELAY */
	/* what stood behind that RELAY: the switch's instance and fresh bytes */
	uint8_t to[FAN_RELAY_MORE];
	uint64_t nonce;
	uint16_t rank;
	uint8_t tenant[FAN_KEY_BYTES];
};

/* At a switch: the last JOIN that it has sent on with a token. */
struct fan_gate_child {
	struct fan_gate_join join;
	fan_peer next;	/* where to */
	uint64_t fresh; /* sent with it; 0: there was none */
	bool answered;	/* the next one is another question */
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
	/* FAN_GATE_PLACES rows.  An aggregator has numbered its jobs itself: the low byte is the
	 * row, and the later life is first.  What passes a switch may be of several aggregators,
	 * which number alike: a row has as many jobs as it has room for, found by all of the number
	 * and the epoch. */
	struct fan_gate_life *life;
	unsigned lives; /* in a row: FAN_GATE_LIVES or FAN_GATE_WAYS */
	struct fan_gate_join join;
	struct fan_gate_tenant tenant[FAN_GATE_TENANTS]; /* whose JOINs were good, in a ring */
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

/* gate_life.c */

/* The table of lives.  False: no memory. */
bool fan_gate_make_lives(struct fan_gate *g);
void fan_gate_free_lives(struct fan_gate *g);

/* Something sealed has been opened for the life. */
void fan_gate_heard(const struct fan_gate *g, struct fan_gate_life *l);

/* The life that is called so; NULL: none, or no more. */
struct fan_gate_life *fan_gate_find_life(struct fan_gate *g, uint32_t job, uint32_t epoch);

/* The life that the answer to g->join tells of, with keys for whoever has sent that: a rank, or the
 * switch at `at`.  NULL: not now, or it is another tenant's. */
struct fan_gate_life *fan_gate_tell(struct fan_gate *g, uint32_t job, uint32_t epoch,
				    const fan_peer *at);

/* gate_join.c */

void fan_gate_extract(struct fan_gate *g);

/* The key of the tenant of a JOIN's name, from key `of` of the fabric.  NULL: no name. */
const struct fan_gate_tenant *fan_gate_tenant_of(struct fan_gate *g, const uint8_t *join,
						 size_t len, unsigned of,
						 struct fan_gate_tenant *made);

/* Open a JOIN, in a RELAY or not, or, of a switch, a RELAY that answers one; note it as g->join. */
enum fan_seal_verdict fan_gate_open_signed(struct fan_gate *g, const fan_peer *from,
					   const struct fan_seal_head *h, uint8_t *pkt,
					   size_t *len);

/* Does the item, of inner message `in` if it is a RELAY, answer g->join?  Then sign it.  False: it
 * must not be sent. */
bool fan_gate_is_answer(const struct fan_gate *g, const struct fan_seal_head *h,
			const struct fan_out_item *it, const struct fan_seal_inner *in);
bool fan_gate_sign(struct fan_gate *g, const struct fan_seal_head *h, struct fan_out_item *it,
		   const struct fan_seal_inner *in, uint8_t *to);

/* Sign the RELAY with g->join for the next hop. */
bool fan_gate_sign_join(struct fan_gate *g, struct fan_out_item *it,
			const struct fan_seal_inner *in, uint8_t *to);

/* gate_parent.c */

bool fan_gate_close_upwards(struct fan_gate *g, const struct fan_seal_head *h,
			    struct fan_out_item *it, uint8_t *to);
size_t fan_gate_recv_from_parent(struct fan_gate *g, const struct fan_seal_head *h, uint8_t *pkt,
				 size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* shared_priv.h - what shared.c (fragments) and relay.c (children, control messages and
 * the way down) share. */
#ifndef FAN_SHARED_PRIV_H
#define FAN_SHARED_PRIV_H

#include "policy_shared.h"
#include "shared_lead.h"
#include "via.h"

/* A life of a rank that sends through here: a worker, or one behind a switch below. */
struct fan_child {
	fan_peer peer;	   /* the worker; or the switch below, and its token for it */
	uint64_t nonce;	   /* of its last JOIN */
	uint64_t heard_ns; /* last control message... */
	uint32_t job, epoch;
	uint16_t rank; /* ...and what it was about */
	uint8_t beat;  /* flags of its last BEAT... */
	bool used;
	struct fan_cache_use cache;  /* ...and what that said of its cache */
	char name[FAN_NAME_MAX + 1]; /* of the job, in its last JOIN */
};

/* By rank: its parts that a child was given to keep, of those that the rank owes. */
struct fan_help_row {
	uint32_t parts[FAN_RANKS_MAX];
};

/* As in struct fan_shared_stats, for one job. */
struct fan_use {
	uint64_t hits, taken, collisions, over_quota, passed;
	uint64_t preemptions; /* by it */
	uint64_t evictions;   /* of it */
	uint64_t flushes, completions, results;
};

/* Count for the switch and for the job. */
#define FAN_COUNT(sh, j, what) ((sh)->stats.what++, (j)->use.what++)

/* What the home's envelopes have told of a job. */
struct fan_shared_job {
	uint32_t id, epoch;
	bool used;
	bool switches; /* some ranks are behind a switch below */
	uint16_t ranks, window, payload_bytes;
	uint16_t children;		/* ranks that are below */
	uint64_t below[FAN_RANK_WORDS]; /* those */
	uint32_t held;			/* slots */
	uint32_t quota;			/* the most it may hold; 0: all */
	uint64_t fill_ns;		/* smoothed: a slot's first part to its last... */
	uint64_t turn_ns;		/* ...and its sum to the result */
	struct fan_use use;
	char name[FAN_NAME_MAX + 1]; /* empty: not known, since a JOIN would tell it */
	struct fan_lead lead;
	struct fan_group group;
	struct fan_routed *route;      /* NULL: it has none */
	uint64_t heard_ns;	       /* when the home has told of it last */
	fan_peer up;		       /* where what is summed here goes */
	fan_peer hops[FAN_RANKS_MAX];  /* where to send once, as in struct fan_job; of a job with
					* a route, only workers that have joined here */
	uint16_t child[FAN_RANKS_MAX]; /* number of the rank's child + 1; 0: not below */
};

struct fan_shared {
	struct fan_shared_config cfg;
	enum fan_contest (*contest)(const struct fan_shared_config *cfg, struct fan_sslot *slot,
				    const struct fan_frag *f);
	struct fan_sslots slots;
	struct fan_child *children; /* token - 1 is the index */
	struct fan_help_row *helps; /* likewise; set when the child becomes a rank of a job */
	uint64_t deadline_ns, now_ns;
	struct fan_shared_stats stats;
	uint8_t echoed[FAN_ECHO_MAX]; /* body of every ECHOED, which is cut to its length */
	struct fan_shared_job job[FAN_JOBS_MAX]; /* as the home numbers them, without a route */
	uint16_t number[FAN_ROUTES_MAX];	 /* of the routes, cfg.routes entries; 0: free */
	struct fan_routed *route;		 /* likewise... */
	struct fan_shared_job *routed;		 /* ...and FAN_ROUTE_LIVES jobs of each */
};

enum fan_verdict fan_shared_drop(struct fan_shared *sh, enum fan_drop why);

/* Which of the routes job `id` has; -1: none, or none that is known. */
static inline int fan_shared_find_route(const struct fan_shared *sh, uint32_t id)
{
	uint16_t number = fan_route_number(id), routes = sh->cfg.routes;
	for (unsigned n = 0; n < routes && number; n++) {
		unsigned i = (number + n) % routes; /* most often where it was put first */
		if (sh->number[i] == number)
			return (int)i;
	}
	return -1;
}

/* The job, or NULL: nothing is known of it, or of this life of it. */
static inline struct fan_shared_job *fan_shared_job_of(struct fan_shared *sh, uint32_t id,
						       uint32_t epoch)
{
	int route = fan_route_number(id) && sh->cfg.routes ? fan_shared_find_route(sh, id) : -2;
	unsigned lives = route < 0 ? 1 : FAN_ROUTE_LIVES;
	if (route == -1)
		return NULL;
	struct fan_shared_job *j = route < 0 ? &sh->job[(id & 0xff) % FAN_JOBS_MAX]
					     : &sh->routed[(unsigned)route * FAN_ROUTE_LIVES];
	for (unsigned i = 0; i < lives; i++, j++)
		if (j->used && j->id == id && j->epoch == epoch)
			return j;
	return NULL;
}

static inline unsigned fan_shared_places(const struct fan_shared *sh)
{
	return FAN_JOBS_MAX + (unsigned)sh->cfg.routes * FAN_ROUTE_LIVES;
}

static inline struct fan_shared_job *fan_shared_job_at(const struct fan_shared *sh, unsigned i)
{
	const struct fan_shared_job *j =
		i < FAN_JOBS_MAX ? &sh->job[i] : &sh->routed[i - FAN_JOBS_MAX];
	return (struct fan_shared_job *)j;
}

/* Where the child of `rank` is reached; none if it is not below. */
fan_peer fan_relay_hop(const struct fan_shared *sh, const struct fan_shared_job *j, uint16_t rank);

/* Answer `f` of an unknown child: who are you? */
enum fan_verdict fan_relay_ask_who(struct fan_shared *sh, const fan_peer *to,
				   const struct fan_frag *f, enum fan_drop why,
				   struct fan_out *out);

/* A control message from below, and one from above. */
enum fan_verdict fan_relay_up(struct fan_shared *sh, uint64_t now_ns, const fan_peer *from,
			      const struct fan_frag *f, struct fan_out *out);
enum fan_verdict fan_relay_down(struct fan_shared *sh, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

/* usage.c - questions about the switch. */
void fan_usage_prepare(struct fan_shared *sh);
enum fan_verdict fan_usage_recv(struct fan_shared *sh, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

/* Send `f` on as it came. */
void fan_relay_copy(struct fan_out_item *it, const struct fan_frag *f);

/* Send a fragment's message on to the children it is for. */
enum fan_verdict fan_relay_fragment(struct fan_shared *sh, struct fan_shared_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out);

/* Is it for one rank only?  Then `priority` says for which. */
bool fan_relay_is_for_one(const struct fan_frag *f);

/* routed.c - what is different where jobs have routes. */

/* Does `f` come from above?  Else from below.  FAN_DROP_ROUTE: neither, or it has a route that
 * is not known; else -1. */
int fan_routed_direction(const struct fan_shared *sh, const fan_peer *from,
			 const struct fan_frag *f, bool *above);

/* The entry for what `from` says in the control message `f` of a rank, in an envelope
 * (`hops` > 0) or not; NULL: it is off the route. */
const struct fan_route_entry *fan_routed_control(const struct fan_shared *sh, const fan_peer *from,
						 const struct fan_frag *f, unsigned hops);

/* Has the route of `job` the messages of child `c` go to `from`, so that answers come from
 * there?  True if it has none.  Tokens of earlier lives may lead in a circle. */
bool fan_routed_is_back(const struct fan_shared *sh, const fan_peer *from, uint32_t job,
			const struct fan_child *c);

/* Which entry the part has, whose ranks are known.  -1, or why it is dropped. */
int fan_routed_part(const struct fan_shared *sh, const struct fan_shared_job *j,
		    const fan_peer *from, struct fan_part *p);

/* Nothing is known of the job of `f`, of which `from` has sent something. */
enum fan_verdict fan_routed_ask_who(struct fan_shared *sh, const fan_peer *from,
				    const struct fan_frag *f, struct fan_out *out);

/* From above: for all ranks, and for one. */
enum fan_verdict fan_routed_to_all(struct fan_shared *sh, const struct fan_shared_job *j,
				   const fan_peer *from, const struct fan_frag *f,
				   struct fan_out *out);
enum fan_verdict fan_routed_fragment(struct fan_shared *sh, const struct fan_shared_job *j,
				     const fan_peer *from, const struct fan_frag *f,
				     struct fan_out *out);

/* What of the job follows from its route. */
void fan_routed_install(const struct fan_shared *sh, struct fan_shared_job *j);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* switch_priv.h - the state of a switch, for switch.c (fragments), relay.c (children and control
 * messages) and the slot policies. */
#ifndef FAN_SWITCH_SWITCH_PRIV_H
#define FAN_SWITCH_SWITCH_PRIV_H

#include <assert.h>

#include "core/base/out.h"
#include "core/recovery/seq_gap.h"
#include "core/sum/contribution.h"
#include "core/wire/envelope.h"
#include "policy.h"

/* ---- sent.c ---- */

/* A log of a job's datagrams sent up, by number, so that a loss above shows at once and is
 * repaired.
 *
 * The next hop follows the numbers, and asks by MISS.  A sum is sent again while its slot has it.
 * A forwarded datagram is requested from below: a worker gets NEED, a switch MISS by its own
 * number. PROBEs have timers. */

enum fan_sent_kind {
	FAN_SENT_OTHER, /* is not sent again */
	FAN_SENT_SUM,	/* of slot number `what` */
	FAN_SENT_DATA,	/* of rank `what`, a worker here */
	FAN_SENT_BELOW, /* passed as it came from the switch below that has rank `what` */
};

struct fan_sent {
	unsigned frag : 28; /* low bits */
	unsigned kind : 2;  /* enum fan_sent_kind */
	unsigned tries : 2; /* times that it was sent again before, up to FAN_MISS_RESENDS */
	uint16_t what;
	uint16_t below; /* the number that it had when it came */
};
_Static_assert(FAN_SLOTS_MAX <= UINT16_MAX + 1 && FAN_MISS_RESENDS <= 3, "fields of fan_sent");

struct fan_sent_log {
	const struct fan_switch_job *job; /* NULL: the log is free */
	fan_peer next;			  /* where it all went */
	uint64_t front;			  /* the highest fragment */
	uint16_t last;			  /* number that was given last */
	uint16_t count;			  /* entries that are filled */
	uint16_t credit;		  /* FAN_SENT_COST of it let one be sent again */
	struct fan_sent at[FAN_SENT_MAX]; /* by number */
};

/* Fragment `frag` leaves for the next hop `next`, described by `s`.  Its number; 0, if there is no
 * log.
 */
uint16_t fan_sent_note(struct fan_switch *sw, struct fan_switch_job *j, const fan_peer *next,
		       uint64_t frag, struct fan_sent s);

/* The entry of `f`, a DATA, PARTIAL or PROBE that passes as it came. */
struct fan_sent fan_sent_passing(const struct fan_switch *sw, const struct fan_switch_job *j,
				 const struct fan_frag *f);

/* The MISS `f` has come from `from`, above. */
enum fan_verdict fan_sent_missed(struct fan_switch *sw, struct fan_switch_job *j,
				 const fan_peer *from, const struct fan_frag *f,
				 struct fan_out *out);

/* ---- the state ---- */

/* A life of a rank that sends through this switch: a worker, or a token of a switch below
 * (child.h). */
struct fan_child {
	fan_peer peer;	     /* the worker, or the switch below with its token */
	uint64_t nonce;	     /* of this life */
	uint64_t heard_ns;   /* time of its last control message */
	uint32_t job, epoch; /* in that message */
	uint16_t rank;
	uint8_t beat;	 /* flags of its last BEAT */
	uint16_t gap_of; /* of the children behind the same switch, the one whose `gap` counts */
	struct fan_seq_gap gap;		   /* of the numbers of DATA, PARTIALs and PROBEs */
	struct fan_helper_cache_use cache; /* in its last BEAT */
	char name[FAN_NAME_MAX + 1];	   /* of the job, in its last JOIN */
};

/* Count for the switch and for the job. */
#define FAN_COUNT(sw, j, what) ((sw)->stats.what++, (j)->stats.what++)

/* A job, as the aggregator's envelopes describe it. */
struct fan_switch_job {
	uint32_t id, epoch;
	bool used;
	bool switches; /* some ranks are behind another switch */
	uint16_t ranks, window, payload_bytes;
	uint16_t children;		/* ranks that are below */
	uint64_t below[FAN_RANK_WORDS]; /* these ranks */
	uint32_t held;			/* slots that the job holds */
	uint32_t quota;			/* most slots that it may hold; 0: all */
	struct fan_stretch own;		/* slots that no other route's job has; count 0: none */
	uint64_t fill_ns;		/* smoothed: from a slot's first contribution to its last */
	uint64_t turn_ns;		/* smoothed: from a slot's sum to the result */
	/* As in struct fan_switch_stats, for one job. */
	struct {
		uint64_t hits, taken, collisions, over_quota, passed;
		uint64_t preemptions; /* by the job */
		uint64_t evictions;   /* of its sums */
		uint64_t flushes, completions, results;
	} stats;
	char name[FAN_NAME_MAX + 1]; /* empty: not known; JOINs have it */
	const struct fan_slot_policy *policy;
	const struct fan_run_ahead_ops *ahead; /* NULL: its ranks go in step */
	struct fan_sa_atp *sa;		       /* state of run-ahead; the place keeps it */
	struct fan_group group;
	struct fan_route *route;		       /* NULL: it has none */
	struct fan_seq_gap gap[FAN_ROUTE_ENTRIES_MAX]; /* by route->all, as in struct fan_child */
	uint16_t sent[FAN_SENT_NEXTS]; /* logs of what has gone up: number + 1; 0: none */
	uint64_t heard_ns;	       /* time of the aggregator's last envelope about it */
	uint64_t warned_ns;	       /* time of the last warning to all below, + 1; 0: none */
	fan_peer up;		       /* next hop of sums */
	/* as in struct fan_job; of a job with a route, only workers that have joined here */
	fan_peer hops[FAN_RANKS_MAX];
	uint16_t child[FAN_RANKS_MAX]; /* index of the rank's child, + 1; 0: not below */
};

struct fan_switch {
	struct fan_switch_config cfg;
	const struct fan_slot_policy *policy; /* of jobs without run-ahead */
	struct fan_goal went;		      /* destination of the last contribution or sum */
	const struct fan_switch_job *went_of; /* the job of that */
	struct fan_sslots slots;
	struct fan_child *children;	 /* token - 1 is the index */
	uint32_t *marks;		 /* by child; 0: there is none */
	uint32_t unsure_next;		 /* where to look first for an unsure one to replace */
	uint64_t asked_ns[FAN_WHOS_MAX]; /* time of the last WHO to neighbours of each kind, + 1 */
	struct fan_sent_log *sent;	 /* FAN_SENT_LOGS */
	struct fan_helper_row *kept; /* by child; cleared when the child becomes a rank of a job */
	uint64_t deadline_ns, now_ns;
	uint64_t tell_ns; /* being stopped: when children get that again; UINT64_MAX: it is not */
	uint16_t telling; /* the next child that gets it */
	struct fan_switch_stats stats;
	uint8_t echoed[FAN_ECHO_MAX]; /* body of every answer to an ECHO, cut to its length */
	struct fan_switch_job
		job[FAN_JOBS_MAX];	 /* jobs without a route, by the aggregator's index */
	uint16_t number[FAN_ROUTES_MAX]; /* of route[i]; 0: free */
	struct fan_route *route;	 /* cfg.routes entries */
	struct fan_switch_job *routed;	 /* FAN_ROUTE_LIVES jobs of each route */
};

enum fan_verdict fan_switch_drop(struct fan_switch *sw, enum fan_drop why);

/* Assert the invariants of a job. */
static inline void fan_switch_job_check(const struct fan_switch_job *j)
{
	assert(j->used && j->policy && j->window >= 1);
	assert(j->ranks >= 1 && j->ranks <= FAN_RANKS_MAX && j->children <= j->ranks);
	assert(!j->quota || j->held <= j->quota);
	assert(!j->own.count || j->route);
}

static inline bool fan_switch_holds(const struct fan_switch_job *j, const struct fan_sslot *slot)
{
	return fan_sslot_holds(slot) && slot->job == j->id && slot->epoch == j->epoch;
}

/* Send the sum in `slot` up, which holds one: not for the first time that its number was missed, if
 * `tries`. */
void fan_switch_send_up(struct fan_switch *sw, struct fan_switch_job *j, struct fan_sslot *slot,
			unsigned tries, struct fan_out *out);

/* Send the contribution on unchanged but for the flags `met`. */
enum fan_verdict fan_switch_pass_up(struct fan_switch *sw, struct fan_switch_job *j,
				    const struct fan_contribution *p, uint16_t met,
				    struct fan_out *out);

/* The contribution finds no slot: it goes on, with the flags `met`, to where others of its fragment
 * are, or will be. */
enum fan_verdict fan_switch_pass_unaggregated(struct fan_switch *sw, struct fan_switch_job *j,
					      const struct fan_contribution *p, uint16_t met,
					      struct fan_out *out);

static inline struct fan_goal fan_goal_up(const fan_peer *next)
{
	return (struct fan_goal){.peer = *next, .rank = FAN_RANK_NONE};
}

/* Does a helper send `f` for other ranks? */
static inline bool fan_speaks_for_others(const struct fan_frag *f)
{
	return f->helper && (f->type == FAN_TYPE_PROBE || f->type == FAN_TYPE_PARTIAL);
}

/* Index of the route of job `id`; -1: none, or not installed. */
static inline int fan_switch_find_route(const struct fan_switch *sw, uint32_t id)
{
	uint16_t number = fan_route_number(id), routes = sw->cfg.routes;
	for (unsigned n = 0; n < routes && number; n++) {
		unsigned i = (number + n) % routes; /* most often its first place */
		if (sw->number[i] == number)
			return (int)i;
	}
	return -1;
}

/* The job, or NULL: it, or this epoch of it, is not known. */
static inline struct fan_switch_job *fan_switch_job_of(struct fan_switch *sw, uint32_t id,
						       uint32_t epoch)
{
	int route = fan_route_number(id) && sw->cfg.routes ? fan_switch_find_route(sw, id) : -2;
	unsigned lives = route < 0 ? 1 : FAN_ROUTE_LIVES;
	if (route == -1)
		return NULL;
	struct fan_switch_job *j = route < 0 ? &sw->job[(id & 0xff) % FAN_JOBS_MAX]
					     : &sw->routed[(unsigned)route * FAN_ROUTE_LIVES];
	for (unsigned i = 0; i < lives; i++, j++)
		if (j->used && j->id == id && j->epoch == epoch)
			return j;
	return NULL;
}

static inline unsigned fan_switch_places(const struct fan_switch *sw)
{
	return FAN_JOBS_MAX + (unsigned)sw->cfg.routes * FAN_ROUTE_LIVES;
}

static inline struct fan_switch_job *fan_switch_job_at(const struct fan_switch *sw, unsigned i)
{
	const struct fan_switch_job *j =
		i < FAN_JOBS_MAX ? &sw->job[i] : &sw->routed[i - FAN_JOBS_MAX];
	return (struct fan_switch_job *)j;
}

/* ---- relay.c: messages of children up, and messages down to them ---- */

/* The hop below towards the child of `rank`; none: it is not below. */
static inline fan_peer fan_relay_hop(const struct fan_switch *sw, const struct fan_switch_job *j,
				     uint16_t rank)
{
	const fan_peer none = {.port = 0};
	if (rank >= j->ranks || !j->child[rank])
		return none;
	return fan_peer_hop(&sw->children[j->child[rank] - 1].peer);
}

/* Answer `f` of an unknown child with WHO, and drop `f` for the reason `why`.  `depth`: hops that
 * the WHO goes down a route, beginning here; 0: without a route. */
enum fan_verdict fan_relay_ask_who(struct fan_switch *sw, const fan_peer *to,
				   const struct fan_frag *f, unsigned depth, enum fan_drop why,
				   struct fan_out *out);

/* Forget the job: it is silent, or its entry is needed. */
void fan_relay_end_job(struct fan_switch *sw, struct fan_switch_job *j);

/* Handle a control message from below, and one from above. */
enum fan_verdict fan_relay_up(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
			      const struct fan_frag *f, struct fan_out *out);

enum fan_verdict fan_relay_down(struct fan_switch *sw, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

/* Make `it` an unchanged copy of `f`. */
void fan_relay_copy(struct fan_out_item *it, const struct fan_frag *f);

/* Send a fragment's message from above to the children that it is for. */
enum fan_verdict fan_relay_fragment(struct fan_switch *sw, struct fan_switch_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out);

/* The only rank that a message from above is for; FAN_RANK_NONE: it is for all. */
uint16_t fan_relay_addressee(const struct fan_frag *f);

/* ---- stats.c ---- */

/* Answer the QUERY `f`. */
enum fan_verdict fan_stats_recv(struct fan_switch *sw, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

#endif

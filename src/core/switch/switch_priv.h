/* SPDX-License-Identifier: Apache-2.0 */
/* switch_priv.h - what switch.c (fragments) and relay.c (children, control messages and
 * the way down) share. */
#ifndef FAN_SWITCH_SWITCH_PRIV_H
#define FAN_SWITCH_SWITCH_PRIV_H

#include <assert.h>

#include "core/recovery/seq_gap.h"
#include "core/wire/envelope.h"
#include "policy_sa_atp.h"
#include "sent.h"

/* A life of a rank that sends through here: a worker, or one behind a switch below. */
struct fan_child {
	fan_peer peer;	   /* the worker; or the switch below, and its token for it */
	uint64_t nonce;	   /* of its last JOIN */
	uint64_t heard_ns; /* last control message... */
	uint32_t job, epoch;
	uint16_t rank; /* ...and what it was about */
	uint8_t beat;  /* flags of its last BEAT... */
	bool used;
	uint16_t lead; /* of the children behind the same switch, the one whose `gap` counts */
	struct fan_seq_gap gap;		   /* of the numbers of DATA, PARTIALs and PROBEs */
	struct fan_helper_cache_use cache; /* ...and what that said of its cache */
	char name[FAN_NAME_MAX + 1];	   /* of the job, in its last JOIN */
};

/* By rank: its parts that a child was given to keep, of those that the rank owes. */
struct fan_help_row {
	uint32_t parts[FAN_RANKS_MAX];
};

/* As in struct fan_switch_stats, for one job. */
struct fan_use {
	uint64_t hits, taken, collisions, over_quota, passed;
	uint64_t preemptions; /* by it */
	uint64_t evictions;   /* of it */
	uint64_t flushes, completions, results;
};

/* Count for the switch and for the job. */
#define FAN_COUNT(sw, j, what) ((sw)->stats.what++, (j)->use.what++)

/* What the aggregator's envelopes have told of a job. */
struct fan_switch_job {
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
	const struct fan_slot_policy *policy;
	struct fan_sa_atp sa; /* of that policy, if it is this */
	struct fan_group group;
	struct fan_route *route;		       /* NULL: it has none */
	struct fan_seq_gap gap[FAN_ROUTE_ENTRIES_MAX]; /* by route->all, as in struct fan_child */
	uint16_t sent[FAN_SENT_NEXTS]; /* logs of what has gone up: number + 1; 0: none */
	uint64_t heard_ns;	       /* when the aggregator has told of it last */
	fan_peer up;		       /* where what is summed here goes */
	fan_peer hops[FAN_RANKS_MAX];  /* where to send once, as in struct fan_job; of a job with
					* a route, only workers that have joined here */
	uint16_t child[FAN_RANKS_MAX]; /* number of the rank's child + 1; 0: not below */
};

struct fan_switch {
	struct fan_switch_config cfg;
	const struct fan_slot_policy *policy; /* of jobs whose ranks do not run ahead */
	struct fan_goal went;		      /* where the last part or sum went that left */
	struct fan_sslots slots;
	struct fan_child *children; /* token - 1 is the index */
	struct fan_sent_log *sent;  /* FAN_SENT_LOGS */
	struct fan_help_row
		*helps; /* children likewise; set when the child becomes a rank of a job */
	uint64_t deadline_ns, now_ns;
	struct fan_switch_stats stats;
	uint8_t echoed[FAN_ECHO_MAX]; /* body of every answer to an ECHO, cut to its length */
	struct fan_switch_job
		job[FAN_JOBS_MAX];	 /* as the aggregator numbers them, without a route */
	uint16_t number[FAN_ROUTES_MAX]; /* of the routes, cfg.routes entries; 0: free */
	struct fan_route *route;	 /* likewise... */
	struct fan_switch_job *routed;	 /* ...and FAN_ROUTE_LIVES jobs of each */
};

enum fan_verdict fan_switch_drop(struct fan_switch *sw, enum fan_drop why);

/* What holds of a job between calls. */
static inline void fan_switch_job_check(const struct fan_switch_job *j)
{
	assert(j->used && j->policy && j->window >= 1);
	assert(j->ranks >= 1 && j->ranks <= FAN_RANKS_MAX && j->children <= j->ranks);
	assert(!j->quota || j->held <= j->quota);
}

static inline bool fan_switch_holds(const struct fan_switch_job *j, const struct fan_sslot *slot)
{
	return fan_sslot_holds(slot) && slot->job == j->id && slot->epoch == j->epoch;
}

/* Send the sum in `slot` up, which holds one: not for the first time that its number was missed, if
 * `tries`. */
void fan_switch_send_up(struct fan_switch *sw, struct fan_switch_job *j, struct fan_sslot *slot,
			unsigned tries, struct fan_out *out);

/* Send the part on as it came, with what it has `met` here. */
enum fan_verdict fan_switch_pass_up(struct fan_switch *sw, struct fan_switch_job *j,
				    const struct fan_part *p, uint16_t met, struct fan_out *out);

/* A part is in, or will not come.  Was it the last one? */
enum fan_verdict fan_switch_added(struct fan_switch *sw, struct fan_switch_job *j,
				  struct fan_sslot *slot, struct fan_out *out);

static inline struct fan_goal fan_goal_up(const fan_peer *next)
{
	return (struct fan_goal){.peer = *next, .rank = FAN_RANK_NONE};
}

/* Does a helper send it for other ranks? */
static inline bool fan_speaks_for_others(const struct fan_frag *f)
{
	return f->helper && (f->type == FAN_TYPE_PROBE || f->type == FAN_TYPE_PARTIAL);
}

/* Has it taken no longer than it may, going by what is usual?  Whoever asks is early then. */
static inline bool fan_switch_is_young(uint64_t age_ns, uint64_t usual_ns)
{
	uint64_t most_ns = usual_ns * 4;
	most_ns = most_ns < FAN_REMIND_MIN_NS ? FAN_REMIND_MIN_NS : most_ns;
	return age_ns < (most_ns < FAN_REMIND_MAX_NS ? most_ns : FAN_REMIND_MAX_NS);
}

/* Which of the routes job `id` has; -1: none, or none that is known. */
static inline int fan_switch_find_route(const struct fan_switch *sw, uint32_t id)
{
	uint16_t number = fan_route_number(id), routes = sw->cfg.routes;
	for (unsigned n = 0; n < routes && number; n++) {
		unsigned i = (number + n) % routes; /* most often where it was put first */
		if (sw->number[i] == number)
			return (int)i;
	}
	return -1;
}

/* The job, or NULL: nothing is known of it, or of this life of it. */
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

#endif

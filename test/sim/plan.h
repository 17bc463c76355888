/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what one seed stands for: switch, jobs, links, and what goes wrong. */
#ifndef TEST_SIM_PLAN_H
#define TEST_SIM_PLAN_H

#include "host.h"
#include "moves.h"

#define PLAN_JOBS_MAX	3
#define PLAN_SHARED_MAX 3 /* without routes */
#define PLAN_LEAVES_MAX 4

/* What stands between workers and aggregator. */
enum plan_policy {
	PLAN_SWITCHML, /* nothing */
	PLAN_ATP,
	PLAN_ESA,
	PLAN_MIX,    /* one of these, as the seed says */
	PLAN_ROUTED, /* switches, and routes through them */
	PLAN_MOVED,  /* the same, and routes change while jobs run */
	PLAN_TREE,   /* aggregators below another, with any policy in front of each */
	PLAN_LEVELS, /* ESA on routes of two levels: each rack sums, then a switch above */
	PLAN_GRID, /* GRID's switches in place of the others: shared, routed, moved or tree, as the
		      seed says */
	PLAN_POLICIES
};

/* What happens beside random faults on the links.  It happens to job 0. */
enum story {
	STORY_CALM,		  /* nothing */
	STORY_DEAF,		  /* a rank that heard the group hears it no more */
	STORY_CUT,		  /* a link is down for a while */
	STORY_RESTART,		  /* the switch restarts; the job is run again */
	STORY_DEATH,		  /* a rank dies */
	STORY_STALL,		  /* a rank lives but begins no further operation */
	STORY_EARLY,		  /* a rank leaves before the others are done */
	STORY_MISMATCH,		  /* a rank begins another operation than the others */
	STORY_TAKEN,		  /* a second process claims a rank */
	STORY_FULL,		  /* a job more than the switch has room for */
	STORY_ROGUE,		  /* a rank that also sends whatever comes to mind */
	STORY_OUTSIDER,		  /* a stranger who repeats and alters what others send */
	STORY_DRAWN,		  /* those before are drawn by seeds, the others asked for */
	STORY_LIAR = STORY_DRAWN, /* a rank that also lies about how far it and others are */
	STORY_ASLEEP,		  /* all hosts are suspended for longer than silence may last */
	STORY_STRANGER,		  /* somebody who lacks the key, or sees no packets: stranger.h */
	STORY_STOPPED,		  /* the switch is told to stop for good, and says so */
	STORY_COUNT
};

struct plan {
	uint64_t seed;
	enum story story;
	uint16_t victim; /* rank of job 0 */
	struct fan_aggregator_config sw;
	/* Shared switches: the first is below the aggregator, another below the first or, if
	 * `beside`, below the aggregator as well.  Workers are below the last or, if `beside`,
	 * below any. */
	struct fan_switch_config shared[ROUTES_SWITCHES_MAX];
	unsigned shareds;
	bool routed; /* they are below the aggregator; routes[] says who is below whom */
	struct routes routes[PLAN_JOBS_MAX]; /* at first */
	bool moves;			     /* others come: moves.h */
	bool beside;
	uint64_t shared_restart; /* packets between restarts of one; 0: none */
	unsigned leaves; /* aggregators below the other one, among which jobs' ranks are divided; 0:
			  * none.  Then... */
	bool fronts[PLAN_LEAVES_MAX + 1]; /* ...which have slots in front, the one above first; each
					   * the next of shared[] */
	uint32_t mark;
	bool same_loss;	  /* all links lose link.loss, and not up to that */
	bool ahead;	  /* ranks run ahead of each other, and some are slow */
	uint64_t bps;	  /* of the others' links */
	uint32_t forgets; /* chance that what a helper is given is gone */
	struct sim_link link;
	unsigned jobs;
	struct host_job job[PLAN_JOBS_MAX][HOST_LIVES];
	unsigned lives;		/* of each job */
	struct host_job extra;	/* TAKEN, FULL: of the one too many */
	struct tensor_op other; /* MISMATCH: what the victim begins... */
	unsigned other_at;	/* ...as this operation */
	uint64_t limit_ns;	/* all must be over by then */
};

const char *story_name(enum story story);

/* Draw the plan of `seed`; `story` is drawn as well if it is STORY_COUNT.  What the policy
 * adds, and what stragglers do, is drawn apart: a seed means the same but for that. */
void plan_draw(struct plan *p, uint64_t seed, enum story story, enum plan_policy policy,
	       bool stragglers);

/* All links lose so many packets in a million, whatever was drawn; at most 20000 in stories in
 * which silence must mean something. */
void plan_set_loss(struct plan *p, uint32_t loss);
void plan_free(struct plan *p);

/* One line about the plan, for people. */
void plan_print(const struct plan *p);

#endif

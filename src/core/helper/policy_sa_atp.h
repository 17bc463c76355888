/* SPDX-License-Identifier: Apache-2.0 */
/* policy_sa_atp.h - SA-ATP around another slot policy, for jobs with run-ahead.
 *
 * The switch follows the progress of each rank below.  A slot whose missing ranks are stragglers
 * yields to any other fragment, and its sum goes to a helper, which keeps it (helper.c), or
 * up.  So do late contributions: to a fragment that the furthest rank has long passed and that no
 * slot holds any more.  Otherwise the wrapped policy decides about slots.
 *
 * Helpers are chosen for a block of fragments at a time, when the first rank enters it, so all
 * unaggregated contributions to a fragment go to one place.  Only a switch where the
 * contributions of all ranks meet chooses helpers.  doc/protocol/run-ahead.md; adr 10, 15. */
#ifndef FAN_HELPER_POLICY_SA_ATP_H
#define FAN_HELPER_POLICY_SA_ATP_H

#include "core/switch/policy.h"
#include "core/wire/progress.h"

#define FAN_HELPER_BLOCKS 32 /* blocks remembered: two windows */

/* State of a job with run-ahead at a switch. */
struct fan_sa_atp {
	/* the wrapped policy; NULL: the job has no run-ahead, and the other fields are unused */
	const struct fan_slot_policy *inner;
	struct fan_stretch due;	  /* the slots that it shall have */
	struct fan_stretch in[2]; /* slots of fragments before `since`, and from `since` on */
	uint64_t since;
	uint64_t offers[FAN_RANK_WORDS]; /* ranks below that are helpers */
	uint64_t full[FAN_RANK_WORDS];	 /* helpers that had no room lately */
	uint64_t full_until_ns;		 /* until then they are given nothing */
	uint64_t entered;		 /* blocks that some rank has entered */
	struct fan_progress progress;
	/* The helpers of a block of fragments. */
	struct fan_helper_block {
		uint64_t number;		/* of the block, + 1; 0: none yet */
		uint64_t ranks[FAN_RANK_WORDS]; /* helpers, in turns */
		uint16_t count; /* of helpers; 0: all unaggregated contributions go up */
		uint16_t share; /* of 256 fragments, how many go to helpers */
	} block[FAN_HELPER_BLOCKS];
	/* Waiting time at a destination: from a request for PROGRESS to its answer. */
	struct fan_helper_wait {
		uint64_t asked_ns;	  /* time of the outstanding request; 0: none */
		uint32_t frag;		  /* low bits of its fragment */
		uint32_t took_ns;	  /* smoothed waiting time; 0: not known */
		uint32_t least_ns;	  /* smallest waiting time */
		bool fresh;		  /* measured since the last block was entered */
	} wait[FAN_RANKS_MAX + 1];	  /* at helpers, and at the next hop */
	uint32_t share;			  /* of the next blocks */
	uint32_t lent[FAN_RANKS_MAX];	  /* by rank: sums and contributions given to it to keep */
	uint32_t deferred[FAN_RANKS_MAX]; /* by rank: its contributions that were deferred */
};

/* By rank: its deferred contributions that a child was given to keep. */
struct fan_helper_row {
	uint32_t parts[FAN_RANKS_MAX];
};

#endif

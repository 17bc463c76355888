/* SPDX-License-Identifier: Apache-2.0 */
/* shared_lead.h - a shared switch and ranks that run ahead of each other.
 *
 * It sees how far each rank below is.  A slot whose missing ranks are stragglers gives way
 * to whoever wants it, and the sum in it goes to a leading worker, which keeps it (cache.h),
 * or up.  So do parts that are late: those of a fragment that the furthest rank has long
 * passed and that no slot holds any more.
 *
 * Leading workers are chosen for a block of fragments at a time, when the first rank enters
 * it, so all that is loose of a fragment has one place to go for as long as it lives.  Only
 * a switch that has all ranks of the job below chooses.  protocol.md, section 11. */
#ifndef FAN_SHARED_LEAD_H
#define FAN_SHARED_LEAD_H

#include "pace.h"
#include "shared.h"
#include "shared_slot.h"

#define FAN_LEAD_BLOCKS 32 /* remembered: two windows' worth */

/* Who leads in a block of fragments. */
struct fan_lead_block {
	uint64_t number;		/* + 1; 0: none yet */
	uint64_t ranks[FAN_RANK_WORDS]; /* take turns */
	uint16_t count;			/* of them; 0: what is loose goes up... */
	uint16_t share;			/* ...as do others than so many of 256 parts */
};

/* How long what goes somewhere waits there: from a question to its answer. */
struct fan_lead_wait {
	uint64_t asked_ns; /* the question that is under way; 0: none */
	uint32_t frag;	   /* low bits of its fragment */
	uint32_t took_ns;  /* smoothed; 0: not known */
	uint32_t least_ns;
	bool fresh; /* heard of since the last block was entered */
};

/* What a shared switch knows of a job's ranks, beyond who they are. */
struct fan_lead {
	bool ahead;		  /* the job has the option AHEAD */
	struct fan_stretch due;	  /* its slots... */
	struct fan_stretch in[2]; /* ...those of fragments before `since`, and from it on */
	uint64_t since;
	uint64_t offers[FAN_RANK_WORDS]; /* ranks below that have a cache */
	uint64_t full[FAN_RANK_WORDS];	 /* of them: had no room... */
	uint64_t full_until_ns;		 /* ...and are left in peace until then */
	uint64_t entered;		 /* blocks that some rank has come to */
	struct fan_pace pace;
	struct fan_lead_block block[FAN_LEAD_BLOCKS];
	struct fan_lead_wait wait[FAN_RANKS_MAX + 1]; /* at leading workers, and above */
	uint32_t share;				      /* of further blocks */
	uint32_t lent[FAN_RANKS_MAX];		      /* by rank: what it was given to keep... */
	uint32_t owed[FAN_RANKS_MAX];		      /* ...and its parts that went loose while it
						       * was a straggler */
};

struct fan_shared_job;

/* Where something goes: to the leading worker `rank`, or up (FAN_RANK_NONE). */
struct fan_goal {
	fan_peer peer;
	uint16_t rank;
};

/* Who there is has changed: divide the slots among the jobs whose ranks run ahead.  Each has a
 * stretch of its own, since what lies in line would run into what others have in line. */
void fan_lead_divide(struct fan_shared *sh);

/* The slot of fragment `frag`. */
struct fan_sslot *fan_lead_slot(const struct fan_shared *sh, const struct fan_shared_job *j,
				uint64_t frag);

/* Where what is loose of fragment `frag` goes. */
struct fan_goal fan_lead_goal(const struct fan_shared *sh, const struct fan_shared_job *j,
			      uint64_t frag);

/* Parts of `ranks` for `frag`, one or a sum, go to `goal` for want of a slot: count who keeps
 * them, and whose they are. */
void fan_lead_lend(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_goal *goal,
		   uint64_t frag, const uint64_t *ranks);

/* By rank of the job: its parts that were given to `rank` to keep, of those that it owed; NULL:
 * there is nobody of that rank. */
const uint32_t *fan_lead_row(const struct fan_shared *sh, const struct fan_shared_job *j,
			     uint16_t rank);

/* Parts of `ranks` have come for `frag`. */
void fan_lead_note(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_part *p);

/* Has the furthest rank long passed `frag`? */
bool fan_lead_is_late(const struct fan_shared_job *j, uint64_t frag);

/* Does the slot wait for stragglers only, or for parts that have gone another way? */
bool fan_lead_gives_way(struct fan_shared *sh, const struct fan_sslot *slot);

/* Of two fragments of the job that want one slot, is it `slot`'s whose next part comes later
 * than that of the part `p`, after the part itself? */
bool fan_lead_comes_sooner(const struct fan_shared_job *j, const struct fan_part *p,
			   const struct fan_sslot *slot);

/* Will another part come to the slot, as far as is known? */
bool fan_lead_is_over(const struct fan_shared_job *j, const struct fan_sslot *slot);

/* Will another part of the fragment of `p` come at all, as far as is known? */
bool fan_lead_is_last(const struct fan_shared_job *j, const struct fan_part *p);

/* The leading worker that has sent the sum `f` had no room for it. */
void fan_lead_full(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_frag *f);

/* Tell `rank` how far the others are; `f`: what it asked about; `met`: flags. */
void fan_lead_pace(struct fan_shared *sh, struct fan_shared_job *j, uint16_t rank,
		   const struct fan_frag *f, uint16_t met, struct fan_out *out);

/* Answer rank f->sender, which asks with the DATA `f`; or if items of `out` from number
 * `first` on are what that has set going elsewhere, let it be answered there. */
void fan_lead_ask(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_frag *f,
		  unsigned first, struct fan_out *out);

/* How `rank` stands beside the others. */
void fan_lead_standing(const struct fan_shared *sh, const struct fan_shared_job *j, uint16_t rank,
		       struct fan_standing *s);

/* A PACE from above: if what is loose waits there for long, it says so. */
void fan_lead_heard(struct fan_shared *sh, struct fan_shared_job *j, struct fan_frag *f);

/* A PACE from `from` below: a question on its way up, or a leading worker's answer. */
enum fan_verdict fan_lead_recv_pace(struct fan_shared *sh, struct fan_shared_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out);

#endif

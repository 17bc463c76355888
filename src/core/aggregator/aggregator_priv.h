/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator_priv.h - the state of an aggregator, and what its files have for each other. */
#ifndef FAN_AGGREGATOR_AGGREGATOR_PRIV_H
#define FAN_AGGREGATOR_AGGREGATOR_PRIV_H

#include "aggregator.h"
#include "core/sum/round_add.h"
#include "core/worker/worker.h"
#include "member.h"

struct fan_aggregator {
	struct fan_aggregator_config cfg;
	struct fan_jobs jobs;
	uint64_t now_ns;      /* time of the current call */
	uint64_t deadline_ns; /* of the next tick */
	/* One life of a rank that has answered from its address.  Each host has places in one row
	 * alone: one that proves more keeps no other out. */
	struct fan_proof {
		uint64_t key; /* a keyed function of all of it */
		uint64_t ns;  /* when; worth nothing after FAN_UNSURE_NS */
	} proofs[FAN_PROOF_ROWS][FAN_PROOFS_IN_ROW];
	/* Recent answers to senders that have proved nothing. */
	struct fan_strangers {
		uint64_t ms;	/* of the last one */
		uint32_t spent; /* answers, less FAN_STRANGERS_MAX for each millisecond since */
		uint32_t again; /* in this millisecond, to senders that have asked before */
		/* parts of the keys of senders that had none, by key */
		uint16_t seen[FAN_STRANGERS_SEEN];
	} strangers;
	/* A name that two launches have used. */
	struct fan_contested {
		char name[FAN_NAME_MAX + 1];
		uint64_t launch;
		uint64_t until_ns; /* others are refused */
		uint16_t rank;	   /* that was claimed */
		uint8_t hosts[FAN_HOSTS_BYTES];
	} contested[FAN_CONTESTED_MAX];
	uint64_t contested_ns; /* until then some are */
	enum fan_drop last_drop;
	/* The contribution that likely comes next: predict.c */
	struct fan_predicted {
		bool on;
		struct fan_expected next;
		fan_peer from;
		struct fan_job *job;
		struct fan_member *member; /* its sender */
		struct fan_round *round;
		struct fan_contribution contribution;
	} predicted;
	bool drains; /* whose jobs are awaited: */
	struct fan_drain drain;
	uint64_t stop_ns; /* being stopped: its jobs fail then; 0: it is not */
	struct fan_aggregator_stats stats;
	uint8_t echoed[FAN_ECHO_MAX]; /* body of every answer to an ECHO, cut to its length */
	uint8_t *uplinks;	      /* uplink_bytes for each job */
	size_t uplink_bytes;
	uint64_t lives;			   /* uplinks begun so far */
	uint32_t event_first, event_count; /* ring of FAN_EVENTS_MAX */
	struct fan_event events[FAN_EVENTS_MAX];
};

/* Count a drop.  Returns FAN_DROP. */
enum fan_verdict fan_aggregator_drop(struct fan_aggregator *ag, unsigned why);

/* Append an event of `j`; the caller fills in the other fields.  Never NULL. */
struct fan_event *fan_aggregator_note(struct fan_aggregator *ag, enum fan_event_kind kind,
				      const struct fan_job *j, uint16_t rank);

/* Do what follows from the verdict `v` on a contribution. */
enum fan_verdict fan_aggregator_took(struct fan_aggregator *ag, uint64_t now_ns, struct fan_job *j,
				     const struct fan_contribution *p, enum fan_verdict v,
				     const struct fan_round_outcome *r, struct fan_out *out);

/* The item of header `h` that was just written goes to all members on the newest route: send it to
 * those on the previous route as well. */
void fan_aggregator_also(const struct fan_job *j, const struct fan_frag *h, struct fan_out *out);

/* ---- predict.c: contributions that follow each other ---- */

/* Predict what follows the contribution `f` in `pkt`, which was added, if it can be. */
void fan_predict_begin(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
		       const uint8_t *pkt);

/* Is that `pkt`?  Then take it; otherwise nothing is predicted any more. */
bool fan_predict_holds(struct fan_aggregator *ag, const fan_peer *from, const uint8_t *pkt,
		       size_t len, bool marked);
enum fan_verdict fan_predict_take(struct fan_aggregator *ag, uint64_t now_ns, struct fan_out *out);

/* ---- join.c: JOINs ---- */

/* Handle a JOIN: let its sender in, refuse it, or ask it to prove its address first. */
enum fan_verdict fan_join_recv(struct fan_aggregator *ag, const fan_peer *from,
			       const struct fan_frag *f, struct fan_out *out);

/* All ranks of the job are there.  True: one of them is claimed and lives, so it has failed. */
bool fan_claim_fails(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out);

/* May `from`, which has sent `f`, have such an answer now?  Answers to a flood would take jobs more
 * processor time than the flood does.  Ranks ask again under their nonce, which whoever makes up
 * addresses hardly does: they have answers of their own. */
bool fan_strangers_may(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f);

/* Note the proof if `beat`, with this cookie, answers a challenge.  A life that is in a job leaves
 * none, which a JOIN of the past could use.  False: it answers none. */
bool fan_challenge_answer(struct fan_aggregator *ag, const fan_peer *from,
			  const struct fan_frag *beat, uint64_t cookie);

/* ---- admission.c: who may join, and what a new job gets of members and slots ---- */

/* The outcome of a JOIN. */
struct fan_admission {
	/* the member's job; of a refused JOIN the job of that name, NULL: there is none, and no
	 * room for it */
	struct fan_job *job;
	bool created;	      /* it is new */
	bool again;	      /* the member was in before: its WELCOME was lost */
	struct fan_refuse no; /* why it is refused */
};

/* Let `from` join by `m`, in a new job or in the one of that name.  A refused JOIN leaves no
 * state.  FAN_E_RANK_TAKEN may be by a life that has proved nothing. */
enum fan_err fan_jobs_join(struct fan_jobs *t, uint64_t now_ns, const fan_peer *from,
			   const struct fan_frag *head, const struct fan_join *m,
			   struct fan_admission *a);

/* Has the sender of `head`, a JOIN with the body `m`, joined a job of that name already? */
bool fan_jobs_knows(struct fan_jobs *t, const struct fan_frag *head, const struct fan_join *m);

/* Has this life of a rank joined any job that there is? */
bool fan_jobs_have(const struct fan_jobs *t, uint16_t rank, uint64_t nonce);

/* Give the job another id and epoch: each of its members must join again. */
void fan_jobs_rename(struct fan_jobs *t, struct fan_job *j);

/* ---- control.c: control messages, group tests and health checks ---- */

/* Fail a job, and send its members the cause. */
void fan_control_fail(struct fan_aggregator *ag, struct fan_job *j,
		      const struct fan_job_fault *fault, struct fan_out *out);

/* Handle a control message. */
enum fan_verdict fan_control_recv(struct fan_aggregator *ag, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out);

/* The job is ready at the parent, or there is no parent. */
void fan_control_become_ready(struct fan_aggregator *ag, struct fan_job *j);

/* A member that comes by another path, with `join`, learns why its job has ended. */
void fan_control_send_failed(const struct fan_job *j, const fan_peer *to,
			     const struct fan_frag *join, struct fan_out *out);

/* Remove a job without members. */
void fan_control_remove(struct fan_aggregator *ag, struct fan_job *j);

/* ---- partials.c: ranks behind switches: partial sums, envelopes of control messages, and
 * reminders to switches ---- */

/* May `from` contribute `p`: is it in front of all its ranks, or of the helper that sends it? */
bool fan_partials_are_from(const struct fan_job *j, const struct fan_contribution *p,
			   const fan_peer *from);

/* Handle a RELAY from a switch. */
enum fan_verdict fan_partials_envelope(struct fan_aggregator *ag, uint64_t now_ns,
				       const fan_peer *from, const struct fan_frag *f,
				       struct fan_out *out);

/* Put the answer `it` to `rank` behind a switch into an envelope, which shows the switch the job
 * if there is one and the rank is in it. */
void fan_partials_wrap(struct fan_aggregator *ag, struct fan_out_item *it, uint16_t rank,
		       struct fan_out *out);

/* Request the contributions of the ranks `set` to the fragment of `f`: NEED. */
void fan_partials_ask(struct fan_aggregator *ag, const struct fan_job *j, const struct fan_frag *f,
		      const uint64_t *set, struct fan_out *out);

/* A round of a job behind switches was opened; and completed. */
void fan_partials_opened(struct fan_aggregator *ag, uint64_t now_ns, struct fan_job *j,
			 struct fan_round *round);

void fan_partials_done(uint64_t now_ns, struct fan_job *j, const struct fan_round *round);

/* A result is there: remind the switches of the round that has been overtaken, if there is one. */
void fan_partials_overtaken(struct fan_aggregator *ag, struct fan_job *j, uint64_t now_ns,
			    struct fan_out *out);

/* Remind the switches of rounds that have waited long, as far as `out` has room. */
void fan_partials_remind(struct fan_aggregator *ag, struct fan_job *j, uint64_t now_ns,
			 struct fan_out *out);

/* ---- report.c: questions that any sender may ask: jobs, their ranks, and ECHO
 * (doc/protocol/stats.md) ---- */

/* Answer the QUERY `f` of `from`.  FAN_CTL, or FAN_DROP if it is malformed. */
enum fan_verdict fan_report_query(struct fan_aggregator *ag, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out);

/* ---- group.c: the multicast group of a job: its address, and which members receive from it ----
 */

/* Write the group's address to `addr`, 16 bytes in network order, IPv4 in the first 4: job number i
 * has the configured one + i. */
void fan_job_group_put(const struct fan_aggregator *ag, const struct fan_job *j, uint8_t *addr);

/* Let the job have its group, by the interface towards `via`. */
void fan_job_group_set(const struct fan_aggregator *ag, struct fan_job *j, const fan_peer *via);

/* Turn the multicast group off if many members miss results.  Called for each replay and, with
 * rank FAN_RANK_NONE, for each result. */
void fan_job_group_health(struct fan_aggregator *ag, struct fan_job *j, uint16_t rank);

/* ---- tree_uplink.c: the uplink: a job's membership at the parent of its aggregator ---- */

/* Most items of one step. */
#define FAN_TREE_UPLINK_ITEMS 4

/* All members are ready: join at the parent. */
void fan_tree_uplink_begin(struct fan_aggregator *ag, struct fan_job *j);

/* Leave the parent with the cause `err`.  True if that takes further steps. */
bool fan_tree_uplink_end(struct fan_aggregator *ag, struct fan_job *j, int err);

/* Run the uplink's timers and changes of phase. */
void fan_tree_uplink_step(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out);

/* Time of the next step; UINT64_MAX: none is needed. */
uint64_t fan_tree_uplink_deadline(const struct fan_job *j);

#endif

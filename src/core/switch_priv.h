/* SPDX-License-Identifier: Apache-2.0 */
/* switch_priv.h - what switch.c (data path) and control.c (membership) share. */
#ifndef FAN_SWITCH_PRIV_H
#define FAN_SWITCH_PRIV_H

#include "member.h"
#include "policy_switchml.h"
#include "switch.h"
#include "worker.h"

struct fan_switch {
	struct fan_switch_config cfg;
	struct fan_jobs jobs;
	uint64_t now_ns;      /* of the call that is being handled */
	uint64_t deadline_ns; /* when tick has something to do */
	enum fan_drop last_drop;
	struct fan_switch_stats stats;
	uint8_t echoed[FAN_ECHO_MAX]; /* body of every ECHOED, which is cut to its length */
	uint8_t *uplinks;	      /* one for each job, of uplink_bytes */
	size_t uplink_bytes;
	uint64_t lives;			   /* of uplinks begun so far */
	uint32_t event_first, event_count; /* ring of FAN_EVENTS_MAX */
	struct fan_event events[FAN_EVENTS_MAX];
};

/* Count a drop and say so. */
enum fan_verdict fan_switch_drop(struct fan_switch *sw, unsigned why);

/* Note an event about `j`; the fields beyond are the caller's.  Never NULL. */
struct fan_event *fan_switch_note(struct fan_switch *sw, enum fan_event_kind kind,
				  const struct fan_job *j, uint16_t rank);

/* The item of header `h` that has just been written goes to all on the newest route: those on the
 * one before get it, too. */
void fan_switch_also(const struct fan_job *j, const struct fan_frag *h, struct fan_out *out);

/* End a job and tell its members. */
void fan_switch_fail(struct fan_switch *sw, struct fan_job *j, const struct fan_job_fault *fault,
		     struct fan_out *out);

/* Do what follows from the verdict `v` on a part that `f`, of rank f->sender, has brought. */
enum fan_verdict fan_switch_took(struct fan_switch *sw, uint64_t now_ns, struct fan_job *j,
				 const struct fan_frag *f, enum fan_verdict v,
				 const struct fan_switchml *r, struct fan_out *out);

/* A DATA with the flag PARTIAL, and a VIA: from shared switches. */
enum fan_verdict fan_server_recv(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
				 const struct fan_frag *f, struct fan_out *out);
enum fan_verdict fan_server_via(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

/* A round of a job behind shared switches has its first part, or all. */
void fan_server_opened(struct fan_switch *sw, uint64_t now_ns, struct fan_job *j,
		       struct fan_round *round);
void fan_server_done(uint64_t now_ns, struct fan_job *j, const struct fan_round *round);

/* Remind the switches of rounds that have waited long, as far as `out` has room. */
void fan_server_remind(struct fan_switch *sw, struct fan_job *j, uint64_t now_ns,
		       struct fan_out *out);

/* Control messages. */
enum fan_verdict fan_control_recv(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out);

/* Fill in what every ECHOED says; all else of it is zero. */
void fan_control_prepare_echo(struct fan_switch *sw);

/* The job may begin: its parent, if there is one, permitting. */
void fan_control_all_ready(struct fan_switch *sw, struct fan_job *j, bool multicast,
			   struct fan_out *out);

/* The parent's word has come, or there is no parent. */
void fan_control_become_ready(struct fan_switch *sw, struct fan_job *j, struct fan_out *out);

/* Nobody is in the job any more. */
void fan_control_remove(struct fan_switch *sw, struct fan_job *j);

/* The result of `round` goes to all members. */
void fan_switch_result(struct fan_switch *sw, struct fan_job *j, struct fan_round *round,
		       uint8_t priority, struct fan_out *out);

/* uplink.c - a job's membership at the parent.  Items that are needed for one step. */
#define FAN_UPLINK_ITEMS 4

/* All members are here: be one at the parent. */
void fan_uplink_begin(struct fan_switch *sw, struct fan_job *j);

/* Be no longer one, because of `err`.  True if that takes a while. */
bool fan_uplink_end(struct fan_switch *sw, struct fan_job *j, int err);

/* Round `round` is HELD: send it. */
void fan_uplink_send(struct fan_switch *sw, struct fan_job *j, const struct fan_round *round,
		     struct fan_out *out);

/* Do what time and the uplink's phase ask for. */
void fan_uplink_step(struct fan_switch *sw, struct fan_job *j, struct fan_out *out);

/* When the next step is due; UINT64_MAX: never. */
uint64_t fan_uplink_deadline(const struct fan_job *j);

/* A member missed a multicast result: turn the group off if many do.  Called for each
 * replay and, with rank FAN_RANK_NONE, for each result. */
void fan_control_group_health(struct fan_switch *sw, struct fan_job *j, uint16_t rank);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* switch_priv.h - what switch.c (data path) and control.c (membership) share. */
#ifndef FAN_SWITCH_PRIV_H
#define FAN_SWITCH_PRIV_H

#include "member.h"
#include "policy_switchml.h"
#include "switch.h"

struct fan_switch {
	struct fan_switch_config cfg;
	struct fan_jobs jobs;
	uint64_t deadline_ns; /* when tick has something to do */
	enum fan_drop last_drop;
	struct fan_switch_stats stats;
	uint8_t echoed[FAN_ECHO_MAX];	   /* body of every ECHOED, which is cut to its length */
	uint32_t event_first, event_count; /* ring of FAN_EVENTS_MAX */
	struct fan_event events[FAN_EVENTS_MAX];
};

/* Count a drop and say so. */
enum fan_verdict fan_switch_drop(struct fan_switch *sw, unsigned why);

/* Note an event about `j`; the fields beyond are the caller's.  Never NULL. */
struct fan_event *fan_switch_note(struct fan_switch *sw, enum fan_event_kind kind,
				  const struct fan_job *j, uint16_t rank);

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

/* Answer a JOIN or ECHO of another version, of which only the places of version, type and nonce
 * are known: `pkt` has at least FAN_HEAD_BYTES. */
void fan_control_other_version(const fan_peer *to, const uint8_t *pkt, struct fan_out *out);

/* A member missed a multicast result: turn the group off if many do.  Called for each
 * replay and, with rank FAN_RANK_NONE, for each result. */
void fan_control_group_health(struct fan_switch *sw, struct fan_job *j, uint16_t rank);

#endif

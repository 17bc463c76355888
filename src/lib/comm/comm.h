/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h - a communicator: what a program holds of its rank, where the ranks of its job are, and
 * the switch that it may run for them. */
#ifndef FAN_LIB_COMM_COMM_H
#define FAN_LIB_COMM_COMM_H

#include <fanin.h>
#include <stdbool.h>

#include "embedded_switch.h"
#include "lib/base/rendezvous.h"
#include "lib/rank/rank.h"

#define FAN_COMM_MIXED_MAX    32 /* named switches and hosts that sum beside them */
#define FAN_COMM_SWITCH_BYTES (FAN_CONFIG_SWITCHES_MAX + 1)
#define FAN_COMM_LINGER_MS    1000 /* beyond alive_ms, for other ranks at an embedded switch */
#define FAN_COMM_GROUP_WINDOW 64   /* fragments in flight of a group, by default */

/* Where the ranks and the aggregators were found when the communicator was made: groups go there
 * without a meeting of their own. */
struct fan_comm_places {
	unsigned count; /* of aggregators; 0: a controller knows */
	struct fan_rank_part part[FAN_PARTS_MAX];
	struct fan_meeting ranks; /* hosts 0: not known */
};

struct fanin_comm {
	struct fan_rank rank;
	char switch_text[FAN_COMM_SWITCH_BYTES]; /* of fanin_comm_switch */
	struct fan_comm_places places;		 /* constant once created */
	struct fan_embedded_switch *embedded;	 /* of this process; NULL: none */
	/* A watcher, called before it ends: `forked`, in a child of fork(), which has no threads.
	 * end NULL: nobody. */
	struct {
		void *of;
		void (*end)(void *of, bool forked);
	} watcher;
	/* where its ranks have met, which keeps the name, NULL: none; and the next such one of this
	 * process */
	struct fanin_comm *name, *next_name;
	/* Further addresses of names with several, without the one at which this rank joins first:
	 * after the meeting, the ones that all ranks have and reach. */
	fan_peer further[FAN_COMM_MIXED_MAX];
	unsigned further_count;
	bool has_names; /* among the switches: of one, ranks may find different addresses */
};

/* For callers; errors as in fanin.h. */
void fan_comm_destroy(struct fanin_comm *c);

/* Requests of a program around the library, beyond its options. */
struct fan_comm_terms {
	const char *meeting_addr; /* as in struct fan_config */
	bool meeting_local, one_card;
	int join_ms;
};

/* As fanin_comm_create; `terms` may be NULL. */
int fan_comm_create_on(const struct fanin_options *options, const struct fan_comm_terms *terms,
		       struct fanin_comm **comm);

/* As fanin_comm_create, with the switch embedded in rank 0 at `at`, for the job of `cfg` whose name
 * has `suffix` appended. */
int fan_comm_create_at(const struct fan_config *cfg, const fan_peer *at, const char *suffix,
		       struct fanin_comm **comm);

/* As fanin_comm_group_within (group.c). */
int fan_comm_create_group(struct fanin_comm *of, const char *name, const int *ranks, int count,
			  int timeout_ms, int join_ms, struct fanin_comm **comm);

/* As fanin_comm_shrink (group.c). */
int fan_comm_shrink(struct fanin_comm *of, int wait_ms, struct fanin_comm **comm);

/* The rank that has connections: this one, or that of its column; NULL: it has none. */
const struct fan_rank *fan_comm_net(const struct fanin_comm *c);

/* For those who make communicators: an empty one, or NULL; one whose ranks share memory with those
 * of their host, at c->places (`together`: all of a host do, or none); and the last step. */
struct fanin_comm *fan_comm_new(void);
int fan_comm_share_memory(struct fanin_comm *c, bool together);
void fan_comm_complete(struct fanin_comm *c);

/* If FANIN_METRICS is set (api/metrics.c), write the file of `c` until `c` is destroyed.  A thread
 * that does not start is no error: a job does not end because it cannot be watched. */
void fan_comm_metrics_start(fanin_comm *c);

#endif

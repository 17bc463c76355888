/* SPDX-License-Identifier: Apache-2.0 */
/* ctl_priv.h - what the files of the controller share: nodes, links, routes and jobs. */
#ifndef FAN_CTL_PRIV_H
#define FAN_CTL_PRIV_H

#include "core/base/err.h"
#include "core/base/limits.h"
#include "ctl.h"
#include "plan/install.h"

#define CTL_NONE	  UINT32_MAX
#define CTL_ADDRESS_BYTES 80
#define CTL_PART_BYTES	  (FAN_TOPO_NAME_MAX + 24) /* "job/63~2" */
#define CTL_JOB_NAME_MAX  (FAN_NAME_MAX - 7)	   /* "/63~999" follows */
#define CTL_MS		  UINT64_C(1000000)
#define CTL_REFUSALS_MAX  4 /* refusals of a job's routes until it waits for a change */

/* ---- nodes: switches and servers of the topology, and its workers ---- */

enum ctl_node_state { CTL_NEVER, CTL_UP, CTL_GONE };

struct ctl_node {
	char name[FAN_TOPO_NAME_MAX + 1];
	enum fan_node_kind kind;
	enum ctl_node_state state;
	uint32_t conn; /* CTL_NONE: not connected */
	char listen[CTL_ADDRESS_BYTES];
	char address[CTL_ADDRESS_BYTES]; /* host that it dials from; empty: any */
	uint32_t shards, slots;
	int64_t started;   /* start of its process, as reported: another process has no routes */
	uint64_t since_ns; /* in this state */
	uint64_t heard_ns;
	uint64_t cut_ns; /* of a server: when its connection was lost; 0: it is not lost */
	uint64_t packets, hits, passed, collisions, results, drops; /* as last reported */
	/* rate to sum, take in or send, less background load; 0: no limit, or it cannot sum */
	double gbps;
	double load_gbps;  /* used by others, as `load` says */
	bool drained;	   /* plans do not use it, as `drain` says */
	bool empty;	   /* drained, and noted that no route needs it any more */
	uint32_t goes;	   /* times that it was lost; 0 again after FAN_CTL_CALM_MS of being up */
	uint64_t offer_ns; /* when to offer it to running jobs; 0: need not */
	uint32_t parent;   /* of a server: the one that adds up its sums; CTL_NONE */
	/* address of its parent as reported (empty: none), and its index among its siblings */
	char above[CTL_ADDRESS_BYTES];
	uint32_t index, siblings;
	uint32_t list;	  /* number of the last list of neighbours sent to it; 0: none */
	bool list_is_old; /* a neighbour has come or gone since */
	uint32_t strays;  /* number of routes there of an earlier controller */
	uint16_t stray[FAN_ROUTES_MAX];
	uint64_t stray_ns; /* when to remove them */
};

/* ---- links ---- */

/* The links of the topology, in its order.  A link is watched if both ends are daemons. */
enum ctl_link_state {
	CTL_LINK_UNWATCHED, /* one end is a worker */
	CTL_LINK_UP,
	CTL_LINK_DOWN, /* plans do not use it */
};

struct ctl_link {
	uint32_t end[2]; /* nodes */
	enum ctl_link_state state;
	bool silent[2];	   /* end i does not hear the other, though both are up */
	uint64_t since_ns; /* in this state */
	uint64_t heard_ns; /* DOWN: since when both ends hear each other; 0: they do not */
	uint32_t flaps;	   /* times that it went down; 0 again after FAN_CTL_CALM_MS of being up */
	double gbps;	   /* the topology's rate less its background load */
	double load_gbps;  /* used by others in each direction, as `load` says */
	struct ctl_others {
		struct {
			double share;	   /* of the link's whole rate, 0 .. FAN_CTL_OTHERS_MOST */
			uint64_t heard_ns; /* when it was reported; 0: never */
		} said[2];		   /* by end: reported use by others of what it receives */
		double whole_gbps;	   /* rate of the link, background load included */
		double share;		   /* the share that counts */
		uint64_t more_ns, less_ns; /* since when more, or less, is reported; 0: it is not */
		uint64_t rose_ns;
		uint32_t rises; /* rises after a fall; 0 again after FAN_CTL_CALM_MS */
		bool rose;	/* `share` rose when it last changed */
	} others;		/* used by others, as daemons measure it */
};

/* ---- routes: the entries installed under a number ---- */

struct ctl_entry {
	uint32_t from, next; /* nodes; `from` CTL_NONE: workers */
	uint8_t depth;
	bool sums;
	uint64_t ranks[FAN_RANK_WORDS];
};

enum ctl_stop_state {
	CTL_WANTED, /* to be sent, or to be sent again */
	CTL_ASKED,
	CTL_THERE,
};

struct ctl_stop {
	uint32_t node, quota, entries;
	struct ctl_entry *entry;
	enum ctl_stop_state state;
};

enum ctl_route_state {
	CTL_INSTALLING, /* no worker has been told of it */
	CTL_READY,	/* all switches have had it: workers use it, or have been told to */
	CTL_LEAVING,	/* being removed */
};

struct ctl_route {
	uint16_t number;
	uint32_t job, part;
	enum ctl_route_state state;
	uint32_t server;
	uint32_t *join; /* by rank: the node that it joins at */
	uint32_t ranks;
	uint32_t stops;
	struct ctl_stop *stop;
	uint64_t moved[FAN_RANK_WORDS]; /* ranks that use it */
	uint64_t leave_ns;		/* LEAVING: when to remove it from switches */
	bool broken;			/* a switch has refused it */
};

/* ---- jobs ---- */

struct ctl_part {
	uint64_t from, to; /* its cut, as in struct fan_install_part */
	double share, gbps;
	uint32_t server;
	struct ctl_route *route; /* its present or next route; never NULL */
};

enum ctl_parts_state {
	CTL_PARTS_NONE,	   /* the rank has no parts */
	CTL_PARTS_SENT,	   /* it has the present parts */
	CTL_PARTS_AGAIN,   /* it has parts that have ended: send `again` */
	CTL_PARTS_FOREIGN, /* it uses routes of an earlier controller, and is left alone */
};

struct ctl_rank {
	uint32_t conn; /* CTL_NONE: not connected */
	enum ctl_parts_state parts_state;
	uint64_t absent_ns; /* when its connection was lost; 0: it was not, or is gone */
	uint64_t launch;    /* of the program, as its join says; 0: it does not */
};

enum ctl_job_state {
	CTL_JOB_FREE,  /* no worker has its parts: the next plan may change them */
	CTL_JOB_BOUND, /* workers have its parts: only their paths may change */
	/* workers have its parts from an earlier controller, and may name unknown routes */
	CTL_JOB_RESTORED,
};

struct ctl_job {
	char name[FAN_TOPO_NAME_MAX + 1];
	json_t *said;		/* the job in the topology; NULL: it has ended, the place is free */
	uint32_t group, groups; /* number of this group, and of groups; groups 0: not split */
	uint32_t ranks;
	uint32_t *worker; /* by rank: node */
	struct ctl_rank *rank;
	uint32_t servers;
	uint32_t *server; /* of a group: one below each parent; it uses one at a time */
	uint32_t life;	  /* how many times it has begun again */
	enum ctl_job_state state;
	bool announced;	   /* noted that all switches have its routes */
	uint32_t restores; /* how many route numbers in `restore` are for its parts */
	uint16_t restore[FAN_PARTS_MAX];
	uint64_t rejoined[FAN_RANK_WORDS]; /* ranks that use the routes of `restore` */
	uint32_t refusals; /* refusals of its routes since all switches last had them */
	uint32_t parts;
	struct ctl_part *part;
	double gbps;		     /* planned rate of each worker */
	json_t *trees, *assignments; /* its plan, in the format of plan/report.h; NULL: none */
	char why[FAN_WHY_BYTES];     /* why it is planned so, or is not planned */
};

/* ---- all ---- */

enum ctl_conn_kind { CTL_CONN_FREE, CTL_CONN_NEW, CTL_CONN_NODE, CTL_CONN_WORKER };

struct ctl_conn {
	enum ctl_conn_kind kind;
	uint32_t node, job, rank;
	uint64_t since_ns;
};

struct ctl_event {
	uint64_t at_ns;
	char what[FAN_CTL_EVENT_BYTES];
};

enum ctl_phase {
	CTL_GATHERING, /* it waits for daemons, and does not plan yet */
	CTL_WATCHING,  /* no plan is being made */
	CTL_DRAFTING,  /* a plan is being made by `apart` */
};

/* The goal of a plan; each includes those before it. */
enum ctl_goal {
	CTL_MEND, /* replace what has failed */
	/* also take paths with a tenth more rate for running jobs, since load has changed: at most
	 * once in FAN_CTL_LOOK_MS, and not if a plan was given */
	CTL_LOOK,
	CTL_SEARCH, /* also take any better path, as `replan` asks */
};

struct fan_ctl {
	struct fan_ctl_options o;
	uint64_t now_ns, start_ns;
	uint64_t awake_ns; /* latest time of the next tick; if later, it was suspended */
	json_t *root;	   /* nodes and links as given; its jobs are not used */
	struct ctl_node *node;
	struct ctl_link *link;
	struct ctl_job *job;
	uint32_t nodes, links, jobs;
	uint32_t last_list;			     /* number of the last list of neighbours */
	struct ctl_route *route[FAN_CTL_ROUTES_MAX]; /* NULL: free */
	uint8_t ours[(UINT16_MAX + 1) / 8]; /* bits: numbers that this controller has given out */
	struct ctl_conn conn[FAN_CTL_CONNS_MAX];
	uint64_t plan_ns;		 /* when to plan; UINT64_MAX: need not */
	char cause[FAN_CTL_EVENT_BYTES]; /* why to plan */
	uint64_t changes;		 /* how many changes have asked for a plan */
	uint64_t planned_changes;	 /* `changes` when the plan in progress began */
	uint64_t look_ns;		 /* no CTL_LOOK before this time */
	uint64_t plans;			 /* how many have been made */
	uint64_t events;
	struct ctl_event event[FAN_CTL_EVENTS_MAX];
	uint32_t overtaken;   /* plans in a row that were outdated when finished */
	uint16_t last_number; /* last route number given out */
	enum ctl_phase phase;
	enum ctl_goal wanted; /* of the next plan */
	enum ctl_goal goal;   /* of the plan being made */
	bool loaded;	      /* loads have changed since the plan in progress began */
	bool given;	      /* a plan was given: jobs without workers keep it as well */
};

/* ctl.c */

/* snprintf for text that people read: the result is one line of valid UTF-8, even if parts come
 * from the network or it is truncated. */
void ctl_print(char *to, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Log an event, and keep it for `status`. */
void ctl_note(struct fan_ctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Send `value`, and free it. */
void ctl_send(struct fan_ctl *c, uint32_t conn, json_t *value);

/* Send the reason for a refusal, and end the connection. */
void ctl_refuse(struct fan_ctl *c, uint32_t conn, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Plan in `ms` milliseconds, for the reason given. */
void ctl_plan_in(struct fan_ctl *c, uint32_t ms, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

uint32_t ctl_node_named(const struct fan_ctl *c, const char *name);
uint32_t ctl_job_named(const struct fan_ctl *c, const char *name);

/* Is it the job of this name, or a group of it? */
bool ctl_job_is_of(const struct ctl_job *j, const char *name);

/* Are they groups of one job?  All of these are in the same life. */
bool ctl_job_is_beside(const struct ctl_job *a, const struct ctl_job *b);

/* node.c: daemons */

/* Does the node's address permit the connection to be from it?  If not, it is refused. */
bool ctl_node_is_from(struct fan_ctl *c, uint32_t conn, uint32_t node);
void ctl_node_line(struct fan_ctl *c, uint32_t conn, const json_t *line);
void ctl_node_hello(struct fan_ctl *c, uint32_t conn, const json_t *line);
void ctl_node_closed(struct fan_ctl *c, uint32_t node);
void ctl_node_tick(struct fan_ctl *c);

/* Leave out `late_ns`, in which the controller did not run, from the silence of nodes and the wait
 * for workers of an earlier controller's routes. */
void ctl_node_slept(struct fan_ctl *c, uint64_t late_ns);
uint64_t ctl_node_deadline(const struct fan_ctl *c);
bool ctl_all_up(const struct fan_ctl *c);

/* link.c: links between daemons */
int ctl_link_load(struct fan_ctl *c, const struct fan_topo *t);

/* Handle a daemon that has come, perhaps again or at another address; one that has gone. */
void ctl_link_node_in(struct fan_ctl *c, uint32_t node);
void ctl_link_gone(struct fan_ctl *c, uint32_t node);

/* Take what a daemon's report says of its neighbours, if it is about its last list. */
void ctl_link_health(struct fan_ctl *c, uint32_t node, const json_t *health);
void ctl_link_tick(struct fan_ctl *c);
uint64_t ctl_link_deadline(const struct fan_ctl *c);

/* All links, for `status json`. */
json_t *ctl_links_json(const struct fan_ctl *c);

/* Which end of the link `node` is, 0 or 1; 2: none. */
unsigned ctl_link_end(const struct ctl_link *l, uint32_t node);

/* The link between the nodes of these names, or CTL_NONE. */
uint32_t ctl_link_between(const struct fan_ctl *c, const char *a, const char *b);

/* Of a link that is down, but whose ends hear each other: time until it is used, in seconds. */
double ctl_link_back_s(const struct fan_ctl *c, const struct ctl_link *l);

/* route.c: route numbers, and the entries installed under them */

/* Make a route for part `from` of the installation, in state CTL_INSTALLING, without sending it.
 * `number`: its number; 0: the next free one.  `map`: the controller's node by node of the
 * installation.  NULL: no memory, no free place or number. */
struct ctl_route *ctl_route_new(struct fan_ctl *c, uint16_t number, uint32_t job, uint32_t part,
				const struct fan_install *in, const struct fan_install_part *from,
				const uint32_t *map);

/* Does the route match part `from` of the installation? */
bool ctl_route_is(const struct ctl_route *r, const struct fan_install *in,
		  const struct fan_install_part *from, const uint32_t *map);

struct ctl_route *ctl_route_numbered(const struct fan_ctl *c, uint16_t number);

/* Send the route's entries to the switches that do not have them. */
void ctl_route_push(struct fan_ctl *c, struct ctl_route *r);

/* Do all switches have the route? */
bool ctl_route_is_there(const struct ctl_route *r);

/* How many routes have entries at a node, or are to have.  `leaving`: also count routes being
 * removed, and those that end at the node. */
uint32_t ctl_routes_at(const struct fan_ctl *c, uint32_t node, bool leaving);

/* Remove the route in `ms` milliseconds. */
void ctl_route_leave(struct fan_ctl *c, struct ctl_route *r, uint32_t ms);

/* Handle a daemon's answer; a daemon that has come with these routes; one that has gone. */
void ctl_route_answer(struct fan_ctl *c, uint32_t node, int64_t id, const char *error);
void ctl_route_greet(struct fan_ctl *c, uint32_t node, const json_t *numbers);
void ctl_route_forget(struct fan_ctl *c, uint32_t node);
void ctl_route_tick(struct fan_ctl *c);
uint64_t ctl_route_deadline(const struct fan_ctl *c);
void ctl_route_free(struct fan_ctl *c, struct ctl_route *r);

/* job.c: workers */
void ctl_job_join(struct fan_ctl *c, uint32_t conn, const json_t *line);
void ctl_job_line(struct fan_ctl *c, uint32_t conn, const json_t *line);
void ctl_job_closed(struct fan_ctl *c, uint32_t job, uint32_t rank);

/* After a change of the job's routes: move workers, and remove unused routes. */
void ctl_job_settle(struct fan_ctl *c, uint32_t job);

/* Send the part's planned rate to ranks that stay on its route. */
void ctl_job_pace(struct fan_ctl *c, const struct ctl_job *j, uint32_t part);

/* The server of a plan's tree; CTL_NONE: it is not in the topology. */
uint32_t ctl_tree_server(const struct fan_ctl *c, const json_t *tree);

/* Does the job have an aggregator at `node`, or is that the parent or a sibling of one?  A restored
 * job that is not planned yet is judged by its trees. */
bool ctl_job_needs(const struct fan_ctl *c, const struct ctl_job *j, uint32_t node);

/* Handle a server that is lost or drained, as `what` says: jobs that need it begin again. */
void ctl_job_lost_aggregator(struct fan_ctl *c, uint32_t node, const char *what);

/* After the wait for daemons: do the same for servers that have not come. */
void ctl_job_lost_absent(struct fan_ctl *c);
void ctl_job_tick(struct fan_ctl *c);
void ctl_job_slept(struct fan_ctl *c, uint64_t late_ns); /* as ctl_node_slept, for workers */

/* Drop the job's plan and parts, and remove its routes in `ms` milliseconds. */
void ctl_job_unplan(struct fan_ctl *c, struct ctl_job *j, uint32_t ms);

/* Admit job `job` of `t`, the whole topology with that job; end one. */
int ctl_job_admit(struct fan_ctl *c, const struct fan_topo *t, uint32_t job, struct fan_why *why);
void ctl_job_end(struct fan_ctl *c, uint32_t job, const char *why);
void ctl_job_free(struct ctl_job *j);

/* load.c: load by others on links and nodes */

/* The load by others on a link, Gb/s: the larger of what `load` says and what its ends measure. */
double ctl_load_of(const struct ctl_link *l);

/* Take a daemon's measurements of its links; act on measurements that have lasted. */
void ctl_load_health(struct fan_ctl *c, uint32_t node, const json_t *health);
void ctl_load_tick(struct fan_ctl *c);

/* The measured load that counts, Gb/s, without the topology's background load. */
double ctl_load_measured(const struct ctl_link *l);

/* Take a `load` command.  FAN_E_CONFIG with `why`. */
int ctl_load_set(struct fan_ctl *c, const json_t *load, struct fan_why *why);

/* All loads by command, in the format of ctl_load_set. */
json_t *ctl_load_json(const struct fan_ctl *c);

/* A node or link of the topology with `load_gbps` of load added: a new reference. */
json_t *ctl_load_on(json_t *said, double load_gbps);

/* drain.c: daemons that are taken out of use, and those that come */

/* May plans use the node? */
static inline bool ctl_is_used(const struct ctl_node *n)
{
	return n->state == CTL_UP && !n->drained;
}

/* The parent whose servers sum for the job's groups: that of groups with workers; if there are
 * none, the first that is in use with all of its servers; CTL_NONE: there is none. */
uint32_t ctl_group_parent(const struct fan_ctl *c, const struct ctl_job *j);

/* Take a switch or server out of use, or back.  FAN_E_CONFIG with `why`. */
int ctl_drain_set(struct fan_ctl *c, const char *name, bool drained, struct fan_why *why);

/* The names of drained daemons; restore them from an earlier controller's. */
json_t *ctl_drain_json(const struct fan_ctl *c);
void ctl_drain_load(struct fan_ctl *c, const json_t *list);

/* Handle a daemon that has come; one that goes, before its state changes. */
void ctl_drain_came(struct fan_ctl *c, struct ctl_node *n);
void ctl_drain_went(struct fan_ctl *c, struct ctl_node *n);
void ctl_drain_tick(struct fan_ctl *c);
uint64_t ctl_drain_deadline(const struct fan_ctl *c);

/* state.c: load the state of an earlier controller.  FAN_E_CONFIG with `why`. */
int ctl_state_load(struct fan_ctl *c, const json_t *state, struct fan_why *why);

/* plan.c: plans made from the present state, and turned into routes */
void ctl_plan(struct fan_ctl *c);

/* Check a plan against the whole topology, and take it as the plan of all jobs. */
int ctl_plan_take(struct fan_ctl *c, const json_t *plan, struct fan_why *why);

/* The plan of all jobs as JSON, or NULL. */
json_t *ctl_plan_json(const struct fan_ctl *c);

#endif

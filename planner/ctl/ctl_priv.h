/* SPDX-License-Identifier: Apache-2.0 */
/* ctl_priv.h - what the files of the controller share: its nodes, jobs and routes. */
#ifndef FAN_CTL_PRIV_H
#define FAN_CTL_PRIV_H

#include "core/base/err.h"
#include "core/base/limits.h"
#include "ctl.h"
#include "plan/install.h"

#define CTL_NONE	  UINT32_MAX
#define CTL_ADDRESS_BYTES 80
#define CTL_PART_BYTES	  (FAN_TOPO_NAME_MAX + 24) /* "job/63~2" */
#define CTL_JOB_NAME_MAX  (FAN_NAME_MAX - 7)	   /* "/63~999" behind it */
#define CTL_MS		  UINT64_C(1000000)
#define CTL_REFUSALS_MAX  4 /* of a job's routes, until it waits for something to change */

/* ---- nodes: switches and servers of the topology, and its workers ---- */

enum ctl_node_state { CTL_NEVER, CTL_UP, CTL_GONE };

struct ctl_node {
	char name[FAN_TOPO_NAME_MAX + 1];
	enum fan_node_kind kind;
	enum ctl_node_state state;
	uint32_t conn; /* CTL_NONE: none */
	char listen[CTL_ADDRESS_BYTES];
	char address[CTL_ADDRESS_BYTES]; /* the host that it dials from; empty: any */
	uint32_t shards, slots;
	int64_t started;   /* of the process, as it says: another one knows nothing */
	uint64_t since_ns; /* in this state */
	uint64_t heard_ns;
	uint64_t cut_ns; /* a server: its line was cut then; 0: it is not */
	uint64_t packets, hits, passed, collisions, results, drops; /* as it last said */
	/* that it can sum, take in or send, less what the topology says is in use; 0: there is no
	 * limit, or it cannot */
	double gbps;
	double load_gbps;  /* that others have of it, as people say */
	bool drained;	   /* plans are made without it, as people say */
	bool empty;	   /* drained, and it has been noted that no route goes by it */
	uint32_t goes;	   /* times that it went; forgotten after a calm */
	uint64_t offer_ns; /* when to look for better paths by it; 0: it has been done */
	uint32_t parent;   /* of a server: the one that its sums go up to; CTL_NONE */
	/* where it says that they do, and as which of how many; empty: nowhere */
	char above[CTL_ADDRESS_BYTES];
	uint32_t index, siblings;
	uint32_t list;	  /* number of the last list of neighbours sent to it; 0: none */
	bool list_is_old; /* since then one of them has come or gone */
	uint32_t strays;  /* routes of an earlier controller there */
	uint16_t stray[FAN_ROUTES_MAX];
	uint64_t stray_ns; /* when they may go */
};

/* ---- links ---- */

/* As many as the topology has, in its order.  Both ends of those that are watched are daemons. */
enum ctl_link_state {
	CTL_LINK_UNWATCHED, /* an end is no daemon */
	CTL_LINK_UP,
	CTL_LINK_DOWN, /* plans do without it */
};

struct ctl_link {
	uint32_t end[2]; /* nodes */
	enum ctl_link_state state;
	bool silent[2];	   /* end i hears nothing of the other; both are up */
	uint64_t since_ns; /* in this state */
	uint64_t heard_ns; /* DOWN: both ends hear each other since then; 0: they do not */
	uint32_t flaps;	   /* times that it went down; forgotten after a calm */
	double gbps;	   /* as the topology has it, less what it says is in use */
	double load_gbps;  /* used by others in each direction, as `load` says */
	struct ctl_others {
		struct {
			double share;	   /* of the link's whole rate, 0 .. FAN_CTL_OTHERS_MOST */
			uint64_t heard_ns; /* when it was said; 0: never */
		} said[2];		   /* by each end, of what it receives */
		double whole_gbps; /* rate of the link, with what the topology says is in use */
		double share;	   /* that counts */
		uint64_t more_ns, less_ns; /* since when more, or less, is said; 0: it is not */
		uint64_t rose_ns;
		uint32_t rises; /* in turns with falls; forgotten after a calm */
		bool rose;	/* when `share` last changed */
	} others;		/* used by others, as daemons measure it */
};

/* ---- routes: what is or was installed under a number ---- */

struct ctl_entry {
	uint32_t from, next; /* nodes; from CTL_NONE: workers */
	uint8_t depth;
	bool sums;
	uint64_t ranks[FAN_RANK_WORDS];
};

enum ctl_stop_state {
	CTL_WANTED, /* to be sent */
	CTL_ASKED,
	CTL_THERE,
};

struct ctl_stop {
	uint32_t node, quota, entries;
	struct ctl_entry *entry;
	enum ctl_stop_state state;
};

enum ctl_route_state {
	CTL_INSTALLING, /* no worker knows it */
	CTL_READY,	/* all switches have it, or had it: workers go by it, or are to */
	CTL_LEAVING,	/* being removed */
};

struct ctl_route {
	uint16_t number;
	uint32_t job, part;
	enum ctl_route_state state;
	uint32_t server;
	uint32_t *join; /* by rank: the node of its first hop */
	uint32_t ranks;
	uint32_t stops;
	struct ctl_stop *stop;
	uint64_t moved[FAN_RANK_WORDS]; /* ranks that go by it */
	uint64_t leave_ns;		/* LEAVING: time of its removal from switches */
	bool broken;			/* a switch has refused it */
};

/* ---- jobs ---- */

struct ctl_part {
	uint64_t from, to; /* its cut */
	double share, gbps;
	uint32_t server;
	struct ctl_route *route; /* where it goes, or is to go next; never NULL */
};

enum ctl_parts_state {
	CTL_PARTS_NONE,	   /* the rank has no parts */
	CTL_PARTS_SENT,	   /* it has the present ones */
	CTL_PARTS_AGAIN,   /* it has others, which have ended: send `again` */
	CTL_PARTS_FOREIGN, /* it is on routes of an earlier controller, and is left alone */
};

struct ctl_rank {
	uint32_t conn; /* CTL_NONE: none */
	enum ctl_parts_state parts_state;
	uint64_t absent_ns; /* time when it lost its connection; 0: never */
};

enum ctl_job_state {
	CTL_JOB_FREE,  /* no worker knows its parts: the next plan may change them */
	CTL_JOB_BOUND, /* workers have its parts: these stay, paths may change */
	/* workers have its parts from an earlier controller and may name routes of it that are
	 * unknown here */
	CTL_JOB_RESTORED,
};

struct ctl_job {
	char name[FAN_TOPO_NAME_MAX + 1];
	json_t *said;		/* as the topology has it; NULL: it has ended, the place is free */
	uint32_t group, groups; /* of a job: it is one of them; groups 0: it is whole */
	uint32_t ranks;
	uint32_t *worker; /* by rank: node */
	struct ctl_rank *rank;
	uint32_t servers;
	uint32_t *server; /* of a group: one below each parent, of which it uses one at a time */
	uint32_t life;	  /* times that it has begun again */
	enum ctl_job_state state;
	bool announced;	   /* that its routes are there has been noted */
	uint32_t restores; /* how many route numbers wait in `restore` for its parts */
	uint16_t restore[FAN_PARTS_MAX];
	uint64_t rejoined[FAN_RANK_WORDS]; /* ranks that use the routes of `restore` */
	uint32_t refusals; /* of its routes by switches, since all of them were there */
	uint32_t parts;
	struct ctl_part *part;
	double gbps;		     /* planned */
	json_t *trees, *assignments; /* of its plan, by name; NULL: none */
	char why[FAN_WHY_BYTES];     /* why it is planned so, or is not */
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
	CTL_GATHERING, /* it waits for daemons, and plans nothing */
	CTL_WATCHING,  /* no plan is being made */
	CTL_DRAFTING,  /* one is being made apart */
};

/* What a plan is for: each goal includes those before it. */
enum ctl_goal {
	CTL_MEND, /* replace what does not hold any more */
	/* take better paths for running jobs, since load has changed: at most once in
	 * FAN_CTL_LOOK_MS, unless a plan was given */
	CTL_LOOK,
	CTL_SEARCH, /* and take every better path, since people ask for it */
};

struct fan_ctl {
	struct fan_ctl_options o;
	uint64_t now_ns, start_ns;
	uint64_t awake_ns; /* time of the next tick at the latest; later: it has not been awake */
	json_t *root;	   /* nodes and links as given; jobs are below */
	struct ctl_node *node;
	struct ctl_link *link;
	struct ctl_job *job;
	uint32_t nodes, links, jobs;
	uint32_t last_list;			     /* of neighbours */
	struct ctl_route *route[FAN_CTL_ROUTES_MAX]; /* NULL: free */
	uint8_t ours[(UINT16_MAX + 1) / 8]; /* numbers that were given out, by this controller */
	struct ctl_conn conn[FAN_CTL_CONNS_MAX];
	uint64_t plan_ns;		 /* when to plan; UINT64_MAX: no need */
	char cause[FAN_CTL_EVENT_BYTES]; /* of it */
	uint64_t changes;		 /* that asked for a plan, so far */
	uint64_t planned_changes;	 /* `changes` when the plan in progress began */
	uint64_t look_ns;		 /* CTL_LOOK not before */
	uint64_t plans;			 /* made so far */
	uint64_t events;
	struct ctl_event event[FAN_CTL_EVENTS_MAX];
	uint32_t overtaken;   /* plans in a row that were of no use when they were made */
	uint16_t last_number; /* of a route */
	enum ctl_phase phase;
	enum ctl_goal wanted; /* of the next plan, once it may be */
	enum ctl_goal goal;   /* of the plan being made */
	bool loaded;	      /* loads have changed since the plan in progress began */
	bool given;	      /* a plan was given: jobs that no worker has joined keep it as well */
};

/* ctl.c */

/* snprintf, for what people read on a terminal or by JSON: one line of UTF-8, whatever strangers
 * have written and wherever it is cut. */
void ctl_print(char *to, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Note what has happened. */
void ctl_note(struct fan_ctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Send `value`, which is given up. */
void ctl_send(struct fan_ctl *c, uint32_t conn, json_t *value);

/* Say why a connection is of no use, and end it. */
void ctl_refuse(struct fan_ctl *c, uint32_t conn, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A plan is due in `ms`, because of what `format` says. */
void ctl_plan_in(struct fan_ctl *c, uint32_t ms, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

uint32_t ctl_node_named(const struct fan_ctl *c, const char *name);
uint32_t ctl_job_named(const struct fan_ctl *c, const char *name);

/* Is it called so, or a group of the job that is? */
bool ctl_job_is_of(const struct ctl_job *j, const char *name);

/* Are they groups of one job? */
bool ctl_job_is_beside(const struct ctl_job *a, const struct ctl_job *b);

/* node.c: daemons */

/* May the connection be of this node, as far as its address tells?  If not it is refused. */
bool ctl_node_is_from(struct fan_ctl *c, uint32_t conn, uint32_t node);
void ctl_node_line(struct fan_ctl *c, uint32_t conn, const json_t *line);
void ctl_node_hello(struct fan_ctl *c, uint32_t conn, const json_t *line);
void ctl_node_closed(struct fan_ctl *c, uint32_t node);
void ctl_node_tick(struct fan_ctl *c);

/* The controller has not looked for `late_ns`: nobody was silent in that time, and no worker could
 * come for its routes. */
void ctl_node_slept(struct fan_ctl *c, uint64_t late_ns);
uint64_t ctl_node_deadline(const struct fan_ctl *c);
bool ctl_all_up(const struct fan_ctl *c);

/* link.c: between daemons */
int ctl_link_load(struct fan_ctl *c, const struct fan_topo *t);

/* A daemon has come, maybe anew or to another address; has gone. */
void ctl_link_node_in(struct fan_ctl *c, uint32_t node);
void ctl_link_gone(struct fan_ctl *c, uint32_t node);

/* What a daemon's report says of its neighbours. */
void ctl_link_health(struct fan_ctl *c, uint32_t node, const json_t *health);
void ctl_link_tick(struct fan_ctl *c);
uint64_t ctl_link_deadline(const struct fan_ctl *c);

/* All of them, for `status json`. */
json_t *ctl_links_json(const struct fan_ctl *c);

/* Which end of it `node` is; 2: none. */
unsigned ctl_link_end(const struct ctl_link *l, uint32_t node);

/* The link between these, or CTL_NONE. */
uint32_t ctl_link_between(const struct fan_ctl *c, const char *a, const char *b);

/* Its hold, if it is down and both ends hear each other: how long until it is used. */
double ctl_link_back_s(const struct fan_ctl *c, const struct ctl_link *l);

/* route.c: numbers and what is installed under them */

/* A new route of `part` of the installation, CTL_INSTALLING, which nobody has been told of, under
 * `number`; 0: any.  `map`: nodes of the installation to ours.  NULL: no memory, or too many. */
struct ctl_route *ctl_route_new(struct fan_ctl *c, uint16_t number, uint32_t job, uint32_t part,
				const struct fan_install *in, const struct fan_install_part *from,
				const uint32_t *map);

/* Does it say what `from` does? */
bool ctl_route_is(const struct ctl_route *r, const struct fan_install *in,
		  const struct fan_install_part *from, const uint32_t *map);

struct ctl_route *ctl_route_numbered(const struct fan_ctl *c, uint16_t number);

/* Send switches the entries that they do not have. */
void ctl_route_push(struct fan_ctl *c, struct ctl_route *r);

/* Do all switches have it? */
bool ctl_route_is_there(const struct ctl_route *r);

/* Routes that a node knows, or is to know; `leaving`: those that are being removed, too, and
 * of a server those that end there. */
uint32_t ctl_routes_at(const struct fan_ctl *c, uint32_t node, bool leaving);

/* Remove it, `ms` from now. */
void ctl_route_leave(struct fan_ctl *c, struct ctl_route *r, uint32_t ms);

/* A daemon has answered, or is there with these routes, or is gone. */
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

/* Its routes have changed: move workers, and remove unused routes. */
void ctl_job_settle(struct fan_ctl *c, uint32_t job);

/* Tell ranks that stay on the part's route at which rate it is planned now. */
void ctl_job_pace(struct fan_ctl *c, const struct ctl_job *j, uint32_t part);

/* The server that a plan's tree goes up to, CTL_NONE: it is not there. */
uint32_t ctl_tree_server(const struct fan_ctl *c, const json_t *tree);

/* Is it summed there, or goes it up to there?  An earlier controller's job, which is not planned
 * again yet, has trees alone. */
bool ctl_job_needs(const struct fan_ctl *c, const struct ctl_job *j, uint32_t node);

/* A server is gone for good, or is to be left, as `what` says: jobs that have an aggregator there
 * begin again. */
void ctl_job_lost_aggregator(struct fan_ctl *c, uint32_t node, const char *what);

/* Enough was waited for daemons: the same of servers that have not come to this controller. */
void ctl_job_lost_absent(struct fan_ctl *c);
void ctl_job_tick(struct fan_ctl *c);
void ctl_job_slept(struct fan_ctl *c, uint64_t late_ns); /* nobody was away in that time */

/* Its parts and their routes are no more; routes go in `ms`. */
void ctl_job_unplan(struct fan_ctl *c, struct ctl_job *j, uint32_t ms);

/* Admit job `job` of the whole topology `t` with it; end one. */
int ctl_job_admit(struct fan_ctl *c, const struct fan_topo *t, uint32_t job, struct fan_why *why);
void ctl_job_end(struct fan_ctl *c, uint32_t job, const char *why);
void ctl_job_free(struct ctl_job *j);

/* load.c: what others use of links and nodes */

/* What they use of it, as people say or its ends measure: the larger. */
double ctl_load_of(const struct ctl_link *l);

/* What a daemon's report says that others use of its links; what follows, when time has passed. */
void ctl_load_health(struct fan_ctl *c, uint32_t node, const json_t *health);
void ctl_load_tick(struct fan_ctl *c);

/* What counts of it, beside what the topology says, Gb/s. */
double ctl_load_measured(const struct ctl_link *l);

/* Take `load` as people say it.  FAN_E_CONFIG with `why`. */
int ctl_load_set(struct fan_ctl *c, const json_t *load, struct fan_why *why);

/* All of them, as ctl_load_set takes them. */
json_t *ctl_load_json(const struct fan_ctl *c);

/* A node or link of the topology as it is to be planned with: a new reference. */
json_t *ctl_load_on(json_t *said, double load_gbps);

/* drain.c: daemons that are taken out of use, and those that come */

/* May plans use it? */
static inline bool ctl_is_used(const struct ctl_node *n)
{
	return n->state == CTL_UP && !n->drained;
}

/* The parent whose servers sum for the job's groups: that of those that have begun; or, if none
 * has, the first that may be used with all of its servers; CTL_NONE: there is none. */
uint32_t ctl_group_parent(const struct fan_ctl *c, const struct ctl_job *j);

/* Take a switch or server out of use, or back.  FAN_E_CONFIG with `why`. */
int ctl_drain_set(struct fan_ctl *c, const char *name, bool drained, struct fan_why *why);

/* The names of those that are out of use; and from an earlier controller. */
json_t *ctl_drain_json(const struct fan_ctl *c);
void ctl_drain_load(struct fan_ctl *c, const json_t *list);

/* A daemon has come; goes, whose state is still what it was. */
void ctl_drain_came(struct fan_ctl *c, struct ctl_node *n);
void ctl_drain_went(struct fan_ctl *c, struct ctl_node *n);
void ctl_drain_tick(struct fan_ctl *c);
uint64_t ctl_drain_deadline(const struct fan_ctl *c);

/* state.c: what an earlier controller has left.  FAN_E_CONFIG with `why`. */
int ctl_state_load(struct fan_ctl *c, const json_t *state, struct fan_why *why);

/* plan.c: from what is there to routes */
void ctl_plan(struct fan_ctl *c);

/* Check a plan against the whole topology, and take it as that of all jobs. */
int ctl_plan_take(struct fan_ctl *c, const json_t *plan, struct fan_why *why);

/* The plan of all jobs as JSON, or NULL. */
json_t *ctl_plan_json(const struct fan_ctl *c);

#endif

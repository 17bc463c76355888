/* SPDX-License-Identifier: Apache-2.0 */
/* relax.h - the planner's relaxed linear program over candidate routes.
 *
 * This is InArt's program without its products of variables.  Its columns are, for each job and
 * server, g = rate times share of the model; for each group of workers, the volume that one member
 * sends to each switch or straight to the server, by route; for each switch, the volume of its sum,
 * by route.  A sum is as large as the largest part that enters it.  With one server this is GRID's
 * program with rows for links.
 *
 *     maximise f
 *     f = sum_s g_js / weight_j                      the same for all jobs
 *     g_js = share_js weight_j f                     only if the split is given
 *     sum_v,p q_gsvp = g_js                          every gradient is sent somewhere
 *     sum_p q_gsvp <= sum_p z_jsvp                   a sum is no smaller than its parts
 *     loads of links, switches and servers <= their free capacity */
#ifndef FAN_PLAN_RELAX_H
#define FAN_PLAN_RELAX_H

#include "cands.h"
#include "lp.h"

#define FAN_COL_NONE (-1)

struct fan_relax {
	const struct fan_cands *c;
	uint32_t servers; /* the most servers of any job */
	int *g0;	  /* by job and server: column of g */
	int *q0;     /* by group, server and candidate sum (the last: the server): first column */
	int *z0;     /* by job, server and candidate sum: first column */
	int *fixed;  /* by job and server: the row that fixes its share of the split */
	int *row_of; /* by resource: its row, or FAN_COL_NONE */
	struct fan_lp lp;
	double gbps;  /* f */
	double bound; /* no plan over these candidates exceeds it */
};

/* Build the program.  `split`: shares by job and server, `servers` for each job; NULL: it is free.
 *
 * FAN_E_BUSY  it would have more than FAN_LP_COLUMNS_MAX columns
 * FAN_E_NOMEM
 * On error `*r` is empty. */
int fan_relax_open(struct fan_relax *r, const struct fan_cands *c, const double *split);
void fan_relax_close(struct fan_relax *r);

/* Solve by simplex, twice: first for the rate, then for the volumes of least cost that reach it,
 * since a vertex of the first program may use free capacity for detours.  `few`: the cost is that
 * of summing at switches of lower capacity; otherwise it is the load on links, switches and
 * servers.  Errors are those of fan_lp_solve. */
int fan_relax_solve(struct fan_relax *r, bool few);

/* After fan_relax_solve: the rate with a free split, `*bound`.  If it is higher, `split`, with
 * which the program was opened, becomes the split that reaches it.  The solution is kept. */
int fan_relax_split(struct fan_relax *r, bool few, double *split, double *bound);

/* The largest number of servers of a job. */
uint32_t fan_relax_servers(const struct fan_topo *t);

/* The first column and the routes of volumes; candidate `v` == sums is the server itself. */
static inline int fan_relax_q(const struct fan_relax *r, uint32_t g, uint32_t s, uint32_t v)
{
	return r->q0[((size_t)g * r->servers + s) * (r->c->sums + 1) + v];
}

static inline int fan_relax_z(const struct fan_relax *r, uint32_t j, uint32_t s, uint32_t v)
{
	return r->z0[((size_t)j * r->servers + s) * r->c->sums + v];
}

struct fan_span fan_relax_q_routes(const struct fan_relax *r, uint32_t g, uint32_t s, uint32_t v);
struct fan_span fan_relax_z_routes(const struct fan_relax *r, uint32_t j, uint32_t s, uint32_t v);

/* The sum of the values of `count` columns from `first` on; 0 for FAN_COL_NONE. */
double fan_relax_volume(const struct fan_relax *r, int first, uint32_t count);

#endif

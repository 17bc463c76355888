/* SPDX-License-Identifier: Apache-2.0 */
/* relax.h - the planner's linear program, over candidate routes.
 *
 * InArt's program without its products of variables: for each job and server, g = rate times
 * share of the model; for each group of workers the volume that one of its members sends
 * to each switch or straight to the server, by route; for each switch the volume of its
 * sum, by route.  A sum is as large as the largest part that enters it.  With one server
 * this is GRID's program with rows for links.
 *
 *     maximise f
 *     f = sum_s g_js / weight_j                      all jobs alike
 *     g_js = share_js weight_j f                     only if the split is given
 *     sum_v,p q_gsvp = g_js                          every gradient goes somewhere
 *     sum_p q_gsvp <= sum_p z_jsvp                   what enters must leave
 *     loads of links, switches and servers <= what is free of them */
#ifndef FAN_PLAN_RELAX_H
#define FAN_PLAN_RELAX_H

#include "cands.h"
#include "lp.h"

#define FAN_COL_NONE (-1)

struct fan_relax {
	const struct fan_cands *c;
	uint32_t servers; /* the most of any job */
	int *g0;	  /* by job and server: column of g */
	int *q0;	  /* by group, server and candidate sum (the last: none): first column */
	int *z0;	  /* by job, server and candidate sum: first column */
	int *fixed;	  /* by job and server: the row that holds its part of the split */
	int *row_of;	  /* by resource: its row, or FAN_COL_NONE */
	struct fan_lp lp;
	double gbps;  /* f */
	double bound; /* nothing over these candidates is better */
};

/* Columns and rows; nothing is solved yet.  `split` by job and server, `servers` apart, or
 * NULL: free.
 *
 * FAN_E_BUSY  it would be larger than FAN_LP_COLUMNS_MAX
 * FAN_E_NOMEM
 * On error `*r` is empty. */
int fan_relax_open(struct fan_relax *r, const struct fan_cands *c, const double *split);
void fan_relax_close(struct fan_relax *r);

/* By simplex, twice: the rate first, then the volumes that reach it and cost least; a
 * vertex of the first alone sends on detours what nothing else needs.  `few`: what is summed at
 * less able switches costs most, otherwise what loads links, switches and servers.  As
 * fan_lp_solve. */
int fan_relax_solve(struct fan_relax *r, bool few);

/* After that: what would the program reach if the split were free, `*bound`, and with which
 * split?  `split`, which the program was opened with, changes only if that is more.  The solution
 * stays. */
int fan_relax_split(struct fan_relax *r, bool few, double *split, double *bound);

/* The most servers that a job has. */
uint32_t fan_relax_servers(const struct fan_topo *t);

/* First column and routes of volumes; candidate `v` == sums is the server itself. */
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

/* Sum of `count` columns' values from the first on; 0 for FAN_COL_NONE. */
double fan_relax_volume(const struct fan_relax *r, int first, uint32_t count);

/* Shares by job and server, `servers` apart, as the solution has them. */
void fan_relax_shares(const struct fan_relax *r, double *split);

#endif

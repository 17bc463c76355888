/* SPDX-License-Identifier: Apache-2.0 */
/* bound.h - rates that no plan can exceed. */
#ifndef FAN_PLAN_BOUND_H
#define FAN_PLAN_BOUND_H

#include "cands.h"

/* Without regard to routes: what all servers of a job take in together, what all switches
 * can sum (or their links bring), and what a worker sends.  Closed form: with N workers,
 * Y = min(B, sum C / N), f = min(T, Y + (B - Y) / N).  Least over the jobs, each as if it
 * was alone; by weight.  `links`: a switch, and a server, has no more than its links. */
double fan_bound_closed(const struct fan_cands *c, bool links);

/* The relaxed program over all routes that there are: flows by target, conserved at every
 * node.  No candidate routes enter; those of `c` are not looked at.  `levels`: sums may be
 * summed again.
 *
 * FAN_E_BUSY  larger than FAN_BOUND_COLUMNS, or not solved in time
 * FAN_E_NOMEM */
int fan_bound_flows(const struct fan_cands *c, bool levels, double *gbps);

/* The better of the two; the second only where it is small enough. */
double fan_bound(const struct fan_cands *c, bool levels);

#endif

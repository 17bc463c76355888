/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - the counters of a rank in a file, as Prometheus' textfile collector reads it.
 *
 * FANIN_METRICS=FILE starts a thread for each communicator that the program makes, which writes the
 * file once a second, so that neither callers nor the progress thread ever wait for a disk. Without
 * the variable there is nothing but a test of a pointer. */
#ifndef FAN_LIB_API_METRICS_H
#define FAN_LIB_API_METRICS_H

#include <fanin.h>
#include <stdbool.h>
#include <stddef.h>

#define FAN_COMM_METRICS_MS 1000 /* between two writes */

struct fan_comm_metrics;

/* Is FANIN_METRICS set? */
bool fan_comm_metrics_wanted(void);

/* Start for `c`, if it is.  NULL: it is not, or there is no thread for it, which is no error: a
 * job does not end because it cannot be watched. */
struct fan_comm_metrics *fan_comm_metrics_start(fanin_comm *c);

/* Write a last time, and end.  `c` is still whole.  NULL is allowed. */
void fan_comm_metrics_stop(struct fan_comm_metrics *m);

/* In a child of fork(), which has no such thread: free it. */
void fan_comm_metrics_abandon(struct fan_comm_metrics *m);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - the counters of a rank in a file, as Prometheus' textfile collector reads it.
 *
 * FANIN_METRICS=FILE starts a thread for each communicator that the program makes, which writes the
 * file once a second, so that neither callers nor the progress thread ever wait for a disk. Without
 * the variable there is nothing but a test of a pointer.
 *
 * Who was killed leaves a file that says it is up.  It has its time, and who starts next removes
 * such files beside its own. */
#ifndef FAN_LIB_API_METRICS_H
#define FAN_LIB_API_METRICS_H

#include <fanin.h>

#define FAN_COMM_METRICS_MS	1000 /* between two writes */
#define FAN_COMM_METRICS_DEAD_S 60   /* after which a file that says "up" is a killed rank's */
#define FAN_COMM_METRICS_FILES	4096 /* looked at in a folder */

/* If FANIN_METRICS is set, write the file of `c` until `c` is destroyed.  A thread that does not
 * start is no error: a job does not end because it cannot be watched. */
void fan_comm_metrics_start(fanin_comm *c);

#endif

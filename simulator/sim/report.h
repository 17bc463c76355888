/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - a result as one page: tables and plots, with nothing to be loaded. */
#ifndef FAN_SIM_REPORT_H
#define FAN_SIM_REPORT_H

#include <jansson.h>
#include <stdio.h>

/* Write the page about `result`, as fan_experiment_result or a sweep has it.  0, or -1
 * with errno. */
int fan_report_write(FILE *f, const json_t *result);

#endif

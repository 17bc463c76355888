/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.h - parts of the report that lie in files of their own. */
#ifndef FAN_SIM_REPORT_PAGE_H
#define FAN_SIM_REPORT_PAGE_H

#include <jansson.h>
#include <stdio.h>

/* Everything up to the page's first heading: style included, for light and dark. */
void fan_report_head(FILE *f, const char *title);

/* The number that `o` has at `key`; NAN: none. */
double fan_report_real(const json_t *o, const char *key);

/* A cell of a table with `v`, or a dash for NAN; format "G": four digits, else whole. */
void fan_report_cell(FILE *f, double v, const char *format);

/* How the ranks of a job stood, where they ran ahead of each other: nothing for others. */
void fan_report_ahead(FILE *f, const json_t *job);

/* A bar for each group of runs that differ in their seed alone: the mean, with a line from the
 * least to the most; groups in which jobs failed say so. */
void fan_report_bars(FILE *f, const json_t *result, const char *title,
		     double (*figure)(const json_t *run));

/* Curves over the values of a sweep, or bars, and a table of its runs. */
void fan_report_sweep(FILE *f, const json_t *result);

#endif

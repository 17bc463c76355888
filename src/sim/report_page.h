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

/* Curves over the values of a sweep, and a table of its runs. */
void fan_report_sweep(FILE *f, const json_t *result);

#endif

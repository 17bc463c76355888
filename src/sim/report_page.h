/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.h - parts of the report that lie in files of their own. */
#ifndef FAN_SIM_REPORT_PAGE_H
#define FAN_SIM_REPORT_PAGE_H

#include <jansson.h>
#include <stdio.h>

/* Everything up to the page's first heading: style included, for light and dark. */
void fan_report_head(FILE *f, const char *title);

/* Curves over the values of a sweep, and a table of its runs. */
void fan_report_sweep(FILE *f, const json_t *result);

#endif

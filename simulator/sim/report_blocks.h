/* SPDX-License-Identifier: Apache-2.0 */
/* report_blocks.h - parts of the report that lie in files of their own, as blocks of a page. */
#ifndef FAN_SIM_REPORT_BLOCKS_H
#define FAN_SIM_REPORT_BLOCKS_H

#include <jansson.h>
#include <stddef.h>

/* The number that `o` has at `key`; NAN: none. */
double fan_report_real(const json_t *o, const char *key);

/* A new reference to what `o` has at `key`, or null. */
json_t *fan_report_field(const json_t *o, const char *key);

/* A time with its unit: "3.2 ms". */
void fan_report_seconds(char *text, size_t bytes, double seconds);

/* Some of the numbers of `list`, means of neighbours where there are many, times `scale`; each
 * stands for `*each` of them. */
json_t *fan_report_samples(const json_t *list, double scale, unsigned *each);

/* How the ranks of a job stood, where they ran ahead of each other: nothing for others. */
void fan_report_ahead(json_t *page, const json_t *job);

/* The page about a sweep: curves over its values, or bars, and a table of its runs.  Runs that
 * differ in their seed alone are one, those in which jobs failed are marked and not averaged. */
json_t *fan_report_sweep(const json_t *result, const char *name);

#endif

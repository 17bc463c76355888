/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - a page of results from its description.
 *
 * The page holds the description as JSON, share/report.css and share/report.js, which draws it, and
 * loads nothing.  doc/reports.md says which blocks there are; simulator/lab/report.py writes the
 * same page from Python. */
#ifndef FAN_PAGE_PAGE_H
#define FAN_PAGE_PAGE_H

#include <jansson.h>
#include <stdio.h>

/* A page without blocks.  `by` is the program, `title` the finding in one sentence, `sub` what it
 * was found with.  NULL: out of memory, or a text is not UTF-8. */
json_t *fan_page_make(const char *by, const char *title, const char *sub);

/* Add a block to the page's end and take it over; NULL is left out. */
void fan_page_add(json_t *page, json_t *block);

/* As JSON; null for NAN and the infinities, which JSON has not. */
json_t *fan_page_real(double v);

/* A table's column; `unit` NULL: none. */
json_t *fan_page_column(const char *name, const char *unit);

/* Write the page.  0, or -1 with errno. */
int fan_page_write(FILE *f, const json_t *page);

#endif

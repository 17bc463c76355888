/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - a page of results, made by the generator in Python that is beside the program.
 *
 * __main__.py says what it takes: a result of the simulator, a plan, or the description of a page,
 * whose blocks are in doc/reports.md.  The page holds the description as JSON, share/report.css and
 * share/report.js, which draws it, and loads nothing. */
#ifndef FAN_PAGE_PAGE_H
#define FAN_PAGE_PAGE_H

#include <jansson.h>

/* Make the page of `given`, which is of that kind, and write it to the file `path` that --OPTION of
 * COMMAND names; "-" is standard output.  0; or -1, and a line on stderr.  Where there is no
 * Python, the line says so and names the file beside, PATH.json, that has what is given. */
int fan_page_make(const char *command, const char *option, const char *path, const char *kind,
		  const json_t *given);

#endif

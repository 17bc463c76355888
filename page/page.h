/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - a page of results, made by the Python generator beside the program.
 *
 * The generator takes a result of the simulator, a plan, or the description of a page (__main__.py;
 * doc/reports.md lists the blocks).  The page contains the description as JSON, share/report.css,
 * and share/report.js, which draws it; it loads nothing else. */
#ifndef FAN_PAGE_PAGE_H
#define FAN_PAGE_PAGE_H

#include <jansson.h>

/* Make the page of `given`, which is of kind `kind`, and write it to the file `path` that --OPTION
 * of COMMAND names; "-" is standard output.  Returns 0, or -1 with a line on stderr.  On failure
 * `given` is saved as PATH.json if possible, and the line names that file. */
int fan_page_make(const char *command, const char *option, const char *path, const char *kind,
		  const json_t *given);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* ps.h - the ranks of this host, as their processes tell them (lib/rank/roster.h). */
#ifndef FAN_CMD_PS_H
#define FAN_CMD_PS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Ask all processes of this user, of all users for root.  An object with `host`, `ranks`, and the
 * numbers of processes that have not answered, `silent`; to be freed.  NULL: `why`, ARGS_WHY_BYTES,
 * says why nobody could be asked. */
json_t *ps_collect(char *why);

/* Complete what ranks that wait know with what the aggregators tell for which they wait. */
void ps_complete(json_t *found);

/* Ask the aggregators of `job`, those on other hosts too, as far as ranks here know them: an array
 * `aggregators`. */
void ps_ask_aggregators(json_t *found, const char *job);

/* The processes at `names`, the text of /proc/net/unix. */
struct ps_name {
	char text[64]; /* without its leading zero */
	unsigned uid;  /* whose it says it is */
};
unsigned ps_names(struct ps_name *names, unsigned most, const char *text);

/* Print them as a table, who waits longest first; `job`, `pid`: these alone, "" and 0: all.  How
 * many ranks. */
unsigned ps_print(FILE *f, const json_t *found, const char *job, int pid);

/* `fanin top` without a switch: print them every `interval_s` seconds, or once; on a terminal anew
 * at the same place.  `json`: write them to this file, "-" for standard output alone; "": no file.
 * The exit status. */
int ps_top(int interval_s, bool once, const char *json);

#endif

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

/* The ranks of several hosts, lines of `fanin ps --json` from `f`, as ps_collect returns those of
 * one. */
json_t *ps_merge(FILE *f, char *why);

/* Add what such a host has told: `most` of its ranks at most, each bounded and
 * with the members of `about`; `left_out` of `found` counts the rest.  False: it is nothing such.
 */
bool ps_add(json_t *found, const json_t *told, const json_t *about, unsigned most);

/* Add what the process `pid` of user `uid` has answered. */
bool ps_add_process(json_t *found, const char *text, size_t bytes, int pid, unsigned uid);

/* The whole of `f`, or `most` bytes and a little more, with a zero behind; to be freed.  NULL: it
 * cannot be read, or there is no memory. */
char *ps_read(FILE *f, size_t most);

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

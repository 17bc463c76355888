/* SPDX-License-Identifier: Apache-2.0 */
/* top_tree.h - `fanin top --controller`: nodes, jobs, and the trees that sum them. */
#ifndef FAN_CMD_TOP_TREE_H
#define FAN_CMD_TOP_TREE_H

#include <stdbool.h>

struct top_tree_args {
	const char *path; /* of the controller's Unix socket */
	const char *json; /* FILE for its status, - for the standard output; empty: none */
	int interval_s;
	bool once;
};

/* Print until ended, or once.  Returns the exit status. */
int top_tree(const struct top_tree_args *a);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* picture.h - a plan to look at: colours by load. */
#ifndef FAN_PLAN_PICTURE_H
#define FAN_PLAN_PICTURE_H

#include <jansson.h>
#include <stdio.h>

#include "eval.h"

/* Text that grows; `text` is NULL until something was added. */
struct fan_text {
	char *text;
	size_t bytes, room;
	bool failed; /* no memory: all else is left out */
};

void fan_text_free(struct fan_text *x);

/* For graphviz: nodes and links, as wide and red as they are full, sums marked. */
void fan_picture_dot(struct fan_text *x, const struct fan_topo *t, const struct fan_plan *p,
		     const struct fan_eval *e);

/* The description of a page (page/page.h): switches in rows by how far they are from hosts, hosts
 * below; then what is fullest.  NULL: out of memory. */
json_t *fan_picture_page(const struct fan_topo *t, const struct fan_plan *p,
			 const struct fan_eval *e, const char *title, const char *sub);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - aggregators below another one, each with slots in front or not; and the workers' places.
 */
#ifndef TEST_SIM_TREE_H
#define TEST_SIM_TREE_H

#include "story.h"

/* The workers are there, below nobody yet. */
void tree_begin(struct run *r);

/* All is over: no leaf has a job left. */
void tree_check_empty(const struct run *r);

void tree_free(struct run *r);

#endif

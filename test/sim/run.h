/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - one seed from beginning to end. */
#ifndef TEST_SIM_RUN_H
#define TEST_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

/* Run the plan of `seed`, with the story of that number, or its own if negative.
 * Returns if all is as it must be, else says what is not and ends the process. */
void run_seed(uint64_t seed, int story, enum plan_policy policy, bool stragglers, bool verbose);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* plan_serve.h - `fanin plan --serve`, which answers a controller's requests. */
#ifndef FAN_CMD_PLAN_SERVE_H
#define FAN_CMD_PLAN_SERVE_H

#include "plan/algorithm.h"

/* Answer requests, a line each, from standard input to standard output until its end.  Returns the
 * exit status. */
int plan_serve(const struct fan_algorithm *algorithm, const struct fan_plan_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A switch where the job has a route. */
#define FUZZ_ROUTED
#include "fuzz_switch_recv.c"

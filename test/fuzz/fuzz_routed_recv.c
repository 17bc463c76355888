/* SPDX-License-Identifier: Apache-2.0 */
/* A shared switch where the job has a route. */
#define FUZZ_ROUTED
#include "fuzz_shared_recv.c"

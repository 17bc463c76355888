/* SPDX-License-Identifier: Apache-2.0 */
/* args_value.h - parses one option from one text, and guesses misspelt words. */
#ifndef FAN_ARGS_VALUE_H
#define FAN_ARGS_VALUE_H

#include "args.h"

/* Store `text` as option `o` of `values`; for a flag of the command line `text` is NULL.
 * 0; or -1 with "expected ..., got ..." in `why`, `bytes` bytes. */
int args_set(const struct args_option *o, void *values, const char *text, char *why, size_t bytes);

#endif

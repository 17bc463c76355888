/* SPDX-License-Identifier: Apache-2.0 */
/* wait_text.h - what a join waits for, as a sentence that a person reads while it waits: for what,
 * why, and when it gives up. */
#ifndef FAN_LIB_RANK_WAIT_TEXT_H
#define FAN_LIB_RANK_WAIT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct fan_rank;

/* Write it to `text`, `bytes` bytes. */
void fan_wait_text(const struct fan_rank *r, uint64_t now_ns, char *text, size_t bytes);

#endif

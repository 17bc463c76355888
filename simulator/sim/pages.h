/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - memory that a run goes through again and again.
 *
 * With a thousand workers each event touches another one, and finding its page takes as long
 * as reading it.  So large pieces are asked for in large pages, where the kernel has them. */
#ifndef FAN_SIM_PAGES_H
#define FAN_SIM_PAGES_H

#include <stddef.h>

/* `bytes` aligned to a cache line, for free(); NULL: out of memory. */
void *fan_pages_alloc(size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* fault_text.h - why a communicator ended, in a sentence for people: what happened, which
 * ranks, what to do.  Pure: from what the core reports to text. */
#ifndef FAN_LIB_FAULT_TEXT_H
#define FAN_LIB_FAULT_TEXT_H

#include "core/worker/worker.h"

#define FAN_FAULT_TEXT_BYTES 512 /* enough for every sentence; longer lists end in "..." */

/* What the core does not know. */
struct fan_fault_about {
	const char *job;
	const char *switch_addr; /* "10.0.0.1:5000" */
	uint16_t rank, ranks;
	uint16_t payload_bytes;
	uint8_t options; /* enum fan_join_option of the JOIN */
	uint32_t alive_ms, timeout_ms;
	bool joined;  /* the switch has answered once */
	bool refused; /* ICMP says that the port is closed */
	bool inside;  /* nobody named a switch: rank 0 started this one in its process */
};

/* Write the sentence for `*f` into `text`, `bytes` bytes; returns `text`. */
const char *fan_fault_text(char *text, size_t bytes, const struct fan_fault *f,
			   const struct fan_fault_about *a);

/* "rank 3" or "ranks 2, 5-7" into `text`; "" for an empty set.  Returns how many ranks
 * there are. */
unsigned fan_fault_ranks_text(char *text, size_t bytes, const uint64_t *ranks);

#endif

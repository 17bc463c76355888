/* SPDX-License-Identifier: Apache-2.0 */
/* fault_text.h - the cause of a communicator's end as a sentence: what happened, which ranks,
 * what to do.  Pure: from the core's struct fan_fault to text. */
#ifndef FAN_LIB_BASE_FAULT_TEXT_H
#define FAN_LIB_BASE_FAULT_TEXT_H

#include "core/worker/worker.h"

/* Causes of an end beyond enum fan_err, by which the ranks of a job exchange what they
 * have found out in LEAVE; aggregators hand them on in STATE (doc/protocol/base.md, 4.6). */
#define FAN_CAUSE_PARTS_MAX 32 /* of a job that goes on without one of them */
#define FAN_HOST_RANKS_MAX  64 /* that share memory */

/* The aggregator of part `number`, below FAN_CAUSE_PARTS_MAX, is lost. */
#define FAN_CAUSE_GONE(number) (-32 - (int)(number))

/* Number `i`, below FAN_HOST_RANKS_MAX, of the blamed host is lost: of the ranks of a column. */
#define FAN_CAUSE_LOST(i) (-64 - (int)(i))

#define FAN_FAULT_TEXT_BYTES 512 /* of every sentence; longer lists end in "..." */

/* Context that the core does not have. */
struct fan_fault_about {
	const char *job;
	const char *switch_addr; /* "10.0.0.1:5000" */
	const char *server_addr; /* of the aggregator behind it; NULL: none that is known */
	uint16_t rank, ranks;
	const uint16_t *global; /* what ranks are called in the text; NULL: by their numbers */
	/* The name of a host's rank of a number, for FAN_CAUSE_LOST; NULL: no such error. */
	const uint16_t (*rank_at)[FAN_HOST_RANKS_MAX];
	uint32_t alive_ms, timeout_ms;
	bool reported;	  /* another rank has reported it */
	bool only;	  /* the switch sums all of the tensors */
	bool joined;	  /* the switch has answered once */
	bool sealed;	  /* this rank has a key */
	bool answers;	  /* the switch does, itself, while its jobs are silent */
	bool refused;	  /* ICMP has reported a closed port */
	int system_errno; /* with which the system refuses this rank's packets; 0: it does not */
	int inside;	  /* the rank in which this switch is embedded; -1: none */
	unsigned files;	  /* file descriptors of this communicator */
	unsigned long long files_max; /* file descriptors that this process may have; 0: no limit */
};

/* Write the sentence for `*f` into `text`, `bytes` bytes; returns `text`. */
const char *fan_fault_text(char *text, size_t bytes, const struct fan_fault *f,
			   const struct fan_fault_about *a);

/* The options that a rank asks for. */
struct fan_fault_asked {
	uint16_t rank;
	uint8_t op, dtype;
	uint8_t kind; /* FAN_MARK_KIND of its mark */
	bool reduce;
	uint64_t count; /* elements */
	uint16_t root;	/* of a broadcast or reduce; FAN_RANK_NONE: not known */
};

/* Write that two ranks ask for different operations: "ranks disagree: rank 3 sent sum of float32,
 * 352 elements, rank 0 sent a barrier". */
void fan_fault_disagreement_text(char *text, size_t bytes, const struct fan_fault_asked *a,
				 const struct fan_fault_asked *b);

/* Write "rank 3" or "ranks 2, 5-7" to `text`; "" for an empty set.  Returns the number of
 * ranks. */
unsigned fan_fault_ranks_text(char *text, size_t bytes, const uint64_t *ranks);

#endif

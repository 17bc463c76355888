/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h - jobs that are parts of one tensor, each summed at a node of its own, like the parts of
 * libfanin where several aggregators share the work.
 *
 * A rank's trainers of all parts proceed in step, by the core's in_step.h, as the library's
 * connections do.  The rank begins its next iteration when it has all parts of the last one. */
#ifndef FAN_SIM_TENSOR_H
#define FAN_SIM_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "job.h"

struct fan_in_step_part;
struct fan_trainer;
struct fan_trainer_shared;

struct fan_tensor {
	uint32_t parts, ranks;
	struct fan_trainer_shared *part[FAN_TENSOR_PARTS_MAX];
	struct fan_in_step_part *step; /* by rank, then by part */
	uint32_t *allowed;	       /* by rank, then by part: the bounds given to the workers */
	bool *ends;		       /* by rank: may the rest of the iteration be in flight? */
};

/* Make a tensor of `parts` jobs, at most FAN_TENSOR_PARTS_MAX, that have the same ranks on the same
 * hosts.  Their trainers exist, and nothing has happened yet.  False: out of memory. */
bool fan_tensor_init(struct fan_tensor *n, struct fan_trainer_shared **part, uint32_t parts);
void fan_tensor_free(struct fan_tensor *n);

/* Trainer `t` has had an event: bound the workers of all parts, and wake those that may send
 * more. */
void fan_tensor_keep_in_step(struct fan_trainer *t);

/* Have all parts at this rank reduced `buckets` buckets? */
bool fan_tensor_has(const struct fan_trainer *t, uint64_t buckets);

/* `t` has reduced an iteration: wake the other parts, which may wait for that. */
void fan_tensor_tell(const struct fan_trainer *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h - jobs that are parts of one tensor, each summed at a node of its own, as libfanin's
 * ranks have where several aggregators share the work.
 *
 * A rank's trainers of all parts proceed in step, by the core's in_step.h, as the library's
 * connections do; and the next iteration begins when this rank has all parts of the last one. */
#ifndef FAN_SIM_TENSOR_H
#define FAN_SIM_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#define FAN_TENSOR_PARTS_MAX 128

struct fan_in_step_part;
struct fan_trainer;
struct fan_trainer_shared;

struct fan_tensor {
	uint32_t parts, ranks;
	struct fan_trainer_shared *part[FAN_TENSOR_PARTS_MAX];
	struct fan_in_step_part *step; /* by rank, then by part */
	uint32_t *allowed;	       /* by rank, then by part: the bounds that the workers know */
	bool *ends; /* by rank: may all that is left of the iteration be in flight? */
};

/* Make one of `parts` jobs, at most FAN_TENSOR_PARTS_MAX, which have the same ranks on the same
 * hosts.  Their trainers are there and nothing has happened yet.  False: out of memory. */
bool fan_tensor_init(struct fan_tensor *n, struct fan_trainer_shared **part, uint32_t parts);
void fan_tensor_free(struct fan_tensor *n);

/* Trainer `t` has had an event: bound its worker and those of the other parts, and wake who may
 * send more. */
void fan_tensor_keep_in_step(struct fan_trainer *t);

/* Have all parts at this rank reduced `buckets` buckets? */
bool fan_tensor_has(const struct fan_trainer *t, uint64_t buckets);

/* `t` has reduced an iteration: the other parts may wait for that. */
void fan_tensor_tell(const struct fan_trainer *t);

#endif

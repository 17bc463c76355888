/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h - what the ranks reduce, and what must come out, computed another way.
 *
 * Inputs follow from (seed, rank, index).  The expected result is computed element by
 * element in doubles or wide integers from the definitions, not with the core's
 * loops.  Native float inputs are small integers, so that sums are exact in any order, but for
 * TENSOR_ROUNDED: all ranks' bits are the same there, whatever was lost and sent again. */
#ifndef TEST_SIM_TENSOR_H
#define TEST_SIM_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/worker/worker.h"
#include "draw.h"

#define TENSOR_GUARD 64 /* bytes before and behind each tensor that nobody may touch */

enum tensor_style {
	TENSOR_PLAIN,	 /* small integers; any bits for integer types */
	TENSOR_SPECIALS, /* some NaN and infinities among them */
	TENSOR_WILD,	 /* fixed mode: all magnitudes, denormals to FLT_MAX, by stretches */
	TENSOR_ROUNDED,	 /* eight bits: likewise, with specials; within bounds, the same bits */
};

struct tensor_job { /* what a reference depends on beside the operation */
	unsigned ranks;
	uint32_t block; /* elements of a block of the fixed mode */
};

struct tensor_op {
	struct fan_op op; /* `in` and `out` unset */
	uint64_t seed;
	enum tensor_style style;
	bool in_place;
	void *expect; /* op.count elements; tensor_expect makes it; TENSOR_ROUNDED: as doubles */
	double *near; /* TENSOR_ROUNDED: what the ranks' largest around each element add up to */
};

/* Draw an operation of at most `elements` elements. */
void tensor_draw(struct tensor_op *o, struct fan_rng *r, unsigned ranks, uint64_t elements);

/* Compute o->expect. */
void tensor_expect(struct tensor_op *o, const struct tensor_job *job);

/* One rank's tensors of one operation. */
struct tensor {
	uint8_t *in_mem, *out_mem; /* with guards; the same when in place */
	uint8_t *copy;		   /* of the input */
	float *lost;		   /* TENSOR_ROUNDED: what rounding took from it */
	size_t bytes;
};

/* Make and fill them; sets `op->in` and `op->out`. */
void tensor_open(struct tensor *t, const struct tensor_op *o, uint16_t rank, struct fan_op *op);

/* NULL if the rank's tensors are as they must be after the operation, else what is
 * wrong.  `exact` false: only what holds with a liar among the ranks. */
const char *tensor_check(const struct tensor *t, const struct tensor_op *o, uint16_t rank,
			 bool exact);

/* The result as bytes, or NULL if this rank gets none. */
const void *tensor_result(const struct tensor *t, const struct tensor_op *o, uint16_t rank);

void tensor_close(struct tensor *t);

/* Nearest float16 or bfloat16 and back, by arithmetic alone. */
uint16_t tensor_half_from(double v, enum fan_dtype dtype);
double tensor_half_to(uint16_t h, enum fan_dtype dtype);

#endif

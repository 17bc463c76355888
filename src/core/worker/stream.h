/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - operations as a stream of fragments.
 *
 * Every operation takes the next run of fragment numbers, in the order in which the operations are
 * started, so that all ranks give the same numbers to the same elements without a message.  A plain
 * operation is its elements in order.  An operation in fixed mode is cut into groups of B blocks (a
 * block is the elements of one fragment; B int16 exponents fill a fragment), and the exponents of a
 * group travel ahead of its elements:
 *
 *     E0, E1, D0 ... , E2, D1 ..., E3, D2 ...
 *
 * Ei: the exponents of group i, reduced with max.  Di: its blocks, summed.  Blocks of group i can
 * be sent once the result of Ei has come; E(i+1) is in flight by then.  doc/protocol/fixed.md. */
#ifndef FAN_WORKER_STREAM_H
#define FAN_WORKER_STREAM_H

#include "worker.h"

struct fan_stream_op {
	struct fan_op op;
	uint64_t id;
	uint64_t first;	      /* its first fragment number */
	uint64_t frags;	      /* number of its fragments, at least one */
	uint64_t left;	      /* fragments that are not finished */
	uint64_t blocks;      /* fragments with elements */
	uint64_t groups;      /* fixed mode: groups of blocks; otherwise 0 */
	uint64_t group_first; /* number of its first group in the worker's life */
	uint32_t per_frag;    /* elements in a full fragment */
	uint32_t per_group;   /* B */
};

/* The content of a fragment. */
struct fan_stream_frag {
	bool exponents;
	uint64_t group; /* fixed mode: number in the worker's life */
	uint64_t at;	/* first element, or first block whose exponent it carries */
	uint32_t block; /* fixed mode, elements: index of the block in its group */
	uint16_t count; /* elements, or exponents */
	uint8_t dtype;	/* on the wire */
	uint8_t redop;	/* on the wire */
	uint16_t flags; /* FIRST, LAST, REDUCE, ROOT, EMPTY as a contribution has them */
};

/* Elements of `op` in one full fragment of a job with this payload, whose slots hold `width`
 * payloads: fan_join_width. */
uint32_t fan_stream_per_frag(const struct fan_op *op, uint16_t payload_bytes, unsigned width);

/* Is every field of `op` in its range, for a job of `ranks`? */
bool fan_stream_op_is_sane(const struct fan_op *op, uint16_t ranks);

/* Lay out `op` from fragment number `first` on and group number `group_first`. */
void fan_stream_open(struct fan_stream_op *s, const struct fan_op *op, uint64_t first,
		     uint64_t group_first, uint16_t payload_bytes, unsigned width);

/* Fill in the content of fragment `frag` as rank `rank` sends it. */
void fan_stream_frag(const struct fan_stream_op *s, uint64_t frag, uint16_t rank,
		     struct fan_stream_frag *p);

/* Blocks in group `group` (a number in the worker's life). */
uint32_t fan_stream_group_blocks(const struct fan_stream_op *s, uint64_t group);

/* The first fragment that carries elements of group `group`. */
uint64_t fan_stream_group_data(const struct fan_stream_op *s, uint64_t group);

/* The agreed exponents of groups in use, in bounded storage: groups low .. low +
 * FAN_STREAM_GROUPS - 1.  low moves on when all blocks of the lowest group are finished.
 * So the lowest unfinished group always has its place, and waits for places cannot be
 * circular. */
#define FAN_STREAM_GROUPS 16

struct fan_stream_group {
	uint64_t number;
	uint32_t left; /* blocks not finished */
	bool used;     /* `number` and `left` are set */
	bool known;    /* `exponents` are set */
	int16_t *exponents;
};

#endif

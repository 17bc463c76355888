/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_priv.h - what trainer.c (reducing) and trainer_compute.c (iterations, tables) share. */
#ifndef FAN_SIM_TRAINER_PRIV_H
#define FAN_SIM_TRAINER_PRIV_H

#include "trace.h"
#include "trainer.h"

#define FAN_TRAINER_ALIGN      64u
#define FAN_TRAINER_ITEMS      64u /* datagrams that a core returns at a time */
#define FAN_TRAINER_RANK_SHIFT 17u /* elements between the inputs of two places */
#define FAN_TRAINER_OP_SHIFT   16u /* elements; keeps operations aligned */

static inline size_t fan_trainer_rounded(size_t bytes)
{
	return (bytes + FAN_TRAINER_ALIGN - 1) / FAN_TRAINER_ALIGN * FAN_TRAINER_ALIGN;
}

/* Compute as far as time and gradients allow.  True: a layer was finished. */
bool fan_trainer_compute(struct fan_trainer *t);

/* Note that from now on computing waits for gradients, or no longer does. */
void fan_trainer_note_wait(struct fan_trainer *t, bool waits);

#endif

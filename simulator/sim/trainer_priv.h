/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_priv.h - what trainer.c (reducing) and trainer_compute.c (iterations, and the tables of a
 * job) have in common. */
#ifndef FAN_SIM_TRAINER_PRIV_H
#define FAN_SIM_TRAINER_PRIV_H

#include "trace.h"
#include "trainer.h"

#define FAN_TRAINER_ALIGN      64u
#define FAN_TRAINER_ITEMS      64u /* that a core gives at one time */
#define FAN_TRAINER_RANK_SHIFT 17u /* elements between what two ranks reduce */
#define FAN_TRAINER_OP_SHIFT   16u /* elements: keeps operations aligned */

static inline size_t fan_trainer_rounded(size_t bytes)
{
	return (bytes + FAN_TRAINER_ALIGN - 1) / FAN_TRAINER_ALIGN * FAN_TRAINER_ALIGN;
}

/* Compute as far as time and gradients allow; true if a layer was finished. */
bool fan_trainer_compute(struct fan_trainer *t);

/* From now on nothing can be computed until gradients come, or something can. */
void fan_trainer_note_wait(struct fan_trainer *t, bool waits);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_priv.h - what trainer.c (reducing) and trainer_compute.c share. */
#ifndef FAN_SIM_TRAINER_PRIV_H
#define FAN_SIM_TRAINER_PRIV_H

#include "timeline.h"
#include "trainer.h"

/* Compute as far as time and gradients allow; true if a layer was finished. */
bool fan_trainer_compute(struct fan_trainer *t);

/* From now on nothing can be computed until gradients come, or something can. */
void fan_trainer_note_wait(struct fan_trainer *t, bool waits);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - layer tables, made from architectures or read from CSV.
 *
 * A table has one line for each set of parameters that is used in one place: a convolution, its
 * batch norm, a matrix with its bias.  Parameters are those of the papers' reference
 * implementations; the tests have their sums.  Times are for one batch on a GPU of 2019, spread
 * over the layers by their multiply-adds: VGG16 takes 252 ms forwards and 439 ms backwards,
 * ResNet50 202 and 261 ms (both published, batch of 64).  Each other model takes as much for a
 * multiply-add as the one of these two that it resembles. */
#ifndef FAN_SIM_MODEL_H
#define FAN_SIM_MODEL_H

#include "job.h"

/* The names of the models, ended by NULL. */
extern const char *const fan_model_names[];

/* Make the table of the model `name`.  False: no such name, or out of memory. */
bool fan_model_make(struct fan_model *m, const char *name);

void fan_model_free(struct fan_model *m);

/* The multiply-adds of all layers for one sample. */
uint64_t fan_model_macs(const char *name);

/* Read a table from the CSV in `text`, which is changed; its first line is
 * `layer,numel,forward_ns,backward_ns`.  0, or -1 with the fault and its line in `why`. */
int fan_model_parse(struct fan_model *m, char *text, char *why, size_t why_bytes);

/* Add a layer; false: too many, or out of memory. */
bool fan_model_add(struct fan_model *m, const struct fan_layer *layer);

#endif

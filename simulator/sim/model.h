/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - layer tables: made from the architectures, or read from CSV.
 *
 * A table has one line for each set of parameters that is used in one place: a
 * convolution, its batch norm, a matrix with its bias.  Parameters are those of the
 * papers' reference implementations; their sums are in the tests.  Times are for one
 * batch on a GPU of 2019, spread over the layers by their multiply-adds: VGG16 takes
 * 252 ms forwards and 439 ms backwards, ResNet50 202 and 261 ms (both published, batch of
 * 64), and the others as much for a multiply-add as the one of these they resemble. */
#ifndef FAN_SIM_MODEL_H
#define FAN_SIM_MODEL_H

#include "job.h"

/* The names of the models, ended by NULL. */
extern const char *const fan_model_names[];

/* Make the table of a model.  False: no such name, or out of memory. */
bool fan_model_make(struct fan_model *m, const char *name);

void fan_model_free(struct fan_model *m);

/* Multiply-adds of one sample, all layers. */
uint64_t fan_model_macs(const char *name);

/* Read `layer,numel,forward_ns,backward_ns` lines, the first being just that, from
 * `text`, which is changed.  0, or -1 with what is wrong, and in which line, in `why`. */
int fan_model_parse(struct fan_model *m, char *text, char *why, size_t why_bytes);

/* Add a layer; false: too many, or out of memory. */
bool fan_model_add(struct fan_model *m, const struct fan_layer *layer);

#endif

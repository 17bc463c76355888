/* SPDX-License-Identifier: Apache-2.0 */
/* sim_calibrate.c - makes a scenario from a trace of real ranks, as FANIN_TRACE writes it.
 *
 * An all-reduce occupies the network for as long as it takes on the rank that waits least.  This
 * time begins with a round trip and rises with the bytes, by the time per byte of the slowest link
 * or host.  An iteration is the shortest repeating series of all-reduces; what of it no all-reduce
 * takes is computing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/limits.h"
#include "sim.h"

#define OPS_MAX	      65536
#define BYTES_LEAST   4096.0 /* smaller operations say nothing about rates */
#define PAYLOAD	      1408.0
#define OVERHEAD      66.0
#define DELAY_US      15.0 /* of a link, if all operations have one size: that of a veth */
#define DELAY_US_MOST 1e6
#define RANKS_MIN     2u

/* All-reduce number k, of all ranks that have begun it. */
struct op {
	double bytes, begin_us, end_us; /* on the first rank */
	double took_us;			/* on the rank that waited least */
};

struct calibration {
	struct op *op;
	unsigned count, ranks, period; /* ranks are processes of the trace */
	double us_byte, fixed_us;
	double iteration_us, computing_us, bytes; /* per iteration */
};

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *of, unsigned count)
{
	qsort(of, count, sizeof *of, by_number);
	return count ? of[count / 2] : NAN;
}

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static bool is_begin(const json_t *e)
{
	const char *name = json_string_value(json_object_get(e, "name"));
	const char *phase = json_string_value(json_object_get(e, "ph"));
	double bytes = number(json_object_get(e, "args"), "bytes");
	return name && phase && strcmp(name, "allreduce") == 0 && strcmp(phase, "b") == 0 &&
	       bytes >= BYTES_LEAST;
}

/* When the operation ended that `begin` starts; NAN: the trace does not say. */
static double end_of(const json_t *events, size_t at, const json_t *begin)
{
	const char *id = json_string_value(json_object_get(begin, "id"));
	for (size_t i = at + 1; id && i < json_array_size(events); i++) {
		const json_t *e = json_array_get(events, i);
		const char *phase = json_string_value(json_object_get(e, "ph"));
		const char *name = json_string_value(json_object_get(e, "name"));
		const char *its = json_string_value(json_object_get(e, "id"));
		if (phase && name && its && strcmp(phase, "e") == 0 && strcmp(its, id) == 0 &&
		    strcmp(name, "allreduce") == 0 && number(e, "pid") == number(begin, "pid"))
			return number(e, "ts");
	}
	return NAN;
}

/* Add one more all-reduce, the k-th of the process of `e`. */
static void add(struct calibration *c, unsigned k, const json_t *e, double end_us)
{
	double begin_us = number(e, "ts"), bytes = number(json_object_get(e, "args"), "bytes");
	struct op *op = &c->op[k];
	if (k == c->count) {
		c->count++;
		*op = (struct op){bytes, begin_us, end_us, end_us - begin_us};
	} else if (op->bytes == bytes && end_us - begin_us < op->took_us) {
		op->took_us = end_us - begin_us;
	}
}

/* Read the all-reduces of a trace.  False: out of memory. */
static bool read_ops(struct calibration *c, const json_t *events)
{
	json_t *begun = json_object(); /* by process: all-reduces that it has */
	bool ok = begun != NULL;
	for (size_t i = 0; ok && i < json_array_size(events); i++) {
		const json_t *e = json_array_get(events, i);
		if (!is_begin(e))
			continue;
		char pid[32];
		snprintf(pid, sizeof pid, "%.0f", number(e, "pid"));
		json_int_t k = json_integer_value(json_object_get(begun, pid));
		double end_us = end_of(events, i, e);
		if (k >= OPS_MAX || !isfinite(end_us))
			continue;
		add(c, (unsigned)k, e, end_us);
		ok = json_object_set_new(begun, pid, json_integer(k + 1)) == 0;
	}
	c->ranks = (unsigned)json_object_size(begun);
	json_decref(begun);
	return ok;
}

/* The median time of all-reduces of `bytes`. */
static double typical_us(const struct calibration *c, double bytes, double *scratch)
{
	unsigned n = 0;
	for (unsigned k = 0; k < c->count; k++)
		if (c->op[k].bytes == bytes)
			scratch[n++] = c->op[k].took_us;
	return median(scratch, n);
}

/* Fit the time for each byte and the fixed time. */
static void fit(struct calibration *c, double *scratch)
{
	double low = c->op[0].bytes, high = low;
	for (unsigned k = 1; k < c->count; k++) {
		low = fmin(low, c->op[k].bytes);
		high = fmax(high, c->op[k].bytes);
	}
	double high_us = typical_us(c, high, scratch), low_us = typical_us(c, low, scratch);
	c->fixed_us = 2 * DELAY_US;
	if (low < high && high_us > low_us) {
		c->fixed_us = low_us - low * (high_us - low_us) / (high - low);
		c->fixed_us = fmin(fmax(c->fixed_us, 0), 2 * DELAY_US_MOST);
	}
	c->us_byte = fmax(high_us - c->fixed_us, 1e-3) / high;
}

/* Find the series that repeats; if none does, take those of the largest size one by one. */
static void find_period(struct calibration *c)
{
	double most = 0;
	for (c->period = 1; c->period <= c->count / 2; c->period++) {
		unsigned k = 0;
		while (k + c->period < c->count && c->op[k].bytes == c->op[k + c->period].bytes)
			k++;
		if (k + c->period == c->count)
			return;
	}
	for (unsigned k = 0; k < c->count; k++)
		most = fmax(most, c->op[k].bytes);
	unsigned kept = 0;
	for (unsigned k = 0; k < c->count; k++)
		if (c->op[k].bytes == most)
			c->op[kept++] = c->op[k];
	c->count = kept;
	c->period = 1;
}

/* Measure the iterations that another one follows.  False: there is none. */
static bool measure(struct calibration *c, double *scratch)
{
	unsigned n = 0;
	for (unsigned k = 0; k < c->period; k++)
		c->bytes += c->op[k].bytes;
	for (unsigned k = 0; k + c->period < c->count; k += c->period)
		scratch[n++] = c->op[k + c->period].begin_us - c->op[k].begin_us;
	if (!n)
		return false;
	c->iteration_us = median(scratch, n);
	n = 0;
	for (unsigned k = 0; k + c->period < c->count; k += c->period) {
		double until_us = c->op[k].begin_us, busy = 0;
		for (unsigned i = k; i < k + c->period; i++) {
			double from_us = fmax(until_us, c->op[i].begin_us);
			busy += fmax(c->op[i].end_us - from_us, 0);
			until_us = fmax(until_us, c->op[i].end_us);
		}
		scratch[n++] = busy;
	}
	c->computing_us = fmax(c->iteration_us - median(scratch, n), 0);
	return true;
}

static json_t *scenario_of(const struct calibration *c)
{
	unsigned ranks = c->ranks < RANKS_MIN ? RANKS_MIN : c->ranks;
	double framed = (PAYLOAD + FAN_HEAD_BYTES + OVERHEAD) / PAYLOAD;
	char comment[128];
	snprintf(comment, sizeof comment,
		 "measured: an iteration of %.3f ms, %.3f ms of it computing",
		 c->iteration_us / 1e3, c->computing_us / 1e3);
	return json_pack(
		"{s:s, s:s, s:{s:[{s:s, s:s}, {s:s, s:s, s:i}], s:[{s:s, s:s, s:f, s:f}]}, "
		"s:[{s:{s:I, s:i, s:f, s:f}, s:i, s:i}]}",
		"name", "calibrated", "comment", comment, "topology", "nodes", "name", "s0", "kind",
		"switch", "name", "w", "kind", "worker", "count", (int)ranks, "links", "a", "w*",
		"b", "s0", "gbps", 8e-3 * framed / c->us_byte, "delay_us", c->fixed_us / 2, "jobs",
		"model", "numel", (json_int_t)(c->bytes / sizeof(float)), "layers", (int)c->period,
		"forward_ms", c->computing_us / 1e3, "backward_ms", 0.0, "workers", (int)ranks,
		"iterations", 3);
}

json_t *sim_calibrate(const char *file, char *why)
{
	json_t *events = sim_load(file, why), *made = NULL;
	struct calibration c = {.op = calloc(OPS_MAX, sizeof *c.op)};
	double *scratch = calloc(OPS_MAX, sizeof *scratch);
	const json_t *list =
		json_is_object(events) ? json_object_get(events, "traceEvents") : events;
	if (events && c.op && scratch && read_ops(&c, list)) {
		if (c.count)
			fit(&c, scratch);
		find_period(&c);
		if (c.count > 1 && measure(&c, scratch))
			made = scenario_of(&c);
		else
			snprintf(
				why, SIM_WHY_BYTES,
				"%s: expected two all-reduces of one size, at least %.0f bytes, as "
				"FANIN_TRACE writes them",
				file, BYTES_LEAST);
	}
	json_decref(events);
	free(c.op);
	free(scratch);
	return made;
}

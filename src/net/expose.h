/* SPDX-License-Identifier: Apache-2.0 */
/* expose.h - metrics in Prometheus' text format, version 0.0.4, into bounded memory.
 *
 * A family is a metric's name with its type and help; all samples of a family follow its head.
 * Values of labels that came from the network are UTF-8 without control characters: each other byte
 * becomes \xNN, and so does the backslash of such a text.  Different values stay different, and no
 * job's name breaks the text. */
#ifndef FAN_NET_EXPOSE_H
#define FAN_NET_EXPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_EXPOSE_BYTES_MAX  (16u << 20) /* of a whole text */
#define FAN_EXPOSE_LABELS_MAX 512	  /* bytes of a sample's labels */

struct fan_expose {
	char *text; /* ends in a zero; to be freed; NULL: nothing yet */
	size_t used, room;
	bool full; /* something had no room, or there was no memory: the text is not whole */
};

/* Labels of a sample: `shard="0",reason="short"`.  A label that does not fit is left out whole. */
struct fan_labels {
	char text[FAN_EXPOSE_LABELS_MAX];
	size_t used;
};

enum fan_metric_type { FAN_COUNTER, FAN_GAUGE, FAN_HISTOGRAM };

/* A row of a table of metrics: the counter is a uint64_t, `at` bytes into a struct. */
struct fan_metric {
	const char *name, *help;
	size_t at;
};

/* Start a family. */
void fan_expose_family(struct fan_expose *x, const char *name, enum fan_metric_type type,
		       const char *help);

/* A sample of the family `name`; `labels` may be NULL.  The value is written as an integer where it
 * is one. */
void fan_expose_value(struct fan_expose *x, const char *name, const struct fan_labels *labels,
		      double value);
void fan_expose_count(struct fan_expose *x, const char *name, const struct fan_labels *labels,
		      uint64_t value);

/* Append a label. */
void fan_labels_add(struct fan_labels *l, const char *name, const char *value, size_t bytes);
void fan_labels_number(struct fan_labels *l, const char *name, unsigned value);

/* A histogram's samples: `bound_s[i]` is the upper bound of count[i] in seconds, and count[bounds]
 * has the samples above all of them.  The family has begun. */
void fan_expose_histogram(struct fan_expose *x, const char *name, const struct fan_labels *labels,
			  const double *bound_s, const uint64_t *count, unsigned bounds,
			  double sum_s);

/* Write the text to `path`, a regular file or nothing so far, so that readers see the old one or
 * the new one.  0; or -1, and `why`, `bytes` bytes, names the file and what is wrong. */
int fan_expose_write(const struct fan_expose *x, const char *path, char *why, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* plot.h - curves as SVG inside a page.  Colours are the page's, by class names c0 .. c7. */
#ifndef FAN_SIM_PLOT_H
#define FAN_SIM_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#define FAN_PLOT_COLOURS   8
#define FAN_PLOT_LINES_MAX 64

struct fan_plot_line {
	const char *name;
	const double *x, *y; /* x rising; y NAN: a gap */
	unsigned points;
	bool area; /* filled down to 0 */
};

struct fan_plot {
	const char *title, *x_name, *y_name;
	const struct fan_plot_line *line;
	unsigned lines;
	bool log_x;   /* all x above 0 */
	bool marks;   /* a dot at each point: there are few */
	double y_max; /* 0: as the lines need */
};

void fan_plot_write(FILE *f, const struct fan_plot *p);

/* Text with the characters that mean something to HTML replaced. */
void fan_plot_text(FILE *f, const char *text);

/* A step for ticks on an axis of this length: 1, 2 or 5 times a power of ten, so that
 * there are at most `ticks`. */
double fan_plot_step(double length, unsigned ticks);

/* A time with its unit: "3.2 ms". */
void fan_plot_seconds(char *text, size_t bytes, double seconds);

/* A number of bytes with its unit: "3.2 GB". */
void fan_plot_bytes(char *text, size_t bytes, double number);

#endif

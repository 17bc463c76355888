/* SPDX-License-Identifier: Apache-2.0 */
#include "plot.h"

#include <math.h>
#include <string.h>

#define WIDTH  760.0
#define HEIGHT 280.0
#define LEFT   64.0
#define RIGHT  14.0
#define TOP    12.0
#define BOTTOM 42.0
#define TICKS  6

struct range {
	double low, high;
};

void fan_plot_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<': fputs("&lt;", f); break;
		case '>': fputs("&gt;", f); break;
		case '&': fputs("&amp;", f); break;
		case '"': fputs("&quot;", f); break;
		default: fputc(*text, f);
		}
	}
}

double fan_plot_step(double length, unsigned ticks)
{
	double step = 1e-12;
	static const double up[3] = {2, 2.5, 2}; /* 1, 2, 5, 10 */
	for (unsigned i = 0; length / step > ticks && i < 200; i++)
		step *= up[i % 3];
	return step;
}

void fan_plot_seconds(char *text, size_t bytes, double seconds)
{
	static const struct {
		double unit;
		const char *name;
	} units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
	unsigned u = 0;
	while (u < 3 && seconds < units[u].unit)
		u++;
	snprintf(text, bytes, "%.4g %s", seconds / units[u].unit, units[u].name);
}

void fan_plot_bytes(char *text, size_t bytes, double number)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
	unsigned u = 0;
	for (; u < 4 && number >= 1000; u++)
		number /= 1000;
	snprintf(text, bytes, "%.4g %s", number, units[u]);
}

static double place(const struct fan_plot *p, struct range r, double v)
{
	double low = r.low, high = r.high;
	if (p->log_x) {
		v = log(v);
		low = log(low);
		high = log(high);
	}
	return LEFT + (v - low) / (high - low) * (WIDTH - LEFT - RIGHT);
}

static double height(struct range r, double v)
{
	return HEIGHT - BOTTOM - (v - r.low) / (r.high - r.low) * (HEIGHT - TOP - BOTTOM);
}

static void find_ranges(const struct fan_plot *p, struct range *x, struct range *y)
{
	*x = (struct range){INFINITY, -INFINITY};
	*y = (struct range){0, p->y_max};
	for (unsigned l = 0; l < p->lines; l++) {
		for (unsigned i = 0; i < p->line[l].points; i++) {
			double v = p->line[l].x[i], h = p->line[l].y[i];
			x->low = v < x->low ? v : x->low;
			x->high = v > x->high ? v : x->high;
			if (h > y->high)
				y->high = h;
		}
	}
	if (!(x->high > x->low)) { /* one point, or none */
		double middle = isfinite(x->low) ? x->low : 1;
		*x = (struct range){middle * 0.5, middle > 0 ? middle * 1.5 : 1};
	}
	if (!(y->high > 0))
		y->high = 1;
	else if (p->y_max == 0)
		y->high *= 1.06;
}

static void y_axis(FILE *f, struct range y)
{
	double step = fan_plot_step(y.high - y.low, TICKS);
	for (unsigned i = 0; i * step <= y.high * 1.0001; i++) {
		double v = i * step, h = height(y, v);
		fprintf(f,
			"<line class=grid x1=%.1f x2=%.1f y1=%.1f y2=%.1f />"
			"<text x=%.1f y=%.1f class=tick text-anchor=end>%.4g</text>\n",
			LEFT, WIDTH - RIGHT, h, h, LEFT - 7, h + 4, v);
	}
}

static void x_tick(FILE *f, double at, double v)
{
	fprintf(f,
		"<line class=tickmark x1=%.1f x2=%.1f y1=%.1f y2=%.1f />"
		"<text x=%.1f y=%.1f class=tick text-anchor=middle>%.5g</text>\n",
		at, at, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4, at, HEIGHT - BOTTOM + 18, v);
}

static void x_axis(FILE *f, const struct fan_plot *p, struct range x)
{
	if (p->marks && p->lines) { /* few values: each is a tick, if they do not touch */
		const struct fan_plot_line *l = &p->line[0];
		double last = -INFINITY;
		for (unsigned i = 0; i < l->points; i++) {
			double at = place(p, x, l->x[i]);
			if (at - last >= 34)
				x_tick(f, last = at, l->x[i]);
		}
		return;
	}
	double step = fan_plot_step(x.high - x.low, TICKS + 2);
	double first = ceil(x.low / step);
	for (unsigned i = 0; (first + i) * step <= x.high * 1.0001; i++)
		x_tick(f, place(p, x, (first + i) * step), (first + i) * step);
}

/* Stretches between gaps, each as one path. */
static void curve(FILE *f, const struct fan_plot *p, const struct fan_plot_line *l, unsigned colour,
		  struct range x, struct range y)
{
	bool open = false;
	double first = 0, last = 0;
	fprintf(f, "<path class=\"%s c%u\" d=\"", l->area ? "area" : "line", colour);
	for (unsigned i = 0; i < l->points; i++) {
		if (isnan(l->y[i])) {
			if (open && l->area)
				fprintf(f, "L%.1f %.1fL%.1f %.1fZ", last, height(y, 0), first,
					height(y, 0));
			open = false;
			continue;
		}
		last = place(p, x, l->x[i]);
		first = open ? first : last;
		fprintf(f, "%c%.1f %.1f", open ? 'L' : 'M', last, height(y, l->y[i]));
		open = true;
	}
	if (open && l->area)
		fprintf(f, "L%.1f %.1fL%.1f %.1fZ", last, height(y, 0), first, height(y, 0));
	fputs("\" />\n", f);
}

static void dots(FILE *f, const struct fan_plot *p, const struct fan_plot_line *l, unsigned colour,
		 struct range x, struct range y)
{
	for (unsigned i = 0; i < l->points; i++) {
		if (isnan(l->y[i]))
			continue;
		fprintf(f, "<circle class=\"dot c%u\" cx=%.1f cy=%.1f r=3.5><title>", colour,
			place(p, x, l->x[i]), height(y, l->y[i]));
		fan_plot_text(f, l->name);
		fprintf(f, ": %.6g at %.6g</title></circle>\n", l->y[i], l->x[i]);
	}
}

static void legend(FILE *f, const struct fan_plot *p)
{
	fputs("<p class=legend>", f);
	for (unsigned l = 0; l < p->lines; l++) {
		fprintf(f, "<span><i class=c%u></i>", l % FAN_PLOT_COLOURS);
		fan_plot_text(f, p->line[l].name);
		fputs("</span> ", f);
	}
	fputs("</p>\n", f);
}

void fan_plot_write(FILE *f, const struct fan_plot *p)
{
	struct range x, y;
	find_ranges(p, &x, &y);
	fputs("<figure><figcaption>", f);
	fan_plot_text(f, p->title);
	fputs("</figcaption>\n", f);
	if (p->lines > 1)
		legend(f, p);
	fprintf(f, "<svg viewBox=\"0 0 %.0f %.0f\" role=img>\n", WIDTH, HEIGHT);
	y_axis(f, y);
	x_axis(f, p, x);
	for (unsigned l = 0; l < p->lines; l++)
		curve(f, p, &p->line[l], l % FAN_PLOT_COLOURS, x, y);
	for (unsigned l = 0; p->marks && l < p->lines; l++)
		dots(f, p, &p->line[l], l % FAN_PLOT_COLOURS, x, y);
	fprintf(f, "<text class=name x=%.1f y=%.1f text-anchor=end>", WIDTH - RIGHT, HEIGHT - 6);
	fan_plot_text(f, p->x_name);
	fprintf(f,
		"</text><text class=name transform=\"rotate(-90 14 %.1f)\" x=14 y=%.1f "
		"text-anchor=end>",
		TOP, TOP);
	fan_plot_text(f, p->y_name);
	fputs("</text></svg></figure>\n", f);
}

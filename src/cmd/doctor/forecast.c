/* SPDX-License-Identifier: Apache-2.0 */
#include "forecast.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/config.h"

#define STEPS	      60 /* steps of a bisection */
#define TCP_PAYLOAD   1448.0
#define TCP_FRAME     1514.0
#define JUMBO_MTU     9000
#define MBPS_NS(mbps) ((mbps)*1e-3 / 8) /* bytes per nanosecond */

struct range {
	double low, high;
};

static unsigned streams_of(const struct fan_forecast_net *n, unsigned host)
{
	return n->shares_memory ? 1 : n->ranks[host];
}

static unsigned all_streams(const struct fan_forecast_net *n)
{
	unsigned all = 0;
	for (unsigned h = 0; h < n->hosts; h++)
		all += streams_of(n, h);
	return all;
}

unsigned fan_forecast_summing(const struct fan_forecast_net *n)
{
	unsigned all = 0;
	for (unsigned h = 0; h < n->hosts; h++)
		all += n->sums[h];
	return all;
}

/* Bytes on the wire. */
static double framed(const struct fan_forecast_net *n, uint64_t bytes)
{
	return (double)bytes * (n->payload + FAN_FORECAST_HEADERS) / n->payload;
}

static double clamp(double value)
{
	return value < 0 ? 0 : value > 1 ? 1 : value;
}

/* The shares that a host can sum while its link carries `tensors`; none if low > high. */
static struct range host_range(const struct fan_forecast_net *n, unsigned host, double tensors)
{
	const double m = streams_of(n, host), others = (double)all_streams(n) - 2 * m;
	struct range r = {0, 1};
	if (!n->sums[host])
		r.high = tensors < m ? -1 : 0;
	else if (others > 0)
		r.high = tensors < m ? -1 : clamp((tensors - m) / others);
	else if (others < 0)
		r.low = tensors < m ? (m - tensors) / -others : 0;
	else if (tensors < m)
		r.high = -1;
	return r;
}

/* How many tensors, headers included, a link carries in `ns`. */
static double tensors_in(double mbps, double ns, double wire_bytes)
{
	return MBPS_NS(mbps) * ns / wire_bytes;
}

/* Can everything be summed in `ns`?  If so, stores how much each can, and must, sum. */
static bool fits(const struct fan_forecast_net *n, double ns, double wire_bytes, struct range *host,
		 double *of_switch)
{
	double most = 0;
	for (unsigned k = 0; k < n->switches; k++) {
		double tensors = tensors_in(n->switch_mbps[k], ns, wire_bytes);
		of_switch[k] = clamp(tensors / all_streams(n));
		most += of_switch[k];
	}
	for (unsigned h = 0; h < n->hosts; h++) {
		host[h] = host_range(n, h, tensors_in(n->host_mbps[h], ns, wire_bytes));
		if (host[h].low > host[h].high)
			return false;
		most += host[h].high;
	}
	return most >=
	       1; /* what must be summed is at most 1: only one host has most of the streams */
}

/* Hosts sum what they must, switches what they can, and hosts the rest. */
static void set_shares(struct fan_forecast *f, const struct fan_forecast_net *n,
		       const struct range *host, const double *of_switch)
{
	double least = 0, switches = 0, room = 0;
	for (unsigned h = 0; h < n->hosts; h++) {
		least += host[h].low;
		room += host[h].high - host[h].low;
	}
	for (unsigned k = 0; k < n->switches; k++)
		switches += of_switch[k];
	const double left = 1 - least, taken = switches < left ? switches : left;
	for (unsigned k = 0; k < n->switches; k++)
		f->switch_share[k] = switches > 0 ? of_switch[k] * taken / switches : 0;
	for (unsigned h = 0; h < n->hosts; h++)
		f->host_share[h] =
			host[h].low +
			(room > 0 ? (host[h].high - host[h].low) * (left - taken) / room : 0);
}

static double by_best_shares(struct fan_forecast *f, const struct fan_forecast_net *n,
			     double wire_bytes)
{
	struct range host[FAN_FORECAST_HOSTS_MAX];
	double of_switch[FAN_FORECAST_SWITCHES_MAX], low = 0, high = 1;
	while (!fits(n, high, wire_bytes, host, of_switch))
		high *= 2;
	for (int i = 0; i < STEPS; i++) {
		double ns = (low + high) / 2;
		if (fits(n, ns, wire_bytes, host, of_switch))
			high = ns;
		else
			low = ns;
	}
	fits(n, high, wire_bytes, host, of_switch);
	set_shares(f, n, host, of_switch);
	return high;
}

static double by_even_shares(struct fan_forecast *f, const struct fan_forecast_net *n,
			     double wire_bytes)
{
	const double all = all_streams(n);
	const double share = 1.0 / (n->switches + fan_forecast_summing(n));
	double longest = 0;
	for (unsigned k = 0; k < n->switches; k++) {
		f->switch_share[k] = share;
		longest = fmax(longest, all * share / n->switch_mbps[k]);
	}
	for (unsigned h = 0; h < n->hosts; h++) {
		const double m = streams_of(n, h);
		f->host_share[h] = n->sums[h] ? share : 0;
		longest = fmax(longest, (m + f->host_share[h] * (all - 2 * m)) / n->host_mbps[h]);
	}
	return longest * wire_bytes / MBPS_NS(1);
}

/* A stream has at most a window in flight for each round trip. */
static double by_windows(const struct fan_forecast *f, const struct fan_forecast_net *n,
			 uint64_t bytes)
{
	double most = 0;
	for (unsigned h = 0; h < n->hosts; h++)
		most = fmax(most, 1 - f->host_share[h]);
	return n->window_bytes > 0 ? most * (double)bytes * n->rtt_ns / n->window_bytes : 0;
}

static double ring_ns(const struct fan_forecast_net *n, uint64_t bytes)
{
	double ranks = 0, narrowest = FAN_FORECAST_WIDE;
	for (unsigned h = 0; h < n->hosts; h++) {
		ranks += n->ranks[h];
		narrowest = fmin(narrowest, n->host_mbps[h]);
	}
	if (n->hosts < 2)
		return 0;
	return 2 * (ranks - 1) / ranks * (double)bytes * TCP_FRAME / TCP_PAYLOAD /
		       MBPS_NS(narrowest) +
	       (ranks - 1) * n->rtt_ns;
}

/* ---- several networks ---- */

/* Number `rail` alone. */
static void take_rail(struct fan_forecast_net *one, const struct fan_forecast_net *n, unsigned rail)
{
	*one = *n;
	one->rails = one->switches = 0;
	if (rail)
		memcpy(one->host_mbps, n->rail_mbps[rail - 1], sizeof one->host_mbps);
	for (unsigned k = 0; k < n->switches; k++)
		if (n->switch_rail[k] == rail)
			one->switch_mbps[one->switches++] = n->switch_mbps[k];
}

/* Network `rail`, whose forecast is `of`, has share `share` of the tensor. */
static void add_shares(struct fan_forecast *f, const struct fan_forecast_net *n, unsigned rail,
		       const struct fan_forecast *of, double share)
{
	for (unsigned h = 0; h < n->hosts; h++)
		f->host_share[h] += share * of->host_share[h];
	for (unsigned k = 0, i = 0; k < n->switches; k++)
		if (n->switch_rail[k] == rail)
			f->switch_share[k] = share * of->switch_share[i++];
}

/* Of all networks, one of which may have nobody who sums. */
static double by_links(struct fan_forecast *f, const struct fan_forecast_net *n, double wire_bytes)
{
	struct fan_forecast of[1 + FAN_FORECAST_RAILS_MAX] = {{0}};
	double ns[1 + FAN_FORECAST_RAILS_MAX], weight[1 + FAN_FORECAST_RAILS_MAX], all = 0;
	double longest = 0;
	assert(n->rails <= FAN_FORECAST_RAILS_MAX);
	for (unsigned j = 0; j <= n->rails; j++) {
		struct fan_forecast_net one;
		take_rail(&one, n, j);
		const unsigned parts = one.switches + fan_forecast_summing(&one);
		ns[j] = weight[j] = 0;
		if (!parts)
			continue;
		ns[j] = n->even_shares ? by_even_shares(&of[j], &one, wire_bytes)
				       : by_best_shares(&of[j], &one, wire_bytes);
		weight[j] = n->even_shares ? parts : 1 / ns[j];
		all += weight[j];
	}
	for (unsigned j = 0; j <= n->rails; j++) {
		add_shares(f, n, j, &of[j], weight[j] / all);
		longest = fmax(longest, ns[j] * weight[j] / all);
	}
	return longest;
}

void fan_forecast(struct fan_forecast *f, const struct fan_forecast_net *n, uint64_t bytes)
{
	memset(f, 0, sizeof *f);
	assert(n->hosts && n->hosts <= FAN_FORECAST_HOSTS_MAX && n->payload);
	assert(n->switches <= FAN_FORECAST_SWITCHES_MAX &&
	       (n->switches || fan_forecast_summing(n)));
	f->ring_ns = ring_ns(n, bytes);
	if (n->hosts == 1 && (n->shares_memory || !n->switches))
		return;
	const double wire_bytes = framed(n, bytes);
	const double links = by_links(f, n, wire_bytes);
	const double windows = by_windows(f, n, bytes);
	f->by_window = windows > links;
	f->ns = fmax(links, windows) + n->rtt_ns;
}

/* ---- what makes it faster ---- */

static int by_rate(const void *a, const void *b)
{
	double x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x < y ? -1 : x > y;
}

double fan_forecast_usual_mbps(const struct fan_forecast_net *n)
{
	double rising[FAN_FORECAST_HOSTS_MAX];
	memcpy(rising, n->host_mbps, n->hosts * sizeof *rising);
	qsort(rising, n->hosts, sizeof *rising, by_rate);
	return rising[n->hosts / 2];
}

static unsigned narrowest(const double *mbps, unsigned count)
{
	unsigned least = 0;
	for (unsigned i = 1; i < count; i++)
		least = mbps[i] < mbps[least] ? i : least;
	return least;
}

/* Apply `g` to `n`, and complete `g`.  False: nothing changes. */
static bool change(struct fan_forecast_net *n, struct fan_gain *g)
{
	const double usual = fan_forecast_usual_mbps(n);
	const unsigned host = narrowest(n->host_mbps, n->hosts);
	switch (g->kind) {
	case FAN_GAIN_MEMORY: n->shares_memory = true; return true;
	case FAN_GAIN_HOSTS:
		for (unsigned h = 0; h < n->hosts; h++)
			n->sums[h] = true;
		return n->hosts > 1;
	case FAN_GAIN_SHARES: n->even_shares = false; return true;
	case FAN_GAIN_WINDOW: n->window_bytes = 0; return true;
	case FAN_GAIN_FRAMES:
		n->payload = fan_config_payload_bytes(JUMBO_MTU, (int)all_streams(n));
		return true;
	case FAN_GAIN_NARROW_LINK:
		*g = (struct fan_gain){g->kind, host, n->host_mbps[host], 0};
		n->host_mbps[host] = usual;
		return g->mbps < FAN_FORECAST_NARROW * usual;
	case FAN_GAIN_HOST_LINKS:
		g->mbps = 2 * n->host_mbps[host];
		for (unsigned h = 0; h < n->hosts; h++) {
			n->host_mbps[h] *= 2;
			for (unsigned j = 0; j < n->rails; j++)
				n->rail_mbps[j][h] *= 2;
		}
		return true;
	case FAN_GAIN_SWITCH_LINK:
		if (!n->switches)
			return false;
		g->index = narrowest(n->switch_mbps, n->switches);
		g->mbps = n->switch_mbps[g->index] *= 2;
		return true;
	case FAN_GAIN_SPARE:
		if (n->switches == FAN_FORECAST_SWITCHES_MAX)
			return false;
		n->switch_rail[n->switches] = 0;
		g->mbps = n->switch_mbps[n->switches++] = usual;
		return true;
	case FAN_GAIN_BOX:
		g->mbps = usual;
		n->switches = 1 + n->rails;
		for (unsigned k = 0; k < n->switches; k++) {
			n->switch_mbps[k] = FAN_FORECAST_WIDE;
			n->switch_rail[k] = (uint8_t)k;
		}
		return true;
	case FAN_GAIN_KINDS: break;
	}
	return false;
}

static int by_time(const void *a, const void *b)
{
	struct fan_gain x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x.ns != y.ns ? (x.ns < y.ns ? -1 : 1) : (int)x.kind - (int)y.kind;
}

unsigned fan_forecast_gains(struct fan_gain gain[FAN_GAIN_KINDS], const struct fan_forecast *f,
			    const struct fan_forecast_net *n, uint64_t bytes)
{
	unsigned count = 0;
	for (int kind = 0; kind < FAN_GAIN_KINDS && f->ns > 0; kind++) {
		struct fan_forecast_net changed = *n;
		struct fan_forecast then;
		struct fan_gain g = {.kind = (enum fan_gain_kind)kind};
		if (!change(&changed, &g))
			continue;
		fan_forecast(&then, &changed, bytes);
		g.ns = then.ns;
		if (g.ns * FAN_FORECAST_GAIN <= f->ns)
			gain[count++] = g;
	}
	qsort(gain, count, sizeof *gain, by_time);
	return count;
}

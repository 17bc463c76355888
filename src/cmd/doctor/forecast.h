/* SPDX-License-Identifier: Apache-2.0 */
/* forecast.h - how long an all-reduce takes, by the links that it crosses.
 *
 * The busiest link decides.  A stream sends a tensor to the network: it is a rank, or a host whose
 * ranks share memory.  Of n streams, a switch that sums a share f of a tensor of S bytes gets n f
 * S, and sends as much.  A host with m streams that sums a share g sends m (1 - g) S to others, and
 * (n - m) g S as results; it gets as much.  A ring over N ranks, neighbours on one host, sends 2 (N
 * - 1) / N S over each host's link.
 *
 * Where all hosts have further networks (net/rails.h), each carries a share of the tensor, so that
 * all are done at the same time, or with even shares one for each part.
 *
 * Pure: rates, round trips and windows are the caller's, and nothing is measured here. */
#ifndef FAN_CMD_DOCTOR_FORECAST_H
#define FAN_CMD_DOCTOR_FORECAST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"

#define FAN_FORECAST_HOSTS_MAX	  FAN_SHARDS_MAX /* as hosts that have aggregators */
#define FAN_FORECAST_SWITCHES_MAX FAN_SHARDS_MAX
#define FAN_FORECAST_RAILS_MAX	  3
#define FAN_FORECAST_GAIN	  1.02 /* least gain that is reported */
#define FAN_FORECAST_NARROW	  0.9  /* of the usual rate: below, a link is narrow */
#define FAN_FORECAST_WIDE	  1e9  /* Mb/s: a link that never decides */
#define FAN_FORECAST_HEADERS	  (FAN_HEAD_BYTES + 8 + 20 + 14) /* of a frame: UDP, IPv4, Ethernet */

struct fan_forecast_net {
	unsigned hosts, switches;
	unsigned ranks[FAN_FORECAST_HOSTS_MAX]; /* of each host, at least 1 */
	/* rate of its link in the narrower direction, with all headers, above 0 */
	double host_mbps[FAN_FORECAST_HOSTS_MAX];
	double switch_mbps[FAN_FORECAST_SWITCHES_MAX];
	unsigned rails; /* further networks of all hosts */
	double rail_mbps[FAN_FORECAST_RAILS_MAX][FAN_FORECAST_HOSTS_MAX]; /* as host_mbps, there */
	uint8_t switch_rail[FAN_FORECAST_SWITCHES_MAX]; /* its network; 0: the first one */
	bool sums[FAN_FORECAST_HOSTS_MAX];		/* it has an aggregator, for a share */
	bool shares_memory;				/* the ranks of a host send one stream */
	bool even_shares;				/* shares do not follow the network */
	unsigned payload;				/* bytes of a tensor in a full frame */
	double rtt_ns;					/* while the network is idle */
	double window_bytes; /* of tensors, that a stream may have in flight; 0: not known */
};

struct fan_forecast {
	double ns;	/* 0: no link is crossed */
	double ring_ns; /* of a ring over all ranks */
	bool by_window; /* windows decide, not links */
	double host_share[FAN_FORECAST_HOSTS_MAX], switch_share[FAN_FORECAST_SWITCHES_MAX];
};

/* How many hosts sum. */
unsigned fan_forecast_summing(const struct fan_forecast_net *n);

/* An all-reduce of `bytes` bytes.  There must be a switch, or a host that sums. */
void fan_forecast(struct fan_forecast *f, const struct fan_forecast_net *n, uint64_t bytes);

enum fan_gain_kind {
	FAN_GAIN_MEMORY,      /* the ranks of a host share memory */
	FAN_GAIN_HOSTS,	      /* hosts sum with the switches */
	FAN_GAIN_SHARES,      /* shares follow the network */
	FAN_GAIN_WINDOW,      /* windows as large as the links need */
	FAN_GAIN_FRAMES,      /* jumbo frames */
	FAN_GAIN_NARROW_LINK, /* of host `index`: as wide as the others' */
	FAN_GAIN_HOST_LINKS,  /* twice as wide */
	FAN_GAIN_SWITCH_LINK, /* of switch `index`: twice as wide */
	FAN_GAIN_SPARE,	      /* one more spare machine */
	FAN_GAIN_BOX,	      /* a switch with a link for each host */
	FAN_GAIN_KINDS
};

/* A change that makes it faster. */
struct fan_gain {
	enum fan_gain_kind kind;
	unsigned index;
	double mbps; /* of the link in question */
	double ns;
};

/* Fill in each kind that shortens `f`, the forecast of `n`, by FAN_FORECAST_GAIN or more, the
 * largest gain first.  Returns how many. */
unsigned fan_forecast_gains(struct fan_gain gain[FAN_GAIN_KINDS], const struct fan_forecast *f,
			    const struct fan_forecast_net *n, uint64_t bytes);

/* The rate that half of the hosts' links reach. */
double fan_forecast_usual_mbps(const struct fan_forecast_net *n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Forecasts: times in tensors over one link, as the table in doc/deploy.md has them. */
#include "unit/unit.h"

#include <math.h>
#include <string.h>

#include "cmd/doctor/forecast.h"

#define MBPS	200.0
#define PAYLOAD 1408
#define BYTES	(8u << 20)

static struct fan_forecast_net net(unsigned hosts, unsigned ranks, unsigned switches)
{
	struct fan_forecast_net n = {
		.hosts = hosts,
		.switches = switches,
		.shares_memory = true,
		.payload = PAYLOAD,
	};
	for (unsigned h = 0; h < hosts; h++) {
		n.ranks[h] = ranks;
		n.sums[h] = true;
		n.host_mbps[h] = MBPS;
	}
	for (unsigned k = 0; k < switches; k++)
		n.switch_mbps[k] = MBPS;
	return n;
}

static void hosts_sum(struct fan_forecast_net *n, bool sum)
{
	for (unsigned h = 0; h < n->hosts; h++)
		n->sums[h] = sum;
}

/* In tensors over a link of MBPS. */
static double tensors(const struct fan_forecast_net *n)
{
	struct fan_forecast f;
	double sum = 0;
	fan_forecast(&f, n, BYTES);
	for (unsigned h = 0; h < n->hosts; h++)
		sum += f.host_share[h];
	for (unsigned k = 0; k < n->switches; k++)
		sum += f.switch_share[k];
	if (f.ns > 0)
		assert_true(fabs(sum - 1) < 1e-6);
	return f.ns / ((double)BYTES * (PAYLOAD + 78) / PAYLOAD * 8e3 / MBPS);
}

static double ring(const struct fan_forecast_net *n)
{
	struct fan_forecast f;
	fan_forecast(&f, n, BYTES);
	return f.ring_ns / ((double)BYTES * 1514 / 1448 * 8e3 / MBPS);
}

static void is(double got, double expected)
{
	if (fabs(got - expected) > 1e-6 * expected)
		fail_msg("%f, expected %f", got, expected);
}

TEST(forecast__each_host_sums_a_part)
{
	for (unsigned hosts = 2; hosts <= 64; hosts *= 2)
		for (unsigned ranks = 1; ranks <= 8; ranks *= 2) {
			struct fan_forecast_net n = net(hosts, ranks, 0);
			const double all = hosts * ranks;
			is(tensors(&n), 2.0 * (hosts - 1) / hosts);
			is(ring(&n), 2 * (all - 1) / all);
		}
}

TEST(forecast__spare_machines_and_hosts_share)
{
	for (unsigned n = 3; n <= 16; n++)
		for (unsigned k = 1; k <= n; k++) {
			struct fan_forecast_net some = net(n, 1, k);
			is(tensors(&some), 2.0 * n * (n - 1) / (n * n + k * n - 2.0 * k));
		}
	struct fan_forecast_net one = net(4, 1, 1);
	struct fan_forecast f;
	fan_forecast(&f, &one, BYTES);
	is(f.switch_share[0], 1.0 / 3);
	is(f.host_share[3], 1.0 / 6);
}

TEST(forecast__switches_alone)
{
	struct fan_forecast_net n = net(4, 1, 1);
	hosts_sum(&n, false);
	is(tensors(&n), 4);
	n = net(4, 1, 4);
	hosts_sum(&n, false);
	is(tensors(&n), 1);
	n = net(8, 1, 1);
	hosts_sum(&n, false);
	n.switch_mbps[0] = 8 * MBPS;
	is(tensors(&n), 1);
}

TEST(forecast__each_rank_for_itself_sends_a_stream)
{
	struct fan_forecast_net n = net(4, 4, 1);
	n.shares_memory = false;
	hosts_sum(&n, false);
	n.switch_mbps[0] = 4 * MBPS;
	is(tensors(&n), 4);
	n.switch_mbps[0] = MBPS;
	is(tensors(&n), 16);
	hosts_sum(&n, true); /* 16 f = 4 + 8 g, f + 4 g = 1 */
	is(tensors(&n), 16.0 / 3);
	n = net(1, 4, 1); /* nobody else */
	n.shares_memory = false;
	hosts_sum(&n, false);
	is(tensors(&n), 4);
	n = net(2, 1, 1); /* most of the streams are of host 0 */
	n.ranks[0] = 5;
	n.shares_memory = false;
	hosts_sum(&n, false);
	is(tensors(&n), 6);
}

/* It sums little itself: 5 (1 - g) + g of its link, 1 + 4 (1 - g) of the other's. */
TEST(forecast__host_with_most_of_the_streams_sums_more)
{
	struct fan_forecast_net n = net(2, 1, 0);
	struct fan_forecast f;
	n.ranks[0] = 5;
	n.shares_memory = false;
	is(tensors(&n), 1);
	fan_forecast(&f, &n, BYTES);
	is(f.host_share[0], 1);
}

TEST(forecast__host_without_an_aggregator_sums_nothing)
{
	struct fan_forecast_net n = net(4, 1, 0);
	struct fan_forecast f;
	n.sums[2] = false;
	is(tensors(&n), 1 + 2.0 / 3);
	fan_forecast(&f, &n, BYTES);
	is(f.host_share[2] + 1, 1);
	n.even_shares = true;
	is(tensors(&n), 1 + 2.0 / 3);
}

TEST(forecast__narrow_link_decides)
{
	struct fan_forecast_net n = net(4, 1, 0);
	struct fan_forecast f;
	n.host_mbps[3] = MBPS / 4;
	is(tensors(&n), 4); /* it sends its tensor, and sums nothing */
	fan_forecast(&f, &n, BYTES);
	assert_true(f.host_share[3] < 1e-6);
	is(ring(&n), 4 * 1.5);
	n = net(4, 1, 4);
	n.switch_mbps[2] = MBPS / 4; /* t = 1 + 2 g, 3 t / 4 + t / 16 + 4 g = 1 */
	is(tensors(&n), 3 / (3.25 / 4 + 2));
}

TEST(forecast__even_shares_wait_for_the_slowest)
{
	struct fan_forecast_net n = net(4, 1, 1);
	n.even_shares = true;
	is(tensors(&n), 1.4);
	n.host_mbps[1] = MBPS / 2;
	is(tensors(&n), 2.8);
}

/* The gain of this kind, or fail. */
static struct fan_gain gain_of(const struct fan_forecast_net *n, enum fan_gain_kind kind, double *x)
{
	struct fan_gain gain[FAN_GAIN_KINDS];
	struct fan_forecast f;
	fan_forecast(&f, n, BYTES);
	unsigned count = fan_forecast_gains(gain, &f, n, BYTES);
	*x = 0;
	for (unsigned i = 0; i < count; i++) {
		assert_true(!i || gain[i].ns >= gain[i - 1].ns);
		assert_true(f.ns >= FAN_FORECAST_GAIN * gain[i].ns);
		if (gain[i].kind == kind) {
			*x = f.ns / gain[i].ns;
			return gain[i];
		}
	}
	return (struct fan_gain){0};
}

static void add_rail(struct fan_forecast_net *n, double mbps)
{
	for (unsigned h = 0; h < n->hosts; h++)
		n->rail_mbps[n->rails][h] = mbps;
	n->rails++;
}

TEST(forecast__rails_carry_shares)
{
	struct fan_forecast_net n = net(4, 1, 0);
	double x;
	add_rail(&n, MBPS);
	is(tensors(&n), 0.75);
	is(ring(&n), 1.5); /* by the first one */
	add_rail(&n, MBPS / 2);
	is(tensors(&n), 0.6);
	n.even_shares = true;
	is(tensors(&n), 1); /* a third by the slow one */
	n = net(4, 1, 1);
	n.switch_mbps[0] = FAN_FORECAST_WIDE;
	add_rail(&n, MBPS); /* in which it has no port */
	is(tensors(&n), 0.6);
	gain_of(&n, FAN_GAIN_BOX, &x);
	is(x, 0.6 / 0.5);
	hosts_sum(&n, false);
	is(tensors(&n), 1);
	n = net(4, 1, 2);
	n.switch_mbps[0] = n.switch_mbps[1] = FAN_FORECAST_WIDE;
	n.switch_rail[1] = 1;
	add_rail(&n, MBPS);
	is(tensors(&n), 0.5);
	n.switch_mbps[1] = MBPS; /* 1 + 1 / (4 / 3) */
	is(tensors(&n), 1 / 1.75);
}

TEST(forecast__one_host_has_no_link)
{
	struct fan_forecast_net n = net(1, 8, 0);
	struct fan_forecast f;
	struct fan_gain gain[FAN_GAIN_KINDS];
	fan_forecast(&f, &n, BYTES);
	assert_true(f.ns <= 0 && f.ring_ns <= 0);
	assert_int_equal(fan_forecast_gains(gain, &f, &n, BYTES), 0);
}

TEST(forecast__round_trips_count)
{
	struct fan_forecast_net n = net(4, 1, 0);
	struct fan_forecast idle, far;
	fan_forecast(&idle, &n, 1024);
	n.rtt_ns = 1e6;
	fan_forecast(&far, &n, 1024);
	is(far.ns - idle.ns, 1e6);
	is(far.ring_ns - idle.ring_ns, 3e6);
	assert_false(far.by_window);
	n.window_bytes = 1024 * 0.25; /* 3 / 4 of it leave each host */
	fan_forecast(&far, &n, 1024);
	assert_true(far.by_window);
	is(far.ns, 4e6);
}

TEST(forecast__gains)
{
	struct fan_forecast_net n = net(4, 1, 1);
	double x;
	is(gain_of(&n, FAN_GAIN_SPARE, &x).mbps, MBPS);
	is(x, 4.0 / 3 / (24.0 / (16 + 8 - 4)));
	gain_of(&n, FAN_GAIN_BOX, &x);
	is(x, 4.0 / 3);
	gain_of(&n, FAN_GAIN_FRAMES, &x);
	assert_true(x > 1.03 && x < 1.06);
	gain_of(&n, FAN_GAIN_NARROW_LINK, &x);
	is(x + 1, 1); /* none is narrower than others */
	gain_of(&n, FAN_GAIN_MEMORY, &x);
	is(x + 1, 1);
	n.host_mbps[2] = MBPS / 2;
	assert_int_equal(gain_of(&n, FAN_GAIN_NARROW_LINK, &x).index, 2);
	assert_true(x > 1.2);
	n = net(4, 4, 1);
	n.shares_memory = false;
	gain_of(&n, FAN_GAIN_MEMORY, &x);
	is(x, 4);
	n = net(8, 1, 1);
	hosts_sum(&n, false);
	gain_of(&n, FAN_GAIN_HOSTS, &x);
	is(x, 8 / 1.6);
	n.switch_mbps[0] = 8 * MBPS;
	gain_of(&n, FAN_GAIN_SPARE, &x);
	is(x + 1, 1); /* the box has a link for each host */
}

UNIT_MAIN

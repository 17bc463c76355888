/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment.h"

#define PS_PER_NS UINT64_C(1000)
#define MILLION	  UINT64_C(1000000)

static uint64_t deadline(void *self)
{
	const struct fan_traffic *t = self;
	uint64_t at_ns = t->next_ps / PS_PER_NS;
	return at_ns < t->stop_ns ? at_ns : FAN_SIM_NEVER;
}

/* Send one packet; the next one follows after a gap that varies by the jitter. */
static void tick(void *self)
{
	struct fan_traffic *t = self;
	const struct fan_sim_packet p = {.from = t->source, .to = t->sink, .len = t->packet_bytes};
	fan_sim_send(t->sim, &p, false);
	t->sent++;
	uint64_t spread_ps = (uint64_t)((unsigned __int128)t->gap_ps * t->jitter / MILLION);
	t->next_ps += t->gap_ps - spread_ps + fan_rng_below(&t->rng, 2 * spread_ps + 1);
}

static void sink_recv(void *self, const struct fan_sim_packet *p)
{
	struct fan_traffic *t = self;
	(void)p;
	t->arrived++;
}

static void no_tick(void *self)
{
	(void)self;
}

static uint64_t never(void *self)
{
	(void)self;
	return FAN_SIM_NEVER;
}

static const struct fan_actor_ops source_ops = {fan_sim_hear_nothing, tick, deadline};
static const struct fan_actor_ops sink_ops = {sink_recv, no_tick, never};

bool fan_traffic_init(struct fan_traffic *t, struct fan_sim *s, const struct fan_scenario_flow *c,
		      struct fan_rng rng)
{
	*t = (struct fan_traffic){.sim = s,
				  .gap_ps = c->packet_bytes * UINT64_C(8000000000000) / c->bps,
				  .stop_ns = c->stop_ns,
				  .jitter = c->jitter,
				  .packet_bytes = c->packet_bytes,
				  .rng = rng};
	if (t->gap_ps < PS_PER_NS)
		t->gap_ps = PS_PER_NS; /* one packet per nanosecond is beyond any link */
	t->next_ps = c->start_ns * PS_PER_NS;
	t->source = fan_sim_add_actor(s, c->from, t, &source_ops);
	t->sink = fan_sim_add_actor(s, c->to, t, &sink_ops);
	if (t->source == FAN_SIM_NONE || t->sink == FAN_SIM_NONE)
		return false;
	fan_sim_wake(s, t->source);
	return true;
}

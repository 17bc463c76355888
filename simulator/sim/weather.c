/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "experiment.h"

#define MILLION 1000000u

bool fan_weather_init(struct fan_weather *w, struct fan_sim *s, uint32_t jobs)
{
	*w = (struct fan_weather){.sim = s, .actor = FAN_SIM_NONE};
	w->job = calloc(jobs + UINT32_C(1), sizeof(struct fan_job_config *));
	w->speed = calloc(s->nodes + UINT32_C(1), sizeof *w->speed);
	w->bps = calloc(s->links + UINT32_C(1), sizeof *w->bps);
	if (!w->job || !w->speed || !w->bps)
		return false;
	for (uint32_t n = 0; n < s->nodes; n++)
		w->speed[n] = MILLION;
	for (uint32_t i = 0; i < s->links; i++)
		w->bps[i] = s->link[i].cfg.bps;
	return true;
}

void fan_weather_free(struct fan_weather *w)
{
	free(w->job);
	free(w->speed);
	free(w->bps);
}

void fan_weather_add(struct fan_weather *w, const struct fan_job_config *c)
{
	bool sends = false;
	for (uint32_t i = 0; i < c->slows; i++)
		sends |= c->slow[i].sends;
	if (sends)
		w->job[w->jobs++] = c;
}

void fan_weather_set_rate(struct fan_weather *w, uint32_t link, uint64_t bps)
{
	assert(link < w->sim->links);
	uint32_t speed = w->speed[w->sim->link[link].from];
	w->bps[link] = bps;
	bps = (uint64_t)((unsigned __int128)bps * speed / MILLION);
	fan_sim_set_rate(w->sim, link, bps ? bps : 1);
}

/* The speed at which each host sends now; sets w->next_ns, until when it holds. */
static void look(struct fan_weather *w, uint32_t *speed)
{
	w->next_ns = FAN_SIM_NEVER;
	for (uint32_t i = 0; i < w->jobs; i++) {
		const struct fan_job_config *c = w->job[i];
		for (uint32_t r = 0; r < c->ranks; r++) {
			uint64_t until_ns;
			uint32_t mine = fan_job_sending(c, (uint16_t)r, w->sim->now_ns, &until_ns);
			uint32_t *host = &speed[c->host[r]];
			*host = mine < *host ? mine : *host;
			w->next_ns = until_ns < w->next_ns ? until_ns : w->next_ns;
		}
	}
}

static void tick(void *self)
{
	struct fan_weather *w = self;
	struct fan_sim *s = w->sim;
	uint32_t *speed = calloc(s->nodes + UINT32_C(1), sizeof *speed);
	if (!speed) {
		s->broke = true;
		w->next_ns = FAN_SIM_NEVER;
		return;
	}
	for (uint32_t n = 0; n < s->nodes; n++)
		speed[n] = MILLION;
	look(w, speed);
	uint32_t *before = w->speed;
	w->speed = speed;
	for (uint32_t i = 0; i < s->links; i++)
		if (speed[s->link[i].from] != before[s->link[i].from])
			fan_weather_set_rate(w, i, w->bps[i]);
	free(before);
}

static uint64_t deadline(void *self)
{
	return ((const struct fan_weather *)self)->next_ns;
}

static const struct fan_actor_ops ops = {fan_sim_hear_nothing, tick, deadline};

bool fan_weather_begin(struct fan_weather *w)
{
	if (!w->jobs)
		return true;
	w->actor = fan_sim_add_actor(w->sim, 0, w, &ops);
	if (w->actor == FAN_SIM_NONE)
		return false;
	fan_sim_wake(w->sim, w->actor);
	return true;
}

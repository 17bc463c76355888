/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - load by others on links, switches and servers.
 *
 * People or their monitoring report it with `load`, and the ends of links measure it; plans use
 * what is left.  When it changes, better paths are sought for running jobs, at most once in
 * FAN_CTL_LOOK_MS.
 *
 * Of measured load, a rise counts after a short time, a fall after a longer one, which doubles with
 * each recent rise.  Otherwise jobs would move in vain each time that others start or stop; and
 * traffic that yields to a job is still there when the job moves away. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ctl_priv.h"

#define LEFT_MIN                                                                                   \
	0.01 /* share of a rate that plans can always use, since what is busy has not failed */

static int wrong(struct fan_why *why)
{
	return fan_why_set(why, FAN_E_CONFIG,
			   "expected {\"link\":[A,B],\"gbps\":N} or {\"node\":A,\"gbps\":N}");
}

/* Let the next plan search all paths.  A plan in progress is still used, above all after a failure:
 * measured load changes too often to start again each time. */
static void look(struct fan_ctl *c, double gbps, const char *what)
{
	uint64_t in_ms = c->look_ns > c->now_ns ? (c->look_ns - c->now_ns) / CTL_MS + 1 : 0;

	if (c->wanted == CTL_MEND)
		c->wanted = CTL_LOOK;
	ctl_note(c, "load on %s: %.4g Gb/s", what, gbps);
	c->loaded = c->phase == CTL_DRAFTING;
	if (!c->loaded)
		ctl_plan_in(c, (uint32_t)in_ms, "load on %s is %.4g Gb/s", what, gbps);
}

static void set(struct fan_ctl *c, double *load, double gbps, const char *what)
{
	if (fabs(*load - gbps) <= 0)
		return;
	*load = gbps;
	look(c, gbps, what);
}

/* Check that there is a rate, and that the load is less than it. */
static int check(double gbps, double rate, const char *what, struct fan_why *why)
{
	if (!(rate > 0))
		return fan_why_set(why, FAN_E_CONFIG, "%s: has no rate of its own", what);
	if (!(gbps >= 0 && gbps < rate))
		return fan_why_set(why, FAN_E_CONFIG,
				   "%s: gbps: expected 0 or more, and less than the %g that are "
				   "left of it, got %g; what is not to be used at all has failed",
				   what, rate, gbps);
	return FAN_OK;
}

static int set_link(struct fan_ctl *c, const json_t *ends, double gbps, struct fan_why *why)
{
	const char *a = json_string_value(json_array_get(ends, 0));
	const char *b = json_string_value(json_array_get(ends, 1));
	char what[2 * FAN_TOPO_NAME_MAX + 16];

	if (!a || !b || json_array_size(ends) != 2)
		return wrong(why);
	uint32_t link = ctl_link_between(c, a, b);
	if (link == CTL_NONE)
		return fan_why_set(why, FAN_E_CONFIG, "no link \"%.63s\" to \"%.63s\" in %s", a, b,
				   c->o.file);
	snprintf(what, sizeof what, "link %s-%s", a, b);
	int err = check(gbps, c->link[link].gbps, what, why);
	if (!err)
		set(c, &c->link[link].load_gbps, gbps, what);
	return err;
}

static int set_node(struct fan_ctl *c, const char *name, double gbps, struct fan_why *why)
{
	uint32_t node = ctl_node_named(c, name);

	if (node == CTL_NONE)
		return fan_why_set(why, FAN_E_CONFIG, "no node \"%.63s\" in %s", name, c->o.file);
	int err = check(gbps, c->node[node].gbps, name, why);
	if (!err)
		set(c, &c->node[node].load_gbps, gbps, name);
	return err;
}

int ctl_load_set(struct fan_ctl *c, const json_t *load, struct fan_why *why)
{
	const json_t *link = json_object_get(load, "link"), *gbps = json_object_get(load, "gbps");
	const char *node = json_string_value(json_object_get(load, "node"));

	if (!json_is_number(gbps) || !link == !node)
		return wrong(why);
	return link ? set_link(c, link, json_number_value(gbps), why)
		    : set_node(c, node, json_number_value(gbps), why);
}

json_t *ctl_load_json(const struct fan_ctl *c)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < c->links; i++) {
		const struct ctl_link *l = &c->link[i];
		if (l->load_gbps > 0)
			json_array_append_new(
				list, json_pack("{s[ss] sf}", "link", c->node[l->end[0]].name,
						c->node[l->end[1]].name, "gbps", l->load_gbps));
	}
	for (uint32_t i = 0; i < c->nodes; i++)
		if (c->node[i].load_gbps > 0)
			json_array_append_new(list, json_pack("{ss sf}", "node", c->node[i].name,
							      "gbps", c->node[i].load_gbps));
	return list;
}

json_t *ctl_load_on(json_t *said, double load_gbps)
{
	double gbps = json_number_value(json_object_get(said, "gbps"));
	double used = json_number_value(json_object_get(said, "background_gbps")) + load_gbps;

	if (!(load_gbps > 0))
		return json_incref(said);
	json_t *copy = json_copy(said);
	json_object_set_new(copy, "background_gbps", json_real(fmin(used, gbps * (1 - LEFT_MIN))));
	return copy;
}

/* ---- measured load ---- */

double ctl_load_measured(const struct ctl_link *l)
{
	const double known = l->others.whole_gbps - l->gbps;

	return fmax(l->others.share * l->others.whole_gbps - known, 0);
}

double ctl_load_of(const struct ctl_link *l)
{
	return fmax(l->load_gbps, ctl_load_measured(l));
}

/* Is no other daemon or worker on its host?  What that receives would count as load. */
static bool is_alone(const struct fan_ctl *c, uint32_t node)
{
	const uint32_t conn = c->node[node].conn;

	for (uint32_t i = 0; i < FAN_CTL_CONNS_MAX && c->o.is_beside; i++)
		if (i != conn && fan_ctl_is_named(c, i) && c->o.is_beside(c->o.ctx, conn, i))
			return false;
	return true;
}

void ctl_load_health(struct fan_ctl *c, uint32_t node, const json_t *health)
{
	assert(node < c->nodes);
	const json_t *others = json_object_get(health, "others");

	if (!json_object_size(others) || !is_alone(c, node))
		return;
	for (uint32_t i = 0; i < c->links; i++) {
		struct ctl_link *l = &c->link[i];
		const unsigned end = ctl_link_end(l, node);
		if (l->state == CTL_LINK_UNWATCHED || end > 1)
			continue;
		const json_t *gbps = json_object_get(others, c->node[l->end[!end]].name);
		if (!json_is_number(gbps))
			continue;
		const double share = json_number_value(gbps) / l->others.whole_gbps;
		l->others.said[end].share = fmin(fmax(share, 0), FAN_CTL_OTHERS_MOST);
		l->others.said[end].heard_ns = c->now_ns;
	}
}

/* The larger of the shares that the ends have reported recently; 0 if neither has. */
static double share_said(const struct fan_ctl *c, const struct ctl_others *o)
{
	double share = 0;

	for (unsigned i = 0; i < 2; i++)
		if (o->said[i].heard_ns &&
		    c->now_ns - o->said[i].heard_ns < FAN_CTL_OTHERS_OLD_MS * CTL_MS)
			share = fmax(share, o->said[i].share);
	return share;
}

/* Keep in `*since_ns` the time since when `so` holds; 0: it does not. */
static void time_it(const struct fan_ctl *c, bool so, uint64_t *since_ns)
{
	*since_ns = !so ? 0 : *since_ns ? *since_ns : c->now_ns;
}

static bool lasts(const struct fan_ctl *c, uint64_t since_ns, uint64_t ms)
{
	return since_ns && c->now_ns - since_ns >= ms * CTL_MS;
}

/* Let the reported share count if it has lasted long enough. */
static bool judge(const struct fan_ctl *c, struct ctl_others *o)
{
	const double said = share_said(c, o);
	uint64_t fall_ms = FAN_CTL_OTHERS_FALL_MS;

	for (uint32_t i = 1; i < o->rises && i <= FAN_CTL_OTHERS_DOUBLINGS; i++)
		fall_ms *= 2;
	if (o->rises && !o->less_ns && c->now_ns - o->rose_ns >= FAN_CTL_CALM_MS * CTL_MS)
		o->rises = 0;
	time_it(c, said >= o->share + FAN_CTL_OTHERS_STEP, &o->more_ns);
	time_it(c, said <= o->share - FAN_CTL_OTHERS_STEP, &o->less_ns);
	const bool rises = lasts(c, o->more_ns, FAN_CTL_OTHERS_RISE_MS);
	if (!rises && !lasts(c, o->less_ns, fall_ms))
		return false;
	if (rises) { /* a mean that grows over several reports counts as one rise */
		o->rises += !o->rose && o->rises < UINT32_MAX;
		o->rose_ns = c->now_ns;
	}
	o->rose = rises;
	o->share = said < FAN_CTL_OTHERS_STEP ? 0 : said;
	o->more_ns = o->less_ns = 0;
	return true;
}

void ctl_load_tick(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->links; i++) {
		struct ctl_link *l = &c->link[i];
		char what[2 * FAN_TOPO_NAME_MAX + 32];
		if (l->state == CTL_LINK_UNWATCHED || !judge(c, &l->others))
			continue;
		snprintf(what, sizeof what, "link %s-%s, as measured", c->node[l->end[0]].name,
			 c->node[l->end[1]].name);
		look(c, ctl_load_measured(l), what);
	}
}

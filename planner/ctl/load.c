/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - what others use of links, of what switches can sum and of what servers take in.
 *
 * People, or what watches the network for them, say it; plans are made on what is left.  Ways of
 * running jobs are looked at again when it changes, though not at once each time. */
#include <math.h>
#include <string.h>

#include "ctl_priv.h"

#define LEFT_MIN                                                                                   \
	0.01 /* of a rate: less is never planned to be left, since what is busy is not gone */

static int wrong(struct fan_why *why)
{
	return fan_why_set(why, FAN_E_CONFIG,
			   "expected {\"link\":[A,B],\"gbps\":N} or {\"node\":A,\"gbps\":N}");
}

/* Set `*load`; the next plan looks at all paths, if it is another. */
static void set(struct fan_ctl *c, double *load, double gbps, const char *what)
{
	bool same = fabs(*load - gbps) <= 0;
	uint64_t in_ms = c->look_ns > c->now_ns ? (c->look_ns - c->now_ns) / CTL_MS + 1 : 0;

	if (same)
		return;
	*load = gbps;
	if (c->wanted == CTL_MEND)
		c->wanted = CTL_LOOK;
	ctl_note(c, "load on %s: %.4g Gb/s", what, gbps);
	ctl_plan_in(c, (uint32_t)in_ms, "load on %s is %.4g Gb/s", what, gbps);
}

/* There is a rate of which it is a part. */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - the state that a controller saves for the next one to go on from.
 *
 *     {"last": NUMBER, "jobs": [{"name", "life", "bound", "routes": [NUMBER],
 *                                "trees", "assignments"}],
 *      "loads": [...], "drained": [NODE]}
 *
 * Trees and assignments are the job's part of a plan (plan/report.h); routes are the route numbers
 * of its parts.  What is installed under them follows from the plan: switches that have it accept
 * it again; one that has something else refuses it, and the part gets a new number. */
#include <stdio.h>
#include <string.h>

#include "ctl_priv.h"

static json_t *job_json(const struct ctl_job *j)
{
	json_t *routes = json_array();

	for (uint32_t i = 0; i < j->parts; i++)
		json_array_append_new(routes, json_integer(j->part[i].route->number));
	return json_pack("{ss si sb so sO sO}", "name", j->name, "life", (int)j->life, "bound",
			 j->state != CTL_JOB_FREE, "routes", routes, "trees", j->trees,
			 "assignments", j->assignments);
}

json_t *fan_ctl_state(const struct fan_ctl *c)
{
	json_t *jobs = json_array();

	for (uint32_t i = 0; i < c->jobs; i++)
		if (c->job[i].said && c->job[i].parts && c->job[i].trees)
			json_array_append_new(jobs, job_json(&c->job[i]));
	return json_pack("{si so so so}", "last", (int)c->last_number, "jobs", jobs, "loads",
			 ctl_load_json(c), "drained", ctl_drain_json(c));
}

static bool read_numbers(struct ctl_job *j, const json_t *routes)
{
	size_t count = json_array_size(routes);

	if (count < 1 || count > FAN_PARTS_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		json_int_t number = json_integer_value(json_array_get(routes, i));
		if (number < 1 || number > UINT16_MAX)
			return false;
		j->restore[i] = (uint16_t)number;
	}
	j->restores = (uint32_t)count;
	return true;
}

/* Restore a job.  Its ranks have FAN_CTL_ABSENT_MS to reconnect. */
static void restore(struct fan_ctl *c, struct ctl_job *j, const json_t *from)
{
	j->life = (uint32_t)json_integer_value(json_object_get(from, "life"));
	j->state = CTL_JOB_RESTORED;
	json_decref(j->trees);
	json_decref(j->assignments);
	j->trees = json_incref(json_object_get(from, "trees"));
	j->assignments = json_incref(json_object_get(from, "assignments"));
	for (uint32_t r = 0; r < j->ranks; r++)
		j->rank[r].absent_ns = c->now_ns;
	ctl_note(c, "%s: %u parts as an earlier controller left them", j->name, j->restores);
}

/* Read loads, except of links and nodes that no longer exist or have too low a rate now. */
static void load_loads(struct fan_ctl *c, const json_t *loads)
{
	for (size_t i = 0; i < json_array_size(loads); i++) {
		struct fan_why why = {""};
		if (ctl_load_set(c, json_array_get(loads, i), &why))
			ctl_note(c, "loads[%zu] of an earlier controller: %s", i, why.text);
	}
	c->wanted = CTL_MEND; /* the saved plans were made with these loads */
}

int ctl_state_load(struct fan_ctl *c, const json_t *state, struct fan_why *why)
{
	const json_t *jobs = json_object_get(state, "jobs");
	json_int_t last = json_integer_value(json_object_get(state, "last"));

	if (!json_is_array(jobs) || last < 0 || last > UINT16_MAX)
		return fan_why_set(why, FAN_E_CONFIG,
				   "expected what a controller has written: last, jobs");
	c->last_number = (uint16_t)last;
	for (size_t i = 0; i < json_array_size(jobs); i++) {
		const json_t *from = json_array_get(jobs, i);
		uint32_t job = ctl_job_named(c, json_string_value(json_object_get(from, "name")));
		if (job == CTL_NONE || !json_is_true(json_object_get(from, "bound")))
			continue; /* no worker has its parts: it is planned again */
		if (!json_is_array(json_object_get(from, "trees")) ||
		    !json_is_array(json_object_get(from, "assignments")) ||
		    !read_numbers(&c->job[job], json_object_get(from, "routes")))
			return fan_why_set(why, FAN_E_CONFIG,
					   "jobs[%zu]: expected trees, assignments and routes", i);
		restore(c, &c->job[job], from);
	}
	load_loads(c, json_object_get(state, "loads"));
	ctl_drain_load(c, json_object_get(state, "drained"));
	return FAN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_controller.c - a controller's status as metrics.  The family of links has only those that
 * are down, so that the number of labels stays small. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/metrics/metrics.h"

#define BYTES_PER_GBIT 125e6
#define NODES_MAX      4096 /* samples of nodes */

static void add(struct fan_labels *l, const char *name, const char *value)
{
	fan_labels_add(l, name, value, strlen(value));
}

static bool is_worker(const json_t *node)
{
	return strcmp(cmd_text_of(node, "kind"), "worker") == 0;
}

static void put_nodes(struct fan_expose *x, const json_t *nodes)
{
	static const struct {
		const char *name, *key, *help;
		enum fan_metric_type type;
	} family[] = {
		{"fanin_controller_node_up", "", "1: the node's daemon is there; 0: it is not.",
		 FAN_GAUGE},
		{"fanin_controller_node_routes", "routes", "Routes that the node knows.",
		 FAN_GAUGE},
	};

	for (unsigned k = 0; k < sizeof family / sizeof family[0]; k++) {
		fan_expose_family(x, family[k].name, family[k].type, family[k].help);
		for (size_t i = 0; i < json_array_size(nodes) && i < NODES_MAX; i++) {
			const json_t *n = json_array_get(nodes, i);
			struct fan_labels l = {.used = 0};
			if (is_worker(n))
				continue;
			add(&l, "node", cmd_text_of(n, "name"));
			add(&l, "kind", cmd_text_of(n, "kind"));
			fan_expose_value(x, family[k].name, &l,
					 *family[k].key ? cmd_number_of(n, family[k].key)
							: !strcmp(cmd_text_of(n, "state"), "up"));
		}
	}
}

static void put_links(struct fan_expose *x, const json_t *links)
{
	fan_expose_family(x, "fanin_controller_link_down", FAN_GAUGE,
			  "1 for each link that plans leave out because it is down.");
	for (size_t i = 0; i < json_array_size(links) && i < NODES_MAX; i++) {
		const json_t *o = json_array_get(links, i);
		struct fan_labels l = {.used = 0};
		if (strcmp(cmd_text_of(o, "state"), "down") != 0)
			continue;
		add(&l, "a", cmd_text_of(o, "a"));
		add(&l, "b", cmd_text_of(o, "b"));
		fan_expose_count(x, "fanin_controller_link_down", &l, 1);
	}
}

/* Add up "ranks", or "moved", those on the planned route, over the job's parts. */
static double ranks_of_parts(const json_t *job, const char *key)
{
	const json_t *parts = json_object_get(job, "parts");
	double all = 0;

	for (size_t i = 0; i < json_array_size(parts); i++)
		all += cmd_number_of(json_array_get(parts, i), key);
	return all;
}

enum { READY, RANKS, JOINED, PARTS, OFF_ROUTE, RATE, JOB_VALUES };

static double job_value(const json_t *job, unsigned which)
{
	switch (which) {
	case READY: return cmd_number_of(job, "ready");
	case RANKS: return cmd_number_of(job, "ranks");
	case JOINED: return cmd_number_of(job, "joined");
	case PARTS: return (double)json_array_size(json_object_get(job, "parts"));
	case OFF_ROUTE: return ranks_of_parts(job, "ranks") - ranks_of_parts(job, "moved");
	default: return cmd_number_of(job, "planned_gbps") * BYTES_PER_GBIT;
	}
}

static void put_jobs(struct fan_expose *x, const json_t *jobs)
{
	static const struct {
		const char *name, *help;
	} family[JOB_VALUES] = {
		[READY] = {"fanin_controller_job_ready", "1: the job's ranks have their plan."},
		[RANKS] = {"fanin_controller_job_ranks", "Ranks of the job."},
		[JOINED] = {"fanin_controller_job_joined_ranks", "Ranks that are connected."},
		[PARTS] = {"fanin_controller_job_parts", "Parts that are summed separately."},
		[OFF_ROUTE] = {"fanin_controller_job_ranks_off_route",
			       "Ranks of parts that are not on the planned route yet."},
		[RATE] = {"fanin_controller_job_planned_bytes_per_second", "Planned rate."},
	};

	for (unsigned k = 0; k < JOB_VALUES; k++) {
		fan_expose_family(x, family[k].name, FAN_GAUGE, family[k].help);
		for (size_t i = 0; i < json_array_size(jobs); i++) {
			const json_t *j = json_array_get(jobs, i);
			struct fan_labels l = {.used = 0};
			add(&l, "fanin_job", cmd_text_of(j, "name"));
			fan_expose_value(x, family[k].name, &l, job_value(j, k));
		}
	}
}

void metrics_put_controller(struct fan_expose *x, const json_t *status)
{
	metrics_put_process(x, "controller");
	fan_expose_family(x, "fanin_controller_plans_total", FAN_COUNTER, "Plans made so far.");
	fan_expose_value(x, "fanin_controller_plans_total", NULL, cmd_number_of(status, "epoch"));
	put_nodes(x, json_object_get(status, "nodes"));
	put_links(x, json_object_get(status, "links"));
	put_jobs(x, json_object_get(status, "jobs"));
}

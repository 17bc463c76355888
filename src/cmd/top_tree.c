/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "ask.h"
#include "cmd/cmd.h"
#include "core/base/limits.h"
#include "top.h"

#define INDENT	      2
#define STATUS_VALUES (4u << 20) /* of a controller of 4,096 nodes and their jobs */

static long long number_of(const json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

static void print_nodes(const json_t *nodes)
{
	printf("%-7s %-16s %-6s %9s %-22s %6s %12s %12s %10s %10s\n", "kind", "node", "state",
	       "since_s", "at", "routes", "packets", "hits", "passed", "drops");
	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const json_t *n = json_array_get(nodes, i), *h = json_object_get(n, "health");
		if (strcmp(cmd_text_of(n, "kind"), "worker") == 0)
			continue;
		printf("%-7s %-16s %-6s %9.1f %-22s %6lld %12lld %12lld %10lld %10lld\n",
		       cmd_text_of(n, "kind"), cmd_text_of(n, "name"), cmd_text_of(n, "state"),
		       cmd_number_of(n, "since_s"), cmd_text_of(n, "listen"),
		       number_of(n, "routes"), number_of(h, "packets"), number_of(h, "hits"),
		       number_of(h, "passed"), number_of(h, "drops"));
	}
}

/* Print links that are down, or of which others use a part. */
static void print_links(const json_t *links)
{
	for (size_t i = 0; i < json_array_size(links); i++) {
		const json_t *l = json_array_get(links, i);
		bool down = strcmp(cmd_text_of(l, "state"), "down") == 0;
		if (down)
			printf("link    %s-%s is down for %.1f s, %lld times of late",
			       cmd_text_of(l, "a"), cmd_text_of(l, "b"),
			       cmd_number_of(l, "since_s"), number_of(l, "flaps"));
		if (down && json_object_get(l, "back_in_s"))
			printf("; used again in %.1f s", cmd_number_of(l, "back_in_s"));
		if (down)
			printf("\n");
		if (cmd_number_of(l, "load_gbps") > 0)
			printf("link    %s-%s: others use %.4g Gb/s\n", cmd_text_of(l, "a"),
			       cmd_text_of(l, "b"), cmd_number_of(l, "load_gbps"));
	}
}

/* Ranks of the part's entries at `at` whose parts go on to `next`, `depth` hops from aggregator. */
struct branch {
	long long ranks, workers, summed;
};

static struct branch branch_of(const json_t *entries, const char *at, const char *next,
			       long long depth)
{
	struct branch b = {0, 0, 0};

	for (size_t i = 0; i < json_array_size(entries); i++) {
		const json_t *e = json_array_get(entries, i);
		if (strcmp(cmd_text_of(e, "at"), at) != 0 ||
		    strcmp(cmd_text_of(e, "next"), next) != 0 || number_of(e, "depth") != depth)
			continue;
		long long ranks = number_of(e, "ranks");
		b.ranks += ranks;
		b.workers += json_is_string(json_object_get(e, "from")) ? 0 : ranks;
		b.summed += json_is_true(json_object_get(e, "sums")) ? ranks : 0;
	}
	return b;
}

/* Has this branch been printed for an earlier entry? */
static bool is_first(const json_t *entries, size_t index)
{
	const json_t *e = json_array_get(entries, index);

	for (size_t i = 0; i < index; i++) {
		const json_t *o = json_array_get(entries, i);
		if (strcmp(cmd_text_of(o, "at"), cmd_text_of(e, "at")) == 0 &&
		    strcmp(cmd_text_of(o, "next"), cmd_text_of(e, "next")) == 0 &&
		    number_of(o, "depth") == number_of(e, "depth"))
			return false;
	}
	return true;
}

/* Print who sends to `next`, which is `depth` hops from the aggregator, and who sends to those. */
static void print_below(const json_t *entries, const char *next, long long depth)
{
	if (depth >= FAN_ROUTE_HOPS_MAX)
		return;
	for (size_t i = 0; i < json_array_size(entries); i++) {
		const json_t *e = json_array_get(entries, i);
		const char *at = cmd_text_of(e, "at");
		if (strcmp(cmd_text_of(e, "next"), next) != 0 ||
		    number_of(e, "depth") != depth + 1 || !is_first(entries, i))
			continue;
		struct branch b = branch_of(entries, at, next, depth + 1);
		printf("%*s%s", (int)(depth + 2) * INDENT, "", at);
		if (b.summed)
			printf(", sums %lld", b.summed);
		if (b.ranks > b.summed)
			printf(", passes %lld on", b.ranks - b.summed);
		if (b.workers)
			printf(", %lld workers here", b.workers);
		printf("\n");
		print_below(entries, at, depth + 1);
	}
}

static void print_part(const json_t *p)
{
	printf("  part %lld: %.2f %%, route %lld (%s), %lld of %lld ranks on it\n",
	       number_of(p, "number"), 100 * cmd_number_of(p, "share"), number_of(p, "route"),
	       cmd_text_of(p, "state"), number_of(p, "moved"), number_of(p, "ranks"));
	printf("%*s%s\n", INDENT, "", cmd_text_of(p, "server"));
	print_below(json_object_get(p, "entries"), cmd_text_of(p, "server"), 0);
}

static void print_jobs(const json_t *jobs)
{
	for (size_t i = 0; i < json_array_size(jobs); i++) {
		const json_t *j = json_array_get(jobs, i), *parts = json_object_get(j, "parts");
		printf("\njob %s: %lld of %lld ranks, %s, %.4g Gb/s planned\n  %s\n",
		       cmd_text_of(j, "name"), number_of(j, "joined"), number_of(j, "ranks"),
		       json_is_true(json_object_get(j, "ready")) ? "ready" : "not ready",
		       cmd_number_of(j, "planned_gbps"), cmd_text_of(j, "why"));
		for (size_t k = 0; k < json_array_size(parts); k++)
			print_part(json_array_get(parts, k));
	}
}

static int show(const struct top_tree_args *a)
{
	char why[ARGS_WHY_BYTES];
	char *text = controller_ask(a->path, "status json", why);
	json_t *status = text ? json_loads(text, 0, NULL) : NULL;
	int e = 0;

	free(text);
	if (!status) {
		fprintf(stderr, "fanin top: --controller: %s\n",
			text ? "the answer is not JSON" : why);
		return 1;
	}
	if (a->json[0])
		e = cmd_write_json("top", a->json, json_incref(status), JSON_INDENT(1));
	if (strcmp(a->json, "-") != 0) {
		cmd_json_bound(status, STATUS_VALUES, true);
		if (isatty(STDOUT_FILENO) && !a->once)
			printf("\033[H\033[J");
		printf("controller of %s: %s, %lld plans made, up for %.1f s\n",
		       cmd_text_of(status, "topology"), cmd_text_of(status, "algorithm"),
		       number_of(status, "epoch"), cmd_number_of(status, "up_s"));
		print_nodes(json_object_get(status, "nodes"));
		print_links(json_object_get(status, "links"));
		print_jobs(json_object_get(status, "jobs"));
		fflush(stdout);
	}
	json_decref(status);
	return e ? 1 : 0;
}

int top_tree(const struct top_tree_args *a)
{
	int e = show(a);

	while (!e && !a->once) {
		poll(NULL, 0, a->interval_s * 1000);
		e = show(a);
	}
	return e;
}

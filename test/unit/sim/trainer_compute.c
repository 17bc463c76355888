/* SPDX-License-Identifier: Apache-2.0 */
/* The values that jobs sum: exact in every wire type, whatever sums them. */
#include "unit/unit.h"

#include <stdio.h>

#include "sim/experiment.h"
#include "sim/trainer_priv.h"

#define NUMEL	20001
#define PAYLOAD 256

/* The wire's type, or the mode. */
static const char *const wires[][2] = {
	{"wire", "float32"}, {"wire", "float16"}, {"wire", "bfloat16"},
	{"wire", "int8"},    {"mode", "fixed"},
};

struct setting {
	const char *name, *policy;
	bool tree;
	int slots, ahead, cache_frags;
};

static const struct setting settings[] = {
	{"switchml", "switchml", false, 64, 0, 0},
	{"atp", "atp", false, 4, 0, 0},
	{"esa", "esa", false, 4, 0, 0},
	{"grid", "grid", false, 4, 0, 0},
	{"server", "none", false, 4, 0, 0},
	{"sa-atp", "atp", false, 64, 256, 0},
	{"helpers", "atp", false, 64, 256, 64},
	{"tree", "switchml", true, 64, 0, 0},
	{"esa in a tree", "esa", true, 4, 0, 0},
	{"sa-atp in a tree", "atp", true, 64, 256, 0},
};

/* ---- a scenario ---- */

static void add_link(json_t *topology, const char *a, const char *b, double loss)
{
	json_array_append_new(json_object_get(topology, "links"),
			      json_pack("{ss ss si sf sf}", "a", a, "b", b, "gbps", 10, "loss",
					loss, "duplicate", loss));
}

/* Add a switch and its link to `up`, which is its server or its parent, as `key` says. */
static void add_switch(json_t *topology, const char *name, const char *key, const char *up,
		       const struct setting *set, double loss)
{
	json_array_append_new(json_object_get(topology, "nodes"),
			      json_pack("{ss ss ss ss si si si si}", "name", name, "kind", "switch",
					"policy", set->policy, key, up, "slots", set->slots,
					"window", 8, "payload_bytes", PAYLOAD, "ahead_max",
					set->ahead));
	add_link(topology, name, up, loss);
}

static void add_workers(json_t *topology, const char *name, int count, const char *at, double loss)
{
	char all[8];
	snprintf(all, sizeof all, "%s*", name);
	json_array_append_new(
		json_object_get(topology, "nodes"),
		json_pack("{ss ss si}", "name", name, "kind", "worker", "count", count));
	add_link(topology, all, at, loss);
}

/* A star: five workers at s0, which has the server ps. */
static json_t *star(const struct setting *set, double loss)
{
	json_t *t = json_pack("{s[{ss ss si si}] s[]}", "nodes", "name", "ps", "kind", "server",
			      "slots", 1024, "ahead_max", set->ahead, "links");
	add_switch(t, "s0", "server", "ps", set, loss);
	add_workers(t, "a", 5, "s0", loss);
	return t;
}

/* A tree: a at s0 and c at s2 below m0, b at s1 and d at s3 below m1; m0, m1 and s4 with e below
 * top. */
static json_t *tree(const struct setting *set, double loss)
{
	json_t *t =
		json_pack("{s[{ss ss si si si}] s[]}", "nodes", "name", "top", "kind", "switch",
			  "window", 8, "payload_bytes", PAYLOAD, "ahead_max", set->ahead, "links");
	add_switch(t, "m0", "parent", "top", set, loss);
	add_switch(t, "m1", "parent", "top", set, loss);
	static const char *const above[] = {"m0", "m1", "m0", "m1", "top"};
	for (int i = 0; i < 5; i++) {
		const char leaf[] = {'s', (char)('0' + i), '\0'};
		const char workers[] = {(char)('a' + i), '\0'};
		add_switch(t, leaf, "parent", above[i], set, loss);
		add_workers(t, workers, 3, leaf, loss);
	}
	return t;
}

/* One after the other at another leaf: ranks of a leaf are no neighbours. */
static json_t *hosts_of_tree(void)
{
	json_t *list = json_array();
	for (int i = 0; i < 15; i++)
		json_array_append_new(list, json_sprintf("%c%d", 'a' + i % 5, i / 5));
	return list;
}

struct run {
	struct fan_scenario scenario;
	struct fan_experiment e;
	struct fan_experiment_job *job;
};

static struct run *make(const struct setting *set, const char *const *wire, int numel,
			int iterations, double loss, uint64_t seed)
{
	struct run *run = calloc(1, sizeof *run);
	struct fan_reader r = {.file = "test"};
	json_t *job =
		json_pack("{s{si} si si si si si ss sb}", "model", "numel", numel, "iterations",
			  iterations, "window", 8, "payload_bytes", PAYLOAD, "ahead", set->ahead,
			  "cache_frags", set->cache_frags, wire[0], wire[1], "verify", true);
	if (set->ahead)
		json_object_set_new(
			job, "slow",
			json_pack("[{si ss sf}]", "rank", 1, "what", "sending", "speed", 0.3));
	if (set->tree)
		json_object_set_new(job, "hosts", hosts_of_tree());
	json_t *root = json_pack("{sI so s[o]}", "seed", (json_int_t)(seed >> 12), "topology",
				 set->tree ? tree(set, loss) : star(set, loss), "jobs", job);
	if (fan_scenario_read(&run->scenario, root, &r))
		fail_msg("%s: %s", set->name, r.why);
	assert_true(fan_experiment_begin(&run->e, &run->scenario));
	run->job = &run->e.job[0];
	json_decref(root);
	return run;
}

static void end(struct run *run)
{
	fan_experiment_end(&run->e);
	fan_scenario_free(&run->scenario);
	free(run);
}

/* ---- tests ---- */

static void values__sums_are_exact_on_every_wire_in_every_policy(void **state)
{
	(void)state;
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < sizeof settings / sizeof *settings; i++) {
		uint64_t again = 0, kept = 0;
		for (unsigned w = 0; w < sizeof wires / sizeof *wires; w++) {
			struct run *run =
				make(&settings[i], wires[w], NUMEL, 3, 0.02, fan_rng_next(&rng));
			assert_true(fan_experiment_run(&run->e, NULL));
			for (unsigned r = 0; r < run->job->cfg.ranks; r++) {
				const struct fan_trainer *t = &run->job->trainer[r];
				if (t->wrong || t->fault.err)
					fail_msg("%s, %s: rank %u", settings[i].name, wires[w][1],
						 r);
				assert_int_equal(t->times.checked, 3 * NUMEL);
				again += t->stats.resent + t->stats.replays;
				kept += t->stats.cache.parts;
			}
			end(run);
		}
		assert_true(again > 0);
		assert_int_equal(kept > 0, settings[i].cache_frags > 0);
	}
}

/* Rank `r` of the setting sends its elements `times` as large: all ranks find all sums wrong. */
static void see(const struct setting *set, const char *const *wire, unsigned r, int times)
{
	for (unsigned numel = 1; numel <= FAN_TRAINER_RANK_SHIFT; numel += 16) {
		struct run *run = make(set, wire, (int)numel, 1, 0, 1);
		const struct fan_job_config *c = &run->job->cfg;
		unsigned at = (c->seat ? c->seat[r].place : r) * FAN_TRAINER_RANK_SHIFT;
		/* other ranks' elements lie beyond those of this one operation */
		for (unsigned i = 0; i < numel; i++)
			run->job->shared.input[at + i] *= (float)times;
		assert_true(fan_experiment_run(&run->e, NULL));
		for (unsigned k = 0; k < c->ranks; k++)
			if (!run->job->trainer[k].wrong)
				fail_msg("%s, %s: rank %u counted %d times", set->name, wire[1], r,
					 times);
		end(run);
	}
}

static void values__a_contribution_lost_or_added_twice_is_seen(void **state)
{
	(void)state;
	static const char *const seen[] = {"switchml", "tree"};
	for (unsigned i = 0; i < sizeof settings / sizeof *settings; i++)
		for (unsigned n = 0; n < sizeof seen / sizeof *seen; n++)
			for (unsigned w = 0; strcmp(settings[i].name, seen[n]) == 0 &&
					     w < sizeof wires / sizeof *wires;
			     w++)
				for (unsigned r = 0; r < (settings[i].tree ? 15 : 5); r++) {
					see(&settings[i], wires[w], r, 0);
					see(&settings[i], wires[w], r, 2);
				}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values__sums_are_exact_on_every_wire_in_every_policy),
		cmocka_unit_test(values__a_contribution_lost_or_added_twice_is_seen),
	};
	return RUN(tests);
}

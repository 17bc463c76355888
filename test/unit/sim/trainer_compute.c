/* SPDX-License-Identifier: Apache-2.0 */
/* The values that jobs sum: exact in every wire type, whatever sums them. */
#include "unit/unit.h"

#include <stdio.h>

#include "sim/experiment.h"
#include "sim/trainer.h"

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

/* ---- a flat scenario ---- */

#define RACKS 5
#define EACH  3 /* workers of a rack of the tree */
#define STAR  5 /* workers of the star */
#define PS    0 /* the star's server, or the top of the tree */

static int count(const json_t *s, const char *key)
{
	return (int)json_array_size(json_object_get(s, key));
}

static void add_link(json_t *s, int a, int b, double loss)
{
	json_array_append_new(json_object_get(s, "links"),
			      json_pack("{si si sI si si}", "a", a, "b", b, "bps",
					(json_int_t)10000000000, "loss", (int)(loss * 1e6),
					"duplicate", (int)(loss * 1e6)));
}

/* Add a switch, and its link to `up`, which is its server or its parent, as `key` says. */
static int add_switch(json_t *s, const char *key, int up, const struct setting *set, double loss)
{
	int n = count(s, "nodes");
	json_t *node = json_pack("{s:o ss ss si si si si}", "name", json_sprintf("s%d", n), "kind",
				 "switch", "policy", set->policy, "slots", set->slots, "window", 8,
				 "payload_bytes", PAYLOAD, "ahead_max", set->ahead);
	if (*key)
		json_object_set_new(node, key, json_integer(up));
	json_array_append_new(json_object_get(s, "nodes"), node);
	add_link(s, n, up, loss);
	return n;
}

static int add_worker(json_t *s, int at, double loss)
{
	int n = count(s, "nodes");
	json_array_append_new(
		json_object_get(s, "nodes"),
		json_pack("{s:o ss}", "name", json_sprintf("w%d", n), "kind", "worker"));
	add_link(s, n, at, loss);
	return n;
}

static void add_seat(json_t *job, int node, int rank, int ranks, int place)
{
	const int seat[] = {node, rank, ranks, place, 0};
	for (unsigned i = 0; i < sizeof seat / sizeof *seat; i++)
		json_array_append_new(json_object_get(job, "seats"), json_integer(seat[i]));
}

/* A star: five workers at a switch, which has a server. */
static void star(json_t *s, json_t *job, const struct setting *set, double loss)
{
	bool alone = strcmp(set->policy, "switchml") == 0, none = strcmp(set->policy, "none") == 0;
	json_array_append_new(json_object_get(s, "nodes"),
			      json_pack("{ss ss si si si}", "name", "ps", "kind", "server", "slots",
					1024, "window", FAN_WINDOW_MAX, "ahead_max", set->ahead));
	int at = add_switch(s, alone ? "" : "server", PS, set, loss);
	for (int i = 0; i < STAR; i++) {
		json_array_append_new(json_object_get(job, "hosts"),
				      json_integer(add_worker(s, at, loss)));
		if (!alone && !none)
			add_seat(job, at, i, STAR, i);
	}
	json_object_set_new(job, "at", json_integer(alone ? at : PS));
	json_object_set_new(job, "shared", json_boolean(!alone && !none));
	if (alone || none)
		json_object_del(job, "seats");
}

/* A tree: racks 0 and 2 below one switch, 1 and 3 below another; both and rack 4 below the top.
 * Ranks go to one rack after the other, so those of a rack are no neighbours. */
static void tree(json_t *s, json_t *job, const struct setting *set, double loss)
{
	static const int place[RACKS] = {0, 2 * EACH, EACH, 3 * EACH, 4 * EACH};
	int leaf[RACKS], worker[RACKS][EACH];
	json_array_append_new(json_object_get(s, "nodes"),
			      json_pack("{ss ss si si si si}", "name", "top", "kind", "switch",
					"slots", 4096, "window", 8, "payload_bytes", PAYLOAD,
					"ahead_max", set->ahead));
	const int m0 = add_switch(s, "parent", PS, set, loss);
	const int m1 = add_switch(s, "parent", PS, set, loss);
	for (int i = 0; i < RACKS; i++) {
		leaf[i] = add_switch(s, "parent", i == 4 ? PS : i % 2 ? m1 : m0, set, loss);
		for (int k = 0; k < EACH; k++)
			worker[i][k] = add_worker(s, leaf[i], loss);
	}
	for (int i = 0; i < RACKS * EACH; i++) {
		int rack = i % RACKS, rank = i / RACKS;
		json_array_append_new(json_object_get(job, "hosts"),
				      json_integer(worker[rack][rank]));
		add_seat(job, leaf[rack], rank, EACH, place[rack] + rank);
	}
	json_object_set_new(job, "at", json_integer(PS));
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
	struct fan_reader r;
	json_t *job = json_pack("{ss si si si si si si ss sb s[] s[]}", "name", "j", "model", 0,
				"iterations", iterations, "window", 8, "payload_bytes", PAYLOAD,
				"ahead", set->ahead, "cache_frags", set->cache_frags, wire[0],
				wire[1], "verify", true, "hosts", "seats");
	json_t *root = json_pack("{sI s[] s[] s[{ss s[iii]}] s[O]}", "seed",
				 (json_int_t)(seed >> 12), "nodes", "links", "models", "name", "m",
				 "layers", numel, 0, 0, "jobs", job);
	(set->tree ? tree : star)(root, job, set, loss);
	if (set->ahead)
		json_object_set_new(job, "slow",
				    json_pack("[{si si si sb}]", "rank", 1, "ranks", 1, "speed",
					      300000, "sends", true));
	json_decref(job);
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

TEST(values__sums_are_exact_on_every_wire_in_every_policy)
{
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

TEST(values__a_contribution_lost_or_added_twice_is_seen)
{
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

UNIT_MAIN

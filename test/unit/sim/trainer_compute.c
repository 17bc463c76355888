/* SPDX-License-Identifier: Apache-2.0 */
/* The values that jobs sum: exact in every wire type, whatever sums them. */
#include "unit/unit.h"

#include "sim/experiment.h"
#include "sim/trainer.h"

#define NUMEL	20001
#define PAYLOAD 256

/* The wire's type, or the mode. */
static const char *const wires[][2] = {
	{"wire", "float32"}, {"wire", "float16"}, {"wire", "bfloat16"},
	{"wire", "int8"},    {"mode", "fixed"},
};

/* ---- a flat scenario ---- */

#define RACKS 5
#define EACH  3 /* workers of a rack of the tree */
#define STAR  5 /* workers of the star */
#define TOP   0 /* the star's switch, or the top of the tree */

/* Add a node below the switch `up`, which has none where it is -1. */
static int add_node(json_t *s, const char *kind, int up)
{
	json_t *nodes = json_object_get(s, "nodes"), *node;
	const int n = (int)json_array_size(nodes);
	node = json_pack("{s:o ss}", "name", json_sprintf("n%d", n), "kind", kind);
	if (strcmp(kind, "switch") == 0)
		json_object_update_new(node, json_pack("{si si si}", "slots", up < 0 ? 4096 : 64,
						       "window", 8, "payload_bytes", PAYLOAD));
	if (up >= 0 && strcmp(kind, "switch") == 0)
		json_object_set_new(node, "parent", json_integer(up));
	json_array_append_new(nodes, node);
	if (up >= 0)
		json_array_append_new(
			json_object_get(s, "links"),
			json_pack("{si si sI}", "a", n, "b", up, "bps", (json_int_t)10000000000));
	return n;
}

/* Five workers at a switch. */
static void star(json_t *s, json_t *job)
{
	add_node(s, "switch", -1);
	for (int i = 0; i < STAR; i++)
		json_array_append_new(json_object_get(job, "hosts"),
				      json_integer(add_node(s, "worker", TOP)));
	json_object_del(job, "seats");
}

/* Racks 0 and 2 below one switch, 1 and 3 below another; both and rack 4 below the top.  Ranks go
 * to one rack after the other, so those of a rack are no neighbours. */
static void tree(json_t *s, json_t *job)
{
	static const int place[RACKS] = {0, 2 * EACH, EACH, 3 * EACH, 4 * EACH};
	int leaf[RACKS];
	add_node(s, "switch", -1);
	const int middle[] = {add_node(s, "switch", TOP), add_node(s, "switch", TOP)};
	for (int i = 0; i < RACKS; i++)
		leaf[i] = add_node(s, "switch", i == 4 ? TOP : middle[i % 2]);
	for (int i = 0; i < RACKS * EACH; i++) {
		const int rack = i % RACKS,
			  seat[] = {leaf[rack], i / RACKS, EACH, place[rack] + i / RACKS, 0};
		json_array_append_new(json_object_get(job, "hosts"),
				      json_integer(add_node(s, "worker", leaf[rack])));
		for (unsigned k = 0; k < sizeof seat / sizeof *seat; k++)
			json_array_append_new(json_object_get(job, "seats"), json_integer(seat[k]));
	}
}

struct run {
	struct fan_scenario scenario;
	struct fan_experiment e;
	struct fan_experiment_job *job;
};

static struct run *make(bool in_a_tree, const char *const *wire, int numel)
{
	struct run *run = calloc(1, sizeof *run);
	struct fan_reader r;
	json_t *job = json_pack("{ss si si si si si ss sb s[] s[]}", "name", "j", "model", 0,
				"iterations", 1, "window", 8, "payload_bytes", PAYLOAD, "at", TOP,
				wire[0], wire[1], "verify", true, "hosts", "seats");
	json_t *root = json_pack("{s[] s[] s[{ss s[iii]}] s[O]}", "nodes", "links", "models",
				 "name", "m", "layers", numel, 0, 0, "jobs", job);
	(in_a_tree ? tree : star)(root, job);
	json_decref(job);
	if (fan_scenario_read(&run->scenario, root, &r))
		fail_msg("%s", r.why);
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

/* Rank `r` sends its elements `times` as large: all ranks find all sums wrong. */
static void see(bool in_a_tree, const char *const *wire, unsigned r, int times)
{
	for (unsigned numel = 1; numel <= FAN_TRAINER_RANK_SHIFT; numel += 16) {
		struct run *run = make(in_a_tree, wire, (int)numel);
		const struct fan_job_config *c = &run->job->cfg;
		unsigned at = (c->seat ? c->seat[r].place : r) * FAN_TRAINER_RANK_SHIFT;
		/* other ranks' elements lie beyond those of this one operation */
		for (unsigned i = 0; i < numel; i++)
			run->job->shared.input[at + i] *= (float)times;
		assert_true(fan_experiment_run(&run->e, NULL));
		for (unsigned k = 0; k < c->ranks; k++)
			if (!run->job->trainer[k].wrong)
				fail_msg("%s: rank %u counted %d times", wire[1], r, times);
		end(run);
	}
}

TEST(values__a_contribution_lost_or_added_twice_is_seen)
{
	for (unsigned in_a_tree = 0; in_a_tree < 2; in_a_tree++)
		for (unsigned w = 0; w < sizeof wires / sizeof *wires; w++)
			for (unsigned r = 0; r < (in_a_tree ? RACKS * EACH : STAR); r++)
				for (int times = 0; times <= 2; times += 2)
					see(in_a_tree, wires[w], r, times);
}

/* As it is, none is. */
TEST(values__sums_that_are_right_are_not)
{
	for (unsigned in_a_tree = 0; in_a_tree < 2; in_a_tree++)
		for (unsigned w = 0; w < sizeof wires / sizeof *wires; w++) {
			struct run *run = make(in_a_tree, wires[w], NUMEL);
			assert_true(fan_experiment_run(&run->e, NULL));
			for (unsigned k = 0; k < run->job->cfg.ranks; k++) {
				assert_false(run->job->trainer[k].wrong);
				assert_int_equal(run->job->trainer[k].times.checked, NUMEL);
			}
			end(run);
		}
}

UNIT_MAIN

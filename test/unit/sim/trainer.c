/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/daemon.h"
#include "sim/trainer.h"

#define JOBS  3
#define RANKS 4

/* Some jobs on one switch; rank r of every job is on host r. */
struct bed {
	struct fan_sim sim;
	struct fan_sim_daemon sw;
	uint32_t host[RANKS];
	unsigned jobs;
	struct fan_job_config job[JOBS];
	struct fan_trainer_shared shared[JOBS];
	struct fan_trainer trainer[JOBS][RANKS];
};

static struct fan_layer layers[3] = {
	{.numel = 40000, .forward_ns = 1000000, .backward_ns = 2000000},
	{.numel = 0, .forward_ns = 500000, .backward_ns = 500000},
	{.numel = 70001, .forward_ns = 1000000, .backward_ns = 2000000},
};

static void make(struct bed *b, const struct fan_sim_fault *fault, uint64_t seed)
{
	const struct fan_link_config link = {.bps = 10000000000,
					     .delay_ns = 1000,
					     .queue_bytes = 1 << 20,
					     .overhead_bytes = 66,
					     .fault = *fault};
	const struct fan_node_config sw = {.has_aggregator = true,
					   .aggregator = {.slots = 1024,
							  .payload_bytes = 1408,
							  .jobs_max = JOBS,
							  .members_max = JOBS * RANKS,
							  .window_max = 128,
							  .shards = 1,
							  .secret = {{1, 0}}}};
	memset(b, 0, sizeof *b);
	fan_sim_init(&b->sim, seed, FAN_HEAD_BYTES + 1408);
	uint32_t hub = fan_sim_add_node(&b->sim, true, 0, 0);
	for (unsigned i = 0; i < RANKS; i++) {
		b->host[i] = fan_sim_add_node(&b->sim, false, 0, 0);
		fan_sim_add_link(&b->sim, b->host[i], hub, &link);
		fan_sim_add_link(&b->sim, hub, b->host[i], &link);
	}
	assert_true(fan_sim_index(&b->sim));
	assert_true(fan_sim_daemon_init(&b->sw, &b->sim, hub));
	assert_true(fan_sim_daemon_begin(&b->sw, &sw, false, 1000000));
}

static struct fan_job_config *add_job(struct bed *b)
{
	struct fan_job_config *c = &b->job[b->jobs];
	*c = (struct fan_job_config){.name = {(char)('a' + b->jobs)},
				     .model = {.layer = layers, .layers = 3},
				     .ranks = RANKS,
				     .host = b->host,
				     .aggregator = b->sw.actor,
				     .iterations = 3,
				     .payload_bytes = 1408,
				     .window = 128,
				     .verify = true,
				     .alive_ms = FAN_ALIVE_MS,
				     .stall_ms = 60000,
				     .seed = 1 + b->jobs};
	assert_true(fan_job_cut(c, 0));
	b->jobs++;
	return c;
}

static void begin(struct bed *b)
{
	for (unsigned j = 0; j < b->jobs; j++) {
		assert_true(fan_trainer_share(&b->shared[j], &b->job[j], &b->sim, false));
		for (uint16_t r = 0; r < RANKS; r++)
			assert_true(fan_trainer_init(&b->trainer[j][r], &b->shared[j], r));
	}
}

static bool over(const struct bed *b)
{
	for (unsigned j = 0; j < b->jobs; j++)
		for (unsigned r = 0; r < RANKS; r++)
			if (!b->trainer[j][r].left)
				return false;
	return true;
}

static void run(struct bed *b)
{
	begin(b);
	while (!over(b))
		assert_true(fan_sim_step(&b->sim, 100000000000));
	for (unsigned j = 0; j < b->jobs; j++) {
		uint64_t elems = fan_model_numel(&b->job[j].model) * b->job[j].iterations;
		for (unsigned r = 0; r < RANKS; r++) {
			const struct fan_trainer *t = &b->trainer[j][r];
			assert_int_equal(t->fault.err, FAN_OK);
			assert_false(t->wrong);
			assert_int_equal(t->times.elems, elems);
			assert_int_equal(t->times.checked, b->job[j].verify ? elems : 0);
		}
	}
}

static void end(struct bed *b)
{
	for (unsigned j = 0; j < b->jobs; j++) {
		for (unsigned r = 0; r < RANKS; r++)
			fan_trainer_free(&b->trainer[j][r]);
		fan_trainer_unshare(&b->shared[j]);
		free(b->job[j].bucket);
	}
	fan_sim_daemon_free(&b->sw);
	fan_sim_free(&b->sim);
}

static const struct fan_sim_fault calm = {0};

/* 1 us of JOINs and BEATs, then compute and reduce what is not hidden behind it. */
TEST(trainer__time_of_an_iteration)
{
	struct bed *b = malloc(sizeof *b);
	make(b, &calm, 1);
	add_job(b)->iterations = 1;
	run(b);
	const struct fan_trainer_times *t = &b->trainer[0][0].times;
	/* the last layer's gradients travel while the first one is computed; then 40000
	 * elements, 114 packets of 1510 bytes at 10 Gb/s, and two links of 1 us */
	uint64_t comm_ns = 113 * 1208 + 2 * (1208 + 1000);
	assert_in_range(t->done_ns - t->ready_ns, 7000000 + comm_ns - 3000,
			7000000 + comm_ns + 3000);
	assert_in_range(t->wait_ns, 0, 0); /* nothing to compute after it */
	end(b);
	free(b);
}

TEST(trainer__next_iteration_waits)
{
	uint64_t took_ns[2];
	for (int overlap = 0; overlap < 2; overlap++) {
		struct bed *b = malloc(sizeof *b);
		make(b, &calm, 1);
		struct fan_job_config *c = add_job(b);
		c->overlap = overlap;
		run(b);
		const struct fan_trainer_times *t = &b->trainer[0][0].times;
		took_ns[overlap] = t->done_ns - t->ready_ns;
		/* the first layer's gradients are the last to come: nothing is hidden */
		assert_in_range(t->wait_ns, 2 * 130000, 2 * 145000);
		end(b);
		free(b);
	}
	assert_int_equal(took_ns[0], took_ns[1]);
}

/* 2,000 fragments take 2.41 ms, of which a first layer without parameters hides 2. */
TEST(trainer__overlap_hides_what_needs_no_gradients)
{
	struct fan_layer two[2] = {{.forward_ns = 2000000}, {.numel = 704000}};
	uint64_t took_ns[2];
	for (int overlap = 0; overlap < 2; overlap++) {
		struct bed *b = malloc(sizeof *b);
		make(b, &calm, 1);
		struct fan_job_config *c = add_job(b);
		free(c->bucket);
		c->model = (struct fan_model){.layer = two, .layers = 2};
		assert_true(fan_job_cut(c, 0));
		c->overlap = overlap;
		run(b);
		const struct fan_trainer_times *t = &b->trainer[0][0].times;
		took_ns[overlap] = t->done_ns - t->ready_ns;
		end(b);
		free(b);
	}
	assert_in_range(took_ns[0], 3 * (2000000 + 2410000), 3 * (2000000 + 2420000));
	assert_int_equal(took_ns[0] - took_ns[1], 2 * 2000000); /* before iterations 2 and 3 */
}

TEST(trainer__several_jobs_share_a_switch)
{
	struct bed *b = malloc(sizeof *b);
	make(b, &calm, 1);
	for (unsigned j = 0; j < JOBS; j++)
		add_job(b)->arrival_ns = j * UINT64_C(5000000);
	run(b);
	for (unsigned j = 0; j < JOBS; j++)
		assert_true(b->trainer[j][0].times.ready_ns >= b->job[j].arrival_ns);
	end(b);
	free(b);
}

TEST(trainer__exact_under_faults)
{
	const struct fan_sim_fault bad = {.loss = 20000,
					  .duplicate = 20000,
					  .reorder = 20000,
					  .corrupt = 10000,
					  .reorder_ns = 200000,
					  .jitter_ns = 500};
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct bed *b = malloc(sizeof *b);
		make(b, &bad, seed);
		for (unsigned j = 0; j < JOBS; j++) {
			struct fan_job_config *c = add_job(b);
			c->mode = j == 1 ? FAN_FIXED : FAN_NATIVE;
			c->jitter = 200000;
			c->overlap = j == 2;
		}
		run(b);
		assert_true(b->trainer[0][0].stats.resent + b->trainer[0][0].stats.replays > 0);
		end(b);
		free(b);
	}
}

static bool lose_all(void *arg, uint32_t link, const struct fan_sim_packet *p, uint64_t *late_ns)
{
	(void)p;
	(void)late_ns;
	const struct bed *b = arg;
	return b->sim.now_ns > 2000000 && link == 0;
}

TEST(trainer__a_dead_link_is_an_error_not_a_hang)
{
	struct bed *b = malloc(sizeof *b);
	make(b, &calm, 1);
	add_job(b)->stall_ms = 2000;
	b->sim.filter = lose_all;
	b->sim.filter_arg = b;
	begin(b);
	while (!over(b))
		assert_true(fan_sim_step(&b->sim, 100000000000));
	for (unsigned r = 0; r < RANKS; r++)
		assert_int_not_equal(b->trainer[0][r].fault.err, FAN_OK);
	end(b);
	free(b);
}

TEST(trainer__a_wrong_sum_is_seen)
{
	struct bed *b = malloc(sizeof *b);
	make(b, &calm, 1);
	add_job(b);
	begin(b);
	b->shared[0].input[5] += 1; /* of rank 0 alone */
	while (!over(b))
		assert_true(fan_sim_step(&b->sim, 100000000000));
	assert_true(b->trainer[0][0].wrong && b->trainer[0][3].wrong);
	end(b);
	free(b);
}

UNIT_MAIN

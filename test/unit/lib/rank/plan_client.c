/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that follow a controller, here one that says what each test has it say.  Parts are
 * jobs on plain switches, which take any route. */
#include "unit/lib/controller.h"
#include "unit/unit.h"

#include "lib/base/plan_msg.h"
#include "net/shard.h"

#define RANKS	   3
#define COUNT	   20000
#define EARLIER_MS 4000 /* of a life that must end in an error */

static struct scripted controller;

static void follow(struct fanin_options *o, int rank)
{
	(void)rank;
	o->switch_addr = NULL;
	o->controller_addr = controller.address;
	o->job = "j";
}

static void say_text(struct scripted *s, struct scripted_worker *w, const char *line)
{
	if (strstr(line, "\"join\""))
		scripted_say(w, s->text);
}

/* The line that tells `parts` parts on the switches at `one` and `other` in turn.  Cuts differ,
 * and the second part of three has nothing. */
static void tell_parts(char *text, size_t bytes, unsigned parts, const char *one, const char *other)
{
	static const uint64_t cut[] = {0, 1431655765, 1431655765, 4294967296};
	size_t n = (size_t)snprintf(text, bytes,
				    "{\"job\":{\"name\":\"j\",\"ranks\":%d,\"parts\":[", RANKS);
	for (unsigned k = 0; k < parts; k++)
		n += (size_t)snprintf(
			text + n, bytes - n,
			"%s{\"number\":%u,\"name\":\"j/%u\",\"route\":%u,\"cut\":[%llu,"
			"%llu],\"at\":\"%s\",\"gbps\":2.5}",
			k ? "," : "", k, k, k + 1, (unsigned long long)cut[k],
			k + 1 == parts ? FAN_CUT_WHOLE : (unsigned long long)cut[k + 1],
			k % 2 ? other : one);
	snprintf(text + n, bytes - n, "]}}\n");
}

typedef void heard_line(struct scripted *, struct scripted_worker *, const char *);

static void start_controller(const char *text, heard_line *heard)
{
	memset(&controller, 0, sizeof controller);
	controller.text = text;
	controller.heard = heard;
	scripted_start(&controller);
}

static struct team following(void (*body)(struct member *))
{
	struct team t = {.ranks = RANKS, .body = body, .adjust = follow};
	struct fanin_options o = FANIN_OPTIONS_INIT;
	t.options = o;
	t.options.timeout_ms = TEAM_PATIENT_MS;
	t.options.alive_ms = 60000;
	return t;
}

/* All ranks run `body` with `ctx` under a controller that says `text` by `heard`. */
static void follow_text(const char *text, heard_line *heard, void (*body)(struct member *),
			void *ctx)
{
	struct team t = following(body);
	t.ctx = ctx;
	start_controller(text, heard);
	team_run(&t);
	scripted_stop(&controller);
}

/* ---- parts ---- */

static void check_sum(struct member *m, int64_t *x, size_t count)
{
	uint64_t wrong = 0;
	for (size_t i = 0; i < count; i++)
		x[i] = (int64_t)i * 3 + m->rank;
	x[count] = -1;
	EXPECT(fanin_allreduce(m->comm, x, x, count, FANIN_INT64, FANIN_SUM) == 0);
	for (size_t i = 0; i < count; i++)
		wrong += x[i] != (int64_t)i * 9 + 3;
	EXPECT(!wrong);
	EXPECT(x[count] == -1);
}

static void all_types(struct member *m)
{
	static const int types[] = {FANIN_FLOAT32, FANIN_FLOAT16, FANIN_BFLOAT16, FANIN_INT32,
				    FANIN_INT64};
	uint8_t x[801];
	for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
		memset(x, 0, sizeof x);
		x[800] = 77;
		EXPECT(fanin_allreduce(m->comm, x, x, 100, types[t], FANIN_MAX) == 0);
		EXPECT(x[0] == 0 && x[800] == 77);
	}
}

static void all_calls(struct member *m)
{
	static int64_t all[RANKS][COUNT + 1];
	int64_t *x = all[m->rank];
	float f[1000];
	for (size_t count = 0; count < 8; count++)
		check_sum(m, x, count);
	check_sum(m, x, COUNT);
	all_types(m);
	for (int i = 0; i < 1000; i++)
		f[i] = (float)(m->rank == 1 ? i : 0);
	EXPECT(fanin_broadcast(m->comm, f, 1000, FANIN_FLOAT32, 1) == 0);
	for (int i = 0; i < 1000; i++)
		EXPECT(f[i] == (float)i);
	EXPECT(fanin_reduce(m->comm, f, f, 1000, FANIN_FLOAT32, FANIN_SUM, 2) == 0);
	for (int i = 0; i < 1000 && m->rank == 2; i++) /* the fixed mode rounds */
		EXPECT(f[i] - (float)(i * RANKS) < 1e-3F && (float)(i * RANKS) - f[i] < 1e-3F);
	EXPECT(fanin_barrier(m->comm) == 0);
	struct fanin_stats s = {.size = sizeof s};
	EXPECT(fanin_comm_stats(m->comm, &s) == 0);
	EXPECT(s.parts == *(unsigned *)m->team->ctx);
	EXPECT(s.result_ns > 0);
	EXPECT(strstr(fanin_comm_switch(m->comm), "(controller)"));
}

static void run_parts(unsigned parts, unsigned shards, int mode)
{
	char text[2048], one[80], other[80];
	struct fan_daemon *a = team_switch(one, sizeof one, shards);
	struct fan_daemon *b = team_switch(other, sizeof other, 1);
	struct team t = following(all_calls);
	tell_parts(text, sizeof text, parts, one, other);
	start_controller(text, say_text);
	t.ctx = &parts;
	t.options.mode = mode;
	team_run(&t);
	assert_int_equal(atomic_load(&controller.joins), RANKS);
	scripted_stop(&controller);
	fan_daemon_stop(b);
	fan_daemon_stop(a);
}

TEST(plan_client__parts_of_all_calls)
{
	run_parts(1, 1, FANIN_MODE_NATIVE);
	run_parts(2, 1, FANIN_MODE_FIXED);
	run_parts(3, 2, FANIN_MODE_NATIVE);
}

/* ---- what create tells while it waits ---- */

static void note_waiting(void *arg, const char *text)
{
	if (strstr(text, "has not told the parts"))
		atomic_fetch_add((atomic_int *)arg, 1);
}

TEST(plan_client__tells_what_it_waits_for)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	atomic_int told = 0;
	fanin_comm *c;
	start_controller(NULL, NULL);
	o.controller_addr = controller.address;
	o.rank = 0;
	o.ranks = RANKS;
	o.timeout_ms = 5000; /* the first word comes after two seconds */
	o.waiting = note_waiting;
	o.waiting_arg = &told;
	assert_int_equal(fanin_comm_create(&o, &c), FANIN_E_TIMEOUT);
	assert_true(atomic_load(&told) > 0);
	fanin_comm_destroy(c);
	scripted_stop(&controller);
}

/* ---- what a controller says later ---- */

static void ended_and_begun_anew(struct member *m)
{
	int64_t x[101];
	for (int life = 0; life < 3; life++) {
		check_sum(m, x, 100);
		int e = fanin_barrier(m->comm); /* rank 0 may be through before others are */
		EXPECT(e == 0 || (e == FANIN_E_RESTARTED && m->rank));
		if (m->rank == 0)
			scripted_say_all(&controller, "{\"again\":{\"why\":\"server PS1 is gone\","
						      "\"parts\":[]}}\n");
		for (int i = 0; i < 1000000 && !e; i++)
			e = fanin_allreduce(m->comm, x, x, 100, FANIN_INT64, FANIN_SUM);
		EXPECT(e == FANIN_E_RESTARTED);
		EXPECT(strstr(fanin_comm_error(m->comm), "PS1 is gone") ||
		       strstr(fanin_comm_error(m->comm), "does not know job"));
		fanin_comm_destroy(m->comm);
		struct fanin_options o = m->team->options;
		follow(&o, m->rank);
		o.rank = m->rank;
		o.ranks = RANKS;
		m->created = fanin_comm_create(&o, &m->comm);
		EXPECT(m->created == FANIN_OK);
	}
	check_sum(m, x, 100);
	EXPECT(fanin_barrier(m->comm) == 0);
}

static void run_two_parts(heard_line *heard, void (*body)(struct member *))
{
	char text[2048], one[80], other[80];
	struct fan_daemon *a = team_switch(one, sizeof one, 1);
	struct fan_daemon *b = team_switch(other, sizeof other, 1);
	tell_parts(text, sizeof text, 2, one, other);
	follow_text(text, heard, body, NULL);
	fan_daemon_stop(b);
	fan_daemon_stop(a);
}

TEST(plan_client__again)
{
	run_two_parts(say_text, ended_and_begun_anew);
}

/* Sums until `count` has reached `least`. */
static void sum_until(struct member *m, atomic_int *count, int least)
{
	int64_t x[101], on = 1;
	int e = 0;
	while (on && !e) {
		check_sum(m, x, 100);
		on = atomic_load(count) < least;
		e = fanin_allreduce(m->comm, &on, &on, 1, FANIN_INT64, FANIN_MAX);
	}
	if (e)
		fprintf(stderr, "rank %d: %s\n", m->rank, fanin_comm_error(m->comm));
	EXPECT(!e);
}

static atomic_int with_routes;

static void note_routes(struct scripted *s, struct scripted_worker *w, const char *line)
{
	if (strstr(line, "\"routes\":[1,2]"))
		atomic_fetch_add(&with_routes, 1);
	scripted_say(w, s->text);
}

static void controller_comes_and_goes(struct member *m)
{
	static const char *const nonsense[] = {"what?\n", "{\"refused\":\"busy\"}\n", NULL};
	EXPECT(fanin_barrier(m->comm) == 0);
	for (int i = 0; i < 3; i++) {
		if (m->rank == 0 && nonsense[i])
			scripted_say_all(&controller, nonsense[i]);
		else if (m->rank == 0)
			scripted_hang_up_all(&controller);
		sum_until(m, &with_routes, (i + 1) * RANKS);
	}
}

TEST(plan_client__goes_on_without_its_controller)
{
	atomic_store(&with_routes, 0);
	run_two_parts(note_routes, controller_comes_and_goes);
}

static const char *elsewhere;

static void parts_move(struct member *m)
{
	struct fanin_stats s = {.size = sizeof s};
	char text[256];
	EXPECT(fanin_barrier(m->comm) == 0);
	for (int i = 0; i < 4; i++) {
		if (m->rank == 0) {
			snprintf(text, sizeof text,
				 "{\"move\":{\"part\":1,\"route\":%d,\"at\":\"127.0.0.%d:%s\"}}\n",
				 20 + i, 2 + i % 2, elsewhere);
			scripted_say_all(&controller, text);
		}
		sum_until(m, &controller.moved, (i + 1) * RANKS);
	}
	EXPECT(fanin_comm_stats(m->comm, &s) == 0);
	EXPECT(s.moves == 4);
}

/* An aggregator that has many addresses, one for each path; its port. */
static unsigned start_everywhere(struct fan_daemon **d)
{
	struct fan_daemon_options o;
	char why[256];
	fan_daemon_defaults(&o);
	o.core.payload_bytes = FAN_PAYLOAD_MAX;
	assert_int_equal(fan_peer_parse(&o.listen, "0.0.0.0:0", why, sizeof why), 0);
	assert_int_equal(fan_daemon_start(d, &o, why, sizeof why), 0);
	return fan_daemon_address(*d).port;
}

TEST(plan_client__moves)
{
	char text[2048], one[80], other[80];
	struct fan_daemon *b, *a = team_switch(one, sizeof one, 1);
	snprintf(other, sizeof other, "127.0.0.1:%u", start_everywhere(&b));
	elsewhere = strchr(other, ':') + 1;
	tell_parts(text, sizeof text, 2, one, other);
	follow_text(text, say_text, parts_move, NULL);
	fan_daemon_stop(b);
	fan_daemon_stop(a);
}

/* Moved before anybody is in. */
TEST(plan_client__moves_while_joining)
{
	char text[2048], one[80];
	struct fan_daemon *b, *a = team_switch(one, sizeof one, 1);
	unsigned parts = 2;
	tell_parts(text, sizeof text, parts, one, "127.0.0.1:9"); /* nobody is there */
	size_t n = strlen(text);
	snprintf(text + n, sizeof text - n,
		 "{\"move\":{\"part\":1,\"route\":77,\"at\":\"127.0.0.3:%u\"}}\n",
		 start_everywhere(&b));
	follow_text(text, say_text, all_calls, &parts);
	assert_int_equal(atomic_load(&controller.moved), RANKS);
	fan_daemon_stop(b);
	fan_daemon_stop(a);
}

/* First parts that nobody is at, then word that they are no more, then good ones. */
static void change_the_plan(struct scripted *s, struct scripted_worker *w, const char *line)
{
	static atomic_int joined;
	char text[2048];
	if (!strstr(line, "\"join\""))
		return;
	EXPECT(!strstr(line, "routes"));
	if (atomic_fetch_add(&joined, 1) >= RANKS) {
		scripted_say(w, s->text);
		return;
	}
	tell_parts(text, sizeof text, 3, "127.0.0.1:9", "127.0.0.1:9");
	scripted_say(w, text);
	scripted_say(w, "{\"again\":{\"why\":\"server PS is gone\",\"parts\":[]}}\n");
}

TEST(plan_client__again_while_joining)
{
	char text[2048], one[80];
	struct fan_daemon *a = team_switch(one, sizeof one, 1);
	unsigned parts = 2;
	tell_parts(text, sizeof text, parts, one, one);
	follow_text(text, change_the_plan, all_calls, &parts);
	assert_int_equal(atomic_load(&controller.joins), 2 * RANKS);
	fan_daemon_stop(a);
}

/* A job of the same name, on no route, that its one rank gives up in the end. */
static void *be_an_earlier_life(void *address)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	fanin_comm *c;
	o.switch_addr = address;
	o.job = "j/0";
	o.rank = 0;
	o.ranks = RANKS;
	o.timeout_ms = EARLIER_MS;
	EXPECT(fanin_comm_create(&o, &c) == FANIN_E_TIMEOUT);
	fanin_comm_destroy(c);
	return NULL;
}

/* Wait until the switch knows of the job, or for long. */
static void wait_for_job(struct fan_daemon *d)
{
	static struct fan_shard_health h;
	struct timespec t = {.tv_nsec = 5000000};
	for (int i = 0; i < 2000 && !h.jobs; i++) {
		nanosleep(&t, NULL);
		fan_daemon_health(d, 0, &h);
	}
}

TEST(plan_client__waits_for_an_earlier_life)
{
	char text[2048], one[80];
	struct fan_daemon *a = team_switch(one, sizeof one, 1);
	unsigned parts = 1;
	pthread_t earlier;
	tell_parts(text, sizeof text, parts, one, one);
	assert_int_equal(pthread_create(&earlier, NULL, be_an_earlier_life, one), 0);
	wait_for_job(a);
	follow_text(text, say_text, all_calls, &parts);
	pthread_join(earlier, NULL);
	fan_daemon_stop(a);
}

/* 25 Mb/s at most, headers counted; who is slower is right, too. */
static void sum_slowly(struct member *m)
{
	static int64_t all[RANKS][50001];
	int64_t *x = all[m->rank];
	uint64_t begun_ns = fan_clock_ns();
	check_sum(m, x, 50000);
	EXPECT(fan_clock_ns() - begun_ns > 120 * FAN_MS); /* 400000 bytes take 128 ms */
}

/* One switch, and ranks that send at so many hundredths of the rate that they are told. */
static void with_pace(void (*body)(struct member *), unsigned pace)
{
	char text[2048], one[80];
	struct fan_daemon *a = team_switch(one, sizeof one, 1);
	struct team t = following(body);
	elsewhere = strchr(one, ':') + 1;
	tell_parts(text, sizeof text, 1, one, one);
	start_controller(text, say_text);
	t.options.pace = pace;
	team_run(&t);
	scripted_stop(&controller);
	fan_daemon_stop(a);
}

TEST(plan_client__not_faster_than_planned)
{
	with_pace(sum_slowly, 1);
}

/* The same once the controller has told another rate for the same path. */
static void sum_slower(struct member *m)
{
	char text[256];
	if (m->rank == 0) {
		snprintf(
			text, sizeof text,
			"{\"move\":{\"part\":0,\"route\":1,\"at\":\"127.0.0.1:%s\",\"gbps\":0.025}}\n",
			elsewhere);
		scripted_say_all(&controller, text);
	}
	sum_until(m, &controller.moved, RANKS);
	sum_slowly(m);
}

TEST(plan_client__another_rate)
{
	with_pace(sum_slower, 100);
}

UNIT_MAIN

/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "rig.h"

static void load__paths_move_where_it_is_worth_it(void **state)
{
	(void)state;
	rig_work();
	struct ctl_route *first = rig_route();
	double gbps = rig.c->job[0].gbps;
	assert_true(rig_stops_at(first, "M1"));
	assert_true(rig_says("load {\"link\":[\"M1\",\"A\"],\"gbps\":1}", "ok"));
	rig_wait(100, 6);
	assert_ptr_equal(rig_route(), first); /* nothing is gained by moving */
	assert_true(rig_says("load {\"link\":[\"M1\",\"A\"],\"gbps\":19}", "ok"));
	rig_wait(FAN_CTL_LOOK_MS + 100, 6);
	assert_true(rig_stops_at(rig_route(), "M2") && !rig_stops_at(rig_route(), "M1"));
	assert_true(rig.c->job[0].gbps < gbps && rig.c->job[0].gbps > 1);
	assert_true(rig_says("why j", "load on link M1-A is 19 Gb/s"));
	assert_true(rig_says("status", "link A-M1: others use 19 Gb/s"));
	assert_int_equal(first->state, CTL_READY); /* until all ranks have moved */
}

/* They stay where they are, and are to send less, so that queues do not grow. */
static void load__ranks_are_told_their_new_rate(void **state)
{
	(void)state;
	rig_work();
	struct ctl_route *first = rig_route();
	double gbps = rig.c->job[0].part[0].gbps;
	assert_true(rig_says("load {\"node\":\"A\",\"gbps\":2.5}", "ok"));
	rig_wait(100, 6);
	assert_ptr_equal(rig_route(), first);
	for (unsigned r = 0; r < 4; r++) {
		json_t *o = rig_take(10 + r, "move");
		const json_t *m = json_object_get(o, "move");
		assert_int_equal(rig_number(m, "route"), first->number);
		double now = json_number_value(json_object_get(m, "gbps"));
		assert_true(now > 0 && now < 0.99 * gbps);
		rig_say(10 + r, "{\"moved\":{\"part\":0,\"route\":%u}}", first->number);
		json_decref(o);
	}
	rig_wait(100, 6);
	assert_ptr_equal(rig_route(), first);
	assert_int_equal(first->state, CTL_READY);
	rig_say(0, "{\"health\":{}}");
	rig_says("replan", "ok");
	rig_wait(100, 6);
	assert_null(rig_take(10, "move")); /* nothing is new */
}

static void load__a_given_plan_stays(void **state)
{
	struct fan_why why;
	(void)state;
	rig_work();
	json_t *plan = ctl_plan_json(rig.c);
	rig_close(NULL);
	assert_int_equal(rig_new(rig_topology, plan, &why), FAN_OK);
	rig_work();
	assert_true(rig_says("load {\"link\":[\"A\",\"M1\"],\"gbps\":19}", "ok"));
	rig_wait(FAN_CTL_LOOK_MS + 100, 6);
	assert_true(rig_stops_at(rig_route(), "M1"));
	assert_true(rig_says("replan", "ok"));
	rig_wait(100, 6);
	assert_true(rig_stops_at(rig_route(), "M2"));
	json_decref(plan);
}

static void load__zero_takes_it_away(void **state)
{
	(void)state;
	rig_work();
	assert_true(rig_says("load {\"link\":[\"A\",\"M1\"],\"gbps\":19}", "ok"));
	rig_wait(100, 6);
	assert_true(rig_stops_at(rig_route(), "M2"));
	assert_true(rig_says("load {\"link\":[\"A\",\"M1\"],\"gbps\":0}", "ok"));
	rig_wait(FAN_CTL_LOOK_MS + 100, 6);
	assert_true(rig_stops_at(rig_route(), "M1"));
	json_t *list = ctl_load_json(rig.c);
	assert_int_equal(json_array_size(list), 0);
	json_decref(list);
}

static void load__paths_are_not_looked_at_all_the_time(void **state)
{
	(void)state;
	rig_work();
	assert_true(rig_says("load {\"node\":\"A\",\"gbps\":1}", "ok"));
	rig_wait(50, 6);
	uint64_t plans = rig.c->plans;
	for (unsigned i = 0; i < 20; i++) {
		char line[80];
		snprintf(line, sizeof line, "load {\"node\":\"A\",\"gbps\":%u}", 2 + i % 5);
		assert_true(rig_says(line, "ok"));
		rig_wait(100, 6);
	}
	assert_int_equal(rig.c->plans, plans);
	assert_true(fan_ctl_deadline(rig.c) <= rig.now_ns + FAN_CTL_LOOK_MS * CTL_MS);
	rig_wait(FAN_CTL_LOOK_MS, 6);
	assert_int_equal(rig.c->plans, plans + 1);
	assert_true(rig_says("load {\"node\":\"A\",\"gbps\":6}", "ok")); /* as it is: no news */
	rig_wait(2 * FAN_CTL_LOOK_MS, 6);
	assert_int_equal(rig.c->plans, plans + 1);
}

/* Something goes while looking is not due: it is mended at once, and looked at later. */
static void load__failures_do_not_wait_for_it(void **state)
{
	(void)state;
	rig_work();
	assert_true(rig_says("load {\"node\":\"A\",\"gbps\":1}", "ok"));
	rig_wait(50, 6);
	assert_true(rig_says("load {\"node\":\"A\",\"gbps\":2}", "ok"));
	uint64_t plans = rig.c->plans;
	rig_closes(1);
	rig_wait(100, 6);
	assert_int_equal(rig.c->plans, plans + 1);
	assert_true(rig_stops_at(rig_route(), "M2"));
	assert_int_equal(rig.c->wanted, CTL_LOOK);
	rig_wait(FAN_CTL_LOOK_MS, 6);
	assert_int_equal(rig.c->wanted, CTL_MEND);
	assert_int_equal(rig.c->plans, plans + 2);
}

/* People need not wait until looking is due, and a further load does not take it back. */
static void load__a_search_is_not_put_off(void **state)
{
	(void)state;
	rig_work();
	assert_true(rig_says("load {\"node\":\"A\",\"gbps\":1}", "ok"));
	rig_wait(50, 6);
	uint64_t plans = rig.c->plans;
	assert_true(rig_says("replan", "ok"));
	assert_true(rig_says("load {\"node\":\"A\",\"gbps\":2}", "ok"));
	assert_int_equal(rig.c->wanted, CTL_SEARCH);
	rig_wait(50, 6);
	assert_int_equal(rig.c->wanted, CTL_MEND);
	assert_int_equal(rig.c->plans, plans + 1);
	rig_wait(2 * FAN_CTL_LOOK_MS, 6);
	assert_int_equal(rig.c->plans, plans + 1);
}

static void load__nonsense_is_refused(void **state)
{
	static const struct {
		const char *line, *why;
	} bad[] = {
		{"load", "expected {\"link\""},
		{"load x", "expected {\"link\""},
		{"load 7", "expected {\"link\""},
		{"load {}", "expected {\"link\""},
		{"load {\"gbps\":1}", "expected {\"link\""},
		{"load {\"link\":[\"A\",\"M1\"]}", "expected {\"link\""},
		{"load {\"link\":[\"A\"],\"gbps\":1}", "expected {\"link\""},
		{"load {\"link\":7,\"gbps\":1}", "expected {\"link\""},
		{"load {\"link\":[\"A\",\"M1\",\"B\"],\"gbps\":1}", "expected {\"link\""},
		{"load {\"link\":[\"A\",\"M1\"],\"node\":\"A\",\"gbps\":1}", "expected {\"link\""},
		{"load {\"link\":[\"A\",\"B\"],\"gbps\":1}", "no link \"A\" to \"B\" in t.json"},
		{"load {\"link\":[\"A\",\"A\"],\"gbps\":1}", "no link \"A\" to \"A\""},
		{"load {\"link\":[\"A\",\"X\"],\"gbps\":1}", "no link \"A\" to \"X\""},
		{"load {\"link\":[\"A\",\"M1\"],\"gbps\":20}", "less than the 20"},
		{"load {\"link\":[\"A\",\"M1\"],\"gbps\":-1}", "0 or more"},
		{"load {\"node\":\"X\",\"gbps\":1}", "no node \"X\""},
		{"load {\"node\":\"M1\",\"gbps\":1}", "has no rate of its own"},
		{"load {\"node\":\"A\",\"gbps\":10}", "less than the 10"},
	};
	(void)state;
	rig_work();
	uint64_t plans = rig.c->plans;
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_true(rig_says(bad[i].line, "error: "));
		assert_true(rig_says(bad[i].line, bad[i].why));
	}
	rig_wait(100, 6);
	assert_int_equal(rig.c->plans, plans);
}

static void load__the_next_controller_knows_it(void **state)
{
	struct fan_why why;
	(void)state;
	rig_work();
	assert_true(rig_says("load {\"link\":[\"A\",\"M1\"],\"gbps\":19}", "ok"));
	assert_true(rig_says("load {\"node\":\"A\",\"gbps\":3.5}", "ok"));
	rig_wait(100, 6);
	json_t *left = fan_ctl_state(rig.c);
	rig_close(NULL);
	json_array_append_new(json_object_get(left, "loads"),
			      json_pack("{s[ss] sf}", "link", "A", "gone", "gbps", 1.0));
	assert_int_equal(rig_begin(rig_topology, NULL, left, &why), FAN_OK);
	assert_true(rig_noted("loads[2] of an earlier controller: no link \"A\" to \"gone\""));
	assert_true(rig_says("status", "link A-M1: others use 19 Gb/s"));
	assert_true(rig_says("status", "switch A: others use 3.5 Gb/s"));
	assert_int_equal(rig.c->wanted, CTL_MEND);
	json_decref(left);
}

/* As much as leaves next to nothing beside what the topology says: a link that is busy is not
 * gone. */
static void load__something_is_always_left(void **state)
{
	(void)state;
	json_t *said = json_pack("{sf sf}", "gbps", 10.0, "background_gbps", 4.0);
	json_t *o = ctl_load_on(said, 5.99);
	assert_true(json_number_value(json_object_get(o, "background_gbps")) <= 9.9);
	assert_true(json_number_value(json_object_get(said, "background_gbps")) <= 4);
	json_decref(o);
	o = ctl_load_on(said, 0);
	assert_ptr_equal(o, said);
	json_decref(o);
	json_decref(said);
}

/* ---- as daemons measure it ---- */

static unsigned list_of(unsigned conn)
{
	return rig.c->node[conn].list;
}

/* A report of A, which is on connection 0, each 100 ms; `others` is a JSON object. */
static void measures(const char *others, unsigned ms)
{
	for (unsigned i = 0; i < ms; i += 100) {
		rig_say(0, "{\"health\":{\"neighbours\":%u,\"silent\":[],\"others\":%s}}",
			list_of(0), others);
		rig_wait(90, 6);
	}
}

static struct ctl_link *link_of(const char *a, const char *b)
{
	return &rig.c->link[ctl_link_between(rig.c, a, b)];
}

static void measured__the_next_path_leaves_it_out(void **state)
{
	(void)state;
	rig_work();
	assert_true(rig_stops_at(rig_route(), "M1"));
	measures("{\"M1\":18,\"M2\":0.1}", FAN_CTL_OTHERS_RISE_MS - 100);
	assert_true(ctl_load_of(link_of("A", "M1")) <= 0); /* it may be a burst */
	measures("{\"M1\":18,\"M2\":0.1}", FAN_CTL_LOOK_MS + 200);
	assert_true(rig_stops_at(rig_route(), "M2") && !rig_stops_at(rig_route(), "M1"));
	assert_true(ctl_load_of(link_of("A", "M1")) >= 17.99);
	assert_true(ctl_load_of(link_of("A", "M2")) <= 0); /* a fortieth is none */
	assert_true(
		rig_says("status", "link A-M1: others use 18 Gb/s, of which its ends measure 18"));
	assert_true(rig_says("status json", "\"measured_gbps\": 18"));
	assert_true(rig_noted("load on link A-M1, as measured: 18 Gb/s"));
	assert_true(rig_says("load {\"link\":[\"A\",\"M1\"],\"gbps\":19}", "ok"));
	assert_true(ctl_load_of(link_of("A", "M1")) >= 18.99); /* the larger counts */
}

/* Later each time that it rose, however often others come and go. */
static void measured__it_falls_slowly(void **state)
{
	(void)state;
	rig_work();
	struct ctl_link *l = link_of("A", "M1");
	for (unsigned i = 0; i < 3; i++) {
		measures("{\"M1\":18}", FAN_CTL_OTHERS_RISE_MS + 200);
		assert_int_equal(l->others.rises, i + 1);
		measures("{\"M1\":0}", (FAN_CTL_OTHERS_FALL_MS << i) - 200);
		assert_true(ctl_load_of(l) >= 17.99);
		measures("{\"M1\":0}", 400);
		assert_true(ctl_load_of(l) <= 0);
	}
	uint64_t plans = rig.c->plans;
	for (unsigned i = 0; i < 40; i++) /* 88 s of that */
		measures(i % 2 ? "{\"M1\":18}" : "{\"M1\":0}", 2200);
	assert_true(rig.c->plans <= plans + 2);
	measures("{\"M1\":0}", FAN_CTL_CALM_MS);
	assert_int_equal(l->others.rises, 0);
	assert_true(ctl_load_of(l) <= 0);
}

/* A mean that grows from report to report is one rise; and after a long time without others that
 * have come and gone, all are waited for as long as the last time. */
static void measured__a_ramp_rises_once(void **state)
{
	(void)state;
	rig_work();
	struct ctl_link *l = link_of("A", "M1");
	for (unsigned i = 0; i < 4; i++) {
		measures("{\"M1\":6}", FAN_CTL_OTHERS_RISE_MS + 200);
		measures("{\"M1\":18}", FAN_CTL_OTHERS_RISE_MS + 200);
		assert_int_equal(l->others.rises, i + 1);
		measures("{\"M1\":0}", (FAN_CTL_OTHERS_FALL_MS << i) + 200);
		assert_true(ctl_load_of(l) <= 0);
	}
	for (unsigned i = 0; i < 3; i++) { /* it would fall after 640 s */
		measures("{\"M1\":18}", FAN_CTL_OTHERS_RISE_MS + 200);
		l->others.rises = FAN_CTL_OTHERS_DOUBLINGS + 1;
		measures("{\"M1\":0}", (FAN_CTL_OTHERS_FALL_MS << FAN_CTL_OTHERS_DOUBLINGS) - 500);
		assert_true(ctl_load_of(l) >= 17.99);
		measures("{\"M1\":0}", 1000);
		assert_true(ctl_load_of(l) <= 0);
	}
	measures("{\"M1\":0}", 200);
	assert_int_equal(l->others.rises, 0);
}

static void measured__it_grows_old(void **state)
{
	(void)state;
	rig_work();
	struct ctl_link *l = link_of("A", "M1");
	measures("{\"M1\":10}", FAN_CTL_OTHERS_RISE_MS + 200);
	assert_true(ctl_load_of(l) >= 9.99);
	rig_wait(FAN_CTL_OTHERS_OLD_MS + FAN_CTL_OTHERS_FALL_MS + 200,
		 6); /* A reports without it */
	assert_true(ctl_load_of(l) <= 0);
	json_t *left = fan_ctl_state(rig.c);
	assert_int_equal(json_array_size(json_object_get(left, "loads")), 0);
	json_decref(left);
}

/* Whatever it says, a tenth of its own links is left, and other links are none of its business. */
static void measured__lies_are_bounded(void **state)
{
	static const char *const lies[] = {"{\"M1\":1e300,\"M2\":-1e300}",
					   "{\"M1\":21,\"B\":5,\"A\":7,\"W1\":10}",
					   "{\"M1\":20.0,\"M2\":\"4\",\"X\":{}}"};
	static const char *const nonsense[] = {
		"7", "[20]", "\"M1\"", "{\"M1\":[18]}", "{\"M1\":true}", "null"};
	(void)state;
	rig_work();
	for (unsigned i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
		measures(nonsense[i], FAN_CTL_OTHERS_RISE_MS + 200);
	assert_true(ctl_load_of(link_of("A", "M1")) <= 0);
	for (unsigned i = 0; i < sizeof lies / sizeof lies[0]; i++) {
		measures(lies[i], FAN_CTL_LOOK_MS);
		assert_true(fabs(ctl_load_of(link_of("A", "M1")) - 18) < 1e-9);
		for (unsigned k = 0; k < rig.c->links; k++)
			if (&rig.c->link[k] != link_of("A", "M1"))
				assert_true(ctl_load_of(&rig.c->link[k]) <= 0);
	}
	assert_int_equal(link_of("A", "M1")->others.rises, 1);
}

/* What the topology says is in use is measured as well, and counts once. */
static void measured__beside_what_the_topology_says(void **state)
{
	struct fan_why why;
	char topology[sizeof rig_topology + 32];
	(void)state;
	rig_close(NULL);
	const char *at = strstr(rig_topology, "\"b\":\"M1\",");
	snprintf(topology, sizeof topology, "%.*s\"background_gbps\":5,%s",
		 (int)(at + 9 - rig_topology), rig_topology, at + 9);
	assert_int_equal(rig_new(topology, NULL, &why), FAN_OK);
	rig_work();
	measures("{\"M1\":5}", 3000);
	assert_true(ctl_load_of(link_of("A", "M1")) <= 0);
	measures("{\"M1\":12}", 3000);
	assert_true(fabs(ctl_load_of(link_of("A", "M1")) - 7) < 1e-9);
}

static bool all_beside(void *ctx, unsigned conn, unsigned other)
{
	(void)ctx;
	return conn <= other;
}

/* Of what comes to a host of several daemons, or of ranks, one cannot tell what is others'. */
static void measured__only_where_a_daemon_is_alone(void **state)
{
	(void)state;
	rig_work();
	rig.c->o.is_beside = all_beside;
	measures("{\"M1\":18}", 3000);
	assert_true(ctl_load_of(link_of("A", "M1")) <= 0);
	rig.c->o.is_beside = NULL;
	measures("{\"M1\":18}", 3000);
	assert_true(ctl_load_of(link_of("A", "M1")) > 0);
}

/* ---- drained, and come ---- */

/* All ranks say that they go by the first part's route now, and switches what they are asked. */
static void all_move(void)
{
	rig_answer_all();
	rig_wait(50, 6);
	for (unsigned r = 0; r < 4; r++)
		rig_say(10 + r, "{\"moved\":{\"part\":0,\"route\":%u}}", rig_route()->number);
	rig_wait(4000, 6);
	rig_answer_all();
	rig_wait(50, 6);
}

static void drain__jobs_leave_a_switch_that_lives(void **state)
{
	(void)state;
	rig_work();
	struct ctl_route *first = rig_route();
	assert_true(rig_stops_at(first, "M1"));
	assert_true(rig_says("drain M1", "ok"));
	rig_wait(100, 6);
	assert_true(rig_stops_at(rig_route(), "M2") && !rig_stops_at(rig_route(), "M1"));
	assert_int_equal(first->state, CTL_READY); /* until all ranks have moved */
	assert_false(rig.c->node[1].empty);
	all_move();
	assert_true(rig_noted("M1 is drained: it may be stopped"));
	assert_true(rig_says("status", "M1: up, drained, for"));
	assert_true(rig_says("drain M1", "ok")); /* it is */
	rig_closes(1);
	rig_wait(100, 6);
	rig_hello(1, "switch", "M1", 2, "");
	rig_wait(FAN_CTL_OFFER_MS + 200, 6);
	assert_true(rig_stops_at(rig_route(), "M2")); /* whoever restarts */
	assert_true(rig_says("undrain M1", "ok"));
	rig_wait(FAN_CTL_LOOK_MS + 200, 6);
	assert_true(rig_stops_at(rig_route(), "M1"));
}

static void drain__survives_the_controller(void **state)
{
	(void)state;
	rig_daemons();
	assert_true(rig_says("drain M1", "ok"));
	rig_restart(rig_topology);
	rig_work();
	assert_true(rig_stops_at(rig_route(), "M2") && !rig_stops_at(rig_route(), "M1"));
}

static void drain__what_cannot_be(void **state)
{
	(void)state;
	rig_work();
	assert_true(rig_says("drain X", "error: no switch or server \"X\" in t.json"));
	assert_true(rig_says("drain W1", "error: no switch or server \"W1\""));
	assert_true(rig_says("drain", "error: no switch or server \"\""));
	assert_true(rig_says("drain PS", "error: job \"j\" has no other server that is there"));
	assert_false(rig.c->node[4].drained);
	struct ctl_route *first = rig_route();
	assert_true(rig_says("drain A", "ok")); /* there is no way around it */
	rig_wait(100, 6);
	assert_ptr_equal(rig_route(), first);
	assert_true(rig_says("why j", "not planned, since A is to be drained"));
	assert_true(rig_says("undrain A", "ok"));
	rig_wait(300, 6);
	assert_ptr_equal(rig_route(), first);
}

static void drain__jobs_of_a_server_begin_again(void **state)
{
	struct fan_why why;
	(void)state;
	char topology[sizeof rig_topology + 16];
	rig_close(NULL);
	snprintf(topology, sizeof topology, "%.*s[\"PS\",\"PT\"]}]}",
		 (int)(strstr(rig_topology, "[\"PS\"]") - rig_topology), rig_topology);
	assert_int_equal(rig_new(topology, NULL, &why), FAN_OK);
	rig_work();
	const uint32_t ps = ctl_node_named(rig.c, "PS");
	assert_int_equal(rig.c->job[0].part[0].server, ps);
	assert_true(rig_says("drain PS", "ok"));
	rig_wait(200, 6);
	rig_answer_all();
	rig_wait(50, 6);
	for (uint32_t p = 0; p < rig.c->job[0].parts; p++)
		assert_int_not_equal(rig.c->job[0].part[p].server, ps);
	for (unsigned r = 0; r < 4; r++) {
		json_t *o = rig_take(10 + r, "again");
		assert_true(rig_has(rig_text(json_object_get(o, "again"), "why"),
				    "PS is to be drained"));
		json_decref(o);
	}
	rig_wait(FAN_CTL_LINGER_MS + 100, 6); /* for LEAVEs */
	rig_answer_all();
	rig_wait(50, 6);
	assert_true(rig_noted("PS is drained: it may be stopped"));
	assert_true(rig_says("drain PT", "error: job \"j\" has no other server"));
}

/* It has gone and come, and jobs move back for the wider path, later each time. */
static void offer__who_comes_is_used_by_running_jobs(void **state)
{
	(void)state;
	rig_work();
	for (unsigned i = 1; i < 3; i++) {
		assert_true(rig_stops_at(rig_route(), "M1"));
		rig_closes(1);
		rig_wait(100, 6);
		assert_true(rig_stops_at(rig_route(), "M2"));
		all_move();
		rig_hello(1, "switch", "M1", 1 + i, "");
		rig_wait((FAN_CTL_OFFER_MS << i) - 200, 6);
		assert_true(rig_stops_at(rig_route(), "M2"));
		rig_wait(FAN_CTL_LOOK_MS + 400, 6);
		assert_true(rig_stops_at(rig_route(), "M1"));
		all_move();
	}
	rig.c->node[1].since_ns -= FAN_CTL_CALM_MS * CTL_MS;
	rig_closes(1);
	rig_wait(100, 6);
	assert_int_equal(rig.c->node[1].goes, 1); /* what was long ago is forgotten */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(load__paths_move_where_it_is_worth_it),
		RIG_TEST(load__ranks_are_told_their_new_rate),
		RIG_TEST(load__a_given_plan_stays),
		RIG_TEST(load__zero_takes_it_away),
		RIG_TEST(load__paths_are_not_looked_at_all_the_time),
		RIG_TEST(load__failures_do_not_wait_for_it),
		RIG_TEST(load__a_search_is_not_put_off),
		RIG_TEST(load__nonsense_is_refused),
		RIG_TEST(load__the_next_controller_knows_it),
		RIG_TEST(load__something_is_always_left),
		RIG_TEST(measured__the_next_path_leaves_it_out),
		RIG_TEST(measured__it_falls_slowly),
		RIG_TEST(measured__a_ramp_rises_once),
		RIG_TEST(measured__it_grows_old),
		RIG_TEST(measured__lies_are_bounded),
		RIG_TEST(measured__beside_what_the_topology_says),
		RIG_TEST(measured__only_where_a_daemon_is_alone),
		RIG_TEST(drain__jobs_leave_a_switch_that_lives),
		RIG_TEST(drain__survives_the_controller),
		RIG_TEST(drain__what_cannot_be),
		RIG_TEST(drain__jobs_of_a_server_begin_again),
		RIG_TEST(offer__who_comes_is_used_by_running_jobs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

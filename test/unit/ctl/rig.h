/* SPDX-License-Identifier: Apache-2.0 */
/* ctl_rig.h - a controller with made-up daemons and workers, in virtual time.
 *
 *     W1 W2 - A --- M1 --- B - W3 W4
 *              \           / \
 *               `-- M2 ---'   PS, PT
 *
 * Daemons answer what they are told as it suits the test: rig_answer. */
#ifndef TEST_UNIT_CTL_RIG_H
#define TEST_UNIT_CTL_RIG_H

#include <jansson.h>

#include "core/base/err.h"
#include "ctl/ctl_priv.h"
#include "unit/unit.h"

#define RIG_LINES_MAX 512

static const char rig_topology[] =
	"{\"nodes\":[{\"name\":\"A\",\"kind\":\"switch\",\"gbps\":10},"
	"{\"name\":\"M1\",\"kind\":\"switch\"},"
	"{\"name\":\"M2\",\"kind\":\"switch\"},"
	"{\"name\":\"B\",\"kind\":\"switch\"},"
	"{\"name\":\"PS\",\"kind\":\"server\"},{\"name\":\"PT\",\"kind\":\"server\"},"
	"{\"name\":\"W1\",\"kind\":\"worker\"},{\"name\":\"W2\",\"kind\":\"worker\"},"
	"{\"name\":\"W3\",\"kind\":\"worker\"},{\"name\":\"W4\",\"kind\":\"worker\"}],"
	"\"links\":[{\"a\":\"W1\",\"b\":\"A\",\"gbps\":10},{\"a\":\"W2\",\"b\":\"A\",\"gbps\":10},"
	"{\"a\":\"W3\",\"b\":\"B\",\"gbps\":10},{\"a\":\"W4\",\"b\":\"B\",\"gbps\":10},"
	"{\"a\":\"A\",\"b\":\"M1\",\"gbps\":20},{\"a\":\"A\",\"b\":\"M2\",\"gbps\":4},"
	"{\"a\":\"M1\",\"b\":\"B\",\"gbps\":20},{\"a\":\"M2\",\"b\":\"B\",\"gbps\":4},"
	"{\"a\":\"PS\",\"b\":\"B\",\"gbps\":15},{\"a\":\"PT\",\"b\":\"B\",\"gbps\":1}],"
	"\"jobs\":[{\"name\":\"j\",\"workers\":[\"W1\",\"W2\",\"W3\",\"W4\"],"
	"\"servers\":[\"PS\"]}]}";

static struct rig {
	struct fan_ctl *c;
	uint64_t now_ns;
	unsigned lines; /* sent and not taken yet, all connections */
	struct {
		unsigned conn;
		json_t *value;
	} line[RIG_LINES_MAX];
	bool closed[FAN_CTL_CONNS_MAX];
	char event[FAN_CTL_EVENT_BYTES]; /* the last one */
	json_t *root;
} rig;

static inline void rig_send(void *ctx, unsigned conn, const char *line, size_t bytes)
{
	(void)ctx;
	assert_true(rig.lines < RIG_LINES_MAX);
	rig.line[rig.lines].conn = conn;
	rig.line[rig.lines].value = json_loadb(line, bytes, 0, NULL);
	assert_non_null(rig.line[rig.lines].value);
	rig.lines++;
}

static inline void rig_hang_up(void *ctx, unsigned conn)
{
	(void)ctx;
	rig.closed[conn] = true;
}

static inline void rig_event(void *ctx, const char *event)
{
	(void)ctx;
	snprintf(rig.event, sizeof rig.event, "%s", event);
}

static inline bool rig_is_address(const char *text)
{
	return strchr(text, ':') != NULL;
}

/* `given`: a plan; `state`: of an earlier controller; NULL: none. */
static inline int rig_begin(const char *topology, const json_t *given, const json_t *state,
			    struct fan_why *why)
{
	struct fan_ctl_options o = {
		.file = "t.json",
		.algorithm = fan_algorithm_find("best"),
		.plan = fan_plan_defaults,
		.given = given,
		.state = state,
		.wait_ms = 5000,
		.is_address = rig_is_address,
		.send = rig_send,
		.close = rig_hang_up,
		.log = rig_event,
	};
	o.plan.trees = 1;
	memset(&rig, 0, sizeof rig);
	rig.now_ns = 1000 * CTL_MS;
	rig.root = json_loads(topology, 0, NULL);
	assert_non_null(rig.root);
	return fan_ctl_new(&rig.c, rig.root, &o, rig.now_ns, why);
}

static inline int rig_new(const char *topology, const json_t *given, struct fan_why *why)
{
	return rig_begin(topology, given, NULL, why);
}

static inline int rig_open(void **state)
{
	struct fan_why why;
	(void)state;
	assert_int_equal(rig_new(rig_topology, NULL, &why), FAN_OK);
	return 0;
}

static inline int rig_close(void **state)
{
	(void)state;
	for (unsigned i = 0; i < rig.lines; i++)
		json_decref(rig.line[i].value);
	fan_ctl_free(rig.c);
	json_decref(rig.root);
	memset(&rig, 0, sizeof rig);
	return 0;
}

/* The next controller, with what this one has written. */
static inline void rig_restart(const char *topology)
{
	struct fan_why why;
	json_t *left = fan_ctl_state(rig.c);

	rig_close(NULL);
	assert_int_equal(rig_begin(topology, NULL, left, &why), FAN_OK);
	json_decref(left);
}

static inline void rig_say(unsigned conn, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static inline void rig_say(unsigned conn, const char *format, ...)
{
	char text[4096];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fan_ctl_line(rig.c, rig.now_ns, conn, text, strlen(text));
}

/* The next line to `conn` that has `key`, a new reference; NULL: none.  Others to it are lost. */
static inline json_t *rig_take(unsigned conn, const char *key)
{
	for (unsigned i = 0; i < rig.lines; i++) {
		if (rig.line[i].conn != conn)
			continue;
		json_t *value = rig.line[i].value;
		memmove(&rig.line[i], &rig.line[i + 1], (rig.lines - i - 1) * sizeof rig.line[0]);
		rig.lines--;
		if (json_object_get(value, key))
			return value;
		json_decref(value);
		i--;
	}
	return NULL;
}

/* Time passes, with a tick each 10 ms; daemons on connections below `daemons` say that they
 * live. */
static inline void rig_wait(unsigned ms, unsigned daemons)
{
	for (unsigned i = 0; i <= ms; i += 10) {
		for (unsigned conn = 0; conn < daemons; conn++)
			if (rig.c->conn[conn].kind == CTL_CONN_NODE)
				rig_say(conn, "{\"health\":{\"packets\":1}}");
		fan_ctl_tick(rig.c, rig.now_ns);
		rig.now_ns += 10 * CTL_MS;
	}
}

/* A daemon says hello on `conn`. */
static inline void rig_hello(unsigned conn, const char *kind, const char *name, unsigned started,
			     const char *routes)
{
	fan_ctl_opened(rig.c, rig.now_ns, conn);
	rig_say(conn,
		"{\"hello\":\"%s\",\"name\":\"%s\",\"listen\":\"%s:7\",\"shards\":1,\"slots\":64,"
		"\"started\":%u,\"routes\":[%s]}",
		kind, name, name, started, routes);
}

/* Daemons on connections 0 .. 5, in the topology's order. */
static inline void rig_daemons(void)
{
	static const char *const names[] = {"A", "M1", "M2", "B", "PS", "PT"};
	for (unsigned i = 0; i < 6; i++)
		rig_hello(i, i < 4 ? "switch" : "server", names[i], 1, "");
	rig_wait(200, 6);
}

/* Daemon `conn` says yes to all that it has been told; how much that was. */
static inline unsigned rig_answer(unsigned conn)
{
	unsigned count = 0;
	for (json_t *o; (o = rig_take(conn, "id")); count++) {
		rig_say(conn, "{\"ok\":%lld}",
			(long long)json_integer_value(json_object_get(o, "id")));
		json_decref(o);
	}
	return count;
}

static inline void rig_answer_all(void)
{
	for (unsigned i = 0; i < 6; i++)
		rig_answer(i);
}

/* Rank r of job j joins on connection 10 + r. */
static inline void rig_join(unsigned rank)
{
	fan_ctl_opened(rig.c, rig.now_ns, 10 + rank);
	rig_say(10 + rank, "{\"join\":{\"job\":\"j\",\"rank\":%u,\"ranks\":4}}", rank);
}

static inline void rig_closes(unsigned conn)
{
	fan_ctl_closed(rig.c, rig.now_ns, conn);
}

/* All daemons and workers are there, and workers have their parts, which are taken. */
static inline void rig_work(void)
{
	rig_daemons();
	rig_answer_all();
	for (unsigned r = 0; r < 4; r++) {
		rig_join(r);
		json_t *o = rig_take(10 + r, "job");
		assert_non_null(o);
		json_decref(o);
	}
}

static inline const char *rig_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static inline long long rig_number(const json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

static inline bool rig_has(const char *text, const char *part)
{
	if (strstr(text, part))
		return true;
	print_message("\"%s\" is not in \"%s\"\n", part, text);
	return false;
}

/* `conn` was refused, with this in the text. */
static inline bool rig_refused(unsigned conn, const char *part)
{
	json_t *o = rig_take(conn, "refused");
	bool so = o && rig.closed[conn] && rig_has(rig_text(o, "refused"), part);
	json_decref(o);
	return so;
}

static inline bool rig_says(const char *question, const char *part)
{
	char *text = fan_ctl_ask(rig.c, rig.now_ns, question, strlen(question));
	bool so = text && rig_has(text, part);
	free(text);
	return so;
}

/* Is this in the events? */
static inline bool rig_noted(const char *part)
{
	uint64_t first =
		rig.c->events > FAN_CTL_EVENTS_MAX ? rig.c->events - FAN_CTL_EVENTS_MAX : 0;
	for (uint64_t i = first; i < rig.c->events; i++)
		if (strstr(rig.c->event[i % FAN_CTL_EVENTS_MAX].what, part))
			return true;
	print_message("nothing with \"%s\" was noted; last: %s\n", part, rig.event);
	return false;
}

/* The route of the first job's first part. */
static inline struct ctl_route *rig_route(void)
{
	return rig.c->job[0].part[0].route;
}

static inline bool rig_stops_at(const struct ctl_route *r, const char *name)
{
	uint32_t node = ctl_node_named(rig.c, name);
	for (uint32_t i = 0; i < r->stops; i++)
		if (r->stop[i].node == node)
			return true;
	return false;
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_open, rig_close)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from daemons, workers and people to a controller.  Each line of the input begins with
 * who says it: 0 .. 7 a connection, which opens then; c0 .. c7 it closes; t time passes; y the
 * connection named by the last install says that it is done; all else is asked.  Whatever comes,
 * what goes out is JSON in a line, to connections that are open. */
#include "fuzz.h"

#include "core/base/err.h"
#include "ctl/ctl.h"
#include "plan/topo_json.h"

#define CONNS	8
#define TICK_NS UINT64_C(110000000)

static const char topology[] =
	"{\"nodes\":[{\"name\":\"A\",\"kind\":\"switch\",\"gbps\":10},"
	"{\"name\":\"B\",\"kind\":\"switch\",\"gbps\":5},{\"name\":\"PS\",\"kind\":\"server\"},"
	"{\"name\":\"W1\",\"kind\":\"worker\"},{\"name\":\"W2\",\"kind\":\"worker\"}],"
	"\"links\":[{\"a\":\"W1\",\"b\":\"A\",\"gbps\":9},{\"a\":\"W2\",\"b\":\"B\",\"gbps\":9},"
	"{\"a\":\"A\",\"b\":\"B\",\"gbps\":9},{\"a\":\"PS\",\"b\":\"B\",\"gbps\":9},"
	"{\"a\":\"PS\",\"b\":\"A\",\"gbps\":3}],"
	"\"jobs\":[{\"name\":\"j\",\"workers\":[\"W1\",\"W2\"],\"servers\":[\"PS\"]}]}";

struct state {
	bool open[CONNS];
	unsigned asked_of; /* who was told to do something last... */
	json_int_t id;	   /* ...and under which number */
};

static void out(void *ctx, unsigned conn, const char *line, size_t bytes)
{
	struct state *s = ctx;
	json_t *value = json_loadb(line, bytes, 0, NULL);

	FUZZ_CHECK(conn < CONNS && s->open[conn]);
	FUZZ_CHECK(json_is_object(value) && !memchr(line, '\n', bytes));
	if (json_object_get(value, "id")) {
		s->asked_of = conn;
		s->id = json_integer_value(json_object_get(value, "id"));
	}
	json_decref(value);
}

static void hang_up(void *ctx, unsigned conn)
{
	struct state *s = ctx;

	FUZZ_CHECK(conn < CONNS && s->open[conn]);
	s->open[conn] = false;
}

static bool is_address(const char *text)
{
	return strchr(text, ':') != NULL;
}

static void say(struct fan_ctl *c, struct state *s, uint64_t now_ns, unsigned conn,
		const char *text, size_t bytes)
{
	if (!s->open[conn]) {
		s->open[conn] = true;
		fan_ctl_opened(c, now_ns, conn);
	}
	fan_ctl_line(c, now_ns, conn, text, bytes);
}

static void one(struct fan_ctl *c, struct state *s, uint64_t *now_ns, const char *line,
		size_t bytes)
{
	char first = line[0];
	char yes[64];

	if (first >= '0' && first < '0' + CONNS) {
		say(c, s, *now_ns, (unsigned)(first - '0'), line + 1, bytes - 1);
	} else if (first == 'c' && bytes == 2 && line[1] >= '0' && line[1] < '0' + CONNS) {
		unsigned conn = (unsigned)(line[1] - '0');
		if (s->open[conn])
			fan_ctl_closed(c, *now_ns, conn);
		s->open[conn] = false;
	} else if (first == 't' && bytes == 1) {
		*now_ns += TICK_NS;
		fan_ctl_tick(c, *now_ns);
		FUZZ_CHECK(fan_ctl_deadline(c) > 0);
	} else if (first == 'y' && bytes == 1 && s->open[s->asked_of]) {
		snprintf(yes, sizeof yes, "{\"ok\":%lld}", (long long)s->id);
		fan_ctl_line(c, *now_ns, s->asked_of, yes, strlen(yes));
	} else {
		char *text = fan_ctl_ask(c, *now_ns, line, bytes);
		FUZZ_CHECK(text && text[0]);
		free(text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state s = {.asked_of = 0};
	struct fan_ctl_options o = {
		.file = "t.json",
		.algorithm = fan_algorithm_find("atp"),
		.plan = fan_plan_defaults,
		.wait_ms = 300,
		.is_address = is_address,
		.send = out,
		.close = hang_up,
		.ctx = &s,
	};
	uint64_t now_ns = 1;
	struct fan_ctl *c;
	struct fan_why why;
	json_t *root = json_loads(topology, 0, NULL);
	char *text = malloc(size + 1), *line = text;

	FUZZ_CHECK(root && text && fan_ctl_new(&c, root, &o, now_ns, &why) == FAN_OK);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	while (line < text + size) {
		char *end = memchr(line, '\n', (size_t)(text + size - line));
		end = end ? end : text + size;
		*end = '\0';
		if (end > line)
			one(c, &s, &now_ns, line, (size_t)(end - line));
		line = end + 1;
	}
	fan_ctl_tick(c, now_ns + TICK_NS);
	json_decref(fan_ctl_status(c, now_ns));
	fan_ctl_free(c);
	json_decref(root);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from daemons, workers and people to a controller.  Each line of the input begins with
 * who says it: 0 .. 7 a connection, which opens then; c0 .. c7 it closes; t time passes; y the
 * connection named by the oldest open install or remove says that it is done; r the next controller
 * goes on with what this one leaves behind, or with the JSON behind it; all else is asked. Whatever
 * comes, what goes out is JSON in a line, to connections that are open, events are lines that a
 * terminal shows, and the status has all nodes and jobs. */
#include "fuzz.h"

#include "core/base/err.h"
#include "ctl/ctl.h"
#include "plan/topo_json.h"

#define CONNS	8
#define ASKED	64 /* installs and removes that are open; more are forgotten */
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
	struct fan_ctl *c;
	struct fan_ctl_options o;
	uint64_t now_ns;
	const json_t *topology;
	bool open[CONNS];
	/* Who was told to do something, and under which number; the oldest first. */
	struct {
		unsigned conn;
		json_int_t id;
	} asked[ASKED];
	unsigned all_asked, answered;
};

static void out(void *ctx, unsigned conn, const char *line, size_t bytes)
{
	struct state *s = ctx;
	json_t *value = json_loadb(line, bytes, 0, NULL);

	FUZZ_CHECK(conn < CONNS && s->open[conn]);
	FUZZ_CHECK(json_is_object(value) && !memchr(line, '\n', bytes));
	if (json_object_get(value, "id")) {
		s->asked[s->all_asked % ASKED].conn = conn;
		s->asked[s->all_asked++ % ASKED].id =
			json_integer_value(json_object_get(value, "id"));
	}
	json_decref(value);
}

static void hang_up(void *ctx, unsigned conn)
{
	struct state *s = ctx;

	FUZZ_CHECK(conn < CONNS && s->open[conn]);
	s->open[conn] = false;
}

static void hear(void *ctx, const char *event)
{
	(void)ctx;
	for (const char *at = event; *at; at++)
		FUZZ_CHECK((unsigned char)*at >= ' ' && *at != 0x7f);
}

static bool is_address(const char *text)
{
	return strchr(text, ':') != NULL;
}

static void say(struct state *s, unsigned conn, const char *text, size_t bytes)
{
	if (!s->open[conn]) {
		s->open[conn] = true;
		fan_ctl_opened(s->c, s->now_ns, conn);
	}
	fan_ctl_line(s->c, s->now_ns, conn, text, bytes);
}

static void say_yes(struct state *s)
{
	char yes[64];
	unsigned i = s->answered % ASKED;

	if (s->answered == s->all_asked)
		return;
	if (s->all_asked - s->answered > ASKED)
		i = (s->answered = s->all_asked - ASKED) % ASKED;
	s->answered++;
	snprintf(yes, sizeof yes, "{\"ok\":%lld}", (long long)s->asked[i].id);
	if (s->open[s->asked[i].conn])
		fan_ctl_line(s->c, s->now_ns, s->asked[i].conn, yes, strlen(yes));
}

static void look(const struct state *s)
{
	json_t *status = fan_ctl_status(s->c);
	json_t *nodes = json_object_get(status, "nodes"), *jobs = json_object_get(status, "jobs");
	json_t *links = json_object_get(status, "links");
	const uint64_t events = fan_ctl_events(s->c);

	FUZZ_CHECK(json_array_size(nodes) ==
		   json_array_size(json_object_get(s->topology, "nodes")));
	for (size_t i = 0; i < json_array_size(links); i++) {
		const json_t *l = json_array_get(links, i);
		const double gbps = json_number_value(json_object_get(l, "measured_gbps"));
		FUZZ_CHECK(gbps >= 0 && gbps < 8.11); /* of 9 at most */
	}
	for (size_t i = 0; i < json_array_size(jobs); i++)
		FUZZ_CHECK(json_is_string(json_object_get(json_array_get(jobs, i), "why")));
	FUZZ_CHECK(json_array_size(json_object_get(status, "events")) ==
		   (events < FAN_CTL_EVENTS_MAX ? events : FAN_CTL_EVENTS_MAX));
	json_decref(status);
}

/* `text`: the state that somebody has left; none: this controller's. */
static void begin_again(struct state *s, const char *text, size_t bytes)
{
	struct fan_why why;
	json_t *left =
		bytes ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL) : fan_ctl_state(s->c);

	fan_ctl_free(s->c);
	s->o.state = left;
	memset(s->open, 0, sizeof s->open);
	s->all_asked = s->answered = 0;
	int e = fan_ctl_new(&s->c, s->topology, &s->o, s->now_ns, &why);
	FUZZ_CHECK(bytes || !e); /* it reads what it writes */
	s->o.state = NULL;
	if (e)
		FUZZ_CHECK(!fan_ctl_new(&s->c, s->topology, &s->o, s->now_ns, &why));
	json_decref(left);
}

static void one(struct state *s, const char *line, size_t bytes)
{
	char first = line[0];

	if (first >= '0' && first < '0' + CONNS) {
		say(s, (unsigned)(first - '0'), line + 1, bytes - 1);
	} else if (first == 'c' && bytes == 2 && line[1] >= '0' && line[1] < '0' + CONNS) {
		unsigned conn = (unsigned)(line[1] - '0');
		if (s->open[conn])
			fan_ctl_closed(s->c, s->now_ns, conn);
		s->open[conn] = false;
	} else if (first == 't' && bytes == 1) {
		s->now_ns += TICK_NS;
		fan_ctl_tick(s->c, s->now_ns);
		FUZZ_CHECK(fan_ctl_deadline(s->c) > 0);
	} else if (first == 'y' && bytes == 1) {
		say_yes(s);
	} else if (first == 'r' && (bytes == 1 || line[1] == '{')) {
		begin_again(s, line + 1, bytes - 1);
	} else {
		char *text = fan_ctl_ask(s->c, s->now_ns, line, bytes);
		FUZZ_CHECK(text && text[0]);
		free(text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state s = {
		.o = {.file = "t.json",
		      .algorithm = fan_algorithm_find("atp"),
		      .plan = fan_plan_defaults,
		      .wait_ms = 300,
		      .is_address = is_address,
		      .send = out,
		      .close = hang_up,
		      .log = hear},
		.now_ns = 1,
	};
	struct fan_why why;
	json_t *root = json_loads(topology, 0, NULL);
	char *text = malloc(size + 1), *line = text;

	s.o.ctx = &s;
	s.topology = root;
	FUZZ_CHECK(root && text && fan_ctl_new(&s.c, root, &s.o, s.now_ns, &why) == FAN_OK);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	while (line < text + size) {
		char *end = memchr(line, '\n', (size_t)(text + size - line));
		end = end ? end : text + size;
		*end = '\0';
		if (end > line)
			one(&s, line, (size_t)(end - line));
		line = end + 1;
	}
	fan_ctl_tick(s.c, s.now_ns + TICK_NS);
	look(&s);
	fan_ctl_free(s.c);
	json_decref(root);
	free(text);
	return 0;
}

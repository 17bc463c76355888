/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/err.h"
#include "net/lines.c"
#include "net/order.h"
#include "net/udp.h"

static struct fan_lines l;
static int other;

static int open_pair(void **state)
{
	int fd[2];
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	take_over(&l, fd[0]);
	other = fd[1];
	return 0;
}

static int close_pair(void **state __attribute__((unused)))
{
	fan_lines_close(&l);
	assert_int_equal(fan_lines_events(&l), 0);
	close(other);
	return 0;
}

static void says(const char *text)
{
	assert_int_equal(write(other, text, strlen(text)), (ssize_t)strlen(text));
}

static void next_is(const char *text)
{
	size_t bytes = 0;
	char *line = fan_lines_next(&l, &bytes);
	if (!text) {
		assert_null(line);
		return;
	}
	assert_non_null(line);
	assert_string_equal(line, text);
	assert_int_equal(bytes, strlen(text));
}

TEST_WITH(lines__come_in_pieces, open_pair, close_pair)
{
	next_is(NULL);
	says("one\ntw");
	assert_int_equal(fan_lines_turn(&l, POLLIN), 0);
	next_is("one");
	next_is(NULL);
	says("o\n\nthree\n");
	assert_int_equal(fan_lines_turn(&l, POLLIN), 0);
	next_is("two");
	next_is("");
	next_is("three");
	next_is(NULL);
}

TEST_WITH(lines__that_were_sent_before_it_closed, open_pair, close_pair)
{
	says("last\nhalf");
	shutdown(other, SHUT_WR);
	assert_int_equal(fan_lines_turn(&l, POLLIN), -ECONNRESET);
	next_is("last");
	next_is(NULL);
}

TEST_WITH(lines__too_long, open_pair, close_pair)
{
	static char block[65536];
	int e = 0;
	memset(block, 'x', sizeof block);
	for (unsigned i = 0; i < 100 && !e; i++) {
		ssize_t n = write(other, block, sizeof block);
		(void)n; /* what did not fit is not needed */
		e = fan_lines_turn(&l, POLLIN);
	}
	assert_int_equal(e, -EMSGSIZE);
	next_is(NULL);
}

/* Who does not read what it is sent is given up. */
TEST_WITH(lines__nobody_reads, open_pair, close_pair)
{
	static char block[65536];
	int e = 0;
	unsigned sent = 0;
	memset(block, 'x', sizeof block);
	for (; sent < 1000 && !e; sent++)
		e = fan_lines_put(&l, block, sizeof block);
	assert_int_equal(e, -ENOBUFS);
	assert_true(sent > FAN_LINES_OUT_MAX / sizeof block - 1);
	assert_true(fan_lines_events(&l) & POLLOUT);
}

TEST_WITH(lines__go_out_whole, open_pair, close_pair)
{
	static char block[200000], got[200002];
	size_t used = 0;
	memset(block, 'y', sizeof block);
	assert_int_equal(fan_lines_put(&l, block, sizeof block), 0);
	assert_int_equal(fan_lines_put(&l, "", 0), 0);
	for (unsigned i = 0; i < 1000 && used < sizeof got; i++) {
		ssize_t n = read(other, got + used, sizeof got - used);
		used += n > 0 ? (size_t)n : 0;
		assert_int_equal(fan_lines_turn(&l, POLLOUT), 0);
	}
	assert_int_equal(used, sizeof got);
	assert_memory_equal(got, block, sizeof block);
	assert_int_equal(got[sizeof block], '\n');
	assert_int_equal(fan_lines_events(&l), POLLIN);
}

/* ---- order ---- */

static struct fan_order o;
static char why[FAN_ORDER_WHY_BYTES];

static int get(const char *text)
{
	return fan_order_get(&o, text, strlen(text), why);
}

TEST(order__install)
{
	assert_int_equal(
		get("{\"id\":7,\"install\":{\"route\":3,\"quota\":5,\"entries\":["
		    "{\"from\":\"10.0.0.2:7000\",\"ranks\":\"0-3,7\",\"next\":\"[fd00::5]:7001\","
		    "\"depth\":2,\"sums\":true},"
		    "{\"from\":null,\"ranks\":\"255\",\"next\":\"10.0.0.5:1\",\"depth\":24,"
		    "\"sums\":false}]}}"),
		FAN_OK);
	char text[80];
	assert_int_equal(o.kind, FAN_ORDER_INSTALL);
	assert_int_equal(o.id, 7);
	assert_int_equal(o.route, 3);
	assert_int_equal(o.quota, 5);
	assert_int_equal(o.entries, 2);
	assert_int_equal(o.entry[0].ranks[0], 0x8f);
	assert_true(o.entry[0].sums);
	assert_string_equal(fan_peer_text(&o.entry[0].next, text, sizeof text), "[fd00::5]:7001");
	assert_true(fan_peer_is_none(&o.entry[1].from));
	assert_int_equal(o.entry[1].ranks[3], UINT64_C(1) << 63);
	assert_int_equal(o.entry[1].depth, 24);
}

TEST(order__others)
{
	assert_int_equal(get("{\"id\":8,\"remove\":65535}"), FAN_OK);
	assert_int_equal(o.kind, FAN_ORDER_REMOVE);
	assert_int_equal(o.route, 65535);
	assert_int_equal(get("{\"refused\":\"go away\"}"), FAN_OK);
	assert_int_equal(o.kind, FAN_ORDER_REFUSED);
	assert_string_equal(o.refused, "go away");
	assert_int_equal(get("{\"id\":1,\"later\":{}}"), FAN_OK);
	assert_int_equal(o.kind, FAN_ORDER_OTHER);
}

/* Says what is wrong, and where; and that there is a number to answer to. */
TEST(order__neighbours)
{
	char text[80];
	assert_int_equal(get("{\"neighbours\":{\"number\":5,\"of\":[{\"name\":\"S2\",\"at\":"
			     "\"10.0.0.5:7000\"},{\"name\":\"PS\",\"at\":\"[fd00::5]:1\"}]}}"),
			 FAN_OK);
	assert_int_equal(o.kind, FAN_ORDER_NEIGHBOURS);
	assert_false(o.numbered);
	assert_int_equal(o.list, 5);
	assert_int_equal(o.neighbours, 2);
	assert_string_equal(o.neighbour[0].name, "S2");
	assert_string_equal(fan_peer_text(&o.neighbour[1].at, text, sizeof text), "[fd00::5]:1");
	assert_int_equal(get("{\"neighbours\":{\"number\":4294967295,\"of\":[]}}"), FAN_OK);
	assert_int_equal(o.neighbours, 0);
}

TEST(order__what_is_wrong)
{
#define ENTRY(from, ranks, next, depth, sums)                                                      \
	"{\"id\":1,\"install\":{\"route\":1,\"entries\":[{\"from\":" from ",\"ranks\":" ranks      \
	",\"next\":" next ",\"depth\":" depth ",\"sums\":" sums "}]}}"
	static const struct {
		const char *text, *why;
		bool numbered;
	} bad[] = {
		{"", "JSON object", false},
		{"[]", "JSON object", false},
		{"{\"remove\":1}", "id: ", false},
		{"{\"id\":1,\"remove\":0}", "route: ", true},
		{"{\"id\":1,\"remove\":65536}", "route: ", true},
		{"{\"id\":1,\"install\":7}", "route: ", true},
		{"{\"neighbours\":7}", "neighbours: ", false},
		{"{\"neighbours\":{\"number\":0,\"of\":[]}}", "neighbours: ", false},
		{"{\"neighbours\":{\"number\":4294967296,\"of\":[]}}", "neighbours: ", false},
		{"{\"neighbours\":{\"number\":1}}", "neighbours: ", false},
		{"{\"neighbours\":{\"number\":1,\"of\":[7]}}", "neighbours[0]: ", false},
		{"{\"neighbours\":{\"number\":1,\"of\":[{\"name\":\"A\"}]}}",
		 "neighbours[0]: ", false},
		{"{\"neighbours\":{\"number\":1,\"of\":[{\"name\":\"\",\"at\":\"1.1.1.1:1\"}]}}",
		 "neighbours[0]: ", false},
		{"{\"neighbours\":{\"number\":1,\"of\":[{\"name\":\"A\",\"at\":\"0.0.0.0:1\"}]}}",
		 "neighbours[0]: ", false},
		{"{\"id\":1,\"install\":{\"route\":1,\"entries\":[]}}", "entries: ", true},
		{"{\"id\":1,\"install\":{\"route\":1,\"quota\":-1,\"entries\":[{}]}}",
		 "quota: ", true},
		{ENTRY("7", "\"0\"", "\"1.1.1.1:1\"", "1", "true"), "entries[0].from", true},
		{ENTRY("\"host:1\"", "\"0\"", "\"1.1.1.1:1\"", "1", "true"), "entries[0].from",
		 true},
		{ENTRY("null", "\"\"", "\"1.1.1.1:1\"", "1", "true"), "entries[0].ranks", true},
		{ENTRY("null", "\"256\"", "\"1.1.1.1:1\"", "1", "true"), "entries[0].ranks", true},
		{ENTRY("null", "\"3-1\"", "\"1.1.1.1:1\"", "1", "true"), "entries[0].ranks", true},
		{ENTRY("null", "\"1,\"", "\"1.1.1.1:1\"", "1", "true"), "entries[0].ranks", true},
		{ENTRY("null", "\"0\"", "\"1.1.1.1:0\"", "1", "true"), "entries[0].next", true},
		{ENTRY("null", "\"0\"", "null", "1", "true"), "entries[0].next", true},
		{ENTRY("null", "\"0\"", "\"1.1.1.1:1\"", "0", "true"), "entries[0].depth", true},
		{ENTRY("null", "\"0\"", "\"1.1.1.1:1\"", "25", "true"), "entries[0].depth", true},
		{ENTRY("null", "\"0\"", "\"1.1.1.1:1\"", "1", "1"), "entries[0].sums", true},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(get(bad[i].text), FAN_E_CONFIG);
		if (!strstr(why, bad[i].why))
			fail_msg("%s: \"%s\"", bad[i].text, why);
		assert_int_equal(o.numbered, bad[i].numbered);
	}
}

/* ---- signed lines, and somebody between their ends who reads, changes, repeats and leaves out,
 * and has no key ---- */
#define CAUGHT 4096

static struct fan_lines dialler, called;
static int from_dialler, from_called; /* the ends that are in between */

static struct fan_keys keys_of(unsigned count, uint8_t first)
{
	struct fan_keys k = {.count = count};
	for (unsigned i = 0; i < count; i++)
		memset(k.key[i], first + (int)i, FAN_KEY_BYTES);
	return k;
}

/* All that has come from one end. */
static size_t catch (int fd, char *to)
{
	ssize_t n = read(fd, to, CAUGHT);
	return n > 0 ? (size_t)n : 0;
}

/* Make `called`, which has just sent its nonce, the controller's end: it signs by the key by which
 * the dialler takes, and takes by that by which the dialler signs. */
static void be_called(void)
{
	struct fan_line_key *k = called.key;
	uint8_t up[FAN_MAC_BYTES];
	memcpy(k->theirs, k->ours, sizeof k->theirs);
	memcpy(k->ours, dialler.key->ours, sizeof k->ours);
	make_keys(k);
	memcpy(up, k->out, sizeof up);
	memcpy(k->out, k->in, sizeof k->out);
	memcpy(k->in, up, sizeof k->in);
	k->begun = true;
}

/* count 0: the controller's end is open. */
static void begin(struct fan_keys dials, struct fan_keys takes)
{
	int a[2], b[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b), 0);
	take_over(&dialler, a[0]);
	take_over(&called, b[0]);
	from_dialler = a[1];
	from_called = b[1];
	assert_int_equal(fan_lines_sign(&dialler, &dials), 0);
	assert_int_equal(fan_lines_sign(&called, &takes), 0);
	if (takes.count)
		be_called();
}

static int end(void **state __attribute__((unused)))
{
	fan_lines_close(&dialler);
	fan_lines_close(&called);
	close(from_dialler);
	close(from_called);
	return 0;
}

static void give(int fd, const char *text, size_t bytes)
{
	if (bytes)
		assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
}

static void carry(int from, int to)
{
	char text[CAUGHT];
	give(to, text, catch (from, text));
}

static void next_signed_is(struct fan_lines *at, const char *text)
{
	size_t bytes = 0;
	const int e = fan_lines_turn(at, POLLIN);
	const char *line = fan_lines_next(at, &bytes);
	if (!text) {
		assert_null(line);
		return;
	}
	assert_int_equal(e, 0);
	assert_non_null(line);
	assert_string_equal(line, text);
	assert_int_equal(bytes, strlen(text));
}

static void put(struct fan_lines *at, const char *text)
{
	assert_int_equal(fan_lines_put(at, text, strlen(text)), 0);
}

/* The dialler's nonce, which its lines follow, has reached the other end. */
static void skip_nonce(void)
{
	char text[FAN_LINE_HELLO_CHARS + 1];
	assert_int_equal(read(from_dialler, text, sizeof text), sizeof text);
	assert_memory_equal(text, "{\"nonce\":\"", 10);
}

/* Both ends know the nonces, and one line has gone each way. */
static void form(struct fan_keys dials, struct fan_keys takes)
{
	begin(dials, takes);
	skip_nonce();
	put(&dialler, "hello");
	carry(from_called, from_dialler);
	next_signed_is(&dialler, NULL);
	carry(from_dialler, from_called);
	next_signed_is(&called, "hello");
	put(&called, "welcome");
	carry(from_called, from_dialler);
	next_signed_is(&dialler, "welcome");
}

static void rejects(struct fan_lines *at)
{
	next_signed_is(at, NULL);
	assert_int_equal(fan_lines_trouble(at), -EKEYREJECTED);
	assert_int_equal(fan_lines_turn(at, POLLIN), -EKEYREJECTED);
	assert_int_equal(fan_lines_put(at, "x", 1), -EPIPE);
}

/* By the first of the dialler's keys. */
TEST_WITH(signed__both_ways, NULL, end)
{
	form(keys_of(2, 1), keys_of(1, 1));
	put(&dialler, "one");
	put(&dialler, "");
	carry(from_dialler, from_called);
	next_signed_is(&called, "one");
	next_signed_is(&called, "");
	next_signed_is(&called, NULL);
	assert_int_equal(fan_lines_trouble(&called), 0);
}

/* Lines wait for the other end's nonce. */
TEST_WITH(signed__nothing_before_the_nonce, NULL, end)
{
	char text[CAUGHT];
	begin(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "secret");
	skip_nonce();
	assert_int_equal(catch (from_dialler, text), 0);
}

TEST_WITH(signed__another_key, NULL, end)
{
	begin(keys_of(1, 9), keys_of(2, 1));
	put(&called, "order");
	carry(from_called, from_dialler);
	rejects(&dialler);
}

TEST_WITH(signed__open_controller_is_not_believed, NULL, end)
{
	char text[CAUGHT];
	begin(keys_of(1, 1), keys_of(0, 0));
	put(&called, "{\"job\":{}}");
	carry(from_called, from_dialler);
	rejects(&dialler);
	end(NULL);
	begin(keys_of(1, 1), keys_of(0, 0));
	size_t bytes = catch (from_dialler, text);
	text[2] = 'N'; /* a nonce under another name is none */
	give(from_dialler, text, bytes);
	rejects(&dialler);
}

TEST_WITH(signed__each_changed_bit, NULL, end)
{
	char text[CAUGHT];
	for (size_t bit = 0; bit < 8 * (MAC_CHARS + 4); bit++) {
		form(keys_of(1, 1), keys_of(1, 1));
		put(&called, "line");
		size_t bytes = catch (from_called, text);
		assert_int_equal(bytes, MAC_CHARS + 5);
		text[bit / 8] ^= (char)(1 << bit % 8);
		give(from_dialler, text, bytes);
		rejects(&dialler);
		end(NULL);
	}
	form(keys_of(1, 1), keys_of(1, 1));
}

TEST_WITH(signed__again_and_out_of_turn, NULL, end)
{
	char one[CAUGHT], two[CAUGHT];
	form(keys_of(1, 1), keys_of(1, 1));
	put(&called, "one");
	size_t bytes = catch (from_called, one);
	give(from_dialler, one, bytes);
	next_signed_is(&dialler, "one");
	give(from_dialler, one, bytes);
	rejects(&dialler);
	end(NULL);
	form(keys_of(1, 1), keys_of(1, 1));
	put(&called, "one");
	catch (from_called, one); /* left out */
	put(&called, "two");
	give(from_dialler, two, catch (from_called, two));
	rejects(&dialler);
}

/* What was said in another connection, or is one's own. */
TEST_WITH(signed__of_another_connection_or_way, NULL, end)
{
	char old[CAUGHT];
	form(keys_of(1, 1), keys_of(1, 1));
	put(&called, "old");
	size_t bytes = catch (from_called, old);
	end(NULL);
	form(keys_of(1, 1), keys_of(1, 1));
	give(from_dialler, old, bytes);
	rejects(&dialler);
	end(NULL);
	form(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "mine");
	carry(from_dialler, from_dialler);
	rejects(&dialler);
}

/* All that the other end has said, from the first byte on, to a new dialler. */
TEST_WITH(signed__a_whole_connection_again, NULL, end)
{
	char down[CAUGHT];
	begin(keys_of(1, 1), keys_of(1, 1));
	put(&called, "order");
	const size_t bytes = catch (from_called, down);
	give(from_dialler, down, bytes);
	next_signed_is(&dialler, "order");
	end(NULL);
	begin(keys_of(1, 1), keys_of(1, 1));
	give(from_dialler, down, bytes);
	rejects(&dialler);
}

UNIT_MAIN

/* SPDX-License-Identifier: Apache-2.0 */
/* Signed lines, and somebody between their ends who reads, changes, repeats and leaves out, and has
 * no key. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/lines.h"
#include "unit/unit.h"

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

/* count 0: that end is open. */
static void begin(struct fan_keys dials, struct fan_keys takes)
{
	int a[2], b[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b), 0);
	fan_lines_open(&dialler, a[0]);
	fan_lines_open(&called, b[0]);
	from_dialler = a[1];
	from_called = b[1];
	assert_int_equal(fan_lines_sign(&dialler, &dials, true), 0);
	assert_int_equal(fan_lines_sign(&called, &takes, false), 0);
}

static int end(void **state)
{
	(void)state;
	fan_lines_close(&dialler);
	fan_lines_close(&called);
	close(from_dialler);
	close(from_called);
	return 0;
}

/* All that has come from one end. */
static size_t catch (int fd, char *to)
{
	ssize_t n = read(fd, to, CAUGHT);
	return n > 0 ? (size_t)n : 0;
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

static void next_is(struct fan_lines *l, const char *text)
{
	size_t bytes = 0;
	const int e = fan_lines_turn(l, POLLIN);
	const char *line = fan_lines_next(l, &bytes);
	if (!text) {
		assert_null(line);
		return;
	}
	assert_int_equal(e, 0);
	assert_non_null(line);
	assert_string_equal(line, text);
	assert_int_equal(bytes, strlen(text));
}

static void put(struct fan_lines *l, const char *text)
{
	assert_int_equal(fan_lines_put(l, text, strlen(text)), 0);
}

/* Both ends know the nonces, and one line has gone each way. */
static void form(struct fan_keys dials, struct fan_keys takes)
{
	begin(dials, takes);
	put(&dialler, "hello");
	carry(from_dialler, from_called);
	next_is(&called, NULL);
	carry(from_called, from_dialler);
	next_is(&dialler, NULL);
	carry(from_dialler, from_called);
	next_is(&called, "hello");
	put(&called, "welcome");
	carry(from_called, from_dialler);
	next_is(&dialler, "welcome");
}

static void rejects(struct fan_lines *l)
{
	next_is(l, NULL);
	assert_int_equal(fan_lines_trouble(l), -EKEYREJECTED);
	assert_int_equal(fan_lines_turn(l, POLLIN), -EKEYREJECTED);
	assert_int_equal(fan_lines_put(l, "x", 1), -EPIPE);
}

TEST_WITH(signed__both_ways, NULL, end)
{
	form(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "one");
	put(&dialler, "");
	carry(from_dialler, from_called);
	next_is(&called, "one");
	next_is(&called, "");
	next_is(&called, NULL);
	assert_int_equal(fan_lines_trouble(&called), 0);
}

/* Lines wait until the other end has said which key it has. */
TEST_WITH(signed__nothing_before_the_other_end_is_sure, NULL, end)
{
	char text[CAUGHT + 1];
	begin(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "secret order");
	put(&called, "secret answer");
	assert_int_equal(catch (from_called, text), 0);
	assert_int_equal(catch (from_dialler, text), FAN_LINE_HELLO_CHARS + 1);
	assert_memory_equal(text, "{\"nonce\":\"", 10);
}

TEST_WITH(signed__second_key_is_valid, NULL, end)
{
	form(keys_of(1, 2), keys_of(2, 1)); /* the called one has 1 and 2 */
	put(&called, "more");
	carry(from_called, from_dialler);
	next_is(&dialler, "more");
}

TEST_WITH(signed__another_key, NULL, end)
{
	char text[CAUGHT];
	begin(keys_of(1, 9), keys_of(2, 1));
	put(&dialler, "hello");
	carry(from_dialler, from_called);
	next_is(&called, NULL);
	carry(from_called, from_dialler);
	next_is(&dialler, NULL);
	carry(from_dialler, from_called);
	rejects(&called);
	size_t bytes = catch (from_called, text);
	assert_non_null(memmem(text, bytes, "not signed with a key", 21));
	give(from_dialler, text, bytes);
	rejects(&dialler);
}

TEST_WITH(signed__open_end_is_told, NULL, end)
{
	begin(keys_of(0, 0), keys_of(1, 1));
	put(&dialler, "{\"hello\":\"switch\"}");
	carry(from_dialler, from_called);
	rejects(&called);
	carry(from_called, from_dialler);
	next_is(&dialler, "{\"refused\":\"lines are signed here: expected a key, "
			  "--controller-key or FANIN_CONTROLLER_KEY_FILE\"}");
}

TEST_WITH(signed__open_controller_is_not_believed, NULL, end)
{
	begin(keys_of(1, 1), keys_of(0, 0));
	put(&called, "{\"job\":{}}");
	carry(from_called, from_dialler);
	rejects(&dialler);
}

TEST_WITH(signed__each_changed_bit, NULL, end)
{
	char text[CAUGHT];
	for (size_t bit = 0; bit < 8 * (FAN_LINE_MAC_CHARS + 4); bit++) {
		form(keys_of(1, 1), keys_of(1, 1));
		put(&dialler, "line");
		size_t bytes = catch (from_dialler, text);
		assert_int_equal(bytes, FAN_LINE_MAC_CHARS + 5);
		text[bit / 8] ^= (char)(1 << bit % 8);
		give(from_called, text, bytes);
		rejects(&called);
		end(NULL);
	}
	form(keys_of(1, 1), keys_of(1, 1));
}

TEST_WITH(signed__again_and_out_of_turn, NULL, end)
{
	char one[CAUGHT], two[CAUGHT];
	form(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "one");
	size_t bytes = catch (from_dialler, one);
	give(from_called, one, bytes);
	next_is(&called, "one");
	give(from_called, one, bytes);
	rejects(&called);
	end(NULL);
	form(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "one");
	catch (from_dialler, one); /* left out */
	put(&dialler, "two");
	give(from_called, two, catch (from_dialler, two));
	rejects(&called);
}

/* What was said in another connection, or is one's own. */
TEST_WITH(signed__of_another_connection_or_way, NULL, end)
{
	char old[CAUGHT];
	form(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "old");
	size_t bytes = catch (from_dialler, old);
	end(NULL);
	form(keys_of(1, 1), keys_of(1, 1));
	give(from_called, old, bytes);
	rejects(&called);
	end(NULL);
	form(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "mine");
	carry(from_dialler, from_dialler);
	rejects(&dialler);
}

/* All that one end has said, from the first byte on, to another one in its place. */
TEST_WITH(signed__a_whole_connection_again, NULL, end)
{
	char up[CAUGHT], down[CAUGHT];
	size_t up_bytes, down_bytes;
	begin(keys_of(1, 1), keys_of(1, 1));
	put(&dialler, "hello");
	up_bytes = catch (from_dialler, up);
	give(from_called, up, up_bytes);
	next_is(&called, NULL);
	down_bytes = catch (from_called, down);
	give(from_dialler, down, down_bytes);
	next_is(&dialler, NULL);
	size_t more = catch (from_dialler, up + up_bytes);
	give(from_called, up + up_bytes, more);
	up_bytes += more;
	next_is(&called, "hello");
	put(&called, "order");
	down_bytes += catch (from_called, down + down_bytes);
	end(NULL);
	begin(keys_of(1, 1), keys_of(1, 1));
	give(from_called, up, up_bytes);
	rejects(&called);
	give(from_dialler, down, down_bytes);
	rejects(&dialler);
}

UNIT_MAIN

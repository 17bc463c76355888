/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/lines.h"
#include "unit/unit.h"

static struct fan_lines l;
static int other;

static int open_pair(void **state)
{
	int fd[2];
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	fan_lines_open(&l, fd[0]);
	other = fd[1];
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
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

static void lines__come_in_pieces(void **state)
{
	(void)state;
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

static void lines__that_were_sent_before_it_closed(void **state)
{
	(void)state;
	says("last\nhalf");
	shutdown(other, SHUT_WR);
	assert_int_equal(fan_lines_turn(&l, POLLIN), -ECONNRESET);
	next_is("last");
	next_is(NULL);
}

static void lines__too_long(void **state)
{
	static char block[65536];
	int e = 0;
	(void)state;
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
static void lines__nobody_reads(void **state)
{
	static char block[65536];
	int e = 0;
	unsigned sent = 0;
	(void)state;
	memset(block, 'x', sizeof block);
	for (; sent < 1000 && !e; sent++)
		e = fan_lines_put(&l, block, sizeof block);
	assert_int_equal(e, -ENOBUFS);
	assert_true(sent > FAN_LINES_OUT_MAX / sizeof block - 1);
	assert_true(fan_lines_events(&l) & POLLOUT);
}

static void lines__go_out_whole(void **state)
{
	static char block[200000], got[200002];
	size_t used = 0;
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lines__come_in_pieces, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(lines__that_were_sent_before_it_closed, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(lines__too_long, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(lines__nobody_reads, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(lines__go_out_whole, open_pair, close_pair),
	};
	return RUN(tests);
}

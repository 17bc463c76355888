/* SPDX-License-Identifier: Apache-2.0 */
/* A line to a controller that is there, goes, and comes back. */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/dial.h"

#define NUMBER 7
#define TURNS  100000 /* of at most 50 ms: never reached unless something hangs */

struct rig {
	struct fan_dial d;
	int epoll_fd, listen_fd, peer_fd;
	fan_peer at;
	unsigned ups; /* times that it was connected */
	char line[128];
};

/* Listen at r->at; port 0: any, which it has then. */
static void rig_listen(struct rig *r)
{
	const int on = 1;
	struct sockaddr_storage ss;
	socklen_t bytes = fan_peer_to_sockaddr(&r->at, AF_INET, &ss);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&ss, bytes), 0);
	assert_int_equal(listen(fd, 1), 0);
	bytes = sizeof ss;
	assert_int_equal(getsockname(fd, (struct sockaddr *)&ss, &bytes), 0);
	r->at = fan_peer_from_sockaddr((struct sockaddr *)&ss, bytes);
	r->listen_fd = fd;
}

static void rig_begin(struct rig *r)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memset(r, 0, sizeof *r);
	r->peer_fd = -1;
	r->at = fan_peer_from_sockaddr((struct sockaddr *)&in, sizeof in);
	rig_listen(r);
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	fan_dial_init(&r->d, &r->at, r->epoll_fd, NUMBER);
}

static void rig_end(struct rig *r)
{
	fan_dial_free(&r->d);
	if (r->peer_fd >= 0)
		close(r->peer_fd);
	if (r->listen_fd >= 0)
		close(r->listen_fd);
	close(r->epoll_fd);
}

/* One round, as an owner does it.  True: there is a line. */
static bool turn(struct rig *r)
{
	struct epoll_event ev;
	size_t bytes;
	int ms = fan_clock_timeout_ms(fan_dial_deadline(&r->d), 50);
	if (epoll_wait(r->epoll_fd, &ev, 1, ms) == 1)
		assert_int_equal(ev.data.u32, NUMBER);
	r->ups += fan_dial_work(&r->d, fan_clock_ns());
	const char *line = fan_dial_line(&r->d, &bytes);
	snprintf(r->line, sizeof r->line, "%s", line ? line : "");
	return line != NULL;
}

static void turn_until_line(struct rig *r, const char *line)
{
	bool there = false;
	for (int i = 0; i < TURNS && !there; i++)
		there = turn(r);
	assert_string_equal(r->line, line);
}

static void turn_until_up(struct rig *r, unsigned ups)
{
	for (int i = 0; i < TURNS && r->ups < ups; i++)
		turn(r);
	assert_int_equal(r->ups, ups);
	r->peer_fd = accept(r->listen_fd, NULL, NULL);
	assert_true(r->peer_fd >= 0);
}

static void say(const struct rig *r, const char *text)
{
	assert_int_equal(send(r->peer_fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void hang_up(struct rig *r)
{
	close(r->peer_fd);
	r->peer_fd = -1;
}

TEST(dial__lines_both_ways)
{
	struct rig r;
	char got[8] = "";
	rig_begin(&r);
	assert_false(fan_dial_send(&r.d, "early", 5));
	turn_until_up(&r, 1);
	assert_true(fan_dial_send(&r.d, "hello", 5));
	assert_int_equal(recv(r.peer_fd, got, 6, MSG_WAITALL), 6);
	assert_string_equal(got, "hello\n");
	say(&r, "one\ntw");
	turn_until_line(&r, "one");
	assert_false(turn(&r));
	say(&r, "o\n");
	turn_until_line(&r, "two");
	rig_end(&r);
}

/* What came before the end is heard, then it is tried again. */
TEST(dial__comes_back)
{
	struct rig r;
	rig_begin(&r);
	turn_until_up(&r, 1);
	say(&r, "a\nb\nrest");
	hang_up(&r);
	turn_until_line(&r, "a");
	turn_until_line(&r, "b");
	for (int i = 0; i < TURNS && r.d.up; i++)
		assert_false(turn(&r));
	assert_string_equal(r.d.why, "the connection was closed");
	turn_until_up(&r, 2);
	fan_dial_content(&r.d);
	fan_dial_drop(&r.d, fan_clock_ns(), "nonsense");
	assert_false(r.d.up);
	assert_string_equal(r.d.why, "nonsense");
	hang_up(&r);
	turn_until_up(&r, 3);
	rig_end(&r);
}

TEST(dial__waits_for_somebody)
{
	struct rig r;
	rig_begin(&r);
	close(r.listen_fd);
	r.listen_fd = -1;
	for (int i = 0; i < TURNS && r.d.tries < 3; i++)
		turn(&r);
	assert_int_equal(r.d.tries, 3);
	assert_string_equal(r.d.why, "Connection refused");
	rig_listen(&r);
	turn_until_up(&r, 1);
	rig_end(&r);
}

/* The pauses grow, up to a bound. */
TEST(dial__pauses)
{
	const uint64_t now_ns = 5000 * FAN_MS, most_ns = FAN_DIAL_PAUSE_MAX_MS * FAN_MS;
	struct rig r;
	rig_begin(&r);
	for (int i = 0; i < 10; i++) {
		fan_dial_drop(&r.d, now_ns, "x");
		uint64_t pause_ns = fan_dial_deadline(&r.d) - now_ns;
		assert_true(pause_ns >= FAN_DIAL_PAUSE_MS * FAN_MS);
		assert_true(pause_ns <= most_ns + most_ns / 4);
		assert_true(i < 2 || pause_ns >= most_ns);
		assert_false(fan_dial_work(&r.d, fan_dial_deadline(&r.d) - 1)); /* too early */
		assert_true(r.d.lines.fd < 0);
	}
	rig_end(&r);
}

UNIT_MAIN

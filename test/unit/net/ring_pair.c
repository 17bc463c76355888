/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams between two threads of a process, and which of them leave by a socket. */
#include "udp_rig.h"
#include "unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "net/clock.h"
#include "net/daemon.h"
#include "net/echo.h"

#define MOST	   1600
#define MANY	   40000
#define AT_ONCE	   100
#define ECHO_BYTES 1000

static const fan_peer rank = {.addr = {1, 2}, .port = 3};

static struct fan_ring_pair *new_ring_pair(const fan_peer *of)
{
	struct fan_ring_pair *h = fan_ring_pair_new(of, MOST);
	assert_non_null(h);
	return h;
}

static void close_both(struct fan_ring_pair *h)
{
	fan_ring_pair_close(h);
	fan_ring_pair_close(h);
}

/* Datagram number i: its number, and bytes that end with it. */
static size_t length_of(unsigned i)
{
	return sizeof i + i * 37 % (MOST - 2 * sizeof i) + 1;
}

static bool put(struct fan_ring_pair *h, enum fan_ring_pair_way way, unsigned i)
{
	uint8_t text[MOST] = {0};
	text[length_of(i) - 1 - sizeof i] = (uint8_t)(i * 11);
	const struct iovec iov[] = {{&i, sizeof i}, {text, length_of(i) - sizeof i}};
	return fan_ring_pair_put(h, way, iov, 2);
}

static bool is_next(struct fan_ring_pair *h, enum fan_ring_pair_way way, unsigned i)
{
	size_t bytes = 0;
	const uint8_t *at = fan_ring_pair_next(h, way, &bytes);
	return at && bytes == length_of(i) && !memcmp(at, &i, sizeof i) &&
	       at[bytes - 1] == (uint8_t)(i * 11);
}

static bool is_empty(struct fan_ring_pair *h, enum fan_ring_pair_way way)
{
	size_t bytes;
	return !fan_ring_pair_next(h, way, &bytes);
}

TEST(ring_pair__datagrams_come_in_order_however_full_it_is)
{
	struct fan_ring_pair *h = new_ring_pair(&rank);
	unsigned in = 0, out = 0;
	for (unsigned turn = 0; turn < 200; turn++) {
		const enum fan_ring_pair_way other = FAN_RING_PAIR_UP;
		for (unsigned i = 0; i < 1 + turn * 13 % FAN_RING_PAIR_PLACES; i++)
			if (put(h, FAN_RING_PAIR_DOWN, in))
				in++;
		assert_true(in > out && in - out <= FAN_RING_PAIR_PLACES);
		assert_true(is_empty(h, other));
		fan_ring_pair_show(h, FAN_RING_PAIR_DOWN);
		for (unsigned left = turn % 3 * 20; out + left < in; out++)
			assert_true(is_next(h, FAN_RING_PAIR_DOWN, out));
		fan_ring_pair_release(h, FAN_RING_PAIR_DOWN);
	}
	assert_true(in > 20 * FAN_RING_PAIR_PLACES);
	close_both(h);
}

TEST(ring_pair__nothing_is_read_before_it_is_shown)
{
	struct fan_ring_pair *h = new_ring_pair(&rank);
	assert_true(put(h, FAN_RING_PAIR_UP, 0));
	assert_true(is_empty(h, FAN_RING_PAIR_UP));
	fan_ring_pair_show(h, FAN_RING_PAIR_UP);
	assert_true(is_next(h, FAN_RING_PAIR_UP, 0));
	assert_true(is_empty(h, FAN_RING_PAIR_UP));
	close_both(h);
}

TEST(ring_pair__full_until_the_reader_lets_go)
{
	struct fan_ring_pair *h = new_ring_pair(&rank);
	for (unsigned i = 0; i < FAN_RING_PAIR_PLACES; i++)
		assert_true(put(h, FAN_RING_PAIR_UP, i));
	assert_false(put(h, FAN_RING_PAIR_UP, 0));
	fan_ring_pair_show(h, FAN_RING_PAIR_UP);
	for (unsigned i = 0; i < 3; i++)
		assert_true(is_next(h, FAN_RING_PAIR_UP, i));
	assert_false(put(h, FAN_RING_PAIR_UP, 0));
	fan_ring_pair_release(h, FAN_RING_PAIR_UP);
	for (unsigned i = 0; i < 3; i++)
		assert_true(put(h, FAN_RING_PAIR_UP, FAN_RING_PAIR_PLACES + i));
	assert_false(put(h, FAN_RING_PAIR_UP, 0));
	fan_ring_pair_show(h, FAN_RING_PAIR_UP);
	for (unsigned i = 3; i < FAN_RING_PAIR_PLACES + 3; i++)
		assert_true(is_next(h, FAN_RING_PAIR_UP, i));
	close_both(h);
}

TEST(ring_pair__takes_nothing_too_long_or_after_its_end)
{
	static uint8_t text[2 * MOST];
	struct fan_ring_pair *h = new_ring_pair(&rank);
	const struct iovec fits = {text, MOST}, longer = {text, MOST + 64};
	assert_true(fan_ring_pair_put(h, FAN_RING_PAIR_UP, &fits, 1));
	assert_false(fan_ring_pair_put(h, FAN_RING_PAIR_UP, &longer, 1));
	fan_ring_pair_show(h, FAN_RING_PAIR_UP);
	assert_false(fan_ring_pair_is_closed(h));
	fan_ring_pair_close(h);
	assert_true(fan_ring_pair_is_closed(h));
	assert_false(fan_ring_pair_put(h, FAN_RING_PAIR_DOWN, &fits, 1));
	assert_false(is_empty(h, FAN_RING_PAIR_UP));
	fan_ring_pair_close(h);
}

/* Wake-ups that epoll tells of, now. */
static int wakes(int epoll_fd)
{
	struct epoll_event ev[4];
	return epoll_wait(epoll_fd, ev, 4, 0);
}

static int watch(struct fan_ring_pair *h, enum fan_ring_pair_way way)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	int fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(epoll_ctl(fd, EPOLL_CTL_ADD, fan_ring_pair_fd(h, way), &ev), 0);
	return fd;
}

TEST(ring_pair__wakes_only_who_sleeps)
{
	struct fan_ring_pair *h = new_ring_pair(&rank);
	int fd = watch(h, FAN_RING_PAIR_UP);
	put(h, FAN_RING_PAIR_UP, 0);
	fan_ring_pair_show(h, FAN_RING_PAIR_UP);
	assert_int_equal(wakes(fd), 0);
	assert_false(fan_ring_pair_may_sleep(h, FAN_RING_PAIR_UP)); /* it has not read that */
	assert_true(is_next(h, FAN_RING_PAIR_UP, 0));
	for (unsigned turn = 0; turn < 3; turn++) {
		assert_true(fan_ring_pair_may_sleep(h, FAN_RING_PAIR_UP));
		fan_ring_pair_show(h, FAN_RING_PAIR_UP);
		assert_int_equal(wakes(fd), 0); /* nothing was put */
		put(h, FAN_RING_PAIR_UP, 1);
		fan_ring_pair_show(h, FAN_RING_PAIR_UP);
		assert_int_equal(wakes(fd), 1);
		assert_int_equal(wakes(fd), 0); /* once for all */
		put(h, FAN_RING_PAIR_UP, 2);
		fan_ring_pair_show(h, FAN_RING_PAIR_UP);
		assert_int_equal(wakes(fd), 0);
		assert_true(is_next(h, FAN_RING_PAIR_UP, 1) && is_next(h, FAN_RING_PAIR_UP, 2));
	}
	assert_true(fan_ring_pair_may_sleep(h, FAN_RING_PAIR_UP));
	fan_ring_pair_close(h);
	assert_int_equal(wakes(fd), 1);
	assert_false(fan_ring_pair_may_sleep(h, FAN_RING_PAIR_UP));
	fan_ring_pair_close(h);
	close(fd);
}

/* ---- two threads ---- */

struct reader {
	struct fan_ring_pair *h;
	int epoll_fd;
	unsigned wrong, slept;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;
	struct epoll_event ev;
	size_t bytes;
	const uint8_t *at;
	for (unsigned i = 0; i < MANY;) {
		if (fan_ring_pair_may_sleep(r->h, FAN_RING_PAIR_UP)) {
			r->slept++;
			r->wrong += epoll_wait(r->epoll_fd, &ev, 1, PATIENT_MS) != 1;
		}
		fan_ring_pair_awake(r->h, FAN_RING_PAIR_UP);
		for (; (at = fan_ring_pair_next(r->h, FAN_RING_PAIR_UP, &bytes)); i++)
			r->wrong += bytes != length_of(i) || memcmp(at, &i, sizeof i) != 0 ||
				    at[bytes - 1] != (uint8_t)(i * 11);
		fan_ring_pair_release(r->h, FAN_RING_PAIR_UP);
	}
	fan_ring_pair_close(r->h);
	return NULL;
}

/* A wake-up that got lost would be a reader that waits until PATIENT_MS. */
TEST(ring_pair__two_threads_lose_nothing)
{
	struct reader r = {.h = new_ring_pair(&rank)};
	pthread_t thread;
	r.epoll_fd = watch(r.h, FAN_RING_PAIR_UP);
	assert_int_equal(pthread_create(&thread, NULL, read_all, &r), 0);
	for (unsigned i = 0; i < MANY;) {
		unsigned n = 1 + i % AT_ONCE;
		for (; n && i < MANY && put(r.h, FAN_RING_PAIR_UP, i); n--)
			i++;
		fan_ring_pair_show(r.h, FAN_RING_PAIR_UP);
		if (n || i % 7 == 0) /* it is full; or for another order of the two */
			sched_yield();
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(r.wrong, 0);
	assert_true(fan_ring_pair_is_closed(r.h));
	fan_ring_pair_close(r.h);
	close(r.epoll_fd);
}

/* ---- beside sockets ---- */

/* What has come down is what items `from` to `to` are. */
static void expect_items(struct fan_ring_pair *h, enum fan_ring_pair_way way, unsigned from,
			 unsigned to)
{
	const uint8_t *at;
	size_t bytes;
	memset(&got, 0, sizeof got);
	while ((at = fan_ring_pair_next(h, way, &bytes)))
		note(at, bytes);
	fan_ring_pair_release(h, way);
	assert_int_equal(got.count, to - from);
	for (unsigned i = from; i < to; i++)
		assert_true(got.whole[i - from] && got.number[i - from] == i);
}

TEST(ring_pair__a_rank_here_gets_its_results_by_it_and_others_by_the_socket)
{
	struct fan_udp a, b;
	struct fan_out out;
	open_at(&a, "127.0.0.1:0", false);
	open_at(&b, "127.0.0.1:0", false);
	const fan_peer peers[] = {rank, fan_udp_local(&b)};
	const struct fan_group g = {.peers = peers, .ranks = 2};
	struct fan_ring_pair *h = a.pair[0] = new_ring_pair(&rank);
	start(&out);
	for (unsigned i = 0; i < AT_ONCE; i++)
		add(&out, FAN_TO_GROUP, PAYLOAD)->group = &g;
	fan_udp_send(&a, &out, false);
	expect_items(h, FAN_RING_PAIR_DOWN, 0, AT_ONCE);
	drain(&b, AT_ONCE);
	assert_int_equal(got.count, AT_ONCE);
	for (unsigned i = 0; i < AT_ONCE; i++)
		assert_true(got.whole[i] && got.number[i] == i);
	assert_int_equal(a.datagrams_out, 2 * AT_ONCE);
	assert_int_equal(a.send_drops, 0);
	fan_udp_close(&a);
	fan_udp_close(&b);
	assert_true(fan_ring_pair_is_closed(h));
	fan_ring_pair_close(h);
}

TEST(ring_pair__what_has_no_room_in_it_goes_by_the_socket)
{
	struct fan_udp a, b;
	struct fan_out out;
	const unsigned room = 10;
	open_at(&b, "127.0.0.1:0", false);
	struct fan_udp_options o = {.connect = fan_udp_local(&b), .buffer_bytes = BUFFER_BYTES};
	assert_int_equal(fan_udp_open(&a, &o), 0);
	struct fan_ring_pair *h = a.pair[0] = new_ring_pair(&rank);
	for (unsigned i = room; i < FAN_RING_PAIR_PLACES; i++)
		assert_true(put(h, FAN_RING_PAIR_UP, i));
	start(&out);
	for (unsigned i = 0; i < AT_ONCE; i++)
		add(&out, FAN_TO_PEER, PAYLOAD);
	fan_udp_send(&a, &out, true);
	for (unsigned i = room; i < FAN_RING_PAIR_PLACES; i++)
		assert_true(is_next(h, FAN_RING_PAIR_UP, i));
	expect_items(h, FAN_RING_PAIR_UP, 0, room);
	drain(&b, AT_ONCE - room);
	assert_int_equal(got.count, AT_ONCE - room);
	for (unsigned i = 0; i < got.count; i++)
		assert_true(got.whole[i] && got.number[i] == room + i);
	fan_udp_close(&a);
	fan_udp_close(&b);
	fan_ring_pair_close(h);
}

/* ---- a daemon ---- */

/* Ask, by the ring pair alone, and wait for the answer. */
static bool answers(struct fan_udp *u, int epoll_fd)
{
	struct epoll_event ev;
	size_t bytes;
	struct fan_echo_asker a = {.asked = 0};
	fan_echo_ask(&a, u, NULL, ECHO_BYTES, fan_clock_ns());
	if (u->sends)
		return false;
	while (fan_ring_pair_may_sleep(u->pair[0], FAN_RING_PAIR_DOWN))
		if (epoll_wait(epoll_fd, &ev, 1, PATIENT_MS) != 1)
			return false;
	bool any = fan_ring_pair_next(u->pair[0], FAN_RING_PAIR_DOWN, &bytes);
	fan_ring_pair_release(u->pair[0], FAN_RING_PAIR_DOWN);
	return any;
}

TEST(ring_pair__a_daemon_answers_by_it_until_it_ends)
{
	struct fan_daemon_options o;
	struct fan_daemon *d;
	struct fan_udp u[FAN_UDP_RING_PAIRS + 1];
	int fd[FAN_UDP_RING_PAIRS + 1];
	char why[256];
	fan_daemon_defaults(&o);
	assert_int_equal(fan_daemon_start(&d, &o, why, sizeof why), 0);
	const fan_peer at = fan_daemon_address(d);
	struct fan_udp_options to = {.connect = at, .buffer_bytes = BUFFER_BYTES};
	for (unsigned i = 0; i <= FAN_UDP_RING_PAIRS; i++) {
		assert_int_equal(fan_udp_open(&u[i], &to), 0);
		const fan_peer from = fan_udp_local(&u[i]);
		u[i].pair[0] = new_ring_pair(&from);
		fd[i] = watch(u[i].pair[0], FAN_RING_PAIR_DOWN);
		int e = fan_daemon_rings(d, 0, u[i].pair[0], &at);
		assert_int_equal(e, i < FAN_UDP_RING_PAIRS ? FAN_OK : FAN_E_BUSY);
	}
	assert_int_equal(fan_daemon_rings(d, 1, u[0].pair[0], &at), FAN_E_BUSY);
	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++)
		assert_true(answers(&u[i], fd[i]));
	fan_ring_pair_close(
		u[FAN_UDP_RING_PAIRS].pair[0]); /* for the daemon, which has not taken it */
	fan_udp_close(&u[0]);			/* and so there is room for another */
	struct fan_ring_pair *h = new_ring_pair(&at);
	while (fan_daemon_rings(d, 0, h, &at) == FAN_E_BUSY)
		sched_yield();
	fan_daemon_stop(d);
	assert_true(fan_ring_pair_is_closed(h) && fan_ring_pair_is_closed(u[1].pair[0]));
	fan_ring_pair_close(h);
	for (unsigned i = 0; i <= FAN_UDP_RING_PAIRS; i++) {
		if (i)
			fan_udp_close(&u[i]);
		close(fd[i]);
	}
}

/* ---- results: the ranks of a host have theirs last, and that in the process last of all ---- */

#define INSIDE 1 /* last bytes of the addresses of ranks */
#define HOST   2
#define AWAY   3

/* A socket with a ring pair to the rank INSIDE, and one that hears what goes to all three by
 * sockets.
 */
struct inside {
	struct fan_udp from, to;
	struct fan_ring_pair *h;
	fan_peer peers[3];
	struct fan_group group;
	struct fan_out out;
};

static void open_inside(struct inside *n, bool pair)
{
	memset(n, 0, sizeof *n);
	open_at(&n->from, "0.0.0.0:0", false);
	open_at(&n->to, "0.0.0.0:0", true);
	for (unsigned i = 0; i < 3; i++) {
		char text[32];
		snprintf(text, sizeof text, "127.0.0.%u:%u", i + 1, fan_udp_local(&n->to).port);
		n->peers[i] = peer(text);
		fan_locals_put(n->from.locals, &n->peers[i],
			       peer(i == AWAY - 1 ? "127.0.0.1:1" : text).addr);
	}
	if (pair)
		n->h = n->from.pair[1] = new_ring_pair(&n->peers[0]);
	n->group = (struct fan_group){.peers = n->peers, .ranks = 3};
	start(&n->out);
}

static void close_inside(struct inside *n)
{
	fan_udp_close(&n->from);
	fan_udp_close(&n->to);
	if (n->h)
		fan_ring_pair_close(n->h);
}

/* Two results of a reduce: for all, and for the root, which is away; and one for a rank of this
 * host that has asked again. */
static void send_results(struct inside *n)
{
	for (unsigned i = 0; i < 2; i++) {
		add(&n->out, FAN_TO_GROUP, 0)->group = &n->group;
		add(&n->out, FAN_TO_PEER, PAYLOAD)->peer = n->peers[AWAY - 1];
	}
	add(&n->out, FAN_TO_PEER, PAYLOAD)->peer = n->peers[HOST - 1];
	fan_udp_send(&n->from, &n->out, false);
}

/* What came by sockets: ten times the receiver, and the item's number. */
static void assert_order(struct inside *n, const unsigned *expected, unsigned count)
{
	const fan_peer from = {.port = fan_udp_local(&n->from).port};
	struct fan_udp_batch b;
	unsigned number;
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(recv_next(&n->to, &b), 1);
		assert_int_equal(b.from.port, from.port);
		const uint8_t *local = (const uint8_t *)fan_locals_get(n->to.locals, &b.from);
		assert_non_null(local);
		memcpy(&number, buffer, sizeof number);
		assert_int_equal(10 * local[15] + number, expected[i]);
	}
	assert_int_equal(fan_udp_recv(&n->to, buffer, &b), 0);
}

static void assert_inside(struct inside *n, unsigned number)
{
	size_t bytes;
	const uint8_t *at = fan_ring_pair_next(n->h, FAN_RING_PAIR_DOWN, &bytes);
	assert_non_null(at);
	assert_memory_equal(at, item[number].head, FAN_HEAD_BYTES);
}

TEST(inside__ranks_of_the_host_come_after_others)
{
	static const unsigned order[] = {30, 32, 31, 33, 20, 22, 24};
	struct inside n;
	open_inside(&n, true);
	send_results(&n);
	assert_order(&n, order, 7);
	assert_inside(&n, 0);
	assert_inside(&n, 2);
	assert_true(is_empty(n.h, FAN_RING_PAIR_DOWN));
	close_inside(&n);
}

TEST(inside__what_finds_no_room_comes_last)
{
	static const unsigned order[] = {30, 32, 31, 33, 20, 22, 24, 10, 12};
	struct inside n;
	open_inside(&n, true);
	for (unsigned i = 0; i < FAN_RING_PAIR_PLACES; i++)
		assert_true(put(n.h, FAN_RING_PAIR_DOWN, i));
	send_results(&n);
	assert_order(&n, order, 9);
	close_inside(&n);
}

TEST(inside__is_last_of_its_host_too)
{
	static const unsigned order[] = {20, 21, 10, 11};
	for (unsigned full = 0; full < 2; full++) {
		struct inside n;
		open_inside(&n, true);
		for (unsigned i = 0; i < FAN_RING_PAIR_PLACES && full; i++)
			assert_true(put(n.h, FAN_RING_PAIR_DOWN, i));
		n.group.ranks = HOST;
		for (unsigned i = 0; i < 2; i++)
			add(&n.out, FAN_TO_GROUP, 0)->group = &n.group;
		fan_udp_send(&n.from, &n.out, false);
		assert_order(&n, order, full ? 4 : 2);
		for (unsigned i = 0; i < 2 && !full; i++)
			assert_inside(&n, i);
		close_inside(&n);
	}
}

TEST(inside__nobody_there_means_one_turn)
{
	static const unsigned order[] = {10, 12, 20, 22, 30, 32, 31, 33, 24};
	struct inside n;
	open_inside(&n, false);
	send_results(&n);
	assert_order(&n, order, 9);
	close_inside(&n);
}

UNIT_MAIN

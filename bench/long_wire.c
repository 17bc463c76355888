/* SPDX-License-Identifier: Apache-2.0 */
/* long_wire.c - makes the links of test/net/netns.sh long: what one end of a wire hands over leaves
 * the other a given time later.  For kernels without a qdisc that delays.
 *
 *     ip netns exec PREFIX-wire build/bench/long-wire MICROSECONDS LINKS
 *
 * Joins the ends sK and wK of each link K.  Batches stay whole: a frame travels with the header
 * that says how it is to be cut.  The time counts from the kernel's receipt of a frame, so what
 * this program takes to wake up does not add to it.  Prints "ready" when all frames are caught, and
 * runs until SIGTERM; then the number of frames and of those that came when a queue was full. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MAX 64
#define US_MAX	  1000000
#define BATCH_MAX (70 << 10)   /* bytes of a frame with its header */
#define ROOM	  (4u << 20)   /* bytes of frames under way in a direction: 320 ms of 100 Mb/s */
#define SOCKET	  (4 << 20)    /* bytes of a socket's buffer */
#define SECOND	  1000000000ll /* ns */

/* One direction of a link: frames in the order in which they came, each behind its struct held. The
 * memory is a ring, and mapped twice in a row, so that a frame never wraps. */
struct way {
	uint8_t *ring;
	uint64_t head, tail; /* bytes ever put in, taken out */
	int from, to;	     /* sockets of the ends */
};

struct held {
	int64_t due_ns; /* of CLOCK_REALTIME, as the kernel's stamps are */
	uint32_t bytes, pad;
};

static struct way way[2 * LINKS_MAX];
static int64_t delay_ns;
static uint64_t passed, dropped;
static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void fail(const char *what)
{
	fprintf(stderr, "long-wire: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static int open_end(char side, unsigned number)
{
	char name[IFNAMSIZ];
	const int on = 1, room = SOCKET;
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(name, sizeof name, "%c%u", side, number);
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)if_nametoindex(name)};
	if (fd < 0 || !at.sll_ifindex ||
	    setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) ||
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) ||
	    bind(fd, (struct sockaddr *)&at, sizeof at))
		fail(name);
	return fd;
}

static uint8_t *map_ring(void)
{
	int fd = memfd_create("long-wire", MFD_CLOEXEC);
	uint8_t *at = mmap(NULL, 2 * (size_t)ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fd < 0 || at == MAP_FAILED || ftruncate(fd, ROOM))
		fail("memory");
	for (size_t half = 0; half < 2; half++)
		if (mmap(at + half * ROOM, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			 0) == MAP_FAILED)
			fail("memory");
	close(fd);
	return at;
}

static int64_t stamp_of(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec t;

			memcpy(&t, CMSG_DATA(c), sizeof t);
			return t.tv_sec * SECOND + t.tv_nsec;
		}
	return now_ns();
}

/* Everything that has come at one end. */
static void take(struct way *w)
{
	static uint8_t spare[BATCH_MAX];

	for (;;) {
		int full = ROOM - (w->head - w->tail) < sizeof(struct held) + BATCH_MAX;
		uint8_t *at = w->ring + w->head % ROOM,
			control[CMSG_SPACE(sizeof(struct timespec))];
		struct iovec part = {full ? spare : at + sizeof(struct held), BATCH_MAX};
		struct msghdr m = {.msg_iov = &part,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof control};
		ssize_t n = recvmsg(w->from, &m, 0);

		if (n < 0) {
			if (errno != EAGAIN && errno != EINTR)
				fail("recvmsg");
			return;
		}
		if (full || m.msg_flags & MSG_TRUNC) {
			dropped++;
			continue;
		}
		struct held h = {stamp_of(&m) + delay_ns, (uint32_t)n, 0};

		memcpy(at, &h, sizeof h);
		w->head += (sizeof h + (size_t)n + 7) & ~(uint64_t)7;
	}
}

/* What is due by `now` goes on; when the next one is due, or `next` if that is earlier. */
static int64_t give(struct way *w, int64_t now, int64_t next)
{
	while (w->tail != w->head) {
		struct held h;
		uint8_t *at = w->ring + w->tail % ROOM;

		memcpy(&h, at, sizeof h);
		if (h.due_ns > now)
			return h.due_ns < next ? h.due_ns : next;
		if (send(w->to, at + sizeof h, h.bytes, 0) < 0)
			dropped++;
		passed++;
		w->tail += (sizeof h + h.bytes + 7) & ~(uint64_t)7;
	}
	return next;
}

static void run(unsigned ways)
{
	struct pollfd ready[2 * LINKS_MAX];

	for (unsigned i = 0; i < ways; i++)
		ready[i] = (struct pollfd){way[i].from, POLLIN, 0};
	while (!ended) {
		int64_t now = now_ns(), next = now + SECOND;

		for (unsigned i = 0; i < ways; i++)
			next = give(&way[i], now, next);
		int64_t wait = next - now_ns();
		const struct timespec t = {wait > 0 ? wait / SECOND : 0,
					   wait > 0 ? wait % SECOND : 0};

		if (ppoll(ready, ways, &t, NULL) < 0 && errno != EINTR)
			fail("poll");
		for (unsigned i = 0; i < ways; i++)
			if (ready[i].revents)
				take(&way[i]);
	}
}

int main(int argc, char **argv)
{
	const struct sched_param soon = {.sched_priority = 1};
	long us = argc == 3 ? strtol(argv[1], NULL, 10) : -1,
	     links = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

	if (us < 0 || us > US_MAX || links < 1 || links > LINKS_MAX) {
		fprintf(stderr, "usage: long-wire MICROSECONDS LINKS\n");
		return 2;
	}
	delay_ns = us * 1000;
	signal(SIGTERM, end);
	sched_setscheduler(0, SCHED_FIFO,
			   &soon); /* a wire does not wait for a processor; if refused, it does */
	for (unsigned i = 0; i < links; i++) {
		int s = open_end('s', i), w = open_end('w', i);

		way[2 * i] = (struct way){map_ring(), 0, 0, s, w};
		way[2 * i + 1] = (struct way){map_ring(), 0, 0, w, s};
	}
	printf("ready\n");
	fflush(stdout);
	run(2 * (unsigned)links);
	printf("%llu frames, %llu lost\n", (unsigned long long)passed, (unsigned long long)dropped);
	return 0;
}

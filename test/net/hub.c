/* SPDX-License-Identifier: Apache-2.0 */
/* A bad network: hand Ethernet frames from one interface to another, and lose, double, delay,
 * damage and repeat some of them, as seeds say.  hub.sh puts it into the wires of netns.sh.
 *
 *     hub A:B...
 *
 * What comes in at A leaves at B, and the other way round.  Each line of standard input, "seen
 * SEED" or "unseen SEED", draws other rates, which are printed beside what was done until then;
 * UDP's checksum tells the damage of a datagram, or does not. Copies of frames leave up to LATE_NS
 * later, and those of a memory, which holds frames of any age, at any time; these are not damaged.
 * The interfaces must hand over single frames with finished checksums.  End with standard input. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORTS_MAX    64
#define FRAME_BYTES  9216
#define BATCH	     64	   /* frames of a port before the next one has its turn */
#define PENDING_MAX  32768 /* frames that are to leave later */
#define MEMORY	     2048  /* frames that may come back at any time */
#define BUFFER_BYTES (8 << 20)
#define LATE_NS	     UINT64_C(8000000000)
#define S_NS	     UINT64_C(1000000000)
#define MS_NS	     UINT64_C(1000000)
#define BURST_MAX    48 /* frames lost in succession */
#define FLIPS_MAX    4
#define UDP_BYTES    8

enum what { LOST, DOUBLED, DELAYED, LATE, REPEATED, DAMAGED, BURSTS, WHATS };
static const char *const names[] = {"lost",	"doubled", "delayed", "late",
				    "repeated", "damaged", "bursts"};
/* The most of each in a million frames; the seed draws how much of it. */
static const unsigned most_ppm[] = {20000, 20000, 100000, 2000, 4000, 10000, 200};

struct frame {
	uint64_t due_ns;
	uint32_t bytes;
	unsigned out; /* port */
	unsigned char data[];
};

/* A UDP datagram inside a frame. */
struct datagram {
	unsigned char *udp;
	const unsigned char *addresses; /* both, one behind the other */
	size_t bytes, address_bytes;
};

static int port[PORTS_MAX]; /* sockets; the other end of `i` is `i ^ 1` */
static unsigned ports;
static struct frame *pending[PENDING_MAX]; /* a heap, by due_ns */
static unsigned pendings;
static struct frame *memory[MEMORY];
static uint64_t state, delay_most_ns, passed, done[WHATS];
static unsigned ppm[WHATS], burst[PORTS_MAX];
static bool unseen; /* damage that UDP's checksum does not tell */

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S_NS + (uint64_t)t.tv_nsec;
}

/* splitmix64 */
static uint64_t draw(uint64_t below)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % below;
}

static bool happens(enum what what)
{
	bool does = draw(1000000) < ppm[what];
	done[what] += does;
	return does;
}

/* ---- damage ---- */

static bool find_datagram(unsigned char *frame, size_t bytes, struct datagram *d)
{
	unsigned char *ip = frame + ETH_HLEN;
	unsigned type = (unsigned)frame[12] << 8 | frame[13];
	bool v4 = type == ETHERTYPE_IP, v6 = type == ETHERTYPE_IPV6;
	size_t head = v6 ? 40 : 20;
	if ((!v4 && !v6) || bytes < ETH_HLEN + head + UDP_BYTES)
		return false;
	if (v4 && (ip[0] != 0x45 || ip[9] != IPPROTO_UDP || (ip[6] & 0x3f) || ip[7]))
		return false;
	if (v6 && ip[6] != IPPROTO_UDP)
		return false;
	d->udp = ip + head;
	d->addresses = ip + (v6 ? 8 : 12);
	d->address_bytes = v6 ? 32 : 8;
	d->bytes = (size_t)d->udp[4] << 8 | d->udp[5];
	return d->bytes > UDP_BYTES && ETH_HLEN + head + d->bytes <= bytes;
}

static uint32_t add(uint32_t sum, const unsigned char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		sum += i % 2 ? at[i] : (uint32_t)at[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* 0xffff: the checksum is right. */
static uint32_t sum_of(const struct datagram *d)
{
	uint32_t sum = add((uint32_t)d->bytes + IPPROTO_UDP, d->addresses, d->address_bytes);
	return add(sum, d->udp, d->bytes);
}

static void flip(const struct datagram *d, size_t from)
{
	size_t at = from + draw(d->bytes - from);
	if (at != 4 && at != 5) /* another length is another checksum */
		d->udp[at] ^= (unsigned char)(1u << draw(8));
}

static void damage(struct frame *f)
{
	struct datagram d;
	if (!find_datagram(f->data, f->bytes, &d))
		return;
	for (uint64_t flips = 1 + draw(FLIPS_MAX); flips > 0; flips--)
		flip(&d, unseen ? UDP_BYTES : 0);
	if (!unseen) {
		while (sum_of(&d) == 0xffff || !(d.udp[6] | d.udp[7])) /* 0: there is none */
			flip(&d, 0);
		return;
	}
	memset(d.udp + 6, 0, 2);
	uint32_t sum = 0xffff - sum_of(&d);
	sum = sum ? sum : 0xffff;
	d.udp[6] = (unsigned char)(sum >> 8);
	d.udp[7] = (unsigned char)sum;
}

/* ---- frames that wait ---- */

static struct frame *copy_of(const unsigned char *data, size_t bytes, unsigned out)
{
	struct frame *f = malloc(sizeof *f + bytes);
	if (!f)
		abort();
	*f = (struct frame){.bytes = (uint32_t)bytes, .out = out};
	memcpy(f->data, data, bytes);
	return f;
}

static void swap(unsigned a, unsigned b)
{
	struct frame *f = pending[a];
	pending[a] = pending[b];
	pending[b] = f;
}

/* A full heap drops the frame. */
static void put(struct frame *f, uint64_t due_ns)
{
	if (pendings == PENDING_MAX) {
		free(f);
		return;
	}
	f->due_ns = due_ns;
	unsigned at = pendings++;
	pending[at] = f;
	for (; at > 0 && pending[(at - 1) / 2]->due_ns > pending[at]->due_ns; at = (at - 1) / 2)
		swap(at, (at - 1) / 2);
}

static struct frame *take_first(void)
{
	struct frame *first = pending[0];
	pending[0] = pending[--pendings];
	for (unsigned at = 0;;) {
		unsigned least = at;
		for (unsigned k = 2 * at + 1; k <= 2 * at + 2 && k < pendings; k++)
			if (pending[k]->due_ns < pending[least]->due_ns)
				least = k;
		if (least == at)
			return first;
		swap(at, least);
		at = least;
	}
}

/* An interface without room loses the frame, as cards do. */
static void leave(unsigned out, const void *data, size_t bytes)
{
	passed += send(port[out], data, bytes, MSG_DONTWAIT) == (ssize_t)bytes;
}

static void send_due(void)
{
	while (pendings && pending[0]->due_ns <= now_ns()) {
		struct frame *f = take_first();
		leave(f->out, f->data, f->bytes);
		free(f);
	}
}

/* ---- what becomes of a frame ---- */

static bool is_lost(unsigned out)
{
	if (!burst[out] && happens(BURSTS))
		burst[out] = 1 + (unsigned)draw(BURST_MAX);
	if (!burst[out])
		return happens(LOST);
	burst[out]--;
	done[LOST]++;
	return true;
}

static void remember(const unsigned char *data, size_t bytes, unsigned out)
{
	struct frame **place = &memory[draw(MEMORY)];
	if (*place && draw(16))
		return;
	free(*place);
	*place = copy_of(data, bytes, out);
}

static void pass(const unsigned char *data, size_t bytes, unsigned out)
{
	const uint64_t now = now_ns();
	const struct frame *old = memory[draw(MEMORY)];
	remember(data, bytes, out);
	if (happens(LATE))
		put(copy_of(data, bytes, out), now + draw(LATE_NS));
	if (old && happens(REPEATED))
		put(copy_of(old->data, old->bytes, old->out), now + draw(MS_NS));
	if (is_lost(out))
		return;
	for (int copies = 1 + happens(DOUBLED); copies > 0; copies--) {
		bool damaged = happens(DAMAGED), delayed = happens(DELAYED);
		if (!damaged && !delayed) {
			leave(out, data, bytes);
			continue;
		}
		struct frame *f = copy_of(data, bytes, out);
		if (damaged)
			damage(f);
		put(f, now + (delayed ? draw(delay_most_ns) : 0));
	}
}

static void drain(unsigned in)
{
	unsigned char data[FRAME_BYTES];
	for (int i = 0; i < BATCH; i++) {
		ssize_t bytes = recv(port[in], data, sizeof data, MSG_DONTWAIT | MSG_TRUNC);
		if (bytes < ETH_HLEN)
			return;
		if ((size_t)bytes > sizeof data) {
			fprintf(stderr, "hub: a frame of %zd bytes: expected %d at most\n", bytes,
				FRAME_BYTES);
			exit(1);
		}
		pass(data, (size_t)bytes, in ^ 1);
	}
}

/* ---- the whole ---- */

static int open_port(const char *name)
{
	const int buffer = BUFFER_BYTES, on = 1;
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)if_nametoindex(name)};
	struct packet_mreq all = {.mr_ifindex = at.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0 || !at.sll_ifindex || ports == PORTS_MAX ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) ||
	    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) ||
	    bind(fd, (struct sockaddr *)&at, sizeof at)) {
		perror(name);
		exit(1);
	}
	return fd;
}

static void tell(const char *seed)
{
	printf("# hub: event=start seed=%s passed=%llu delay_ms=%.1f", seed,
	       (unsigned long long)passed, (double)delay_most_ns / (double)MS_NS);
	for (int w = 0; w < WHATS; w++)
		printf(" %s=%.3f%%,%llu", names[w], ppm[w] / 1e4, (unsigned long long)done[w]);
	printf("\n");
	fflush(stdout);
}

/* False: at the end of standard input. */
static bool take_line(void)
{
	char word[8], seed[24];
	if (scanf("%7s %23s", word, seed) != 2)
		return false;
	unseen = !strcmp(word, "unseen");
	state = strtoull(seed, NULL, 10);
	delay_most_ns = MS_NS + draw(20 * MS_NS);
	for (int w = 0; w < WHATS; w++)
		ppm[w] = (unsigned)draw(most_ppm[w] + 1);
	tell(seed);
	return true;
}

/* False: at the end of standard input. */
static bool wait_for_frames(void)
{
	struct pollfd at[PORTS_MAX + 1];
	struct timespec most = {.tv_sec = 1};
	for (unsigned i = 0; i < ports; i++)
		at[i] = (struct pollfd){.fd = port[i], .events = POLLIN};
	at[ports] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	if (pendings) {
		uint64_t now = now_ns(), due = pending[0]->due_ns;
		uint64_t left = due > now ? due - now : 0;
		most = (struct timespec){.tv_sec = (time_t)(left / S_NS),
					 .tv_nsec = (long)(left % S_NS)};
	}
	if (ppoll(at, ports + 1, &most, NULL) <= 0)
		return true;
	if (at[ports].revents && !take_line())
		return false;
	for (unsigned i = 0; i < ports; i++)
		if (at[i].revents)
			drain(i);
	return true;
}

int main(int argc, char **argv)
{
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() sees each line */
	for (int i = 1; i < argc; i++) {
		char *b = strchr(argv[i], ':');
		if (!b) {
			fprintf(stderr, "hub: %s: expected A:B\n", argv[i]);
			return 2;
		}
		*b = 0;
		port[ports++] = open_port(argv[i]);
		port[ports++] = open_port(b + 1);
	}
	while (wait_for_frames())
		send_due();
	return 0;
}

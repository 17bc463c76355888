/* SPDX-License-Identifier: Apache-2.0 */
/* flood.c - JOINs from 65,536 sources, for bench/flood; needs CAP_NET_RAW.
 *
 *     build/bench/bench-flood ADDR PORT NET RATE SECONDS     sources NET.0.0 to NET.255.255
 *
 * Each is of another life, most of another job; every second one says that it is sealed.  Prints
 * how many it has sent a second. */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/rng.h"
#include "core/wire/ctlmsg.h"

#define BATCH 50
#define ROOM  256

struct packet {
	struct iphdr ip;
	struct udphdr udp;
	uint8_t bytes[ROOM];
};

static struct packet packet[BATCH];
static struct mmsghdr message[BATCH];
static struct iovec part[BATCH];
static struct fan_rng rng = {.state = 8};

static volatile sig_atomic_t ended;

static void stop(int number)
{
	(void)number;
	ended = 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t make_join(uint8_t *to, uint64_t n)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_join m = {
		.ranks = (uint16_t)(2 + n * 7 % 255), .payload_bytes = 1344, .alive_ms = 600000};
	struct fan_frag f = {
		.type = FAN_TYPE_JOIN, .nonce = fan_rng_next(&rng) | 1, .payload = body};

	m.name_bytes = (uint8_t)snprintf(m.name, sizeof m.name, "own-%u", (unsigned)(n % 50021));
	f.payload_bytes = fan_ctl_put(body, &m);
	fan_wire_put(to, &f);
	memcpy(to + FAN_HEAD_BYTES, body, f.payload_bytes);
	size_t len = FAN_HEAD_BYTES + f.payload_bytes;
	if (n % 2) {
		fan_put16(to + 2, fan_get16(to + 2) | FAN_F_SEALED);
		memset(to + len, (int)n, FAN_TAG_BYTES);
		len += FAN_TAG_BYTES;
	}
	return len;
}

static void make(unsigned i, uint64_t n, uint32_t net, const struct sockaddr_in *to)
{
	struct packet *p = &packet[i];
	const size_t len = make_join(p->bytes, n);

	p->ip = (struct iphdr){.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP};
	p->ip.saddr = htonl(net | (uint32_t)(n * 40503 & 0xffff));
	p->ip.daddr = to->sin_addr.s_addr;
	p->udp = (struct udphdr){.uh_sport = htons(6000), .uh_dport = to->sin_port};
	p->udp.uh_ulen = htons((uint16_t)(sizeof p->udp + len));
	part[i] = (struct iovec){p, sizeof p->ip + sizeof p->udp + len};
	message[i].msg_hdr = (struct msghdr){.msg_name = (void *)to,
					     .msg_namelen = sizeof *to,
					     .msg_iov = &part[i],
					     .msg_iovlen = 1};
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct in_addr net;
	char text[64];
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);

	if (argc != 6 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1 ||
	    snprintf(text, sizeof text, "%s.0.0", argv[3]) < 0 ||
	    inet_pton(AF_INET, text, &net) != 1 || fd < 0) {
		fprintf(stderr, "bench-flood: expected ADDR PORT NET RATE SECONDS, and root\n");
		return 2;
	}
	signal(SIGTERM, stop);
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	const double each_ns = 1e9 / atof(argv[4]);
	const uint64_t since = now_ns(), end = since + (uint64_t)(atof(argv[5]) * 1e9);
	uint64_t n = 0, sent = 0;
	while (!ended && now_ns() < end) {
		for (unsigned i = 0; i < BATCH; i++)
			make(i, n++, ntohl(net.s_addr), &to);
		const int done = sendmmsg(fd, message, BATCH, 0);
		sent += done > 0 ? (uint64_t)done : 0;
		const double early_ns = (double)n * each_ns - (double)(now_ns() - since);
		if (early_ns > 0)
			usleep((useconds_t)(early_ns / 1000));
	}
	printf("%.0f\n", (double)sent * 1e9 / (double)(now_ns() - since));
	close(fd);
	return 0;
}

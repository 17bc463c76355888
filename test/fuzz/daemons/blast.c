/* SPDX-License-Identifier: Apache-2.0 */
/* blast.c - mutated packets of a recorded job for a daemon that runs: blast ADDR:PORT TAPE COUNT
 * SEED
 *
 * TAPE is packets, each behind its length in two bytes, least first.  After each burst the daemon
 * has to answer an echo: so all have been handled, and none lost in its queue.  Ends with 1 if it
 * does not answer; prints how many it was sent. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/rng.h"
#include "fuzz.h"
#include "net/echo.h"
#include "net/udp.h"

#define TAPE_MAX    4096
#define SOURCES	    4
#define BURST	    64	/* fits the smallest receive buffer */
#define SILENCE_MAX 100 /* echoes without an answer: 50 s */
#define MORE	    64	/* bytes by which a packet may grow */

struct packet {
	size_t len;
	uint8_t bytes[FAN_PACKET_MAX];
};

static struct packet tape[TAPE_MAX];
static unsigned taped;
static struct fan_rng rng;

static uint64_t below(uint64_t n)
{
	return fan_rng_below(&rng, n);
}

static void read_tape(const char *path)
{
	uint8_t head[2];
	FILE *f = fopen(path, "rb");
	while (f && taped < TAPE_MAX && fread(head, 1, 2, f) == 2) {
		struct packet *p = &tape[taped];
		p->len = (size_t)head[0] | (size_t)head[1] << 8;
		if (p->len > sizeof p->bytes || fread(p->bytes, 1, p->len, f) != p->len)
			break;
		taped += p->len >= FAN_HEAD_BYTES;
	}
	if (f)
		fclose(f);
}

/* One field of the header, at most. */
static void alter(uint8_t *p)
{
	static const uint8_t types[] = {1,  2,	3,  4,	5,  6,	7,  8,	16,
					17, 18, 19, 20, 21, 22, 23, 24, 25};
	switch (below(8)) {
	case 0: p[1] = types[below(sizeof types)]; break;
	case 1: fan_put16(p + 2, fan_get16(p + 2) ^ (uint16_t)(1u << below(16))); break;
	case 2: fan_put32(p + 4, (uint32_t)fan_rng_next(&rng)); break;
	case 3: fan_put32(p + 8, fan_get32(p + 8) + (uint32_t)below(5) - 2); break;
	case 4: fan_put16(p + 12, (uint16_t)below(300)); break;
	case 5: p[14 + below(FAN_HEAD_BYTES - 18)] = (uint8_t)fan_rng_next(&rng); break;
	default: break;
	}
}

/* Something like a packet that was recorded; its length. */
static size_t mutate(uint8_t *to)
{
	const struct packet *p = &tape[below(taped)], *other = &tape[below(taped)];
	size_t len = p->len;
	memcpy(to, p->bytes, len);
	switch (below(8)) {
	case 0: len = below(len + 1); break;
	case 1:
		for (unsigned n = 0; n < MORE; n++)
			to[len + n] = (uint8_t)fan_rng_next(&rng);
		len += below(MORE);
		break;
	case 2: /* the payload of another one */
		memcpy(to + FAN_HEAD_BYTES, other->bytes + FAN_HEAD_BYTES,
		       other->len - FAN_HEAD_BYTES);
		len = other->len;
		break;
	default: break;
	}
	if (len >= FAN_HEAD_BYTES)
		alter(to);
	for (uint64_t n = below(4); n && len; n--)
		to[below(len)] ^= (uint8_t)(1u << below(8));
	if (below(4))
		fuzz_fix(to, len);
	return len;
}

static bool answers(const fan_peer *at)
{
	bool yes = false;
	for (unsigned i = 0; i < SILENCE_MAX && !yes; i++)
		fan_echo_all(at, 1, &yes);
	return yes;
}

int main(int argc, char **argv)
{
	static uint8_t packet[FAN_PACKET_MAX + MORE];
	char why[120];
	fan_peer at;
	int fd[SOURCES];
	if (argc != 5 || fan_peer_parse(&at, argv[1], why, sizeof why)) {
		fprintf(stderr, "blast: expected ADDR:PORT TAPE COUNT SEED\n");
		return 2;
	}
	read_tape(argv[2]);
	rng.state = strtoull(argv[4], NULL, 0);
	struct sockaddr_storage sa;
	socklen_t bytes = fan_peer_to_sockaddr(&at, AF_INET, &sa);
	for (unsigned i = 0; i < SOURCES; i++) {
		fd[i] = socket(sa.ss_family, SOCK_DGRAM, 0);
		if (fd[i] < 0 || connect(fd[i], (struct sockaddr *)&sa, bytes))
			return 2;
	}
	uint64_t count = taped ? strtoull(argv[3], NULL, 0) : 0, sent = 0;
	while (sent < count) {
		for (unsigned i = 0; i < BURST; i++) {
			size_t len = mutate(packet);
			sent += send(fd[below(SOURCES)], packet, len, 0) == (ssize_t)len;
		}
		if (!answers(&at)) {
			printf("%llu packets, and no answer\n", (unsigned long long)sent);
			return 1;
		}
	}
	printf("%llu packets\n", (unsigned long long)sent);
	return taped == 0;
}

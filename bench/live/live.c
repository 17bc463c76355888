/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - a job whose contributions reach the switch as frames of a driver.
 *
 *     bench-live INTERFACE MAC SWITCH RANKS FRAGMENTS
 *
 * Joins a job with RANKS ranks at SWITCH, an IPv4 ADDR:PORT behind INTERFACE, whose other end has
 * the Ethernet address MAC.  Then the kernel runs live.bpf.c for each contribution and sends the
 * frame on INTERFACE as a driver would (BPF_PROG_TEST_RUN with live frames), so that the far end
 * gets XDP frames, one at a time, and no batches of a socket.  Every result is compared with the
 * sum, bit for bit.  Prints when it is about to start, when it has ended, and counts:
 *
 *     ready
 *     done results=N wrong=N frames=N
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/worker/worker.h"
#include "live.h"
#include "live.skel.h"
#include "net/clock.h"
#include "net/udp.h"

#define RANKS_MAX      16
#define PORT	       40000 /* of rank 0; the others follow */
#define PAYLOAD	       1408
#define COUNT	       (PAYLOAD / 4)
#define BATCH	       64
#define UNDER_WAY      192 /* frames; a veth queues 256 */
#define ITEMS	       64
#define BUFFER	       (4 << 20)
#define READY_MS       5000
#define RESULT_MS      3000 /* without a result: frames were lost */
#define READY_PAUSE_MS 200  /* for whoever counts to begin */
#define TICK_MS	       100
#define FRAME_BYTES    (LIVE_AT + LIVE_HEAD + PAYLOAD)

struct rank {
	struct fan_udp udp;
	struct fan_worker *w;
};

struct bench {
	struct rank rank[RANKS_MAX];
	struct fan_udp group;
	bool has_group;
	unsigned ranks;
	fan_peer to;
	struct fan_frag first; /* job and epoch of WELCOME */
	uint64_t fragments, results, wrong;
	bool *seen;	       /* results, by fragment */
	int32_t values[COUNT]; /* of each contribution */
	struct live *program;
	uint8_t frame[FRAME_BYTES];
	unsigned interface; /* index */
};

static _Noreturn void stop(const char *what, int e)
{
	fprintf(stderr, "bench-live: %s: %s\n", what, e ? strerror(e) : "failed");
	exit(1);
}

static void send_all(struct rank *r)
{
	static struct fan_out_item item[ITEMS];
	static uint8_t scratch[65536];
	struct fan_out out;

	fan_out_init(&out, item, ITEMS, scratch, sizeof scratch);
	fan_worker_tick(r->w, fan_clock_ns(), &out);
	fan_udp_send(&r->udp, &out, true);
}

static void join_group(struct bench *b, const struct fan_welcome *m)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(m->group_port)};
	struct fan_udp_options o = {.buffer_bytes = BUFFER, .freebind_group = true};

	if (b->has_group || m->group_family != 4)
		return;
	memcpy(&in.sin_addr, m->group, 4);
	o.bind = fan_peer_from_sockaddr((struct sockaddr *)&in, sizeof in);
	o.interface = b->interface;
	int e = fan_udp_open(&b->group, &o);
	if (e)
		stop("the group", -e);
	b->has_group = true;
}

/* Results are compared here; the workers, which have no operation, see to the membership. */
static void take(struct bench *b, struct rank *r, const uint8_t *data, size_t bytes, bool by_group)
{
	struct fan_welcome m;
	struct fan_frag f = {.type = 0};

	if (fan_wire_get(&f, data, bytes) < 0 && f.type == FAN_TYPE_WELCOME &&
	    !fan_ctl_get(&m, &f)) {
		b->first = f;
		join_group(b, &m);
	}
	if (f.type == FAN_TYPE_RESULT && (by_group || r == &b->rank[0])) {
		bool good = f.frag < b->fragments && f.payload_bytes == PAYLOAD;
		for (unsigned i = 0; good && i < COUNT; i++) {
			int32_t v;
			memcpy(&v, f.payload + 4 * i, sizeof v);
			good = v == b->values[i] * (int32_t)b->ranks;
		}
		b->wrong += !good;
		if (good && !b->seen[f.frag]) { /* not a replay */
			b->seen[f.frag] = true;
			b->results++;
		}
		return;
	}
	for (unsigned i = 0; i < b->ranks; i++)
		if (by_group || r == &b->rank[i])
			fan_worker_recv(b->rank[i].w, fan_clock_ns(), data, bytes, by_group, false);
}

static void receive(struct bench *b, struct fan_udp *u, struct rank *r)
{
	static uint8_t in[FAN_UDP_RECV_BYTES];
	struct fan_udp_batch got;

	while (fan_udp_recv(u, in, &got) > 0)
		for (size_t at = 0; at < got.bytes; at += got.segment)
			take(b, r, in + at, fan_udp_datagram_bytes(&got, at), !r);
}

static void receive_all(struct bench *b)
{
	for (unsigned i = 0; i < b->ranks; i++)
		receive(b, &b->rank[i].udp, &b->rank[i]);
	if (b->has_group)
		receive(b, &b->group, NULL);
}

static void add_rank(struct bench *b, unsigned i, uint64_t nonce)
{
	const struct sockaddr_in any = {.sin_family = AF_INET,
					.sin_port = htons((uint16_t)(PORT + i))};
	struct fan_udp_options o = {
		.bind = fan_peer_from_sockaddr((const struct sockaddr *)&any, sizeof any),
		.connect = b->to,
		.buffer_bytes = BUFFER,
	};
	struct fan_worker_config c = {
		.name = "live",
		.rank = (uint16_t)i,
		.ranks = (uint16_t)b->ranks,
		.payload_bytes = PAYLOAD,
		.window_max = FAN_WINDOW_QUOTA,
		.options = FAN_JOIN_GROUP | FAN_JOIN_WIDE,
		.alive_ms = 10000,
		.join_ms = READY_MS,
		.stall_ms = 60000,
		.nonce = nonce,
	};
	int e = fan_udp_open(&b->rank[i].udp, &o);

	if (e)
		stop("socket", -e);
	b->rank[i].w = fan_worker_init(aligned_alloc(64, (fan_worker_bytes(&c) + 63) / 64 * 64), &c,
				       fan_clock_ns());
}

static void join(struct bench *b)
{
	uint64_t by = fan_clock_ns() + READY_MS * FAN_MS;
	unsigned ready = 0;

	while (ready < b->ranks) {
		if (fan_clock_ns() > by)
			stop("the job does not become ready", 0);
		for (unsigned i = ready = 0; i < b->ranks; i++) {
			send_all(&b->rank[i]);
			ready += fan_worker_phase(b->rank[i].w) == FAN_W_READY;
		}
		poll(NULL, 0, 1);
		receive_all(b);
	}
}

static uint32_t sum16(const uint8_t *p, size_t bytes)
{
	uint64_t s = 0;
	uint16_t word;

	for (size_t i = 0; i < bytes; i += 2) {
		memcpy(&word, p + i, sizeof word);
		s += word;
	}
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint32_t)s;
}

static void put_ip(struct bench *b, uint8_t *ip)
{
	fan_peer from = fan_udp_local(&b->rank[0].udp);
	const uint16_t length = htons(FRAME_BYTES - LIVE_ETHERNET);
	uint8_t fixed[LIVE_IP] = {0x45, 2, 0, 0, 0, 0, 0x40, 0, 64, 17};

	memcpy(fixed + 2, &length, sizeof length);
	memcpy(fixed + 12, (const uint8_t *)from.addr + 12, 4);
	memcpy(fixed + 16, (const uint8_t *)b->to.addr + 12, 4);
	uint16_t check = (uint16_t)~sum16(fixed, sizeof fixed);
	memcpy(fixed + 10, &check, sizeof check);
	memcpy(ip, fixed, sizeof fixed);
}

/* A contribution without what the program fills in; returns the sum that it begins with. */
static uint32_t put_template(struct bench *b)
{
	struct fan_frag f = {.type = FAN_TYPE_DATA,
			     .job = b->first.job,
			     .epoch = b->first.epoch,
			     .dtype = FAN_INT32,
			     .op = FAN_SUM,
			     .count = COUNT};
	uint8_t *ip = b->frame + LIVE_ETHERNET, *udp = ip + LIVE_IP, *h = udp + LIVE_UDP;
	const uint16_t to = htons((uint16_t)b->to.port),
		       length = htons(LIVE_UDP + LIVE_HEAD + PAYLOAD);
	const uint16_t pseudo[2] = {htons(17), length};

	put_ip(b, ip);
	memcpy(udp + 2, &to, sizeof to);
	memcpy(udp + 4, &length, sizeof length);
	fan_wire_put(h, &f);
	memset(h + 12, 0, 4);
	memset(h + 16, 0, 8);
	memset(h + 32, 0, 4);
	memcpy(h + LIVE_HEAD, b->values, PAYLOAD);
	return sum16(udp, FRAME_BYTES - LIVE_ETHERNET - LIVE_IP) + sum16(ip + 12, 8) +
	       sum16((const uint8_t *)pseudo, sizeof pseudo);
}

static void put_ethernet(struct bench *b, const char *interface, const char *mac)
{
	unsigned to[6];
	struct ifreq r = {.ifr_flags = 0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sscanf(mac, "%x:%x:%x:%x:%x:%x", to, to + 1, to + 2, to + 3, to + 4, to + 5) != 6)
		stop("MAC", EINVAL);
	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", interface);
	if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &r))
		stop(interface, errno);
	close(fd);
	for (unsigned i = 0; i < 6; i++)
		b->frame[i] = (uint8_t)to[i];
	memcpy(b->frame + 6, r.ifr_hwaddr.sa_data, 6);
	b->frame[12] = 8;
}

static void open_program(struct bench *b)
{
	b->program = live__open();
	if (!b->program)
		stop("live.bpf.c", errno);
	b->program->rodata->interface = b->interface;
	b->program->rodata->ranks = b->ranks;
	b->program->rodata->first_port = PORT;
	b->program->rodata->base_sum = put_template(b);
	for (unsigned i = 0; i < 256; i++) {
		const uint8_t byte = (uint8_t)i;
		b->program->rodata->crc_table[i] = ~fan_crc32c(~0u, &byte, 1);
	}
	int e = live__load(b->program);
	if (e)
		stop("live.bpf.c", -e);
	/* A program that is attached somewhere, here where nothing passes, need not be entered in
	 * the kernel's list of programs at every run, which takes it milliseconds. */
	DECLARE_LIBBPF_OPTS(bpf_link_create_opts, o, .flags = XDP_FLAGS_SKB_MODE);
	if (bpf_link_create(bpf_program__fd(b->program->progs.live), (int)if_nametoindex("lo"),
			    BPF_XDP, &o) < 0)
		stop("attach to lo", errno);
}

static void send_frames(struct bench *b, unsigned frames)
{
	struct bpf_test_run_opts o = {
		.sz = sizeof o,
		.data_in = b->frame,
		.data_size_in = sizeof b->frame,
		.repeat = (int)frames,
		.flags = BPF_F_TEST_XDP_LIVE_FRAMES,
		.batch_size = BATCH,
	};
	int e = bpf_prog_test_run_opts(bpf_program__fd(b->program->progs.live), &o);

	if (e)
		stop("live frames", -e);
}

/* All contributions, never more under way than the interface queues. */
static void contribute(struct bench *b)
{
	uint64_t sent = 0, all = b->fragments * b->ranks, seen = 0;
	uint64_t heard = fan_clock_ns(), ticked = heard;
	struct pollfd p = {b->has_group ? b->group.fd : b->rank[0].udp.fd, POLLIN, 0};

	while (b->results < b->fragments) {
		uint64_t now = fan_clock_ns(), left = all - sent;
		unsigned frames = left < BATCH ? (unsigned)left : BATCH;
		if (frames && sent + frames - b->results * b->ranks <= UNDER_WAY) {
			send_frames(b, frames);
			sent += frames;
		} else {
			poll(&p, 1, 1);
		}
		receive(b, p.fd == b->group.fd ? &b->group : &b->rank[0].udp,
			b->has_group ? NULL : &b->rank[0]);
		if (b->results != seen)
			heard = now;
		seen = b->results;
		if (now > heard + RESULT_MS * FAN_MS)
			stop("no result comes: frames were lost", 0);
		for (unsigned i = 0; now > ticked + TICK_MS * FAN_MS && i < b->ranks; i++) {
			send_all(&b->rank[i]);
			if (i || b->has_group)
				receive(b, &b->rank[i].udp, &b->rank[i]);
		}
		if (now > ticked + TICK_MS * FAN_MS)
			ticked = now;
	}
	printf("done results=%llu wrong=%llu frames=%llu\n", (unsigned long long)b->results,
	       (unsigned long long)b->wrong, (unsigned long long)sent);
}

int main(int argc, char **argv)
{
	static struct bench b;
	uint64_t nonce = fan_clock_nonce();

	if (argc != 6 || !fan_peer_read(&b.to, argv[3]) || atoi(argv[4]) < 2 ||
	    atoi(argv[4]) > RANKS_MAX) {
		fprintf(stderr, "usage: bench-live INTERFACE MAC SWITCH RANKS FRAGMENTS\n");
		return 2;
	}
	b.interface = if_nametoindex(argv[1]);
	b.ranks = (unsigned)atoi(argv[4]);
	b.fragments = strtoull(argv[5], NULL, 10);
	b.seen = calloc(b.fragments, sizeof *b.seen);
	if (!b.seen)
		stop("memory", errno);
	for (unsigned i = 0; i < COUNT; i++)
		b.values[i] = (int32_t)(i * 2654435761u >> 8);
	for (unsigned i = 0; i < b.ranks; i++)
		add_rank(&b, i, nonce + i);
	join(&b);
	put_ethernet(&b, argv[1], argv[2]);
	open_program(&b);
	printf("ready\n");
	fflush(stdout);
	poll(NULL, 0, READY_PAUSE_MS);
	contribute(&b);
	live__destroy(b.program);
	return b.wrong != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* switch.c - loads switch.bpf.c and sees to the membership of its jobs.
 *
 *     xdp-switch INTERFACE ADDR:PORT
 *     xdp-switch --pass INTERFACE
 *
 * The second form is for the far end of a veth, which takes frames that leave by XDP only while it
 * has a program: one that passes all, for as long as this process lives.
 *
 * Messages about membership come by a socket and go to the aggregator of src/core, as in `fanin
 * switch --policy switchml`.  When it says that a job is ready, the kernel is told of it, and from
 * then on contributions no longer come here.  One that comes all the same means that a rank does
 * what this switch cannot; its job ends with a sentence in the log.  SIGINT and SIGTERM: counters,
 * and the end; the program is detached when this process ends, however it does. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/node/node.h"
#include "layout.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "net/logline.h"
#include "net/udp.h"
#include "switch.skel.h"

#define WINDOW		512
#define ITEMS		256
#define BUFFER		(4 << 20)
#define WELL_FORMED	-1 /* of fan_wire_get */
#define PATH_BYTES	64
#define JOIN_OPTIONS_AT 6 /* bytes into its body */

struct known {
	bool used;
	uint32_t number;
	uint32_t first_round;
	bool ended; /* its ranks have been told */
	struct job job;
	char name[FAN_NAME_MAX + 1];
};

struct control {
	struct fan_udp udp;
	struct fan_node *node;
	struct fan_aggregator *aggregator;
	struct fan_aggregator_config cfg;
	struct fan_out out;
	struct fan_out_item item[ITEMS];
	uint8_t scratch[ITEMS * FAN_ITEM_SCRATCH];
	uint8_t in[FAN_UDP_RECV_BYTES];
	struct known known[JOBS];
	struct xdp_switch *program;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static _Noreturn void die(const char *what, int e)
{
	fprintf(stderr, "xdp-switch: %s: %s\n", what, strerror(e));
	exit(1);
}

static struct known *find(struct control *c, uint32_t number)
{
	for (unsigned i = 0; i < JOBS; i++)
		if (c->known[i].used && c->known[i].number == number)
			return &c->known[i];
	return NULL;
}

static struct known *place(struct control *c, const struct fan_event *ev)
{
	struct known *k = find(c, ev->job);

	for (unsigned i = 0; i < JOBS && !k; i++)
		if (!c->known[i].used)
			k = &c->known[i];
	if (k && !k->used) {
		memset(k, 0, sizeof *k);
		k->used = true;
		k->number = ev->job;
		k->first_round = (uint32_t)(k - c->known) * 2 * WINDOW;
		memcpy(k->name, ev->name, sizeof k->name);
	}
	return k;
}

static uint32_t ip_of(const fan_peer *p)
{
	uint32_t ip;

	memcpy(&ip, (const uint8_t *)p->addr + 12, sizeof ip);
	return ip;
}

static void note_rank(struct control *c, const struct fan_event *ev)
{
	struct known *k = place(c, ev);

	if (!k || ev->rank >= RANKS)
		return;
	k->job.epoch = ev->epoch;
	k->job.ranks = ev->ranks;
	k->job.window = ev->window;
	k->job.peer_ip[ev->rank] = ip_of(&ev->peer);
	k->job.peer_port[ev->rank] = (uint16_t)ev->peer.port;
}

/* Its rounds have a past life's sums. */
static void clear_rounds(struct control *c, const struct known *k)
{
	size_t bytes = bpf_map__value_size(c->program->maps.rounds);
	void *zero = calloc(1, bytes);

	for (uint32_t i = 0; zero && i < 2 * WINDOW; i++) {
		uint32_t at = k->first_round + i;
		if (bpf_map__update_elem(c->program->maps.rounds, &at, sizeof at, zero, bytes,
					 BPF_ANY))
			die("clear a slot", errno);
	}
	free(zero);
}

static void begin_job(struct control *c, const struct fan_event *ev)
{
	struct known *k = find(c, ev->job);
	fan_peer group = fan_line_group(&c->cfg, ev->job);

	if (!k)
		return;
	if (!ev->multicast || ev->ranks > RANKS) {
		printf("job \"%s\": left to nobody: results go by multicast, to at most %d ranks\n",
		       k->name, RANKS);
		return;
	}
	clear_rounds(c, k);
	k->job.first_round = k->first_round;
	k->job.group_ip = ip_of(&group);
	k->job.group_port = (uint16_t)group.port;
	if (bpf_map__update_elem(c->program->maps.jobs, &k->number, sizeof k->number, &k->job,
				 sizeof k->job, BPF_ANY))
		die("tell of a job", errno);
	printf("job \"%s\": %u ranks, window %u, summed in the kernel\n", k->name, ev->ranks,
	       ev->window);
}

static void end_job(struct control *c, const struct fan_event *ev)
{
	struct known *k = find(c, ev->job);

	bpf_map__delete_elem(c->program->maps.jobs, &ev->job, sizeof ev->job, 0);
	if (k && ev->kind == FAN_EV_JOB_REMOVED)
		k->used = false;
}

/* Before what caused them is sent: a job is known before its first contribution comes. */
static void handle_events(struct control *c)
{
	struct fan_event ev;

	while (fan_aggregator_event(c->aggregator, &ev)) {
		if (ev.kind == FAN_EV_RANK_JOINED)
			note_rank(c, &ev);
		else if (ev.kind == FAN_EV_JOB_READY)
			begin_job(c, &ev);
		else if (ev.kind == FAN_EV_JOB_FAILED || ev.kind == FAN_EV_JOB_REMOVED)
			end_job(c, &ev);
	}
	fflush(stdout);
}

static void flush(struct control *c)
{
	handle_events(c);
	fan_udp_send(&c->udp, &c->out, false);
	fan_node_sent(c->node);
}

/* Why the program has left this contribution to the kernel. */
static const char *reason(const struct known *k)
{
	if (k->job.ranks > RANKS)
		return "more ranks than this switch has";
	if (!k->job.group_ip)
		return "its ranks do not all hear its multicast group";
	return "this switch has sums of int32, int64 and --mode fixed, the maximum of int64, and "
	       "barriers, each fragment alike on all ranks";
}

/* A contribution of a job that is ready: end it for its sender, which tells the others as it
 * leaves. */
static void refuse(struct control *c, const fan_peer *from, const struct fan_frag *f)
{
	struct known *k = find(c, f->job);
	struct fan_state m = {.state = FAN_JOB_FAILED, .err = FAN_E_INVALID};
	struct fan_frag h = {
		.type = FAN_TYPE_STATE, .job = f->job, .epoch = f->epoch, .sender = FAN_RANK_NONE};

	if (!k || f->sender >= k->job.ranks || f->sender >= RANKS || f->epoch != k->job.epoch ||
	    k->job.peer_ip[f->sender] != ip_of(from) || k->job.peer_port[f->sender] != from->port)
		return;
	if (!k->ended)
		printf("job \"%s\" ends: rank %u, fragment %llu, op %u, dtype %u: %s\n", k->name,
		       f->sender, (unsigned long long)f->frag, f->op, f->dtype, reason(k));
	k->ended = true;
	m.ranks = (uint16_t)k->job.ranks;
	struct fan_out_item *it = fan_out_add(&c->out, FAN_TO_PEER);
	uint8_t *body = fan_out_scratch(&c->out, FAN_CTL_BYTES_MAX);
	it->peer = *from;
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, &m));
}

/* No numbers: the aggregator sees no contributions, and would miss them. */
static void without_numbers(uint8_t *join, size_t bytes)
{
	if (bytes <= FAN_HEAD_BYTES + JOIN_OPTIONS_AT)
		return;
	join[FAN_HEAD_BYTES + JOIN_OPTIONS_AT] &= (uint8_t)~FAN_JOIN_NUMBERS;
	fan_wire_recheck(join, bytes);
}

static void take(struct control *c, const fan_peer *from, uint8_t *data, size_t bytes)
{
	struct fan_frag f = {.type = 0};
	int e = fan_wire_get(&f, data, bytes);

	if (!fan_node_fits(c->node, &c->out))
		flush(c);
	if (e == WELL_FORMED && f.type < FAN_TYPE_CTL) {
		refuse(c, from, &f);
		return;
	}
	if (f.type == FAN_TYPE_JOIN)
		without_numbers(data, bytes);
	fan_node_recv(c->node, fan_clock_ns(), *from, data, bytes, false, &c->out);
}

static void serve(struct control *c)
{
	struct pollfd p = {c->udp.fd, POLLIN, 0};
	struct fan_udp_batch b;

	while (!stopped) {
		poll(&p, 1, fan_clock_timeout_ms(fan_node_deadline(c->node), -1));
		while (fan_udp_recv(&c->udp, c->in, &b) > 0)
			for (size_t at = 0; at < b.bytes; at += b.segment)
				take(c, &b.from, c->in + at, fan_udp_datagram_bytes(&b, at));
		flush(c);
		if (fan_node_deadline(c->node) <= fan_clock_ns())
			fan_node_tick(c->node, fan_clock_ns(), &c->out);
		flush(c);
	}
}

static void open_node(struct control *c, const fan_peer *at)
{
	struct fan_udp_options o = {.bind = *at, .buffer_bytes = BUFFER};
	struct fan_daemon_options d;
	struct fan_node_config n = {.has_aggregator = true};
	int e = fan_udp_open(&c->udp, &o);

	if (e)
		die("the address", -e);
	fan_daemon_defaults(&d);
	c->cfg = d.core;
	c->cfg.jobs_max = JOBS;
	c->cfg.slots = JOBS * WINDOW;
	c->cfg.window_max = WINDOW;
	c->cfg.shards = 1;
	c->cfg.nonce = fan_clock_nonce();
	for (unsigned i = 0; i < 2; i++)
		c->cfg.secret.k[i] = fan_clock_nonce();
	c->cfg.group_family = 4;
	c->cfg.group_port = FAN_DAEMON_GROUP_PORT;
	c->cfg.group_base[0] = 239;
	c->cfg.group_base[1] = 192 + (uint8_t)(fan_clock_nonce() & 3);
	c->cfg.group_base[2] = (uint8_t)fan_clock_nonce();
	n.aggregator = c->cfg;
	size_t bytes = (fan_node_bytes(&n) + 63) / 64 * 64;
	void *memory = bytes ? aligned_alloc(64, bytes) : NULL;
	if (!memory)
		die("memory", bytes ? ENOMEM : EINVAL);
	c->node = fan_node_init(memory, &n);
	c->aggregator = c->node->aggregator;
	fan_out_init(&c->out, c->item, ITEMS, c->scratch, sizeof c->scratch);
}

static void need_interface(const char *interface)
{
	if (if_nametoindex(interface))
		return;
	fprintf(stderr,
		"xdp-switch: %s: there is no such interface; `ip link` lists those there are\n",
		interface);
	exit(1);
}

/* What the kernel's number means here, and the way out. */
static _Noreturn void die_unattached(const char *interface, int e)
{
	if (e == EBUSY || e == EEXIST)
		fprintf(stderr,
			"xdp-switch: %s: another program has it; `ip link show dev %s` tells its "
			"id\n",
			interface, interface);
	else if (e == EPERM || e == EACCES)
		fprintf(stderr, "xdp-switch: %s: not allowed; run as root\n", interface);
	else if (e == EOPNOTSUPP)
		fprintf(stderr, "xdp-switch: %s: its driver has no XDP; `fanin switch` takes any\n",
			interface);
	else
		fprintf(stderr, "xdp-switch: %s: %s; `ip link set dev %s mtu 1500` may help\n",
			interface, strerror(e), interface);
	exit(1);
}

static void attach(const struct bpf_program *program, const char *interface)
{
	DECLARE_LIBBPF_OPTS(bpf_link_create_opts, o, .flags = XDP_FLAGS_DRV_MODE);

	if (bpf_link_create(bpf_program__fd(program), (int)if_nametoindex(interface), BPF_XDP, &o) <
	    0)
		die_unattached(interface, errno);
}

static void pass_all(const char *interface)
{
	need_interface(interface);
	struct xdp_switch *program = xdp_switch__open();

	if (!program)
		die("switch.bpf.c", errno);
	bpf_program__set_autoload(program->progs.xdp_switch, false);
	int e = xdp_switch__load(program);
	if (e)
		die("switch.bpf.c", -e);
	attach(program->progs.pass, interface);
	printf("event=start interface=%s\n", interface);
	fflush(stdout);
	while (!stopped)
		pause();
}

static void fill_table(__u32 table[4][256])
{
	for (unsigned i = 0; i < 256; i++) {
		const uint8_t byte = (uint8_t)i;
		table[0][i] = ~fan_crc32c(~0u, &byte, 1);
	}
	for (unsigned k = 1; k < 4; k++)
		for (unsigned i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static void open_program(struct control *c, const char *interface, const fan_peer *at)
{
	char path[PATH_BYTES];
	struct stat second;

	snprintf(path, sizeof path, "/sys/class/net/%s/queues/rx-1", interface);
	need_interface(interface);
	if (!stat(path, &second)) {
		fprintf(stderr,
			"xdp-switch: %s has several receive queues, and a slot must have one "
			"core; as root: ethtool -L %s combined 1\n",
			interface, interface);
		exit(1);
	}
	c->program = xdp_switch__open();
	if (!c->program)
		die("switch.bpf.c", errno);
	bpf_program__set_autoload(c->program->progs.pass, false);
	c->program->rodata->own_ip = ip_of(at);
	c->program->rodata->own_port = (uint16_t)at->port;
	fill_table(c->program->rodata->crc_table);
	int e = xdp_switch__load(c->program);
	if (e)
		die("switch.bpf.c is refused by this kernel", -e);
	attach(c->program->progs.xdp_switch, interface);
}

static void print_counts(const struct control *c)
{
	static const char *const name[COUNTS] = {"summed", "results", "replays", "needs",
						 "bad",	   "stale",   "left"};
	int cores = libbpf_num_possible_cpus();
	uint64_t *each = calloc((size_t)(cores > 0 ? cores : 1), sizeof *each);

	for (uint32_t i = 0; i < COUNTS && each; i++) {
		uint64_t all = 0;
		if (bpf_map_lookup_elem(bpf_map__fd(c->program->maps.counts), &i, each))
			continue;
		for (int k = 0; k < cores; k++)
			all += each[k];
		printf("%s=%llu ", name[i], (unsigned long long)all);
	}
	printf("\n");
	free(each);
}

int main(int argc, char **argv)
{
	static struct control c;
	fan_peer at;

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (argc == 3 && strcmp(argv[1], "--pass") == 0) {
		pass_all(argv[2]);
		return 0;
	}
	if (argc != 3 || !fan_peer_read(&at, argv[2]) || fan_peer_family(&at) != AF_INET ||
	    fan_peer_is_any(&at)) {
		fprintf(stderr, "usage: xdp-switch INTERFACE IPV4:PORT | --pass INTERFACE\n");
		return 2;
	}
	open_node(&c, &at);
	open_program(&c, argv[1], &at);
	printf("event=start listen=%s interface=%s\n", argv[2], argv[1]);
	fflush(stdout);
	serve(&c);
	print_counts(&c);
	return 0;
}

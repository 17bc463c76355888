/* SPDX-License-Identifier: Apache-2.0 */
#include "xdp.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/device.h"
#include "net/udp.h"
#include "queue.h"
#include "steer.h"
#include "steer.skel.h"

#define BUSY_TRIES	   20 /* to open a queue that is in use, with pauses between them */
#define BUSY_PAUSE_MS	   50
#define XDP_INTERFACES_MAX 16
#define XDP_MTU_MAX	   3500 /* whose datagrams fit a frame */
_Static_assert(XDP_QUEUES_MAX == FAN_PLANE_QUEUES_MAX, "the map has a place for each queue");

/* An interface with a program of its own: queues have numbers on their interface. */
struct port {
	char name[IF_NAMESIZE];
	unsigned index;
	unsigned queues; /* receive queues, as far as they are used */
	struct steer *program;
	int link_fd; /* closing it detaches the program; -1: not attached */
};

struct xdp {
	struct fan_plane plane; /* first: one is the other */
	unsigned ports, shards;
	struct port port[XDP_INTERFACES_MAX];
	struct xdp_queue *queue[FAN_PLANE_QUEUES_MAX];
	/* Of each queue. */
	unsigned shard[FAN_PLANE_QUEUES_MAX]; /* that it is for */
	const struct port *at[FAN_PLANE_QUEUES_MAX];
	unsigned number[FAN_PLANE_QUEUES_MAX]; /* there */
};

static struct xdp *of(const struct fan_plane *p)
{
	return (struct xdp *)p;
}

static unsigned get_shard(const struct fan_plane *p, unsigned queue)
{
	return of(p)->shard[queue];
}

static int get_fd(const struct fan_plane *p, unsigned queue)
{
	return xsk_socket__fd(of(p)->queue[queue]->socket);
}

static unsigned receive(struct fan_plane *p, unsigned queue, struct fan_plane_datagram *d,
			unsigned most)
{
	return xdp_queue_recv(of(p)->queue[queue], d, most);
}

static void release(struct fan_plane *p, unsigned queue)
{
	xdp_queue_release(of(p)->queue[queue]);
}

static unsigned backlog_percent(const struct fan_plane *p, unsigned queue)
{
	return xdp_queue_backlog_percent(of(p)->queue[queue]);
}

static void fill_stats(const struct fan_plane *p, unsigned queue, struct fan_plane_stats *s)
{
	const struct xdp *x = of(p);
	int map = bpf_map__fd(x->at[queue]->program->maps.unfinished);

	xdp_queue_stats(x->queue[queue], s);
	s->unfinished = 0;
	bpf_map_lookup_elem(map, &x->number[queue], &s->unfinished);
}

static void close_plane(struct fan_plane *p)
{
	struct xdp *x = of(p);

	for (unsigned i = 0; i < x->ports; i++)
		if (x->port[i].link_fd >= 0)
			close(x->port[i].link_fd);
	for (unsigned i = 0; i < x->plane.queues; i++)
		xdp_queue_close(x->queue[i]);
	for (unsigned i = 0; i < x->ports; i++)
		if (x->port[i].program)
			steer__destroy(x->port[i].program);
	free(x);
}

static const struct fan_plane_calls calls = {
	.shard = get_shard,
	.fd = get_fd,
	.recv = receive,
	.release = release,
	.backlog_percent = backlog_percent,
	.stats = fill_stats,
	.close = close_plane,
};

/* The program takes what is sent to this address. */
static int allow(struct port *t, const uint64_t addr[2])
{
	const uint8_t yes = 1;
	int map = bpf_map__fd(t->program->maps.addresses);

	return bpf_map_update_elem(map, addr, &yes, BPF_ANY) ? -errno : 0;
}

/* Of a socket on every interface, all addresses that the machine has now; one that it gets later
 * is left to the sockets. */
static int allow_all(struct port *t)
{
	struct ifaddrs *all;
	int e = 0;

	if (getifaddrs(&all))
		return -errno;
	for (struct ifaddrs *a = all; a && !e; a = a->ifa_next) {
		const fan_peer p = fan_peer_of_interface(a);
		if (p.addr[0] | p.addr[1])
			e = allow(t, p.addr);
	}
	freeifaddrs(all);
	return e == -E2BIG ? 0 : e;
}

/* Natively if the driver can, otherwise where the kernel has made a packet of the frame. */
static int attach(struct xdp *x, struct port *t)
{
	int program = bpf_program__fd(t->program->progs.steer);
	const struct bpf_link_create_opts native = {.sz = sizeof native,
						    .flags = XDP_FLAGS_DRV_MODE};
	const struct bpf_link_create_opts generic = {.sz = sizeof generic,
						     .flags = XDP_FLAGS_SKB_MODE};

	t->link_fd = bpf_link_create(program, (int)t->index, BPF_XDP, &native);
	if (t->link_fd >= 0) {
		bool zero = xdp_queue_is_zero_copy(x->queue[x->plane.queues - 1]);
		x->plane.kind = zero ? "native,zero-copy" : "native,copy";
		return 0;
	}
	if (errno != EOPNOTSUPP)
		return -errno;
	x->plane.kind = "generic,copy";
	t->link_fd = bpf_link_create(program, (int)t->index, BPF_XDP, &generic);
	return t->link_fd < 0 ? -errno : 0;
}

static int open_program(struct port *t, const struct fan_plane_wish *w)
{
	t->program = steer__open();
	if (!t->program)
		return -errno;
	t->program->rodata->first_port = w->listen.port;
	t->program->rodata->shards = w->shards;
	t->program->rodata->large_frames = xdp_frame_bytes(w->datagram_bytes) == XDP_FRAME_LARGE;
	t->program->rodata->has_only = !fan_peer_is_any(&w->listen);
	memcpy(t->program->rodata->only, w->listen.addr, sizeof t->program->rodata->only);
	int e = steer__load(t->program);
	return e || t->program->rodata->has_only ? e : allow_all(t);
}

/* The kernel frees the queues of a process that ended a moment after its end. */
static int open_queue(struct xdp_queue **q, const struct port *t, unsigned index,
		      size_t frame_bytes)
{
	int e = xdp_queue_open(q, t->name, index, frame_bytes);

	for (unsigned i = 0; i < BUSY_TRIES && e == -EBUSY; i++) {
		poll(NULL, 0, BUSY_PAUSE_MS);
		e = xdp_queue_open(q, t->name, index, frame_bytes);
	}
	return e;
}

static int open_queues(struct xdp *x, struct port *t, const struct fan_plane_wish *w)
{
	int map = bpf_map__fd(t->program->maps.sockets);

	for (unsigned i = 0; i < t->queues; i++) {
		unsigned at = x->plane.queues;
		int e = open_queue(&x->queue[at], t, i, xdp_frame_bytes(w->datagram_bytes));
		if (e)
			return e;
		x->shard[at] = i % w->shards;
		x->at[at] = t;
		x->number[at] = i;
		x->plane.queues++;
		e = xsk_socket__update_xskmap(x->queue[at]->socket, map);
		if (e)
			return e;
	}
	return 0;
}

/* Say what went wrong while `part` of `t` was opened. */
static void explain(const struct port *t, const char *part, int e, char *why, size_t bytes)
{
	const char *i = t->name;

	if (e == EPERM || e == EACCES)
		snprintf(why, bytes,
			 "%s: %s: not allowed; run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and "
			 "CAP_BPF",
			 i, part);
	else if (e == EBUSY || e == EEXIST)
		snprintf(why, bytes,
			 "%s: %s: another program has it; `ip link show dev %s` tells its id, and "
			 "as root `ip link set dev %s xdp off` removes one that no process holds",
			 i, part, i, i);
	else if (e == ENOBUFS)
		snprintf(
			why, bytes,
			"%s: %s: its frames may not be locked in memory; raise the limit (`ulimit -l`, "
			"a service's LimitMEMLOCK)",
			i, part);
	else if (e == EAFNOSUPPORT || e == EPROTONOSUPPORT)
		snprintf(why, bytes, "%s: %s: this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)", i,
			 part);
	else if (!fan_device_kernel_is(5, 9))
		snprintf(why, bytes, "%s: %s: %s; this plane needs Linux 5.9", i, part,
			 strerror(e));
	else if (e == ERANGE || e == EINVAL || e == EOPNOTSUPP)
		snprintf(why, bytes,
			 "%s: %s: %s; the driver takes no program at this MTU or with these "
			 "features: `ip link set dev %s mtu 1500` or `ethtool -K %s lro off` may "
			 "help",
			 i, part, strerror(e), i, i);
	else
		snprintf(why, bytes, "%s: %s: %s", i, part, strerror(e));
}

/* What is wrong with an interface for this wish; true: nothing. */
static bool check(const struct port *t, bool up, const struct xdp *x,
		  const struct fan_plane_wish *w, char *why, size_t bytes)
{
	if (!t->queues)
		snprintf(why, bytes,
			 "%s: there is no such interface; `ip link` lists those there are",
			 t->name);
	else if (!up)
		snprintf(why, bytes, "%s: the interface is down; as root: ip link set %s up",
			 t->name, t->name);
	else if (t->queues < w->shards)
		snprintf(why, bytes,
			 "%s has %u receive queues for %u threads, and each needs one of its own; "
			 "start with --threads %u, or as root: ethtool -L %s combined %u",
			 t->name, t->queues, w->shards, t->queues, t->name, w->shards);
	else if (x->plane.queues + t->queues > FAN_PLANE_QUEUES_MAX)
		snprintf(why, bytes,
			 "%s: more than %d receive queues; as root: ethtool -L %s combined %u",
			 t->name, FAN_PLANE_QUEUES_MAX, t->name, w->shards);
	else
		return true;
	return false;
}

/* The next interface of the list.  0; or -1 with `why`. */
static int open_port(struct xdp *x, const char *name, const struct fan_plane_wish *w, char *why,
		     size_t bytes)
{
	struct port *t = &x->port[x->ports];
	const char *part = "the program";
	struct fan_device device;

	snprintf(t->name, sizeof t->name, "%s", name);
	fan_device_read(&device, name);
	t->index = device.index;
	t->queues = device.queues;
	t->link_fd = -1;
	if (!check(t, device.up, x, w, why, bytes))
		return -1;
	x->ports++;
	int e = open_program(t, w);
	if (!e) {
		part = "a receive queue";
		e = open_queues(x, t, w);
	}
	if (!e) {
		part = "the interface";
		e = attach(x, t);
	}
	if (e)
		explain(t, part, -e, why, bytes);
	return e ? -1 : 0;
}

static int open_ports(struct xdp *x, const struct fan_plane_wish *w, char *why, size_t bytes)
{
	char names[FAN_PLANE_NAMES_BYTES], *rest = NULL;

	memcpy(names, w->interfaces, sizeof names);
	for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		if (x->ports == XDP_INTERFACES_MAX || strlen(name) >= IF_NAMESIZE) {
			snprintf(
				why, bytes,
				"--interface: expected up to %d names of up to %d bytes, got \"%s\"",
				XDP_INTERFACES_MAX, IF_NAMESIZE - 1, w->interfaces);
			return -1;
		}
		if (open_port(x, name, w, why, bytes))
			return -1;
	}
	return 0;
}

static int quiet(enum libbpf_print_level level, const char *text, va_list list)
{
	(void)level;
	(void)text;
	(void)list;
	return 0;
}

int xdp_open(struct fan_plane **p, const struct fan_plane_wish *w, char *why, size_t bytes)
{
	*p = NULL;
	if (!xdp_frame_bytes(w->datagram_bytes)) {
		snprintf(why, bytes,
			 "datagrams of %zu bytes do not fit a frame of AF_XDP, which holds %d; "
			 "choose an --mtu of at most %d",
			 w->datagram_bytes, XDP_FRAME_LARGE - XDP_FRAME_SPARE, XDP_MTU_MAX);
		return -1;
	}
	struct xdp *x = calloc(1, sizeof *x);
	if (!x) {
		snprintf(why, bytes, "%s", strerror(ENOMEM));
		return -1;
	}
	libbpf_set_print(quiet);
	x->plane.calls = &calls;
	if (open_ports(x, w, why, bytes)) {
		close_plane(&x->plane);
		return -1;
	}
	*p = &x->plane;
	return 0;
}

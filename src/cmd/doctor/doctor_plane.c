/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_plane.c - what a switch on this machine gets from `--plane xdp` at an interface. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"
#include "net/device.h"
#include "net/plane.h"

#define STATUS_LINE_BYTES 256
#define STEERED_MAX	  4 /* queues whose commands are printed */
#define MTU_MAX		  3500
#define CAP_BIT(n)	  (UINT64_C(1) << (n))
#define NEEDED		  (CAP_BIT(12) | CAP_BIT(13)) /* CAP_NET_ADMIN, CAP_NET_RAW */
#define LOADING		  (CAP_BIT(39) | CAP_BIT(21)) /* CAP_BPF, or CAP_SYS_ADMIN */

/* May this process start a switch with the plane? */
static bool may_start(void)
{
	char line[STATUS_LINE_BYTES];
	unsigned long long has = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "CapEff: %llx", &has) == 1)
			break;
	if (f)
		fclose(f);
	return (has & NEEDED) == NEEDED && (has & LOADING);
}

static bool kernel_has_af_xdp(void)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != EAFNOSUPPORT && errno != EPROTONOSUPPORT);
}

/* Why no interface can have a plane; NULL: one may. */
static const char *no_plane(void)
{
	if (!fan_plane_plug)
		return "this build has no xdp: build it where libxdp-dev, libbpf-dev, clang and "
		       "bpftool are installed";
	if (!fan_device_kernel_is(5, 9))
		return "this kernel is older than Linux 5.9";
	if (!kernel_has_af_xdp())
		return "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)";
	return NULL;
}

static const char *mode(const struct fan_device *v)
{
	const uint64_t native = FAN_DEVICE_XDP_BASIC | FAN_DEVICE_XDP_REDIRECT;

	if (!v->features_known)
		return "the switch's log says whether native, zero-copy or generic (known in "
		       "advance from Linux 6.3 on)";
	if ((v->features & native) != native)
		return "generic, copy: the driver has no XDP, so little is saved";
	return v->features & FAN_DEVICE_XDP_ZERO_COPY ? "native, zero-copy" : "native, copy";
}

static void check_driver(struct doctor *d, const char *name, const struct fan_device *v)
{
	const char *why = no_plane();
	struct doctor_finding *f = doctor_find(
		d, "plane", why || !v->up ? DOCTOR_WARN : DOCTOR_OK, "%s: %s%s, driver %s%s", name,
		why ? "sockets alone: " : "", why ? why : mode(v),
		v->driver[0] ? v->driver : "not known", v->up ? "" : "; the interface is down");

	doctor_value(f, "interface", json_string(name));
	doctor_value(f, "driver", json_string(v->driver));
	if (v->features_known)
		doctor_value(f, "xdp_features", json_integer((json_int_t)v->features));
	if (!v->up)
		doctor_advise(f, "as root: ip link set %s up", name);
	if (!may_start())
		doctor_advise(
			f,
			"run the switch as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF");
	if (strcmp(v->driver, "veth") == 0)
		doctor_advise(
			f,
			"veth leaves checksums unfinished, and such datagrams bypass the plane; on "
			"the sender, as root: ethtool -K IF tx off");
}

/* Queue i belongs to thread i modulo the number of threads, whose port is the switch's plus its
 * number. */
static void check_queues(struct doctor *d, const char *name, const struct fan_device *v)
{
	unsigned port = d->resolved ? d->sw.port : 0, shown = v->queues;
	struct doctor_finding *f = doctor_find(
		d, "queues", DOCTOR_OK,
		"%u that receive: --threads 1 needs no steering; with up to --threads %u, each "
		"port must arrive at the queue of its thread",
		v->queues, v->queues);

	doctor_value(f, "receive", json_integer(v->queues));
	if (v->queues < 2) {
		snprintf(f->found, sizeof f->found,
			 "1 that receives: --threads 1 needs no steering");
		doctor_advise(
			f,
			"for more threads, if the driver permits, as root: ethtool -L %s combined "
			"2",
			name);
		return;
	}
	doctor_advise(f,
		      "set as many queues as threads, as root: ethtool -L %s combined THREADS; or "
		      "ethtool -X %s equal THREADS",
		      name, name);
	doctor_advise(f, "as root: ethtool -K %s ntuple on", name);
	if (shown > STEERED_MAX)
		shown = STEERED_MAX;
	for (unsigned i = 0; i < shown; i++)
		if (port)
			doctor_advise(f, "ethtool -N %s flow-type udp%d dst-port %u action %u",
				      name, fan_peer_family(&d->sw) == AF_INET ? 4 : 6, port + i,
				      i);
		else
			doctor_advise(f,
				      "ethtool -N %s flow-type udp4 dst-port $((PORT + %u)) "
				      "action %u",
				      name, i, i);
}

static void check_frames(struct doctor *d, const char *name, const struct fan_device *v)
{
	bool fits = v->mtu <= MTU_MAX;
	struct doctor_finding *f =
		doctor_find(d, "frames", fits ? DOCTOR_OK : DOCTOR_WARN,
			    fits ? "MTU %d; AF_XDP takes up to %d"
				 : "MTU %d is beyond AF_XDP's %d: most drivers load no program",
			    v->mtu, MTU_MAX);

	doctor_value(f, "mtu", json_integer(v->mtu));
	if (!fits)
		doctor_advise(f,
			      "as root, on all machines of this network: ip link set dev %s mtu "
			      "1500; or use sockets alone, which gain much from large frames",
			      name);
}

static void check_program(struct doctor *d, const char *name, const struct fan_device *v)
{
	struct doctor_finding *f;

	if (!v->program) {
		doctor_find(d, "program", DOCTOR_OK, "%s has no XDP program", name);
		return;
	}
	f = doctor_find(d, "program", DOCTOR_WARN,
			"%s has XDP program %u, and an interface takes one; `fanin switch --plane "
			"xdp` attaches one while it runs",
			name, v->program);
	doctor_value(f, "id", json_integer(v->program));
	doctor_advise(f, "as root: bpftool prog show id %u; bpftool link", v->program);
	doctor_advise(f, "if no process holds it, as root: ip link set dev %s xdp off", name);
}

void doctor_check_plane(struct doctor *d)
{
	const char *name = d->args.interface;
	struct fan_device v;

	if (!name[0])
		return;
	fan_device_read(&v, name);
	if (!v.index) {
		struct doctor_finding *f = doctor_find(d, "plane", DOCTOR_FAIL,
						       "there is no interface \"%.40s\"", name);
		doctor_advise(f, "list the interfaces: ip -brief link");
		return;
	}
	check_driver(d, name, &v);
	check_queues(d, name, &v);
	check_frames(d, name, &v);
	check_program(d, name, &v);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_mtu.c - which packet sizes pass to the switch and back?
 *
 * ECHOs of a size ignore the kernel's path MTU, and their answers are as long.  A size passes when
 * one of a few is answered. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "doctor_echo.h"
#include "net/netlink.h"

#define MTU_MIN	    576
#define MTU_MAX	    9000
#define TRIES	    3
#define TRIES_LOSSY 8
#define STEPS_MAX   16 /* of the bisection */

enum why {
	PASSES,
	LOCAL,	 /* larger than the interface's MTU */
	ROUTER,	 /* it vanishes, and ICMP reports a router that takes less */
	FORWARD, /* vanishes on the path to the switch */
	BACK,	 /* reaches the switch; the answer vanishes */
};

struct search {
	struct doctor *d;
	struct fan_udp udp;
	unsigned ip_bytes;	  /* IP and UDP headers */
	struct fan_next_hop path; /* as this machine's routes have it */
	int hint;		  /* MTU of a router, by ICMP; 0: none reported */
};

static unsigned echoes(struct search *s, int body_bytes, uint16_t answer_bytes,
		       struct doctor_train *tr)
{
	*tr = (struct doctor_train){.count = s->d->lossy ? TRIES_LOSSY : TRIES,
				    .burst = 1,
				    .gap_ns = s->d->rto_ns,
				    .wait_ns = s->d->rto_ns,
				    .until_ns = s->d->deadline_ns,
				    .body_bytes = (uint16_t)body_bytes,
				    .answer_bytes = answer_bytes,
				    .once = true};
	doctor_train_run(&s->udp, tr);
	return tr->answered;
}

/* Do IP packets of `packet_bytes` pass in both directions?  If not, why, as far as it is known. */
static enum why try_size(struct search *s, int packet_bytes)
{
	int body = packet_bytes - (int)s->ip_bytes - FAN_HEAD_BYTES;
	struct doctor_train tr;

	if (body > FAN_ECHO_MAX)
		body = FAN_ECHO_MAX;
	if (echoes(s, body, 0, &tr))
		return PASSES;
	fan_next_hop_read(&s->path, &s->d->sw);
	if (s->path.mtu && packet_bytes > s->path.mtu)
		return LOCAL;
	if (s->path.told_mtu && s->path.told_mtu < packet_bytes) {
		s->hint = s->path.told_mtu;
		return ROUTER;
	}
	return echoes(s, body, FAN_ECHO_MIN, &tr) ? BACK : FORWARD;
}

/* The largest packet that passes, up to MTU_MAX; 0: not even MTU_MIN. */
static int largest(struct search *s)
{
	struct doctor_bisect b = {0, MTU_MAX + 1};
	int device = s->path.mtu;
	int first[] = {device < MTU_MAX ? device : MTU_MAX, 1500, MTU_MIN};

	for (unsigned i = 0; i < sizeof first / sizeof first[0] && !b.passes; i++) {
		if (first[i] < MTU_MIN || first[i] >= b.fails)
			continue;
		if (try_size(s, first[i]) == PASSES)
			b.passes = first[i];
		else
			b.fails = first[i];
		if (b.passes || s->hint < MTU_MIN || s->hint >= b.fails)
			continue;
		if (try_size(s, s->hint) == PASSES) /* the router's MTU passes: try no others */
			return s->hint;
	}
	if (!b.passes || b.passes == first[0])
		return b.passes;
	for (unsigned i = 0; i < STEPS_MAX; i++) {
		int size = doctor_bisect_next(&b);
		if (!size)
			break;
		*(try_size(s, size) == PASSES ? &b.passes : &b.fails) = size;
	}
	return b.passes;
}

/* The largest FANIN_MTU for packets of `packet_bytes` on the path. */
static int usable(const struct doctor *d, int packet_bytes)
{
	int slots = doctor_mtu_of_slots(d->who.payload_bytes);

	return packet_bytes < slots ? packet_bytes : slots;
}

static void advise_fail(struct doctor *d, struct doctor_finding *f, enum why why, int asked,
			int path)
{
	const char *dev = d->device[0] ? d->device : "DEVICE";
	char host[DOCTOR_ADDRESS_BYTES];

	if (path >= MTU_MIN)
		doctor_advise(f, "on all ranks: export FANIN_MTU=%d", usable(d, path));
	if (why == LOCAL)
		doctor_advise(f, "or, if the network takes it, as root: ip link set dev %s mtu %d",
			      dev, asked);
	else if (why == BACK)
		doctor_advise(
			f,
			"or, as root on the switch, on the interface that leads here: ip link "
			"set dev DEVICE mtu %d",
			asked);
	else
		doctor_advise(
			f,
			"or raise the MTU of every link on the path to %d; to find the small one: "
			"tracepath -n %s",
			asked, doctor_host(d, host, sizeof host));
}

static void report_fail(struct doctor *d, enum why why, int asked, unsigned packet_bytes, int path)
{
	static const char *const words[] = {
		[LOCAL] = "are too large for this machine's interface",
		[ROUTER] = "are too large for a router on the path",
		[FORWARD] = "vanish on the path to the switch",
		[BACK] = "reach the switch, but its answers of that size vanish",
	};
	char known[64] = "no smaller size passes";

	if (path)
		snprintf(known, sizeof known, "the largest that passes has %d", path);
	struct doctor_finding *f = doctor_find(d, "mtu", DOCTOR_FAIL,
					       "fragments for MTU %d, packets of %u bytes, %s; %s",
					       asked, packet_bytes, words[why], known);
	doctor_value(f, "asked", json_integer(asked));
	doctor_value(f, "works", json_false());
	doctor_value(f, "path", json_integer(path));
	doctor_value(f, "slots", json_integer(doctor_mtu_of_slots(d->who.payload_bytes)));
	advise_fail(d, f, why, asked, path);
	d->mtu = path >= MTU_MIN ? usable(d, path) : 0;
}

/* Do the fragments fit the switch's slots? */
static bool fits(const struct doctor *d, int asked)
{
	return fan_config_payload_bytes(asked, 2) <= d->who.payload_bytes;
}

/* The path takes the fragments. */
static void report_pass(struct doctor *d, int asked, int path)
{
	int slots = doctor_mtu_of_slots(d->who.payload_bytes);
	bool more = !d->args.mtu && path > asked;
	struct doctor_finding *f;

	if (!fits(d, asked))
		f = doctor_find(
			d, "mtu", DOCTOR_FAIL,
			"the path takes MTU %d, but the switch's slots are for %d (its --mtu): it "
			"refuses such jobs",
			asked, slots);
	else if (path && !d->args.mtu)
		f = doctor_find(
			d, "mtu", DOCTOR_OK,
			"packets of %d bytes pass in both directions; FANIN_MTU is %d, slots are "
			"for %d",
			path, asked, slots);
	else
		f = doctor_find(d, "mtu", DOCTOR_OK,
				"MTU %d works in both directions; the switch's slots are for %d",
				asked, slots);
	doctor_value(f, "asked", json_integer(asked));
	doctor_value(f, "works", json_boolean(fits(d, asked)));
	doctor_value(f, "path", path ? json_integer(path) : json_null());
	doctor_value(f, "slots", json_integer(slots));
	if (!fits(d, asked)) {
		doctor_advise(f, "start the switch for it: fanin switch --listen %s --mtu %d",
			      d->at, asked);
		doctor_advise(f, "or, on all ranks: export FANIN_MTU=%d", slots);
	} else if (more && usable(d, path) > asked) {
		doctor_advise(f, "for more speed, on all ranks: export FANIN_MTU=%d",
			      usable(d, path));
	} else if (more && d->inside) {
		doctor_advise(f, "for more speed, on all ranks: export FANIN_MTU=%d", path);
	} else if (more && fan_config_payload_bytes(path, 2) > d->who.payload_bytes) {
		doctor_advise(f,
			      "for more speed: fanin switch --listen %s --mtu %d, and on all "
			      "ranks: export FANIN_MTU=%d",
			      d->at, path, path);
	}
	d->mtu = fits(d, asked) ? asked : slots;
}

/* Packets pass, although ICMP messages have told the kernel otherwise. */
static void report_lie(struct doctor *d, int asked, unsigned packet_bytes, int told)
{
	const bool v4 = fan_peer_family(&d->sw) == AF_INET;
	struct doctor_finding *f = doctor_find(
		d, "mtu", DOCTOR_WARN,
		"packets of %u bytes for MTU %d pass in both directions, but ICMP told this kernel "
		"that the path takes %d: forged, or outdated.  fanin ignores it; TCP to the switch "
		"is slower",
		packet_bytes, asked, told);

	doctor_value(f, "asked", json_integer(asked));
	doctor_value(f, "works", json_true());
	doctor_value(f, "told", json_integer(told));
	doctor_value(f, "slots", json_integer(doctor_mtu_of_slots(d->who.payload_bytes)));
	doctor_advise(f, "as root: ip %sroute flush cache", v4 ? "" : "-6 ");
	doctor_advise(f, "if it returns, find the sender, as root: tcpdump -ni %s %s",
		      d->device[0] ? d->device : "DEVICE", v4 ? "icmp" : "icmp6");
	d->mtu = asked;
}

void doctor_check_mtu(struct doctor *d)
{
	struct search s = {.d = d, .ip_bytes = fan_peer_family(&d->sw) == AF_INET ? 28 : 48};
	int asked = d->args.mtu ? d->args.mtu : d->cfg.mtu;
	unsigned bytes = fan_config_payload_bytes(asked, 2) + FAN_HEAD_BYTES + s.ip_bytes;

	if (doctor_skips(d, "mtu"))
		return;
	int e = doctor_echo_open(&s.udp, &d->sw);
	if (e) {
		doctor_find(d, "mtu", DOCTOR_FAIL, "cannot open a socket that probes the path: %s",
			    strerror(-e));
		return;
	}
	fan_next_hop_read(&s.path, &d->sw);
	enum why why = try_size(&s, (int)bytes);
	int path = why == PASSES && d->args.mtu ? 0 : largest(&s);
	d->path_mtu = path;
	fan_udp_close(&s.udp);
	if (doctor_skips(d, "mtu")) /* time was up: sizes that did not pass may still do */
		return;
	fan_next_hop_read(&s.path, &d->sw);
	if (why == PASSES && s.path.told_mtu && s.path.told_mtu < (int)bytes && fits(d, asked))
		report_lie(d, asked, bytes, s.path.told_mtu);
	else if (why == PASSES)
		report_pass(d, asked, path);
	else
		report_fail(d, why, asked, bytes, path);
}

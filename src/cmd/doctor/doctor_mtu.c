/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_mtu.c - which packet sizes pass to the switch and back?
 *
 * ECHOs of a size ignore the kernel's path MTU, and their answers are as long.  A size passes when
 * one of a few is answered. */
#include "doctor.h"
#include "doctor_echo.h"
#include "net/netlink.h"

#define MTU_MIN	    576
#define MTU_MAX	    9000
#define TRIES	    3
#define TRIES_LOSSY 8

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

/* The largest size that passes, and the smallest that does not. */
struct bisect {
	int passes, fails; /* passes < fails */
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
	struct bisect b = {0, MTU_MAX + 1};
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
	while (b.fails - b.passes > 1) {
		const int size = b.passes + (b.fails - b.passes) / 2;
		*(try_size(s, size) == PASSES ? &b.passes : &b.fails) = size;
	}
	return b.passes;
}

/* The usual MTU for slots of `payload_bytes`. */
static int mtu_of_slots(unsigned payload_bytes)
{
	static const int usual[] = {1500, 9000};

	for (unsigned i = 0; i < sizeof usual / sizeof usual[0]; i++)
		if (fan_config_payload_bytes(usual[i], 2) == payload_bytes)
			return usual[i];
	int mtu = 576;
	while (mtu < 9000 && fan_config_payload_bytes(mtu, 2) < payload_bytes)
		mtu++;
	return mtu;
}

/* Note the largest MTU that works for workers. */
static void take_mtu(struct doctor *d, enum why why, int asked, bool fits, int slots)
{
	if (why == PASSES)
		d->mtu = fits ? asked : slots;
	else
		d->mtu = d->path_mtu < MTU_MIN ? 0 : d->path_mtu < slots ? d->path_mtu : slots;
}

void doctor_check_mtu(struct doctor *d)
{
	static const char *const words[] = {"", "local", "router", "forward", "back"};
	struct search s = {.d = d, .ip_bytes = doctor_ip_bytes(d)};
	const int asked = d->cfg.mtu;
	const int bytes = fan_config_payload_bytes(asked, 2) + FAN_HEAD_BYTES + (int)s.ip_bytes;

	if (doctor_skips(d, "mtu"))
		return;
	int e = doctor_echo_open(&s.udp, &d->sw);
	if (e) {
		doctor_no_socket("mtu", e);
		return;
	}
	fan_next_hop_read(&s.path, &d->sw);
	const enum why why = try_size(&s, bytes);
	d->path_mtu = largest(&s);
	fan_udp_close(&s.udp);
	if (doctor_skips(d, "mtu")) /* time was up: sizes that did not pass may still do */
		return;
	fan_next_hop_read(&s.path, &d->sw);
	const int slots = mtu_of_slots(d->who.payload_bytes);
	const bool fits = fan_config_payload_bytes(asked, 2) <= d->who.payload_bytes;
	const bool lies = s.path.told_mtu && s.path.told_mtu < bytes;
	take_mtu(d, why, asked, fits, slots);
	doctor_line("mtu", json_pack("{s:i, s:i, s:s, s:i, s:i, s:b, s:b, s:i, s:b}", "asked",
				     asked, "packet_bytes", bytes, "fails", words[why], "path",
				     d->path_mtu, "slots", slots, "fits", fits, "path_fits",
				     !d->path_mtu || fan_config_payload_bytes(d->path_mtu, 2) <=
							     d->who.payload_bytes,
				     "told", lies ? s.path.told_mtu : 0, "inside", d->inside));
}

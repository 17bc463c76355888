/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_path.c - does the switch answer, with which limits, how fast is the path, which packet
 * sizes pass, and how much does it lose? */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "doctor.h"
#include "net/clock.h"
#include "net/netlink.h"

#define REACH_TRIES  10
#define REACH_GAP_NS (100 * FAN_MS)
#define TRAIN_GAP_NS (1 * FAN_MS)
#define RTO_MIN_NS   (20 * FAN_MS)
#define RTO_MAX_NS   (300 * FAN_MS)
#define BURST_ROUNDS 4
#define BURST_GAP_NS (10 * FAN_MS)
#define MTU_MIN	     576
#define MTU_MAX	     9000
#define TRIES	     3
#define TRIES_LOSSY  8

/* Bytes of IP and UDP headers on the path to the switch. */
static unsigned ip_bytes(const struct doctor *d)
{
	return fan_peer_family(&d->sw) == AF_INET ? 28 : 48;
}

/* Find the interface towards the switch, and the gateway behind it, "" for none.  True: an ICMP
 * message has named that gateway. */
static bool find_route(struct doctor *d, char *gateway, size_t bytes)
{
	struct fan_next_hop p;
	char name[IF_NAMESIZE];
	unsigned index = fan_udp_interface_to(&d->sw, NULL);

	if (index && if_indextoname(index, name))
		snprintf(d->device, sizeof d->device, "%s", name);
	fan_next_hop_read(&p, &d->sw);
	*gateway = '\0';
	if (!p.interface || !p.by_gateway)
		return false;
	fan_peer_text(&p.gateway, gateway, bytes);
	return p.redirected;
}

static void ask_switch(struct doctor *d)
{
	char gateway[DOCTOR_ADDRESS_BYTES];
	struct fan_udp udp;
	struct doctor_train tr = {.count = REACH_TRIES,
				  .burst = 1,
				  .gap_ns = REACH_GAP_NS,
				  .wait_ns = REACH_GAP_NS,
				  .until_ns = d->deadline_ns,
				  .body_bytes = FAN_ECHO_MIN,
				  .once = true};

	if (!d->resolved) {
		doctor_skip("version", "path");
		return;
	}
	int error = -doctor_echo_open(&udp, &d->sw);
	if (!error) {
		doctor_train_run(&udp, &tr);
		fan_udp_close(&udp);
		error = tr.send_error ? tr.send_error : tr.error;
	}
	const bool redirected = find_route(d, gateway, sizeof gateway);
	d->no_path = !tr.answered || tr.version;
	if (!d->no_path) {
		d->who = tr.who;
		d->rto_ns = tr.rtt_ns[0] * 4 < RTO_MIN_NS ? RTO_MIN_NS : tr.rtt_ns[0] * 4;
	}
	doctor_line("switch",
		    json_pack("{s:s, s:s, s:s, s:b, s:b, s:i, s:i, s:b, s:i, s:i, s:o, s:i, s:i, "
			      "s:i}",
			      "at", d->at, "device", d->device, "gateway", gateway, "redirected",
			      redirected, "answers", !d->no_path, "other_protocol", (int)tr.version,
			      "error", error, "strays", tr.strays > 0, "tried", (int)tr.tried,
			      "tried_ms", (int)(tr.tried * REACH_GAP_NS / FAN_MS), "version",
			      fan_json_text(d->who.version), "window", (int)d->who.window, "shards",
			      (int)d->who.shards, "group", (int)d->who.group_family));
}

/* Print that there is no socket for the check; `error` is a negative errno. */
static void print_no_socket(const char *check, int error)
{
	doctor_line("no_socket", json_pack("{s:s, s:i}", "check", check, "error", -error));
}

/* Run the train of check `name`; false: there is no socket, as the line reports. */
static bool run_train(struct doctor *d, const char *name, struct doctor_train *tr,
		      struct fan_udp *udp)
{
	int e = doctor_echo_open(udp, &d->sw);

	if (e) {
		print_no_socket(name, e);
		return false;
	}
	if (!tr->wait_ns)
		tr->wait_ns = RTO_MAX_NS; /* less where all are answered */
	tr->until_ns = d->deadline_ns;
	doctor_train_run(udp, tr);
	fan_udp_close(udp);
	return true;
}

/* The smallest of `count` rising values that `permille` of them do not exceed; 0 if `count` is 0.
 */
static uint64_t percentile(const uint64_t *rising, unsigned count, unsigned permille)
{
	if (count == 0)
		return 0;
	uint64_t rank = ((uint64_t)count * permille + 999) / 1000; /* 1 is the first */
	return rising[rank ? rank - 1 : 0];
}

/* Time packets with bodies of `body_bytes`, and note what is lost.  Returns the longest round
 * trip; 0: there is none. */
static uint64_t time_packets(struct doctor *d, const char *name, uint16_t body_bytes)
{
	struct fan_udp udp;
	struct doctor_train tr = {.count = (unsigned)d->args.count,
				  .burst = 1,
				  .gap_ns = TRAIN_GAP_NS,
				  .body_bytes = body_bytes};

	if (!run_train(d, name, &tr, &udp))
		return 0;
	const uint64_t p50_ns = percentile(tr.rtt_ns, tr.answered, 500);
	d->rtt_ns = d->rtt_ns ? d->rtt_ns : p50_ns; /* of the small ones, which come first */
	d->lossy |= tr.answered < tr.sent;
	doctor_line("train",
		    json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I}", "check", name,
			      "packet_bytes", body_bytes + FAN_HEAD_BYTES + (int)ip_bytes(d),
			      "payload", fan_config_payload_bytes(d->cfg.mtu, 2), "sent",
			      (int)tr.sent, "answered", (int)tr.answered, "send_error",
			      tr.send_error, "min_ns",
			      (json_int_t)percentile(tr.rtt_ns, tr.answered, 0), "p50_ns",
			      (json_int_t)p50_ns, "p99_ns",
			      (json_int_t)percentile(tr.rtt_ns, tr.answered, 990)));
	return percentile(tr.rtt_ns, tr.answered, 1000);
}

static void check_rtt(struct doctor *d)
{
	if (doctor_skips(d, "rtt"))
		return;
	const uint64_t worst_ns = time_packets(d, "rtt", FAN_ECHO_MIN);
	if (2 * worst_ns > d->rto_ns)
		d->rto_ns = 2 * worst_ns < RTO_MAX_NS ? 2 * worst_ns : RTO_MAX_NS;
}

/* ---- sizes: ECHOs of a size ignore the kernel's path MTU, and their answers are as long.  A size
 * passes when one of a few is answered. ---- */

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

/* The largest of these sizes that passes. */
static int narrow(struct search *s, struct bisect b)
{
	while (b.fails - b.passes > 1) {
		const int size = b.passes + (b.fails - b.passes) / 2;
		*(try_size(s, size) == PASSES ? &b.passes : &b.fails) = size;
	}
	return b.passes;
}

/* The same.  A machine that stalls misses answers: the next size is tried again, patiently. */
static int narrow_twice(struct search *s, struct bisect b)
{
	const uint64_t rto_ns = s->d->rto_ns;
	int found = narrow(s, b);

	s->d->rto_ns = RTO_MAX_NS;
	if (try_size(s, found + 1) == PASSES)
		found = narrow(s, (struct bisect){found + 1, b.fails});
	s->d->rto_ns = rto_ns;
	return found;
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
	return narrow_twice(s, b);
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

static void check_mtu(struct doctor *d)
{
	static const char *const words[] = {"", "local", "router", "forward", "back"};
	struct search s = {.d = d, .ip_bytes = ip_bytes(d)};
	const int asked = d->cfg.mtu;
	const int bytes = fan_config_payload_bytes(asked, 2) + FAN_HEAD_BYTES + (int)s.ip_bytes;

	if (doctor_skips(d, "mtu"))
		return;
	int e = doctor_echo_open(&s.udp, &d->sw);
	if (e) {
		print_no_socket("mtu", e);
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

/* ---- fragments, bursts of them, shards ---- */

/* Bytes of the body of a packet as workers send it; 0: the check `name` is skipped. */
static uint16_t fragment_bytes(struct doctor *d, const char *name)
{
	if (doctor_skips(d, name))
		return 0;
	if (!d->mtu)
		doctor_skip(name, "mtu");
	return d->mtu ? fan_config_payload_bytes(d->mtu, 2) : 0;
}

/* Is receive offload on at the interface?  -1: not known. */
static int device_has(const struct doctor *d, uint32_t what)
{
	struct ethtool_value v = {.cmd = what};
	struct ifreq r = {.ifr_data = (void *)&v};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	snprintf(r.ifr_name, sizeof r.ifr_name, "%.15s", d->device);
	int e = ioctl(fd, SIOCETHTOOL, &r);
	close(fd);
	return e ? -1 : v.data != 0;
}

static void check_burst(struct doctor *d)
{
	struct fan_udp udp;
	struct doctor_train tr = {.burst = DOCTOR_BURST_MAX,
				  .count = BURST_ROUNDS * DOCTOR_BURST_MAX,
				  .gap_ns = BURST_GAP_NS + d->rto_ns / 4,
				  .wait_ns = RTO_MAX_NS, /* narrow links are slow */
				  .body_bytes = fragment_bytes(d, "burst")};

	if (!tr.body_bytes || !run_train(d, "burst", &tr, &udp))
		return;
	doctor_line("burst",
		    json_pack("{s:i, s:i, s:i, s:i, s:I, s:i, s:b, s:b}", "rounds", BURST_ROUNDS,
			      "burst", (int)tr.burst, "sent", (int)tr.tried, "lost",
			      (int)(tr.tried - tr.answered), "sends", (json_int_t)udp.sends,
			      "largest_batch", (int)tr.batch, "segment", udp.segment, "gro_off",
			      tr.batch == 1 && device_has(d, ETHTOOL_GGRO) == 0));
}

static void check_shards(struct doctor *d)
{
	fan_peer at[FAN_SHARDS_MAX];
	bool answers[FAN_SHARDS_MAX];

	if (doctor_skips(d, "shards"))
		return;
	for (unsigned i = 0; i < d->who.shards; i++) {
		at[i] = d->sw;
		at[i].port += i;
	}
	fan_echo_all(at, d->who.shards, answers);
	json_t *silent = json_array();
	for (unsigned i = 0; i < d->who.shards; i++)
		if (!answers[i])
			json_array_append_new(silent, json_integer(d->sw.port + i));
	d->no_path = json_array_size(silent) > 0;
	doctor_line("shards", json_pack("{s:i, s:o}", "port", d->sw.port, "silent", silent));
}

static void check_fragments(struct doctor *d)
{
	const uint16_t bytes = fragment_bytes(d, "fragments");

	if (bytes)
		time_packets(d, "fragments", bytes);
}

void doctor_check_path(struct doctor *d)
{
	ask_switch(d);
	check_rtt(d);
	check_mtu(d);
	check_fragments(d);
	check_burst(d);
	check_shards(d);
}

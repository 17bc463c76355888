/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_path.c - does the switch answer, with which limits, how fast is the path, and how much
 * does it lose?  doctor_mtu.c finds the packet size. */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "doctor.h"
#include "doctor_echo.h"
#include "net/clock.h"
#include "net/netlink.h"

#define REACH_TRIES  10
#define REACH_GAP_NS (100 * FAN_MS)
#define TRAIN_GAP_NS (1 * FAN_MS)
#define RTO_MIN_NS   (20 * FAN_MS)
#define RTO_MAX_NS   (300 * FAN_MS)
#define BURST_ROUNDS 4
#define BURST_GAP_NS (10 * FAN_MS)

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

void doctor_check_switch(struct doctor *d)
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
			      doctor_text(d->who.version), "window", (int)d->who.window, "shards",
			      (int)d->who.shards, "group", (int)d->who.group_family));
}

/* Run the train of check `name`; false: there is no socket, as the line reports. */
static bool run_train(struct doctor *d, const char *name, struct doctor_train *tr,
		      struct fan_udp *udp)
{
	int e = doctor_echo_open(udp, &d->sw);

	if (e) {
		doctor_no_socket(name, e);
		return false;
	}
	if (!tr->wait_ns)
		tr->wait_ns = d->rto_ns;
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
			      "packet_bytes", body_bytes + FAN_HEAD_BYTES + (int)doctor_ip_bytes(d),
			      "payload", fan_config_payload_bytes(d->cfg.mtu, 2), "sent",
			      (int)tr.sent, "answered", (int)tr.answered, "send_error",
			      tr.send_error, "min_ns",
			      (json_int_t)percentile(tr.rtt_ns, tr.answered, 0), "p50_ns",
			      (json_int_t)p50_ns, "p99_ns",
			      (json_int_t)percentile(tr.rtt_ns, tr.answered, 990)));
	return percentile(tr.rtt_ns, tr.answered, 1000);
}

void doctor_check_rtt(struct doctor *d)
{
	if (doctor_skips(d, "rtt"))
		return;
	const uint64_t worst_ns = time_packets(d, "rtt", FAN_ECHO_MIN);
	if (2 * worst_ns > d->rto_ns)
		d->rto_ns = 2 * worst_ns < RTO_MAX_NS ? 2 * worst_ns : RTO_MAX_NS;
}

/* Bytes of the body of a packet as workers send it; 0: the check `name` is skipped. */
static uint16_t fragment_bytes(struct doctor *d, const char *name)
{
	if (doctor_skips(d, name))
		return 0;
	if (!d->mtu)
		doctor_skip(name, "mtu");
	return d->mtu ? fan_config_payload_bytes(d->mtu, 2) : 0;
}

void doctor_check_fragments(struct doctor *d)
{
	const uint16_t bytes = fragment_bytes(d, "fragments");

	if (bytes)
		time_packets(d, "fragments", bytes);
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

void doctor_check_burst(struct doctor *d)
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

void doctor_check_shards(struct doctor *d)
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

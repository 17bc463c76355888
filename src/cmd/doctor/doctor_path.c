/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_path.c - does the switch answer, what does it say, how fast is the path, and how much does
 * it lose?  doctor_mtu.c finds the packet size. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "doctor.h"
#include "doctor_echo.h"
#include "file/text.h"
#include "net/clock.h"

#define REACH_TRIES	 10
#define REACH_GAP_NS	 (100 * FAN_MS)
#define TRAIN_GAP_NS	 (1 * FAN_MS)
#define RTO_MIN_NS	 (20 * FAN_MS)
#define RTO_MAX_NS	 (300 * FAN_MS)
#define SHARDS_SILENT	 4 /* silent shards that are listed */
#define BURST_ROUNDS	 4
#define BURST_GAP_NS	 (10 * FAN_MS)
#define RATE_MIN_PERCENT 1 /* of a burst's datagrams lost, beyond the loss of single ones */

const char *doctor_host(const struct doctor *d, char *host, size_t bytes)
{
	const char *begin = d->at, *end = strrchr(d->at, ':');

	if (*begin == '[') {
		begin++;
		end--;
	}
	snprintf(host, bytes, "%.*s", (int)(end - begin), begin);
	return host;
}

static void note_device(struct doctor *d)
{
	char name[IF_NAMESIZE];
	unsigned index = fan_udp_interface_to(&d->sw, NULL);

	if (index && if_indextoname(index, name))
		snprintf(d->device, sizeof d->device, "%s", name);
}

/* The switch did not answer: report the cause as far as it is known. */
static void report_silence(struct doctor *d, int e, const struct doctor_train *tr)
{
	char host[DOCTOR_ADDRESS_BYTES];
	struct doctor_finding *f;

	doctor_host(d, host, sizeof host);
	d->no_path = "the switch did not answer";
	if (e == ECONNREFUSED) {
		f = doctor_find(
			d, "switch", DOCTOR_FAIL,
			"switch does not answer: ICMP reports that nothing listens on UDP port %u "
			"of %s",
			d->sw.port, host);
		doctor_advise(f, "on %s: fanin switch --listen %s; or correct the port", host,
			      d->at);
	} else if (e == EPERM || e == EACCES) {
		f = doctor_find(d, "switch", DOCTOR_FAIL,
				"switch does not answer: a firewall refuses packets to %s (%s)",
				d->at, strerror(e));
		doctor_advise(f, "as root: nft list ruleset");
	} else if (e) {
		f = doctor_find(d, "switch", DOCTOR_FAIL, "switch does not answer: %s: %s", d->at,
				strerror(e));
		doctor_advise(f, "look at the route: ip route get %s", host);
		doctor_advise(f, "is that machine up?  ping -c 3 %s", host);
	} else if (tr->strays) {
		f = doctor_find(
			d, "switch", DOCTOR_FAIL,
			"switch does not answer: %s is another program, or a `fanin switch` too "
			"old for this question",
			d->at);
		doctor_advise(f, "correct the port, or install fanin %s on %s", FAN_BUILD_VERSION,
			      host);
	} else {
		f = doctor_find(d, "switch", DOCTOR_FAIL,
				"switch does not answer: %s answered none of %u questions in %u ms",
				d->at, tr->tried, (unsigned)(tr->tried * REACH_GAP_NS / FAN_MS));
		doctor_advise(f, "is that machine up?  ping -c 3 %s", host);
		doctor_advise(f, "does `fanin switch` run there?  pgrep -a fanin");
		doctor_advise(
			f,
			"does a firewall there drop UDP?  as root: nft add rule inet filter input "
			"udp dport %u accept",
			d->sw.port);
	}
}

void doctor_check_switch(struct doctor *d)
{
	struct fan_udp udp;
	struct doctor_train tr = {.count = REACH_TRIES,
				  .burst = 1,
				  .gap_ns = REACH_GAP_NS,
				  .wait_ns = REACH_GAP_NS,
				  .until_ns = d->deadline_ns,
				  .body_bytes = FAN_ECHO_MIN,
				  .once = true};

	if (!d->resolved) /* already reported */
		return;
	note_device(d);
	int e = doctor_echo_open(&udp, &d->sw);
	if (e) {
		report_silence(d, -e, &tr);
		return;
	}
	doctor_train_run(&udp, &tr);
	fan_udp_close(&udp);
	if (tr.version) {
		d->no_path = "the switch speaks another version of the protocol";
		struct doctor_finding *f =
			doctor_find(d, "switch", DOCTOR_FAIL,
				    "switch %s speaks version %u of the protocol, this program %d",
				    d->at, tr.version, FAN_WIRE_VERSION);
		doctor_advise(f, "install one version of fanin on the switch and on all workers");
		return;
	}
	if (!tr.answered) {
		report_silence(d, tr.send_error ? tr.send_error : tr.error, &tr);
		return;
	}
	d->who = tr.who;
	d->rto_ns = tr.rtt_ns[0] * 4 < RTO_MIN_NS ? RTO_MIN_NS : tr.rtt_ns[0] * 4;
	doctor_find(d, "switch", DOCTOR_OK, "%s answers%s%s", d->at,
		    d->device[0] ? ", through interface " : "", d->device);
}

void doctor_check_version(struct doctor *d)
{
	if (doctor_skips(d, "version"))
		return;
	bool same = strcmp(d->who.version, FAN_BUILD_VERSION) == 0;
	struct doctor_finding *f = doctor_find(d, "version", same ? DOCTOR_OK : DOCTOR_WARN,
					       "switch %s, this program %s; protocol %d on both",
					       d->who.version, FAN_BUILD_VERSION, FAN_WIRE_VERSION);
	doctor_value(f, "switch", json_string(d->who.version));
	doctor_value(f, "program", json_string(FAN_BUILD_VERSION));
	doctor_value(f, "protocol", json_integer(FAN_WIRE_VERSION));
	if (!same)
		doctor_advise(f, "install one version of fanin on the switch and on all workers");
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

/* Both machines count the packets that they drop. */
static void advise_loss(const struct doctor *d, struct doctor_finding *f)
{
	const char *dev = d->device[0] ? d->device : "DEVICE";

	doctor_advise(f,
		      "find where, at both ends: ip -s link show dev %s; ethtool -S %s | grep -iE "
		      "'drop|err|discard'; nstat -az UdpRcvbufErrors UdpSndbufErrors",
		      dev, dev);
	doctor_advise(f, "if buffers overflow, as root at both ends: sysctl -w "
			 "net.core.rmem_max=4194304 net.core.wmem_max=4194304");
}

/* Add a finding about a train of packets of `packet_bytes`. */
static struct doctor_finding *judge_train(struct doctor *d, const char *name,
					  const struct doctor_train *tr, unsigned packet_bytes)
{
	uint64_t p50 = doctor_percentile(tr->rtt_ns, tr->answered, 500);
	uint64_t p99 = doctor_percentile(tr->rtt_ns, tr->answered, 990);
	uint64_t least = tr->answered ? tr->rtt_ns[0] : 0;
	unsigned lost = tr->sent - tr->answered;
	enum doctor_status s =
		doctor_worse(doctor_judge_loss(tr->sent, tr->answered), doctor_judge_rtt(p50, p99));
	struct doctor_finding *f = doctor_find(
		d, name, s,
		"packets of %u bytes: %u of %u lost (%.1f %%), rtt min %.3f p50 %.3f p99 %.3f ms",
		packet_bytes, lost, tr->sent, tr->sent ? 100.0 * lost / tr->sent : 0.0, ms(least),
		ms(p50), ms(p99));

	doctor_value(f, "packet_bytes", json_integer(packet_bytes));
	doctor_value(f, "sent", json_integer(tr->sent));
	doctor_value(f, "lost", json_integer(lost));
	doctor_value(f, "rtt_min_ms", json_real(ms(least)));
	doctor_value(f, "rtt_p50_ms", json_real(ms(p50)));
	doctor_value(f, "rtt_p99_ms", json_real(ms(p99)));
	if (!tr->sent)
		doctor_advise(f, "the kernel refuses to send: %s", strerror(tr->send_error));
	else if (lost && !d->lossy)
		advise_loss(d, f); /* one advice is enough */
	d->lossy |= lost > 0;
	if (p50 > DOCTOR_RTT_WARN_NS)
		doctor_advise(
			f,
			"a window of %u fragments each %.1f ms limits a job to %.0f MB/s: use a "
			"nearer switch, a larger window (fanin switch --window) or more shards "
			"(--threads)",
			d->who.window, ms(p50),
			(double)d->who.window * fan_config_payload_bytes(d->cfg.mtu, 2) / ms(p50) /
				1e3);
	else if (p99 > DOCTOR_TAIL_WARN_NS)
		doctor_advise(
			f, "some take far longer than most: look for busy cores at both ends with "
			   "`top`, and reserve some: taskset -c CORES fanin switch ...");
	return f;
}

/* UDP and IP headers. */
static unsigned headers(const struct doctor *d)
{
	return FAN_HEAD_BYTES + (fan_peer_family(&d->sw) == AF_INET ? 28 : 48);
}

static int run_train(struct doctor *d, const char *name, struct doctor_train *tr,
		     struct fan_udp *udp)
{
	int e = doctor_echo_open(udp, &d->sw);

	if (e) {
		doctor_find(d, name, DOCTOR_FAIL, "cannot open a socket to the switch: %s",
			    strerror(-e));
		return e;
	}
	if (!tr->wait_ns)
		tr->wait_ns = d->rto_ns;
	tr->until_ns = d->deadline_ns;
	doctor_train_run(udp, tr);
	fan_udp_close(udp);
	return 0;
}

void doctor_check_rtt(struct doctor *d)
{
	struct fan_udp udp;
	struct doctor_train tr = {.count = (unsigned)d->args.count,
				  .burst = 1,
				  .gap_ns = TRAIN_GAP_NS,
				  .body_bytes = FAN_ECHO_MIN};

	if (doctor_skips(d, "rtt") || run_train(d, "rtt", &tr, &udp))
		return;
	judge_train(d, "rtt", &tr, FAN_ECHO_MIN + headers(d));
	d->rtt_ns = doctor_percentile(tr.rtt_ns, tr.answered, 500);
	uint64_t worst_ns = tr.answered ? tr.rtt_ns[tr.answered - 1] : 0;
	if (2 * worst_ns > d->rto_ns)
		d->rto_ns = 2 * worst_ns < RTO_MAX_NS ? 2 * worst_ns : RTO_MAX_NS;
}

/* Bytes of the body of a packet as workers send it; 0: the check `name` is skipped. */
static uint16_t fragment_bytes(struct doctor *d, const char *name)
{
	if (doctor_skips(d, name))
		return 0;
	if (!d->mtu)
		doctor_find(d, name, DOCTOR_SKIP, "no MTU works");
	return d->mtu ? fan_config_payload_bytes(d->mtu, 2) : 0;
}

void doctor_check_fragments(struct doctor *d)
{
	struct fan_udp udp;
	struct doctor_train tr = {.count = (unsigned)d->args.count,
				  .burst = 1,
				  .gap_ns = TRAIN_GAP_NS,
				  .body_bytes = fragment_bytes(d, "fragments")};

	if (!tr.body_bytes || run_train(d, "fragments", &tr, &udp))
		return;
	judge_train(d, "fragments", &tr, tr.body_bytes + headers(d));
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

static void judge_burst(struct doctor *d, const struct fan_udp *udp, const struct doctor_train *tr)
{
	unsigned lost = tr->sent - tr->answered, refused = tr->tried - tr->sent;
	bool segment = udp->segment, alone = tr->batch == 1;
	bool gro_off = alone && device_has(d, ETHTOOL_GGRO) == 0;
	/* a path that loses single packets loses bursts as well, which was reported */
	bool bursty = (lost + refused) * 100 > tr->tried * RATE_MIN_PERCENT && !d->lossy;
	const char *dev = d->device[0] ? d->device : "DEVICE";
	struct doctor_finding *f = doctor_find(
		d, "burst", !segment || gro_off || bursty ? DOCTOR_WARN : DOCTOR_OK,
		"%u bursts of %u fragments: %u lost, %llu sends, up to %u in one receive",
		BURST_ROUNDS, tr->burst, lost + refused, (unsigned long long)udp->sends, tr->batch);

	doctor_value(f, "sent", json_integer(tr->tried));
	doctor_value(f, "lost", json_integer(lost + refused));
	doctor_value(f, "sends", json_integer((json_int_t)udp->sends));
	doctor_value(f, "largest_batch", json_integer(tr->batch));
	doctor_value(f, "segment", json_boolean(udp->segment));
	if (!segment)
		doctor_advise(f, "%s refuses UDP_SEGMENT; as root: ethtool -K %s tx on", dev, dev);
	if (gro_off)
		doctor_advise(f, "answers arrived one by one; as root: ethtool -K %s gro on", dev);
	if (bursty) {
		doctor_advise(f, "as root, at both ends: sysctl -w net.core.rmem_max=4194304 "
				 "net.core.wmem_max=4194304; then start the switch again");
		doctor_advise(f,
			      "lengthen the queues of %s: ethtool -G %s rx 4096; ip link "
			      "set dev %s txqueuelen 4000",
			      dev, dev, dev);
	}
}

void doctor_check_burst(struct doctor *d)
{
	struct fan_udp udp;
	struct doctor_train tr = {.burst = DOCTOR_BURST_MAX,
				  .count = BURST_ROUNDS * DOCTOR_BURST_MAX,
				  .gap_ns = BURST_GAP_NS + d->rto_ns / 4,
				  .wait_ns = RTO_MAX_NS, /* narrow links are slow */
				  .body_bytes = fragment_bytes(d, "burst")};

	if (!tr.body_bytes || run_train(d, "burst", &tr, &udp))
		return;
	judge_burst(d, &udp, &tr);
}

void doctor_check_shards(struct doctor *d)
{
	char list[64];
	struct fan_text t = fan_text_in(list, sizeof list);
	fan_peer at[FAN_SHARDS_MAX];
	bool answers[FAN_SHARDS_MAX];
	unsigned silent = 0;

	if (doctor_skips(d, "shards"))
		return;
	for (unsigned i = 0; i < d->who.shards; i++) {
		at[i] = d->sw;
		at[i].port += i;
	}
	fan_echo_all(at, d->who.shards, answers);
	for (unsigned i = 0; i < d->who.shards; i++) {
		if (!answers[i] && silent < SHARDS_SILENT)
			fan_text_add(&t, "%s%u", silent ? ", " : "", d->sw.port + i);
		silent += !answers[i];
	}
	unsigned last = d->sw.port + d->who.shards - 1;
	struct doctor_finding *f;
	if (!silent)
		f = doctor_find(d, "shards", DOCTOR_OK,
				d->who.shards == 1 ? "%u, on port %u"
						   : "%u, on ports %u to %u; all answer",
				d->who.shards, d->sw.port, last);
	else
		f = doctor_find(d, "shards", DOCTOR_FAIL,
				"the switch has %u, on ports %u to %u; silent: %s%s", d->who.shards,
				d->sw.port, last, list, silent > SHARDS_SILENT ? ", ..." : "");
	doctor_value(f, "shards", json_integer(d->who.shards));
	doctor_value(f, "silent", json_integer(silent));
	if (silent) {
		d->no_path = "a shard of the switch is silent";
		doctor_advise(
			f,
			"let the firewall pass all of them, as root on the switch: nft add rule "
			"inet filter input udp dport %u-%u accept",
			d->sw.port, last);
		doctor_advise(
			f,
			"give workers the first port: the switch has %u, from the one that it "
			"listens on",
			d->who.shards);
	}
}

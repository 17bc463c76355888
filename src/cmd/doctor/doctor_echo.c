/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor_echo.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "doctor_judge.h"
#include "lib/link/connection.h"
#include "net/clock.h"

#define RECVS_PER_ROUND 64

/* State of the running train: one runs at a time. */
static uint64_t sent_ns[DOCTOR_TRAIN_MAX], rtt_ns[DOCTOR_TRAIN_MAX];
static bool got[DOCTOR_TRAIN_MAX];
static uint64_t first_nonce;

int doctor_talk_open(struct doctor_talk *t, const fan_peer *to)
{
	const struct fan_udp_options o = {.connect = *to,
					  .buffer_bytes = FAN_CONNECTION_BUFFER_BYTES};

	return fan_udp_open(&t->udp, &o);
}

void doctor_talk_close(struct doctor_talk *t)
{
	fan_udp_close(&t->udp);
}

/* Send one burst; datagrams that the kernel refuses count as tried, not as sent. */
static void send_burst(struct doctor_talk *t, struct doctor_train *tr)
{
	static struct fan_out_item item[DOCTOR_BURST_MAX];
	static uint8_t body[FAN_ECHO_MAX];
	const struct fan_echo m = {.answer_bytes = tr->answer_bytes, .body_bytes = tr->body_bytes};
	struct fan_out out;

	fan_out_init(&out, item, DOCTOR_BURST_MAX, NULL, 0);
	fan_echo_put(body, &m);
	unsigned n = tr->count - tr->tried < tr->burst ? tr->count - tr->tried : tr->burst;
	for (unsigned i = 0; i < n; i++) {
		struct fan_frag h = {.type = FAN_TYPE_QUERY,
				     .topic = FAN_TOPIC_ECHO,
				     .sender = FAN_RANK_NONE,
				     .nonce = first_nonce + tr->tried + i};
		fan_ctl_finish(fan_out_add(&out, FAN_TO_PEER), &h, body, tr->body_bytes);
		sent_ns[tr->tried + i] = fan_clock_ns();
		got[tr->tried + i] = false;
	}
	uint64_t drops = t->udp.send_drops;
	fan_udp_send(&t->udp, &out, true);
	drops = t->udp.send_drops - drops;
	if (drops)
		tr->send_error = t->udp.last_errno;
	tr->tried += n;
	tr->sent += n - (unsigned)drops;
}

/* A switch of another version answers with a refusal of its own version. */
static void take_foreign(struct doctor_train *tr, const uint8_t *p, size_t len)
{
	if (len >= FAN_HEAD_BYTES && p[0] != FAN_WIRE_VERSION && p[1] == FAN_TYPE_REFUSE &&
	    fan_wire_is_whole(p, len) && fan_wire_nonce(p) - first_nonce < tr->tried)
		tr->version = p[0];
	else
		tr->strays++;
}

static void take(struct doctor_train *tr, const uint8_t *p, size_t len, uint64_t now_ns)
{
	struct fan_frag f;
	struct fan_echoed who;
	size_t want = tr->answer_bytes ? tr->answer_bytes : tr->body_bytes;

	if (fan_wire_get(&f, p, len) >= 0) {
		take_foreign(tr, p, len);
		return;
	}
	uint64_t i = f.nonce - first_nonce;
	if (f.type != FAN_TYPE_REPORT || f.topic != FAN_TOPIC_ECHO || i >= tr->tried || got[i] ||
	    f.payload_bytes != want || fan_echoed_get(&who, &f) != FAN_OK) {
		tr->strays++;
		return;
	}
	got[i] = true;
	tr->who = who;
	rtt_ns[tr->answered++] = now_ns - sent_ns[i];
}

/* Receive everything that has arrived; false: nothing has. */
static bool receive(struct doctor_talk *t, struct doctor_train *tr)
{
	static uint8_t buffer[FAN_UDP_RECV_BYTES];
	struct fan_udp_batch b;
	bool any = false;

	for (unsigned i = 0; i < RECVS_PER_ROUND; i++) {
		int n = fan_udp_recv(&t->udp, buffer, &b);
		if (n < 0)
			tr->error = -n;
		if (n == 0)
			break;
		any = true;
		if (n < 0)
			continue;
		unsigned datagrams = 0;
		uint64_t now_ns = fan_clock_ns();
		for (size_t at = 0; at < b.bytes; at += fan_udp_datagram_bytes(&b, at), datagrams++)
			take(tr, buffer + at, fan_udp_datagram_bytes(&b, at), now_ns);
		tr->batch = datagrams > tr->batch ? datagrams : tr->batch;
	}
	return any;
}

static void sleep_until(const struct doctor_talk *t, uint64_t then_ns)
{
	struct pollfd p = {t->udp.fd, POLLIN, 0};
	uint64_t now_ns = fan_clock_ns();
	uint64_t left_ns = then_ns > now_ns ? then_ns - now_ns : 0;
	const struct timespec ts = {(time_t)(left_ns / UINT64_C(1000000000)),
				    (long)(left_ns % UINT64_C(1000000000))};

	ppoll(&p, 1, &ts, NULL);
}

static bool is_over(const struct doctor_train *tr, uint64_t now_ns, uint64_t last_ns)
{
	bool all_sent = tr->tried >= tr->count;

	return now_ns >= tr->until_ns || tr->version || (tr->once && tr->answered) ||
	       tr->send_error == EMSGSIZE ||
	       (all_sent && (tr->answered >= tr->sent || now_ns >= last_ns + tr->wait_ns));
}

void doctor_train_run(struct doctor_talk *t, struct doctor_train *tr)
{
	uint64_t now_ns = fan_clock_ns(), next_ns = now_ns, last_ns = now_ns;

	first_nonce = fan_clock_nonce();
	tr->tried = tr->sent = tr->answered = tr->version = tr->strays = tr->batch = 0;
	tr->error = tr->send_error = 0;
	while (!is_over(tr, now_ns, last_ns)) {
		if (tr->tried < tr->count && now_ns >= next_ns) {
			send_burst(t, tr);
			last_ns = fan_clock_ns();
			next_ns = last_ns + tr->gap_ns;
		}
		if (!receive(t, tr)) {
			uint64_t then_ns = tr->tried < tr->count ? next_ns : last_ns + tr->wait_ns;
			sleep_until(t, then_ns < tr->until_ns ? then_ns : tr->until_ns);
		}
		now_ns = fan_clock_ns();
	}
	qsort(rtt_ns, tr->answered, sizeof *rtt_ns, doctor_rising);
	tr->rtt_ns = rtt_ns;
}

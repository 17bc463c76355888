/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "doctor.h"
#include "lib/link/connection.h"
#include "net/clock.h"

#define RECVS_PER_ROUND 64
#define WARM_UP		4	       /* the first 1 / WARM_UP of a stream fills queues */
#define SILENT_NS	(100 * FAN_MS) /* without an answer: all in flight is lost */

/* State of the running train: one runs at a time. */
static uint64_t sent_ns[DOCTOR_TRAIN_MAX], rtt_ns[DOCTOR_TRAIN_MAX], came_ns[DOCTOR_TRAIN_MAX];
static bool got[DOCTOR_TRAIN_MAX];
static struct fan_echo_asker asker;
static unsigned seen; /* ECHOs up to the last answer, or that are taken for lost */

int doctor_echo_open(struct fan_udp *udp, const fan_peer *to)
{
	const struct fan_udp_options o = {.connect = *to,
					  .buffer_bytes = FAN_CONNECTION_BUFFER_BYTES};

	return fan_udp_open(udp, &o);
}

/* Send one burst; datagrams that the kernel refuses count as tried, not as sent. */
static void send_burst(struct fan_udp *udp, struct doctor_train *tr)
{
	static struct fan_out_item item[DOCTOR_BURST_MAX];
	static uint8_t body[FAN_ECHO_MAX];
	const struct fan_echo m = {.answer_bytes = tr->answer_bytes, .body_bytes = tr->body_bytes};
	const unsigned room = tr->window ? tr->window - (tr->tried - seen) : tr->burst;
	const unsigned left = tr->count - tr->tried, most = room < left ? room : left;
	struct fan_out out;
	unsigned n = 0;

	fan_out_init(&out, item, DOCTOR_BURST_MAX, NULL, 0);
	fan_ctl_put(body, &m);
	for (; n < most && n < DOCTOR_BURST_MAX; n++) {
		fan_echo_put_question(&asker, &out, NULL, body, tr->body_bytes);
		sent_ns[tr->tried + n] = fan_clock_ns();
		got[tr->tried + n] = false;
	}
	uint64_t drops = udp->send_drops;
	fan_udp_send(udp, &out, true);
	drops = udp->send_drops - drops;
	if (drops)
		tr->send_error = udp->last_errno;
	tr->tried += n;
	tr->sent += n - (unsigned)drops;
}

/* A switch of another version answers with a refusal of its own version. */
static void take_foreign(struct doctor_train *tr, const uint8_t *p, size_t len)
{
	if (len >= FAN_HEAD_BYTES && p[0] != FAN_WIRE_VERSION && p[1] == FAN_TYPE_REFUSE &&
	    fan_wire_is_whole(p, len) && fan_wire_nonce(p) - asker.nonce < asker.asked)
		tr->version = p[0];
	else
		tr->strays++;
}

static void take(struct doctor_train *tr, const uint8_t *p, size_t len, uint64_t now_ns)
{
	struct fan_echoed who;
	size_t want = tr->answer_bytes ? tr->answer_bytes : tr->body_bytes;
	int64_t i = fan_echo_heard(&asker, p, len, &who);

	if (i < 0) {
		take_foreign(tr, p, len);
		return;
	}
	if (got[i] || len != FAN_HEAD_BYTES + want) {
		tr->strays++;
		return;
	}
	got[i] = true;
	seen = i >= seen ? (unsigned)i + 1 : seen; /* those before are answered or lost */
	tr->who = who;
	came_ns[tr->answered] = now_ns;
	rtt_ns[tr->answered++] = now_ns - sent_ns[i];
}

/* Receive everything that has arrived; false: nothing has. */
static bool receive(struct fan_udp *udp, struct doctor_train *tr)
{
	static uint8_t buffer[FAN_UDP_RECV_BYTES];
	struct fan_udp_batch b;
	bool any = false;

	for (unsigned i = 0; i < RECVS_PER_ROUND; i++) {
		int n = fan_udp_recv(udp, buffer, &b);
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

static void sleep_until(const struct fan_udp *udp, uint64_t then_ns)
{
	struct pollfd p = {udp->fd, POLLIN, 0};
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

/* When the next burst is due, `last_ns` after the last one. */
static uint64_t next_ns(const struct doctor_train *tr, uint64_t last_ns)
{
	if (!tr->tried)
		return 0;
	if (!tr->window)
		return last_ns + tr->gap_ns;
	if (2 * (tr->tried - seen) <= tr->window)
		return 0;
	return (tr->answered && came_ns[tr->answered - 1] > last_ns ? came_ns[tr->answered - 1]
								    : last_ns) +
	       SILENT_NS;
}

/* For qsort: uint64_t rise. */
static int rising(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x < y ? -1 : x > y;
}

void doctor_train_run(struct fan_udp *udp, struct doctor_train *tr)
{
	uint64_t now_ns = fan_clock_ns(), last_ns = now_ns;

	asker = (struct fan_echo_asker){.asked = 0};
	seen = 0;
	tr->tried = tr->sent = tr->answered = tr->version = tr->strays = tr->batch = 0;
	tr->error = tr->send_error = 0;
	while (!is_over(tr, now_ns, last_ns)) {
		if (tr->tried < tr->count && now_ns >= next_ns(tr, last_ns)) {
			if (tr->window && 2 * (tr->tried - seen) > tr->window)
				seen = tr->tried;
			send_burst(udp, tr);
			last_ns = fan_clock_ns();
		}
		if (!receive(udp, tr)) {
			uint64_t then_ns = tr->tried < tr->count ? next_ns(tr, last_ns)
								 : last_ns + tr->wait_ns;
			sleep_until(udp, then_ns < tr->until_ns ? then_ns : tr->until_ns);
		}
		now_ns = fan_clock_ns();
	}
	qsort(rtt_ns, tr->answered, sizeof *rtt_ns, rising);
	tr->rtt_ns = rtt_ns;
}

double doctor_stream(const fan_peer *to, unsigned window, uint64_t ns, uint16_t body_bytes,
		     uint16_t answer_bytes)
{
	const unsigned most = DOCTOR_STREAM_MAX / body_bytes;
	const uint64_t start_ns = fan_clock_ns();
	struct doctor_train tr = {.count = most < DOCTOR_TRAIN_MAX ? most : DOCTOR_TRAIN_MAX,
				  .window = window,
				  .until_ns = start_ns + ns,
				  .body_bytes = body_bytes,
				  .answer_bytes = answer_bytes};
	struct fan_udp udp;
	unsigned first = 0;

	if (doctor_echo_open(&udp, to))
		return 0;
	doctor_train_run(&udp, &tr);
	fan_udp_close(&udp);
	if (!tr.answered)
		return 0;
	const uint64_t last_ns = came_ns[tr.answered - 1];
	while (came_ns[first] < start_ns + (last_ns - start_ns) / WARM_UP)
		first++;
	if (!first || last_ns == came_ns[first - 1])
		return 0;
	return (double)(tr.answered - first) * 1e9 / (double)(last_ns - came_ns[first - 1]);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "core/wire/ctlmsg.h"
#include "doctor.h"
#include "doctor_echo.h"
#include "net/clock.h"

#define SEND_MAX     64 /* ECHOs sent at once */
#define RECEIVES_MAX 16 /* batches between two sends */
#define WARM_UP	     4	/* the first 1 / WARM_UP of the time fills queues and does not count */
#define SILENT_NS    (100 * FAN_MS) /* without an answer: all in flight is lost */

struct run {
	struct doctor_talk talk;
	uint64_t nonce;		/* of the first ECHO */
	uint64_t sent, seen;	/* ECHOs sent; those up to the last answer */
	uint64_t answers;	/* in total */
	uint64_t begin_ns;	/* answers count from this time on */
	uint64_t begin_answers; /* answers before that time */
	uint64_t heard_ns, last_ns;
};

static void send_some(const struct doctor_stream *s, struct run *r)
{
	static struct fan_out_item item[SEND_MAX];
	static uint8_t body[FAN_ECHO_MAX];
	const struct fan_echo m = {.answer_bytes = s->answer_bytes, .body_bytes = s->body_bytes};
	struct fan_out out;
	uint64_t room = s->window - (r->sent - r->seen);
	fan_out_init(&out, item, SEND_MAX, NULL, 0);
	fan_echo_put(body, &m);
	for (uint64_t i = 0; i < room && i < SEND_MAX; i++) {
		struct fan_frag h = {.type = FAN_TYPE_QUERY,
				     .topic = FAN_TOPIC_ECHO,
				     .sender = FAN_RANK_NONE,
				     .nonce = r->nonce + r->sent++};
		fan_ctl_finish(fan_out_add(&out, FAN_TO_PEER), &h, body, s->body_bytes);
	}
	fan_udp_send(&r->talk.udp, &out, true);
}

static void take(struct run *r, const uint8_t *packet, size_t bytes, uint64_t now_ns)
{
	struct fan_frag f;
	if (fan_wire_get(&f, packet, bytes) >= 0 || f.type != FAN_TYPE_REPORT ||
	    f.topic != FAN_TOPIC_ECHO || f.nonce - r->nonce >= r->sent)
		return;
	uint64_t upto = f.nonce - r->nonce + 1;
	r->seen = upto > r->seen ? upto : r->seen; /* those before are answered or lost */
	r->heard_ns = r->last_ns = now_ns;
	r->answers++;
}

/* False: nothing had arrived. */
static bool receive(struct doctor_stream *s, struct run *r)
{
	static uint8_t buffer[FAN_UDP_RECV_BYTES];
	struct fan_udp_batch b;
	int i = 0;
	for (; i < RECEIVES_MAX; i++) {
		int n = fan_udp_recv(&r->talk.udp, buffer, &b);
		if (n < 0)
			s->error = -n;
		if (n <= 0)
			break;
		uint64_t now_ns = fan_clock_ns();
		for (size_t at = 0; at < b.bytes; at += fan_udp_datagram_bytes(&b, at))
			take(r, buffer + at, fan_udp_datagram_bytes(&b, at), now_ns);
	}
	return i > 0;
}

static void stream(struct doctor_stream *s, struct run *r)
{
	const uint64_t start_ns = fan_clock_ns(), end_ns = start_ns + s->ns;
	const uint64_t most = DOCTOR_STREAM_BYTES_MAX / s->body_bytes;
	r->heard_ns = start_ns;
	for (uint64_t now_ns = start_ns; now_ns < end_ns && r->sent < most;
	     now_ns = fan_clock_ns()) {
		if (!r->begin_ns && r->answers &&
		    (now_ns >= start_ns + s->ns / WARM_UP || r->sent >= most / WARM_UP)) {
			r->begin_ns = r->last_ns;
			r->begin_answers = r->answers;
		}
		if (now_ns > r->heard_ns + SILENT_NS) {
			r->seen = r->sent;
			r->heard_ns = now_ns;
		}
		if (2 * (r->sent - r->seen) <= s->window)
			send_some(s, r);
		if (!receive(s, r)) {
			struct pollfd p = {r->talk.udp.fd, POLLIN, 0};
			poll(&p, 1, 1);
		}
	}
	if (r->begin_ns && r->last_ns > r->begin_ns)
		s->per_s = (double)(r->answers - r->begin_answers) * 1e9 /
			   (double)(r->last_ns - r->begin_ns);
}

void doctor_stream_run(struct doctor_stream *s)
{
	struct run r = {.nonce = fan_clock_nonce()};
	s->per_s = 0;
	s->error = -doctor_talk_open(&r.talk, &s->to);
	if (s->error)
		return;
	stream(s, &r);
	doctor_talk_close(&r.talk);
}

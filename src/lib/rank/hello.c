/* SPDX-License-Identifier: Apache-2.0 */
#include "hello.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "net/clock.h"
#include "rank.h"

#define BUFFER_BYTES 65536

void fan_hello_init(struct fan_hello *h)
{
	memset(h, 0, sizeof *h);
	h->udp.fd = -1;
}

static void hang_up(struct fan_hello *h)
{
	if (h->udp.fd >= 0)
		fan_udp_close(&h->udp);
	h->udp.fd = -1;
}

void fan_hello_free(struct fan_hello *h)
{
	hang_up(h);
}

uint64_t fan_hello_lost_with(const struct fan_regroup *g, unsigned number)
{
	const struct fan_regroup_part *p = &g->first[number];
	uint64_t with = UINT64_C(1) << number;
	assert(number < g->all);
	for (unsigned n = 0; p->inside >= 0 && n < g->all; n++)
		if (g->first[n].inside >= 0 && g->first[n].rail == p->rail)
			with |= UINT64_C(1) << n;
	return with;
}

void fan_hello_lost(struct fan_hello *h, unsigned number, uint64_t now_ns)
{
	assert(number < FAN_CAUSE_PARTS_MAX);
	struct fan_hello_part *p = &h->part[number];
	if (!p->back_ns || now_ns - p->back_ns > FAN_HELLO_CALM_NS)
		p->waits = 0;
	else if (p->waits < FAN_HELLO_WAITS)
		p->waits++;
	p->heard_ns = 0;
	p->from_ns = now_ns + (FAN_HELLO_WAIT_NS << p->waits);
	h->back &= ~(UINT64_C(1) << number);
	h->echo.due_ns = now_ns;
	h->ops = 0;
	h->bytes = 0;
}

void fan_hello_back(struct fan_hello *h, unsigned number, uint64_t now_ns)
{
	assert(number < FAN_CAUSE_PARTS_MAX);
	h->part[number].back_ns = now_ns;
	h->back = 0;
	h->ops = 0;
	h->bytes = 0;
}

/* ---- all ranks ---- */

void fan_hello_started(struct fan_rank *r, uint64_t bytes)
{
	if (!r->regroup)
		return;
	r->regroup->hello.ops++;
	r->regroup->hello.bytes += bytes;
}

/* Has part `number` of those that are lost answered this rank of late? */
static bool vouches(const struct fan_regroup *g, unsigned number, uint64_t now_ns)
{
	const struct fan_hello_part *p = &g->hello.part[number];
	const uint64_t fresh_ns = FAN_HELLO_FRESH_NS * (uint64_t)__builtin_popcountll(g->gone);
	return g->gone >> number & 1 && p->heard_ns && now_ns >= p->from_ns &&
	       now_ns - p->heard_ns <= fresh_ns;
}

bool fan_hello_offer(struct fan_rank *r)
{
	struct fan_regroup *g = r->regroup;
	const struct fanin_op *next = r->ops.waiting.head;
	if (!g || !g->gone || !fan_op_is_callers(next->kind) || next->is_counted ||
	    (g->hello.ops < FAN_HELLO_OPS && g->hello.bytes < FAN_HELLO_BYTES))
		return true;
	int32_t *words = calloc(g->all, sizeof *words);
	const struct fan_op what = {
		.op = FAN_SUM,
		.dtype = FAN_INT32,
		.wire = FAN_INT32,
		.mode = FAN_NATIVE,
		.mark = FAN_MARK_OWN,
		.count = g->all,
		.in = words,
		.out = words,
	};
	struct fanin_op *op = words ? fan_op_new(&what, FAN_OP_OFFER) : NULL;
	if (!op) {
		free(words);
		return false;
	}
	const uint64_t now_ns = fan_clock_ns();
	for (unsigned n = 0; n < g->all; n++)
		words[n] = vouches(g, n, now_ns);
	op->set = words;
	op->free_set = free;
	g->hello.ops = 0;
	g->hello.bytes = 0;
	fan_op_queue_put_first(&r->ops.waiting, op);
	return true;
}

void fan_hello_offered(struct fan_rank *r, const struct fanin_op *op)
{
	struct fan_regroup *g = r->regroup;
	const int32_t *words = op->op.out;
	assert(g && op->op.count == g->all);
	for (unsigned n = 0; n < g->all; n++)
		if (g->gone >> n & 1 && words[n] == r->cfg.ranks)
			g->hello.back |= UINT64_C(1) << n;
}

/* ---- this rank ---- */

static void receive(struct fan_hello *h, uint64_t now_ns)
{
	if (h->udp.fd >= 0)
		h->part[h->asked].heard_ns = fan_echo_receive(&h->echo, &h->udp) ? now_ns : 0;
	hang_up(h);
}

/* The one behind the one that was asked last. */
static void ask(struct fan_regroup *g, uint64_t now_ns)
{
	struct fan_hello *h = &g->hello;
	assert(g->gone && g->all <= FAN_CAUSE_PARTS_MAX);
	do
		h->asked = (h->asked + 1) % g->all;
	while (!(g->gone >> h->asked & 1));
	const struct fan_udp_options o = {.connect = g->first[h->asked].part.at,
					  .buffer_bytes = BUFFER_BYTES};
	h->echo = (struct fan_echo_asker){.due_ns = now_ns + FAN_ECHO_MS * FAN_MS};
	if (fan_udp_open(&h->udp, &o))
		h->udp.fd = -1;
	else
		fan_echo_ask(&h->echo, &h->udp, NULL, FAN_ECHO_BYTES, now_ns);
}

int fan_hello_work(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	struct fan_hello *h = &g->hello;
	assert(g->gone && g->phase == FAN_REGROUP_NONE);
	if (now_ns >= h->echo.due_ns) {
		receive(h, now_ns);
		ask(g, now_ns);
	}
	for (unsigned n = 0; n < g->all; n++) {
		const uint64_t with = fan_hello_lost_with(g, n);
		if (h->back >> n & 1 && (h->back & with) == with)
			return (int)n;
	}
	return -1;
}

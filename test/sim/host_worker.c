/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/wire/run.h"
#include "host.h"
#include "seal/toy.h"

#define ROOM_MAX      64
#define AUDIT_PACKETS 61 /* from one look at all that must hold to the next */

static struct tensor_op *op_number(const struct host_worker *h, unsigned n)
{
	return h->other && n == h->other_at ? (struct tensor_op *)h->other : &h->job->op[n];
}

static void begin_life(struct host_worker *h)
{
	struct fan_worker_config cfg = h->job->cfg;
	cfg.rank = (uint16_t)(h->rank - h->first);
	if (h->ranks)
		cfg.ranks = h->ranks;
	cfg.route = h->route;
	cfg.authentic = h->sim->sealed;
	cfg.nonce = fan_rng_next(&h->sim->rng) | 1;
	if (cfg.nonce & 2 || h->job->runs) /* as the library asks, and as others do */
		cfg.options |= FAN_JOIN_RUNS;
	size_t bytes = fan_worker_bytes(&cfg);
	SIM_CHECK(h->sim, bytes > 0, "a worker does not like its configuration");
	h->mem = sim_memory(bytes);
	h->core = fan_worker_init(h->mem, &cfg, h->sim->now_ns);
	if (h->sim->sealed) {
		uint8_t key[FAN_KEY_BYTES], fabric[FAN_KEY_BYTES] = {0x77};
		fan_tenant_key(toy_cipher(), key, fabric, cfg.name,
			       fan_tenant_bytes(cfg.name, strlen(cfg.name)));
		fan_seal_rank_init(&h->seal, toy_cipher(), key);
	}
	h->next_ns = h->sim->now_ns;
	h->begun = h->done = 0;
	h->dropped = 0;
	h->leaving = false;
	memset(h->finished, 0, sizeof h->finished);
	h->sim->node[h->node].group = (fan_peer){0};
}

static void check_counts(struct host_worker *h)
{
	const struct fan_worker_stats *st = fan_worker_stats(h->core);
	uint64_t counted = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		counted += st->drops[i];
	h->cache = st->cache;
	SIM_CHECK(h->sim, st->cache.peak <= h->job->cfg.cache_frags, "rank %u keeps %u sums, of %u",
		  h->rank, st->cache.peak, h->job->cfg.cache_frags);
	SIM_CHECK(h->sim, counted == h->dropped, "rank %u: %llu packets dropped, %llu counted",
		  h->rank, (unsigned long long)h->dropped, (unsigned long long)counted);
}

static void end_life(struct host_worker *h)
{
	if (!h->core)
		return;
	check_counts(h);
	for (unsigned i = 0; i < h->begun; i++)
		tensor_close(&h->tensor[i]);
	fan_seal_rank_free(&h->seal);
	free(h->mem);
	h->core = NULL;
}

static void send_all(struct host_worker *h, struct fan_out *out)
{
	enum { STRIDE = FAN_PACKET_MAX + 2 * FAN_SEAL_MORE };
	static uint8_t sealed[ROOM_MAX * STRIDE];
	if (fan_worker_runs(h->core))
		fan_run_pack(out, true);
	if (h->sim->sealed)
		fan_seal_rank_send(&h->seal, h->sim->now_ns, out, sealed, STRIDE);
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_NOBODY) /* it is part of a run */
			continue;
		SIM_CHECK(h->sim, it->dest == FAN_TO_PEER, "a worker sends to a group");
		sim_send(h->sim, h->node, h->sim->node[h->node].up, it, false);
	}
	fan_out_reset(out);
}

static void tick_core(struct host_worker *h)
{
	struct fan_out_item item[ROOM_MAX];
	static _Alignas(64) uint8_t scratch[2 * FAN_PACKET_MAX];
	struct fan_out out;
	fan_out_init(&out, item, h->room_items, scratch, sizeof scratch);
	unsigned tries = 0;
	do {
		bool more = true;
		while (more) {
			more = fan_worker_tick(h->core, h->sim->now_ns, &out);
			SIM_CHECK(h->sim, !more || out.count > 0, "full without an item");
			send_all(h, &out);
		}
		SIM_CHECK(h->sim, tries++ < 2 * FAN_WINDOW_MAX, "rank %u's deadline stays past",
			  h->rank);
	} while (fan_worker_deadline(h->core) <= h->sim->now_ns);
}

/* The socket layer's part: listen to the group that WELCOME names. */
static void listen_to_group(struct host_worker *h)
{
	const struct fan_welcome *m = fan_worker_welcome(h->core);
	if (!m || !m->group_family || !(h->job->cfg.options & FAN_JOIN_GROUP))
		return;
	uint8_t addr[16] = {[10] = 0xff, [11] = 0xff};
	if (m->group_family == 4)
		memcpy(addr + 12, m->group, 4);
	else
		memcpy(addr, m->group, 16);
	fan_peer *group = &h->sim->node[h->node].group;
	memcpy(group->addr, addr, 16);
	group->port = m->group_port;
}

static void check_result(struct host_worker *h, unsigned n)
{
	const struct tensor_op *o = op_number(h, n);
	struct host_job *j = h->job;
	SIM_CHECK(h->sim, !j->exact || j->begun[n] == j->cfg.ranks,
		  "rank %u finished operation %u before all began", h->rank, n);
	const char *wrong = tensor_check(&h->tensor[n], o, h->rank, j->exact);
	SIM_CHECK(h->sim, !wrong,
		  "job %s rank %u operation %u (op %d dtype %d wire %d mode %d, %llu): %s",
		  j->cfg.name, h->rank, n, o->op.op, o->op.dtype, o->op.wire, o->op.mode,
		  (unsigned long long)o->op.count, wrong);
	const uint8_t *bits = tensor_result(&h->tensor[n], o, h->rank);
	if (!bits || h->other)
		return;
	if (!j->result[n]) {
		j->result[n] = malloc(h->tensor[n].bytes + 1);
		memcpy(j->result[n], bits, h->tensor[n].bytes);
	}
	SIM_CHECK(h->sim, memcmp(j->result[n], bits, h->tensor[n].bytes) == 0,
		  "rank %u operation %u: not the same bits", h->rank, n);
}

static void look_for_results(struct host_worker *h)
{
	for (unsigned n = 0; n < h->begun; n++) {
		if (h->finished[n] || fan_worker_test(h->core, h->id[n]) != FAN_OK)
			continue;
		h->finished[n] = true;
		h->done++;
		check_result(h, n);
	}
}

/* Operations that are finished hold their place until those before them are. */
static unsigned in_flight(const struct host_worker *h)
{
	unsigned first = 0;
	while (first < h->begun && h->finished[first])
		first++;
	return h->begun - first;
}

static bool may_begin(const struct host_worker *h)
{
	return !h->leaving && h->begun < h->job->ops && h->begun < h->stop_before &&
	       h->begun < h->leave_before && in_flight(h) < h->job->depth;
}

static bool may_leave(const struct host_worker *h)
{
	unsigned last = h->job->ops < h->leave_before ? h->job->ops : h->leave_before;
	return !h->leaving && h->done >= last;
}

/* Begin one operation. */
static void begin_one(struct host_worker *h)
{
	unsigned n = h->begun;
	struct fan_op op;
	tensor_open(&h->tensor[n], op_number(h, n), h->rank, &op);
	if (h->ranks && op.root >= h->first && op.root - h->first < h->ranks)
		op.root = (uint16_t)(op.root - h->first);
	else if (h->ranks)
		op.root = FAN_RANK_NONE;
	if (h->job->priorities) /* ranks need not agree */
		op.priority = (uint8_t)fan_rng_below(&h->sim->rng, h->job->priorities);
	int err = fan_worker_start(h->core, h->sim->now_ns, &op, &h->id[n]);
	if (err) {
		tensor_close(&h->tensor[n]);
		SIM_CHECK(h->sim, fan_worker_phase(h->core) >= FAN_W_FAILED,
			  "operation %u cannot start: %s", n, fan_err_name(err));
		return;
	}
	h->begun++;
	h->job->begun[n]++;
	h->next_ns = h->sim->now_ns;
	if (rng_chance(&h->sim->rng, h->job->pause))
		h->next_ns += fan_rng_below(&h->sim->rng, h->job->pause_ms * FAN_MS + 1);
}

static void leave(struct host_worker *h, int err)
{
	struct host_end *end = &h->end[h->life];
	end->over = true;
	end->err = err;
	end->at_ns = h->sim->now_ns;
	end->fault = *fan_worker_fault(h->core);
	h->leaving = true;
	fan_worker_leave(h->core, h->sim->now_ns, err, NULL);
}

/* What the program around the library does; false: nothing to do now. */
static bool act(struct host_worker *h)
{
	if (!h->leaving && fan_worker_path_ends(h->core)) /* it has no other */
		fan_worker_lose_path(h->core);
	if (!h->leaving && fan_worker_phase(h->core) == FAN_W_FAILED) {
		leave(h, fan_worker_fault(h->core)->err);
		return true;
	}
	if (h->sim->now_ns < h->next_ns)
		return false;
	if (may_begin(h)) {
		begin_one(h);
		return true;
	}
	if (may_leave(h)) {
		leave(h, FAN_OK);
		return true;
	}
	return false;
}

/* The life is over; the next one begins after a while, at the same address. */
static void begin_next_life(struct host_worker *h)
{
	struct host_job *next = h->job->next;
	end_life(h);
	if (!next) {
		h->gone = true;
		return;
	}
	h->job = next;
	h->life++;
	h->next_ns =
		h->sim->now_ns + next->start_ns + fan_rng_below(&h->sim->rng, next->spread_ns + 1);
}

static void run(struct host_worker *h)
{
	do {
		tick_core(h);
		listen_to_group(h);
		look_for_results(h);
	} while (act(h));
	if (fan_worker_phase(h->core) == FAN_W_LEFT)
		begin_next_life(h);
}

static void give(struct host_worker *h, const uint8_t *pkt, size_t len, bool by_group)
{
	h->dropped +=
		fan_worker_recv(h->core, h->sim->now_ns, pkt, len, by_group, false) == FAN_DROP;
}

static void recv_packet(void *self, const struct sim_packet *p)
{
	struct host_worker *h = self;
	if (!h->core)
		return;
	static uint8_t copy[FAN_PACKET_MAX + 2 * FAN_SEAL_MORE];
	size_t len = p->len;
	memcpy(copy, p->bytes, len);
	if (h->sim->sealed && !(len = fan_seal_rank_recv(&h->seal, h->sim->now_ns, copy, len)))
		return;
	unsigned frags = h->sim->sealed ? 1 : fan_run_frags(copy, len);
	if (frags == 1)
		give(h, copy, len, p->by_group);
	for (unsigned n = 0; frags > 1 && n < frags; n++) {
		uint8_t head[FAN_HEAD_BYTES];
		fan_run_take(head, copy, n);
		give(h, head, sizeof head, p->by_group);
	}
	if (++h->heard % AUDIT_PACKETS == 0)
		fan_worker_audit(h->core);
	run(h);
}

static void tick(void *self)
{
	struct host_worker *h = self;
	if (!h->core)
		begin_life(h);
	run(h);
}

static uint64_t deadline(void *self)
{
	struct host_worker *h = self;
	if (h->gone || h->dead)
		return SIM_NEVER;
	if (!h->core)
		return h->next_ns;
	uint64_t at = fan_worker_deadline(h->core);
	bool acts = may_begin(h) || may_leave(h);
	return acts && h->next_ns < at ? h->next_ns : at;
}

void host_worker_init(struct host_worker *h, struct sim *s, const struct sim_link *link,
		      struct host_job *job, uint16_t rank)
{
	memset(h, 0, sizeof *h);
	h->sim = s;
	h->job = job;
	h->rank = rank;
	h->route = job->cfg.route;
	h->room_items = (unsigned)rng_range(&s->rng, 1, ROOM_MAX);
	h->stop_before = h->leave_before = UINT32_MAX;
	h->next_ns = job->start_ns + fan_rng_below(&s->rng, job->spread_ns + 1);
	h->node = sim_add_node(s, link);
	struct sim_node *n = &s->node[h->node];
	n->self = h;
	n->recv = recv_packet;
	n->tick = tick;
	n->deadline = deadline;
}

void host_worker_reroute(struct host_worker *h, uint16_t route)
{
	h->route = route;
	if (h->core)
		fan_worker_reroute(h->core, h->sim->now_ns, route);
}

void host_worker_join_few(struct host_worker *h, uint16_t first, uint16_t ranks)
{
	h->first = first;
	h->ranks = ranks;
}

void host_worker_kill(struct host_worker *h)
{
	end_life(h);
	h->dead = true;
}

void host_worker_free(struct host_worker *h)
{
	end_life(h);
}

void host_job_free(struct host_job *j)
{
	for (unsigned i = 0; i < j->ops; i++) {
		free(j->op[i].expect);
		free(j->op[i].near);
		free(j->result[i]);
	}
}

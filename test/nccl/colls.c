/* SPDX-License-Identifier: Apache-2.0 */
#include "programs.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMS_MAX 2
#define OPS_MAX	  10
#define AHEAD_MAX 8
#define GUARD	  64 /* bytes behind a result that stay as they were */
#define UNTOUCHED 0xc7

enum kind { ALLREDUCE, ALLGATHER, REDUCE_SCATTER, KINDS };

struct op {
	enum kind kind;
	int type, op;
	size_t rank_bytes, offset, bytes; /* an all-reduce has `bytes` alone */
	bool in_place;
	uint64_t key;
};

/* A communicator, the same on all its ranks. */
struct plan {
	int member[WORLD_RANKS_MAX], members, ops, ahead;
	struct op op[OPS_MAX];
};

struct team {
	const struct plan *plan;
	int rank, started, ended;
	void *comm, *request[OPS_MAX];
	uint8_t *in[OPS_MAX], *out[OPS_MAX];
};

static const struct {
	int type;
	size_t bytes;
	bool sum_only;
} types[] = {{FAN_NCCL_FLOAT32, 4, false},  {FAN_NCCL_FLOAT16, 2, false},
	     {FAN_NCCL_BFLOAT16, 2, false}, {FAN_NCCL_FLOAT64, 8, false},
	     {FAN_NCCL_INT32, 4, false},    {FAN_NCCL_INT64, 8, false},
	     {FAN_NCCL_UINT32, 4, true},    {FAN_NCCL_UINT64, 8, true}};

#define TYPES ((unsigned)(sizeof types / sizeof *types))

static const int redops[] = {FAN_NCCL_SUM, FAN_NCCL_MAX, FAN_NCCL_MIN};

/* ---- values: small integers, whose sums every type has exactly ---- */

static size_t type_bytes(int type)
{
	unsigned i = 0;
	while (types[i].type != type)
		i++;
	return types[i].bytes;
}

static int value(int rank, size_t index, uint64_t key)
{
	return (int)((index * 7 + (uint64_t)rank * 5 + key % 1000) % 13);
}

static uint16_t half_of(int v)
{
	uint16_t exponent = 25; /* of 1024 */
	if (!v)
		return 0;
	while (v < 1024)
		v *= 2, exponent--;
	return (uint16_t)(exponent << 10 | (v & 1023));
}

static void store(int type, uint8_t *at, size_t index, int v)
{
	float f = (float)v;
	double d = v;
	uint32_t bits, whole = (uint32_t)v;
	uint64_t wide = (uint64_t)v;
	uint16_t half;
	size_t bytes = type_bytes(type);
	const void *from = &whole;
	memcpy(&bits, &f, sizeof bits);
	switch (type) {
	case FAN_NCCL_FLOAT32: from = &f; break;
	case FAN_NCCL_FLOAT64: from = &d; break;
	case FAN_NCCL_INT64:
	case FAN_NCCL_UINT64: from = &wide; break;
	case FAN_NCCL_BFLOAT16:
		half = (uint16_t)(bits >> 16);
		from = &half;
		break;
	case FAN_NCCL_FLOAT16:
		half = half_of(v);
		from = &half;
		break;
	default: break;
	}
	memcpy(at + index * bytes, from, bytes);
}

static int reduced(const struct plan *p, int op, size_t index, uint64_t key)
{
	int all = value(0, index, key);
	for (int r = 1; r < p->members; r++) {
		int v = value(r, index, key);
		if (op == FAN_NCCL_SUM)
			all += v;
		else if ((op == FAN_NCCL_MAX) == (v > all))
			all = v;
	}
	return all;
}

static uint8_t gathered(int rank, size_t index, uint64_t key)
{
	return (uint8_t)(index * 31 + (size_t)rank * 17 + key);
}

/* ---- plans ---- */

static void draw_op(struct op *o, const struct plan *p, uint64_t *state, int version, size_t most)
{
	unsigned t = draw_below(state, TYPES);
	size_t count = 0;
	o->type = types[t].type;
	o->op = types[t].sum_only ? FAN_NCCL_SUM : redops[draw_below(state, 3)];
	o->kind = (enum kind)draw_below(state, KINDS + 1);
	if (o->kind == KINDS || version < 8)
		o->kind = ALLREDUCE;
	o->in_place = draw_below(state, 2);
	o->key = draw(state);
	switch (draw_below(state, 4)) {
	case 0: break;
	case 1: count = draw_below(state, 40); break;
	case 2: count = draw_below(state, 3000); break;
	default: count = draw(state) % (most / types[t].bytes + 1); break;
	}
	if (o->kind == ALLREDUCE) {
		o->bytes = count * types[t].bytes;
		return;
	}
	size_t all = (count / (size_t)p->members) * (size_t)p->members * types[t].bytes;
	o->rank_bytes = all / (size_t)p->members;
	o->bytes = all;
	if (draw_below(state, 3) && count) { /* a window of it */
		o->offset = draw(state) % (all / types[t].bytes + 1) * types[t].bytes;
		o->bytes = draw(state) % ((all - o->offset) / types[t].bytes + 1) * types[t].bytes;
	}
}

static void draw_plan(struct plan *p, struct seat *s, uint64_t *state, int version, size_t most)
{
	memset(p, 0, sizeof *p);
	for (int r = 0; r < s->world->ranks; r++)
		if (draw_below(state, 3) || s->world->ranks - r <= 2 - p->members)
			p->member[p->members++] = r;
	if (draw_below(state, 2)) { /* rank 0 of it is another one */
		int first = p->member[0];
		p->member[0] = p->member[p->members - 1];
		p->member[p->members - 1] = first;
	}
	p->ops = 1 + (int)draw_below(state, OPS_MAX);
	p->ahead = 1 + (int)draw_below(state, AHEAD_MAX);
	for (int i = 0; i < p->ops; i++)
		draw_op(&p->op[i], p, state, version, most);
}

/* ---- a communicator ---- */

int coll_try(struct seat *s, const struct api *a, int dev, int ranks, int rank, void **comm)
{
	static uint8_t handle[WORLD_RANKS_MAX][FAN_NCCL_HANDLE_BYTES];
	void *listening = NULL, *handles[WORLD_RANKS_MAX];
	int box[WORLD_RANKS_MAX];
	*comm = NULL;
	for (int r = 0; r < ranks; r++) {
		box[r] = seat_box(s);
		handles[r] = handle[r];
	}
	if (rank < 0)
		return seat_barrier(s) ? 0 : -1;
	if (coll_listen(a, dev, handle[rank], &listening))
		FAIL("listen");
	box_put(s->world, box[rank], handle[rank]);
	for (int r = 0; r < ranks; r++)
		while (!box_get(s->world, box[r], handle[r])) {
			if (!seat_has_time(s, "handles"))
				return -1;
			usleep(200);
		}
	int result = coll_connect(a, handles, ranks, rank, listening, comm);
	/* NCCL asks all ranks next whether they are connected: ncclTransportCollNetCheck. */
	return coll_close_listen(a, listening) || !seat_barrier(s) ? -1 : result;
}

int coll_meet(struct seat *s, const struct api *a, int ranks, int rank, void **comm)
{
	int devices;
	if (api_devices(a, &devices))
		FAIL("devices");
	int result = coll_try(s, a, devices - 1, ranks, rank, comm);
	if (result)
		FAIL("rank %d of %d: connect: %d", rank, ranks, result);
	return 0;
}

/* ---- operations ---- */

static size_t max_of(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t min_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* What of the window is `rank`'s: bytes, and where in all ranks' memory it begins. */
static size_t own_part(const struct op *o, int rank, size_t *begin)
{
	size_t from = (size_t)rank * o->rank_bytes;
	*begin = max_of(from, o->offset);
	size_t end = min_of(from + o->rank_bytes, o->offset + o->bytes);
	return end > *begin ? end - *begin : 0;
}

static int start(const struct api *a, struct team *t, int i)
{
	const struct op *o = &t->plan->op[i];
	size_t begin = 0, own = own_part(o, t->rank, &begin), element = type_bytes(o->type);
	size_t in_bytes = o->kind == ALLGATHER ? own : o->bytes;
	size_t out_bytes = o->kind == REDUCE_SCATTER ? own : o->bytes;
	struct fan_nccl_piece piece = {.bytes = o->bytes};
	if (!t->out[i]) {
		t->in[i] = malloc(in_bytes + 1);
		t->out[i] = malloc(max_of(out_bytes, in_bytes) + GUARD);
		memset(t->out[i], UNTOUCHED, max_of(out_bytes, in_bytes) + GUARD);
		for (size_t k = 0; k < in_bytes && o->kind == ALLGATHER; k++)
			t->in[i][k] = gathered(t->rank, begin + k, o->key);
		for (size_t k = 0; k < in_bytes / element && o->kind != ALLGATHER; k++)
			store(o->type, t->in[i], k,
			      value(t->rank, o->offset / element + k, o->key));
		if (o->in_place && o->kind == ALLREDUCE)
			memcpy(t->out[i], t->in[i], in_bytes);
		if (o->in_place && o->kind == ALLGATHER && own)
			memcpy(t->out[i] + (begin - o->offset), t->in[i], in_bytes);
	}
	switch (o->kind) {
	case ALLREDUCE:
		return coll_allreduce(a, t->comm, o->in_place ? t->out[i] : t->in[i], t->out[i],
				      o->bytes / element, o->type, o->op, &t->request[i]);
	case ALLGATHER:
		piece.address = t->out[i];
		return coll_allgather(
			a, t->comm, o->in_place && own ? t->out[i] + (begin - o->offset) : t->in[i],
			&piece, o->rank_bytes, o->offset, o->bytes, &t->request[i]);
	default:
		piece.address = t->in[i];
		return coll_reducescatter(a, t->comm, &piece, t->out[i], o->rank_bytes, o->offset,
					  o->bytes, o->type, o->op, &t->request[i]);
	}
}

static int check(const struct team *t, int i)
{
	const struct op *o = &t->plan->op[i];
	size_t begin, own = own_part(o, t->rank, &begin), element = type_bytes(o->type);
	size_t bytes = o->kind == REDUCE_SCATTER ? own : o->bytes;
	size_t first = o->kind == REDUCE_SCATTER ? begin / element : 0;
	uint8_t want[8];
	for (size_t k = 0; k < bytes && o->kind == ALLGATHER; k++) {
		size_t at = o->offset + k;
		if (t->out[i][k] != gathered((int)(at / o->rank_bytes), at, o->key))
			FAIL("op %d: byte %zu of %zu is wrong", i, k, bytes);
	}
	for (size_t k = 0; k < bytes / element && o->kind != ALLGATHER; k++) {
		store(o->type, want, 0, reduced(t->plan, o->op, first + k, o->key));
		if (memcmp(want, t->out[i] + k * element, element))
			FAIL("op %d, kind %d, type %d, operation %d: element %zu of %zu is wrong",
			     i, (int)o->kind, o->type, o->op, k, bytes / element);
	}
	for (unsigned k = 0; k < GUARD; k++)
		if (o->kind != REDUCE_SCATTER && t->out[i][bytes + k] != UNTOUCHED)
			FAIL("op %d: wrote behind its %zu bytes", i, bytes);
	return 0;
}

static int step(const struct api *a, struct team *t)
{
	int done = 0, size = -1, result = 0;
	if (t->started < t->plan->ops && t->started - t->ended < t->plan->ahead) {
		result = start(a, t, t->started);
		t->started += !result && t->request[t->started];
	}
	if (!result && t->ended < t->started)
		result = coll_test(a, t->request[t->ended], &done, &size);
	if (result)
		FAIL("result %d", result);
	if (!done)
		return 0;
	if ((size_t)size != t->plan->op[t->ended].bytes)
		FAIL("%d bytes in place of %zu", size, t->plan->op[t->ended].bytes);
	if (check(t, t->ended))
		return -1;
	free(t->in[t->ended]);
	free(t->out[t->ended++]);
	return 0;
}

int colls_run(struct seat *s, const struct api *a, uint64_t *state, size_t bytes_max)
{
	int count = 1 + (int)draw_below(state, COMMS_MAX), left = 1;
	struct plan plan[COMMS_MAX];
	struct team team[COMMS_MAX];
	memset(team, 0, sizeof team);
	for (int i = 0; i < count; i++) {
		struct team *t = &team[i];
		draw_plan(&plan[i], s, state, a->version, bytes_max);
		t->plan = &plan[i];
		t->rank = -1;
		for (int r = 0; r < plan[i].members; r++)
			if (plan[i].member[r] == s->rank)
				t->rank = r;
		if (coll_meet(s, a, plan[i].members, t->rank, &t->comm))
			return -1;
	}
	while (left) {
		left = 0;
		for (int i = 0; i < count; i++) {
			if (team[i].rank < 0 || team[i].ended == plan[i].ops)
				continue;
			if (step(a, &team[i]))
				return -1;
			left++;
		}
		if (!seat_has_time(s, "a sum"))
			return -1;
		sched_yield();
	}
	for (int i = 0; i < count; i++)
		if (team[i].comm && coll_close(a, team[i].comm))
			FAIL("close");
	return 0;
}

/* ---- ends ---- */

struct closing {
	const struct api *api;
	void *comm;
	int result;
};

static void *close_elsewhere(void *of)
{
	struct closing *c = of;
	c->result = coll_close(c->api, c->comm);
	return NULL;
}

int colls_leave(struct seat *s, const struct api *a, uint64_t *state)
{
	static float in[1000], out[1000];
	int leaver = (int)draw_below(state, (unsigned)s->world->ranks), done = 0, result = 0;
	int aborter = (leaver + 1) % s->world->ranks;
	void *comm, *request = NULL;
	if (coll_meet(s, a, s->world->ranks, s->rank, &comm))
		return -1;
	if (s->rank == leaver)
		return coll_close(a, comm);
	while (!result && !request)
		result = coll_allreduce(a, comm, in, out, 1000, FAN_NCCL_FLOAT32, FAN_NCCL_SUM,
					&request);
	if (s->rank == aborter) { /* as ncclCommAbort does, of an operation that is open */
		struct closing c = {a, comm, -1};
		pthread_t thread;
		if (pthread_create(&thread, NULL, close_elsewhere, &c) ||
		    pthread_join(thread, NULL))
			FAIL("thread");
		return c.result;
	}
	while (!result && !done && seat_has_time(s, "who has left")) {
		result = coll_test(a, request, &done, NULL);
		usleep(200);
	}
	if (result != FAN_NCCL_REMOTE_ERROR)
		FAIL("a rank has left: result %d, done %d", result, done);
	return coll_close(a, comm);
}

int colls_wait(struct seat *s, const struct api *a)
{
	static const char said[] = "nothing has moved for";
	float in[1000] = {1}, out[1000];
	uint8_t seen[FAN_NCCL_HANDLE_BYTES] = {0};
	void *comm, *request = NULL;
	const int box = seat_box(s);
	int done = 0, result = 0;
	if (coll_meet(s, a, s->world->ranks, s->rank, &comm))
		return -1;
	while (!result && !done && seat_has_time(s, "a line about a long wait")) {
		if (!request && (!s->rank || box_get(s->world, box, seen)))
			result = coll_allreduce(a, comm, in, out, 1000, FAN_NCCL_FLOAT32,
						FAN_NCCL_SUM, &request);
		if (!result && request)
			result = coll_test(a, request, &done, NULL);
		if (!s->rank && !seen[0] && strstr(last_warning, said)) {
			seen[0] = 1;
			box_put(s->world, box, seen);
		}
		usleep(10000);
	}
	if (result || !done || (!seen[0] && !s->rank) || out[0] != (float)s->world->ranks)
		FAIL("a late rank: result %d, done %d, %.0f", result, done, (double)out[0]);
	if (!s->rank && !strstr(last_warning, said))
		FAIL("not the line expected: %s", last_warning);
	return coll_close(a, comm);
}

int colls_support(const struct api *a)
{
	int yes;
	for (int type = -1; type < 14; type++)
		for (int op = -1; op < 6; op++) {
			bool want = false;
			for (unsigned i = 0; i < TYPES; i++)
				want |= types[i].type == type &&
					(op == FAN_NCCL_SUM ||
					 (!types[i].sum_only &&
					  (op == FAN_NCCL_MAX || op == FAN_NCCL_MIN)));
			if (coll_supports(a, type, op, &yes) || yes != want)
				FAIL("type %d, operation %d: %d", type, op, yes);
		}
	return 0;
}

int colls_hostile(struct seat *s, const struct api *a)
{
	uint8_t handle[2][FAN_NCCL_HANDLE_BYTES] = {{0}};
	void *handles[2] = {handle[0], handle[1]}, *listening, *comm = &comm, *request;
	float f[4] = {0};
	if (coll_listen(a, -1, handle[0], &listening) != FAN_NCCL_INVALID_ARGUMENT)
		FAIL("device -1");
	if (coll_listen(a, 0, handle[0], &listening))
		FAIL("listen");
	if (coll_connect(a, handles, 2, 0, listening, &comm) != FAN_NCCL_SYSTEM_ERROR || comm ||
	    coll_connect(a, handles, 1, 0, listening, &comm) != FAN_NCCL_SYSTEM_ERROR)
		FAIL("handles of another plug-in, or one rank");
	if (coll_close_listen(a, listening) || coll_meet(s, a, s->world->ranks, s->rank, &comm))
		return -1;
	struct fan_nccl_piece piece = {NULL, f, sizeof f};
	if (coll_allreduce(a, comm, f, f, 1, FAN_NCCL_INT8, FAN_NCCL_SUM, &request) !=
		    FAN_NCCL_INVALID_ARGUMENT ||
	    (a->version >= 8 &&
	     (coll_allgather(a, comm, f, &piece, 4, 4, 1u << 20, &request) !=
		      FAN_NCCL_INVALID_ARGUMENT ||
	      coll_reducescatter(a, comm, &piece, f, 4, 2, 4, FAN_NCCL_FLOAT32, FAN_NCCL_SUM,
				 &request) != FAN_NCCL_INVALID_ARGUMENT)))
		FAIL("out of range");
	return seat_barrier(s) ? coll_close(a, comm) : -1;
}

int colls_large(struct seat *s, const struct api *a, size_t bytes)
{
	struct plan plan = {.members = s->world->ranks, .ops = 1, .ahead = 1};
	struct team team = {.plan = &plan, .rank = s->rank};
	plan.op[0] = (struct op){.type = FAN_NCCL_FLOAT32, .bytes = bytes, .in_place = true};
	if (coll_meet(s, a, s->world->ranks, s->rank, &team.comm))
		return -1;
	while (!team.ended && seat_has_time(s, "a large sum")) {
		if (step(a, &team))
			return -1;
		usleep(100);
	}
	return team.ended ? coll_close(a, team.comm) : -1;
}

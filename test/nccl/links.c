/* SPDX-License-Identifier: Apache-2.0 */
#include "programs.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINKS_MAX  6
#define GROUPS_MAX 12
#define PIECES_MAX 8
#define AHEAD_MAX  8

struct message {
	size_t bytes, room;
	int tag;
};

/* What is to happen on a link, the same for both sides. */
struct plan {
	int from, to, box, groups, ahead, messages;
	bool given_up;
	uint64_t key;
	struct {
		int pieces;
		struct message m[PIECES_MAX];
	} group[GROUPS_MAX];
	struct {
		uint8_t group, piece;
	} order[GROUPS_MAX * PIECES_MAX]; /* in which messages are sent */
};

enum stage { MEET, MOVE, DONE };

/* One side of it. */
struct end {
	const struct plan *plan;
	bool sends, has_handle;
	enum stage stage;
	uint8_t handle[FAN_NCCL_HANDLE_BYTES];
	void *listening, *comm;
	int started, ended, polls;
	void *request[GROUPS_MAX * PIECES_MAX];
	void *data[GROUPS_MAX * PIECES_MAX];
};

void data_fill(void *to, size_t bytes, uint64_t key)
{
	uint8_t *p = to;
	uint64_t x = key | 1;
	for (size_t i = 0; i < bytes;
	     i += sizeof x, x = x * 6364136223846793005u + 1442695040888963407u)
		memcpy(p + i, &x, bytes - i < sizeof x ? bytes - i : sizeof x);
}

bool data_is(const void *at, size_t bytes, uint64_t key)
{
	const uint8_t *p = at;
	uint64_t x = key | 1;
	for (size_t i = 0; i < bytes;
	     i += sizeof x, x = x * 6364136223846793005u + 1442695040888963407u)
		if (memcmp(p + i, &x, bytes - i < sizeof x ? bytes - i : sizeof x))
			return false;
	return true;
}

int links_ring(struct seat *s, const struct api *a, void **out, void **in)
{
	uint8_t mine[FAN_NCCL_HANDLE_BYTES], next[FAN_NCCL_HANDLE_BYTES];
	void *listening;
	int first = s->next_box, to = first + (s->rank + 1) % s->world->ranks;
	bool known = false;
	s->next_box += s->world->ranks;
	if (api_listen(a, 0, mine, &listening))
		return -1;
	box_put(s->world, first + s->rank, mine);
	while (!*out || !*in) {
		known = known || box_get(s->world, to, next);
		if ((known && !*out && api_connect(a, 0, next, out)) ||
		    (!*in && api_accept(a, listening, in)) || !seat_has_time(s, "a ring"))
			return -1;
		usleep(200);
	}
	return api_close_listen(a, listening);
}

static uint64_t message_key(const struct plan *p, int group, int piece)
{
	return p->key + (uint64_t)(group * PIECES_MAX + piece) * 0x9e3779b97f4a7c15u;
}

/* ---- plans ---- */

static size_t draw_bytes(uint64_t *state, size_t most)
{
	switch (draw_below(state, 5)) {
	case 0: return 0;
	case 1: return draw_below(state, 64);
	case 2: return draw_below(state, 8192 + 3);
	case 3: return 8192 - 24 + draw_below(state, 48); /* about what is read ahead */
	default: return draw(state) % (most + 1);
	}
}

/* Messages of each run of `ahead` groups in another order; those of one tag keep theirs. */
static void draw_order(struct plan *p, uint64_t *state)
{
	for (int first = 0; first < p->groups; first += p->ahead) {
		int from = p->messages, last = first + p->ahead;
		for (int g = first; g < last && g < p->groups; g++)
			for (int k = 0; k < p->group[g].pieces; k++) {
				p->order[p->messages].group = (uint8_t)g;
				p->order[p->messages++].piece = (uint8_t)k;
			}
		for (int i = from + 1; i < p->messages; i++)
			for (int j = i; j > from && draw_below(state, 2); j--) {
				int g = p->order[j].group, k = p->order[j].piece;
				int og = p->order[j - 1].group, ok = p->order[j - 1].piece;
				if (p->group[g].m[k].tag == p->group[og].m[ok].tag)
					break;
				p->order[j - 1].group = (uint8_t)g,
					     p->order[j - 1].piece = (uint8_t)k;
				p->order[j].group = (uint8_t)og, p->order[j].piece = (uint8_t)ok;
			}
	}
}

static void draw_plan(struct plan *p, struct seat *s, uint64_t *state, size_t bytes_max)
{
	unsigned ranks = (unsigned)s->world->ranks;
	memset(p, 0, sizeof *p);
	p->from = (int)draw_below(state, ranks);
	p->to = (int)draw_below(state, ranks);
	p->groups = 1 + (int)draw_below(state, GROUPS_MAX);
	p->ahead = 1 + (int)draw_below(state, AHEAD_MAX);
	p->given_up = !draw_below(state, 6);
	p->key = draw(state);
	p->box = seat_box(s);
	for (int g = 0; g < p->groups; g++) {
		p->group[g].pieces =
			draw_below(state, 2) ? 1 : 1 + (int)draw_below(state, PIECES_MAX);
		for (int k = 0; k < p->group[g].pieces; k++) {
			struct message *m = &p->group[g].m[k];
			m->bytes = draw_bytes(state, bytes_max);
			m->room = m->bytes + (draw_below(state, 2) ? draw_below(state, 4096) : 0);
			m->tag = (int)draw_below(state, 3);
		}
	}
	draw_order(p, state);
}

/* ---- one side ---- */

static int meet(struct seat *s, const struct api *a, struct end *e)
{
	int result, devices;
	if (api_devices(a, &devices) || devices < 1)
		FAIL("no device");
	if (!e->sends && !e->listening) {
		if (api_listen(a, e->plan->box % devices, e->handle, &e->listening))
			FAIL("listen");
		box_put(s->world, e->plan->box, e->handle);
	}
	if (e->sends) {
		if (!e->has_handle && !box_get(s->world, e->plan->box, e->handle))
			return 0;
		e->has_handle = true;
		result = api_connect(a, e->plan->box % devices, e->handle, &e->comm);
	} else {
		result = api_accept(a, e->listening, &e->comm);
	}
	if (result)
		FAIL("connect or accept: %d", result);
	if (!e->comm)
		return 0;
	if (!e->sends && api_close_listen(a, e->listening))
		FAIL("close_listen");
	e->stage = MOVE;
	return 0;
}

static int close_end(const struct api *a, struct end *e)
{
	int result = e->sends ? api_close_send(a, e->comm) : api_close_recv(a, e->comm);
	for (int i = 0; i < GROUPS_MAX * PIECES_MAX; i++) {
		if (e->data[i])
			memset(e->data[i], 0, 1); /* it is the caller's again */
		free(e->data[i]);
	}
	e->stage = DONE;
	return result;
}

static int start_send(const struct api *a, struct end *e)
{
	const struct plan *p = e->plan;
	int i = e->started, g = p->order[i].group, k = p->order[i].piece;
	const struct message *m = &p->group[g].m[k];
	void *memory = NULL;
	if (!e->data[i]) {
		e->data[i] = malloc(m->bytes + 1);
		data_fill(e->data[i], m->bytes, message_key(p, g, k));
		if (i % 2 && (api_reg(a, e->comm, e->data[i], m->bytes, &memory) ||
			      api_dereg(a, e->comm, memory)))
			FAIL("reg_mr");
	}
	int result = api_isend(a, e->comm, e->data[i], m->bytes, m->tag, &e->request[i]);
	e->started += !result && e->request[i];
	return result;
}

static int test_send(const struct api *a, struct end *e)
{
	int done, size = -1, i = e->ended;
	int result = api_test(a, e->request[i], &done, &size);
	if (result || !done)
		return result;
	const struct plan *p = e->plan;
	if ((size_t)size != p->group[p->order[i].group].m[p->order[i].piece].bytes)
		FAIL("sent %d bytes", size);
	e->ended++;
	return 0;
}

static int start_recv(const struct api *a, struct end *e)
{
	int g = e->started, n = e->plan->group[g].pieces, tags[PIECES_MAX];
	void *data[PIECES_MAX];
	size_t room[PIECES_MAX];
	for (int k = 0; k < n; k++) {
		const struct message *m = &e->plan->group[g].m[k];
		void **place = &e->data[g * PIECES_MAX + k];
		if (!*place)
			*place = calloc(1, m->room + 1);
		data[k] = *place;
		room[k] = m->room;
		tags[k] = m->tag;
	}
	int result = api_irecv(a, e->comm, n, data, room, tags, &e->request[g]);
	e->started += !result && e->request[g];
	return result;
}

/* The k-th message with a tag belongs to the k-th piece with it: so each piece has its own. */
static int test_recv(const struct api *a, struct end *e)
{
	int done, sizes[PIECES_MAX], g = e->ended;
	int result = api_test(a, e->request[g], &done, sizes);
	if (result || !done)
		return result;
	for (int k = 0; k < e->plan->group[g].pieces; k++) {
		const struct message *m = &e->plan->group[g].m[k];
		if ((size_t)sizes[k] != m->bytes)
			FAIL("group %d piece %d: %d bytes in place of %zu", g, k, sizes[k],
			     m->bytes);
		if (!data_is(e->data[g * PIECES_MAX + k], m->bytes, message_key(e->plan, g, k)))
			FAIL("group %d piece %d: %zu bytes are wrong", g, k, m->bytes);
	}
	e->ended++;
	return 0;
}

static int move(const struct api *a, struct end *e)
{
	const struct plan *p = e->plan;
	int total = e->sends ? p->messages : p->groups, result = 0;
	int ahead = e->sends ? PIECES_MAX * AHEAD_MAX : p->ahead;
	/* Groups of one run are posted together: the sender changes their order. */
	if (!e->sends)
		ahead = e->ended - e->ended % p->ahead + p->ahead - e->ended;
	if (e->started < total && e->started - e->ended < ahead)
		result = e->sends ? start_send(a, e) : start_recv(a, e);
	if (!result && e->ended < e->started)
		result = e->sends ? test_send(a, e) : test_recv(a, e);
	if (p->given_up) {
		if (result && result != FAN_NCCL_REMOTE_ERROR)
			FAIL("given up: result %d", result);
		bool leaves = e->polls++ > (int)(p->key % 500) || result || e->ended == total;
		return leaves ? close_end(a, e) : 0;
	}
	if (result)
		FAIL("rank %d to %d, %s: result %d", p->from, p->to, e->sends ? "send" : "receive",
		     result);
	return e->ended == total ? close_end(a, e) : 0;
}

int links_run(struct seat *s, const struct api *a, uint64_t *state, size_t bytes_max)
{
	int count = 1 + (int)draw_below(state, LINKS_MAX), ends = 0, left = 1;
	struct plan *plan = calloc((size_t)count, sizeof *plan);
	struct end *end = calloc(2 * (size_t)count, sizeof *end);
	for (int i = 0; i < count; i++) {
		draw_plan(&plan[i], s, state, bytes_max);
		if (plan[i].from == s->rank)
			end[ends++] = (struct end){.plan = &plan[i], .sends = true};
		if (plan[i].to == s->rank)
			end[ends++] = (struct end){.plan = &plan[i]};
	}
	while (left) {
		left = 0;
		for (int i = 0; i < ends; i++) {
			struct end *e = &end[i];
			if (e->stage == MEET ? meet(s, a, e) : e->stage == MOVE && move(a, e))
				return -1;
			left += e->stage != DONE;
		}
		if (!seat_has_time(s, "a link"))
			return -1;
	}
	free(plan);
	free(end);
	return 0;
}

/* ---- what is wrong ---- */

/* A connection from address `host` of the loopback to where a handle of the plug-in says. */
static int stranger_at(const uint8_t *handle, uint32_t host)
{
	struct sockaddr_in at = {.sin_family = AF_INET}, from = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	from.sin_addr.s_addr = htonl(host);
	if (host && bind(fd, (struct sockaddr *)&from, sizeof from)) {
		perror("bind");
		exit(1);
	}
	uint32_t port;
	memcpy(&port, handle + 24, sizeof port);
	at.sin_port = htons((uint16_t)port);
	memcpy(&at.sin_addr, handle + 20, sizeof at.sin_addr); /* mapped to IPv6 */
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at)) {
		perror("connect");
		exit(1);
	}
	return fd;
}

/* As one that has read the handle would make it. */
static int stranger(const uint8_t *handle)
{
	return stranger_at(handle, 0);
}

/* Who has connected before many of another host, and says the nonce after them, is let in. */
static int slow_beside_many(struct seat *s, const struct api *a)
{
	uint8_t handle[FAN_NCCL_HANDLE_BYTES], hello[24] = {0};
	void *listening, *in = NULL;
	int many[40];
	if (api_listen(a, 0, handle, &listening))
		FAIL("listen");
	int fd = stranger(handle);
	for (unsigned i = 0; i < 40; i++) {
		many[i] = stranger_at(handle, 0x7f000009); /* 127.0.0.9 */
		if (api_accept(a, listening, &in) || in)
			FAIL("accept");
	}
	memcpy(hello, handle, 4);
	memcpy(hello + 8, handle + 32, 16);
	if (write(fd, hello, sizeof hello) != sizeof hello)
		FAIL("write");
	while (!in && seat_has_time(s, "a slow peer"))
		if (api_accept(a, listening, &in))
			FAIL("accept");
	for (unsigned i = 0; i < 40; i++)
		close(many[i]);
	close(fd);
	return !in || api_close_recv(a, in) || api_close_listen(a, listening) ? -1 : 0;
}

/* A link of this process to itself. */
static int own_link(struct seat *s, const struct api *a, uint8_t *handle, void *listening,
		    void **out, void **in)
{
	for (*out = *in = NULL; !*out || !*in;) {
		if ((!*out && api_connect(a, 0, handle, out)) ||
		    (!*in && api_accept(a, listening, in)))
			FAIL("connect or accept");
		if (!seat_has_time(s, "a link to itself"))
			return -1;
	}
	return 0;
}

/* Who knows the nonce and then sends what is no message: an error, and nothing is written. */
static int known_but_wrong(struct seat *s, const struct api *a, uint64_t *state)
{
	uint8_t handle[FAN_NCCL_HANDLE_BYTES], hello[24] = {0}, place[64] = {0}, noise[512];
	void *listening, *in = NULL, *request = NULL, *data[1] = {place};
	size_t room[1] = {sizeof place};
	int tags[1] = {0}, done = 0, result = 0;
	if (api_listen(a, 0, handle, &listening))
		FAIL("listen");
	int fd = stranger(handle);
	memcpy(hello, handle, 4);
	memcpy(hello + 8, handle + 32, 16);
	if (write(fd, hello, sizeof hello) != sizeof hello)
		FAIL("write");
	while (!in && seat_has_time(s, "a wrong peer"))
		if (api_accept(a, listening, &in))
			FAIL("accept");
	for (size_t i = 0; i < sizeof noise; i++)
		noise[i] = (uint8_t)draw(state);
	uint32_t magic = 0x4d6e6166u, number = 0, piece = draw_below(state, 12), zero = 0;
	uint64_t bytes = 65 + draw_below(state, 1000);
	if (draw_below(state, 2)) { /* a head that is nearly right */
		memcpy(noise, &magic, 4), memcpy(noise + 4, &number, 4);
		memcpy(noise + 8, &piece, 4), memcpy(noise + 12, &zero, 4);
		memcpy(noise + 16, &bytes, 8);
	}
	if (api_irecv(a, in, 1, data, room, tags, &request) || !request)
		FAIL("irecv");
	if (write(fd, noise, sizeof noise) != sizeof noise)
		FAIL("write");
	while (!result && !done && seat_has_time(s, "a wrong message"))
		result = api_test(a, request, &done, NULL);
	for (size_t i = 0; i < sizeof place; i++)
		if (place[i])
			FAIL("a wrong message was taken");
	if (result != FAN_NCCL_REMOTE_ERROR)
		FAIL("a wrong message: result %d", result);
	close(fd);
	return api_close_recv(a, in) || api_close_listen(a, listening) ? -1 : 0;
}

/* A message that is larger than its receive is an error on the side that sends it. */
static int too_large(struct seat *s, const struct api *a)
{
	uint8_t handle[FAN_NCCL_HANDLE_BYTES], small[8], large[9] = {0};
	void *listening, *out, *in, *request = NULL, *sent = NULL, *data[9] = {small};
	size_t room[9] = {sizeof small};
	int tags[9] = {7}, result = 0;
	if (api_listen(a, 0, handle, &listening) || own_link(s, a, handle, listening, &out, &in))
		FAIL("listen");
	if (api_irecv(a, in, 9, data, room, tags, &request) != FAN_NCCL_INVALID_ARGUMENT ||
	    api_isend(a, in, large, 1, 7, &sent) != FAN_NCCL_INVALID_ARGUMENT)
		FAIL("nine pieces, or a send by the receiver");
	if (api_irecv(a, in, 1, data, room, tags, &request) || !request)
		FAIL("irecv");
	while (!result && !sent && seat_has_time(s, "a large message"))
		result = api_isend(a, out, large, sizeof large, 7, &sent);
	if (result != FAN_NCCL_INVALID_USAGE)
		FAIL("9 bytes for 8: result %d", result);
	return api_close_send(a, out) || api_close_recv(a, in) || api_close_listen(a, listening)
		       ? -1
		       : 0;
}

int links_hostile(struct seat *s, const struct api *a)
{
	uint8_t handle[FAN_NCCL_HANDLE_BYTES], broken[FAN_NCCL_HANDLE_BYTES];
	void *listening, *out = NULL, *in = NULL;
	int fd[40];
	uint64_t state = 1;
	if (api_listen(a, 99, handle, &listening) != FAN_NCCL_INVALID_ARGUMENT || listening)
		FAIL("device 99");
	if (api_listen(a, 0, handle, &listening))
		FAIL("listen");
	memcpy(broken, handle, sizeof broken);
	broken[0] ^= 1;
	if (api_connect(a, 0, broken, &out) != FAN_NCCL_INVALID_ARGUMENT || out)
		FAIL("a handle of another plug-in");
	memcpy(broken, handle, sizeof broken);
	memset(broken + 48, 0x5a, 8);	    /* an attempt that is none of this process */
	for (unsigned i = 0; i < 40; i++) { /* some are silent, some speak, some are gone */
		fd[i] = stranger(handle);
		if (i % 3 && write(fd[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 28) != 28)
			FAIL("write");
		if (i % 5 == 4)
			shutdown(fd[i], SHUT_RDWR);
	}
	if (own_link(s, a, broken, listening, &out, &in))
		return -1;
	for (unsigned i = 0; i < 40; i++)
		close(fd[i]);
	if (api_close_send(a, out) || api_close_recv(a, in) || api_close_listen(a, listening))
		FAIL("close");
	for (unsigned i = 0; i < 20; i++)
		if (known_but_wrong(s, a, &state))
			return -1;
	return slow_beside_many(s, a) ? -1 : too_large(s, a);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - messages from one process to another over a TCP connection: ncclNet's point to point.
 *
 * The receiver announces each posted receive, and the sender sends what one waits for: so a
 * message never waits in front of one with another tag, and lands in its place without a copy.
 * There is no thread: calls move what can be moved and never block.  A process whose host is gone
 * is noticed by TCP after FANIN_ALIVE_MS (10000) of silence, one that has ended at once.
 *
 * On the wire, little-endian.  A receive that is posted, receiver to sender:
 *
 *     0  magic   "fanR"      8   pieces, 1 to FAN_NCCL_PIECES_MAX
 *     4  number              12  0
 *     16 for each piece: tag (4), 0 (4), its room in bytes (8)
 *
 * A message, sender to receiver, followed by its bytes:
 *
 *     0  magic   "fanM"      8   piece
 *     4  number of receive   12  0
 *                            16  bytes (8) */

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "net/lines.h"
#include "net/udp.h"
#include "plugin.h"

#define MAGIC_READY   0x526e6166u /* "fanR" */
#define MAGIC_MESSAGE 0x4d6e6166u /* "fanM" */
#define HEAD_BYTES    24
#define READY_BYTES   16
#define PIECE_BYTES   16
#define READY_MAX     (READY_BYTES + FAN_NCCL_PIECES_MAX * PIECE_BYTES)
#define STAGE_BYTES   8192	 /* read behind what was asked for */
#define TURN_BYTES    (8u << 20) /* moved in one call: the caller has other links */
#define BATCH	      8		 /* messages of one system call */
#define REQUESTS      FAN_NCCL_REQUESTS_MAX
#define CLOSE_READS   1024
#define TOLD_MIN      4 /* receives that the sender knows of, below which more are announced at once */
#define ALIVE_MS      10000
#define ALIVE_MS_MAX  86400000

struct piece {
	uint8_t *data;
	uint64_t room, bytes;
	int tag;
	bool taken; /* a message for it is under way or here */
};

struct request {
	struct fan_nccl_link *link; /* NULL: free */
	uint32_t number;	    /* of a receive; its place is number % REQUESTS */
	unsigned pieces, left;	    /* left 0: it has ended */
	uint64_t sent;		    /* of a message: bytes that are gone, its head included */
	uint8_t head[HEAD_BYTES];
	struct piece piece[FAN_NCCL_PIECES_MAX];
};

/* A receive that the peer has posted. */
struct offer {
	uint32_t number;
	unsigned pieces, left;
	struct piece piece[FAN_NCCL_PIECES_MAX];
};

struct fan_nccl_link {
	pthread_mutex_t lock; /* of all below */
	int fd;
	bool sends;
	int result; /* not FAN_NCCL_SUCCESS: broken for good */
	char peer[FAN_NCCL_PEER_BYTES];
	struct request request[REQUESTS];
	uint32_t turn[REQUESTS]; /* counts the receives that a place has had */

	/* Bytes that have arrived and were not looked at: stage[stage_at .. stage_end). */
	size_t stage_at, stage_end;
	uint8_t stage[STAGE_BYTES];

	/* For the sender. */
	uint8_t queue[REQUESTS], offered[REQUESTS]; /* places, in order */
	unsigned queue_count, offer_count;
	struct offer offer[REQUESTS];

	/* For the receiver. */
	unsigned waiting;     /* receives that have not ended: nothing is read without one */
	unsigned unsent;      /* of them the sender does not know of, as all of `out` is not sent */
	struct request *into; /* the message that arrives; NULL: none */
	unsigned into_piece;
	uint64_t into_bytes; /* that are here */
	size_t out_at, out_end;
	uint8_t out[REQUESTS * READY_MAX]; /* receives to announce */
};

static int alive_ms(void)
{
	const char *text = secure_getenv("FANIN_ALIVE_MS");
	long ms = text ? strtol(text, NULL, 10) : 0;
	return ms > 0 && ms <= ALIVE_MS_MAX ? (int)ms : ALIVE_MS;
}

struct fan_nccl_link *fan_nccl_link_new(int fd, bool sends, const fan_peer *peer)
{
	struct fan_nccl_link *l = calloc(1, sizeof *l);
	if (!l) {
		close(fd);
		return NULL;
	}
	const int ms = alive_ms(), third_s = ms / 3000 ? ms / 3000 : 1;
	pthread_mutex_init(&l->lock, NULL);
	l->fd = fd;
	l->sends = sends;
	fan_peer_text(peer, l->peer, sizeof l->peer);
	fan_lines_notice_loss(fd, third_s, third_s, 3, ms);
	return l;
}

/* ---- errors: the first one is reported, and stays ---- */

static void break_off(struct fan_nccl_link *l, int result, const char *why)
{
	if (!l->result)
		l->result =
			fan_nccl_warn(result, "%s %s: %s", l->sends ? "to" : "from", l->peer, why);
}

/* After a system call that has failed or found the end.  True: it would have blocked. */
static bool would_block(struct fan_nccl_link *l, ssize_t got)
{
	char why[128];
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return true;
	if (!got) {
		break_off(l, FAN_NCCL_REMOTE_ERROR, "the peer has closed the connection");
		return false;
	}
	snprintf(why, sizeof why, "the connection is lost: %s", strerror(errno));
	break_off(l, FAN_NCCL_REMOTE_ERROR, why);
	return false;
}

static void stranger(struct fan_nccl_link *l)
{
	break_off(l, FAN_NCCL_REMOTE_ERROR, "what has arrived is no message of this plug-in");
}

/* Make room behind the staged bytes and read there.  False: nothing came. */
static bool fill_stage(struct fan_nccl_link *l)
{
	memmove(l->stage, l->stage + l->stage_at, l->stage_end - l->stage_at);
	l->stage_end -= l->stage_at;
	l->stage_at = 0;
	assert(l->stage_end < STAGE_BYTES);
	ssize_t n = recv(l->fd, l->stage + l->stage_end, STAGE_BYTES - l->stage_end, MSG_DONTWAIT);
	if (n <= 0) {
		would_block(l, n);
		return false;
	}
	l->stage_end += (size_t)n;
	return true;
}

/* ---- the sender ---- */

/* Take one posted receive from the staged bytes.  False: it is incomplete, or wrong. */
static bool take_offer(struct fan_nccl_link *l)
{
	const uint8_t *p = l->stage + l->stage_at;
	size_t here = l->stage_end - l->stage_at;
	if (here < READY_BYTES)
		return false;
	uint32_t number = fan_get32(p + 4), pieces = fan_get32(p + 8);
	if (fan_get32(p) != MAGIC_READY || !pieces || pieces > FAN_NCCL_PIECES_MAX ||
	    fan_get32(p + 12) || l->offer[number % REQUESTS].left) {
		stranger(l);
		return false;
	}
	if (here < READY_BYTES + pieces * PIECE_BYTES)
		return false;
	struct offer *o = &l->offer[number % REQUESTS];
	memset(o, 0, sizeof *o);
	o->number = number;
	o->pieces = o->left = pieces;
	p += READY_BYTES;
	for (unsigned i = 0; i < pieces; i++, p += PIECE_BYTES) {
		o->piece[i].tag = (int)fan_get32(p);
		o->piece[i].room = fan_get64(p + 8);
	}
	l->stage_at += READY_BYTES + pieces * PIECE_BYTES;
	l->offered[l->offer_count++] = (uint8_t)(number % REQUESTS);
	return true;
}

static void read_offers(struct fan_nccl_link *l)
{
	bool more = true;
	for (;;) {
		while (!l->result && take_offer(l))
			;
		if (l->result || !more || !fill_stage(l))
			return;
		more = l->stage_end == STAGE_BYTES; /* a short read has emptied the socket */
	}
}

/* The first piece posted with this tag for which there is no message yet; NULL: none. */
static struct piece *find_piece(struct fan_nccl_link *l, int tag, struct offer **of)
{
	for (unsigned i = 0; i < l->offer_count; i++) {
		struct offer *o = &l->offer[l->offered[i]];
		for (unsigned k = 0; k < o->pieces; k++)
			if (!o->piece[k].taken && o->piece[k].tag == tag) {
				*of = o;
				return &o->piece[k];
			}
	}
	return NULL;
}

static void use_piece(struct fan_nccl_link *l, struct offer *o, struct piece *p)
{
	p->taken = true;
	if (--o->left)
		return;
	unsigned i = 0;
	while (&l->offer[l->offered[i]] != o)
		i++;
	l->offer_count--;
	memmove(l->offered + i, l->offered + i + 1, l->offer_count - i);
}

/* Account for `gone` bytes of the queue's messages. */
static void sent(struct fan_nccl_link *l, uint64_t gone)
{
	unsigned ended = 0;
	while (ended < l->queue_count) {
		struct request *r = &l->request[l->queue[ended]];
		uint64_t rest = HEAD_BYTES + r->piece[0].bytes - r->sent;
		uint64_t take = gone < rest ? gone : rest;
		r->sent += take;
		gone -= take;
		if (take < rest)
			break;
		r->left = 0;
		ended++;
	}
	l->queue_count -= ended;
	memmove(l->queue, l->queue + ended, l->queue_count);
}

static void push(struct fan_nccl_link *l)
{
	uint64_t moved = 0;
	while (l->queue_count && moved < TURN_BYTES && !l->result) {
		struct iovec v[2 * BATCH];
		struct msghdr m = {.msg_iov = v};
		uint64_t asked = 0;
		for (unsigned i = 0; i < l->queue_count && i < BATCH; i++) {
			struct request *r = &l->request[l->queue[i]];
			uint64_t head = r->sent < HEAD_BYTES ? r->sent : HEAD_BYTES;
			uint64_t body = r->sent - head;
			if (head < HEAD_BYTES)
				v[m.msg_iovlen++] =
					(struct iovec){r->head + head, HEAD_BYTES - head};
			if (r->piece[0].bytes > body)
				v[m.msg_iovlen++] = (struct iovec){r->piece[0].data + body,
								   r->piece[0].bytes - body};
			asked += HEAD_BYTES + r->piece[0].bytes - r->sent;
		}
		ssize_t n = sendmsg(l->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n <= 0) {
			would_block(l, n ? n : -1);
			return;
		}
		sent(l, (uint64_t)n);
		moved += (uint64_t)n;
		if ((uint64_t)n < asked)
			return;
	}
}

/* ---- the receiver ---- */

static void send_told(struct fan_nccl_link *l)
{
	while (l->out_at < l->out_end) {
		ssize_t n = send(l->fd, l->out + l->out_at, l->out_end - l->out_at,
				 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n <= 0) {
			would_block(l, n ? n : -1);
			return;
		}
		l->out_at += (size_t)n;
	}
	l->out_at = l->out_end = l->unsent = 0;
}

/* Announce several receives at once, as long as the sender has enough. */
static bool knows_few(const struct fan_nccl_link *l)
{
	return l->unsent && l->waiting - l->unsent < TOLD_MIN;
}

static void piece_here(struct fan_nccl_link *l)
{
	assert(l->into->left && l->waiting);
	l->waiting -= !--l->into->left;
	l->into = NULL;
}

/* Begin with the message whose head is staged.  False: it is not there whole, or it is wrong. */
static bool begin_message(struct fan_nccl_link *l)
{
	const uint8_t *p = l->stage + l->stage_at;
	if (l->stage_end - l->stage_at < HEAD_BYTES)
		return false;
	struct request *r = &l->request[fan_get32(p + 4) % REQUESTS];
	uint32_t piece = fan_get32(p + 8);
	uint64_t bytes = fan_get64(p + 16);
	if (fan_get32(p) != MAGIC_MESSAGE || fan_get32(p + 12) || !r->link ||
	    r->number != fan_get32(p + 4) || piece >= r->pieces || r->piece[piece].taken ||
	    bytes > r->piece[piece].room) {
		stranger(l);
		return false;
	}
	l->stage_at += HEAD_BYTES;
	r->piece[piece].taken = true;
	r->piece[piece].bytes = bytes;
	l->into = r;
	l->into_piece = piece;
	l->into_bytes = 0;
	if (!bytes)
		piece_here(l);
	return true;
}

/* Read more of the arriving message; stage bytes behind it.  Bytes, or 0: nothing came. */
static size_t more(struct fan_nccl_link *l)
{
	struct piece *p = &l->into->piece[l->into_piece];
	size_t rest = p->bytes - l->into_bytes, staged = l->stage_end - l->stage_at;
	size_t got = staged < rest ? staged : rest;
	if (got) {
		memcpy(p->data + l->into_bytes, l->stage + l->stage_at, got);
		l->stage_at += got;
	} else {
		struct iovec v[2] = {{p->data + l->into_bytes, rest}, {l->stage, STAGE_BYTES}};
		struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
		ssize_t n = recvmsg(l->fd, &m, MSG_DONTWAIT);
		if (n <= 0) {
			would_block(l, n);
			return 0;
		}
		got = (size_t)n < rest ? (size_t)n : rest;
		l->stage_at = 0;
		l->stage_end = (size_t)n - got;
	}
	l->into_bytes += got;
	if (l->into_bytes == p->bytes)
		piece_here(l);
	return got;
}

static bool pull(struct fan_nccl_link *l)
{
	size_t moved = 0;
	while (!l->result && l->waiting && moved < TURN_BYTES) {
		if (!l->into) {
			if (!begin_message(l) && (l->result || !fill_stage(l)))
				return moved > 0;
			continue;
		}
		size_t n = more(l);
		if (!n)
			return moved > 0;
		moved += n;
	}
	return true;
}

/* ---- for both ---- */

static struct request *free_request(struct fan_nccl_link *l)
{
	for (unsigned i = 0; i < REQUESTS; i++)
		if (!l->request[i].link)
			return &l->request[i];
	return NULL;
}

static int send_locked(struct fan_nccl_link *l, const void *data, size_t bytes, int tag,
		       void **request)
{
	struct offer *o = NULL;
	struct request *r = free_request(l);
	if (l->result || !r)
		return l->result;
	struct piece *p = find_piece(l, tag, &o);
	if (!p) {
		read_offers(l);
		if (l->result || !(p = find_piece(l, tag, &o)))
			return l->result;
	}
	if (bytes > p->room) {
		char why[128];
		snprintf(why, sizeof why, "a message of %zu bytes for a receive of %llu", bytes,
			 (unsigned long long)p->room);
		break_off(l, FAN_NCCL_INVALID_USAGE, why);
		return l->result;
	}
	memset(r, 0, sizeof *r);
	r->link = l;
	r->pieces = r->left = 1;
	r->piece[0].data = (uint8_t *)(uintptr_t)data;
	r->piece[0].bytes = bytes;
	fan_put32(r->head, MAGIC_MESSAGE);
	fan_put32(r->head + 4, o->number);
	fan_put32(r->head + 8, (uint32_t)(p - o->piece));
	fan_put64(r->head + 16, bytes);
	use_piece(l, o, p);
	l->queue[l->queue_count++] = (uint8_t)(r - l->request);
	push(l);
	*request = r;
	return FAN_NCCL_SUCCESS; /* an error is that of the request */
}

int fan_nccl_link_send(struct fan_nccl_link *l, const void *data, size_t bytes, int tag,
		       void **request)
{
	*request = NULL;
	if (!l->sends || bytes > FAN_NCCL_MESSAGE_MAX)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT,
				     "a send of %zu bytes: at most %u, and by who connects", bytes,
				     FAN_NCCL_MESSAGE_MAX);
	pthread_mutex_lock(&l->lock);
	int result = send_locked(l, data, bytes, tag, request);
	pthread_mutex_unlock(&l->lock);
	return result;
}

static int recv_locked(struct fan_nccl_link *l, int pieces, void *const *data, const size_t *room,
		       const int *tag, void **request)
{
	size_t bytes = READY_BYTES + (unsigned)pieces * PIECE_BYTES;
	struct request *r = free_request(l);
	if (l->result || !r || l->out_end + bytes > sizeof l->out)
		return l->result;
	unsigned place = (unsigned)(r - l->request);
	memset(r, 0, sizeof *r);
	r->link = l;
	r->number = l->turn[place]++ * REQUESTS + place;
	r->pieces = r->left = (unsigned)pieces;
	uint8_t *p = l->out + l->out_end;
	memset(p, 0, bytes);
	fan_put32(p, MAGIC_READY);
	fan_put32(p + 4, r->number);
	fan_put32(p + 8, r->pieces);
	p += READY_BYTES;
	for (int i = 0; i < pieces; i++, p += PIECE_BYTES) {
		r->piece[i] = (struct piece){.data = data[i], .room = room[i]};
		fan_put32(p, (uint32_t)tag[i]);
		fan_put64(p + 8, room[i]);
	}
	l->out_end += bytes;
	l->waiting++;
	l->unsent++;
	if (knows_few(l))
		send_told(l);
	*request = r;
	return FAN_NCCL_SUCCESS;
}

int fan_nccl_link_recv(struct fan_nccl_link *l, int pieces, void *const *data, const size_t *room,
		       const int *tag, void **request)
{
	bool fits = !l->sends && pieces > 0 && pieces <= FAN_NCCL_PIECES_MAX;
	*request = NULL;
	for (int i = 0; fits && i < pieces; i++)
		fits = room[i] <= FAN_NCCL_MESSAGE_MAX;
	if (!fits)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT,
				     "a receive of %d pieces: 1 to %d, of at most %u bytes, and by "
				     "who accepts",
				     pieces, FAN_NCCL_PIECES_MAX, FAN_NCCL_MESSAGE_MAX);
	pthread_mutex_lock(&l->lock);
	int result = recv_locked(l, pieces, data, room, tag, request);
	pthread_mutex_unlock(&l->lock);
	return result;
}

static void advance(struct fan_nccl_link *l)
{
	if (l->sends) {
		push(l);
		return;
	}
	/* It may wait for a tag that it does not know of: it knows all once nothing has come. */
	if (!pull(l) || knows_few(l))
		send_told(l);
}

int fan_nccl_link_test(void *request, int *done, int *sizes)
{
	struct request *r = request;
	struct fan_nccl_link *l = r->link;
	int result = FAN_NCCL_SUCCESS;
	pthread_mutex_lock(&l->lock);
	if (r->left && !l->result)
		advance(l);
	*done = !r->left;
	if (r->left)
		result = l->result;
	for (unsigned i = 0; *done && sizes && i < r->pieces; i++)
		sizes[i] = (int)r->piece[i].bytes;
	if (*done || result)
		r->link = NULL;
	pthread_mutex_unlock(&l->lock);
	return result;
}

void fan_nccl_link_close(struct fan_nccl_link *l)
{
	/* Read, since unread bytes would have the kernel drop what was sent. */
	for (unsigned i = 0; l->sends && i < CLOSE_READS; i++)
		if (recv(l->fd, l->stage, STAGE_BYTES, MSG_DONTWAIT) <= 0)
			break;
	close(l->fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

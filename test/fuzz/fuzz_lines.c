/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of a stream of lines, signed or not, and somebody between them who has no key: the input
 * says what the ends put, and what becomes of the bytes on their way.  Of signed lines each that is
 * taken is the next one that the other end has put; without that somebody all of them come.
 *
 * net/lines.c is compiled for this target with the sockets below, which are memory: an input makes
 * 10,000 calls, and the kernel's took nine tenths of the time. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "net/lines.c"

#define LINES	 512  /* that one end puts */
#define WIRE	 8192 /* bytes on their way in one direction, kept back when it is full */
#define HISTORY	 1024
#define IN_SMALL 512	     /* more than any line here, with its MAC */
#define ROUNDS	 (2 * LINES) /* until all has come: each brings a line at least */

enum { UP, DOWN, WAYS };

/* ---- sockets ---- */

#define FIRST_FD 1000 /* and three more: two pairs */
#define FDS	 4
#define INBOX	 6000 /* bytes that have been sent to one and not received */

static struct {
	uint8_t bytes[INBOX];
	size_t used;
	bool open;
} inbox[FDS];

ssize_t fuzz_send(int fd, const void *from, size_t bytes, int flags)
{
	(void)flags;
	FUZZ_CHECK(fd >= FIRST_FD && fd < FIRST_FD + FDS && inbox[fd - FIRST_FD].open);
	const int to = (fd - FIRST_FD) ^ 1;
	const size_t room = INBOX - inbox[to].used;
	if (!room) {
		errno = EAGAIN;
		return -1;
	}
	bytes = bytes < room ? bytes : room;
	memcpy(inbox[to].bytes + inbox[to].used, from, bytes);
	inbox[to].used += bytes;
	return (ssize_t)bytes;
}

ssize_t fuzz_recv(int fd, void *to, size_t bytes, int flags)
{
	(void)flags;
	FUZZ_CHECK(fd >= FIRST_FD && fd < FIRST_FD + FDS && inbox[fd - FIRST_FD].open && bytes);
	const int at = fd - FIRST_FD;
	if (!inbox[at].used) {
		errno = EAGAIN;
		return -1;
	}
	bytes = bytes < inbox[at].used ? bytes : inbox[at].used;
	memcpy(to, inbox[at].bytes, bytes);
	inbox[at].used -= bytes;
	memmove(inbox[at].bytes, inbox[at].bytes + bytes, inbox[at].used);
	return (ssize_t)bytes;
}

int fuzz_close(int fd)
{
	FUZZ_CHECK(fd >= FIRST_FD && fd < FIRST_FD + FDS && inbox[fd - FIRST_FD].open);
	inbox[fd - FIRST_FD].open = false;
	return 0;
}

int fuzz_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	(void)fd;
	(void)level;
	(void)name;
	(void)value;
	(void)bytes;
	return 0;
}

static void open_pair(int fd[2], int first)
{
	for (int i = 0; i < 2; i++) {
		fd[i] = FIRST_FD + first + i;
		inbox[first + i].open = true;
		inbox[first + i].used = 0;
	}
}

/* ---- two ends, and what is between ---- */

/* From one end to the other. */
struct way {
	struct fan_lines *from, *to;
	int out, in; /* the sockets in between: of `from`, of `to` */
	uint8_t wire[WIRE];
	size_t used;
	uint8_t passed[HISTORY]; /* the last bytes that reached `to` */
	size_t kept;
	bool spoiled; /* they are not what `from` has sent */
	uint8_t length[LINES];
	unsigned put, taken;
};

static struct fan_lines dialler, called;
static struct way way[WAYS];
static bool is_signed;

/* Line `n` of a way: each has its number, and no LF.  Copied, since each comparison of a loop here
 * would be traced. */
static void write_line(char *text, const struct way *w, unsigned n)
{
	static char chars[64 + UINT8_MAX];
	for (unsigned i = 0; !chars[sizeof chars - 1]; i++)
		chars[i] = (char)('0' + i % 64);
	memcpy(text, chars + (n * 7 + (unsigned)(w - way)) % 64, w->length[n]);
}

static void put(struct way *w, uint8_t bytes)
{
	char text[UINT8_MAX];
	if (w->put == LINES)
		return;
	w->length[w->put] = bytes;
	write_line(text, w, w->put);
	w->put += fan_lines_put(w->from, text, bytes) == 0;
}

static void take(struct way *w)
{
	char text[UINT8_MAX], *line;
	size_t bytes;
	while ((line = fan_lines_next(w->to, &bytes))) {
		FUZZ_CHECK(!memchr(line, '\n', bytes) && !line[bytes]);
		FUZZ_CHECK(bytes < w->to->in_max);
		FUZZ_CHECK(!fan_lines_trouble(w->to));
		if (w->spoiled && !is_signed)
			continue;
		FUZZ_CHECK(w->taken < w->put && bytes == w->length[w->taken]);
		write_line(text, w, w->taken);
		FUZZ_CHECK(memcmp(line, text, bytes) == 0);
		w->taken++;
	}
}

/* What has left `from` is on the wire. */
static void catch_bytes(struct way *w)
{
	ssize_t n =
		w->used < WIRE ? recv(w->out, w->wire + w->used, WIRE - w->used, MSG_DONTWAIT) : 0;
	w->used += n > 0 ? (size_t)n : 0;
}

static void turn(void)
{
	for (unsigned i = 0; i < WAYS; i++) {
		int e = fan_lines_turn(way[i].to, POLLIN | POLLOUT);
		FUZZ_CHECK(e <= 0 && (e == 0 || is_signed || way[i].spoiled));
		take(&way[i]);
	}
	for (unsigned i = 0; i < WAYS; i++)
		catch_bytes(&way[i]);
}

static void remove_bytes(struct way *w, size_t at, size_t bytes)
{
	memmove(w->wire + at, w->wire + at + bytes, w->used - at - bytes);
	w->used -= bytes;
}

static void keep(struct way *w, const uint8_t *from, size_t bytes)
{
	while (bytes) {
		const size_t at = w->kept % HISTORY;
		const size_t n = bytes < HISTORY - at ? bytes : HISTORY - at;
		memcpy(w->passed + at, from, n);
		w->kept += n;
		from += n;
		bytes -= n;
	}
}

/* The first `bytes` on the wire reach `to`. */
static void carry(struct way *w, size_t bytes)
{
	bytes = bytes && bytes < w->used ? bytes : w->used;
	ssize_t n = bytes ? send(w->in, w->wire, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
	if (n <= 0)
		return;
	keep(w, w->wire, (size_t)n);
	remove_bytes(w, 0, (size_t)n);
}

static void drop(struct way *w, size_t at, size_t bytes)
{
	if (at >= w->used || !bytes)
		return;
	remove_bytes(w, at, bytes < w->used - at ? bytes : w->used - at);
	w->spoiled = true;
}

static void insert(struct way *w, size_t at, const uint8_t *from, size_t bytes)
{
	if (!bytes || w->used + bytes > WIRE)
		return;
	at = at < w->used ? at : w->used;
	memmove(w->wire + at + bytes, w->wire + at, w->used - at);
	memcpy(w->wire + at, from, bytes);
	w->used += bytes;
	w->spoiled = true;
}

static void flip(struct way *w, size_t at, unsigned bit)
{
	if (at >= w->used)
		return;
	w->wire[at] ^= (uint8_t)(1u << bit);
	w->spoiled = true;
}

/* What went this way before, or the other way, once more. */
static void repeat(struct way *w, const struct way *of, size_t back, size_t bytes)
{
	uint8_t again[UINT8_MAX];
	size_t most = of->kept < HISTORY ? of->kept : HISTORY;
	back = back < most ? back : most;
	bytes = bytes < back ? bytes : back;
	for (size_t i = 0; i < bytes; i++)
		again[i] = of->passed[(of->kept - back + i) % HISTORY];
	insert(w, w->used, again, bytes);
}

static void step(struct fuzz *z)
{
	const uint8_t what = fuzz_8(z);
	struct way *w = &way[what & 1], *other = &way[(what >> 4 & 1) ^ (what & 1)];
	uint8_t bytes[UINT8_MAX];
	const size_t n = fuzz_8(z);
	switch (what >> 1 & 7) {
	case 0:
	case 1: put(w, (uint8_t)n); break;
	case 2: carry(w, 0); break;
	case 3: carry(w, n); break;
	case 4: flip(w, fuzz_8(z), n & 7); break;
	case 5: drop(w, fuzz_8(z), n); break;
	case 6:
		fuzz_bytes(z, bytes, n);
		insert(w, fuzz_8(z), bytes, n);
		break;
	default: repeat(w, other, fuzz_16(z) % HISTORY, n);
	}
	turn();
}

static struct way begin_way(struct fan_lines *from, struct fan_lines *to, int out, int in)
{
	return (struct way){.from = from, .to = to, .out = out, .in = in};
}

/* A nonce that is the same each time: `hex` twice a byte on the wire of `w`, where it is. */
static void fix_nonce(struct way *w, char hex)
{
	catch_bytes(w);
	FUZZ_CHECK(w->used == FAN_LINE_HELLO_CHARS + 1);
	memset(w->wire + sizeof "{\"nonce\":\"" - 1, hex, 2 * FAN_LINE_NONCE_BYTES);
}

/* Fix both nonces; that of the dialler has reached the other end, the controller's, which signs by
 * the key by which the dialler takes, and takes by that by which the dialler signs. */
static void fix_nonces(void)
{
	struct fan_line_key *k = called.key;
	uint8_t up[FAN_MAC_BYTES];
	if (!dialler.key)
		return;
	memset(dialler.key->ours, 0x11, sizeof dialler.key->ours);
	fix_nonce(&way[UP], '1');
	if (!k)
		return;
	way[UP].used = 0;
	memset(k->ours, 0x11, sizeof k->ours);
	memset(k->theirs, 0x22, sizeof k->theirs);
	fix_nonce(&way[DOWN], '2');
	make_keys(k);
	memcpy(up, k->out, sizeof up);
	memcpy(k->out, k->in, sizeof k->out);
	memcpy(k->in, up, sizeof k->in);
	k->begun = true;
}

/* `how`: 0, 1 not signed; 2 the dialler alone has a key; else both. */
static void begin(int a[2], int b[2], unsigned how, bool small)
{
	struct fan_keys one = {.count = how > 1, .key = {{2}}},
			two = {.count = how > 2, .key = {{2}}};
	is_signed = two.count;
	open_pair(a, 0);
	open_pair(b, 2);
	take_over(&dialler, a[0]);
	take_over(&called, b[0]);
	way[UP] = begin_way(&dialler, &called, a[1], b[1]);
	way[DOWN] = begin_way(&called, &dialler, b[1], a[1]);
	way[UP].spoiled = how == 2; /* with MACs, which are not expected */
	way[DOWN].spoiled = how == 2;
	FUZZ_CHECK(!fan_lines_sign(&dialler, &one) && !fan_lines_sign(&called, &two));
	fix_nonces();
	if (small)
		called.in_max = dialler.in_max = IN_SMALL;
}

static bool is_all_here(void)
{
	return way[UP].taken == way[UP].put && way[DOWN].taken == way[DOWN].put;
}

/* All that was put comes, if nobody has changed anything. */
static void end(void)
{
	if (way[UP].spoiled || way[DOWN].spoiled)
		return;
	for (unsigned i = 0; i < ROUNDS && !is_all_here(); i++) {
		carry(&way[UP], 0);
		carry(&way[DOWN], 0);
		turn();
	}
	FUZZ_CHECK(is_all_here());
	FUZZ_CHECK(!fan_lines_trouble(&dialler) && !fan_lines_trouble(&called));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = {data, size};
	int a[2], b[2];
	const uint8_t first = fuzz_8(&z);
	begin(a, b, first & 3, first & 4);
	while (z.left)
		step(&z);
	end();
	fan_lines_close(&dialler);
	fan_lines_close(&called);
	close(a[1]);
	close(b[1]);
	return 0;
}

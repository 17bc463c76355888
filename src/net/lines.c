/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "seal/cipher.h"

/* ---- keys ---- */

#define BEFORE_NONCE "{\"nonce\":\""
#define AFTER_NONCE  "\"}"
#define SIGNED_BYTES 16 /* of the MAC */
#define MAC_CHARS    33 /* of a MAC and the space behind it */

_Static_assert(sizeof BEFORE_NONCE - 1 + 2 * FAN_LINE_NONCE_BYTES + sizeof AFTER_NONCE - 1 ==
		       FAN_LINE_HELLO_CHARS,
	       "the line with a nonce");

enum verdict {
	GOOD,  /* the text stands behind MAC_CHARS */
	BEGUN, /* a nonce; the caller ignores it */
	BAD,   /* not signed, by another key, or not the line that is due */
};

static void put_hex(char *to, const uint8_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		to[2 * i] = "0123456789abcdef"[from[i] >> 4];
		to[2 * i + 1] = "0123456789abcdef"[from[i] & 15];
	}
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool get_hex(uint8_t *to, const char *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		int high = digit(from[2 * i]), low = digit(from[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		to[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* Begin.  False: there are no random numbers. */
static bool key_init(struct fan_line_key *k, const struct fan_cipher *c,
		     const struct fan_keys *keys)
{
	assert(keys->count > 0);
	memset(k, 0, sizeof *k);
	k->cipher = c;
	memcpy(k->key, keys->key[0], sizeof k->key);
	return c->random(k->ours, sizeof k->ours);
}

/* The line that has our nonce, without an LF, and a zero behind it. */
static void put_hello(const struct fan_line_key *k, char text[FAN_LINE_HELLO_CHARS + 1])
{
	memcpy(text, BEFORE_NONCE, sizeof BEFORE_NONCE - 1);
	put_hex(text + sizeof BEFORE_NONCE - 1, k->ours, sizeof k->ours);
	memcpy(text + FAN_LINE_HELLO_CHARS - (sizeof AFTER_NONCE - 1), AFTER_NONCE,
	       sizeof AFTER_NONCE);
}

/* Derive the keys of both directions. */
static void make_keys(struct fan_line_key *k)
{
	static const char up[] = "fanin lines up", down[] = "fanin lines down";
	uint8_t salt[2 * FAN_LINE_NONCE_BYTES];
	memcpy(salt, k->ours, FAN_LINE_NONCE_BYTES);
	memcpy(salt + FAN_LINE_NONCE_BYTES, k->theirs, FAN_LINE_NONCE_BYTES);
	fan_hkdf(k->cipher, k->out, FAN_MAC_BYTES, salt, sizeof salt, k->key, FAN_KEY_BYTES,
		 (const uint8_t *)up, sizeof up - 1);
	fan_hkdf(k->cipher, k->in, FAN_MAC_BYTES, salt, sizeof salt, k->key, FAN_KEY_BYTES,
		 (const uint8_t *)down, sizeof down - 1);
}

static void mac_of(const struct fan_line_key *k, uint8_t mac[FAN_MAC_BYTES], const uint8_t *key,
		   uint64_t number, const char *text, size_t bytes)
{
	uint8_t whole[8 + FAN_MAC_BYTES];
	fan_put64(whole, number);
	k->cipher->mac(whole + 8, key, FAN_MAC_BYTES, (const uint8_t *)text, bytes);
	k->cipher->mac(mac, key, FAN_MAC_BYTES, whole, sizeof whole);
}

/* The MAC and the space of the next line to be sent. */
static void key_sign(struct fan_line_key *k, char mac[MAC_CHARS], const char *text, size_t bytes)
{
	assert(k->begun);
	uint8_t whole[FAN_MAC_BYTES];
	mac_of(k, whole, k->out, k->signed_lines++, text, bytes);
	put_hex(mac, whole, SIGNED_BYTES);
	mac[2 * SIGNED_BYTES] = ' ';
}

static enum verdict take_nonce(struct fan_line_key *k, const char *line, size_t bytes)
{
	assert(!k->begun);
	const char *nonce = line + sizeof BEFORE_NONCE - 1;
	if (bytes != FAN_LINE_HELLO_CHARS ||
	    memcmp(line, BEFORE_NONCE, sizeof BEFORE_NONCE - 1) != 0 ||
	    !get_hex(k->theirs, nonce, sizeof k->theirs) ||
	    memcmp(nonce + 2 * sizeof k->theirs, AFTER_NONCE, sizeof AFTER_NONCE - 1) != 0)
		return BAD;
	k->begun = true;
	make_keys(k);
	return BEGUN;
}

static bool is_right(const struct fan_line_key *k, const uint8_t *mac, const char *text,
		     size_t bytes)
{
	uint8_t whole[FAN_MAC_BYTES], differs = 0;
	mac_of(k, whole, k->in, k->taken, text, bytes);
	for (unsigned i = 0; i < SIGNED_BYTES; i++) /* in the same time for all */
		differs |= whole[i] ^ mac[i];
	return !differs;
}

/* A line has come. */
static enum verdict key_take(struct fan_line_key *k, const char *line, size_t bytes)
{
	uint8_t mac[SIGNED_BYTES];
	if (!k->begun)
		return take_nonce(k, line, bytes);
	if (bytes < MAC_CHARS || line[MAC_CHARS - 1] != ' ' || !get_hex(mac, line, sizeof mac))
		return BAD;
	if (!is_right(k, mac, line + MAC_CHARS, bytes - MAC_CHARS))
		return BAD;
	k->taken++;
	return GOOD;
}

#define FIRST_BYTES 4096
#define IDLE_S	    5  /* of silence before TCP probes the other host */
#define READS_MAX   16 /* receives of one turn, so that others get theirs */

void fan_lines_notice_loss(int fd, int idle_s, int each_s, int probes, int unacked_ms)
{
	const int values[][3] = {
		{SOL_SOCKET, SO_KEEPALIVE, 1},	     {IPPROTO_TCP, TCP_NODELAY, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, idle_s}, {IPPROTO_TCP, TCP_KEEPINTVL, each_s},
		{IPPROTO_TCP, TCP_KEEPCNT, probes},  {IPPROTO_TCP, TCP_USER_TIMEOUT, unacked_ms},
	};
	/* They fail for a Unix socket, which needs none. */
	for (unsigned i = 0; i < sizeof values / sizeof values[0]; i++)
		(void)setsockopt(fd, values[i][0], values[i][1], &values[i][2], sizeof(int));
}

/* Take over the non-blocking socket `fd`. */
static void take_over(struct fan_lines *l, int fd)
{
	assert(fd >= 0);
	memset(l, 0, sizeof *l);
	l->fd = fd;
	l->in_max = FAN_LINE_IN_MAX;
	fan_lines_notice_loss(fd, IDLE_S, 1, IDLE_S, 2 * IDLE_S * 1000);
}

int fan_lines_dial(struct fan_lines *l, const fan_peer *to)
{
	struct sockaddr_storage ss;
	int family = fan_peer_family(to);
	socklen_t bytes = fan_peer_to_sockaddr(to, family, &ss);
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	memset(l, 0, sizeof *l);
	l->fd = -1;
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&ss, bytes) && errno != EINPROGRESS) {
		int e = -errno;
		close(fd);
		return e;
	}
	take_over(l, fd);
	l->connecting = true;
	return 0;
}

void fan_lines_close(struct fan_lines *l)
{
	if (l->fd >= 0)
		close(l->fd);
	free(l->in);
	free(l->out);
	free(l->held);
	if (l->key)
		explicit_bzero(l->key, sizeof *l->key);
	free(l->key);
	memset(l, 0, sizeof *l);
	l->fd = -1;
}

short fan_lines_events(const struct fan_lines *l)
{
	if (l->fd < 0)
		return 0;
	return (short)(POLLIN | (l->connecting || l->out_sent < l->out_used ? POLLOUT : 0));
}

/* Room for at least one more byte, at most `most` altogether. */
static bool grow(char **buffer, size_t *room, size_t need, size_t most)
{
	size_t more = *room ? *room : FIRST_BYTES;
	if (need > most)
		return false;
	while (more < need)
		more *= 2;
	if (more == *room)
		return true;
	char *moved = realloc(*buffer, more);
	if (!moved)
		return false;
	*buffer = moved;
	*room = more;
	return true;
}

static int flush(struct fan_lines *l)
{
	while (l->out_sent < l->out_used) {
		ssize_t n =
			send(l->fd, l->out + l->out_sent, l->out_used - l->out_sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
		l->out_sent += (size_t)n;
	}
	l->out_sent = l->out_used = 0;
	return 0;
}

/* Lines that were taken make room. */
static void shift(struct fan_lines *l)
{
	assert(l->in_taken <= l->in_used);
	memmove(l->in, l->in + l->in_taken, l->in_used - l->in_taken);
	l->in_used -= l->in_taken;
	l->in_seen -= l->in_taken;
	l->in_taken = 0;
}

static int receive(struct fan_lines *l)
{
	for (unsigned i = 0; i < READS_MAX; i++) {
		if (l->in_taken)
			shift(l);
		if (l->in_used >= l->in_max)
			return memchr(l->in, '\n', l->in_used) ? 0 : -EMSGSIZE;
		if (l->in_used == l->in_room &&
		    !grow(&l->in, &l->in_room, l->in_used + 1, FAN_LINE_IN_MAX))
			return -ENOMEM;
		size_t room = l->in_room < l->in_max ? l->in_room : l->in_max;
		ssize_t n = recv(l->fd, l->in + l->in_used, room - l->in_used, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
		if (n == 0)
			return -ECONNRESET;
		l->in_used += (size_t)n;
	}
	return 0;
}

int fan_lines_turn(struct fan_lines *l, short revents)
{
	int e = 0;
	socklen_t bytes = sizeof e;
	if (l->fd < 0)
		return -EPIPE;
	if (l->unsigned_came)
		return -EKEYREJECTED;
	if (l->connecting) {
		if (!(revents & (POLLOUT | POLLERR | POLLHUP)))
			return 0;
		if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &e, &bytes) || e)
			return e ? -e : -errno;
		l->connecting = false;
	}
	e = revents & (POLLIN | POLLERR | POLLHUP) ? receive(l) : 0;
	return e ? e : flush(l);
}

/* The next whole line, as it came. */
static char *next_line(struct fan_lines *l, size_t *bytes)
{
	assert(l->in_taken <= l->in_used);
	if (l->in_seen < l->in_taken)
		l->in_seen = l->in_taken;
	char *end = l->in_seen < l->in_used
			    ? memchr(l->in + l->in_seen, '\n', l->in_used - l->in_seen)
			    : NULL;
	if (!end) {
		l->in_seen = l->in_used;
		return NULL;
	}
	char *line = l->in + l->in_taken;
	*end = '\0';
	*bytes = (size_t)(end - line);
	l->in_seen = l->in_taken = (size_t)(end - l->in) + 1;
	return line;
}

/* Append to the output, or to the lines that wait to be signed. */
static bool append(char **to, size_t *room, size_t *used, const char *text, size_t bytes)
{
	if (!grow(to, room, *used + bytes, FAN_LINES_OUT_MAX))
		return false;
	memcpy(*to + *used, text, bytes);
	*used += bytes;
	return true;
}

/* Send `before`, `text` and an LF. */
static int put_line(struct fan_lines *l, const char *before, size_t before_bytes, const char *text,
		    size_t bytes)
{
	const size_t whole = before_bytes + bytes + 1;
	if (l->out_sent && l->out_used + whole > l->out_room) {
		memmove(l->out, l->out + l->out_sent, l->out_used - l->out_sent);
		l->out_used -= l->out_sent;
		l->out_sent = 0;
	}
	if (!grow(&l->out, &l->out_room, l->out_used + whole, FAN_LINES_OUT_MAX))
		return -ENOBUFS;
	append(&l->out, &l->out_room, &l->out_used, before, before_bytes);
	append(&l->out, &l->out_room, &l->out_used, text, bytes);
	append(&l->out, &l->out_room, &l->out_used, "\n", 1);
	return l->connecting ? 0 : flush(l);
}

/* ---- signed ---- */

int fan_lines_sign(struct fan_lines *l, const struct fan_keys *keys)
{
	char text[FAN_LINE_HELLO_CHARS + 1];
	assert(!l->key);
	if (!keys->count)
		return 0;
	l->key = malloc(sizeof *l->key);
	if (!l->key || !key_init(l->key, fan_cipher_gcrypt(), keys))
		return -ENOMEM;
	put_hello(l->key, text);
	return put_line(l, "", 0, text, FAN_LINE_HELLO_CHARS);
}

int fan_lines_trouble(const struct fan_lines *l)
{
	return l->unsigned_came ? -EKEYREJECTED : 0;
}

static int put_signed(struct fan_lines *l, const char *text, size_t bytes)
{
	assert(l->key);
	char mac[MAC_CHARS];
	key_sign(l->key, mac, text, bytes);
	return put_line(l, mac, sizeof mac, text, bytes);
}

/* Put the lines that came before they could be signed. */
static int put_held(struct fan_lines *l)
{
	assert(l->key && l->key->begun);
	int e = 0;
	char *at = l->held, *end;
	for (; at && !e && at < l->held + l->held_used; at = end + 1) {
		end = memchr(at, '\n', (size_t)(l->held + l->held_used - at));
		e = put_signed(l, at, (size_t)(end - at));
	}
	free(l->held);
	l->held = NULL;
	l->held_room = l->held_used = 0;
	return e;
}

/* Return the next signed line; NULL: there is none, or the stream is of no use. */
static char *next_signed(struct fan_lines *l, size_t *bytes)
{
	char *line = NULL;
	while (!l->unsigned_came && (line = next_line(l, bytes))) {
		enum verdict v = key_take(l->key, line, *bytes);
		l->unsigned_came = v == BAD;
		if (v == BEGUN)
			(void)put_held(l);
		if (v == GOOD)
			break;
		line = NULL;
	}
	if (!line)
		return NULL;
	*bytes -= MAC_CHARS;
	return line + MAC_CHARS;
}

char *fan_lines_next(struct fan_lines *l, size_t *bytes)
{
	return l->key ? next_signed(l, bytes) : next_line(l, bytes);
}

int fan_lines_put(struct fan_lines *l, const char *text, size_t bytes)
{
	if (l->fd < 0 || l->unsigned_came)
		return -EPIPE;
	if (!l->key)
		return put_line(l, "", 0, text, bytes);
	if (l->key->begun)
		return put_signed(l, text, bytes);
	return append(&l->held, &l->held_room, &l->held_used, text, bytes) &&
			       append(&l->held, &l->held_room, &l->held_used, "\n", 1)
		       ? 0
		       : -ENOBUFS;
}

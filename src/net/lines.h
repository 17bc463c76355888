/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - a stream socket that carries lines: one JSON object each, ended by LF.
 *
 * For controllers, daemons and workers (doc/controller.md).  Non-blocking; the caller polls.  Input
 * is bounded: a line that is too long, and a peer that does not read, end the stream. */
#ifndef FAN_LINES_H
#define FAN_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "seal/key_file.h"
#include "udp.h"

#define FAN_LINE_IN_MAX	  (1u << 20) /* bytes of a line, its LF included */
#define FAN_LINES_OUT_MAX (8u << 20) /* bytes that wait to be sent */

struct fan_lines {
	int fd; /* -1: closed */
	bool connecting;
	size_t in_max; /* bytes of a line: FAN_LINE_IN_MAX, unless the caller sets less */
	char *in, *out;
	size_t in_room, in_used; /* capacity and bytes of `in` */
	size_t in_taken;	 /* bytes that fan_lines_next has returned */
	size_t in_seen;		 /* bytes searched for an LF */
	size_t out_room, out_used, out_sent;
	struct fan_line_key *key; /* NULL: lines are not signed */
	char *held;		  /* lines that wait to be signed, each with its LF */
	size_t held_room, held_used;
	bool unsigned_came; /* the stream has ended: a line was not signed, or wrongly */
};

/* Send small segments of TCP at once, and notice a peer that has vanished: by `probes`, `each_s`
 * apart, after `idle_s` of silence, or by data unacknowledged for `unacked_ms`. */
void fan_lines_notice_loss(int fd, int idle_s, int each_s, int probes, int unacked_ms);

/* Begin to connect to `to`.  0, or -errno: closed. */
int fan_lines_dial(struct fan_lines *l, const fan_peer *to);
void fan_lines_close(struct fan_lines *l);

/* Sign all lines with the first of `keys` (below), if there are any, and take only signed ones.
 * Call it before the first line.  0, or -errno. */
int fan_lines_sign(struct fan_lines *l, const struct fan_keys *keys);

/* 0, or -EKEYREJECTED: a line was not signed as it has to be; nothing of the stream counts. */
int fan_lines_trouble(const struct fan_lines *l);

/* Events to poll for: POLLIN, and POLLOUT if there is output.  0: closed. */
short fan_lines_events(const struct fan_lines *l);

/* Handle `revents` of poll: connect, send and receive without blocking.  0, or -errno: the stream
 * has ended (-ECONNRESET: closed by the peer; -EMSGSIZE: a line is too long), but received lines
 * can still be taken. */
int fan_lines_turn(struct fan_lines *l, short revents);

/* The next complete line, ended by a zero in place of its LF, valid until the next turn; NULL:
 * none. It may contain zeros: its length is `*bytes`. */
char *fan_lines_next(struct fan_lines *l, size_t *bytes);

/* Send `bytes` at `text` and an LF, at once or later.  0, or -errno: -ENOBUFS: too much output
 * waits; -EPIPE and others of send: the stream has ended. */
int fan_lines_put(struct fan_lines *l, const char *text, size_t bytes);

/* Signed lines: without the key nobody can write or change one.  The controller's end is
 * python/fanin/operate/controller/sign.py, which accepts any of several keys.
 *
 *     > {"nonce":"32 hexadecimal digits"}        this end, which dials
 *     < {"nonce":"32 hexadecimal digits"}
 *     > MAC {"hello":"switch",...}               from now on each line, in both directions
 *
 * Each direction has a key of its own, HKDF(the shared one, "fanin lines up" or "down") with both
 * nonces, the dialler's first, as salt.  MAC is the first 16 bytes, as hexadecimal digits, of
 * HMAC-SHA-256(that key, the number of the line, 8 bytes, least first, and HMAC-SHA-256(that key,
 * the line)).  So a line can be neither replayed, nor redirected, nor left out.  Lines are not
 * encrypted. */

#define FAN_LINE_NONCE_BYTES 16
#define FAN_LINE_HELLO_CHARS 44 /* of a line with a nonce, without its LF */

struct fan_line_key {
	const struct fan_cipher *cipher;
	uint8_t key[FAN_KEY_BYTES]; /* the shared one */
	bool begun;		    /* both nonces are known */
	uint8_t ours[FAN_LINE_NONCE_BYTES], theirs[FAN_LINE_NONCE_BYTES];
	uint8_t in[FAN_MAC_BYTES], out[FAN_MAC_BYTES];
	uint64_t taken, signed_lines;
};

#endif

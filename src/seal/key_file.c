/* SPDX-License-Identifier: Apache-2.0 */
#include "key_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file/file.h"

#define HEX_BYTES    (2 * FAN_KEY_BYTES)
#define BASE64_BYTES 44
#define NOT_A_DIGIT  64

static unsigned hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : NOT_A_DIGIT;
}

static unsigned base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0') + 52;
	return c == '+' ? 62 : c == '/' ? 63 : NOT_A_DIGIT;
}

static bool read_hex(uint8_t *key, const char *text)
{
	for (unsigned i = 0; i < FAN_KEY_BYTES; i++) {
		unsigned high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
		if (high == NOT_A_DIGIT || low == NOT_A_DIGIT)
			return false;
		key[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* 43 digits of 6 bits, of which the last 2 are 0, and one '='. */
static bool read_base64(uint8_t *key, const char *text)
{
	uint32_t bits = 0;
	unsigned have = 0, n = 0;
	for (unsigned i = 0; i < BASE64_BYTES - 1; i++) {
		unsigned digit = base64_digit(text[i]);
		if (digit == NOT_A_DIGIT)
			return false;
		bits = (bits << 6 | digit) & 0xffff;
		have += 6;
		if (have >= 8)
			key[n++] = (uint8_t)(bits >> (have -= 8));
	}
	return text[BASE64_BYTES - 1] == '=' && !(bits & 3);
}

/* One line.  False: it is no key. */
static bool read_key(uint8_t *key, const char *line, size_t length)
{
	static const uint8_t zeros[FAN_KEY_BYTES];
	bool read = (length == HEX_BYTES && read_hex(key, line)) ||
		    (length == BASE64_BYTES && read_base64(key, line));
	return read && memcmp(key, zeros, sizeof zeros) != 0;
}

int fan_key_text_read(struct fan_keys *k, const char *text, size_t length, const char *path,
		      char *why, size_t bytes)
{
	unsigned number = 0;
	k->count = 0;
	for (size_t at = 0; at < length;) {
		const char *line = text + at, *end = memchr(line, '\n', length - at);
		size_t n = end ? (size_t)(end - line) : length - at;
		at += n + 1;
		number++;
		while (n && (line[n - 1] == '\r' || line[n - 1] == ' '))
			n--;
		if (!n || *line == '#')
			continue;
		if (k->count == FAN_KEYS_MAX) {
			snprintf(why, bytes, "%.200s:%u: expected at most %d keys", path, number,
				 FAN_KEYS_MAX);
			return -1;
		}
		if (!read_key(k->key[k->count++], line, n)) {
			snprintf(
				why, bytes,
				"%.200s:%u: %zu characters: expected a key of %d hexadecimal digits "
				"or %d characters of base64, not all zero; `fanin key new` makes one",
				path, number, n, HEX_BYTES, BASE64_BYTES);
			return -1;
		}
	}
	if (k->count)
		return 0;
	snprintf(why, bytes, "%.200s: there is no key in it; `fanin key new` makes one", path);
	return -1;
}

int fan_key_file_read(struct fan_keys *k, const char *path, char *why, size_t bytes)
{
	char text[FAN_KEY_FILE_BYTES_MAX + 1];
	int fd = fan_file_open(path, FAN_FILE_KEY, why, bytes), e = 0;
	k->count = 0;
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, text, sizeof text);
	if (n < 0 || n > FAN_KEY_FILE_BYTES_MAX) {
		snprintf(why, bytes, "%.200s: %s", path,
			 n < 0 ? strerror(errno) : "expected a file of at most 4096 bytes");
		e = -1;
	}
	close(fd);
	if (!e)
		e = fan_key_text_read(k, text, (size_t)n, path, why, bytes);
	explicit_bzero(text, sizeof text);
	return e;
}

void fan_key_text(char text[FAN_KEY_TEXT_BYTES], const uint8_t key[FAN_KEY_BYTES])
{
	for (unsigned i = 0; i < FAN_KEY_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", key[i]);
}

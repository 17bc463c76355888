/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - texts that people read: put together within a bound, escaped where others wrote them;
 * and the word that somebody who misspelt one may have meant. */
#ifndef FAN_FILE_TEXT_H
#define FAN_FILE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* A text in an array of `bytes` bytes, at least one, of which `used` are; a zero follows them. What
 * has no room is cut off. */
struct fan_text {
	char *at;
	size_t bytes, used;
};

/* The empty text in `at`. */
struct fan_text fan_text_in(char *at, size_t bytes);

/* Append.  escaped: `bytes` bytes at `value`, with `"`, `\` and all but printable ASCII escaped, so
 * that different values stay different, and a terminal obeys none; quoted: ` key="value"`, the
 * value escaped. */
void fan_text_add(struct fan_text *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void fan_text_vadd(struct fan_text *t, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
void fan_text_escaped(struct fan_text *t, const char *value, size_t bytes);
void fan_text_quoted(struct fan_text *t, const char *key, const char *value, size_t bytes);

/* Make a message one line of valid UTF-8 without control characters, each wrong byte a "?": it may
 * quote a file or the network, and have been cut. */
void fan_text_plain(char *text);

#define FAN_TEXT_WORD_MAX 64 /* bytes; longer ones are like no other */

/* The word most like `word` in a list that ends with NULL: by the letters to put in, take out,
 * change, or swap with the next one.  NULL: none is like it. */
const char *fan_text_nearest(const char *word, const char *const *words);

/* The same of at most `edits_max` letters. */
const char *fan_text_within(const char *word, const char *const *words, size_t edits_max);

#endif

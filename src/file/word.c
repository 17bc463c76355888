/* SPDX-License-Identifier: Apache-2.0 */
#include "word.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many letters have to change; SIZE_MAX: more than can be told. */
static size_t edits(const char *a, const char *b)
{
	size_t row[3][FAN_WORD_MAX + 1], n = strlen(a), m = strlen(b);

	if (n > FAN_WORD_MAX || m > FAN_WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *now = row[i % 3], *last = row[(i - 1) % 3], *before = row[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t least = last[j - 1] + (a[i - 1] != b[j - 1]);
			least = last[j] + 1 < least ? last[j] + 1 : least;
			least = now[j - 1] + 1 < least ? now[j - 1] + 1 : least;
			bool swapped =
				i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
			if (swapped && before[j - 2] + 1 < least)
				least = before[j - 2] + 1;
			now[j] = least;
		}
	}
	return row[n % 3][m];
}

const char *fan_word_nearest(const char *word, const char *const *words)
{
	const char *best = NULL;
	size_t least = strlen(word) / 3 + 2;

	for (; *words; words++) {
		size_t n = edits(word, *words);
		if (n < least) {
			least = n;
			best = *words;
		}
	}
	return best;
}

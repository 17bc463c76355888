/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_file.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/option.h"

/* The last error of files that somebody asked for, and of the status file, which nobody did. */
static struct error {
	char text[FAN_RANK_FILE_BYTES];
	_Atomic int state;
} of_wanted, of_status;

enum { NONE, BEING_WRITTEN, WRITTEN }; /* of an error */

void fan_rank_file_fail(const char *variable, const char *why)
{
	struct error *e = strcmp(variable, FAN_RANK_FILE_STATUS) ? &of_wanted : &of_status;
	int none = NONE;

	if (!atomic_compare_exchange_strong(&e->state, &none, BEING_WRITTEN))
		return;
	snprintf(e->text, sizeof e->text, "%s: %s", variable, why);
	atomic_store(&e->state, WRITTEN);
}

const char *fan_rank_file_error(void)
{
	if (atomic_load(&of_wanted.state) == WRITTEN)
		return of_wanted.text;
	return atomic_load(&of_status.state) == WRITTEN ? of_status.text : "";
}

const char *fan_rank_file_pattern(const char *variable)
{
	return fan_option_variable(variable);
}

/* Append a job's name or a number, with "_" for what must not be in a file's name. */
static size_t put_safe(char *path, size_t used, size_t bytes, const char *text)
{
	for (; *text && used + 1 < bytes; text++)
		path[used++] = (char)(*text == '/' || *text == '.' ? '_' : *text);
	return used;
}

bool fan_rank_file(char *path, size_t bytes, const char *pattern, const char *job, int rank)
{
	char number[16], dashed[20];
	size_t used = 0;
	const char *dot = strrchr(pattern, '.'), *slash = strrchr(pattern, '/');
	const char *insert = dot && (!slash || dot > slash) ? dot : pattern + strlen(pattern);

	assert(bytes > 0);
	snprintf(number, sizeof number, "%d", rank);
	snprintf(dashed, sizeof dashed, "-%d", rank);
	if (strstr(pattern, "%r"))
		insert = NULL;
	for (const char *p = pattern;; p++) {
		if (p == insert)
			used = put_safe(path, used, bytes, dashed);
		if (!*p || used + 1 >= bytes)
			break;
		if (*p != '%' || !strchr("rj%", p[1]) || !p[1]) {
			path[used++] = *p;
			continue;
		}
		p++;
		used = put_safe(path, used, bytes, *p == 'r' ? number : *p == 'j' ? job : "%");
	}
	path[used] = '\0';
	return used + 1 < bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "file/file.h"
#include "plan/network.h"
#include "plan/topo_json.h"
#include "plan/topo_make.h"

#define FILE_BYTES_MAX (256u << 20)

const char *plan_take_topology(const struct args_command *c, int *argc, char **argv)
{
	for (int i = 1; i < *argc; i++) {
		if (argv[i][0] == '-' && argv[i][1]) {
			i += args_takes_next(c, argv[i]) > 0;
			continue;
		}
		const char *found = argv[i];
		memmove(&argv[i], &argv[i + 1], (size_t)(*argc - i) * sizeof *argv);
		(*argc)--;
		return found;
	}
	return NULL;
}

/* Read a whole file, which the caller frees; NULL, with `why`. */
static char *read_file(const char *path, size_t *bytes, struct fan_why *why)
{
	char what[256];
	FILE *f = fan_file_stream(path, FAN_FILE_INPUT, what, sizeof what);
	char *text = NULL;
	size_t room = 0;

	*bytes = 0;
	errno = 0;
	while (f && !ferror(f) && !feof(f) && *bytes < FILE_BYTES_MAX) {
		if (*bytes == room) {
			room = room ? room * 2 : 65536;
			char *more = realloc(text, room);
			if (!more)
				break;
			text = more;
		}
		*bytes += fread(text + *bytes, 1, room - *bytes, f);
	}
	if (!f) {
		fan_why_set(why, FAN_E_SYSTEM, "%s",
			    strrchr(what, ':') + 2); /* the caller names the file */
	} else if (ferror(f) || !feof(f)) {
		fan_why_set(why, FAN_E_SYSTEM, "%s", errno ? strerror(errno) : "too large");
		free(text);
		text = NULL;
	}
	if (f)
		fclose(f);
	return text;
}

json_t *plan_read_json(const char *path, struct fan_why *why)
{
	size_t bytes;
	char *text = read_file(path, &bytes, why);
	json_t *root = text ? fan_json_parse(text, bytes, why) : NULL;

	free(text);
	return root;
}

int plan_load(struct fan_topo *t, const char *from, const struct fan_attach *attach,
	      struct fan_why *why)
{
	struct fan_make m;
	size_t bytes;

	if (fan_network_is_made(from)) {
		if (attach)
			return fan_why_set(why, FAN_E_CONFIG,
					   "--attach: it is made with hosts already");
		int err = fan_make_parse(&m, from, why);
		return err ? err : fan_make(t, &m, why);
	}
	char *text = read_file(from, &bytes, why);
	if (!text)
		return FAN_E_SYSTEM;
	json_t *root = fan_topo_text(text, bytes, why);
	int err = root ? fan_topo_from_json_attach(t, root, attach, why) : FAN_E_CONFIG;
	json_decref(root);
	free(text);
	return err;
}

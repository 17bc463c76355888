/* SPDX-License-Identifier: Apache-2.0 */
/* research.c - subcommands that Python does: the package fanin.research, which lies beside the
 * program.  Options are read here, from all their sources, and handed on as flags. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cmd.h"

#define PYTHON	   "python3"
#define FIXED_MAX  8 /* arguments before the flags, and the zero */
#define MEMBER(as) (*(const as *)((const char *)values + o->at))

/* In a build folder, an installed program, a wheel. */
static const char *const places[] = {"python/fanin/research/__main__.py",
				     "../libexec/fanin/research/__main__.py",
				     "../research/__main__.py", NULL};

static char *flag(const char *name, const char *value)
{
	char *text;

	if (asprintf(&text, "--%s%s%s", name, value ? "=" : "", value ? value : "") >= 0)
		return text;
	fprintf(stderr, "fanin: out of memory\n");
	exit(1);
}

/* Add option `o` as it is in `values` to the flags at `to`.  Returns how many it is. */
static unsigned add(char **to, const struct args_option *o, const void *values)
{
	char number[32];

	switch (o->kind) {
	case ARGS_FLAG:
		if (MEMBER(bool))
			to[0] = flag(o->name, NULL);
		return MEMBER(bool);
	case ARGS_NUMBER:
		snprintf(number, sizeof number, "%d", MEMBER(int));
		to[0] = flag(o->name, number);
		return 1;
	case ARGS_MANY:
		for (unsigned i = 0; i < MEMBER(struct args_many).count; i++)
			to[i] = flag(o->name, MEMBER(struct args_many).text[i]);
		return MEMBER(struct args_many).count;
	default:
		if (MEMBER(char))
			to[0] = flag(o->name, &MEMBER(char));
		return MEMBER(char) != '\0';
	}
}

int args_research(const struct args_command *c, const void *values)
{
	static char self[PATH_MAX], script[PATH_MAX];
	char **args = calloc(FIXED_MAX + (size_t)c->count * ARGS_MANY_MAX, sizeof *args);

	if (!args || beside_find(places, self, script)) {
		fprintf(stderr, "fanin %s: no %s, %s or %s beside %s\n", c->name, places[0],
			places[1], places[2], self);
		return 1;
	}
	char *const fixed[] = {(char *)PYTHON, (char *)"-I",   (char *)"-S",
			       (char *)"-B",   (char *)script, (char *)c->name};
	unsigned n = sizeof fixed / sizeof *fixed;
	memcpy(args, fixed, sizeof fixed);
	for (unsigned i = 0; i < c->count; i++)
		n += add(&args[n], &c->options[i], values);
	setenv("FANIN", self, 1);
	execvp(PYTHON, args);
	fprintf(stderr, "fanin %s: needs Python 3.9 or later: %s: %s\n", c->name, PYTHON,
		strerror(errno));
	free(args);
	return 1;
}

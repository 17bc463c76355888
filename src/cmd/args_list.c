/* SPDX-License-Identifier: Apache-2.0 */
#include "args_list.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

#define LETTER_MAX 127 /* argp's keys above are no letters */

static void put(const char *name, int letter, const char *what, const char *const *words,
		const char *help)
{
	printf("--%s\t", name);
	if (letter)
		printf("-%c", letter);
	else
		putchar('-');
	printf("\t%s\t", what ? what : "-");
	for (unsigned i = 0; words && words[i]; i++)
		printf("%s%s", i ? "," : "", words[i]);
	printf("%s\t%s\n", words ? "" : "-", help);
}

bool args_list_is_wanted(int argc, char **argv)
{
	return argc == 2 && strcmp(argv[1], "--list-options") == 0;
}

void args_list(const struct args_command *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct args_option *o = &c->options[i];
		put(o->name, o->letter, o->what, o->words, o->help);
	}
	put("config", 0, "FILE", NULL, ARGS_CONFIG_HELP);
	put("help", '?', NULL, NULL, "list the options");
}

void args_list_argp(const struct argp_option *options)
{
	for (const struct argp_option *o = options; o->name; o++)
		put(o->name, o->key <= LETTER_MAX ? o->key : 0, o->arg, NULL, o->doc);
	put("help", '?', NULL, NULL, "list the options");
}

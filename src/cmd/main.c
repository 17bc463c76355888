/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - one program, one subcommand for each job. */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "cmd.h"
#include "file/text.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"switch", cmd_switch, "sum the fragments of workers and return the sums"},
	{"controller", cmd_controller, "run plans on many switches and servers"},
	{"bench", cmd_bench, "time all-reduces and check every element"},
	{"sim", cmd_sim, "simulate jobs in virtual time with the real protocol objects"},
	{"plan", cmd_plan, "plan where gradients are summed and on which paths"},
	{"lab", cmd_lab, "run plans on an emulated network, and measure"},
	{"top", cmd_top, "show what ranks and the jobs of a switch do and wait for"},
	{"doctor", cmd_doctor, "check whether a worker here can aggregate, and say what to change"},
	{"key", cmd_key, "make the keys of sealed jobs"},
	{"server", cmd_switch, "fanin switch --policy none"},
	{"ps", cmd_top, "fanin top --here --once"},
	{"info", cmd_doctor, "fanin doctor --settings"},
};
#define COMMANDS (sizeof commands / sizeof commands[0])
#define SYNONYMS 3 /* the last */

static void usage(FILE *f)
{
	fprintf(f, "usage: fanin SUBCOMMAND [OPTION...]\n\n"
		   "Sums gradients inside the network while they travel.\n\n");
	for (unsigned i = 0; i < COMMANDS - SYNONYMS; i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
	for (unsigned i = COMMANDS - SYNONYMS; i < COMMANDS; i++)
		fprintf(f, "%s`fanin %s` is short for `%s`.\n",
			i == COMMANDS - SYNONYMS ? "\n" : "", commands[i].name, commands[i].help);
	fprintf(f, "`fanin SUBCOMMAND --help` lists its options; `fanin --version` prints the "
		   "version.\n");
}

static int unknown(const char *word)
{
	const char *names[COMMANDS + 1] = {NULL};

	for (unsigned i = 0; i < COMMANDS; i++)
		names[i] = commands[i].name;
	const char *near = fan_text_nearest(word, names);
	fprintf(stderr, "fanin: no subcommand \"%s\"", word);
	if (near)
		fprintf(stderr, "; did you mean \"%s\"? There are:", near);
	else
		fprintf(stderr, ".  There are:");
	for (unsigned i = 0; i < COMMANDS; i++)
		fprintf(stderr, "%s %s", i ? "," : "", names[i]);
	fprintf(stderr, ".\n");
	return 2;
}

int main(int argc, char **argv)
{
	static char name[ARGS_NAME_MAX];

	cmd_begin();
	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return cmd_end(0);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("fanin %s\n", FAN_BUILD_VERSION);
		return cmd_end(0);
	}
	if (!strcmp(argv[1], "--list-commands")) { /* for completion, as --list-options */
		for (unsigned i = 0; i < COMMANDS; i++)
			printf("%s\t%s\n", commands[i].name, commands[i].help);
		return cmd_end(0);
	}
	for (unsigned i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) == 0) {
			snprintf(name, sizeof name, "fanin %s", argv[1]);
			argv[1] = name;
			return cmd_end(commands[i].run(argc - 1, argv + 1));
		}
	}
	if (strcmp(argv[1], "query") == 0)
		return cmd_end(cmd_query(argc - 1, argv + 1));
	if (strcmp(argv[1], "probe") == 0)
		return cmd_end(cmd_probe(argc - 1, argv + 1));
	return unknown(argv[1]);
}

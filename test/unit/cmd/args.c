/* SPDX-License-Identifier: Apache-2.0 */
/* Options from a file, variables and flags, and what is said about wrong ones. */
#include "unit/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/args.c"

struct values {
	int slots, color;
	uint64_t bytes;
	bool loud;
	char file[ARGS_TEXT_BYTES];
	fan_peer listen;
	struct args_many set;
	char what[ARGS_TEXT_BYTES];
};

static const char *const colors[] = {"red", "green", "blue", NULL};

#define AT(field) offsetof(struct values, field)
static const struct fan_option options[] = {
	{"slots", 's', ARGS_NUMBER, AT(slots), 2, 65536, NULL, "N", "slots"},
	{"big-bytes", 0, ARGS_SIZE, AT(bytes), 1024, 1 << 30, NULL, "BYTES", "bytes"},
	{"color", 0, ARGS_WORD, AT(color), 0, 0, colors, "NAME", "color"},
	{"loud", 'l', ARGS_FLAG, AT(loud), 0, 0, NULL, NULL, "loud"},
	{"file", 0, ARGS_TEXT, AT(file), 0, 0, NULL, "FILE", "file"},
	{"listen", 0, ARGS_PEER, AT(listen), 0, 0, NULL, "ADDR:PORT", "address"},
	{"set", 0, ARGS_MANY, AT(set), 0, 3, NULL, "KEY=VALUE", "settings"},
	{"what", 0, ARGS_OPERAND, AT(what), 0, 0, NULL, "WHAT", "operand"},
};
static const struct args_command command = {
	"switch", "help", options, sizeof options / sizeof options[0], NULL, NULL, NULL};

static char path[] = "/tmp/fanin-args-XXXXXX";
static char why[ARGS_WHY_BYTES];
static struct values v;

static int clean(void **state __attribute__((unused)))
{
	static const char *const names[] = {"FANIN_CONFIG", "FANIN_SWITCH_SLOTS",
					    "FANIN_SWITCH_BIG_BYTES", "FANIN_SWITCH_LOUD"};

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		unsetenv(names[i]);
	for (unsigned i = 0; i < v.set.count; i++)
		free(v.set.text[i]);
	v = (struct values){.slots = 7, .color = 1, .bytes = 5000};
	why[0] = '\0';
	return 0;
}

/* Read with up to three arguments. */
static int with(const char *a, const char *b, const char *c)
{
	char *argv[] = {(char *)"fanin switch", (char *)a, (char *)b, (char *)c, NULL};
	int argc = 1;

	while (argv[argc])
		argc++;
	return read_all(&command, &v, argc, argv, why);
}

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	setenv("FANIN_CONFIG", path, 1);
}

/* The file `text` is refused with `expected` behind its name. */
static void file_refused(const char *text, const char *expected)
{
	char whole[ARGS_WHY_BYTES];

	write_file(text);
	assert_int_equal(with(NULL, NULL, NULL), -1);
	snprintf(whole, sizeof whole, "%s:%s", path, expected);
	assert_string_equal(why, whole);
}

static void flag_refused(const char *flag, const char *expected)
{
	assert_int_equal(with(flag, NULL, NULL), -1);
	assert_string_equal(why, expected);
}

TEST_WITH(args__defaults_stay, clean, NULL)
{
	assert_int_equal(with(NULL, NULL, NULL), 0);
	assert_int_equal(v.slots, 7);
	assert_int_equal(v.color, 1);
	assert_int_equal(v.bytes, 5000);
	assert_false(v.loud);
}

TEST_WITH(args__flags_of_every_kind, clean, NULL)
{
	char text[80];

	assert_int_equal(with("--slots=16", "--big-bytes=64K", "--color=blue"), 0);
	assert_int_equal(v.slots, 16);
	assert_int_equal(v.bytes, 65536);
	assert_int_equal(v.color, 2);
	assert_int_equal(with("-l", "--file=a b", "--listen=[fd00::1]:5000"), 0);
	assert_true(v.loud);
	assert_string_equal(v.file, "a b");
	assert_string_equal(fan_peer_text(&v.listen, text, sizeof text), "[fd00::1]:5000");
}

TEST_WITH(args__flag_over_variable_over_file, clean, NULL)
{
	write_file("; all three\n[switch]\nslots = 10\nbig-bytes = 2K\nloud = yes\ncolor=red\n");
	setenv("FANIN_SWITCH_SLOTS", "11", 1);
	setenv("FANIN_SWITCH_BIG_BYTES", "3K", 1);
	assert_int_equal(with("-s", "12", NULL), 0);
	assert_int_equal(v.slots, 12);
	assert_int_equal(v.bytes, 3072);
	assert_true(v.loud);
	assert_int_equal(v.color, 0);
}

TEST_WITH(args__other_sections_are_skipped, clean, NULL)
{
	write_file("[worker]\nanything = 1\n[switch]\nslots = 10\n[bench]\nslots = x\n");
	assert_int_equal(with(NULL, NULL, NULL), 0);
	assert_int_equal(v.slots, 10);
}

TEST_WITH(args__a_flag_in_the_file_may_be_off, clean, NULL)
{
	v.loud = true;
	write_file("[switch]\nloud = off\n");
	assert_int_equal(with(NULL, NULL, NULL), 0);
	assert_false(v.loud);
}

TEST_WITH(args__file_errors_tell_the_line, clean, NULL)
{
	file_refused("[switch]\n\n# slots\nslots = abc\n",
		     "4: slots: expected a number from 2 to 65536, got \"abc\"");
	file_refused("[switch]\nslots = 1\nslots = x\n",
		     "2: slots: expected a number from 2 to 65536, got \"1\"");
	file_refused("[switch]\nloud = perhaps\n", "2: loud: expected yes or no, got \"perhaps\"");
	file_refused("[switch]\nslotz = 4\n",
		     "2: unknown key of [switch] \"slotz\"; did you mean \"slots\"?");
	file_refused("[switch]\nzzzzzzzzz = 4\n", "2: unknown key of [switch] \"zzzzzzzzz\"");
	file_refused("[switch]\n\x1b[31mkey = 4\n", "2: unknown key of [switch] \"?[31mkey\"");
	file_refused("[swich]\nslots = 4\n",
		     "2: unknown section \"swich\"; did you mean \"switch\"?");
	file_refused("slots = 4\n", "1: expected a [section] before the first key");
	file_refused("[switch]\nslots\n", "2: expected \"[section]\" or \"key = value\"");
	file_refused("[switch\nslots = 4\n", "1: expected \"[section]\" or \"key = value\"");
}

TEST_WITH(args__file_line_too_long, clean, NULL)
{
	char text[2000] = "[switch]\n";

	memset(text + 9, 'a', sizeof text - 11);
	text[sizeof text - 2] = '\n';
	text[sizeof text - 1] = '\0';
	write_file(text);
	assert_int_equal(with(NULL, NULL, NULL), -1);
	assert_non_null(strstr(why, ":2: expected a line of at most "));
}

TEST_WITH(args__file_missing, clean, NULL)
{
	setenv("FANIN_CONFIG", "/nonexistent/fanin.ini", 1);
	assert_int_equal(with(NULL, NULL, NULL), -1);
	assert_string_equal(why, "/nonexistent/fanin.ini: No such file or directory");
}

TEST_WITH(args__variable_errors_name_it, clean, NULL)
{
	setenv("FANIN_SWITCH_BIG_BYTES", "1", 1);
	assert_int_equal(with(NULL, NULL, NULL), -1);
	assert_string_equal(why,
			    "FANIN_SWITCH_BIG_BYTES: expected a number of bytes from 1K to 1G, "
			    "such as 4096, 64K or 16M, got \"1\"");
}

TEST_WITH(args__flag_errors_name_it, clean, NULL)
{
	flag_refused("--slots=abc", "fanin switch: --slots: expected a number from 2 to 65536, "
				    "got \"abc\"");
	flag_refused("--slots=65537", "fanin switch: --slots: expected a number from 2 to 65536, "
				      "got \"65537\"");
	flag_refused("--slots=",
		     "fanin switch: --slots: expected a number from 2 to 65536, got \"\"");
	flag_refused("--slots=4x", "fanin switch: --slots: expected a number from 2 to 65536, "
				   "got \"4x\"");
	flag_refused("--slots=99999999999999999999",
		     "fanin switch: --slots: expected a number from 2 to 65536, "
		     "got \"99999999999999999999\"");
	flag_refused("--color=pink", "fanin switch: --color: expected red, green or blue, "
				     "got \"pink\"");
	flag_refused("--file=", "fanin switch: --file: expected 1 to 255 characters, got 0");
	flag_refused("--listen=5000", "fanin switch: --listen: expected HOST:PORT or [IPV6]:PORT, "
				      "got \"5000\"");
}

TEST_WITH(args__a_misspelt_flag_names_the_nearest, clean, NULL)
{
	flag_refused("--slotz=4", "fanin switch: unknown option --slotz; nearest: --slots");
	flag_refused("--colro", "fanin switch: unknown option --colro; nearest: --color");
	flag_refused("--hlep", "fanin switch: unknown option --hlep; nearest: --help");
	flag_refused("--zzzzzzzzz", "fanin switch: unknown option --zzzzzzzzz");
	/* It is no option's argument, and no beginning of one. */
	assert_int_equal(with("--file", "--slotz", "--col=red"), 0);
	assert_string_equal(v.file, "--slotz");
	assert_int_equal(with("-ls", "--slotz", NULL), -1);
	assert_string_equal(why, "fanin switch: --slots: expected a number from 2 to 65536, "
				 "got \"--slotz\"");
	assert_int_equal(with("-s4", "-l", "--slotz"), -1);
	assert_string_equal(why, "fanin switch: unknown option --slotz; nearest: --slots");
	assert_int_equal(with("a", "--what", "b"), -1); /* an operand is no flag */
	assert_string_equal(why, "fanin switch: unknown option --what");
}

TEST_WITH(args__an_operand_and_what_may_be_repeated, clean, NULL)
{
	assert_int_equal(with("--set=a=1", "file", "--set=b=2"), 0);
	assert_string_equal(v.what, "file");
	assert_int_equal(v.set.count, 2);
	assert_string_equal(v.set.text[0], "a=1");
	assert_string_equal(v.set.text[1], "b=2");
}

TEST_WITH(args__what_is_repeated_is_bounded_over_all_sources, clean, NULL)
{
	write_file("[switch]\nset = a=1\nset = b=2\nwhat = net\n");
	assert_int_equal(with("--set=c=3", NULL, NULL), 0);
	assert_string_equal(v.what, "net");
	assert_int_equal(v.set.count, 3);
	assert_string_equal(v.set.text[0], "a=1");
	assert_string_equal(v.set.text[2], "c=3");
	clean(NULL);
	setenv("FANIN_CONFIG", path, 1);
	assert_int_equal(with("--set=c=3", "--set=d=4", NULL), -1);
	assert_string_equal(why, "fanin switch: --set: expected at most 3, got \"d=4\"");
	clean(NULL);
}

static bool take_size(uint64_t *bytes, const char *text)
{
	static const struct fan_option any = {.kind = FAN_OPTION_SIZE, .max = -1}; /* UINT64_MAX */
	return fan_option_set(&any, bytes, text);
}

TEST(size__units)
{
	uint64_t b;

	assert_true(take_size(&b, "0"));
	assert_int_equal(b, 0);
	assert_true(take_size(&b, "4k"));
	assert_int_equal(b, 4096);
	assert_true(take_size(&b, "16M"));
	assert_int_equal(b, 16 << 20);
	assert_true(take_size(&b, "17179869183G"));
	assert_true(b == UINT64_C(17179869183) << 30);
}

TEST(size__wrong)
{
	static const char *const wrong[] = {"",
					    "K",
					    "-1",
					    "1T",
					    "1KB",
					    "+1",
					    " 1",
					    "17179869184G",
					    "1.5M",
					    "0x10",
					    "18446744073709551616"};
	uint64_t b;

	for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		if (take_size(&b, wrong[i]))
			fail_msg("\"%s\" was taken", wrong[i]);
}

TEST(nearest__of_a_list)
{
	static const char *const words[] = {"switch", "bench", "top", NULL};
	char longer[ARGS_NAME_MAX + 10];

	assert_string_equal(fan_text_nearest("swich", words), "switch");
	assert_string_equal(fan_text_nearest("benhc", words), "bench");
	assert_string_equal(fan_text_nearest("tpo", words), "top");
	assert_null(fan_text_nearest("server", words));
	memset(longer, 's', sizeof longer);
	longer[sizeof longer - 1] = '\0';
	assert_null(fan_text_nearest(longer, words));
}

int main(void)
{
	close(mkstemp(path));
	int failed = unit_run();
	unlink(path);
	return failed;
}

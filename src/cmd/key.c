/* SPDX-License-Identifier: Apache-2.0 */
/* key.c - `fanin key new` and `fanin key job TENANT --key FILE`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cmd.h"
#include "seal/cipher.h"
#include "seal/key_file.h"

struct key_args {
	char key[ARGS_TEXT_BYTES], out[ARGS_TEXT_BYTES]; /* empty: none */
};

#define AT(field) offsetof(struct key_args, field)
static const struct fan_option options[] = {
	{"key", 'k', ARGS_TEXT, AT(key), 0, 0, NULL, "FILE",
	 "job: the fabric's key, which the switches use"},
	{"out", 'o', ARGS_TEXT, AT(out), 0, 0, NULL, "FILE",
	 "write the key to the new file FILE, readable by you alone (standard output)"},
};

static const struct args_command command = {
	.name = "key",
	.help = "`fanin key new` makes a key for the switches of a network, `fanin key job TENANT --key "
		"FILE` the key for all jobs of a tenant.\v"
		"TENANT is the part of its jobs' names before the first '/'.  Switches take the former "
		"with "
		"--key, ranks the latter with FANIN_KEY_FILE.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

static int put(const struct key_args *a, const char *what, const uint8_t key[FAN_KEY_BYTES])
{
	char text[FAN_KEY_TEXT_BYTES];
	FILE *f = stdout;

	if (a->out[0]) {
		int fd = open(a->out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		f = fd < 0 ? NULL : fdopen(fd, "w");
	}
	if (!f) {
		fprintf(stderr, "fanin key: --out: %s: %s\n", a->out, strerror(errno));
		return 1;
	}
	fan_key_text(text, key);
	fprintf(f, "# %s\n%s\n", what, text);
	if (f == stdout ? fflush(f) : fclose(f)) {
		fprintf(stderr, "fanin key: %s: %s\n", a->out[0] ? a->out : "standard output",
			strerror(errno));
		return 1;
	}
	return 0;
}

static int make_new(const struct key_args *a)
{
	uint8_t key[FAN_KEY_BYTES];

	if (a->key[0])
		args_wrong("key", "--key: expected with `fanin key job TENANT`");
	if (!fan_cipher_gcrypt()->random(key, sizeof key)) {
		fprintf(stderr, "fanin key: the kernel gives no random numbers: %s\n",
			strerror(errno));
		return 1;
	}
	return put(a, "fanin: key of a fabric, for switches (--key)", key);
}

static int make_job(const struct key_args *a, const char *tenant)
{
	const size_t bytes = strlen(tenant);
	uint8_t key[FAN_KEY_BYTES];
	char what[ARGS_WHY_BYTES];
	struct fan_keys fabric;

	if (!bytes || bytes > FAN_TENANT_MAX || strpbrk(tenant, FAN_TENANT_ENDS))
		args_wrong(
			"key",
			"TENANT: expected 1 to 63 bytes without '/', '#' and '!': the name of its "
			"jobs up to their first '/'");
	for (const char *p = tenant; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			args_wrong("key", "TENANT: expected printable characters");
	if (!a->key[0])
		args_wrong("key", "job: expected --key FILE, the fabric's key");
	if (fan_key_file_read(&fabric, a->key, what, sizeof what)) {
		fprintf(stderr, "fanin key: --key: %s\n", what);
		return 1;
	}
	fan_tenant_key(fan_cipher_gcrypt(), key, fabric.key[0], tenant, bytes);
	snprintf(what, sizeof what, "fanin: key of the tenant \"%s\", for ranks (FANIN_KEY_FILE)",
		 tenant);
	return put(a, what, key);
}

/* Remove the words in front of the options from argv. */
static int take_words(int argc, char **argv, const char **word, int room)
{
	int n = 0;

	while (n < room && n + 1 < argc && argv[n + 1][0] != '-') {
		word[n] = argv[n + 1];
		n++;
	}
	argv[n] = argv[0];
	return n;
}

int cmd_key(int argc, char **argv)
{
	const char *word[2] = {"", ""};
	struct key_args a = {.key = ""};
	int words = take_words(argc, argv, word, 2);

	args_parse(&command, &a, argc - words, argv + words);
	if (words == 1 && !strcmp(word[0], "new"))
		return make_new(&a);
	if (words == 2 && !strcmp(word[0], "job"))
		return make_job(&a, word[1]);
	args_wrong("key", "expected `fanin key new` or `fanin key job TENANT --key FILE`");
}

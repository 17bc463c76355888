/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - `fanin info`: this build, this kernel, the options as a rank here reads them. */
#include "info.h"

#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cmd/args.h"
#include "cmd/cmd.h"
#include "core/base/err.h"
#include "core/wire/wire.h"
#include "lib/link/connection.h"
#include "net/udp.h"

#define SONAME "libfanin.so.0"

struct info_args {
	bool all;
	char json[ARGS_TEXT_BYTES]; /* empty: none */
};

#define AT(field) offsetof(struct info_args, field)
static const struct fan_option options[] = {
	{"all", 'a', ARGS_FLAG, AT(all), 0, 0, NULL, NULL,
	 "list the options at their defaults, too"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write everything to FILE as JSON; -: to standard output, in place of the text"},
};

static const struct args_command command = {
	.name = "info",
	.help = "Print this build, what the kernel gives it, the options of a rank as they are read here, "
		"and what would sum its tensors.\v"
		"Exit status 1: a rank with these options would fail.  Where the environment starts no "
		"rank, options are checked without one.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

/* What is printed, and the state in between. */
struct info {
	const struct info_args *a;
	bool silent;
	json_t *root, *options;
	bool good;
};

static void print_build(struct info *t)
{
	json_t *build = json_pack("{s:s, s:s, s:i}", "version", FAN_BUILD_VERSION, "built",
				  FAN_BUILD_FEATURES, "protocol", FAN_WIRE_VERSION);

	json_object_set_new(t->root, "build", build);
	if (t->silent)
		return;
	printf("fanin     %s, protocol %d\n", FAN_BUILD_VERSION, FAN_WIRE_VERSION);
	printf("built     %s\n", FAN_BUILD_FEATURES);
}

void info_find_library(struct info_library *l)
{
	static const char *const places[] = {"../" SONAME, NULL}; /* of a wheel */
	const char *named = secure_getenv("FANIN_LIBRARY");	  /* which is run */
	bool is_beside = find_installed(places, l->program, l->path) == 0;
	Dl_info where = {.dli_fname = NULL};

	l->named = named && *named;
	l->version[0] = l->why[0] = '\0';
	if (l->named)
		snprintf(l->path, sizeof l->path, "%s", named);
	else if (!is_beside)
		snprintf(l->path, sizeof l->path, SONAME);
	void *lib = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = lib ? dlsym(lib, "fanin_version") : NULL;
	if (symbol) {
		const char *(*version)(void);
		memcpy(&version, &symbol, sizeof version);
		snprintf(l->version, sizeof l->version, "%s", version());
		if (dladdr(symbol, &where) && where.dli_fname)
			snprintf(l->path, sizeof l->path, "%s", where.dli_fname);
	} else {
		const char *why = dlerror();
		snprintf(l->why, sizeof l->why, "%s", why ? why : "no fanin_version in it");
	}
	if (lib)
		dlclose(lib);
}

/* Packages, wheels and `meson install` each bring a program, with the library inside, and a library
 * for others. */
static void print_library(struct info *t)
{
	static struct info_library l;

	info_find_library(&l);
	json_object_set_new(t->root, "program", json_string(l.program));
	json_object_set_new(t->root, "library",
			    *l.version
				    ? json_pack("{s:s, s:s}", "path", l.path, "version", l.version)
				    : json_null());
	if (t->silent)
		return;
	printf("program   %s, with libfanin inside\n", l.program);
	if (*l.version)
		printf("library   %s, %s, which others load\n", l.path, l.version);
	else
		printf("library   none for others: %s\n", l.why);
}

int info_try_socket(struct fan_udp *u)
{
	struct fan_udp_options o = {.buffer_bytes = FAN_CONNECTION_BUFFER_BYTES};
	char why[ARGS_WHY_BYTES];

	fan_peer_parse(&o.bind, "0.0.0.0:0", why, sizeof why);
	int e = fan_udp_open(u, &o);
	if (!e)
		fan_udp_close(u);
	return e;
}

static void print_kernel(struct info *t)
{
	struct fan_udp u;
	struct utsname k;

	uname(&k);
	int e = info_try_socket(&u);
	if (e) {
		t->good = false;
		json_object_set_new(
			t->root, "kernel",
			json_pack("{s:s, s:s}", "release", k.release, "error", strerror(-e)));
		if (!t->silent)
			printf("kernel    Linux %s; no UDP socket: %s\n", k.release, strerror(-e));
		return;
	}
	json_object_set_new(t->root, "kernel",
			    json_pack("{s:s, s:b, s:b, s:i, s:i, s:i}", "release", k.release,
				      "segment", (int)u.segment, "gro", (int)u.gro, "receive_bytes",
				      u.rcvbuf, "send_bytes", u.sndbuf, "wanted_bytes",
				      FAN_CONNECTION_BUFFER_BYTES));
	if (t->silent)
		return;
	printf("kernel    Linux %s, UDP_SEGMENT %s, UDP_GRO %s\n", k.release,
	       u.segment ? "yes" : "no", u.gro ? "yes" : "no");
	printf("buffers   %d KiB to receive, %d KiB to send, of %d KiB wanted\n", u.rcvbuf / 1024,
	       u.sndbuf / 1024, FAN_CONNECTION_BUFFER_BYTES / 1024);
}

static void print_option(void *ctx, const char *name, const char *value, const char *from)
{
	struct info *t = ctx;

	json_object_set_new(t->options, name,
			    json_pack("{s:s, s:s}", "value", value, "from", from));
	if (!t->silent && (*from || t->a->all))
		printf("  %-11s %s%s%s\n", name, *value ? value : "-", *from ? "   from " : "",
		       from);
}

/* A variable that begins with FANIN_ and that nothing reads. */
static void print_unknown(void *ctx, const char *name, const char *near, const char *from)
{
	struct info *t = ctx;

	(void)from;
	json_array_append_new(json_object_get(t->root, "unknown"), json_string(name));
	if (!t->silent)
		printf("  %s is no variable of fanin%s%s%s\n", name, *near ? "; did you mean " : "",
		       near, *near ? "?" : "");
}

/* The library is silent about a file that it cannot write. */
static void print_file(struct info *t, const char *variable)
{
	const char *file = getenv(variable), *slash = file ? strrchr(file, '/') : NULL;
	char folder[PATH_MAX] = ".";

	if (!file || !*file)
		return;
	if (slash)
		snprintf(folder, sizeof folder, "%.*s", (int)(slash - file + 1), file);
	if (access(folder, W_OK) == 0)
		return;
	t->good = false;
	json_object_set_new(t->root, "unwritable", json_string(variable));
	if (!t->silent)
		printf("  wrong: %s: %s: %s\n", variable, folder, strerror(errno));
}

/* The options, and whether they are valid. */
static void print_options(struct info *t, struct fan_config *c)
{
	char why[FAN_CONFIG_WHY_BYTES];

	if (!t->silent)
		printf("\noptions of a rank, other than defaults:\n");
	int e = fan_config_list(c, print_option, t, why, sizeof why);
	json_object_set_new(t->root, "unknown", json_array());
	fan_config_unknown(print_unknown, t);
	print_file(t, "FANIN_METRICS");
	print_file(t, "FANIN_TRACE");
	if (!e)
		return;
	t->good = false;
	json_object_set_new(t->root, "error", json_string(why));
	if (!t->silent)
		printf("  wrong: %s\n", why);
}

static void print_sums(struct info *t, const struct fan_config *c)
{
	struct info_sums s;
	json_t *sums = json_array();

	t->good &= info_judge(&s, c) == 0;
	if (!t->silent)
		printf("\nwhat would sum:\n");
	for (unsigned i = 0; i < s.count; i++) {
		json_array_append_new(sums, json_string(s.text[i]));
		if (!t->silent)
			printf("  %s\n", s.text[i]);
	}
	json_object_set_new(t->root, "sums", sums);
}

int cmd_info(int argc, char **argv)
{
	static struct info t;
	struct info_args a = {.all = false};
	struct fan_config c;

	args_parse(&command, &a, argc, argv);
	t = (struct info){.a = &a, .good = true, .root = json_object(), .options = json_object()};
	t.silent = strcmp(a.json, "-") == 0;
	print_build(&t);
	print_library(&t);
	print_kernel(&t);
	print_options(&t, &c);
	print_sums(&t, &c);
	json_object_set_new(t.root, "options", t.options);
	json_object_set_new(t.root, "good", json_boolean(t.good));
	int e = 0;
	if (a.json[0])
		e = cmd_write_json("info", a.json, t.root, JSON_INDENT(1));
	else
		json_decref(t.root);
	return e || !t.good;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_settings.c - what needs no packet: `fanin doctor --settings`. */

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "doctor.h"
#include "lib/base/rendezvous.h"
#include "lib/host/attach.h"
#include "lib/link/connection.h"

#define SONAME "libfanin.so.0"

json_t *doctor_library_json(void)
{
	static const char *const places[] = {"../" SONAME, NULL}; /* of a wheel */
	static char program[PATH_MAX], path[PATH_MAX];
	const char *named = secure_getenv("FANIN_LIBRARY"); /* which is run */
	const bool is_named = named && *named, is_beside = !find_installed(places, program, path);
	const char *version = "", *why = "";
	Dl_info where = {.dli_fname = NULL};

	if (is_named || !is_beside)
		snprintf(path, sizeof path, "%s", is_named ? named : SONAME);
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = lib ? dlsym(lib, "fanin_version") : NULL;
	if (symbol) {
		const char *(*ask)(void);
		memcpy(&ask, &symbol, sizeof ask);
		version = ask();
		if (dladdr(symbol, &where) && where.dli_fname)
			snprintf(path, sizeof path, "%s", where.dli_fname);
	} else {
		const char *error = dlerror();
		why = error ? error : "no fanin_version in it";
	}
	json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:b}", "program", doctor_text(program),
				"path", doctor_text(path), "version", doctor_text(version), "why",
				doctor_text(why), "named", is_named);
	if (lib)
		dlclose(lib);
	return all;
}

json_t *doctor_socket_json(void)
{
	struct fan_udp_options o = {.buffer_bytes = FAN_CONNECTION_BUFFER_BYTES};
	struct fan_udp u = {.segment = false};
	char why[ARGS_WHY_BYTES];

	fan_peer_parse(&o.bind, "0.0.0.0:0", why, sizeof why);
	const int e = fan_udp_open(&u, &o);
	if (!e)
		fan_udp_close(&u);
	return json_pack("{s:i, s:b, s:b, s:i, s:i, s:i}", "error", -e, "segment", u.segment, "gro",
			 u.gro, "receive_bytes", e ? 0 : u.rcvbuf, "send_bytes", e ? 0 : u.sndbuf,
			 "wanted_bytes", FAN_CONNECTION_BUFFER_BYTES);
}

static void add_option(void *options, const char *name, const char *value, const char *from)
{
	json_array_append_new(options, json_pack("{s:s, s:o, s:o}", "name", name, "value",
						 doctor_text(value), "from", doctor_text(from)));
}

/* A variable that begins with FANIN_ and that nothing reads. */
static void add_unknown(void *unknown, const char *name, const char *near, const char *from)
{
	(void)from;
	json_array_append_new(unknown,
			      json_pack("{s:o, s:s}", "name", doctor_text(name), "near", near));
}

/* The facts by which src/lib/comm/comm.c chooses. */
static json_t *sums_json(const struct fan_config *c)
{
	struct fan_rendezvous r = {.one_host = false};
	char wrong[FAN_CONFIG_WHY_BYTES] = "", nowhere[FAN_CONFIG_WHY_BYTES] = "";

	const bool is_wrong = fan_switch_list_check(c, wrong, sizeof wrong);
	const bool is_nowhere = fan_rendezvous_find(&r, nowhere, sizeof nowhere);
	return json_pack(
		"{s:o, s:b, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:b, s:b, s:o, s:o, "
		"s:b}",
		"wrong", doctor_text(is_wrong ? wrong : ""), "is_rank", fan_config_is_rank(c),
		"controller", doctor_text(c->controller_addr), "switch",
		doctor_text(c->switch_addr), "server", doctor_text(c->server_addr), "key",
		doctor_text(c->keys.count ? c->key_file : ""), "ahead", c->ahead != 0, "hosts",
		c->hosts != 0, "local", c->local != 0, "split", c->split != 0, "asked",
		fan_host_sharing_is_asked_for(c), "wanted", fan_host_sharing_is_wanted(c),
		"nowhere", doctor_text(is_nowhere ? nowhere : ""), "meeting", doctor_text(r.addr),
		"one_host", r.one_host);
}

void doctor_print_settings(void)
{
	static struct fan_config c;
	char why[FAN_CONFIG_WHY_BYTES] = "";
	json_t *options = json_array(), *unknown = json_array();

	const int e = fan_config_list(&c, add_option, options, why, sizeof why);
	fan_config_unknown(add_unknown, unknown);
	doctor_line("settings",
		    json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
			      FAN_BUILD_VERSION, "built", FAN_BUILD_FEATURES, "protocol",
			      FAN_WIRE_VERSION, "library", doctor_library_json(), "socket",
			      doctor_socket_json(), "options", options, "unknown", unknown, "error",
			      doctor_text(e ? why : ""), "sums", sums_json(&c)));
}

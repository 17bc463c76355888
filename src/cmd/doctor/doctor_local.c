/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_local.c - what this machine gives a worker, and what needs no packet: `fanin doctor
 * --settings`. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/cmd.h"
#include "doctor.h"
#include "lib/base/rendezvous.h"
#include "lib/host/attach.h"
#include "lib/link/connection.h"
#include "net/clock.h"

#define CLOCK_CALLS    10000
#define LOOP_DATAGRAMS 16
#define LOOP_WAIT_NS   (200 * FAN_MS)
#define WHY_BYTES      200
#define SONAME	       "libfanin.so.0"

/* Load the library that other programs load, look and let it go: the one of FANIN_LIBRARY, else
 * that of the wheel which this program lies in, else what the loader finds. */
static json_t *library_json(void)
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
	json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:b}", "program", fan_json_text(program),
				"path", fan_json_text(path), "version", fan_json_text(version),
				"why", fan_json_text(why), "named", is_named);
	if (lib)
		dlclose(lib);
	return all;
}

/* Open a socket as a rank does, and close it: what the kernel gives it. */
static json_t *socket_json(void)
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

/* How long reading the clock takes, and the smallest step seen. */
static json_t *clock_json(void)
{
	struct timespec res = {0, 0};
	uint64_t begin = fan_clock_ns(), last = begin, now = begin, step_ns = UINT64_MAX;

	for (unsigned i = 0; i < CLOCK_CALLS; i++) {
		now = fan_clock_ns();
		if (now != last && now - last < step_ns)
			step_ns = now - last;
		last = now;
	}
	clock_getres(CLOCK_MONOTONIC, &res);
	return json_pack("{s:I, s:I, s:I}", "resolution_ns", (json_int_t)res.tv_nsec, "reading_ns",
			 (json_int_t)((now - begin) / CLOCK_CALLS), "step_ns",
			 (json_int_t)(step_ns < INT64_MAX ? step_ns : INT64_MAX));
}

/* Send a batch through two sockets of this machine.  Returns how many datagrams arrived; stores the
 * number of receives. */
static unsigned loop(struct fan_udp *from, struct fan_udp *to, unsigned *receives)
{
	static uint8_t buffer[FAN_UDP_RECV_BYTES], body[FAN_PAYLOAD_1500];
	struct fan_out_item item[LOOP_DATAGRAMS];
	struct fan_out out;
	struct fan_udp_batch b;
	unsigned came = 0;
	uint64_t end_ns = fan_clock_ns() + LOOP_WAIT_NS;

	fan_out_init(&out, item, LOOP_DATAGRAMS, NULL, 0);
	for (unsigned i = 0; i < LOOP_DATAGRAMS; i++) {
		struct fan_frag h = {.type = FAN_TYPE_QUERY, .topic = FAN_TOPIC_ECHO, .nonce = i};
		fan_ctl_finish(fan_out_add(&out, FAN_TO_PEER), &h, body, sizeof body);
	}
	fan_udp_send(from, &out, true);
	*receives = 0;
	while (came < LOOP_DATAGRAMS && fan_clock_ns() < end_ns) {
		struct pollfd p = {to->fd, POLLIN, 0};
		poll(&p, 1, fan_clock_timeout_ms(end_ns, -1));
		if (fan_udp_recv(to, buffer, &b) != 1)
			continue;
		++*receives;
		struct fan_frag f;
		for (size_t at = 0; at < b.bytes; at += fan_udp_datagram_bytes(&b, at))
			came += fan_wire_get(&f, buffer + at, fan_udp_datagram_bytes(&b, at)) < 0;
	}
	return came;
}

/* A batch over the loopback interface. */
static json_t *offload_json(void)
{
	struct fan_udp_options o = {.buffer_bytes = 1 << 20};
	struct fan_udp from, to;
	char why[ARGS_WHY_BYTES];
	unsigned receives;

	fan_peer_parse(&o.bind, "127.0.0.1:0", why, sizeof why);
	int e = fan_udp_open(&to, &o);
	if (!e) {
		o.bind = (fan_peer){{0, 0}, 0, 0};
		o.connect = fan_udp_local(&to);
		e = fan_udp_open(&from, &o);
		if (e)
			fan_udp_close(&to);
	}
	if (e)
		return json_pack("{s:i}", "error", -e);
	const unsigned came = loop(&from, &to, &receives);
	json_t *all = json_pack("{s:b, s:b, s:i, s:i, s:I, s:i}", "segment", from.segment, "gro",
				to.gro, "datagrams", LOOP_DATAGRAMS, "came", (int)came, "sends",
				(json_int_t)from.sends, "receives", (int)receives);
	fan_udp_close(&from);
	fan_udp_close(&to);
	return all;
}

void doctor_print_machine(void)
{
	char why[WHY_BYTES] = "";
	const bool shares = fan_host_can_attach(2, why, sizeof why);

	doctor_line("machine", json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:b, s:o}", "version",
					 FAN_BUILD_VERSION, "protocol", FAN_WIRE_VERSION, "library",
					 library_json(), "clock", clock_json(), "socket",
					 socket_json(), "offload", offload_json(), "shares_memory",
					 shares, "no_memory", fan_json_text(why)));
}

/* ---- settings ---- */

static void add_option(void *options, const char *name, const char *value, const char *from)
{
	json_array_append_new(options,
			      json_pack("{s:s, s:o, s:o}", "name", name, "value",
					fan_json_text(value), "from", fan_json_text(from)));
}

/* A variable that begins with FANIN_ and that nothing reads. */
static void add_unknown(void *unknown, const char *name, const char *near, const char *from)
{
	(void)from;
	json_array_append_new(unknown,
			      json_pack("{s:o, s:s}", "name", fan_json_text(name), "near", near));
}

/* What src/lib/comm/comm.c chooses by. */
static json_t *sums_json(const struct fan_config *c)
{
	struct fan_rendezvous r = {.one_host = false};
	char wrong[FAN_CONFIG_WHY_BYTES] = "", nowhere[FAN_CONFIG_WHY_BYTES] = "";

	const bool is_wrong = fan_switch_list_check(c, wrong, sizeof wrong);
	const bool is_nowhere = fan_rendezvous_find(&r, nowhere, sizeof nowhere);
	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:b, s:o, s:o, s:b}",
			 "wrong", fan_json_text(is_wrong ? wrong : ""), "is_rank",
			 fan_config_is_rank(c), "controller", fan_json_text(c->controller_addr),
			 "switch", fan_json_text(c->switch_addr), "server",
			 fan_json_text(c->server_addr), "key",
			 fan_json_text(c->keys.count ? c->key_file : ""), "ahead", c->ahead != 0,
			 "hosts", c->hosts != 0, "local", c->local != 0, "asked",
			 fan_host_sharing_is_asked_for(c), "wanted", fan_host_sharing_is_wanted(c),
			 "nowhere", fan_json_text(is_nowhere ? nowhere : ""), "meeting",
			 fan_json_text(r.addr), "one_host", r.one_host);
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
			      FAN_WIRE_VERSION, "library", library_json(), "socket", socket_json(),
			      "options", options, "unknown", unknown, "error",
			      fan_json_text(e ? why : ""), "sums", sums_json(&c)));
}

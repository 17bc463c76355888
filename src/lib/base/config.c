/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/recovery/congestion.h"
#include "core/sum/contribution.h"
#include "file/file.h"
#include "file/option.h"
#include "file/text.h"
#include "net/rails.h"
#include "rendezvous.h"

#define IP_UDP_BYTES 48	  /* headers of IPv6 and UDP */
#define FROM_BYTES   200  /* "FILE:LINE: key" */
#define ENVIRON_MAX  8192 /* variables that are looked at */
#define EDITS_MAX    2	  /* of a name that is probably misspelt; of a short one 1 */
#define NAME_SHORT   5	  /* letters behind FANIN_: HOME, PATH and LIB are others' names */
#define PREFIX	     "FANIN_"
#define KEYS	     (sizeof keys / sizeof keys[0])
#define UNSET	     (-1)

/* One option: a row is all that a new one needs, beside its field in struct fan_config.  In
 * capitals behind FANIN_ its name is the variable, where it has one.  Commands have some as flags
 * (fan_config_export). */
struct key {
	struct fan_option o;	/* `at`: in struct fan_config */
	const char *field_name; /* in struct fanin_options; NULL: not there */
	size_t field;		/* its offset in struct fanin_options */
	int preset;		/* its default; texts: none */
	/* what the field holds if it is not given; texts: NULL.  0 in options later than version
	 * 0.1: fan_sized_take */
	int unset;
	enum { ANYWHERE, FILE_ONLY, VARIABLE_ONLY } place; /* beside the field */
};

static const char *const mode_words[] = {"native", "fixed", NULL};
static const char *const wire_words[] = {"float32", "float16", "bfloat16", "int8", NULL};
static const char *const congestion_words[] = {FAN_CONGESTION_NAMES, NULL};
static const char *const off_on[] = {"0", "1", NULL};

/* Ends with the field in struct fanin_options and its offset. */
#define ROW(place, n, f, kind, lo, hi, words, preset, unset, ...)                                  \
	{                                                                                          \
		{#n, 0, kind, offsetof(struct fan_config, f), lo, hi, words, NULL, NULL},          \
			__VA_ARGS__, preset, unset, place                                          \
	}
#define FIELD(f)   #f, offsetof(struct fanin_options, f)
#define BYTES(f)   sizeof(((struct fan_config *)0)->f) - 1
#define MAX(w)	   sizeof w / sizeof *w - 2
#define TEXT(n, f) ROW(ANYWHERE, n, f, FAN_OPTION_PRINTABLE, 1, BYTES(f), NULL, 0, 0, FIELD(f))
#define NUMBER(place, n, lo, hi, by)                                                               \
	ROW(place, n, n, FAN_OPTION_NUMBER, lo, hi, NULL, by, UNSET, FIELD(n))
#define CHOICE(n, words)                                                                           \
	ROW(ANYWHERE, n, n, FAN_OPTION_WORD, 0, MAX(words), words, 0, UNSET, FIELD(n))
#define SWITCH(place, n) ROW(place, n, n, FAN_OPTION_WORD, 0, 1, off_on, UNSET, 0, NULL, 0)
/* Read where it counts. */
#define VARIABLE(n)                                                                                \
	{                                                                                          \
		{#n, 0, FAN_OPTION_OTHER, 0, 0, 0, NULL, NULL, NULL}, NULL, 0, 0, 0, VARIABLE_ONLY \
	}

static const struct key keys[] = {
	TEXT(switch, switch_addr),
	TEXT(job, job),
	TEXT(run, run),
	NUMBER(ANYWHERE, rank, 0, FAN_RANKS_MAX - 1, UNSET),
	NUMBER(ANYWHERE, ranks, 2, FAN_RANKS_MAX, UNSET),
	NUMBER(ANYWHERE, mtu, FAN_CONFIG_MTU_MIN, 9000, 1500),
	NUMBER(ANYWHERE, window, 0, FAN_WINDOW_MAX, 0),
	NUMBER(ANYWHERE, timeout_ms, FAN_CONFIG_WAIT_MIN_MS, FAN_CONFIG_WAIT_MAX_MS, 30000),
	NUMBER(ANYWHERE, alive_ms, FAN_ALIVE_MIN_MS, FAN_ALIVE_MAX_MS, FAN_ALIVE_MS),
	CHOICE(mode, mode_words),
	CHOICE(wire, wire_words),
	NUMBER(FILE_ONLY, multicast, 0, 1, UNSET), /* as it fits, which a switch offers */
	NUMBER(FILE_ONLY, priority, 0, 255, 0),
	NUMBER(FILE_ONLY, ahead, 0, FAN_AHEAD_MAX, 0),
	NUMBER(FILE_ONLY, cache, 0, FAN_CACHE_MAX, 0),
	TEXT(server, server_addr),
	TEXT(controller, controller_addr),
	NUMBER(FILE_ONLY, pace, 0, 1000, FAN_CONFIG_PACE),
	NUMBER(FILE_ONLY, rto_min_ms, 1, FAN_CONFIG_RTO_MIN_MAX_MS, 0), /* 0: as it fits */
	TEXT(key_file, key_file),
	TEXT(controller_key_file, controller_key_file),
	ROW(ANYWHERE, join_ms, join_ms, FAN_OPTION_NUMBER, FAN_CONFIG_WAIT_MIN_MS,
	    FAN_CONFIG_WAIT_MAX_MS, NULL, 0, 0, FIELD(join_ms)),
	ROW(FILE_ONLY, congestion, congestion, FAN_OPTION_WORD, 0, FAN_CONGESTION_COUNT - 1,
	    congestion_words, 0, 0, NULL, 0),
	SWITCH(ANYWHERE, local),
	SWITCH(ANYWHERE, hosts),
	SWITCH(FILE_ONLY, rails),
	ROW(VARIABLE_ONLY, link_mbps, link_mbps, FAN_OPTION_NUMBER, 0, FAN_LINK_MBPS_MAX, NULL, 0,
	    UNSET, NULL, 0),
	VARIABLE(config),
	VARIABLE(library),
	VARIABLE(metrics),
	VARIABLE(trace),
	VARIABLE(use),
	VARIABLE(mpi_report),
};
_Static_assert(offsetof(struct fanin_options, run) + sizeof(char *) == sizeof(struct fanin_options),
	       "fan_sized_take: no padding at the end");

/* Variables of commands begin with these: FANIN_SWITCH_MTU. */
static const char *const commands[] = {"SWITCH_", "SERVER_", "CONTROLLER_", "BENCH_", "TOP_",
				       "DOCTOR_", "PLAN_",   "INFO_",	    "KEY_",   "SIM_",
				       "PS_",	  "LAB_",    "PYTHON"};

/* Where all texts of errors and the values taken so far are. */
struct load {
	struct fan_config *c;
	char from[KEYS][FROM_BYTES]; /* where keys[i] was taken from; "": from nowhere */
	char *why;
	size_t why_bytes;
	const char *file; /* the INI file */
};

static bool is_text(const struct key *k)
{
	return k->o.kind == FAN_OPTION_PRINTABLE;
}

/* FAN_E_CONFIG: `text` is none of what the option takes. */
static int refuse(const struct fan_option *o, const char *text, const char *where, char *why,
		  size_t bytes)
{
	static const char more[] = "; more are in groups: give each its FANIN_RANK and FANIN_RANKS "
				   "there, and by a controller FANIN_JOB=NAME@GROUP";
	static const char one[] = "; this is a launch of one process: have the launcher start all "
				  "ranks (srun -n N, mpirun -n N), or give each FANIN_RANK and "
				  "FANIN_RANKS";
	const bool counts = !strncmp(o->name, "rank", 4);
	char want[128];
	fan_option_expected(o, want, sizeof want);
	snprintf(why, bytes, "%s: \"%.64s\": expected %s%s", where, text, want,
		 !counts	       ? ""
		 : atol(text) > o->max ? more
		 : !strcmp(text, "1")  ? one
				       : "");
	return FAN_E_CONFIG;
}

/* Check `text` for keys[i]; take it unless a stronger place already gave a value. */
static int take(struct load *l, unsigned i, const char *text, const char *where)
{
	struct fan_config unused;
	const bool is_set = *l->from[i];
	if (!fan_option_set(&keys[i].o, is_set ? &unused : l->c, text))
		return refuse(&keys[i].o, text, where, l->why, l->why_bytes);
	if (!is_set)
		snprintf(l->from[i], FROM_BYTES, "%s", where);
	return FAN_OK;
}

static int take_field(struct load *l, unsigned i, const struct fanin_options *o)
{
	const struct key *k = &keys[i];
	const char *field = (const char *)o + k->field;
	char text[16], where[FAN_CONFIG_NAME_BYTES];
	const char *given = text;
	int value;
	if (is_text(k)) {
		memcpy(&given, field, sizeof given);
		if (!given)
			return FAN_OK;
	} else {
		memcpy(&value, field, sizeof value);
		if (value == k->unset)
			return FAN_OK;
		bool word = k->o.words && value >= k->o.min && value <= k->o.max;
		snprintf(text, sizeof text, "%d", value);
		given = word ? k->o.words[value] : text;
	}
	snprintf(where, sizeof where, "options.%s", k->field_name);
	return take(l, i, given, where) ? FAN_E_INVALID : FAN_OK;
}

/* Return the offset of the first byte of `from` that is set, among those in [at, end); `end`: none
 * is. */
static size_t first_set(const unsigned char *from, size_t at, size_t end)
{
	while (at < end && !from[at])
		at++;
	return at;
}

int fan_sized_take(void *to, const struct fan_sized *kind, const void *from, char *why,
		   size_t bytes)
{
	const size_t given = *(const size_t *)from; /* their first member */
	assert(kind->least >= sizeof given && kind->least <= kind->known);
	assert(kind->known <= FAN_SIZED_MAX && kind->known % sizeof given == 0);
	if (given < kind->least || given > FAN_SIZED_MAX || given % sizeof given) {
		snprintf(why, bytes, "options.size: %zu: expected %zu: set the options with %s",
			 given, kind->known, kind->init);
		return FAN_E_INVALID;
	}
	size_t at = first_set(from, kind->known, given);
	if (at < given) {
		snprintf(why, bytes,
			 "options.size: %zu: byte %zu is set, and this libfanin knows %zu bytes: "
			 "expected zeros there, or a newer libfanin",
			 given, at, kind->known);
		return FAN_E_INVALID;
	}
	memcpy(to, from, given < kind->known ? given : kind->known);
	memcpy(to, &kind->known, sizeof kind->known);
	return FAN_OK;
}

static int take_fields(struct load *l, const struct fanin_options *given)
{
	static const struct fan_sized kind = {.known = sizeof(struct fanin_options),
					      .least = offsetof(struct fanin_options, mtu),
					      .init = "FANIN_OPTIONS_INIT"};
	struct fanin_options o = FANIN_OPTIONS_INIT;
	int e = fan_sized_take(&o, &kind, given, l->why, l->why_bytes);
	if (e)
		return e;
	if (o.reserved || o.reserved_end) {
		snprintf(l->why, l->why_bytes,
			 "options.%s: \"%d\": expected 0: set the options with FANIN_OPTIONS_INIT",
			 o.reserved ? "reserved" : "reserved_end",
			 o.reserved ? o.reserved : o.reserved_end);
		return FAN_E_INVALID;
	}
	l->c->waiting = o.waiting;
	l->c->waiting_arg = o.waiting_arg;
	for (unsigned i = 0; i < KEYS && !e; i++)
		e = keys[i].field_name ? take_field(l, i, &o) : FAN_OK;
	return e;
}

/* FANIN_<NAME>, of a key in the INI file. */
static void variable_of(char *name, const char *key)
{
	size_t n = (size_t)snprintf(name, FAN_CONFIG_NAME_BYTES, PREFIX);
	for (const char *p = key; *p && n < FAN_CONFIG_NAME_BYTES - 1; p++)
		name[n++] = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
	name[n] = '\0';
}

/* The variable of every option that is still unset.  Empty ones count as not set, but for a key's:
 * the job would run open without a word. */
static int take_variables(struct load *l)
{
	int e = FAN_OK;
	for (unsigned i = 0; i < KEYS && !e; i++) {
		char name[FAN_CONFIG_NAME_BYTES];
		variable_of(name, keys[i].o.name);
		const char *text = secure_getenv(name);
		if (!text || *l->from[i] || keys[i].o.kind == FAN_OPTION_OTHER ||
		    keys[i].place == FILE_ONLY)
			continue;
		if (*text) {
			e = take(l, i, text, name);
		} else if (strstr(name, "KEY_FILE")) {
			snprintf(l->why, l->why_bytes,
				 "%s is empty: expected a file; unset it for a job without a key",
				 name);
			e = FAN_E_CONFIG;
		}
	}
	return e;
}

/* KEYS: none. */
static unsigned key_named(const char *name)
{
	unsigned i = 0;
	while (i < KEYS && strcmp(keys[i].o.name, name))
		i++;
	return i;
}

/* Rank and size from the launcher, unless both are known. */
static int take_launcher(struct load *l)
{
	const unsigned key_rank = key_named("rank"), key_ranks = key_named("ranks");
	const char *rank, *ranks;
	if (!fan_rendezvous_ranks(&rank, &ranks))
		return FAN_OK;
	int e = FAN_OK;
	if (!*l->from[key_rank])
		e = take(l, key_rank, fan_option_variable(rank), rank);
	if (!e && !*l->from[key_ranks])
		e = take(l, key_ranks, fan_option_variable(ranks), ranks);
	return e;
}

/* "switch, job, ... hosts or rails". */
static void all_names(char *text, size_t bytes)
{
	struct fan_text t = fan_text_in(text, bytes);
	unsigned last = KEYS - 1;
	while (keys[last].place == VARIABLE_ONLY)
		last--;
	for (unsigned i = 0; i <= last; i++)
		fan_text_add(&t, "%s%s", i == 0 ? "" : i < last ? ", " : " or ", keys[i].o.name);
}

static bool take_line(void *arg, unsigned line, const char *section, const char *name,
		      const char *value)
{
	struct load *l = arg;
	char where[FROM_BYTES], names[FAN_CONFIG_WHY_BYTES * 5 / 8];
	if (strcmp(section, "worker"))
		return true;
	const unsigned i = key_named(name);
	snprintf(where, sizeof where, "%.120s:%u: %.32s", l->file, line, name);
	if (i < KEYS && keys[i].place != VARIABLE_ONLY)
		return take(l, i, value, where) == FAN_OK;
	all_names(names, sizeof names);
	snprintf(l->why, l->why_bytes, "%s: unknown key in [worker]: expected %s", where, names);
	return false;
}

static int take_file(struct load *l)
{
	char wrong[FAN_CONFIG_WHY_BYTES];
	unsigned line;
	l->file = fan_option_variable("FANIN_CONFIG");
	if (!l->file)
		return FAN_OK;
	FILE *stream = fan_file_stream(l->file, FAN_FILE_READ, wrong, sizeof wrong);
	if (!stream) {
		snprintf(l->why, l->why_bytes, "FANIN_CONFIG: cannot read %.300s", wrong);
		return FAN_E_CONFIG;
	}
	int e = fan_option_read(stream, take_line, l, &line, wrong, sizeof wrong);
	fclose(stream);
	if (e < 0)
		snprintf(l->why, l->why_bytes, "%.200s:%u: %.200s", l->file, line, wrong);
	return e ? FAN_E_CONFIG : FAN_OK;
}

static void defaults(struct fan_config *c)
{
	memset(c, 0, sizeof *c);
	for (unsigned i = 0; i < KEYS; i++)
		if (!is_text(&keys[i]) && keys[i].o.kind != FAN_OPTION_OTHER)
			memcpy((char *)c + keys[i].o.at, &keys[i].preset, sizeof keys[i].preset);
	memcpy(c->job, "default", sizeof "default");
}

static void name_job(struct load *l)
{
	const struct fan_config *c = l->c;
	if (!*l->from[key_named("job")])
		fan_rendezvous_job(l->c->job, !*c->switch_addr && !*c->controller_addr);
}

static int check_rank(const struct fan_config *c, char *why, size_t bytes)
{
	if (c->rank == UNSET || c->ranks == UNSET)
		snprintf(why, bytes,
			 "no %s: expected it in %s, the options, or a launcher's variables such as "
			 "RANK and WORLD_SIZE",
			 c->rank == UNSET ? "rank" : "number of ranks",
			 c->rank == UNSET ? "FANIN_RANK" : "FANIN_RANKS");
	else if (c->rank >= c->ranks)
		snprintf(why, bytes, "rank %d of %d ranks: expected 0 to %d", c->rank, c->ranks,
			 c->ranks - 1);
	else
		return FAN_OK;
	return FAN_E_CONFIG;
}

/* Options that are right one by one, but not together. */
static int check_whole(const struct fan_config *c, char *why, size_t bytes)
{
	if (*c->switch_addr && *c->controller_addr)
		snprintf(why, bytes,
			 "switch %.100s and controller %.100s: expected one of them: a controller "
			 "tells the switches",
			 c->switch_addr, c->controller_addr);
	else if (c->mode == FANIN_MODE_FIXED && c->wire != FANIN_WIRE_FLOAT32)
		snprintf(why, bytes,
			 "mode fixed with wire %s: expected wire float32, or mode native",
			 wire_words[c->wire]);
	else if (c->cache && !c->ahead)
		snprintf(why, bytes,
			 "cache %d without ahead: expected ahead as well, by how many fragments "
			 "ranks may run ahead of the slowest",
			 c->cache);
	else
		return fan_switch_list_check(c, why, bytes);
	return FAN_E_CONFIG;
}

/* The largest payload, with `more` bytes beside it, whose datagram fits `mtu` bytes over IPv6. */
static uint16_t payload_bytes(int mtu, int ranks, int more)
{
	int bitmap = (int)fan_partial_words((unsigned)ranks) * 8;
	int room = (mtu - IP_UDP_BYTES - FAN_HEAD_BYTES - more - bitmap) / 64 * 64;
	return (uint16_t)(room > FAN_PAYLOAD_MAX ? FAN_PAYLOAD_MAX : room);
}

uint16_t fan_config_payload_bytes(int mtu, int ranks)
{
	return payload_bytes(mtu, ranks, 0);
}

void fan_config_set_payload(struct fan_config *c)
{
	c->payload_bytes = payload_bytes(c->mtu, c->ranks == UNSET ? 2 : c->ranks,
					 c->keys.count ? FAN_TAG_BYTES : 0);
}

/* Take the keys in `file`, which option `name` names; "": none. */
static int read_key(struct load *l, struct fan_keys *into, const char *file, const char *name)
{
	char wrong[FAN_CONFIG_WHY_BYTES];
	if (!*file || !fan_key_file_read(into, file, wrong, sizeof wrong))
		return FAN_OK;
	snprintf(l->why, l->why_bytes, "%.100s: %.400s", l->from[key_named(name)], wrong);
	return FAN_E_CONFIG;
}

static int take_all(struct load *l, const struct fanin_options *o)
{
	struct fan_config *c = l->c;
	defaults(c);
	*l->why = '\0';
	int e = take_fields(l, o);
	if (!e)
		e = take_variables(l);
	if (!e)
		e = take_launcher(l);
	if (!e)
		e = take_file(l);
	name_job(l);
	c->launch = fan_rendezvous_launch(c->run, c->ranks);
	if (!e)
		e = read_key(l, &c->keys, c->key_file, "key_file");
	if (!e)
		e = read_key(l, &c->controller_keys, c->controller_key_file, "controller_key_file");
	fan_config_set_payload(c);
	return e;
}

int fan_config_load_part(struct fan_config *c, const struct fanin_options *o, char *why,
			 size_t bytes)
{
	struct load l = {.c = c, .why = why, .why_bytes = bytes};
	return take_all(&l, o);
}

int fan_config_load(struct fan_config *c, const struct fanin_options *o, char *why, size_t bytes)
{
	int e = fan_config_load_part(c, o, why, bytes);
	fan_config_misspelt(c->waiting, c->waiting_arg);
	if (!e)
		e = check_rank(c, why, bytes);
	return e ? e : check_whole(c, why, bytes);
}

bool fan_config_is_rank(const struct fan_config *c)
{
	return c->rank != UNSET || c->ranks != UNSET || fan_option_variable("RANK") ||
	       fan_option_variable("WORLD_SIZE");
}

int fan_config_join_ms(const struct fan_config *c)
{
	return c->join_ms ? c->join_ms : c->timeout_ms;
}

int fan_config_note_first_ms(const struct fan_config *c)
{
	int half_ms = fan_config_join_ms(c) / 2;
	return half_ms < FAN_CONFIG_NOTE_FIRST_MS ? half_ms : FAN_CONFIG_NOTE_FIRST_MS;
}

/* The value of an option; "": it has none. */
static const char *value_of(const struct fan_config *c, const struct key *k, char number[16])
{
	const char *at = (const char *)c + k->o.at;
	char name[FAN_CONFIG_NAME_BYTES];
	int value;
	variable_of(name, k->o.name);
	if (k->o.kind == FAN_OPTION_OTHER)
		return fan_option_variable(name) ? fan_option_variable(name) : "";
	if (is_text(k))
		return at;
	memcpy(&value, at, sizeof value);
	snprintf(number, 16, "%d", value);
	return value == UNSET ? "" : k->o.words ? k->o.words[value] : number;
}

int fan_config_list(struct fan_config *c, fan_config_row *row, void *ctx, char *why, size_t bytes)
{
	const struct fanin_options o = FANIN_OPTIONS_INIT;
	struct load l = {.c = c, .why = why, .why_bytes = bytes};
	int e = take_all(&l, &o);
	for (unsigned i = 0; i < KEYS; i++) {
		char number[16];
		const char *value = value_of(c, &keys[i], number);
		if (keys[i].o.kind == FAN_OPTION_OTHER && *value)
			variable_of(l.from[i], keys[i].o.name);
		row(ctx, keys[i].o.name, value, l.from[i]);
	}
	if (!e && fan_config_is_rank(c))
		e = check_rank(c, why, bytes);
	return e ? e : check_whole(c, why, bytes);
}

int fan_config_export(const char *flag, const char *text, char *expected, size_t bytes)
{
	struct fan_config unused;
	char name[FAN_CONFIG_NAME_BYTES];
	unsigned i = key_named(flag);
	snprintf(name, sizeof name, "%.*s_ms", (int)sizeof name - 4, flag);
	if (i == KEYS)
		i = key_named(name);
	assert(i < KEYS);
	if (!fan_option_set(&keys[i].o, &unused, text)) {
		fan_option_expected(&keys[i].o, expected, bytes);
		return FAN_E_CONFIG;
	}
	variable_of(name, keys[i].o.name);
	return setenv(name, text, 1) ? FAN_E_NOMEM : FAN_OK;
}

/* ---- unknown variables ---- */

static bool is_commands(const char *name)
{
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		if (!strncmp(name + strlen(PREFIX), commands[i], strlen(commands[i])))
			return true;
	return false;
}

void fan_config_unknown(fan_config_row *row, void *ctx)
{
	char known[KEYS][FAN_CONFIG_NAME_BYTES], key[FAN_CONFIG_NEAR_BYTES];
	const char *names[KEYS + 1] = {NULL};
	for (unsigned i = 0; i < KEYS; i++) {
		variable_of(known[i], keys[i].o.name);
		names[i] = known[i];
	}
	for (unsigned i = 0; i < ENVIRON_MAX && environ && environ[i]; i++) {
		char name[FAN_CONFIG_NAME_BYTES];
		const size_t bytes = strcspn(environ[i], "=");
		if (strncmp(environ[i], PREFIX, strlen(PREFIX)) || bytes >= sizeof name)
			continue;
		snprintf(name, sizeof name, "%.*s", (int)bytes, environ[i]);
		const bool is_short = bytes <= strlen(PREFIX) + NAME_SHORT;
		const char *near = fan_text_within(name, names, is_short ? 1 : EDITS_MAX);
		unsigned k = 0;
		while (near && strcmp(near, known[k]))
			k++;
		if (near && keys[k].place == FILE_ONLY) {
			snprintf(key, sizeof key, "%s in the file FANIN_CONFIG", keys[k].o.name);
			row(ctx, name, key, "");
		} else if ((!near || strcmp(near, name)) && !is_commands(name)) {
			row(ctx, name, near ? near : "", "");
		}
	}
}

static void report_misspelt(void *ctx, const char *name, const char *near, const char *from)
{
	const struct fan_config *c = ctx;
	char text[2 * FAN_CONFIG_NAME_BYTES + FAN_CONFIG_NEAR_BYTES];
	(void)from;
	if (!*near)
		return;
	snprintf(text, sizeof text, "%s is no variable of fanin; did you mean %s?", name, near);
	c->waiting(c->waiting_arg, text);
}

void fan_config_misspelt(void (*tell)(void *arg, const char *text), void *arg)
{
	static atomic_flag reported = ATOMIC_FLAG_INIT;
	struct fan_config c = {.waiting = tell, .waiting_arg = arg};
	if (tell && !getauxval(AT_SECURE) && !atomic_flag_test_and_set(&reported))
		fan_config_unknown(report_misspelt, &c);
}

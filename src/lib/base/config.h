/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the options of a communicator, from all their sources.
 *
 * By precedence: fields of struct fanin_options, FANIN_* variables, the launcher's variables
 * (rank and ranks only), section [worker] of the INI file FANIN_CONFIG, the defaults.  Other
 * sections of the file belong to other programs and are skipped.  Options that few jobs need have
 * no variable. */
#ifndef FAN_LIB_BASE_CONFIG_H
#define FAN_LIB_BASE_CONFIG_H

#include <fanin.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "seal/key_file.h"

#define FAN_CONFIG_SWITCH_MAX	  255  /* bytes of "HOST:PORT" */
#define FAN_CONFIG_RUN_MAX	  255  /* bytes of a launch's id */
#define FAN_CONFIG_FILE_MAX	  1023 /* bytes of a path */
#define FAN_CONFIG_SWITCHES_MAX	  2047 /* bytes of a list of these */
#define FAN_CONFIG_MTU_MIN	  576
#define FAN_CONFIG_WAIT_MIN_MS	  100	   /* the least timeout_ms and join_ms */
#define FAN_CONFIG_WAIT_MAX_MS	  86400000 /* the largest timeout_ms and join_ms: a day */
#define FAN_CONFIG_RTO_MIN_MAX_MS 1000
#define FAN_CONFIG_PACE		  100
#define FAN_CONFIG_NAME_BYTES	  48   /* "FANIN_TIMEOUT_MS", "options.timeout_ms" */
#define FAN_CONFIG_NEAR_BYTES	  64   /* of the place that an unknown variable stands for */
#define FAN_CONFIG_WHY_BYTES	  512  /* of any error text */
#define FAN_CONFIG_NOTE_FIRST_MS  2000 /* before the first call of `waiting`, at most */
#define FAN_CONFIG_NOTE_MS	  5000 /* between further calls */

struct fan_config {
	/* "HOST:PORT,HOST:PORT"; "": none was named (rendezvous.h) */
	char switch_addr[FAN_CONFIG_SWITCHES_MAX + 1];
	char job[FAN_NAME_MAX + 1];
	char run[FAN_CONFIG_RUN_MAX + 1]; /* what the user calls the launch; "": nothing */
	uint64_t launch; /* its id, of `run`, the launcher or the meeting; 0: not known */
	int rank, ranks;
	int mtu;
	int window; /* fragments per shard; 0: as the switch grants */
	int timeout_ms, alive_ms;
	int mode;					 /* enum fanin_mode */
	int wire;					 /* enum fanin_wire */
	int multicast;					 /* 0, 1; -1: at one switch only */
	char server_addr[FAN_CONFIG_SWITCH_MAX + 1];	 /* "": none */
	char controller_addr[FAN_CONFIG_SWITCH_MAX + 1]; /* "": none */
	int rto_min_ms;					 /* least silence before a probe */
	int pace;	  /* rate limit in percent of the planned rate; 0: none */
	int priority;	  /* 0: by the bytes that the job has left to send */
	int ahead, cache; /* fragments per shard; 0: none */
	int congestion;	  /* enum fan_congestion_kind */
	/* 0, 1; -1: not given.  libfanin(3) explains them */
	int local, hosts, rails;
	int link_mbps;		/* checked here for net/rails.h, which reads the variable */
	uint16_t payload_bytes; /* of a full fragment, follows from mtu */
	char key_file[FAN_CONFIG_FILE_MAX + 1];		   /* "": the job is open */
	struct fan_keys keys;				   /* in it */
	char controller_key_file[FAN_CONFIG_FILE_MAX + 1]; /* "": lines are not signed */
	struct fan_keys controller_keys;		   /* in it */
	int join_ms;					   /* of a join; 0: timeout_ms */
	/* where the ranks meet if no switch is named, "HOST:PORT" at rank 0; "": as
	 * fan_rendezvous_find decides */
	char meeting_addr[FAN_CONFIG_SWITCH_MAX + 1];
	bool meeting_local;			      /* every rank is on rank 0's host */
	bool one_card;				      /* no rails: the caller has them */
	void (*waiting)(void *arg, const char *text); /* as in struct fanin_options */
	void *waiting_arg;
};

/* Fill in `*c` from `*o`, whose size may be another version's (fan_sized_take), and the
 * environment.
 *
 * FAN_E_INVALID  a wrong field
 * FAN_E_CONFIG   a wrong variable or line
 *
 * On error `why`, `bytes` bytes, has the place (file and line, variable or field), the value
 * and the expected values. */
int fan_config_load(struct fan_config *c, const struct fanin_options *o, char *why, size_t bytes);

/* As fan_config_load, for a caller that needs only some options: none is mandatory, and
 * contradictory options are no error. */
int fan_config_load_part(struct fan_config *c, const struct fanin_options *o, char *why,
			 size_t bytes);

/* Whether rank or ranks are set anywhere. */
bool fan_config_is_rank(const struct fan_config *c);

/* As fan_config_load without fields, on a machine where no rank is started, too, and call `row` for
 * each option, also after an error: its name, its value or "", and the variable or line that it
 * came from; "": from none. */
typedef void fan_config_row(void *ctx, const char *name, const char *value, const char *from);
int fan_config_list(struct fan_config *c, fan_config_row *row, void *ctx, char *why, size_t bytes);

/* Time without progress after which a join fails. */
int fan_config_join_ms(const struct fan_config *c);

/* Time before the first call of `waiting`: so early that a short join calls it, too. */
int fan_config_note_first_ms(const struct fan_config *c);

/* Set c->payload_bytes to what fits c->mtu for c->ranks. */
void fan_config_set_payload(struct fan_config *c);

/* The largest payload, in steps of 64, whose datagram, also as a partial sum with the bitmap of
 * `ranks` ranks, fits `mtu` bytes over IPv6. */
uint16_t fan_config_payload_bytes(int mtu, int ranks);

/* For a command whose flag `flag` is the option of that name, or, as `timeout`, without its `_ms`:
 * set the option's variable to `text`.  FAN_OK; or FAN_E_CONFIG, and what was expected. */
int fan_config_export(const char *flag, const char *text, char *expected, size_t bytes);

/* Call `row` for each variable of the environment that begins with FANIN_ and that nothing of fanin
 * reads: its name, and as value the variable or key that was probably meant; "": none is like it.
 */
void fan_config_unknown(fan_config_row *row, void *ctx);

/* Once in a process, report misspelt variables.  `tell` may be NULL. */
void fan_config_misspelt(void (*tell)(void *arg, const char *text), void *arg);

/* ---- structs of the public interface that begin with their size, and may grow ----
 *
 * A program and the library it runs with may come from different versions.  A caller's struct
 * may be smaller than the library's: fields that it lacks keep their initial values.  It may be
 * larger if the bytes beyond the library's struct are zero, which means "not given" in every
 * field added after version 0.1.  Otherwise an option would be ignored silently.
 *
 * New fields go to the end.  None of these structs ends in padding (config.c and embedded_switch.c
 * assert it): a field added there would not change the size, and an older caller's padding would
 * be taken for its value. */

#define FAN_SIZED_MAX 4096 /* bytes of any such struct, now or later */

struct fan_sized {
	size_t known;	  /* bytes of the library's struct, a multiple of a size_t's */
	size_t least;	  /* bytes that every version has had */
	const char *init; /* the macro that sets it, for error texts */
};

/* Copy the caller's struct at `from` over `*to`, which holds the initial values; its size becomes
 * `kind->known`.  Both are aligned for a size_t.
 *
 * FAN_E_INVALID  no version has such a size, or the caller sets a field that this library does
 *                not know.  `why`, `bytes` bytes, names it; `*to` is unspecified. */
int fan_sized_take(void *to, const struct fan_sized *kind, const void *from, char *why,
		   size_t bytes);

#endif

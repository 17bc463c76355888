/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the options of a communicator, from every place that may set them.
 *
 * From the strongest: fields of struct fanin_options, FANIN_* variables, the launcher's
 * variables (rank and ranks only), section [worker] of the INI file FANIN_CONFIG, the
 * defaults.  Other sections of the file belong to other programs and are skipped. */
#ifndef FAN_LIB_CONFIG_H
#define FAN_LIB_CONFIG_H

#include <fanin.h>
#include <stdint.h>

#include "core/base/limits.h"

#define FAN_CONFIG_SWITCH_MAX	  255 /* bytes of "HOST:PORT" */
#define FAN_CONFIG_MTU_MIN	  576
#define FAN_CONFIG_RTO_MIN_MAX_MS 1000
#define FAN_CONFIG_PACE		  100
#define FAN_CONFIG_WHY_BYTES	  512 /* enough for any text of this module */

/* Where ranks run ahead, results wait in the queues of slower ranks, and asking for them sooner
 * than queues empty makes them longer. */
#define FAN_CONFIG_RTO_MIN_AHEAD_MS 20

struct fan_config {
	char switch_addr[FAN_CONFIG_SWITCH_MAX + 1]; /* "": nobody named one (rendezvous.h) */
	char job[FAN_NAME_MAX + 1];
	int rank, ranks;
	int mtu;
	int window; /* fragments per shard; 0: as the switch gives */
	int timeout_ms, alive_ms;
	int mode; /* enum fanin_mode */
	int wire; /* enum fanin_dtype */
	int multicast, checksum, narrow, plain_udp;
	char server_addr[FAN_CONFIG_SWITCH_MAX + 1];	 /* "": none */
	char controller_addr[FAN_CONFIG_SWITCH_MAX + 1]; /* "": none */
	int rto_min_ms;		/* of silence before a result is asked for, at least */
	int pace;		/* percent of the planned rate; 0: as fast as windows allow */
	int priority;		/* 0: by what the job has left to send */
	int ahead, cache;	/* fragments per shard; 0: none */
	uint16_t payload_bytes; /* of a full fragment, follows from mtu */
	void (*waiting)(void *arg, const char *text); /* as in struct fanin_options */
	void *waiting_arg;
};

/* Fill in `*c` from `*o`, whose size may be another version's (sized.h), and the environment.
 *
 * FAN_E_INVALID  a wrong field
 * FAN_E_CONFIG   a wrong variable or line
 *
 * On error `why`, `bytes` bytes, gives the place (file and line, variable or field), what was
 * found there and what was expected. */
int fan_config_load(struct fan_config *c, const struct fanin_options *o, char *why, size_t bytes);

/* The same for a caller that needs some options only: none has to be set, and options that do
 * not go together are no error. */
int fan_config_load_part(struct fan_config *c, const struct fanin_options *o, char *why,
			 size_t bytes);

/* The largest payload whose datagram, and whose sum of `ranks` ranks with its bitmap, fits
 * `mtu` bytes over IPv6, in steps of 64. */
uint16_t fan_config_payload_bytes(int mtu, int ranks);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* fanin_switch.h - what the library itself needs of a switch beyond the public functions. */
#ifndef FAN_LIB_API_FANIN_SWITCH_H
#define FAN_LIB_API_FANIN_SWITCH_H

#include <fanin.h>
#include <stddef.h>

struct fan_daemon;

/* As fanin_switch_start; another process may go on with it (fan_daemon_estate). */
int fan_switch_start_lasting(const struct fanin_switch_options *options, fanin_switch **started,
			     char *why, size_t why_bytes);
/* As fanin_switch_stop, but it waits for the jobs `of` alone. */
struct fan_drain;
void fan_switch_stop(fanin_switch *running, const struct fan_drain *of, int linger_ms);

/* The daemon that a running switch is. */
struct fan_daemon *fan_switch_daemon(const fanin_switch *running);

#endif

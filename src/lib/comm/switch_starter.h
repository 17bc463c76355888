/* SPDX-License-Identifier: Apache-2.0 */
/* switch_starter.h - a switch inside this process: src/net/daemon with the options of the library.
 */
#ifndef FAN_LIB_COMM_SWITCH_STARTER_H
#define FAN_LIB_COMM_SWITCH_STARTER_H

#include <fanin.h>
#include <stdbool.h>
#include <stddef.h>

struct fan_daemon;
struct fan_drain;

/* As fanin_switch_start. */
int fan_switch_start(const struct fanin_switch_options *options, fanin_switch **started, char *why,
		     size_t why_bytes);

/* As fanin_switch_address. */
const char *fan_switch_address(const fanin_switch *running);

/* As fanin_switch_stop, but it waits for the jobs `of` alone; NULL: for all. */
void fan_switch_stop(fanin_switch *running, const struct fan_drain *of, int linger_ms);

/* The daemon that a running switch is. */
struct fan_daemon *fan_switch_daemon(const fanin_switch *running);

#endif

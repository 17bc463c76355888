/* SPDX-License-Identifier: Apache-2.0 */
/* fanin_switch.h - what the library itself needs of a switch beyond the public functions. */
#ifndef FAN_LIB_FANIN_SWITCH_H
#define FAN_LIB_FANIN_SWITCH_H

#include <fanin.h>

struct fan_daemon;

/* The daemon that a running switch is. */
struct fan_daemon *fan_switch_daemon(const fanin_switch *running);

#endif

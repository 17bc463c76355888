/* SPDX-License-Identifier: Apache-2.0 */
/* switch_list.h - the addresses that a rank is given, "HOST:PORT,HOST:PORT": what of them is wrong
 * before anybody is asked. */
#ifndef FAN_LIB_BASE_SWITCH_LIST_H
#define FAN_LIB_BASE_SWITCH_LIST_H

#include "config.h"

/* FAN_OK; or FAN_E_CONFIG, and `why`, `bytes` bytes, says which of the switches, the server and the
 * controller is no address, or too many or twice there. */
int fan_switch_list_check(const struct fan_config *c, char *why, size_t bytes);

#endif

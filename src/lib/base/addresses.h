/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.h - the addresses that a rank is given, "HOST:PORT,HOST:PORT": what of them is wrong
 * before anybody is asked, and names that may not be known yet: a pod's name enters the DNS when
 * the pod starts. */
#ifndef FAN_LIB_BASE_ADDRESSES_H
#define FAN_LIB_BASE_ADDRESSES_H

#include "config.h"
#include "core/base/out.h"

/* FAN_OK; or FAN_E_CONFIG, and `why`, `bytes` bytes, says which of the switches, the server and the
 * controller is no address, or too many or twice there. */
int fan_switch_list_check(const struct fan_config *c, char *why, size_t bytes);

/* The addresses of `text`, "HOST:PORT", at most `max`.  A name that is not known is asked for again
 * until the time to join is over; cfg->waiting is told.  FAN_OK; or FAN_E_CONFIG, and `why`,
 * `bytes` bytes, says what is wrong. */
int fan_resolve_all(fan_peer *to, unsigned max, unsigned *count, const char *text,
		    const struct fan_config *cfg, char *why, size_t bytes);

#endif

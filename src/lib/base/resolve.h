/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.h - names of other hosts, which may not be known yet: a pod's name enters the DNS when
 * the pod starts. */
#ifndef FAN_LIB_BASE_RESOLVE_H
#define FAN_LIB_BASE_RESOLVE_H

#include "config.h"
#include "core/base/out.h"

/* The address of `text`, "HOST:PORT".  A name that is not known is asked for again until the time
 * to join is over; cfg->waiting is told.  FAN_OK; or FAN_E_CONFIG, and `why`, `bytes` bytes, says
 * what is wrong. */
int fan_resolve(fan_peer *to, const char *text, const struct fan_config *cfg, char *why,
		size_t bytes);

#endif

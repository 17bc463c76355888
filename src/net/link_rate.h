/* SPDX-License-Identifier: Apache-2.0 */
/* link_rate.h - the rate of a host's link, as far as its card or its user tells.
 *
 * Only cards tell: interfaces that are no devices (veth, bridges, tunnels) name rates that no link
 * has.  A shaper, a provider's limit or a narrower link further on shows nowhere; FANIN_LINK_MBPS
 * declares those. */
#ifndef FAN_LINK_RATE_H
#define FAN_LINK_RATE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/out.h"

#define FAN_LINK_MBPS_MAX 4000000 /* Mb/s */

/* The rate in Mb/s of the link towards `at`, which may be an address of this host; 0: not known. */
int32_t fan_link_rate_to(const fan_peer *at);

/* That of the interface whose folder in sysfs is `folder`. */
int32_t fan_link_rate_of(const char *folder);

/* The rate that `text` has, NULL: none.  0: it has none; -1: it is no rate. */
int32_t fan_link_rate_parse(const char *text);

#endif

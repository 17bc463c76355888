/* SPDX-License-Identifier: Apache-2.0 */
/* embedded_switch.h - switches in the process of a rank, for jobs without a named switch.
 *
 * Communicators whose jobs meet at one port share a switch: it lives from the first to the
 * last of them.  A child of fork() has none.
 *
 * A rank's process may end right after its last operation, while other ranks lack the result.  They
 * have been sent theirs before it has had its own (net/udp_send.c).  If one was lost on the way,
 * its rank asks again; so a process that ends by exit() lingers while somebody asks, for
 * FAN_EMBEDDED_EXIT_MS at most.  After _exit() or a signal the others fail, and name the rank. */
#ifndef FAN_LIB_COMM_EMBEDDED_SWITCH_H
#define FAN_LIB_COMM_EMBEDDED_SWITCH_H

#include <fanin.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/rendezvous.h"

#define FAN_EMBEDDED_SWITCHES_MAX 64	/* switches in one process */
#define FAN_EMBEDDED_BIND_MS	  10000 /* longest wait for a port in use */
#define FAN_EMBEDDED_EXIT_MS	  2000	/* longest delay of exit() */
#define FAN_EMBEDDED_QUIET_MS	  1000	/* of it without a packet: over twice the pause of PROBEs */
#define FAN_EMBEDDED_THREADS	  1	/* of a switch: no more than one core of its host */
#define FAN_EMBEDDED_SLOTS	  32768 /* in memory once they are used: room for many groups */

struct fan_daemon;
struct fan_embedded_switch;

/* Start or share the switch at `at`: on loopback if all ranks are on this host, otherwise on every
 * interface, since other hosts may know this one by another address.
 *
 * The last run's switch may still hold the port for its slower ranks, so a start that the system
 * refuses is repeated for FAN_EMBEDDED_BIND_MS, at most the communicator's time-out.  FAN_OK and
 * `*sw`, to be given to fan_embedded_switch_put; or an error with its sentence in `why`. */
int fan_embedded_switch_get(struct fan_embedded_switch **sw, const struct fan_rendezvous *at,
			    const struct fan_config *cfg, char *why, size_t bytes);

/* One more user of a switch, who returns it.  NULL is allowed. */
struct fan_embedded_switch *fan_embedded_switch_share(struct fan_embedded_switch *sw);

/* The daemon that it is; NULL: `sw` is. */
struct fan_daemon *fan_embedded_switch_daemon(const struct fan_embedded_switch *sw);

/* Return a switch.  The last user waits up to `linger_ms` for the ranks that are still joined and
 * stops it.  NULL is allowed. */
void fan_embedded_switch_put(struct fan_embedded_switch *sw, int linger_ms);

#endif

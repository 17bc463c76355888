/* SPDX-License-Identifier: Apache-2.0 */
/* own_switch.h - the switches that this process has started for jobs in which it is rank 0
 * and for which nobody named a switch.
 *
 * Communicators whose jobs meet at the same port share one: it lives from the first to the
 * last of them.  A child that fork() made has none. */
#ifndef FAN_LIB_OWN_SWITCH_H
#define FAN_LIB_OWN_SWITCH_H

#include <stddef.h>

#include "rendezvous.h"

#define FAN_OWN_SWITCHES_MAX 16	   /* ports at a time in one process */
#define FAN_OWN_BIND_MS	     10000 /* to wait for a port that is still taken */

struct fan_own_switch;

/* Start one where `at` says, or share it: on loopback if all ranks are on this host, else
 * on every interface, since others may know it by another address than we do.
 *
 * The last run's switch may still hold the port for its slower ranks, so a start that the
 * system refuses is tried again for FAN_OWN_BIND_MS, or `patience_ms` if that is less.
 * FAN_OK and `*own`, which is to be given back; or an error, and why. */
int fan_own_switch_get(struct fan_own_switch **own, const struct fan_rendezvous *at,
		       const struct fan_config *cfg, char *why, size_t bytes);

/* Give it back.  The last one waits up to `linger_ms` for the ranks that are still there,
 * then stops it.  NULL is allowed. */
void fan_own_switch_put(struct fan_own_switch *own, int linger_ms);

#endif

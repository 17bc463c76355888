/* SPDX-License-Identifier: Apache-2.0 */
/* xdp.h - the plane of `--plane xdp`: AF_XDP sockets behind a program at an interface.
 *
 * Needs Linux 5.9, CAP_NET_ADMIN and CAP_BPF.  The kernel removes the program when its last
 * descriptor is closed, so also when the process is killed. */
#ifndef FAN_XDP_H
#define FAN_XDP_H

#include "net/plane.h"

/* Open the plane that `w` asks for and attach it to the interface.  0 and `*p`; or -1 with `why`:
 * no such interface, it is down, frames that do not fit, no privilege, no AF_XDP in this kernel,
 * queues fewer than shards, a queue or the interface in use. */
int xdp_open(struct fan_plane **p, const struct fan_plane_wish *w, char *why, size_t bytes);

#endif

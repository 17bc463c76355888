/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_daemon.h - metrics of a daemon. */
#ifndef FAN_CMD_METRICS_DAEMON_H
#define FAN_CMD_METRICS_DAEMON_H

#include "net/daemon.h"
#include "net/expose.h"

/* Everything about a running daemon: its build, its process, shards and jobs. */
void metrics_put_daemon(struct fan_expose *x, struct fan_daemon *d, const char *role);

#endif

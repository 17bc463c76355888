/* SPDX-License-Identifier: Apache-2.0 */
/* forks.h - whether this process is a child of the one that made an object: a child that
 * fork() made has none of its parent's threads, and must leave its parent's sockets alone. */
#ifndef FAN_LIB_FORKS_H
#define FAN_LIB_FORKS_H

/* How often this process is the child of a fork(), since the first call.  An object keeps
 * the number from its making; it is the parent's when the number has changed. */
unsigned fan_forks(void);

#endif

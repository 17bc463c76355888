/* SPDX-License-Identifier: Apache-2.0 */
/* fork_guard.h - detects use of an object in a child of fork(), which has none of its parent's
 * threads and must not use its parent's sockets. */
#ifndef FAN_LIB_BASE_FORK_GUARD_H
#define FAN_LIB_BASE_FORK_GUARD_H

/* Forks between the first caller and this process.  An object stores the number when it is made;
 * if the number has changed since, the object belongs to the parent. */
unsigned fan_fork_guard(void);

#endif

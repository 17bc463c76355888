/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - the ranks of this process, and a thread that reports to their user.
 *
 * The thread begins with the first rank and ends with the last, within FAN_REGISTRY_END_MS: beyond
 * that a call into the program goes on alone.  It writes the process's status file
 * (lib/base/rank_file.h) when it begins and whenever somebody looks, and it reports when a rank
 * waits for long.  It waits for no operation: of a rank that does not answer within
 * FAN_REGISTRY_ASK_MS the last state is shown.  Without a folder there is no file, which
 * fan_rank_file_error reports once.  A child of fork() begins without ranks. */
#ifndef FAN_LIB_RANK_REGISTRY_H
#define FAN_LIB_RANK_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_REGISTRY_MAX      1024 /* ranks of a process that are shown */
#define FAN_REGISTRY_ASK_MS   100  /* for ranks to report their state */
#define FAN_REGISTRY_WRITE_MS 250  /* between two times that the file is written, at least */
#define FAN_REGISTRY_END_MS   2000 /* for the thread to end; then nobody waits for it */
#define FAN_REGISTRY_TURN_MS  1000 /* between two looks at how far ranks are */
#define FAN_REGISTRY_TURNS    10   /* over which rates are taken */
#define FAN_REGISTRY_WAIT_NS  1000000000ull /* without progress, before a rank counts as waiting */

#define FAN_REGISTRY_TELL_MS	   30000 /* without progress, before a rank reports its wait */
#define FAN_REGISTRY_BEFORE_END_MS 2000	 /* at the latest so long before timeout_ms */
#define FAN_REGISTRY_TELL_LEAST_MS 5000	 /* a rank that would report sooner does not */

struct fan_rank;

/* A rank whose thread has been started; and before it is stopped, from then on nobody looks at it.
 * Remove does nothing for one that was not added. */
void fan_registry_add(struct fan_rank *r);

/* Does another one of this process, that was added, have the rank that `r` asks for? */
bool fan_registry_has_rank_of(const struct fan_rank *r);
void fan_registry_remove(struct fan_rank *r);

/* Inform the program by `tell` when a rank has waited for long; NULL: no more, and it is not under
 * way when this returns. */
typedef void fan_registry_tell(void *arg, const char *text);
void fan_registry_tell_to(fan_registry_tell *tell, void *arg);

#endif

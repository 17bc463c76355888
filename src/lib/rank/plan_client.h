/* SPDX-License-Identifier: Apache-2.0 */
/* plan_client.h - the controller client of a communicator.
 *
 * Before the communicator joins, it requests the parts of its job and opens connections for
 * them.  Later the controller moves parts to other routes, or ends the communicator because a
 * server is lost.  Without a controller the communicator continues as it is, and redials.
 *
 * Only the progress thread uses it. */
#ifndef FAN_LIB_RANK_PLAN_CLIENT_H
#define FAN_LIB_RANK_PLAN_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_PLAN_CLIENT_AGAIN_MS 250 /* between tries to open the socket of a moved part */

struct fan_rank;

void fan_plan_client_init(struct fan_rank *r);
void fan_plan_client_free(struct fan_rank *r);

/* Handle the controller's messages and answer them.  May end the communicator. */
void fan_plan_client_work(struct fan_rank *r, uint64_t now_ns);
uint64_t fan_plan_client_deadline(const struct fan_rank *r);

/* Write what it waits for to `text`, `bytes` bytes. */
void fan_plan_client_text(const struct fan_rank *r, char *text, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - where the ranks of a job meet when nobody named a switch: at rank 0,
 * which starts one, at a place that follows from what the launcher told all of them.
 *
 * torchrun's MASTER_ADDR and MASTER_PORT name a TCP port of rank 0's host; UDP has a port
 * space of its own, so the switch takes the same number.  Slurm and Open MPI name no port:
 * it follows from the job's id. */
#ifndef FAN_LIB_RENDEZVOUS_H
#define FAN_LIB_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

#define FAN_RENDEZVOUS_PORT  20000 /* the first of those that follow from a job's id... */
#define FAN_RENDEZVOUS_PORTS 10000 /* ...and how many; below Linux's ephemeral ports */

struct fan_rendezvous {
	char addr[FAN_CONFIG_SWITCH_MAX + 1]; /* "HOST:PORT", "[V6]:PORT" */
	bool one_host;			      /* every rank is on rank 0's host */
};

/* Ask the environment.  FAN_OK; or FAN_E_CONFIG, and `why`, `bytes` bytes, says what was
 * expected where. */
int fan_rendezvous_find(struct fan_rendezvous *r, char *why, size_t bytes);

/* A name for the launcher's job, that no other job on the same switch has: `job`,
 * FAN_NAME_MAX + 1 bytes.  Unchanged where the launcher does not tell. */
void fan_rendezvous_job(char *job);

/* The first name of Slurm's list of hosts, such as "n[07-09,12]-ib,m1": "n07-ib".  False:
 * it does not fit `bytes` or is not such a list. */
bool fan_rendezvous_first_host(const char *list, char *host, size_t bytes);

#endif

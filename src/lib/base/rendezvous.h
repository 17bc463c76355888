/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - the meeting point of a job without a named switch: at rank 0, which starts one,
 * at an address and port that follow from the launcher's variables.
 *
 * torchrun's MASTER_ADDR and MASTER_PORT name a TCP port of rank 0's host; UDP has a port
 * space of its own, so the switch takes the same number.  Slurm and Open MPI name no port:
 * it follows from the job's id. */
#ifndef FAN_LIB_BASE_RENDEZVOUS_H
#define FAN_LIB_BASE_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

#define FAN_RENDEZVOUS_PORT  20000 /* first port that a job's id may give */
#define FAN_RENDEZVOUS_PORTS 10000 /* number of such ports, below Linux's ephemeral ones */

struct fan_rendezvous {
	char addr[FAN_CONFIG_SWITCH_MAX + 1]; /* "HOST:PORT", "[V6]:PORT" */
	bool one_host;			      /* every rank is on rank 0's host */
};

/* Read the environment.  FAN_OK; or FAN_E_CONFIG, and `why`, `bytes` bytes, names the variable and
 * what was expected. */
int fan_rendezvous_find(struct fan_rendezvous *r, char *why, size_t bytes);

/* Write a name for the launcher's job, unique on its switch, to `job`, FAN_NAME_MAX + 1 bytes;
 * `inside`: the switch is inside rank 0, the others may know that host by other names.  Unchanged
 * if the launcher gives no job id. */
void fan_rendezvous_job(char *job, bool inside);

/* The id of this launch of the program for a job of `ranks` ranks (less than 0: not known): a
 * hash of `run`, unless that is "", or of the id that the launcher gives it, if it has started as
 * many. Ranks that meet at this host's loopback address have the host in it.  0: nothing tells
 * launches apart.  Odd: no other launch has it. */
uint64_t fan_rendezvous_launch(const char *run, int ranks);

/* Write `job` and `suffix` to `name`, FAN_NAME_MAX + 1 bytes.  If they do not fit, a hash of `job`
 * replaces its end. */
void fan_rendezvous_derive(char *name, const char *job, const char *suffix);

/* The first name of Slurm's list of hosts: "n07-ib" of "n[07-09,12]-ib,m1".  False: it does not fit
 * `bytes`, or `list` is no such list. */
bool fan_rendezvous_first_host(const char *list, char *host, size_t bytes);

#endif

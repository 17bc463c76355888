/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - whether the ranks of a host share memory, decided alike by all ranks. */
#ifndef FAN_LIB_HOST_RULES_H
#define FAN_LIB_HOST_RULES_H

#include <stdbool.h>

#include "lib/base/config.h"
#include "lib/base/hosts.h"

/* Each column is a job of its own at each named switch, which has 64 of them. */
#define FAN_HOST_NAMED_COLUMNS 4

/* Do the options allow it?  Not in fixed mode, nor with run-ahead: each rank then sends its own
 * contributions.  FANIN_LOCAL=0 turns it off. */
bool fan_host_sharing_is_wanted(const struct fan_config *cfg);

/* Do they ask for it, by FANIN_LOCAL=1?  Also where all ranks are on one host with a named switch,
 * which they would not use; and where hosts leave all sums to named switches (FANIN_HOSTS=0). */
bool fan_host_sharing_is_asked_for(const struct fan_config *cfg);

/* Shall the `ranks` ranks that have met do so?  All have the same answer.  `named`: at named
 * switches, where they must have asked if no host sums beside these. */
bool fan_host_sharing_is_agreed(const struct fan_meeting *m, unsigned ranks, bool named);

/* Does any host have more than one rank, and none too many? */
bool fan_host_sharing_pays(const struct fan_meeting *m);

/* The columns that they have then. */
unsigned fan_host_columns(const struct fan_meeting *m, bool named);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* stranger.h - somebody who belongs to no job, and sends what may harm one.
 *
 * Where jobs are open it sees no packet of theirs: it knows all addresses, names and routes, may
 * send with the address of anybody, and hears what is sent to its own.  Where they are sealed it
 * sees all packets, keeps some of them, and lacks nothing but the key.  Either way no rank may end
 * with an error, and no sum be wrong. */
#ifndef TEST_SIM_STRANGER_H
#define TEST_SIM_STRANGER_H

#include "story.h"

/* Let it send one packet. */
void stranger_strike(struct run *r);

/* Something has come to its own address. */
void stranger_hear(struct run *r, const struct sim_packet *p);

void stranger_free(struct run *r);

#endif

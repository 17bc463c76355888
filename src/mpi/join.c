/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "file/option.h"
#include "lib/comm/comm.h"
#include "meet.h"

void fan_mpi_join(struct fan_mpi_join *j)
{
	assert(j->rank >= 0 && j->rank < j->ranks);
	struct fanin_options o = FANIN_OPTIONS_INIT;
	const struct fan_comm_terms terms = {
		.meeting_addr = j->meet.addr,
		.meeting_local = j->meet.local,
		.join_ms = FAN_MPI_JOIN_MS,
	};
	o.rank = j->rank;
	o.ranks = j->ranks;
	o.job = j->meet.job;
	if (!fan_option_variable("FANIN_TIMEOUT_MS"))
		o.timeout_ms = FAN_MPI_WAIT_MS;
	if (!fan_option_variable("FANIN_ALIVE_MS"))
		o.alive_ms = FAN_MPI_ALIVE_MS;
	j->result = fan_comm_create_on(&o, &terms, &j->job);
	if (!j->result)
		fan_comm_metrics_start(j->job);
}

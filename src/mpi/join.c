/* SPDX-License-Identifier: Apache-2.0 */
#include "join.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "lib/api/metrics.h"
#include "lib/comm/comm.h"

static bool is_set(const char *name)
{
	const char *text = secure_getenv(name);
	return text && *text;
}

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
	if (!is_set("FANIN_TIMEOUT_MS"))
		o.timeout_ms = FAN_MPI_WAIT_MS;
	if (!is_set("FANIN_ALIVE_MS"))
		o.alive_ms = FAN_MPI_ALIVE_MS;
	j->result = fan_comm_create_on(&o, &terms, &j->job);
	if (!j->result)
		fan_comm_metrics_start(j->job);
}

const char *fan_mpi_join_error(const struct fan_mpi_join *j)
{
	return j->job ? fanin_comm_error(j->job) : fanin_strerror(j->result);
}

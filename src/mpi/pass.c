/* SPDX-License-Identifier: Apache-2.0 */
#include "pass.h"

#include <string.h>

void fan_mpi_pass_init(struct fan_mpi_pass *p)
{
	memset(p, 0, sizeof *p);
	p->rest = &p->endless;
}

void fan_mpi_pass_forget(struct fan_mpi_pass *p)
{
	uint64_t calls = p->from - *p->rest;
	if (calls)
		fan_mpi_report_add(p->why, calls, calls * p->bytes);
	fan_mpi_pass_init(p);
}

void fan_mpi_pass_remember(struct fan_mpi_pass *p, MPI_Count count, MPI_Datatype type, MPI_Op op,
			   uint64_t *rest, size_t bytes, enum fan_mpi_why why)
{
	fan_mpi_pass_forget(p);
	*p = (struct fan_mpi_pass){
		.rest = rest ? rest : &p->endless,
		.endless = rest ? 0 : UINT64_MAX,
		.count = count,
		.type = type,
		.op = op,
		.bytes = bytes,
		.why = why,
	};
	p->from = *p->rest;
}

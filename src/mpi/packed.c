/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "types.h"

/* Elements in one call of MPI, and the distance between two elements. */
struct pace {
	MPI_Count at_once, extent;
	size_t each;
};

static int find_pace(struct pace *p, MPI_Datatype type)
{
	MPI_Count low;
	p->each = fan_mpi_type_bytes(type);
	if (!p->each || p->each > INT_MAX)
		return MPI_ERR_COUNT;
	p->at_once = p->each < FAN_PACKED_AT_ONCE ? FAN_PACKED_AT_ONCE / (MPI_Count)p->each : 1;
	return PMPI_Type_get_extent_x(type, &low, &p->extent);
}

/* Elements from number `n` on, at most at_once. */
static int some(const struct pace *p, MPI_Count n, MPI_Count count)
{
	assert(p->at_once > 0 && n < count);
	return (int)(count - n < p->at_once ? count - n : p->at_once);
}

void *fan_mpi_pack(const void *from, MPI_Count count, MPI_Datatype type, size_t bytes, int fill,
		   MPI_Comm comm)
{
	struct pace p;
	char *packed = malloc(bytes);
	int e = packed ? find_pace(&p, type) : MPI_ERR_NO_MEM;
	for (MPI_Count n = 0; !e && fill && n < count; n += p.at_once) {
		int position = 0, now = some(&p, n, count);
		e = PMPI_Pack((const char *)from + n * p.extent, now, type,
			      packed + (size_t)n * p.each, (int)((size_t)now * p.each), &position,
			      comm);
	}
	if (!e)
		return packed;
	free(packed);
	return NULL;
}

int fan_mpi_unpack(const void *packed, void *to, MPI_Count count, MPI_Datatype type, MPI_Comm comm)
{
	struct pace p;
	int e = find_pace(&p, type);
	for (MPI_Count n = 0; !e && n < count; n += p.at_once) {
		int position = 0, now = some(&p, n, count);
		e = PMPI_Unpack((const char *)packed + (size_t)n * p.each,
				(int)((size_t)now * p.each), &position, (char *)to + n * p.extent,
				now, type, comm);
	}
	return e;
}

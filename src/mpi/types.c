/* SPDX-License-Identifier: Apache-2.0 */
#include "types.h"

#include <fanin.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

#define NESTED_MAX 16 /* depth of contiguous types within contiguous types */
#define TYPES_MAX  48
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

struct row {
	MPI_Datatype type;
	int dtype; /* FANIN_UINT8: fanin cannot reduce it */
	unsigned each;
	bool is_unsigned; /* sums have the same bits as with a sign; minima and maxima have not */
	bool is_complex;  /* has no order */
	size_t bytes;	  /* of one of MPI's elements */
};

static struct row rows[TYPES_MAX];
static unsigned row_count;
static _Atomic(const struct row *) last = rows; /* the row of the last look-up */

static size_t dtype_bytes(int dtype)
{
	switch (dtype) {
	case FANIN_FLOAT32:
	case FANIN_INT32: return 4;
	case FANIN_INT64:
	case FANIN_FLOAT64: return 8;
	case FANIN_UINT8: return 1;
	default: return 2;
	}
}

/* Types that this MPI was built without, such as Fortran's, have another size or are null. */
static void add(struct row row)
{
	int bytes = 0;
	if (row.type == MPI_DATATYPE_NULL || row_count == TYPES_MAX ||
	    PMPI_Type_size(row.type, &bytes) || bytes < 0 ||
	    (size_t)bytes != row.each * dtype_bytes(row.dtype))
		return;
	row.bytes = (size_t)bytes;
	rows[row_count++] = row;
}

static void add_integers(const MPI_Datatype *types, size_t count, bool is_unsigned)
{
	for (size_t i = 0; i < count; i++) {
		struct row row = {types[i], FANIN_INT64, 1, is_unsigned, false, 0};
		add(row);
		row.dtype = FANIN_INT32;
		add(row);
	}
}

void fan_mpi_types_init(void)
{
	const MPI_Datatype with_sign[] = {MPI_INT,     MPI_LONG,    MPI_LONG_LONG, MPI_INT32_T,
					  MPI_INT64_T, MPI_INTEGER, MPI_INTEGER4,  MPI_INTEGER8,
					  MPI_AINT,    MPI_OFFSET,  MPI_COUNT};
	const MPI_Datatype without[] = {MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG,
					MPI_UINT32_T, MPI_UINT64_T};
	row_count = 0;
	add((struct row){MPI_FLOAT, FANIN_FLOAT32, 1, false, false, 0});
	add_integers(with_sign, COUNT(with_sign), false);
	add_integers(without, COUNT(without), true);
	add((struct row){MPI_REAL, FANIN_FLOAT32, 1, false, false, 0});
	add((struct row){MPI_REAL4, FANIN_FLOAT32, 1, false, false, 0});
	add((struct row){MPI_C_FLOAT_COMPLEX, FANIN_FLOAT32, 2, false, true, 0});
	add((struct row){MPI_COMPLEX, FANIN_FLOAT32, 2, false, true, 0});
	add((struct row){MPI_DOUBLE, FANIN_FLOAT64, 1, false, false, 0});
	add((struct row){MPI_DOUBLE_PRECISION, FANIN_FLOAT64, 1, false, false, 0});
	add((struct row){MPI_REAL8, FANIN_FLOAT64, 1, false, false, 0});
	add((struct row){MPI_C_DOUBLE_COMPLEX, FANIN_FLOAT64, 2, false, true, 0});
	add((struct row){MPI_DOUBLE_COMPLEX, FANIN_FLOAT64, 2, false, true, 0});
	add((struct row){MPI_BYTE, FANIN_UINT8, 1, true, true, 0});
	add((struct row){MPI_CHAR, FANIN_UINT8, 1, true, true, 0});
#ifdef MPIX_C_FLOAT16
	add((struct row){MPIX_C_FLOAT16, FANIN_FLOAT16, 1, false, false, 0});
#endif
}

static const struct row *find(MPI_Datatype type)
{
	const struct row *row = atomic_load_explicit(&last, memory_order_relaxed);
	if (row->type == type && row_count)
		return row;
	for (unsigned i = 0; i < row_count; i++)
		if (rows[i].type == type) {
			atomic_store_explicit(&last, &rows[i], memory_order_relaxed);
			return &rows[i];
		}
	return NULL;
}

/* fanin's operation for `op`; false: it has none. */
static bool find_op(int *found, const struct row *row, MPI_Op op)
{
	if (row->dtype == FANIN_UINT8)
		return false;
	*found = op == MPI_SUM ? FANIN_SUM : op == MPI_MIN ? FANIN_MIN : FANIN_MAX;
	return op == MPI_SUM ||
	       ((op == MPI_MIN || op == MPI_MAX) && !row->is_unsigned && !row->is_complex);
}

bool fan_mpi_sum_find(struct fan_mpi_sum *sum, MPI_Datatype type, MPI_Op op)
{
	const struct row *row = find(type);
	if (!row || !find_op(&sum->op, row, op))
		return false;
	sum->dtype = row->dtype;
	sum->each = row->each;
	sum->bytes = row->bytes;
	return true;
}

bool fan_mpi_type_is_named(MPI_Datatype type, MPI_Op op, size_t *bytes, bool *known)
{
	const struct row *row = find(type);
	int unused;
	if (!row)
		return false;
	*bytes = row->bytes;
	*known = op == MPI_OP_NULL || find_op(&unused, row, op);
	return true;
}

size_t fan_mpi_type_bytes(MPI_Datatype type)
{
	const struct row *row = find(type);
	MPI_Count bytes = 0;
	if (row)
		return row->bytes;
	if (type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &bytes) || bytes < 0)
		return 0;
	return (size_t)bytes;
}

static bool has_gaps(MPI_Datatype type)
{
	MPI_Count low, extent, bytes;
	return PMPI_Type_get_extent_x(type, &low, &extent) || PMPI_Type_size_x(type, &bytes) ||
	       low || extent != bytes;
}

/* MPI_Type_get_envelope_c, which MPI 3 and its headers lack. */
extern int envelope_c(MPI_Datatype type, MPI_Count *integers, MPI_Count *addresses,
		      MPI_Count *counts, MPI_Count *types,
		      int *combiner) __asm__("PMPI_Type_get_envelope_c") __attribute__((weak));

/* Was `type` made with large counts?  Then MPI_Type_get_envelope is an error. */
static bool is_large(MPI_Datatype type)
{
	MPI_Count integers, addresses, counts = 0, types;
	int combiner;
	return envelope_c &&
	       (envelope_c(type, &integers, &addresses, &counts, &types, &combiner) || counts > 0);
}

/* The type that `type` repeats without gaps, which the caller frees unless it is named;
 * MPI_DATATYPE_NULL: `type` is constructed in another manner. */
static MPI_Datatype inner_of(MPI_Datatype type, bool *named)
{
	int integers, addresses, types, combiner, integer;
	MPI_Aint address;
	MPI_Datatype inner = MPI_DATATYPE_NULL;
	*named = false;
	if (is_large(type) ||
	    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner))
		return MPI_DATATYPE_NULL;
	*named = combiner == MPI_COMBINER_NAMED;
	if (combiner != MPI_COMBINER_CONTIGUOUS && combiner != MPI_COMBINER_DUP)
		return MPI_DATATYPE_NULL;
	if (integers > 1 || addresses > 0 || types != 1 ||
	    PMPI_Type_get_contents(type, integers, addresses, types, &integer, &address, &inner))
		return MPI_DATATYPE_NULL;
	return inner;
}

bool fan_mpi_type_is_plain(MPI_Datatype type)
{
	bool named = false, owned = false;
	MPI_Datatype at = type;
	if (find(type))
		return true;
	if (has_gaps(type))
		return false;
	for (int n = 0; n < NESTED_MAX && !named && at != MPI_DATATYPE_NULL; n++) {
		MPI_Datatype inner = inner_of(at, &named);
		if (owned && !named)
			PMPI_Type_free(&at);
		owned = true;
		if (!named)
			at = inner;
	}
	return named;
}

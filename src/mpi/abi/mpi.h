/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.h - the standard ABI of MPI 5.0, as far as this folder uses MPI.
 *
 * Sizes, layouts and values are those of the standard's chapter "Application Binary Interface" (ABI
 * 1.0), which are the same in every MPI that has a libmpi_abi.so.  Handles are pointers of types
 * that are never complete. */
#ifndef FAN_MPI_ABI_MPI_H
#define FAN_MPI_ABI_MPI_H

#include <stdint.h>

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;

typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Group *MPI_Group;
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Request *MPI_Request;

typedef struct {
	int MPI_SOURCE, MPI_TAG, MPI_ERROR, MPI_internal[5];
} MPI_Status;

typedef int MPI_Comm_copy_attr_function(MPI_Comm, int, void *, void *, void *, int *);
typedef int MPI_Comm_delete_attr_function(MPI_Comm, int, void *, void *);
typedef int MPI_Grequest_query_function(void *, MPI_Status *);
typedef int MPI_Grequest_free_function(void *);
typedef int MPI_Grequest_cancel_function(void *, int);

#define MPI_IN_PLACE	      ((void *)1)
#define MPI_STATUS_IGNORE     ((MPI_Status *)0)
#define MPI_COMM_NULL_COPY_FN ((MPI_Comm_copy_attr_function *)0)

enum {
	MPI_SUCCESS = 0,
	MPI_ERR_COUNT = 2,
	MPI_ERR_OTHER = 16,
	MPI_ERR_NO_MEM = 39,
	MPI_KEYVAL_INVALID = 0,
	MPI_ANY_SOURCE = -1,
	MPI_ANY_TAG = -2,
	MPI_UNDEFINED = -32766,
	MPI_COMBINER_NAMED = 101,
	MPI_COMBINER_DUP = 102,
	MPI_COMBINER_CONTIGUOUS = 103,
	MPI_MAX_OBJECT_NAME = 128,
	MPI_MAX_ERROR_STRING = 512
};

#define MPI_OP_NULL ((MPI_Op)0x20)
#define MPI_SUM	    ((MPI_Op)0x21)
#define MPI_MIN	    ((MPI_Op)0x22)
#define MPI_MAX	    ((MPI_Op)0x23)
#define MPI_BAND    ((MPI_Op)0x28)

#define MPI_COMM_NULL  ((MPI_Comm)0x100)
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_SELF  ((MPI_Comm)0x102)

#define MPI_DATATYPE_NULL      ((MPI_Datatype)0x200)
#define MPI_AINT	       ((MPI_Datatype)0x201)
#define MPI_COUNT	       ((MPI_Datatype)0x202)
#define MPI_OFFSET	       ((MPI_Datatype)0x203)
#define MPI_INT		       ((MPI_Datatype)0x209)
#define MPI_LONG	       ((MPI_Datatype)0x20a)
#define MPI_LONG_LONG	       ((MPI_Datatype)0x20b)
#define MPI_UNSIGNED	       ((MPI_Datatype)0x20d)
#define MPI_UNSIGNED_LONG      ((MPI_Datatype)0x20e)
#define MPI_UNSIGNED_LONG_LONG ((MPI_Datatype)0x20f)
#define MPI_FLOAT	       ((MPI_Datatype)0x210)
#define MPI_C_FLOAT_COMPLEX    ((MPI_Datatype)0x212)
#define MPI_DOUBLE	       ((MPI_Datatype)0x214)
#define MPI_C_DOUBLE_COMPLEX   ((MPI_Datatype)0x216)
#define MPI_INTEGER	       ((MPI_Datatype)0x219)
#define MPI_REAL	       ((MPI_Datatype)0x21a)
#define MPI_COMPLEX	       ((MPI_Datatype)0x21b)
#define MPI_DOUBLE_PRECISION   ((MPI_Datatype)0x21c)
#define MPI_DOUBLE_COMPLEX     ((MPI_Datatype)0x21d)
#define MPI_CHAR	       ((MPI_Datatype)0x243)
#define MPI_BYTE	       ((MPI_Datatype)0x247)
#define MPI_INT32_T	       ((MPI_Datatype)0x250)
#define MPI_UINT32_T	       ((MPI_Datatype)0x251)
#define MPI_INT64_T	       ((MPI_Datatype)0x258)
#define MPI_UINT64_T	       ((MPI_Datatype)0x259)
#define MPIX_C_FLOAT16	       ((MPI_Datatype)0x2ca) /* MPI_REAL2 */
#define MPI_INTEGER4	       ((MPI_Datatype)0x2d1)
#define MPI_REAL4	       ((MPI_Datatype)0x2d2)
#define MPI_INTEGER8	       ((MPI_Datatype)0x2d9)
#define MPI_REAL8	       ((MPI_Datatype)0x2da)

double PMPI_Wtime(void);

int PMPI_Add_error_class(int *);
int PMPI_Add_error_code(int, int *);
int PMPI_Add_error_string(int, const char *);
int PMPI_Comm_call_errhandler(MPI_Comm, int);

int PMPI_Comm_rank(MPI_Comm, int *);
int PMPI_Comm_size(MPI_Comm, int *);
int PMPI_Comm_group(MPI_Comm, MPI_Group *);
int PMPI_Comm_test_inter(MPI_Comm, int *);
int PMPI_Comm_get_name(MPI_Comm, char *, int *);
int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *, MPI_Comm_delete_attr_function *, int *,
			    void *);
int PMPI_Comm_free_keyval(int *);
int PMPI_Comm_set_attr(MPI_Comm, int, void *);
int PMPI_Comm_get_attr(MPI_Comm, int, void *, int *);
int PMPI_Comm_delete_attr(MPI_Comm, int);
int PMPI_Group_free(MPI_Group *);
int PMPI_Group_translate_ranks(MPI_Group, int, const int *, MPI_Group, int *);

int PMPI_Type_size(MPI_Datatype, int *);
int PMPI_Type_size_x(MPI_Datatype, MPI_Count *);
int PMPI_Type_get_extent_x(MPI_Datatype, MPI_Count *, MPI_Count *);
int PMPI_Type_get_envelope(MPI_Datatype, int *, int *, int *, int *);
int PMPI_Type_get_contents(MPI_Datatype, int, int, int, int *, MPI_Aint *, MPI_Datatype *);
int PMPI_Type_free(MPI_Datatype *);
int PMPI_Pack(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
int PMPI_Unpack(const void *, int, int *, void *, int, MPI_Datatype, MPI_Comm);

int PMPI_Allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
int PMPI_Bcast(void *, int, MPI_Datatype, int, MPI_Comm);
int PMPI_Barrier(MPI_Comm);

int PMPI_Iprobe(int, int, MPI_Comm, int *, MPI_Status *);
int PMPI_Grequest_start(MPI_Grequest_query_function *, MPI_Grequest_free_function *,
			MPI_Grequest_cancel_function *, void *, MPI_Request *);
int PMPI_Grequest_complete(MPI_Request);
int PMPI_Status_set_elements(MPI_Status *, MPI_Datatype, int);
int PMPI_Status_set_cancelled(MPI_Status *, int);
int PMPI_Testany(int, MPI_Request *, int *, int *, MPI_Status *);
int PMPI_Testsome(int, MPI_Request *, int *, int *, MPI_Status *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* preload.c - libfanin-mpi.so, which LD_PRELOAD loads into a program.
 *
 * MPIs differ in their binary interfaces: a communicator is a pointer in one and a number in the
 * other.  So this library knows no MPI.  At the program's first MPI call it asks the MPI that the
 * process has which one it is, loads the library that was built for its interface from its own
 * folder, and passes the calls to it.  None of these libraries names an MPI: they bind to the
 * process's own.  Programs without MPI, such as shells that inherit the variable, only load this
 * file.
 *
 * Arguments are passed on as words.  In the calling conventions of 64-bit Linux each argument of an
 * MPI function is one word in its register or stack place, whichever integer or pointer type it
 * has, and the callee ignores the upper half where it expects an int. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "calls.h"

#define PATH_BYTES    4096
#define VERSION_BYTES 8192 /* MPI_MAX_LIBRARY_VERSION_STRING, the largest of any MPI */
#define MPI_FAILED    1	   /* MPI_ERR_BUFFER of every MPI */
#define MPI_MANY      2	   /* MPI_ERR_COUNT of every MPI */
#define STANDARD_ABI  1	   /* the version of the standard ABI in abi/mpi.h */

_Static_assert(sizeof(void *) == 8, "arguments are passed on as words of 64 bits");

/* How the text of MPI_Get_library_version begins, and the library for the MPI's own interface. */
static const struct {
	const char *version, *backend;
} mpis[] = {
	{"Open MPI", "libfanin-mpi-openmpi.so"},
	{"MPICH", "libfanin-mpi-mpich.so"},
	{"MVAPICH", "libfanin-mpi-mpich.so"},
	{"Intel(R) MPI", "libfanin-mpi-mpich.so"},
};

static const char *const names[] = {
#define NAME(name, function, arguments) "MPI_" #name,
	FAN_MPI_EACH_CALL(NAME)
#define FORTRAN_NAME(name, arguments) "mpi_" #name "_",
		FAN_MPI_EACH_FORTRAN(FORTRAN_NAME)
#define F08_NAME(name, arguments) "mpi_" #name "_f08_",
			FAN_MPI_EACH_F08(F08_NAME)};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static fan_mpi_function next[FAN_MPI_CALLS], mine[FAN_MPI_CALLS]; /* each set once */
static _Atomic(fan_mpi_function) table[FAN_MPI_CALLS];		  /* constant once set */
static struct fan_mpi_constants constants;
static _Atomic(void *) caller; /* in the program, of the first call */
static void *init;	       /* the process's PMPI_Init */
static atomic_bool called;

/* The path of `file` in this library's folder; if that does not fit, `file` alone, for the loader
 * to find. */
static void path_beside(char *path, const char *file)
{
	Dl_info here;
	const char *slash =
		dladdr((void *)(uintptr_t)path_beside, &here) ? strrchr(here.dli_fname, '/') : NULL;
	int folder = slash ? (int)(slash - here.dli_fname) + 1 : 0;
	if (snprintf(path, PATH_BYTES, "%.*s%s", folder, folder ? here.dli_fname : "", file) >=
	    PATH_BYTES)
		snprintf(path, PATH_BYTES, "%s", file);
}

struct nth {
	size_t left;
	char path[PATH_BYTES];
};

static int copy_path(struct dl_phdr_info *object, size_t bytes, void *nth)
{
	struct nth *n = nth;
	(void)bytes;
	if (n->left--)
		return 0;
	snprintf(n->path, sizeof n->path, "%s", object->dlpi_name);
	return 1;
}

/* An object to be kept is never unloaded.  No lock of the loader is held while one is asked.  The
 * program itself is left out: its scope has this library's functions too. */
static void each_object(bool (*keep)(void *object))
{
	struct nth n;
	for (size_t i = 0; n.left = i, dl_iterate_phdr(copy_path, &n); i++) {
		void *object = *n.path ? dlopen(n.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
		if (object && !keep(object))
			dlclose(object);
	}
}

static bool ask_init(void *object)
{
	if (!init)
		init = dlsym(object, "PMPI_Init");
	return false;
}

/* The file of the MPI that the process has: in the program's scope, or, as a module of Python's has
 * it, in a scope of its own, first of all the caller's; NULL: none. */
static const char *find_mpi(void)
{
	Dl_info at;
	init = dlsym(RTLD_NEXT, "PMPI_Init");
	void *object = !init && dladdr(atomic_load(&caller), &at)
			       ? dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
			       : NULL;
	if (object) {
		ask_init(object);
		dlclose(object);
	}
	if (!init)
		each_object(ask_init);
	return init && dladdr(init, &at) ? at.dli_fname : NULL;
}

/* The name of the library for `mpi`; NULL: none fits.  An MPI with the standard ABI reports
 * its version, where an MPI's own interface has -1. */
static const char *backend_for(void *mpi)
{
	char text[VERSION_BYTES] = "";
	int bytes, major = -1, minor = -1;
	void *version = dlsym(mpi, "PMPI_Get_library_version");
	void *standard = dlsym(mpi, "PMPI_Abi_get_version");
	if (standard)
		((int (*)(int *, int *))(uintptr_t)standard)(&major, &minor);
	if (major == STANDARD_ABI)
		return "libfanin-mpi-abi.so";
	if (version && major < STANDARD_ABI)
		((int (*)(char *, int *))(uintptr_t)version)(text, &bytes);
	for (size_t i = 0; i < sizeof mpis / sizeof *mpis; i++)
		if (!strncmp(text, mpis[i].version, strlen(mpis[i].version)))
			return mpis[i].backend;
	return NULL;
}

/* The function that the program would call without this library: a profiling tool's, or the MPI's,
 * which need not be in the program's own scope. */
static void find_next(void *mpi, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		void *f = next[i] ? NULL : dlsym(RTLD_NEXT, names[i]);
		if (!f && !next[i] && mpi)
			f = dlsym(mpi, names[i]);
		if (f)
			memcpy(&next[i], &f, sizeof next[i]);
	}
}

/* The MPI in the file `mpi` becomes part of the program's scope, in which the backend finds it. */
static void take(const char *backend, const char *mpi)
{
	char path[PATH_BYTES];
	fan_mpi_attach_function *attach;
	path_beside(path, backend);
	dlopen(mpi, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, FAN_MPI_ATTACH_NAME) : NULL;
	if (!symbol) {
		fprintf(stderr, "fanin: %s; the program runs on its own MPI\n", dlerror());
		return;
	}
	memcpy(&attach, &symbol, sizeof attach);
	attach(next, &constants, mine);
}

static void add_large(void);

static void attach(void)
{
	const char *path = find_mpi();
	void *mpi = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	const char *backend = mpi ? backend_for(mpi) : NULL;
	find_next(mpi, 0, FAN_MPI_init);
	if (backend)
		take(backend, path);
	else
		fprintf(stderr,
			"fanin: no MPI with the binary interface of Open MPI, MPICH or the MPI "
			"standard; the program runs on its own MPI\n");
	for (unsigned k = 0; k < FAN_MPI_init; k++)
		atomic_store_explicit(&table[k], mine[k] ? mine[k] : next[k], memory_order_release);
	add_large();
	atomic_store(&called, true);
}

static fan_mpi_function find(enum fan_mpi_call call)
{
	return atomic_load_explicit(&table[call], memory_order_acquire);
}

static fan_mpi_function find_first(enum fan_mpi_call call)
{
	pthread_once(&once, attach);
	return find(call);
}

static void add_constants(void *object)
{
	void *in_place = dlsym(object, "mpi_fortran_in_place_");
	unsigned i = 0;
	while (i < FAN_MPI_CONSTANTS && constants.in_place[i] && constants.in_place[i] != in_place)
		i++;
	if (i == FAN_MPI_CONSTANTS || !in_place || constants.in_place[i])
		return;
	constants.bottom[i] = dlsym(object, "mpi_fortran_bottom_");
	constants.in_place[i] = in_place;
}

static bool ask_fortran(void *object)
{
	if (!init || dlsym(object, "PMPI_Init") != init)
		return false;
	find_next(object, FAN_MPI_init, FAN_MPI_CALLS);
	add_constants(object);
	return true;
}

/* An MPI's Fortran libraries may be in scopes of their own and come after its first call.  Its
 * constants must be known, or else their addresses would be taken for data. */
static fan_mpi_function find_fortran(enum fan_mpi_call call)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	pthread_once(&once, attach);
	pthread_mutex_lock(&one);
	if (!find(call)) {
		find_next(NULL, FAN_MPI_init, FAN_MPI_CALLS);
		add_constants(RTLD_DEFAULT);
		each_object(ask_fortran);
		bool known = constants.in_place[0] && !constants.in_place[FAN_MPI_CONSTANTS - 1];
		for (unsigned k = FAN_MPI_init; k < FAN_MPI_CALLS; k++)
			if (next[k] && !find(k))
				atomic_store_explicit(&table[k],
						      mine[k] && known ? mine[k] : next[k],
						      memory_order_release);
	}
	pthread_mutex_unlock(&one);
	return find(call);
}

static pid_t loaded_by;

__attribute__((constructor)) static void note_process(void)
{
	loaded_by = getpid();
}

/* Printed only if the report was asked for, since shells and wrappers inherit LD_PRELOAD, and never
 * in a child of fork(). */
__attribute__((destructor)) static void tell_unused(void)
{
	const char *report = secure_getenv("FANIN_MPI_REPORT");
	if (!atomic_load(&called) && getpid() == loaded_by && report && !strcmp(report, "1"))
		fprintf(stderr, "fanin: %s called no MPI_Init: nothing was there to take\n",
			program_invocation_short_name);
}

/* The functions.  They have no prototypes, because those differ by MPI. */

#define WORD	uintptr_t
#define TYPES_0 void
#define TYPES_1 WORD a
#define TYPES_2 TYPES_1, WORD b
#define TYPES_3 TYPES_2, WORD c
#define TYPES_4 TYPES_3, WORD d
#define TYPES_5 TYPES_4, WORD e
#define TYPES_6 TYPES_5, WORD f
#define TYPES_7 TYPES_6, WORD g
#define TYPES_8 TYPES_7, WORD h
#define NAMES_0
#define NAMES_1 a
#define NAMES_2 NAMES_1, b
#define NAMES_3 NAMES_2, c
#define NAMES_4 NAMES_3, d
#define NAMES_5 NAMES_4, e
#define NAMES_6 NAMES_5, f
#define NAMES_7 NAMES_6, g
#define NAMES_8 NAMES_7, h

/* The first call takes a function of its own, so that the others are a load and a jump. */
#define DEFINE(name, function, arguments)                                                          \
	__attribute__((noinline, cold)) static int first_##name(TYPES_##arguments)                 \
	{                                                                                          \
		int (*to)(TYPES_##arguments) =                                                     \
			(int (*)(TYPES_##arguments))find_first(FAN_MPI_##name);                    \
		return to ? to(NAMES_##arguments) : MPI_FAILED;                                    \
	}                                                                                          \
	__attribute__((visibility("default"))) int MPI_##name(TYPES_##arguments);                  \
	int MPI_##name(TYPES_##arguments)                                                          \
	{                                                                                          \
		int (*to)(TYPES_##arguments) = (int (*)(TYPES_##arguments))find(FAN_MPI_##name);   \
		if (!to)                                                                           \
			atomic_store(&caller, __builtin_return_address(0));                        \
		return to ? to(NAMES_##arguments) : first_##name(NAMES_##arguments);               \
	}
FAN_MPI_EACH_CALL(DEFINE)

/* An MPI may lack the functions of large counts.  Programs that link them weakly, as mpi4py does,
 * find them here nevertheless: they call those of int if the counts (`at`, a bit for each argument)
 * fit. */
#define FAN_MPI_EACH_LARGE(X)                                                                      \
	X(Allreduce, 6, 1u << 2)                                                                   \
	X(Reduce, 7, 1u << 2)                                                                      \
	X(Bcast, 5, 1u << 1)                                                                       \
	X(Reduce_scatter_block, 6, 1u << 2)                                                        \
	X(Allgather, 7, 1u << 1 | 1u << 4)                                                         \
	X(Iallreduce, 7, 1u << 2)
#define DEFINE_LARGE(name, arguments, at)                                                          \
	static int large_##name(TYPES_##arguments)                                                 \
	{                                                                                          \
		const WORD all[] = {NAMES_##arguments};                                            \
		int (*to)(TYPES_##arguments) = (int (*)(TYPES_##arguments))find(FAN_MPI_##name);   \
		for (unsigned i = 0; i < sizeof all / sizeof *all; i++)                            \
			if ((at) >> i & 1 && all[i] > INT_MAX)                                     \
				return MPI_MANY;                                                   \
		return to ? to(NAMES_##arguments) : MPI_FAILED;                                    \
	}
#define ADD_LARGE(name, arguments, at)                                                             \
	if (!next[FAN_MPI_##name##_c])                                                             \
		atomic_store_explicit(&table[FAN_MPI_##name##_c], (fan_mpi_function)large_##name,  \
				      memory_order_release);
FAN_MPI_EACH_LARGE(DEFINE_LARGE)

static void add_large(void)
{
	FAN_MPI_EACH_LARGE(ADD_LARGE)
}

/* `error` may be left out in mpi_f08. */
static void fail(const char *name, int *error)
{
	fprintf(stderr, "fanin: %s is in no library of the process's MPI\n", name);
	if (error)
		*error = MPI_FAILED;
}

#define DEFINE_SUBROUTINE(symbol, number, arguments)                                               \
	__attribute__((visibility("default"))) void symbol(TYPES_##arguments);                     \
	void symbol(TYPES_##arguments)                                                             \
	{                                                                                          \
		const WORD all[] = {NAMES_##arguments};                                            \
		void (*to)(TYPES_##arguments) = (void (*)(TYPES_##arguments))find(number);         \
		if (!to) {                                                                         \
			atomic_store(&caller, __builtin_return_address(0));                        \
			to = (void (*)(TYPES_##arguments))find_fortran(number);                    \
		}                                                                                  \
		if (to)                                                                            \
			to(NAMES_##arguments);                                                     \
		else                                                                               \
			fail(#symbol, (int *)all[(arguments)-1]);                                  \
	}

/* Open MPI's module mpi_f08 calls the second name. */
#define DEFINE_FORTRAN(name, arguments)                                                            \
	DEFINE_SUBROUTINE(mpi_##name##_, FAN_MPI_##name, arguments)                                \
	__attribute__((visibility("default"), alias("mpi_" #name "_"))) void ompi_##name##_f(      \
		TYPES_##arguments);
#define DEFINE_F08(name, arguments)                                                                \
	DEFINE_SUBROUTINE(mpi_##name##_f08_, FAN_MPI_F08_##name, arguments)
FAN_MPI_EACH_FORTRAN(DEFINE_FORTRAN)
FAN_MPI_EACH_F08(DEFINE_F08)

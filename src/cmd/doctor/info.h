/* SPDX-License-Identifier: Apache-2.0 */
/* info.h - `fanin info`: what would sum the tensors of a rank that is started here, and why; which
 * libfanin. */
#ifndef FAN_CMD_INFO_H
#define FAN_CMD_INFO_H

#include <limits.h>

#include "lib/base/config.h"

#define INFO_REASONS_MAX   5
#define INFO_REASON_BYTES  512
#define INFO_VERSION_BYTES 32
#define INFO_WHY_BYTES	   (PATH_MAX + 256)

struct fan_udp;

/* What would sum, in a sentence, and its consequences, in some more. */
struct info_sums {
	char text[INFO_REASONS_MAX][INFO_REASON_BYTES];
	unsigned count;
};

/* Judge the options `c` and the environment, as fanin_comm_create does.  0; or a negative enum
 * fan_err, and the text has the error. */
int info_judge(struct info_sums *s, const struct fan_config *c);

/* The library that other programs load: the one of FANIN_LIBRARY, else that of the wheel which this
 * program lies in, else what the loader finds. */
struct info_library {
	char program[PATH_MAX];		  /* this one; empty: not known */
	bool named;			  /* by FANIN_LIBRARY */
	char path[PATH_MAX];		  /* the file that was loaded, or what was tried */
	char version[INFO_VERSION_BYTES]; /* empty: there is none */
	char why[INFO_WHY_BYTES];	  /* there is none; else empty */
};

/* Load it, look and let it go. */
void info_find_library(struct info_library *l);

/* Open a socket as a rank does, and close it: `*u` has what the kernel gave it.  0; or a negative
 * errno: there is none. */
int info_try_socket(struct fan_udp *u);

#endif

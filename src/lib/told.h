/* SPDX-License-Identifier: Apache-2.0 */
/* told.h - what a controller tells a worker, and what the worker tells it: one JSON object
 * a line (doc/controller.md).
 *
 * Pure: from text to checked values and back.  Whatever a line holds, it is either understood
 * as a whole or refused with a sentence. */
#ifndef FAN_LIB_TOLD_H
#define FAN_LIB_TOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/base/out.h"

#define FAN_PARTS_MAX	   FAN_SHARDS_MAX /* of a job */
#define FAN_CUT_WHOLE	   (UINT64_C(1) << 32)
#define FAN_TOLD_WHY_BYTES 320
#define FAN_TELL_BYTES	   1024 /* the longest line that a worker writes, without its LF */
#define FAN_GBPS_MAX	   1e6

/* A part of the job: a job of its own on a route, with some of each tensor. */
struct fan_job_part {
	char name[FAN_NAME_MAX + 1];
	uint16_t route;
	uint64_t from, to;   /* of each tensor, in 1 / FAN_CUT_WHOLE */
	fan_peer at;	     /* where this rank joins */
	fan_peer aggregator; /* none: not told */
	double gbps;	     /* that the plan has each rank send of it; 0: not told */
};

enum fan_told_kind {
	FAN_TOLD_JOB,	  /* the job's parts */
	FAN_TOLD_MOVE,	  /* a part has another route from now on, or another rate */
	FAN_TOLD_AGAIN,	  /* the job ends here; a new one of the same name gets new parts */
	FAN_TOLD_REFUSED, /* no */
};

struct fan_told {
	enum fan_told_kind kind;
	char why[FAN_TOLD_WHY_BYTES]; /* AGAIN, REFUSED: in the controller's words */
	unsigned ranks, parts;	      /* JOB */
	struct fan_job_part part[FAN_PARTS_MAX];
	unsigned number; /* MOVE: of the part */
	uint16_t route;
	fan_peer at;
	double gbps; /* of the part now; 0: not told */
};

/* Understand one line, for a worker of job `job`.  FAN_OK; or FAN_E_FORMAT and what is wrong in
 * `why`, FAN_TOLD_WHY_BYTES.  A part's cut begins where that of the last one ended, and all
 * together are the whole. */
int fan_told_get(struct fan_told *o, const char *line, size_t bytes, const char *job, char *why);

/* The lines of a worker, without their LF, into `text`, FAN_TELL_BYTES.  Bytes; 0: the job's
 * name is not UTF-8.  A rank that has parts already tells their routes. */
size_t fan_tell_join(char *text, const char *job, unsigned rank, unsigned ranks,
		     const struct fan_job_part *part, unsigned parts);
size_t fan_tell_moved(char *text, unsigned part, uint16_t route);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* plan_msg.h - plan messages: lines between a controller and a communicator, one JSON object each
 * (doc/controller.md).
 *
 * Pure: from text to checked values and back.  A line is either understood as a whole or refused
 * with a sentence. */
#ifndef FAN_LIB_BASE_PLAN_MSG_H
#define FAN_LIB_BASE_PLAN_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/base/out.h"

#define FAN_PARTS_MAX	       FAN_SHARDS_MAX /* of a job */
#define FAN_CUT_WHOLE	       (UINT64_C(1) << 32)
#define FAN_PLAN_MSG_WHY_BYTES 320
#define FAN_PLAN_MSG_BYTES     1024 /* the longest line that a worker writes, without its LF */
#define FAN_GBPS_MAX	       1e6

/* A part of the job: a job of its own on a route, with a share of each tensor. */
struct fan_job_part {
	char name[FAN_NAME_MAX + 1];
	uint16_t route;
	uint64_t from, to;   /* of each tensor, in 1 / FAN_CUT_WHOLE */
	fan_peer at;	     /* the address at which this rank joins */
	fan_peer aggregator; /* none: not known */
	double gbps;	     /* planned rate of each rank; 0: none */
};

enum fan_plan_msg_kind {
	FAN_PLAN_MSG_JOB,     /* the job's parts */
	FAN_PLAN_MSG_MOVE,    /* a part has another route from now on, or another rate */
	FAN_PLAN_MSG_AGAIN,   /* this life of the job ends; the next one gets new parts */
	FAN_PLAN_MSG_REFUSED, /* the controller refuses the join */
};

struct fan_plan_msg {
	enum fan_plan_msg_kind kind;
	char why[FAN_PLAN_MSG_WHY_BYTES]; /* AGAIN, REFUSED: the controller's text */
	unsigned ranks, parts;		  /* JOB */
	struct fan_job_part part[FAN_PARTS_MAX];
	unsigned number; /* MOVE: of the part */
	uint16_t route;
	fan_peer at;
	double gbps; /* MOVE: planned rate of the part; 0: unchanged */
};

/* Decode one line, for a worker of job `job`.  FAN_OK; or FAN_E_FORMAT and the error in `why`,
 * FAN_PLAN_MSG_WHY_BYTES.  Each part's cut begins where the previous one ends, and all together
 * are the tensor. */
int fan_plan_msg_get(struct fan_plan_msg *o, const char *line, size_t bytes, const char *job,
		     char *why);

/* Write a worker's line, without its LF, to `text`, FAN_PLAN_MSG_BYTES.  Returns its bytes; 0: the
 * job's name is not UTF-8.  A rank that has parts already sends their routes, and one whose launch
 * is known, not 0, that. */
size_t fan_plan_msg_put_join(char *text, const char *job, unsigned rank, unsigned ranks,
			     uint64_t launch, const struct fan_job_part *part, unsigned parts);
size_t fan_plan_msg_put_moved(char *text, unsigned part, uint16_t route);

#endif

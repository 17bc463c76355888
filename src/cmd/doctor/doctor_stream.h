/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_stream.h - ECHOs to one shard for a while, as many as a window permits: the rate of the
 * path. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_STREAM_H
#define FAN_CMD_DOCTOR_DOCTOR_STREAM_H

#include "core/base/out.h"

#define DOCTOR_STREAM_WINDOW_MAX 256
#define DOCTOR_STREAM_BYTES_MAX	 (64 << 20) /* of one stream; a fast one ends by it */

struct doctor_stream {
	/* What to send. */
	fan_peer to;
	unsigned window; /* ECHOs without an answer, 1 .. DOCTOR_STREAM_WINDOW_MAX */
	uint64_t ns;	 /* how long */
	uint16_t body_bytes, answer_bytes;

	/* What came of it. */
	double per_s; /* answers in a second, once the path was full; 0: none came */
	int error;    /* errno of the socket; 0: none */
};

void doctor_stream_run(struct doctor_stream *s);

#endif

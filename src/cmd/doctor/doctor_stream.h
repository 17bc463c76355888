/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_stream.h - a stream of ECHOs to one shard within a window, which measures the rate of the
 * path. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_STREAM_H
#define FAN_CMD_DOCTOR_DOCTOR_STREAM_H

#include "core/base/out.h"

#define DOCTOR_STREAM_WINDOW_MAX 256
#define DOCTOR_STREAM_BYTES_MAX	 (64 << 20) /* of one stream, at most */

struct doctor_stream {
	/* What to send. */
	fan_peer to;
	unsigned window; /* ECHOs in flight, 1 .. DOCTOR_STREAM_WINDOW_MAX */
	uint64_t ns;	 /* duration */
	uint16_t body_bytes, answer_bytes;

	/* The result. */
	double per_s; /* answers per second once the path was full; 0: none */
	int error;    /* errno of the socket; 0: none */
};

void doctor_stream_run(struct doctor_stream *s);

#endif

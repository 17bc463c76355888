/* SPDX-License-Identifier: Apache-2.0 */
/* info.h - `fanin info`: what would sum the tensors of a rank that is started here, and why. */
#ifndef FAN_CMD_INFO_H
#define FAN_CMD_INFO_H

#include "lib/base/config.h"

#define INFO_REASONS_MAX  5
#define INFO_REASON_BYTES 512

/* What would sum, in a sentence, and its consequences, in some more. */
struct info_sums {
	char text[INFO_REASONS_MAX][INFO_REASON_BYTES];
	unsigned count;
};

/* Judge the options `c` and the environment, as fanin_comm_create does.  0; or a negative enum
 * fan_err, and the text has the error. */
int info_judge(struct info_sums *s, const struct fan_config *c);

#endif

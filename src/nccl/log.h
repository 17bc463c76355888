/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - lines in NCCL's own log, by the logger that it hands to init. */
#ifndef FAN_NCCL_LOG_H
#define FAN_NCCL_LOG_H

#include "abi.h"

#define FAN_NCCL_LINE_BYTES 512 /* of a line; what is longer is cut */

/* Later lines go to `to`; NULL: nowhere. */
void fan_nccl_log_to(fan_nccl_logger to);

/* Shown with NCCL_DEBUG=INFO. */
void fan_nccl_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shown with NCCL_DEBUG=WARN.  Returns `result`. */
int fan_nccl_warn(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

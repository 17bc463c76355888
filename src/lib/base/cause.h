/* SPDX-License-Identifier: Apache-2.0 */
/* cause.h - causes of an end beyond enum fan_err, by which the ranks of a job tell each other what
 * they have found out in LEAVE; aggregators hand them on in STATE (doc/protocol/base.md, 4.6). */
#ifndef FAN_LIB_BASE_CAUSE_H
#define FAN_LIB_BASE_CAUSE_H

#define FAN_CAUSE_PARTS_MAX 32 /* of a job that goes on without one of them */
#define FAN_HOST_RANKS_MAX  64 /* that share memory */

/* The aggregator of part `number`, below FAN_CAUSE_PARTS_MAX, is lost. */
#define FAN_CAUSE_GONE(number) (-32 - (int)(number))

/* Number `i`, below FAN_HOST_RANKS_MAX, of the blamed host is lost: of the ranks of a column. */
#define FAN_CAUSE_LOST(i) (-64 - (int)(i))

#endif

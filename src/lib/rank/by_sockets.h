/* SPDX-License-Identifier: Apache-2.0 */
/* by_sockets.h - the kind of rank that has connections to aggregators. */
#ifndef FAN_LIB_RANK_BY_SOCKETS_H
#define FAN_LIB_RANK_BY_SOCKETS_H

struct fan_rank_kind;

extern const struct fan_rank_kind fan_rank_by_sockets;

#endif

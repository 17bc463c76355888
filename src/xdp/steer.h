/* SPDX-License-Identifier: Apache-2.0 */
/* steer.h - bounds that the program and its loader share. */
#ifndef FAN_STEER_H
#define FAN_STEER_H

#define XDP_QUEUES_MAX	  64
#define XDP_ADDRESSES_MAX 256

#endif

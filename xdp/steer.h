/* SPDX-License-Identifier: Apache-2.0 */
/* steer.h - bounds that the program and its loader share. */
#ifndef FAN_STEER_H
#define FAN_STEER_H

#define XDP_QUEUES_MAX	  64
#define XDP_ADDRESSES_MAX 256
#define XDP_FRAME_SMALL	  2048 /* bytes; the kernel keeps XDP_FRAME_SPARE of them for itself */
#define XDP_FRAME_LARGE	  4096
#define XDP_FRAME_SPARE	  256

#endif

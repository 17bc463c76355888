/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - UDP datagrams in Ethernet frames as a driver delivers them (IEEE 802.3, RFC 791,
 * RFC 8200, RFC 768): what the kernel checks for a socket is checked here. */
#ifndef FAN_FRAME_H
#define FAN_FRAME_H

#include "plane.h"

#define FAN_FRAME_HEAD_MAX (14 + 40 + 8) /* bytes before the data: Ethernet, IPv6, UDP */

enum fan_frame_fault {
	FAN_FRAME_GOOD,
	FAN_FRAME_OTHER,    /* not UDP over IPv4 or IPv6, or with options or in pieces */
	FAN_FRAME_LENGTH,   /* its headers tell of more bytes than it has, or of too few */
	FAN_FRAME_CHECKSUM, /* the sum of the IPv4 header or of the datagram is wrong */
	FAN_FRAME_FAULTS
};

/* Read a frame of `bytes` bytes.  `d` is filled in if it is good; its data lies in the frame. */
enum fan_frame_fault fan_frame_read(struct fan_plane_datagram *d, const uint8_t *frame,
				    size_t bytes);

#endif

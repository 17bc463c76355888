/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - what a network interface is and can do, as the kernel tells any user. */
#ifndef FAN_DEVICE_H
#define FAN_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define FAN_DEVICE_DRIVER_BYTES 32

/* What a driver can do with XDP: the kernel's NETDEV_XDP_ACT_*. */
#define FAN_DEVICE_XDP_BASIC	 1u /* runs programs */
#define FAN_DEVICE_XDP_REDIRECT	 2u
#define FAN_DEVICE_XDP_ZERO_COPY 8u

struct fan_device {
	unsigned index; /* 0: there is no such interface */
	bool up;
	int mtu;			      /* bytes; 0: not known */
	unsigned queues;		      /* that receive */
	char driver[FAN_DEVICE_DRIVER_BYTES]; /* empty: not known */
	bool features_known;		      /* Linux 6.3 tells */
	uint64_t features;		      /* FAN_DEVICE_XDP_* */
	uint32_t program;		      /* number of the XDP program that it has; 0: none */
};

void fan_device_read(struct fan_device *d, const char *name);

/* What the interface of this index has received, bytes.  False: it is not known, or it is the
 * loopback's. */
bool fan_device_received(unsigned index, uint64_t *bytes);

/* Is the running kernel this one, or a newer one? */
bool fan_device_kernel_is(unsigned major, unsigned minor);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* netlink.h - one question to the kernel about its network, and the answer. */
#ifndef FAN_NETLINK_H
#define FAN_NETLINK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_NETLINK_ASK_BYTES	 128
#define FAN_NETLINK_ANSWER_BYTES 32768 /* a link's is a few thousand long */

struct fan_netlink {
	union {
		struct nlmsghdr head;
		char bytes[FAN_NETLINK_ASK_BYTES];
	} ask;
	union {
		struct nlmsghdr head;
		char bytes[FAN_NETLINK_ANSWER_BYTES];
	} answer;
};

/* Begin a question of `type` with its own `body`, and add attributes to it, as many as fit
 * FAN_NETLINK_ASK_BYTES. */
void fan_netlink_begin(struct fan_netlink *t, uint16_t type, const void *body, size_t bytes);
void fan_netlink_put(struct fan_netlink *t, uint16_t type, const void *value, size_t bytes);

/* Ask it of `protocol`.  False: the kernel refuses, or does not know the question. */
bool fan_netlink_ask(struct fan_netlink *t, int protocol);

/* The attributes of the answer behind `head` bytes of its own; `*bytes` of them. */
const char *fan_netlink_attributes(const struct fan_netlink *t, size_t head, size_t *bytes);

/* The attribute `type` of the `bytes` bytes at `at`, copied to `value`, at most `most` bytes.
 * Returns how many; 0: it is not there. */
size_t fan_netlink_find(const char *at, size_t bytes, uint16_t type, void *value, size_t most);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void fan_netlink_begin(struct fan_netlink *t, uint16_t type, const void *body, size_t bytes)
{
	assert(NLMSG_SPACE(bytes) <= sizeof t->ask);
	memset(&t->ask, 0, sizeof t->ask);
	t->ask.head = (struct nlmsghdr){.nlmsg_len = (uint32_t)NLMSG_LENGTH(bytes),
					.nlmsg_type = type,
					.nlmsg_flags = NLM_F_REQUEST};
	memcpy(NLMSG_DATA(&t->ask.head), body, bytes);
}

void fan_netlink_put(struct fan_netlink *t, uint16_t type, const void *value, size_t bytes)
{
	assert(NLMSG_ALIGN(t->ask.head.nlmsg_len) + NLA_HDRLEN + bytes <= sizeof t->ask);
	struct nlattr *a = (struct nlattr *)(t->ask.bytes + NLMSG_ALIGN(t->ask.head.nlmsg_len));

	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + bytes);
	memcpy((char *)a + NLA_HDRLEN, value, bytes);
	t->ask.head.nlmsg_len = NLMSG_ALIGN(t->ask.head.nlmsg_len) + NLA_ALIGN(a->nla_len);
}

bool fan_netlink_ask(struct fan_netlink *t, int protocol)
{
	assert(t->ask.head.nlmsg_len >= NLMSG_HDRLEN);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	ssize_t n = -1;

	if (fd < 0)
		return false;
	if (send(fd, &t->ask, t->ask.head.nlmsg_len, 0) > 0)
		n = recv(fd, &t->answer, sizeof t->answer, 0);
	close(fd);
	return n >= (ssize_t)sizeof t->answer.head && NLMSG_OK(&t->answer.head, (size_t)n) &&
	       t->answer.head.nlmsg_type != NLMSG_ERROR;
}

size_t fan_netlink_find(const char *at, size_t bytes, uint16_t type, void *value, size_t most)
{
	while (bytes >= NLA_HDRLEN) {
		struct nlattr a;
		memcpy(&a, at, sizeof a);
		size_t step = NLA_ALIGN((size_t)a.nla_len);
		if (a.nla_len < NLA_HDRLEN || a.nla_len > bytes)
			break;
		if ((a.nla_type & NLA_TYPE_MASK) == type) {
			size_t length = a.nla_len - (size_t)NLA_HDRLEN;
			memcpy(value, at + NLA_HDRLEN, length < most ? length : most);
			return length < most ? length : most;
		}
		if (step > bytes)
			break;
		at += step;
		bytes -= step;
	}
	return 0;
}

const char *fan_netlink_attributes(const struct fan_netlink *t, size_t head, size_t *bytes)
{
	size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(head);
	size_t all = t->answer.head.nlmsg_len;

	*bytes = all > skip ? all - skip : 0;
	return t->answer.bytes + skip;
}

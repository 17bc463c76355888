/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <dirent.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PATH_BYTES    64
#define MESSAGE_BYTES 128
#define ANSWER_BYTES  32768 /* a link's is a few thousand long */

/* <linux/netdev.h>, which is younger than the oldest kernel that we build with. */
#define NETDEV_FAMILY	    "netdev"
#define NETDEV_DEV_GET	    1
#define NETDEV_IFINDEX	    1
#define NETDEV_XDP_FEATURES 3

/* A question to the kernel, and its answer. */
struct talk {
	union {
		struct nlmsghdr head;
		char bytes[MESSAGE_BYTES];
	} ask;
	union {
		struct nlmsghdr head;
		char bytes[ANSWER_BYTES];
	} answer;
};

static void begin(struct talk *t, uint16_t type, const void *body, size_t bytes)
{
	memset(&t->ask, 0, sizeof t->ask);
	t->ask.head = (struct nlmsghdr){.nlmsg_len = (uint32_t)NLMSG_LENGTH(bytes),
					.nlmsg_type = type,
					.nlmsg_flags = NLM_F_REQUEST};
	memcpy(NLMSG_DATA(&t->ask.head), body, bytes);
}

static void put(struct talk *t, uint16_t type, const void *value, size_t bytes)
{
	struct nlattr *a = (struct nlattr *)(t->ask.bytes + NLMSG_ALIGN(t->ask.head.nlmsg_len));

	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + bytes);
	memcpy((char *)a + NLA_HDRLEN, value, bytes);
	t->ask.head.nlmsg_len = NLMSG_ALIGN(t->ask.head.nlmsg_len) + NLA_ALIGN(a->nla_len);
}

/* False: the kernel refuses, or does not know the question. */
static bool ask(struct talk *t, int protocol)
{
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

/* The attribute `type` of `bytes` bytes of them, copied to `value`, `most` bytes at most; 0: it is
 * not there.  Returns its length. */
static size_t find(const char *at, size_t bytes, uint16_t type, void *value, size_t most)
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

/* The attributes of the answer behind `head` bytes of its own. */
static const char *attributes(const struct talk *t, size_t head, size_t *bytes)
{
	size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(head);
	size_t all = t->answer.head.nlmsg_len;

	*bytes = all > skip ? all - skip : 0;
	return t->answer.bytes + skip;
}

static void read_program(struct fan_device *d, struct talk *t)
{
	const struct ifinfomsg link = {.ifi_family = AF_UNSPEC, .ifi_index = (int)d->index};
	char xdp[MESSAGE_BYTES];
	size_t bytes;

	begin(t, RTM_GETLINK, &link, sizeof link);
	if (!ask(t, NETLINK_ROUTE))
		return;
	const char *at = attributes(t, sizeof link, &bytes);
	bytes = find(at, bytes, IFLA_XDP, xdp, sizeof xdp);
	find(xdp, bytes, IFLA_XDP_PROG_ID, &d->program, sizeof d->program);
}

static void read_features(struct fan_device *d, struct talk *t)
{
	struct genlmsghdr h = {.cmd = CTRL_CMD_GETFAMILY, .version = 1};
	const uint32_t index = d->index;
	const char *at;
	uint16_t family;
	size_t bytes;

	begin(t, GENL_ID_CTRL, &h, sizeof h);
	put(t, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY, sizeof NETDEV_FAMILY);
	if (!ask(t, NETLINK_GENERIC))
		return;
	at = attributes(t, sizeof h, &bytes);
	if (find(at, bytes, CTRL_ATTR_FAMILY_ID, &family, sizeof family) != sizeof family)
		return;
	h.cmd = NETDEV_DEV_GET;
	begin(t, family, &h, sizeof h);
	put(t, NETDEV_IFINDEX, &index, sizeof index);
	if (!ask(t, NETLINK_GENERIC))
		return;
	at = attributes(t, sizeof h, &bytes);
	d->features_known = find(at, bytes, NETDEV_XDP_FEATURES, &d->features,
				 sizeof d->features) == sizeof d->features;
}

/* By the calls that every kernel has. */
static void read_basics(struct fan_device *d, const char *name)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq r = {.ifr_flags = 0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
	d->up = !ioctl(fd, SIOCGIFFLAGS, &r) && (r.ifr_flags & IFF_UP);
	if (!ioctl(fd, SIOCGIFMTU, &r))
		d->mtu = r.ifr_mtu;
	r.ifr_data = (char *)&driver;
	if (!ioctl(fd, SIOCETHTOOL, &r))
		snprintf(d->driver, sizeof d->driver, "%s", driver.driver);
	close(fd);
}

bool fan_device_kernel_is(unsigned major, unsigned minor)
{
	unsigned has[2] = {0, 0};
	struct utsname u;

	if (uname(&u) || sscanf(u.release, "%u.%u", &has[0], &has[1]) != 2)
		return true; /* what follows will tell */
	return has[0] > major || (has[0] == major && has[1] >= minor);
}

unsigned fan_device_queues(const char *name)
{
	char path[PATH_BYTES];
	unsigned count = 0;

	snprintf(path, sizeof path, "/sys/class/net/%s/queues", name);
	DIR *dir = opendir(path);
	if (!dir)
		return 0;
	for (struct dirent *e; (e = readdir(dir));)
		count += strncmp(e->d_name, "rx-", 3) == 0;
	closedir(dir);
	return count;
}

void fan_device_read(struct fan_device *d, const char *name)
{
	struct talk t;

	memset(d, 0, sizeof *d);
	d->index = if_nametoindex(name);
	if (!d->index)
		return;
	d->queues = fan_device_queues(name);
	read_basics(d, name);
	read_program(d, &t);
	read_features(d, &t);
}

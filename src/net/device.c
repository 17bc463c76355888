/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <dirent.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "netlink.h"

#define PATH_BYTES 64
#define XDP_BYTES  128 /* of a link's attributes about its program */

/* <linux/netdev.h>, which is younger than the oldest kernel that we build with. */
#define NETDEV_FAMILY	    "netdev"
#define NETDEV_DEV_GET	    1
#define NETDEV_IFINDEX	    1
#define NETDEV_XDP_FEATURES 3

/* The attributes of a link; NULL: there is none. */
static const char *ask_link(struct fan_netlink *t, unsigned index, size_t *bytes)
{
	const struct ifinfomsg link = {.ifi_family = AF_UNSPEC, .ifi_index = (int)index};

	fan_netlink_begin(t, RTM_GETLINK, &link, sizeof link);
	return fan_netlink_ask(t, NETLINK_ROUTE) ? fan_netlink_attributes(t, sizeof link, bytes)
						 : NULL;
}

static void read_program(struct fan_device *d, struct fan_netlink *t)
{
	char xdp[XDP_BYTES];
	size_t bytes;

	const char *at = ask_link(t, d->index, &bytes);
	if (!at)
		return;
	bytes = fan_netlink_find(at, bytes, IFLA_XDP, xdp, sizeof xdp);
	fan_netlink_find(xdp, bytes, IFLA_XDP_PROG_ID, &d->program, sizeof d->program);
}

static void read_features(struct fan_device *d, struct fan_netlink *t)
{
	struct genlmsghdr h = {.cmd = CTRL_CMD_GETFAMILY, .version = 1};
	const uint32_t index = d->index;
	const char *at;
	uint16_t family;
	size_t bytes;

	fan_netlink_begin(t, GENL_ID_CTRL, &h, sizeof h);
	fan_netlink_put(t, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY, sizeof NETDEV_FAMILY);
	if (!fan_netlink_ask(t, NETLINK_GENERIC))
		return;
	at = fan_netlink_attributes(t, sizeof h, &bytes);
	if (fan_netlink_find(at, bytes, CTRL_ATTR_FAMILY_ID, &family, sizeof family) !=
	    sizeof family)
		return;
	h.cmd = NETDEV_DEV_GET;
	fan_netlink_begin(t, family, &h, sizeof h);
	fan_netlink_put(t, NETDEV_IFINDEX, &index, sizeof index);
	if (!fan_netlink_ask(t, NETLINK_GENERIC))
		return;
	at = fan_netlink_attributes(t, sizeof h, &bytes);
	d->features_known = fan_netlink_find(at, bytes, NETDEV_XDP_FEATURES, &d->features,
					     sizeof d->features) == sizeof d->features;
}

/* By system calls that every kernel has. */
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

bool fan_device_received(unsigned index, uint64_t *received)
{
	struct rtnl_link_stats64 stats;
	struct fan_netlink t;
	struct ifinfomsg link;
	size_t bytes;

	const char *at = ask_link(&t, index, &bytes);
	if (!at)
		return false;
	memcpy(&link, NLMSG_DATA(&t.answer.head), sizeof link);
	/* younger kernels have more of them, older ones fewer */
	if (link.ifi_flags & IFF_LOOPBACK ||
	    fan_netlink_find(at, bytes, IFLA_STATS64, &stats, sizeof stats) <
		    offsetof(struct rtnl_link_stats64, tx_bytes))
		return false;
	*received = stats.rx_bytes;
	return true;
}

bool fan_device_kernel_is(unsigned major, unsigned minor)
{
	unsigned has[2] = {0, 0};
	struct utsname u;

	if (uname(&u) || sscanf(u.release, "%u.%u", &has[0], &has[1]) != 2)
		return true; /* later calls will fail if it does not */
	return has[0] > major || (has[0] == major && has[1] >= minor);
}

/* Receive queues of an interface; 0: there is no such interface. */
static unsigned queues_of(const char *name)
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
	struct fan_netlink t;

	memset(d, 0, sizeof *d);
	d->index = if_nametoindex(name);
	if (!d->index)
		return;
	d->queues = queues_of(name);
	read_basics(d, name);
	read_program(d, &t);
	read_features(d, &t);
}

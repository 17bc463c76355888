/* SPDX-License-Identifier: Apache-2.0 */
#include "next_hop.h"

#include <linux/in_route.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netlink.h"
#include "udp.h"

#ifndef RTM_F_FIB_MATCH
#define RTM_F_FIB_MATCH 0x2000 /* Linux 4.13 */
#endif

#define METRICS_BYTES 128
#define PACKET_MAX    65535 /* of IP, where the loopback takes more */
#define TOLD_MIN      69 /* an IPv4 path has at least 68, and the kernel's blackhole device has that */

static int interface_mtu(unsigned index)
{
	struct ifreq r = {.ifr_flags = 0};
	int mtu = 0, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (if_indextoname(index, r.ifr_name) && !ioctl(fd, SIOCGIFMTU, &r))
		mtu = r.ifr_mtu < PACKET_MAX ? r.ifr_mtu : PACKET_MAX;
	close(fd);
	return mtu;
}

/* The route to `to`: with the flag of FIB_MATCH as it was configured, else as it is used. */
static bool ask_route(struct fan_netlink *t, const fan_peer *to, unsigned flags)
{
	const bool v4 = fan_peer_family(to) == AF_INET;
	const struct rtmsg m = {.rtm_family = v4 ? AF_INET : AF_INET6,
				.rtm_dst_len = v4 ? 32 : 128,
				.rtm_flags = flags};
	const uint32_t scope = to->scope;

	fan_netlink_begin(t, RTM_GETROUTE, &m, sizeof m);
	fan_netlink_put(t, RTA_DST, (const uint8_t *)to->addr + (v4 ? 12 : 0), v4 ? 4 : 16);
	if (scope)
		fan_netlink_put(t, RTA_OIF, &scope, sizeof scope);
	return fan_netlink_ask(t, NETLINK_ROUTE);
}

/* The MTU of a route that was configured with one; 0: it was not, or this kernel does not tell it
 * from what it was told. */
static int route_mtu(struct fan_netlink *t, const fan_peer *to)
{
	char metrics[METRICS_BYTES];
	uint32_t mtu = 0;
	struct rtmsg m;
	size_t bytes;

	if (!ask_route(t, to, RTM_F_FIB_MATCH))
		return 0;
	memcpy(&m, NLMSG_DATA(&t->answer.head), sizeof m);
	if (m.rtm_flags & RTM_F_CLONED)
		return 0;
	const char *at = fan_netlink_attributes(t, sizeof m, &bytes);
	bytes = fan_netlink_find(at, bytes, RTA_METRICS, metrics, sizeof metrics);
	fan_netlink_find(metrics, bytes, RTAX_MTU, &mtu, sizeof mtu);
	return (int)mtu;
}

/* As it is used now. */
static void read_route(struct fan_next_hop *p, struct fan_netlink *t, const fan_peer *to)
{
	uint8_t *address = (uint8_t *)p->gateway.addr;
	struct rtmsg m;
	size_t bytes;

	if (!ask_route(t, to, 0))
		return;
	memcpy(&m, NLMSG_DATA(&t->answer.head), sizeof m);
	p->redirected = m.rtm_flags & RTCF_REDIRECTED || m.rtm_protocol == RTPROT_REDIRECT;
	const char *at = fan_netlink_attributes(t, sizeof m, &bytes);
	fan_netlink_find(at, bytes, RTA_OIF, &p->interface, sizeof p->interface);
	if (m.rtm_family == AF_INET)
		memset(address + 10, 0xff, 2); /* mapped */
	p->by_gateway = m.rtm_family == AF_INET
				? fan_netlink_find(at, bytes, RTA_GATEWAY, address + 12, 4) == 4
				: fan_netlink_find(at, bytes, RTA_GATEWAY, address, 16) == 16;
}

void fan_next_hop_read(struct fan_next_hop *p, const fan_peer *to)
{
	struct fan_netlink t;
	int believed = fan_udp_mtu_to(to);

	memset(p, 0, sizeof *p);
	read_route(p, &t, to);
	if (!p->interface)
		return;
	p->mtu = interface_mtu(p->interface);
	int configured = route_mtu(&t, to);
	if (configured && configured < p->mtu)
		p->mtu = configured;
	if (believed >= TOLD_MIN && believed < p->mtu)
		p->told_mtu = believed;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink.h"

#include <assert.h>
#include <linux/in_route.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- one question to the kernel about its network, and the answer ---- */

#define ASK_BYTES    128
#define ANSWER_BYTES 32768 /* a link's is a few thousand long */

struct netlink {
	union {
		struct nlmsghdr head;
		char bytes[ASK_BYTES];
	} ask;
	union {
		struct nlmsghdr head;
		char bytes[ANSWER_BYTES];
	} answer;
};

/* Begin a question of `type` with its own `body`. */
static void netlink_begin(struct netlink *t, uint16_t type, const void *body, size_t bytes)
{
	assert(NLMSG_SPACE(bytes) <= sizeof t->ask);
	memset(&t->ask, 0, sizeof t->ask);
	t->ask.head = (struct nlmsghdr){.nlmsg_len = (uint32_t)NLMSG_LENGTH(bytes),
					.nlmsg_type = type,
					.nlmsg_flags = NLM_F_REQUEST};
	memcpy(NLMSG_DATA(&t->ask.head), body, bytes);
}

/* Add an attribute to the question, which has room for it. */
static void netlink_put(struct netlink *t, uint16_t type, const void *value, size_t bytes)
{
	assert(NLMSG_ALIGN(t->ask.head.nlmsg_len) + NLA_HDRLEN + bytes <= sizeof t->ask);
	struct nlattr *a = (struct nlattr *)(t->ask.bytes + NLMSG_ALIGN(t->ask.head.nlmsg_len));
	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + bytes);
	memcpy((char *)a + NLA_HDRLEN, value, bytes);
	t->ask.head.nlmsg_len = NLMSG_ALIGN(t->ask.head.nlmsg_len) + NLA_ALIGN(a->nla_len);
}

/* Ask the question.  False: the kernel refuses, or does not know it. */
static bool netlink_ask(struct netlink *t)
{
	assert(t->ask.head.nlmsg_len >= NLMSG_HDRLEN);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t n = -1;
	if (fd < 0)
		return false;
	if (send(fd, &t->ask, t->ask.head.nlmsg_len, 0) > 0)
		n = recv(fd, &t->answer, sizeof t->answer, 0);
	close(fd);
	return n >= (ssize_t)sizeof t->answer.head && NLMSG_OK(&t->answer.head, (size_t)n) &&
	       t->answer.head.nlmsg_type != NLMSG_ERROR;
}

/* Copy attribute `type` of the `bytes` bytes at `at` to `value`, at most `most` bytes.  Returns how
 * many; 0: it is not there. */
static size_t netlink_find(const char *at, size_t bytes, uint16_t type, void *value, size_t most)
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

/* The attributes of the answer behind `head` bytes of its own; `*bytes` of them. */
static const char *netlink_attributes(const struct netlink *t, size_t head, size_t *bytes)
{
	size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(head);
	size_t all = t->answer.head.nlmsg_len;
	*bytes = all > skip ? all - skip : 0;
	return t->answer.bytes + skip;
}

/* ---- what others receive by an interface ---- */

#define ROOM	   (FAN_CROSS_TRAFFIC_SAMPLES + 1)
#define HEAD_BYTES 42 /* of Ethernet, IPv4 and UDP, which interfaces count and sockets do not */
#define MS	   UINT64_C(1000000)

static struct fan_cross_source *find(struct fan_cross_traffic *o, unsigned index)
{
	for (unsigned i = 0; i < o->count; i++)
		if (o->of[i].index == index)
			return &o->of[i];
	return NULL;
}

static void want(struct fan_cross_traffic *o, unsigned index)
{
	struct fan_cross_source *i = index ? find(o, index) : NULL;
	if (index && !i && o->count < FAN_INLETS_MAX) {
		i = &o->of[o->count++];
		*i = (struct fan_cross_source){.index = index};
	}
	if (i)
		i->wanted = true;
}

/* Read what interface `index` has received, in bytes.  False: it is not known, or the loopback's.
 */
static bool received(unsigned index, uint64_t *bytes)
{
	const struct ifinfomsg link = {.ifi_family = AF_UNSPEC, .ifi_index = (int)index};
	struct rtnl_link_stats64 stats;
	struct netlink t;
	struct ifinfomsg is;
	size_t length;
	netlink_begin(&t, RTM_GETLINK, &link, sizeof link);
	if (!netlink_ask(&t))
		return false;
	const char *at = netlink_attributes(&t, sizeof link, &length);
	memcpy(&is, NLMSG_DATA(&t.answer.head), sizeof is);
	/* younger kernels have more of them, older ones fewer */
	if (is.ifi_flags & IFF_LOOPBACK ||
	    netlink_find(at, length, IFLA_STATS64, &stats, sizeof stats) <
		    offsetof(struct rtnl_link_stats64, tx_bytes))
		return false;
	*bytes = stats.rx_bytes;
	return true;
}

void fan_cross_traffic_begin(struct fan_cross_traffic *o, const unsigned *index, unsigned count)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < o->count; i++)
		o->of[i].wanted = false;
	for (unsigned i = 0; i < count; i++)
		want(o, index[i]);
	for (unsigned i = 0; i < o->count; i++)
		if (o->of[i].wanted)
			o->of[kept++] = o->of[i];
	o->count = kept;
	for (unsigned i = 0; i < o->count; i++)
		o->of[i].reported = received(o->of[i].index, &o->of[i].received);
}

/* As interfaces count it. */
static uint64_t own_bytes(const struct fan_inlets *own, unsigned index)
{
	for (unsigned i = 0; i < FAN_INLETS_MAX; i++)
		if (own->of[i].index == index)
			return own->of[i].bytes + HEAD_BYTES * own->of[i].datagrams;
	return 0;
}

static void note(struct fan_cross_source *i, uint64_t now_ns, uint64_t bytes)
{
	if (i->samples &&
	    now_ns - i->sample[(i->samples - 1) % ROOM].at_ns < FAN_CROSS_TRAFFIC_MS * MS)
		return;
	i->sample[i->samples % ROOM].at_ns = now_ns;
	i->sample[i->samples++ % ROOM].bytes = bytes;
}

void fan_cross_traffic_end(struct fan_cross_traffic *o, uint64_t now_ns,
			   const struct fan_inlets *own, uint64_t overflows)
{
	const bool lost = overflows != o->overflows || own->full;
	o->overflows = overflows;
	for (unsigned i = 0; i < o->count; i++) {
		struct fan_cross_source *one = &o->of[i];
		if (lost || !one->reported)
			one->samples = 0;
		else
			note(one, now_ns, one->received - own_bytes(own, one->index));
	}
}

double fan_cross_traffic_gbps(const struct fan_cross_traffic *o, unsigned index)
{
	const struct fan_cross_source *i = find((struct fan_cross_traffic *)o, index);
	if (!i || i->samples <= FAN_CROSS_TRAFFIC_KNOWN)
		return -1;
	const unsigned last = i->samples - 1,
		       back = last < FAN_CROSS_TRAFFIC_SAMPLES ? last : FAN_CROSS_TRAFFIC_SAMPLES;
	const unsigned a = (last - back) % ROOM, b = last % ROOM;
	const int64_t bytes = (int64_t)(i->sample[b].bytes - i->sample[a].bytes);
	const uint64_t ns = i->sample[b].at_ns - i->sample[a].at_ns;

	assert(ns > 0);
	return bytes > 0 ? 8 * (double)bytes / (double)ns : 0;
}

/* ---- the path to an address ---- */

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
static bool ask_route(struct netlink *t, const fan_peer *to, unsigned flags)
{
	const bool v4 = fan_peer_family(to) == AF_INET;
	const struct rtmsg m = {.rtm_family = v4 ? AF_INET : AF_INET6,
				.rtm_dst_len = v4 ? 32 : 128,
				.rtm_flags = flags};
	const uint32_t scope = to->scope;
	netlink_begin(t, RTM_GETROUTE, &m, sizeof m);
	netlink_put(t, RTA_DST, (const uint8_t *)to->addr + (v4 ? 12 : 0), v4 ? 4 : 16);
	if (scope)
		netlink_put(t, RTA_OIF, &scope, sizeof scope);
	return netlink_ask(t);
}

/* The MTU of a route that was configured with one; 0: it was not, or this kernel does not report it
 * from what it received. */
static int route_mtu(struct netlink *t, const fan_peer *to)
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
	const char *at = netlink_attributes(t, sizeof m, &bytes);
	bytes = netlink_find(at, bytes, RTA_METRICS, metrics, sizeof metrics);
	netlink_find(metrics, bytes, RTAX_MTU, &mtu, sizeof mtu);
	return (int)mtu;
}

/* As it is used now. */
static void read_route(struct fan_next_hop *p, struct netlink *t, const fan_peer *to)
{
	uint8_t *address = (uint8_t *)p->gateway.addr;
	struct rtmsg m;
	size_t bytes;
	if (!ask_route(t, to, 0))
		return;
	memcpy(&m, NLMSG_DATA(&t->answer.head), sizeof m);
	p->redirected = m.rtm_flags & RTCF_REDIRECTED || m.rtm_protocol == RTPROT_REDIRECT;
	const char *at = netlink_attributes(t, sizeof m, &bytes);
	netlink_find(at, bytes, RTA_OIF, &p->interface, sizeof p->interface);
	if (m.rtm_family == AF_INET)
		memset(address + 10, 0xff, 2); /* mapped */
	p->by_gateway = m.rtm_family == AF_INET
				? netlink_find(at, bytes, RTA_GATEWAY, address + 12, 4) == 4
				: netlink_find(at, bytes, RTA_GATEWAY, address, 16) == 16;
}

void fan_next_hop_read(struct fan_next_hop *p, const fan_peer *to)
{
	struct netlink t;
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

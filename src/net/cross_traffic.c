/* SPDX-License-Identifier: Apache-2.0 */
#include "cross_traffic.h"

#include <assert.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>

#include "netlink.h"

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
	struct fan_netlink t;
	struct ifinfomsg is;
	size_t length;

	fan_netlink_begin(&t, RTM_GETLINK, &link, sizeof link);
	if (!fan_netlink_ask(&t, NETLINK_ROUTE))
		return false;
	const char *at = fan_netlink_attributes(&t, sizeof link, &length);
	memcpy(&is, NLMSG_DATA(&t.answer.head), sizeof is);
	/* younger kernels have more of them, older ones fewer */
	if (is.ifi_flags & IFF_LOOPBACK ||
	    fan_netlink_find(at, length, IFLA_STATS64, &stats, sizeof stats) <
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
		o->of[i].told = received(o->of[i].index, &o->of[i].received);
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
		if (lost || !one->told)
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

/* SPDX-License-Identifier: Apache-2.0 */
/* steer.bpf.c - the program at an interface: datagrams for the ports of the shards go to the
 * socket of their queue, all else to the kernel.
 *
 * What it does not understand is not its own: IP options, extension headers, fragments, VLANs,
 * addresses that are not this machine's, ports on another shard's queue.  Nor is what a socket can
 * still use and a plane cannot: datagrams that the kernel has joined, and those whose checksum is
 * left to a device, which have the sum of their pseudo-header alone. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "steer.h"

#define IPV4_BYTES_IN_WORDS 5
#define IPV4_PIECES	    0x3fff /* more fragments, fragment offset */

struct address {
	__u32 word[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, XDP_QUEUES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* Of this machine; IPv4 ones mapped. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_ADDRESSES_MAX);
	__type(key, struct address);
	__type(value, __u8);
} addresses SEC(".maps");

/* Datagrams without a checksum, by queue. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XDP_QUEUES_MAX);
	__type(key, __u32);
	__type(value, __u64);
} unfinished SEC(".maps");

const volatile __u32 first_port = 0;
const volatile __u32 shards = 1;
const volatile bool large_frames = false;
const volatile bool has_only = false;
const volatile __u32 only[4] = {0}; /* has_only: the one address, not in the map */

static __always_inline __u32 add(__u32 sum, __u32 word)
{
	return sum + (word & 0xffff) + (word >> 16);
}

/* The transport header of a UDP datagram, its destination, and the sum of its addresses, without
 * carries; NULL: something else. */
static __always_inline struct udphdr *udp_of(struct xdp_md *ctx, struct address *to, __u32 *sum)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end)
		return 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);
		if ((void *)(ip + 1) > end || ip->ihl != IPV4_BYTES_IN_WORDS ||
		    ip->protocol != IPPROTO_UDP || (ip->frag_off & bpf_htons(IPV4_PIECES)))
			return 0;
		to->word[2] = bpf_htonl(0xffff);
		to->word[3] = ip->daddr;
		*sum = add(add(0, ip->saddr), ip->daddr);
		return (void *)(ip + 1);
	}
	if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);
		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
			return 0;
		for (int i = 0; i < 4; i++) {
			to->word[i] = ip->daddr.in6_u.u6_addr32[i];
			*sum = add(add(*sum, to->word[i]), ip->saddr.in6_u.u6_addr32[i]);
		}
		return (void *)(ip + 1);
	}
	return 0;
}

/* Two constants, kept apart: who has CAP_BPF alone may not add a variable to a packet's address. */
static __always_inline bool is_too_long(struct xdp_md *ctx)
{
	void *most = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (large_frames) {
		most += XDP_FRAME_LARGE - XDP_FRAME_SPARE;
		asm volatile("" : "+r"(most));
		return most < end;
	}
	most += XDP_FRAME_SMALL - XDP_FRAME_SPARE;
	asm volatile("" : "+r"(most));
	return most < end;
}

/* Has it the sum of its pseudo-header alone?  One finished datagram in 65,536 has, too. */
static __always_inline bool is_unfinished(const struct udphdr *udp, __u32 sum)
{
	sum += udp->len + bpf_htons(IPPROTO_UDP);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return udp->check == sum;
}

/* A comparison in place of a look into the map, which perf shows. */
static __always_inline bool is_mine(const struct address *to)
{
	if (!has_only)
		return bpf_map_lookup_elem(&addresses, to);
	return to->word[0] == only[0] && to->word[1] == only[1] && to->word[2] == only[2] &&
	       to->word[3] == only[3];
}

static __always_inline int leave_unfinished(__u32 queue)
{
	__u64 *count = bpf_map_lookup_elem(&unfinished, &queue);

	if (count)
		__sync_fetch_and_add(count, 1);
	return XDP_PASS;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	struct address to = {{0}};
	__u32 sum = 0;
	struct udphdr *udp = udp_of(ctx, &to, &sum);

	if (!udp || (void *)(udp + 1) > (void *)(long)ctx->data_end || is_too_long(ctx))
		return XDP_PASS;
	__u32 shard = bpf_ntohs(udp->dest) - first_port;
	if (shard >= shards || ctx->rx_queue_index % shards != shard)
		return XDP_PASS;
	if (!is_mine(&to))
		return XDP_PASS;
	if (is_unfinished(udp, sum))
		return leave_unfinished(ctx->rx_queue_index);
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char terms[] SEC("license") = "Dual BSD/GPL";

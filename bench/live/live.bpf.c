/* SPDX-License-Identifier: Apache-2.0 */
/* live.bpf.c - contributions as a driver would deliver them: it is run once a frame, makes of the
 * template the next contribution of a job, rank after rank of each fragment, and redirects it. */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "live.h"

const volatile __u32 interface = 0;
const volatile __u32 ranks = 1;
const volatile __u32 first_port = 0;
const volatile __u32 base_sum = 0; /* of the template with zeros where this program writes */
const volatile __u32 crc_table[256] = {0};

__u64 next = 0;

struct head {
	__u8 before[12];
	__u16 sender, seq;
	__u64 frag;
	__u8 after[8];
	__u32 check;
} __attribute__((packed));

static __always_inline __u32 add(__u32 sum, __u32 word)
{
	return sum + (word & 0xffff) + (word >> 16);
}

SEC("xdp")
int live(struct xdp_md *ctx)
{
	__u8 *frame = (void *)(long)ctx->data;
	__u16 *udp = (void *)(frame + LIVE_AT - LIVE_UDP);
	struct head *h = (void *)(frame + LIVE_AT);
	__u32 crc = ~0u, rank = next % ranks;

	if ((void *)(h + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	h->sender = rank;
	h->frag = next / ranks;
	next++;
	for (int i = 0; i < LIVE_CHECKED; i++)
		crc = crc >> 8 ^ crc_table[(crc ^ frame[LIVE_AT + i]) & 255];
	h->check = ~crc;
	udp[0] = bpf_htons(first_port + rank);
	__u32 sum = add(base_sum, udp[0]);
	sum = add(sum, h->sender);
	sum = add(sum, (__u32)h->frag);
	sum = add(sum, (__u32)(h->frag >> 32));
	sum = add(sum, h->check);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	udp[3] = ~sum;
	return bpf_redirect(interface, 0);
}

char terms[] SEC("license") = "Dual BSD/GPL";

/* SPDX-License-Identifier: Apache-2.0 */
/* switch.bpf.c - the switch of SwitchML (NSDI '21) in an interface's XDP program: match, add, and
 * send the result to the job's group, in one pass over the frame and without leaving the kernel.
 *
 * It has what a programmable switch has: integers, a slot for each fragment in flight in two
 * versions, a bitmap of ranks a slot, and no clock.  A contribution that completes its slot becomes
 * the result, in place, and goes out where it came in.  Membership is the loader's, switch.c; this
 * program only knows jobs that are ready.  All that it does not understand goes to the kernel.
 * Rules and fields: doc/protocol/base.md, sections 3 and 6, and fixed.md. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "layout.h"

#define DATA	    1
#define RESULT	    3
#define PROBE	    4
#define NEED	    5
#define VERSION	    2
#define NOBODY	    0xffff
#define FIRST_LAST  0x0003
#define ECN	    0x0040
#define REPLAY	    0x0200
#define INSIST	    0x0400
#define SUM_INT32   0x03 /* kinds: op << 4 | dtype */
#define SUM_INT64   0x04
#define MAX_INT64   0x34 /* with which `fanin bench` compares times */
#define SUM_FIXED32 0x05
#define AVG_FIXED32 0x15 /* the ranks divide */
#define MAX_EXP16   0x36
#define BARRIER	    0x57
#define FIXED_INF   0x7fffffff
#define FIXED_NAN   0x80000000
#define PIECE	    88 /* words: a quarter of a payload, at most 512 bytes */
#define CHECKED	    32 /* bytes of the header that its check is over */
#define CE	    3
#define TTL	    64

struct head {
	__u8 version, type;
	__u16 flags;
	__u32 job, epoch;
	__u16 sender, seq;
	__u64 frag;
	__u16 to; /* DATA: helper and place */
	__u16 count;
	__u16 exponent;
	__u8 kind, priority;
	__u32 check;
} __attribute__((packed));

struct frame {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	struct head h;
	__u32 word[];
} __attribute__((packed));

enum { FREE, OPEN, DONE };

/* One version of a slot. */
struct round {
	__u32 state;
	__u64 frag, have;
	__u16 count, flags, exponent, seq;
	__u32 kind;
	__u32 word[PAYLOAD_WORDS] __attribute__((aligned(8)));
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, JOBS);
	__type(key, __u32);
	__type(value, struct job);
} jobs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ROUNDS);
	__type(key, __u32);
	__type(value, struct round);
} rounds SEC(".maps");

struct scratch {
	__u32 word[PAYLOAD_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

const volatile __u32 own_ip = 0;   /* network order */
const volatile __u16 own_port = 0; /* host order */
/* [k][b]: the CRC of byte b with k zeros behind it. */
const volatile __u32 crc_table[4][256] = {{0}};

static __always_inline int count(__u32 what, int verdict)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &what);

	if (n)
		++*n;
	return verdict;
}

/* CRC-32C of the header before its check, four bytes at a time. */
static __always_inline __u32 check_of(const struct head *h)
{
	const __u32 *word = (const void *)h;
	__u32 crc = ~0u;

	for (int i = 0; i < CHECKED / 4; i++) {
		crc ^= word[i];
		crc = crc_table[3][crc & 255] ^ crc_table[2][crc >> 8 & 255] ^
		      crc_table[1][crc >> 16 & 255] ^ crc_table[0][crc >> 24];
	}
	return ~crc;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Of UDP: addresses, ports and header of fanin; the payload's words are the caller's. */
static __always_inline __u64 sum_heads(const struct frame *f)
{
	__u64 sum = (__u64)f->ip.saddr + f->ip.daddr + bpf_htons(IPPROTO_UDP) + f->udp.len;
	const __u16 *half = (const void *)&f->udp;

	for (unsigned i = 0; i < (sizeof f->udp + sizeof f->h) / 2; i++)
		sum += half[i];
	return sum;
}

static __always_inline void finish_ip(struct frame *f)
{
	const __u16 *half = (const void *)&f->ip;
	__u64 sum = 0;

	f->ip.ttl = TTL;
	f->ip.check = 0;
	for (unsigned i = 0; i < sizeof f->ip / 2; i++)
		sum += half[i];
	f->ip.check = ~fold(sum);
}

/* All ones if it is an infinity or no number. */
static __always_inline __u32 special(__u32 a)
{
	return -(__u32)(((__u64)(a - FIXED_INF) - 3) >> 63);
}

/* Without branches, of which the verifier would follow both ways of every element. */
static __always_inline __u32 add_fixed(__u32 a, __u32 b)
{
	__u32 sa = special(a), sb = special(b);
	__u32 same = -(__u32)(((__u64)(a ^ b) - 1) >> 63);
	__u32 both = (same & a) | (~same & FIXED_NAN);

	return (~sa & ~sb & (a + b)) | (sa & ~sb & a) | (~sa & sb & b) | (sa & sb & both);
}

static __always_inline __u32 max_of(__s32 a, __s32 b)
{
	return a - ((a - b) & ((a - b) >> 31));
}

/* Two exponents of 16 bits in each. */
static __always_inline __u32 max_exponents(__u32 a, __u32 b)
{
	return (max_of((__s16)a, (__s16)b) & 0xffff) | max_of((__s16)(a >> 16), (__s16)(b >> 16))
							       << 16;
}

#define ALL_WORDS(statement)                                                                       \
	for (int i = 0; i < PAYLOAD_WORDS; i++)                                                    \
	statement

#define ALL_PAIRS(statement)                                                                       \
	for (int i = 0; i < PAYLOAD_WORDS / 2; i++)                                                \
	statement

static __always_inline __u64 max_int64(__s64 a, __s64 b)
{
	__s64 less = (a ^ ((a ^ b) | ((a - b) ^ b))) >> 63;

	return a ^ ((a ^ b) & less);
}

/* In pieces of what the kernel's own sum takes at a time. */
static __always_inline __u64 sum_words(__u32 *word)
{
	__u64 sum = 0;

	for (int at = 0; at < PAYLOAD_WORDS; at += PIECE)
		sum += (__u32)bpf_csum_diff(0, 0, word + at, 4 * PIECE, 0);
	return sum;
}

static __always_inline void load(struct round *r, const __u32 *word)
{
	ALL_WORDS(((volatile __u32 *)r->word)[i] = word[i]); /* and of memcpy */
}

static __always_inline void add(struct round *r, const __u32 *word)
{
	__u64 *pair = (void *)r->word;

	if (r->kind == SUM_INT32)
		ALL_WORDS(r->word[i] += word[i]);
	else if (r->kind == SUM_INT64)
		ALL_PAIRS(pair[i] += ((const __u64 *)word)[i]);
	else if (r->kind == MAX_INT64)
		ALL_PAIRS(pair[i] = max_int64(pair[i], ((const __u64 *)word)[i]));
	else if (r->kind == MAX_EXP16)
		ALL_WORDS(r->word[i] = max_exponents(r->word[i], word[i]));
	else
		ALL_WORDS(r->word[i] = add_fixed(r->word[i], word[i]));
}

/* Bytes of payload that `kind` and `count` mean; negative: not for this switch. */
static __always_inline int payload_bytes(__u8 kind, __u16 count)
{
	if (kind == BARRIER)
		return count ? -1 : 0;
	if (kind == MAX_EXP16)
		return count > 2 * PAYLOAD_WORDS ? -1 : 2 * count;
	if (kind == SUM_INT64 || kind == MAX_INT64)
		return count > PAYLOAD_WORDS / 2 ? -1 : 8 * count;
	if (kind != SUM_INT32 && kind != SUM_FIXED32 && kind != AVG_FIXED32)
		return -1;
	return count > PAYLOAD_WORDS ? -1 : 4 * count;
}

/* Turn the frame round: from this switch to whoever sent it, with a header of `type`. */
static __always_inline void answer(struct frame *f, __u8 type, __u16 to, __u16 flags)
{
	__u8 mac[ETH_ALEN];
	__u32 ip = f->ip.saddr;
	__u16 port = f->udp.source;

	__builtin_memcpy(mac, f->eth.h_source, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, f->eth.h_dest, ETH_ALEN);
	__builtin_memcpy(f->eth.h_dest, mac, ETH_ALEN);
	f->ip.saddr = f->ip.daddr;
	f->ip.daddr = ip;
	f->udp.source = f->udp.dest;
	f->udp.dest = port;
	f->h.type = type;
	f->h.sender = NOBODY;
	f->h.to = to;
	f->h.priority = 0; /* of DATA alone */
	f->h.flags = flags;
}

static __always_inline void to_group(struct frame *f, const struct job *j)
{
	const __u8 *ip = (const void *)&j->group_ip;

	f->eth.h_dest[0] = 0x01; /* RFC 1112, 6.4 */
	f->eth.h_dest[1] = 0x00;
	f->eth.h_dest[2] = 0x5e;
	f->eth.h_dest[3] = ip[1] & 0x7f;
	f->eth.h_dest[4] = ip[2];
	f->eth.h_dest[5] = ip[3];
	f->ip.daddr = j->group_ip;
	f->udp.dest = bpf_htons(j->group_port);
}

/* Checks, and away.  `sum`: of the payload's words. */
static __always_inline int send(struct frame *f, __u64 sum)
{
	f->h.check = check_of(&f->h);
	finish_ip(f);
	f->udp.check = 0;
	f->udp.check = ~fold(sum + sum_heads(f));
	if (!f->udp.check)
		f->udp.check = 0xffff;
	return XDP_TX;
}

/* What a contribution does to its round. */
enum turn { WAIT, LAST_ONE, AGAIN, DROP_STALE, DISAGREE };

/* Is fragment `n` the next of a round, whose other version is `s`? */
static __always_inline int opens(const struct round *r, const struct round *s, const struct job *j,
				 __u64 n)
{
	if (r->state != FREE && r->frag >= n)
		return 0;
	return n < j->window || (s->state == DONE && s->frag == n - j->window);
}

/* `word`: the payload, with zeros behind it if it is not full. */
static __always_inline enum turn contribute(struct round *r, const struct round *s,
					    const struct job *j, const struct head *h,
					    const __u32 *word, int marked)
{
	__u64 bit = 1ull << (h->sender & 63), all = ~0ull >> (64 - j->ranks & 63);

	if (opens(r, s, j, h->frag)) {
		r->state = OPEN;
		r->frag = h->frag;
		r->have = bit;
		r->count = h->count;
		r->kind = h->kind;
		r->exponent = h->exponent;
		r->flags = (h->flags & FIRST_LAST) | (marked ? ECN : 0);
		load(r, word);
		return WAIT;
	}
	if (r->state == FREE || r->frag != h->frag)
		return DROP_STALE;
	if (r->have & bit)
		return r->state == DONE ? AGAIN : DROP_STALE;
	if (r->kind != h->kind || r->count != h->count || r->exponent != h->exponent ||
	    (r->flags & FIRST_LAST) != (h->flags & FIRST_LAST))
		return DISAGREE;
	r->have |= bit;
	r->flags |= marked ? ECN : 0;
	add(r, word);
	if (r->have != all)
		return WAIT;
	r->state = DONE;
	return LAST_ONE;
}

/* The sum takes the contribution's place, and its frame becomes the result's.  Nothing changes the
 * round before all ranks have this result. */
static __always_inline int send_result(struct xdp_md *ctx, struct job *j, struct round *r,
				       int bytes, enum turn turn)
{
	if (bytes && bytes <= 4 * PAYLOAD_WORDS &&
	    bpf_xdp_store_bytes(ctx, sizeof(struct frame), r->word, bytes))
		return count(BAD, XDP_ABORTED);
	struct frame *f = (void *)(long)ctx->data;
	if ((void *)(f + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	answer(f, RESULT, 0, r->flags | (turn == AGAIN ? REPLAY : 0));
	if (turn == LAST_ONE) {
		r->seq = j->seq++;
		to_group(f, j);
		count(SUMMED, 0);
	}
	f->h.seq = r->seq;
	return send(f, sum_words(r->word)) + count(turn == LAST_ONE ? RESULTS : REPLAYS, 0);
}

static __always_inline int handle_data(struct xdp_md *ctx, struct frame *f, struct job *j,
				       struct round *r, const struct round *s, __u32 *word,
				       int bytes)
{
	int marked = (f->ip.tos & CE) == CE || (f->h.flags & ECN);

	if (f->udp.check && fold(sum_heads(f) + sum_words(word)) != 0xffff)
		return count(BAD, XDP_DROP);
	enum turn turn = contribute(r, s, j, &f->h, word, marked);
	if (turn == WAIT)
		return count(SUMMED, XDP_DROP);
	if (turn == DROP_STALE)
		return count(STALE, XDP_DROP);
	if (turn == DISAGREE)
		return count(LEFT_TO_USER, XDP_PASS);
	return send_result(ctx, j, r, bytes, turn);
}

/* A payload that is not full, with zeros behind it. */
static __always_inline __u32 *pad(struct xdp_md *ctx, int bytes)
{
	__u32 zero = 0;
	struct scratch *x = bpf_map_lookup_elem(&scratches, &zero);

	if (!x)
		return 0;
	ALL_WORDS(((volatile __u32 *)x->word)[i] = 0); /* a loop, not a call of memset */
	if (bytes > 0 && bytes < 4 * PAYLOAD_WORDS &&
	    bpf_xdp_load_bytes(ctx, sizeof(struct frame), x->word, bytes))
		return 0;
	return x->word;
}

/* A replay is longer than a probe; so a rank that lacks a result is asked for its contribution,
 * whose frame has the room. */
static __always_inline int handle_probe(struct frame *f, struct job *j, struct round *r,
					const struct round *s)
{
	__u64 n = f->h.frag;
	int missing = opens(r, s, j, n);

	if (r->state != FREE && r->frag == n)
		missing = r->state == DONE || !(r->have >> (f->h.sender & 63) & 1);
	if (!missing)
		return count(STALE, XDP_DROP);
	answer(f, NEED, f->h.sender + 1, 0); /* a tag */
	f->h.seq = 0;
	f->h.count = 0; /* NEED: depth and words */
	f->h.exponent = 0;
	f->h.kind = 0;
	return send(f, 0) + count(NEEDS, 0);
}

/* Of this switch's sums, or for the kernel? */
static __always_inline int is_ours(const struct frame *f, void *end)
{
	return (void *)(f + 1) <= end && f->eth.h_proto == bpf_htons(ETH_P_IP) &&
	       f->ip.version == 4 && f->ip.ihl == 5 && f->ip.protocol == IPPROTO_UDP &&
	       !(f->ip.frag_off & bpf_htons(0x3fff)) && f->ip.daddr == own_ip &&
	       f->udp.dest == bpf_htons(own_port) && f->h.version == VERSION &&
	       (f->h.type == DATA || f->h.type == PROBE);
}

SEC("xdp")
int xdp_switch(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct frame *f = (void *)(long)ctx->data;

	if (!is_ours(f, end))
		return XDP_PASS;
	__u32 key = f->h.job;
	struct job *j = bpf_map_lookup_elem(&jobs, &key);
	if (!j || j->epoch != f->h.epoch)
		return XDP_PASS;
	__u32 rank = f->h.sender;
	if (rank >= j->ranks || rank >= RANKS || j->peer_ip[rank] != f->ip.saddr ||
	    j->peer_port[rank] != bpf_ntohs(f->udp.source) || !j->window)
		return count(BAD, XDP_DROP);
	int bytes = f->h.type == PROBE ? 0 : payload_bytes(f->h.kind, f->h.count);
	if (bytes < 0 || (f->h.type == DATA && (f->h.flags & ~(FIRST_LAST | ECN | 0x100))))
		return count(LEFT_TO_USER, XDP_PASS);
	__u16 length = sizeof f->udp + sizeof f->h + bytes;
	if (f->udp.len != bpf_htons(length) || f->ip.tot_len != bpf_htons(length + sizeof f->ip) ||
	    check_of(&f->h) != f->h.check)
		return count(BAD, XDP_DROP);
	__u32 slot = f->h.frag % j->window, version = f->h.frag / j->window & 1;
	__u32 at = j->first_round + 2 * slot + version, beside = at ^ 1;
	struct round *r = bpf_map_lookup_elem(&rounds, &at);
	struct round *s = bpf_map_lookup_elem(&rounds, &beside);
	if (!r || !s)
		return count(BAD, XDP_DROP);
	if (f->h.type == PROBE)
		return handle_probe(f, j, r, s);
	if (bytes == 4 * PAYLOAD_WORDS && (void *)&f->word[PAYLOAD_WORDS] <= end)
		return handle_data(ctx, f, j, r, s, f->word, bytes);
	__u32 *word = pad(ctx, bytes);
	f = (void *)(long)ctx->data;
	if (!word || (void *)(f + 1) > (void *)(long)ctx->data_end)
		return count(BAD, XDP_DROP);
	return handle_data(ctx, f, j, r, s, word, bytes);
}

/* For the far end of a veth, which takes frames that leave by XDP only while it has a program. */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char terms[] SEC("license") = "Dual BSD/GPL";

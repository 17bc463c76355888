/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <netinet/in.h>
#include <string.h>

#include "core/sum/reduce.h"

#define ETHERNET_BYTES 14
#define TYPE_AT	       12
#define TYPE_IPV4      0x0800
#define TYPE_IPV6      0x86dd
#define IPV4_BYTES     20
#define IPV4_PIECES    0x3fff /* more fragments, fragment offset */
#define IPV6_BYTES     40
#define UDP_BYTES      8
#define UDP	       17
#define CE	       3 /* congestion experienced: RFC 3168 */

/* An IP packet with a datagram in it. */
struct packet {
	const uint8_t *from, *to; /* addresses */
	size_t address_bytes;
	unsigned traffic_class;
	const uint8_t *udp;
	size_t bytes; /* of header and data of UDP */
};

static unsigned read16(const uint8_t *p)
{
	return p[0] * 256u + p[1];
}

/* Add `bytes` bytes to a sum in ones' complement (RFC 1071), in host order. */
FAN_CLONES static uint64_t add(uint64_t sum, const uint8_t *p, size_t bytes)
{
	size_t words = bytes / sizeof(fan_u32);
	const fan_u32 *word = (const fan_u32 *)p;
	uint32_t rest = 0;

	for (size_t i = 0; i < words; i++)
		sum += word[i];
	memcpy(&rest, p + words * sizeof *word, bytes % sizeof *word);
	return sum + rest;
}

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static enum fan_frame_fault read_ipv4(struct packet *p, const uint8_t *ip, size_t bytes)
{
	if (bytes < IPV4_BYTES)
		return FAN_FRAME_LENGTH;
	if (ip[0] != 0x45 || ip[9] != UDP || (read16(ip + 6) & IPV4_PIECES))
		return FAN_FRAME_OTHER;
	size_t total = read16(ip + 2);
	if (total > bytes || total < IPV4_BYTES + UDP_BYTES)
		return FAN_FRAME_LENGTH;
	if (fold(add(0, ip, IPV4_BYTES)) != 0xffff)
		return FAN_FRAME_CHECKSUM;
	*p = (struct packet){ip + 12, ip + 16, 4, ip[1], ip + IPV4_BYTES, total - IPV4_BYTES};
	return FAN_FRAME_GOOD;
}

static enum fan_frame_fault read_ipv6(struct packet *p, const uint8_t *ip, size_t bytes)
{
	if (bytes < IPV6_BYTES)
		return FAN_FRAME_LENGTH;
	if (ip[0] >> 4 != 6 || ip[6] != UDP)
		return FAN_FRAME_OTHER;
	size_t length = read16(ip + 4);
	if (length > bytes - IPV6_BYTES || length < UDP_BYTES)
		return FAN_FRAME_LENGTH;
	*p = (struct packet){ip + 8, ip + 24, 16, read16(ip) >> 4 & 0xff, ip + IPV6_BYTES, length};
	return FAN_FRAME_GOOD;
}

/* IPv4 may go without a sum, IPv6 may not (RFC 8200, 8.1). */
static enum fan_frame_fault check_sum(const struct packet *p, size_t bytes)
{
	uint16_t length = htons((uint16_t)bytes);
	uint64_t pseudo = add(add(htons(UDP) + (uint64_t)length, p->from, p->address_bytes), p->to,
			      p->address_bytes);
	uint16_t told;

	memcpy(&told, p->udp + 6, sizeof told);
	if (!told)
		return p->address_bytes == 4 ? FAN_FRAME_GOOD : FAN_FRAME_CHECKSUM;
	return fold(add(pseudo, p->udp, bytes)) == 0xffff ? FAN_FRAME_GOOD : FAN_FRAME_CHECKSUM;
}

static void read_address(uint64_t addr[2], const uint8_t *from, size_t bytes)
{
	uint8_t b[16] = {[10] = 0xff, [11] = 0xff}; /* v4-mapped */

	memcpy(b + sizeof b - bytes, from, bytes);
	memcpy(addr, b, sizeof b);
}

enum fan_frame_fault fan_frame_read(struct fan_plane_datagram *d, const uint8_t *frame,
				    size_t bytes)
{
	enum fan_frame_fault fault = FAN_FRAME_OTHER;
	struct packet p;

	if (bytes < ETHERNET_BYTES)
		return FAN_FRAME_LENGTH;
	if (read16(frame + TYPE_AT) == TYPE_IPV4)
		fault = read_ipv4(&p, frame + ETHERNET_BYTES, bytes - ETHERNET_BYTES);
	else if (read16(frame + TYPE_AT) == TYPE_IPV6)
		fault = read_ipv6(&p, frame + ETHERNET_BYTES, bytes - ETHERNET_BYTES);
	if (fault)
		return fault;
	size_t told = read16(p.udp + 4);
	if (told < UDP_BYTES || told > p.bytes)
		return FAN_FRAME_LENGTH;
	fault = check_sum(&p, told);
	if (fault)
		return fault;
	memset(d, 0, sizeof *d);
	read_address(d->from.addr, p.from, p.address_bytes);
	read_address(d->to, p.to, p.address_bytes);
	d->from.port = read16(p.udp);
	d->data = p.udp + UDP_BYTES;
	d->bytes = told - UDP_BYTES;
	d->marked = (p.traffic_class & CE) == CE;
	return FAN_FRAME_GOOD;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <inttypes.h>

#include "core/wire/wire.h"
#include "experiment.h"

#define NAME_BYTES 80

/* pcap: times in nanoseconds; packets begin with an IP header */
#define PCAP_MAGIC 0xa1b23c4du
#define PCAP_RAW   101u
#define PCAP_SNAP  65535u
#define IP_BYTES   20u
#define UDP_BYTES  8u
#define UDP_PORT   23845u

#define FRAG_AT 16u /* offset of a message's fragment, except in control messages and MISS */

/* The name of an actor for people: "vgg.3" for rank 3 of job vgg, "s0" for a switch. */
static void actor_name(const struct fan_experiment *e, uint32_t actor, char *name, size_t bytes)
{
	for (uint32_t n = 0; n < e->scenario->nodes; n++) {
		if (!e->daemon[n] || e->daemon[n]->actor != actor)
			continue;
		snprintf(name, bytes, "%s", e->scenario->node[n].name);
		return;
	}
	for (uint32_t i = 0; i < e->scenario->jobs; i++) {
		uint32_t first = e->job[i].trainer[0].actor;
		if (actor < first || actor - first >= e->job[i].cfg.ranks)
			continue;
		snprintf(name, bytes, "%s.%u", e->job[i].cfg.name, actor - first);
		return;
	}
	bool tcp = false;
	for (uint32_t i = 0; i < e->scenario->tcps; i++)
		tcp |= actor == e->tcp[i].source || actor == e->tcp[i].sink;
	snprintf(name, bytes, "%s@%s", tcp ? "tcp" : "background",
		 e->scenario->node[e->sim.actor[actor].node].name);
}

static void print_line(const struct fan_trace *t, enum fan_sight what,
		       const struct fan_sim_packet *p)
{
	static const char *const does[] = {
		[FAN_SIGHT_SENT] = "sends",
		[FAN_SIGHT_ARRIVED] = "arrives",
		[FAN_SIGHT_OVERFLOW] = "is dropped: queue full",
		[FAN_SIGHT_LOST] = "is lost",
	};
	char from[NAME_BYTES], to[NAME_BYTES];
	uint64_t now_ns = t->e->sim.now_ns;
	actor_name(t->e, p->from, from, sizeof from);
	if (p->flags & FAN_PACKET_TREE)
		snprintf(to, sizeof to, "group");
	else
		actor_name(t->e, p->to, to, sizeof to);
	fprintf(t->lines, "[%9" PRIu64 ".%03uus] %s > %s ", now_ns / 1000,
		(unsigned)(now_ns % 1000), from, to);
	if (p->body && p->len >= FAN_HEAD_BYTES) {
		const uint8_t *b = p->body->bytes;
		fprintf(t->lines, "%s ", fan_type_name(b[1]));
		if (b[1] < FAN_TYPE_CTL && b[1] != FAN_TYPE_MISS)
			fprintf(t->lines, "#%" PRIu64 " ", fan_get64(b + FRAG_AT));
	}
	fprintf(t->lines, "%u bytes%s: %s\n", p->len, p->flags & FAN_PACKET_ECN ? " ecn" : "",
		does[what]);
}

static void put_be16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put_address(uint8_t *p, uint32_t actor)
{
	p[0] = 10;
	p[1] = (uint8_t)(actor >> 16);
	put_be16(p + 2, actor & 0xffff);
}

/* Is the packet from or for the captured node? */
static bool is_captured(const struct fan_trace *t, const struct fan_sim_packet *p)
{
	const struct fan_sim *s = &t->e->sim;
	if (t->node == FAN_SIM_NONE || s->actor[p->from].node == t->node)
		return true;
	if (!(p->flags & FAN_PACKET_TREE))
		return s->actor[p->to].node == t->node;
	const struct fan_sim_tree *group = &s->tree[p->to];
	for (uint32_t i = 0; i < group->members; i++)
		if (s->actor[group->member[i]].node == t->node)
			return true;
	return false;
}

/* The bytes of a datagram that are captured: all but elements. */
static unsigned captured_bytes(const struct fan_sim_packet *p)
{
	bool control = p->len >= 2 && p->body->bytes[1] >= FAN_TYPE_CTL;
	return p->len < FAN_HEAD_BYTES || control ? p->len : FAN_HEAD_BYTES;
}

static void write_packet(struct fan_trace *t, const struct fan_sim_packet *p)
{
	uint8_t h[16 + IP_BYTES + UDP_BYTES] = {0}, *ip = h + 16, *udp = ip + IP_BYTES;
	uint64_t now_ns = t->e->sim.now_ns;
	unsigned bytes = p->len + IP_BYTES + UDP_BYTES, kept = captured_bytes(p);
	if (t->bytes + sizeof h + kept > FAN_PCAP_BYTES_MAX) {
		t->missed++;
		return;
	}
	fan_put32(h, (uint32_t)(now_ns / 1000000000));
	fan_put32(h + 4, (uint32_t)(now_ns % 1000000000));
	fan_put32(h + 8, kept + IP_BYTES + UDP_BYTES);
	fan_put32(h + 12, bytes);
	ip[0] = 0x45;
	ip[1] = p->flags & FAN_PACKET_ECN ? 3 : 2;
	put_be16(ip + 2, bytes);
	put_be16(ip + 6, 0x4000); /* don't fragment */
	ip[8] = 64;
	ip[9] = 17;
	put_address(ip + 12, p->from);
	put_address(ip + 16, p->to);
	unsigned sum = 0;
	for (unsigned i = 0; i < IP_BYTES; i += 2)
		sum += (unsigned)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	put_be16(ip + 10, ~(sum + (sum >> 16)) & 0xffff);
	put_be16(udp, UDP_PORT);
	put_be16(udp + 2, UDP_PORT);
	put_be16(udp + 4, p->len + UDP_BYTES);
	fwrite(h, sizeof h, 1, t->pcap);
	fwrite(p->body->bytes, kept, 1, t->pcap);
	t->bytes += sizeof h + kept;
	t->captured++;
	t->until_ns = now_ns;
}

static void saw(void *arg, enum fan_sight what, uint32_t link, const struct fan_sim_packet *p)
{
	struct fan_trace *t = arg;
	(void)link;
	if (t->lines)
		print_line(t, what, p);
	if (t->pcap && what == FAN_SIGHT_SENT && p->body && is_captured(t, p))
		write_packet(t, p);
}

void fan_trace_begin(struct fan_trace *t, struct fan_experiment *e, FILE *lines, FILE *pcap,
		     uint32_t node)
{
	*t = (struct fan_trace){.e = e, .lines = lines, .pcap = pcap, .node = node};
	e->sim.watch = (struct fan_watch){saw, t};
	if (!pcap)
		return;
	uint8_t head[24] = {0};
	fan_put32(head, PCAP_MAGIC);
	fan_put16(head + 4, 2);
	fan_put16(head + 6, 4);
	fan_put32(head + 16, PCAP_SNAP);
	fan_put32(head + 20, PCAP_RAW);
	fwrite(head, sizeof head, 1, pcap);
	t->bytes = sizeof head;
}

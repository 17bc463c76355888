/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
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

/* ---- what ranks do over time ---- */

#define EVENTS_MAX 1000000u /* lines; further events are counted and left out */
#define PID_FIRST  100000   /* of simulated ranks; real ones keep their numbers */
#define BYTES_EACH 4	    /* of an element */

/* A bucket in progress. */
struct span {
	uint64_t begin_ns, part_ns; /* when it was ready; when its first element was started */
};

/* What has been recorded of a rank. */
struct seen {
	struct span *span; /* buckets of two iterations: more are never in progress */
	uint64_t ready, sent, done;
	uint64_t elems, quiet_ns;
	int pid;
	bool joined, left;
};

struct fan_timeline {
	FILE *f;
	struct fan_experiment *e;
	struct seen *seen; /* by actor */
	uint32_t actors;
	uint64_t start_ns; /* added to all times */
	uint64_t lines, lost;
};

/* Begin an event, if one more may be written. */
static bool room(struct fan_timeline *l)
{
	if (l->lines == EVENTS_MAX) {
		l->lost++;
		return false;
	}
	fputs(l->lines++ ? ",\n" : "[\n", l->f);
	return true;
}

static void put_time(const struct fan_timeline *l, const char *key, uint64_t ns)
{
	fprintf(l->f, ",\"%s\":%" PRIu64 ".%03" PRIu64, key, ns / 1000, ns % 1000);
}

/* Write a name without the characters that would end a JSON string. */
static void put_name(FILE *f, const char *name)
{
	for (; *name; name++)
		fputc(strchr("\"\\", *name) || (unsigned char)*name < ' ' ? '_' : *name, f);
}

static void put_head(struct fan_timeline *l, const struct fan_job_config *c, uint32_t rank, int pid)
{
	assert(rank < c->ranks);
	static const char *const threads[] = {"operations", "waits"};
	if (!room(l))
		return;
	fprintf(l->f, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"",
		pid);
	fputs("simulated ", l->f);
	put_name(l->f, c->name);
	fprintf(l->f, " rank %" PRIu32 "\"}}", rank);
	for (unsigned i = 0; i < 2; i++)
		if (room(l))
			fprintf(l->f,
				"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,"
				"\"args\":{\"name\":\"%s\"}}",
				pid, i, threads[i]);
}

/* Write one half, begin or end, of an operation or of its only part. */
static void put_half(struct fan_timeline *l, const struct seen *s, char phase, uint64_t bucket,
		     const char *name, uint64_t at_ns)
{
	if (!room(l))
		return;
	fprintf(l->f,
		"{\"ph\":\"%c\",\"cat\":\"fanin\",\"id\":\"%d.%" PRIu64
		"\",\"pid\":%d,\"tid\":0,\"name\":\"%s\"",
		phase, s->pid, bucket + 1, s->pid, name);
	put_time(l, "ts", l->start_ns + at_ns);
}

static void put_op(struct fan_timeline *l, const struct seen *s, const struct fan_trainer *t,
		   uint64_t bucket, uint64_t end_ns, int result)
{
	const struct fan_job_config *c = t->shared->cfg;
	const struct span *span = &s->span[bucket % (2 * c->buckets)];
	uint64_t bytes = c->bucket[bucket % c->buckets].elems * BYTES_EACH;
	uint64_t lost = l->lost;
	put_half(l, s, 'b', bucket, "allreduce", span->begin_ns);
	if (lost == l->lost)
		fprintf(l->f, ",\"args\":{\"bytes\":%" PRIu64 ",\"result\":\"%s\"}}", bytes,
			fan_err_name(result));
	if (bucket < s->sent) {
		put_half(l, s, 'b', bucket, "part 0 shard 0", span->part_ns);
		fputs(lost == l->lost ? "}" : "", l->f);
		put_half(l, s, 'e', bucket, "part 0 shard 0", end_ns);
		fputs(lost == l->lost ? "}" : "", l->f);
	}
	put_half(l, s, 'e', bucket, "allreduce", end_ns);
	fputs(lost == l->lost ? "}" : "", l->f);
}

static void put_wait(struct fan_timeline *l, const struct seen *s, const char *name,
		     uint64_t begin_ns, uint64_t end_ns)
{
	if (!room(l))
		return;
	fprintf(l->f, "{\"ph\":\"X\",\"cat\":\"fanin\",\"pid\":%d,\"tid\":1,\"name\":\"%s\"",
		s->pid, name);
	put_time(l, "ts", l->start_ns + begin_ns);
	put_time(l, "dur", end_ns - begin_ns);
	fputc('}', l->f);
}

/* Record results and stalls between them, as libfanin's progress thread does. */
static void look_quiet(struct fan_timeline *l, struct seen *s, const struct fan_trainer *t,
		       uint64_t now_ns)
{
	bool news = t->times.elems != s->elems;
	if (news && s->done < s->sent && now_ns - s->quiet_ns > FAN_TIMELINE_STALL_NS)
		put_wait(l, s, "no result", s->quiet_ns, now_ns);
	if (news || s->done == s->sent)
		s->quiet_ns = now_ns;
	s->elems = t->times.elems;
}

/* A job that begins again has fewer buckets done than before: those in progress have failed. */
static void look_back(struct fan_timeline *l, struct seen *s, const struct fan_trainer *t,
		      uint64_t now_ns)
{
	int why = t->fault.err ? t->fault.err : FAN_E_CLOSED;
	if (t->bucket_ready >= s->ready && !(t->left && !s->left && t->fault.err))
		return;
	for (uint64_t b = s->done; b < s->ready; b++)
		put_op(l, s, t, b, now_ns, why);
	s->ready = s->sent = s->done = t->bucket_done;
	if (t->left)
		s->ready = s->sent = s->done = t->bucket_ready;
}

void fan_timeline_look(struct fan_timeline *l, const struct fan_trainer *t)
{
	struct seen *s = l && t->actor < l->actors ? &l->seen[t->actor] : NULL;
	uint64_t now_ns = t->shared->sim->now_ns;
	uint32_t room_for = 2 * t->shared->cfg->buckets;
	if (!s || !s->span || s->left)
		return;
	if (!s->joined && t->begun) {
		s->joined = true;
		put_wait(l, s, "join", t->shared->begin_ns, t->times.ready_ns);
		s->quiet_ns = now_ns;
	}
	look_back(l, s, t, now_ns);
	for (; s->ready < t->bucket_ready; s->ready++)
		s->span[s->ready % room_for].begin_ns = now_ns;
	for (; s->sent < t->bucket_at + (t->bucket_elems > 0); s->sent++)
		s->span[s->sent % room_for].part_ns = now_ns;
	look_quiet(l, s, t, now_ns);
	for (; s->done < t->bucket_done; s->done++)
		put_op(l, s, t, s->done, now_ns, FAN_OK);
	s->left = t->left && t->shared->lives == t->shared->cfg->retries;
}

static bool make_seen(struct fan_timeline *l)
{
	int pid = PID_FIRST;
	for (uint32_t i = 0; i < l->e->scenario->jobs; i++) {
		const struct fan_job_config *c = &l->e->job[i].cfg;
		for (uint32_t r = 0; r < c->ranks; r++) {
			struct seen *s = &l->seen[l->e->job[i].trainer[r].actor];
			s->pid = pid++;
			s->span = calloc(2 * (size_t)c->buckets + 1, sizeof *s->span);
			if (!s->span)
				return false;
			put_head(l, c, r, s->pid);
		}
	}
	return true;
}

struct fan_timeline *fan_timeline_begin(struct fan_experiment *e, FILE *f, uint64_t start_ns)
{
	struct fan_timeline *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	*l = (struct fan_timeline){.f = f, .e = e, .actors = e->sim.actors, .start_ns = start_ns};
	l->seen = calloc(l->actors + 1, sizeof *l->seen);
	if (!l->seen || !make_seen(l)) {
		fan_timeline_end(l);
		return NULL;
	}
	e->sim.timeline = l;
	return l;
}

void fan_timeline_end(struct fan_timeline *l)
{
	if (!l)
		return;
	fprintf(l->f,
		"%s{\"ph\":\"M\",\"name\":\"lost\",\"pid\":%d,\"args\":{\"lost\":%" PRIu64
		"}}\n]\n",
		l->lines ? ",\n" : "[\n", PID_FIRST, l->lost);
	for (uint32_t i = 0; l->seen && i < l->actors; i++)
		free(l->seen[i].span);
	l->e->sim.timeline = NULL;
	free(l->seen);
	free(l);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_client.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ends.h"
#include "net/clock.h"
#include "parts.h"
#include "rank.h"

void fan_plan_client_init(struct fan_rank *c)
{
	struct fan_plan_client *f = &c->client;
	assert(!f->on && c->thread.epoll_fd >= 0);
	f->on = true;
	f->behind_ns = UINT64_MAX;
	fan_dial_init(&f->dial, &c->controller_addr, c->thread.epoll_fd, FAN_RANK_CONTROLLER);
	f->dial.keys = c->cfg.controller_keys;
}

void fan_plan_client_free(struct fan_rank *c)
{
	if (c->client.on)
		fan_dial_free(&c->client.dial);
	c->client.on = false;
}

/* ---- texts ---- */

static const char *address(const struct fan_rank *c, char *text, size_t bytes)
{
	return fan_peer_text(&c->client.dial.to, text, bytes);
}

void fan_plan_client_text(const struct fan_rank *c, char *text, size_t bytes)
{
	const struct fan_dial *d = &c->client.dial;
	char at[80];
	address(c, at, sizeof at);
	if (d->up)
		snprintf(text, bytes,
			 "the controller %s has not told the parts of job \"%s\" yet: are its "
			 "switches and servers there?  `status` on its Unix socket says what it "
			 "waits for",
			 at, c->cfg.job);
	else
		snprintf(text, bytes,
			 "the controller %s does not answer (%s): is `fanin controller` running "
			 "there and is the TCP port open?",
			 at, *d->why ? d->why : "no connection yet");
}

static void fail_in_time(struct fan_rank *c)
{
	char text[FAN_FAULT_TEXT_BYTES], all[FAN_FAULT_TEXT_BYTES];
	fan_plan_client_text(c, text, sizeof text);
	snprintf(all, sizeof all, "%.460s (waited %.4g s)", text,
		 fan_config_join_ms(&c->cfg) / 1e3);
	fan_rank_fail(c, c->client.dial.up ? FAN_E_TIMEOUT : FAN_E_UNREACHABLE, all);
}

/* The controller has sent nonsense.  A rank without parts probably talks to something else; one
 * that has parts goes on with them. */
static void fail_by_nonsense(struct fan_rank *c, uint64_t now_ns, const char *why)
{
	char text[FAN_FAULT_TEXT_BYTES], at[80];
	struct fan_dial *d = &c->client.dial;
	if (c->client.has_parts) {
		fan_dial_drop(d, now_ns, why);
		return;
	}
	snprintf(text, sizeof text,
		 "what answers at %s is no controller that this version understands: %.300s; is it "
		 "the port of `fanin controller`?",
		 address(c, at, sizeof at), why);
	fan_rank_fail(c, FAN_E_FORMAT, text);
}

/* ---- what it says ---- */

static bool say(struct fan_rank *c, const char *text, size_t bytes)
{
	return bytes && fan_dial_send(&c->client.dial, text, bytes);
}

static void say_hello(struct fan_rank *c)
{
	char text[FAN_PLAN_MSG_BYTES];
	size_t n = fan_plan_msg_put_join(text, c->cfg.job, (unsigned)c->cfg.rank,
					 (unsigned)c->cfg.ranks, c->cfg.launch, c->parts.job,
					 c->parts.count);
	if (!n)
		fan_rank_fail(c, FAN_E_CONFIG,
			      "the job's name is not UTF-8, as a controller's are");
	else
		say(c, text, n);
}

/* Do all connections of part `k` go by its route, as far as the aggregator has told? */
static bool has_moved(const struct fan_rank *c, unsigned k)
{
	for (unsigned i = 0; i < c->connections; i++) {
		const struct fan_connection *cn = &c->connection[i];
		if (cn->part == k &&
		    (cn->behind || fan_worker_route(cn->w) != c->parts.job[k].route))
			return false;
	}
	return true;
}

static void tell_moved(struct fan_rank *c)
{
	struct fan_plan_client *f = &c->client;
	char text[FAN_PLAN_MSG_BYTES];
	for (unsigned k = 0; k < c->parts.count && f->dial.up; k++) {
		if (!f->moving[k] || !has_moved(c, k))
			continue;
		if (!say(c, text, fan_plan_msg_put_moved(text, k, c->parts.job[k].route)))
			return;
		f->moving[k] = false;
	}
}

/* ---- what it hears ---- */

static void move(struct fan_rank *c, unsigned k, uint16_t route, const fan_peer *at, double gbps,
		 uint64_t now_ns)
{
	struct fan_plan_client *f = &c->client;
	assert(k < c->parts.count);
	struct fan_job_part *p = &c->parts.job[k];
	if (gbps > 0) {
		p->gbps = gbps;
		fan_rank_set_rate_limit(c, k);
	}
	f->moving[k] = true; /* told even if it is there already: the answer may have been lost */
	if (p->route == route && fan_peer_equal(&p->at, at))
		return;
	p->route = route;
	p->at = *at;
	c->meter.news = true;
	for (unsigned i = 0; i < c->connections; i++)
		c->connection[i].behind |= c->connection[i].part == k;
	f->behind_ns = now_ns;
}

/* Move connections that are behind to their part's route; one whose socket does not open is tried
 * again. */
static void move_connections(struct fan_rank *c, uint64_t now_ns)
{
	c->client.behind_ns = UINT64_MAX;
	for (unsigned i = 0; i < c->connections; i++) {
		struct fan_connection *cn = &c->connection[i];
		fan_peer to = c->parts.job[cn->part].at;
		if (!cn->behind)
			continue;
		to.port += cn->shard;
		cn->behind = fan_connection_move(cn, &to, c->parts.job[cn->part].route, now_ns);
		if (cn->behind)
			c->client.behind_ns = now_ns + FAN_PLAN_CLIENT_AGAIN_MS * FAN_MS;
		else
			cn->switch_addr = to;
	}
}

/* Are these the parts that this rank has, whatever their routes? */
static bool is_same(const struct fan_rank *c, const struct fan_plan_msg *o)
{
	bool same = c->parts.count == o->parts;
	for (unsigned k = 0; k < c->parts.count && same; k++) {
		const struct fan_job_part *a = &c->parts.job[k], *b = &o->part[k];
		same = !strcmp(a->name, b->name) && a->from == b->from && a->to == b->to &&
		       (fan_peer_is_none(&a->aggregator) || fan_peer_is_none(&b->aggregator) ||
			fan_peer_equal(&a->aggregator, &b->aggregator));
	}
	return same;
}

static void take_job(struct fan_rank *c, uint64_t now_ns)
{
	const struct fan_plan_msg *o = &c->client.msg;
	char text[FAN_FAULT_TEXT_BYTES];
	if (o->ranks != (unsigned)c->cfg.ranks) {
		snprintf(text, sizeof text,
			 "the controller has job \"%s\" with %u ranks, rank %d was started with %d",
			 c->cfg.job, o->ranks, c->cfg.rank, c->cfg.ranks);
		fan_rank_fail(c, FAN_E_JOB_MISMATCH, text);
	} else if (!c->client.has_parts) {
		c->client.has_parts = true;
		c->parts.count = o->parts;
		memcpy(c->parts.job, o->part, o->parts * sizeof o->part[0]);
		fan_rank_open_parts(c, now_ns);
	} else if (is_same(c, o)) {
		for (unsigned k = 0; k < c->parts.count; k++)
			if (o->part[k].route != c->parts.job[k].route)
				move(c, k, o->part[k].route, &o->part[k].at, o->part[k].gbps,
				     now_ns);
	} else {
		fan_rank_fail(c, FAN_E_RESTARTED,
			      "the controller has another split of the job's tensors than it had");
	}
}

/* A refusal is final for a rank without parts; one that has parts redials. */
static void take_refusal(struct fan_rank *c, uint64_t now_ns)
{
	char text[FAN_FAULT_TEXT_BYTES], at[80];
	snprintf(text, sizeof text, "the controller %s refuses rank %d of job \"%s\": %.300s",
		 address(c, at, sizeof at), c->cfg.rank, c->cfg.job, c->client.msg.why);
	if (c->client.has_parts)
		fan_dial_drop(&c->client.dial, now_ns, c->client.msg.why);
	else
		fan_rank_fail(c, FAN_E_CONFIG, text);
}

/* Nothing has been summed yet: forget the parts, and ask for others. */
static void begin_anew(struct fan_rank *c, uint64_t now_ns)
{
	struct fan_plan_client *f = &c->client;
	for (unsigned i = 0; i < c->connections; i++) {
		fan_connection_close(&c->connection[i]);
		memset(&c->connection[i], 0, sizeof c->connection[i]);
	}
	memset(c->parts.shards, 0, sizeof c->parts.shards);
	memset(f->moving, 0, sizeof f->moving);
	c->connections = c->parts.count = 0;
	f->has_parts = false;
	f->behind_ns = UINT64_MAX;
	fan_dial_drop(&f->dial, now_ns, f->msg.why);
}

static void take_again(struct fan_rank *c, uint64_t now_ns)
{
	char text[FAN_FAULT_TEXT_BYTES];
	if (!c->ready) {
		begin_anew(c, now_ns);
		return;
	}
	snprintf(text, sizeof text,
		 "the controller ends this life of job \"%s\": %.300s; a new communicator of the "
		 "same job goes on without it",
		 c->cfg.job, c->client.msg.why);
	fan_rank_fail(c, FAN_E_RESTARTED, text);
}

static void obey(struct fan_rank *c, uint64_t now_ns)
{
	const struct fan_plan_msg *o = &c->client.msg;
	switch (o->kind) {
	case FAN_PLAN_MSG_JOB: take_job(c, now_ns); break;
	case FAN_PLAN_MSG_MOVE:
		if (o->number < c->parts.count)
			move(c, o->number, o->route, &o->at, o->gbps, now_ns);
		else
			fail_by_nonsense(c, now_ns, "a move of a part that there is not");
		break;
	case FAN_PLAN_MSG_AGAIN: take_again(c, now_ns); break;
	case FAN_PLAN_MSG_REFUSED: take_refusal(c, now_ns); break;
	}
}

static void hear(struct fan_rank *c, uint64_t now_ns)
{
	struct fan_plan_client *f = &c->client;
	char why[FAN_PLAN_MSG_WHY_BYTES];
	size_t bytes;
	const char *line;
	while (!atomic_load(&c->error) && (line = fan_dial_line(&f->dial, &bytes))) {
		if (fan_plan_msg_get(&f->msg, line, bytes, c->cfg.job, why)) {
			fail_by_nonsense(c, now_ns, why);
			return;
		}
		fan_dial_content(&f->dial);
		obey(c, now_ns);
	}
}

/* Once the communicator has ended, the end of the connection tells the controller. */
void fan_plan_client_work(struct fan_rank *c, uint64_t now_ns)
{
	struct fan_plan_client *f = &c->client;
	if (!f->on)
		return;
	if (atomic_load(&c->error)) {
		fan_plan_client_free(c);
		return;
	}
	/* A line that is begun when the time is over would be up, and hide those before. */
	const bool late = !f->has_parts && now_ns >= c->when.join_by_ns;
	if (f->news || (!late && now_ns >= fan_dial_deadline(&f->dial))) {
		f->news = false;
		if (fan_dial_work(&f->dial, now_ns))
			say_hello(c);
		hear(c, now_ns);
	}
	if (late && !f->has_parts)
		fail_in_time(c);
	if (now_ns >= f->behind_ns && !atomic_load(&c->error))
		move_connections(c, now_ns);
	tell_moved(c);
}

uint64_t fan_plan_client_deadline(const struct fan_rank *c)
{
	const struct fan_plan_client *f = &c->client;
	if (!f->on)
		return UINT64_MAX;
	uint64_t at_ns = fan_dial_deadline(&f->dial);
	if (f->behind_ns < at_ns)
		at_ns = f->behind_ns;
	return f->has_parts || at_ns < c->when.join_by_ns ? at_ns : c->when.join_by_ns;
}

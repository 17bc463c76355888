/* SPDX-License-Identifier: Apache-2.0 */
/* plan_client.c - the controller client of a communicator.
 *
 * Before the communicator joins, it requests the parts of its job and opens connections for
 * them.  Later the controller moves parts to other routes, or ends the communicator because a
 * server is lost.  Without a controller the communicator continues as it is, and redials. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "net/clock.h"
#include "thread.h"

#define AGAIN_MS     250  /* between tries to open the socket of a moved part */
#define PAUSE_MS     250  /* before the first new dial; then doubled */
#define PAUSE_MAX_MS 1000 /* bound of the pause, without a random quarter */
#define OPEN_MS	     3000 /* time-out of connect */
#define SILENT_S     5	  /* TCP time-out of a silent peer */

/* ---- the stream ---- */

static void dial_free(struct fan_dial *d)
{
	fan_lines_close(&d->lines); /* epoll forgets it */
	d->up = false;
}

/* Close the stream, for instance because of a wrong line, and try again after a pause. */
static void dial_drop(struct fan_dial *d, uint64_t now_ns, const char *why)
{
	uint64_t pause_ms = PAUSE_MS;
	for (uint32_t i = 0; i < d->tries && pause_ms < PAUSE_MAX_MS; i++)
		pause_ms *= 2;
	pause_ms += fan_clock_nonce() % (pause_ms / 4 + 1);
	dial_free(d);
	d->ended = 0;
	if (d->tries < UINT32_MAX)
		d->tries++;
	d->at_ns = now_ns + pause_ms * FAN_MS;
	snprintf(d->why, sizeof d->why, "%s", why);
}

static bool watch(const struct fan_dial *d, int operation)
{
	assert(d->lines.fd >= 0);
	bool out = fan_lines_events(&d->lines) & POLLOUT;
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = d->number};
	if (out)
		ev.events |= EPOLLOUT;
	return epoll_ctl(d->epoll_fd, operation, d->lines.fd, &ev) == 0;
}

static void dial_begin(struct fan_dial *d, uint64_t now_ns)
{
	assert(!d->up);
	int e = fan_lines_dial(&d->lines, &d->to);
	if (!e)
		e = fan_lines_sign(&d->lines, &d->keys);
	if (e) {
		dial_drop(d, now_ns, strerror(-e));
		return;
	}
	fan_lines_notice_loss(d->lines.fd, SILENT_S - 2, 1, 2, SILENT_S * 1000);
	d->at_ns = now_ns + OPEN_MS * FAN_MS;
	if (!watch(d, EPOLL_CTL_ADD))
		dial_drop(d, now_ns, strerror(errno));
}

/* An unused local port may have been given to this very socket, which then connects to itself. */
static bool is_self(int fd)
{
	struct sockaddr_storage here, there;
	socklen_t here_len = sizeof here, there_len = sizeof there;
	if (getsockname(fd, (struct sockaddr *)&here, &here_len) ||
	    getpeername(fd, (struct sockaddr *)&there, &there_len))
		return false;
	fan_peer a = fan_peer_from_sockaddr((struct sockaddr *)&here, here_len);
	fan_peer b = fan_peer_from_sockaddr((struct sockaddr *)&there, there_len);
	return fan_peer_equal(&a, &b);
}

/* Connect, read and write without blocking, when the socket has reported or the deadline has
 * passed; then take all lines.  True: it has just connected. */
static bool dial_work(struct fan_dial *d, uint64_t now_ns)
{
	if (d->lines.fd < 0 && now_ns >= d->at_ns)
		dial_begin(d, now_ns);
	struct pollfd p = {.fd = d->lines.fd, .events = fan_lines_events(&d->lines)};
	if (p.fd < 0)
		return false;
	bool was_up = d->up;
	int e = poll(&p, 1, 0) > 0 ? fan_lines_turn(&d->lines, p.revents) : 0;
	d->up = !d->lines.connecting;
	if (!was_up && d->up && is_self(p.fd)) {
		e = -ECONNREFUSED;
		d->up = false;
	}
	if (e && d->up)
		d->ended = e; /* lines received before the end are still read */
	else if (e)
		dial_drop(d, now_ns, strerror(-e));
	else if (!d->up && now_ns >= d->at_ns)
		dial_drop(d, now_ns, "no answer");
	else
		watch(d, EPOLL_CTL_MOD);
	return d->up && !was_up;
}

static uint64_t dial_deadline(const struct fan_dial *d)
{
	return d->up ? UINT64_MAX : d->at_ns;
}

static const char *end_text(int e)
{
	return e == -ECONNRESET	    ? "the connection was closed"
	       : e == -EMSGSIZE	    ? "a line is too long"
	       : e == -EKEYREJECTED ? "its lines are not signed with our key"
				    : strerror(-e);
}

/* The next received line, see fan_lines_next.  After the last line of a stream that has ended, the
 * stream is closed. */
static char *dial_line(struct fan_dial *d, size_t *bytes)
{
	char *line = d->up ? fan_lines_next(&d->lines, bytes) : NULL;
	if (!line && d->up && fan_lines_trouble(&d->lines))
		d->ended = fan_lines_trouble(&d->lines);
	if (!line && d->up && d->ended)
		dial_drop(d, fan_clock_ns(), end_text(d->ended));
	return line;
}

/* Send `bytes` at `text` and an LF.  False: not connected, or not any more. */
static bool dial_send(struct fan_dial *d, const char *text, size_t bytes)
{
	int e = d->up && !d->ended ? fan_lines_put(&d->lines, text, bytes) : -EPIPE;
	if (!e)
		watch(d, EPOLL_CTL_MOD);
	else if (d->up && !d->ended)
		dial_drop(d, fan_clock_ns(), end_text(e));
	return !e;
}

/* ---- the client ---- */

/* ---- texts ---- */

static const char *address(const struct fan_rank *r, char *text, size_t bytes)
{
	return fan_peer_text(&r->client.dial.to, text, bytes);
}

void fan_plan_client_text(const struct fan_rank *r, char *text, size_t bytes)
{
	const struct fan_dial *d = &r->client.dial;
	char at[80];
	address(r, at, sizeof at);
	if (d->up)
		snprintf(text, bytes,
			 "the controller %s has not told the parts of job \"%s\" yet: are its "
			 "switches and servers there?  `status` on its Unix socket says what it "
			 "waits for",
			 at, r->cfg.job);
	else
		snprintf(text, bytes,
			 "the controller %s does not answer (%s): is `fanin controller` running "
			 "there and is the TCP port open?",
			 at, *d->why ? d->why : "no connection yet");
}

static void fail_in_time(struct fan_rank *r)
{
	char text[FAN_FAULT_TEXT_BYTES], all[FAN_FAULT_TEXT_BYTES];
	fan_plan_client_text(r, text, sizeof text);
	snprintf(all, sizeof all, "%.460s (waited %.4g s)", text,
		 fan_config_join_ms(&r->cfg) / 1e3);
	fan_rank_fail(r, r->client.dial.up ? FAN_E_TIMEOUT : FAN_E_UNREACHABLE, all);
}

/* The controller has sent nonsense.  A rank without parts probably talks to something else; one
 * that has parts goes on with them. */
static void fail_by_nonsense(struct fan_rank *r, uint64_t now_ns, const char *why)
{
	char text[FAN_FAULT_TEXT_BYTES], at[80];
	struct fan_dial *d = &r->client.dial;
	if (r->client.has_parts) {
		dial_drop(d, now_ns, why);
		return;
	}
	snprintf(text, sizeof text,
		 "what answers at %s is no controller that this version understands: %.300s; is it "
		 "the port of `fanin controller`?",
		 address(r, at, sizeof at), why);
	fan_rank_fail(r, FAN_E_FORMAT, text);
}

/* ---- sent lines ---- */

static bool send_line(struct fan_rank *r, const char *text, size_t bytes)
{
	return bytes && dial_send(&r->client.dial, text, bytes);
}

static void send_join(struct fan_rank *r)
{
	char text[FAN_PLAN_MSG_BYTES];
	size_t n = fan_plan_msg_put_join(text, r->cfg.job, (unsigned)r->cfg.rank,
					 (unsigned)r->cfg.ranks, r->cfg.launch, r->parts.job,
					 r->parts.count);
	if (!n)
		fan_rank_fail(r, FAN_E_CONFIG,
			      "the job's name is not UTF-8, as a controller's are");
	else
		send_line(r, text, n);
}

/* Do all connections of part `k` go by its route, as far as the aggregator has reported? */
static bool has_moved(const struct fan_rank *r, unsigned k)
{
	for (unsigned i = 0; i < r->connections; i++) {
		const struct fan_connection *cn = &r->connection[i];
		if (cn->part == k &&
		    (cn->behind || fan_worker_route(cn->w) != r->parts.job[k].route))
			return false;
	}
	return true;
}

static void report_moved(struct fan_rank *r)
{
	struct fan_plan_client *f = &r->client;
	char text[FAN_PLAN_MSG_BYTES];
	for (unsigned k = 0; k < r->parts.count && f->dial.up; k++) {
		if (!f->moving[k] || !has_moved(r, k))
			continue;
		if (!send_line(r, text, fan_plan_msg_put_moved(text, k, r->parts.job[k].route)))
			return;
		f->moving[k] = false;
	}
}

/* ---- received lines ---- */

static void move(struct fan_rank *r, unsigned k, uint16_t route, const fan_peer *at, double gbps,
		 uint64_t now_ns)
{
	struct fan_plan_client *f = &r->client;
	assert(k < r->parts.count);
	struct fan_job_part *p = &r->parts.job[k];
	if (gbps > 0) {
		p->gbps = gbps;
		fan_rank_set_rate_limit(r, k);
	}
	f->moving[k] =
		true; /* reported even if it is there already: the answer may have been lost */
	if (p->route == route && fan_peer_equal(&p->at, at))
		return;
	p->route = route;
	p->at = *at;
	r->meter.news = true;
	for (unsigned i = 0; i < r->connections; i++)
		r->connection[i].behind |= r->connection[i].part == k;
	f->behind_ns = now_ns;
}

/* Move connections that are behind to their part's route; one whose socket does not open is tried
 * again. */
static void move_connections(struct fan_rank *r, uint64_t now_ns)
{
	r->client.behind_ns = UINT64_MAX;
	for (unsigned i = 0; i < r->connections; i++) {
		struct fan_connection *cn = &r->connection[i];
		fan_peer to = r->parts.job[cn->part].at;
		if (!cn->behind)
			continue;
		to.port += cn->shard;
		cn->behind = fan_connection_move(cn, &to, r->parts.job[cn->part].route, now_ns);
		if (cn->behind)
			r->client.behind_ns = now_ns + AGAIN_MS * FAN_MS;
		else
			cn->switch_addr = to;
	}
}

/* Are these the parts that this rank has, whatever their routes? */
static bool is_same(const struct fan_rank *r, const struct fan_plan_msg *o)
{
	bool same = r->parts.count == o->parts;
	for (unsigned k = 0; k < r->parts.count && same; k++) {
		const struct fan_job_part *a = &r->parts.job[k], *b = &o->part[k];
		same = !strcmp(a->name, b->name) && a->from == b->from && a->to == b->to &&
		       (fan_peer_is_none(&a->aggregator) || fan_peer_is_none(&b->aggregator) ||
			fan_peer_equal(&a->aggregator, &b->aggregator));
	}
	return same;
}

static void take_job(struct fan_rank *r, uint64_t now_ns)
{
	const struct fan_plan_msg *o = &r->client.msg;
	char text[FAN_FAULT_TEXT_BYTES];
	if (o->ranks != (unsigned)r->cfg.ranks) {
		snprintf(text, sizeof text,
			 "the controller has job \"%s\" with %u ranks, rank %d was started with %d",
			 r->cfg.job, o->ranks, r->cfg.rank, r->cfg.ranks);
		fan_rank_fail(r, FAN_E_JOB_MISMATCH, text);
	} else if (!r->client.has_parts) {
		r->client.has_parts = true;
		r->parts.count = o->parts;
		memcpy(r->parts.job, o->part, o->parts * sizeof o->part[0]);
		fan_rank_open_parts(r, now_ns);
	} else if (is_same(r, o)) {
		for (unsigned k = 0; k < r->parts.count; k++)
			if (o->part[k].route != r->parts.job[k].route)
				move(r, k, o->part[k].route, &o->part[k].at, o->part[k].gbps,
				     now_ns);
	} else {
		fan_rank_fail(r, FAN_E_RESTARTED,
			      "the controller has another split of the job's tensors than it had");
	}
}

/* A refusal is final for a rank without parts; one that has parts redials. */
static void take_refusal(struct fan_rank *r, uint64_t now_ns)
{
	char text[FAN_FAULT_TEXT_BYTES], at[80];
	snprintf(text, sizeof text, "the controller %s refuses rank %d of job \"%s\": %.300s",
		 address(r, at, sizeof at), r->cfg.rank, r->cfg.job, r->client.msg.why);
	if (r->client.has_parts)
		dial_drop(&r->client.dial, now_ns, r->client.msg.why);
	else
		fan_rank_fail(r, FAN_E_CONFIG, text);
}

/* Nothing has been summed yet: forget the parts, and ask for others. */
static void begin_anew(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_plan_client *f = &r->client;
	for (unsigned i = 0; i < r->connections; i++) {
		fan_connection_close(&r->connection[i]);
		memset(&r->connection[i], 0, sizeof r->connection[i]);
	}
	memset(r->parts.shards, 0, sizeof r->parts.shards);
	memset(f->moving, 0, sizeof f->moving);
	r->connections = r->parts.count = 0;
	f->has_parts = false;
	f->behind_ns = UINT64_MAX;
	dial_drop(&f->dial, now_ns, f->msg.why);
}

static void take_again(struct fan_rank *r, uint64_t now_ns)
{
	char text[FAN_FAULT_TEXT_BYTES];
	if (!r->ready) {
		begin_anew(r, now_ns);
		return;
	}
	snprintf(text, sizeof text,
		 "the controller ends this life of job \"%s\": %.300s; a new communicator of the "
		 "same job goes on without it",
		 r->cfg.job, r->client.msg.why);
	fan_rank_fail(r, FAN_E_RESTARTED, text);
}

static void obey(struct fan_rank *r, uint64_t now_ns)
{
	const struct fan_plan_msg *o = &r->client.msg;
	switch (o->kind) {
	case FAN_PLAN_MSG_JOB: take_job(r, now_ns); break;
	case FAN_PLAN_MSG_MOVE:
		if (o->number < r->parts.count)
			move(r, o->number, o->route, &o->at, o->gbps, now_ns);
		else
			fail_by_nonsense(r, now_ns, "a move of a part that there is not");
		break;
	case FAN_PLAN_MSG_AGAIN: take_again(r, now_ns); break;
	case FAN_PLAN_MSG_REFUSED: take_refusal(r, now_ns); break;
	}
}

static void receive(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_plan_client *f = &r->client;
	char why[FAN_PLAN_MSG_WHY_BYTES];
	size_t bytes;
	const char *line;
	while (!atomic_load(&r->error) && (line = dial_line(&f->dial, &bytes))) {
		if (fan_plan_msg_get(&f->msg, line, bytes, r->cfg.job, why)) {
			fail_by_nonsense(r, now_ns, why);
			return;
		}
		f->dial.tries = 0; /* the next pause is short again */
		obey(r, now_ns);
	}
}

/* Once the communicator has ended, the end of the connection informs the controller. */
void fan_plan_client_work(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_plan_client *f = &r->client;
	if (!f->on)
		return;
	if (atomic_load(&r->error)) {
		dial_free(&f->dial);
		f->on = false;
		return;
	}
	/* A line that is begun when the time is over would be up, and hide those before. */
	const bool late = !f->has_parts && now_ns >= r->when.join_by_ns;
	if (f->news || (!late && now_ns >= dial_deadline(&f->dial))) {
		f->news = false;
		if (dial_work(&f->dial, now_ns))
			send_join(r);
		receive(r, now_ns);
	}
	if (late && !f->has_parts)
		fail_in_time(r);
	if (now_ns >= f->behind_ns && !atomic_load(&r->error))
		move_connections(r, now_ns);
	report_moved(r);
}

uint64_t fan_plan_client_deadline(const struct fan_rank *r)
{
	const struct fan_plan_client *f = &r->client;
	if (!f->on)
		return UINT64_MAX;
	uint64_t at_ns = dial_deadline(&f->dial);
	if (f->behind_ns < at_ns)
		at_ns = f->behind_ns;
	return f->has_parts || at_ns < r->when.join_by_ns ? at_ns : r->when.join_by_ns;
}

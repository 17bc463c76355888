/* SPDX-License-Identifier: Apache-2.0 */
/* regroup.c - a communicator goes on without a named switch that has died, or without a rail, at
 * the aggregators that are left.
 *
 * A named switch is lost when it is silent, or has been restarted.  Where hosts have several rails
 * (net/rails.h), all parts of one rail are lost together: when one of them is silent, or misses a
 * rank, and for half of alive_ms from then on no part of another rail is or does.  Whoever notices
 * leaves the jobs of all parts with a cause that names the part, so all ranks stop where they are:
 * their old connections get no results from then on.  They join again at the aggregators that are
 * left, in jobs whose names have the set of lost parts, so only ranks that agree about it meet.
 * There they agree on three things by all-reduces, before any other operation:
 *
 *  1. For each slot of each old connection, the furthest fragment that a rank awaits; and the first
 *     operation that some rank has not started.
 *  2. The owners of results that other ranks lack.  Results are kept until all ranks have them: the
 *     last one of each slot, since the slot's next result shows that all had it.
 *  3. These results.
 *
 * Then all have the same results.  Other fragments in progress have no result anywhere, so their
 * input is whole everywhere, also in place: they are summed anew.  All start operations anew that
 * some rank had not started (ADR 27).
 *
 * A part that is there again (regroup_agree.c) is taken in likewise: all leave, with the cause by
 * which they report its loss, for jobs whose names have the set without it, and how often it has
 * changed.  If it does not answer then, it is lost again.
 *
 * A rank's own aggregator dies with the rank, on all rails, so that ends the job.  So does another
 * loss before all have agreed. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/awake.h"
#include "lib/base/rendezvous.h"
#include "net/clock.h"
#include "thread.h"

#define MARGIN_MS 1000		   /* beyond twice alive_ms, until all ranks have joined again */
#define BACK_NS	  (10000 * FAN_MS) /* in which a part that is there again has to answer */
#define LOOK_NS	  (2 * FAN_JOIN_RETRY_NS) /* between rounds of a rank that joins, at most */

static const uint64_t nobody[FAN_RANK_WORDS];

/* ---- enabling ---- */

static bool may_regroup(const struct fan_rank *r)
{
	bool others = false; /* than a host's only one */
	for (unsigned k = 0; k < r->parts.count; k++)
		others |= r->parts.inside[k] < 0 || r->parts.rail[k];
	return others && r->parts.count > 1 && r->parts.count <= FAN_CAUSE_PARTS_MAX &&
	       !r->client.on && !r->cfg.ahead && !*r->cfg.server_addr;
}

static void keep_results(struct fan_rank *r)
{
	for (unsigned i = 0; i < r->connections; i++)
		fan_connection_keep(&r->connection[i]);
}

/* Record what `r` was before any part is lost; NULL: no memory. */
static struct fan_regroup *begin_with(const struct fan_rank *r)
{
	struct fan_regroup *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->all = r->parts.count;
	g->back = -1;
	g->revival.udp.fd = -1;
	for (unsigned k = 0; k < r->parts.count; k++) {
		g->first[k] = (struct fan_regroup_part){r->parts.job[k], r->parts.inside[k],
							r->parts.mbps[k], r->parts.rail[k]};
		g->number[k] = (uint8_t)k;
	}
	return g;
}

void fan_regroup_enable(struct fan_rank *r)
{
	if (r->regroup)
		return;
	r->regroup = r->prepared;
	r->prepared = NULL;
	r->parent = NULL;
	if (!r->regroup && may_regroup(r))
		r->regroup = begin_with(r);
	if (!r->regroup)
		return;
	r->meter.news = true; /* parts have their numbers */
	keep_results(r);
}

static void close_old(struct fan_regroup *g)
{
	for (unsigned i = 0; i < g->olds; i++)
		fan_connection_close(&g->old[i]);
	g->olds = 0;
}

void fan_regroup_free(struct fan_regroup *g)
{
	if (!g)
		return;
	close_old(g);
	fan_regroup_forget(g);
	fan_udp_close(&g->revival.udp);
	free(g);
}

/* ---- stopping ---- */

/* Take the operations that have been started, the last one perhaps on some connections only. */
static void stop_ops(struct fan_rank *r)
{
	struct fan_regroup *g = r->regroup;
	g->op_count = 0;
	for (unsigned i = 0; i < r->ops.running_count; i++)
		g->op[g->op_count++] = r->ops.running[i];
	r->ops.running_count = 0;
	if (r->ops.waiting.head && r->ops.waiting.head->is_counted)
		g->op[g->op_count++] = fan_op_queue_take(&r->ops.waiting);
	g->ops = r->meter.ops;
}

static unsigned order_of(const struct fan_connection *cn)
{
	return cn->part * FAN_SHARDS_MAX + cn->shard;
}

/* The number of the connection behind `cn`, by part and shard; NULL: of the first one.  They were
 * opened in the order in which aggregators answered, which is another one on each rank. */
static unsigned next_connection(const struct fan_rank *r, const struct fan_connection *cn)
{
	unsigned next = FAN_SHARDS_MAX;
	for (unsigned i = 0; i < r->connections; i++) {
		bool behind = !cn || order_of(&r->connection[i]) > order_of(cn);
		if (behind && (next == FAN_SHARDS_MAX ||
			       order_of(&r->connection[i]) < order_of(&r->connection[next])))
			next = i;
	}
	assert(next < FAN_SHARDS_MAX);
	return next; /* there is one: no two have the same part and shard */
}

/* Make the connections leave with the cause, and receive nothing else from now on. */
static void stop_connections(struct fan_rank *r, int number, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	struct fan_rtt_histogram trips;
	close_old(g);
	g->shares = r->meter.shares;
	memcpy(g->shards, r->parts.shards, sizeof g->shards);
	g->before = fan_rank_collect_stats(r);
	fan_rank_collect_trips(r, &trips);
	g->trips_before = trips;
	for (unsigned i = 0; i < r->connections; i++) {
		struct fan_connection *cn = &g->old[g->olds];
		g->was[g->olds] = (uint8_t)next_connection(r, i ? &cn[-1] : NULL);
		*cn = r->connection[g->was[g->olds]];
		fan_connection_renumber(cn, FAN_SHARDS_MAX + g->olds++);
		fan_worker_leave(cn->w, now_ns, FAN_CAUSE_GONE(number), nobody);
		cn->news = true;
	}
}

/* Close the connections that joined before another part was lost; report `cause` to the others. */
static void drop_connections(struct fan_rank *r, int cause, uint64_t now_ns)
{
	for (unsigned i = 0; i < r->connections; i++) {
		struct fan_connection *cn = &r->connection[i];
		if (!cn->w)
			continue;
		fan_worker_leave(cn->w, now_ns, cause, nobody);
		cn->news = true;
		fan_connection_send(cn, r->io, now_ns);
		fan_connection_close(cn);
	}
}

static void forget_connections(struct fan_rank *r)
{
	memset(r->connection, 0, sizeof r->connection);
	memset(r->parts.shards, 0, sizeof r->parts.shards);
	r->connections = 0;
}

/* The remaining parts, in jobs whose names have the lost ones. */
static void take_parts(struct fan_rank *r, struct fan_regroup *g)
{
	char suffix[32] = "";
	if (g->turns)
		snprintf(suffix, sizeof suffix, "!%llx", (unsigned long long)g->gone);
	if (g->turns != (unsigned)__builtin_popcountll(g->gone)) /* this set may have been before */
		snprintf(suffix, sizeof suffix, "!%llx.%x", (unsigned long long)g->gone, g->turns);
	atomic_store(&r->gone, g->gone);
	if (r->column.gone)
		atomic_store(r->column.gone, g->gone);
	r->parts.count = 0;
	for (unsigned n = 0; n < g->all; n++) {
		const struct fan_regroup_part *p = &g->first[n];
		if (g->gone >> n & 1)
			continue;
		r->parts.job[r->parts.count] = p->part;
		fan_rendezvous_derive(r->parts.job[r->parts.count].name, p->part.name, suffix);
		r->parts.inside[r->parts.count] = p->inside;
		r->parts.mbps[r->parts.count] = p->mbps;
		r->parts.rail[r->parts.count] = p->rail;
		g->number[r->parts.count++] = (uint8_t)n;
	}
}

/* Part `number` is lost, or there again if it was.  `err`: of the loss, if no part is left. */
static void begin(struct fan_rank *r, int number, int err, const char *why, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	const uint64_t alive_ns = (uint64_t)r->cfg.alive_ms * FAN_MS;
	const uint64_t with = fan_revival_lost_with(g, (unsigned)number);
	assert(number >= 0 && (unsigned)number < g->all && g->phase <= FAN_REGROUP_JOINS);
	g->gone ^= with;
	g->waits = false;
	g->turns++;
	g->back = g->gone >> number & 1 ? -1 : number;
	g->back_by_ns = now_ns + BACK_NS;
	for (unsigned n = 0; n < g->all; n++)
		if (with >> n & 1 && g->back < 0)
			fan_revival_lost(&g->revival, n, now_ns);
		else if (with >> n & 1)
			fan_revival_back(&g->revival, n, now_ns);
	snprintf(g->why, sizeof g->why, "%s", why);
	if (g->phase == FAN_REGROUP_NONE) {
		stop_ops(r);
		stop_connections(r, number, now_ns);
	} else {
		drop_connections(r, FAN_CAUSE_GONE(number), now_ns);
	}
	g->phase = FAN_REGROUP_JOINS;
	forget_connections(r);
	take_parts(r, g);
	g->look_ns = now_ns + LOOK_NS;
	g->silent_ns = now_ns + alive_ns;
	g->until_ns = now_ns + 2 * (g->back < 0 ? alive_ns : BACK_NS) + MARGIN_MS * FAN_MS;
	r->when.join_by_ns = g->until_ns;
	pthread_mutex_lock(&r->lock);
	r->ready = false;
	pthread_mutex_unlock(&r->lock);
	if (r->parts.count)
		fan_rank_open_parts(r, now_ns);
	else
		fan_rank_fail(r, err, g->why);
}

/* ---- groups that form ---- */

/* Return the parts that the parent has lost; none where that would be all. */
static uint64_t gone_at_parent(const struct fan_rank *r)
{
	const uint64_t gone = r->parent->kind->gone ? r->parent->kind->gone(r->parent) : 0;
	uint64_t mine = 0;
	for (unsigned n = 0; n < r->prepared->all; n++)
		mine |= (gone >> r->parts.of[n] & 1) << n;
	return mine == (UINT64_C(1) << r->prepared->all) - 1 ? 0 : mine;
}

void fan_regroup_prepare(struct fan_rank *r)
{
	struct fan_regroup *g = r->parent && may_regroup(r) ? begin_with(r) : NULL;
	r->prepared = g;
	if (!g)
		return;
	g->gone = gone_at_parent(r);
	g->turns = g->gone != 0;
	take_parts(r, g);
}

/* In each round until all have joined: join anew if the parent has lost others. */
static void follow(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_regroup *g = r->prepared;
	if (!g || r->ready || r->fate.leaving || atomic_load(&r->error))
		return;
	const uint64_t gone = gone_at_parent(r);
	if (gone == g->gone)
		return;
	g->gone = gone;
	g->turns = gone != 0;
	drop_connections(r, FAN_OK, now_ns);
	forget_connections(r);
	take_parts(r, g);
	fan_rank_open_parts(r, now_ns);
}

/* ---- losses ---- */

/* Is it a part that is taken in again? */
static bool is_back(const struct fan_regroup *g, const struct fan_connection *cn)
{
	return g->back >= 0 &&
	       fan_revival_lost_with(g, (unsigned)g->back) >> g->number[cn->part] & 1;
}

/* A named switch has none to be without.  A rank that has left or was restarted did so on all. */
static bool has_other_rails(const struct fan_regroup *g, unsigned number)
{
	bool others = g->first[number].inside < 0 || (g->back >= 0 && g->back == (int)number);
	for (unsigned n = 0; n < g->all && !others; n++)
		others = g->first[n].inside >= 0 && !(g->gone >> n & 1) &&
			 g->first[n].rail != g->first[number].rail;
	return others;
}

/* Is the part lost by this fault, by itself or with its rail? */
static bool reports_lost(const struct fan_regroup *g, const struct fan_connection *cn,
			 const struct fan_fault *f)
{
	const bool silent = f->err == FAN_E_UNREACHABLE && !fan_ranks_count(f->ranks);
	if (g->first[g->number[cn->part]].inside < 0)
		return silent || f->err == FAN_E_RESTARTED || f->err == FAN_E_STOPPED;
	return g->phase == FAN_REGROUP_NONE && (silent || f->err == FAN_E_RANK_LOST);
}

/* Has `other`, of another rail, failed as well, so that a host or a rank is lost? */
static bool knows_more(const struct fan_rank *r, const struct fan_connection *cn,
		       const struct fan_connection *other)
{
	return fan_worker_phase(other->w) == FAN_W_FAILED && r->parts.inside[other->part] >= 0 &&
	       r->parts.rail[other->part] != r->parts.rail[cn->part] &&
	       fan_worker_fault(other->w)->err > FAN_CAUSE_GONE(0);
}

/* A rail seems to be lost.  True: a host or a rank may be, as another rail will show soon.
 * False: none has answered in time; or one has, and `*of_rail` is false. */
static bool waits_for_other_rails(const struct fan_rank *r, struct fan_connection *cn,
				  uint64_t now_ns, bool *of_rail)
{
	for (unsigned i = 0; i < r->connections; i++) {
		*of_rail = !knows_more(r, cn, &r->connection[i]);
		if (!*of_rail)
			return false;
	}
	if (!cn->again_ns)
		cn->again_ns = now_ns + (uint64_t)r->cfg.alive_ms * FAN_MS / 2;
	return now_ns < cn->again_ns;
}

/* The number of the part that is lost, or back, by a fault; -1: another fault. */
static int number_of(const struct fan_regroup *g, const struct fan_connection *cn,
		     const struct fan_fault *f)
{
	int number = FAN_CAUSE_GONE(0) - f->err;
	const bool reported = number >= 0 && number < (int)g->all;
	if (reports_lost(g, cn, f))
		number = g->number[cn->part];
	if (g->back >= 0 && (is_back(g, cn) || f->err == FAN_E_TIMEOUT))
		number = g->back; /* whatever the fault, or the missing rank */
	if (number < 0 || number >= (int)g->all || !has_other_rails(g, (unsigned)number))
		return -1;
	const bool comes_back = reported && g->phase == FAN_REGROUP_NONE;
	return comes_back || !(g->gone >> number & 1) ? number : -1;
}

static void explain(const struct fan_rank *r, const struct fan_connection *cn, int number,
		    char *why, size_t bytes)
{
	const struct fan_fault *f = fan_worker_fault(cn->w);
	char addr[80];
	if (f->err != FAN_CAUSE_GONE(number))
		fan_rank_fault_text(r, cn, f, why, bytes);
	else
		snprintf(why, bytes, "another rank has %s the switch %s",
			 r->regroup->gone >> number & 1 ? "found" : "lost",
			 fan_peer_text(&r->regroup->first[number].part.at, addr, sizeof addr));
}

/* Ranks `ranks` do not join again: they are lost as well. */
static void fail_for(struct fan_rank *r, const struct fan_connection *cn, const uint64_t *ranks)
{
	struct fan_fault f = {.err = FAN_E_RANK_LOST};
	char text[FAN_FAULT_TEXT_BYTES];
	fan_ranks_copy(f.ranks, ranks);
	fan_ranks_copy(r->fate.blamed, ranks);
	r->fate.cause = FAN_E_RANK_LOST;
	fan_rank_fault_text(r, cn, &f, text, sizeof text);
	fan_rank_fail(r, FAN_E_RANK_LOST, text);
}

bool fan_regroup_forgives(struct fan_rank *r, struct fan_connection *cn, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	const struct fan_fault *f = fan_worker_fault(cn->w);
	char why[FAN_FAULT_TEXT_BYTES];
	if (!g || g->phase > FAN_REGROUP_JOINS)
		return false;
	int number = number_of(g, cn, f);
	bool of_rail = true, waits = false;
	if (number >= 0 && g->back < 0 && f->err > FAN_CAUSE_GONE(0) &&
	    r->parts.inside[cn->part] >= 0)
		waits = waits_for_other_rails(r, cn, now_ns, &of_rail);
	g->waits |= waits;
	if (waits)
		return true;
	if (number >= 0 && of_rail) {
		explain(r, cn, number, why, sizeof why);
		begin(r, number, f->err == FAN_E_STOPPED ? f->err : FAN_E_UNREACHABLE, why, now_ns);
		return true;
	}
	if (g->phase == FAN_REGROUP_NONE || f->err != FAN_E_TIMEOUT || !fan_ranks_count(f->ranks))
		return false;
	fail_for(r, cn, f->ranks);
	return true;
}

/* Does that rank's aggregator answer by another rail? */
static bool answers_by_another(const struct fan_rank *r, const struct fan_connection *cn)
{
	bool answers = false;
	for (unsigned i = 0; i < r->connections; i++) {
		const struct fan_connection *other = &r->connection[i];
		answers |= r->parts.inside[other->part] == r->parts.inside[cn->part] &&
			   r->parts.rail[other->part] != r->parts.rail[cn->part] &&
			   fan_worker_welcome(other->w);
	}
	return answers;
}

/* Count a rank that has not answered by now as lost, and with a host's aggregator its rank or, if
 * that answers by another one, the rail: a named switch there may have been missed first. */
static void check_answers(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	char why[FAN_FAULT_TEXT_BYTES], addr[80];
	for (unsigned i = 0; i < r->connections; i++) {
		struct fan_connection *cn = &r->connection[i];
		const bool back = is_back(g, cn);
		if (fan_worker_welcome(cn->w) || fan_worker_phase(cn->w) != FAN_W_JOINING ||
		    now_ns < (back ? g->back_by_ns : g->silent_ns))
			continue;
		if (r->parts.inside[cn->part] >= 0 && !back && !answers_by_another(r, cn)) {
			fan_rank_blame_for_silence(r, cn->part);
			fail_for(r, cn, r->fate.blamed);
		} else {
			snprintf(why, sizeof why, "the switch %s stopped answering, too",
				 fan_peer_text(&cn->switch_addr, addr, sizeof addr));
			begin(r, back ? g->back : g->number[cn->part], FAN_E_UNREACHABLE, why,
			      now_ns);
		}
		return;
	}
}

/* ---- work ---- */

/* Time in which this rank did not look, because it was suspended, is no one's silence. */
static void discount_sleep(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	const uint64_t late_ns = fan_awake_late_ns(g->look_ns, now_ns);
	g->look_ns = now_ns + LOOK_NS;
	g->silent_ns += late_ns;
	g->back_by_ns += late_ns;
	g->until_ns += late_ns;
	r->when.join_by_ns = g->until_ns;
}

static bool has_left(const struct fan_connection *cn)
{
	return !cn->w || fan_worker_phase(cn->w) == FAN_W_LEFT;
}

/* Make the old connections leave; keep their results until all have agreed. */
static void serve_old(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	bool any = false;
	for (unsigned i = 0; i < g->olds; i++) {
		any |= !has_left(&g->old[i]);
		if (!has_left(&g->old[i]))
			fan_connection_send(&g->old[i], r->io, now_ns);
	}
	if (!any && g->phase == FAN_REGROUP_NONE)
		close_old(g);
}

/* Take in a lost part that answers all ranks again. */
static void look_for_lost(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	char why[FAN_FAULT_TEXT_BYTES], addr[80];
	if (!g->gone || g->phase != FAN_REGROUP_NONE || r->fate.leaving || !r->ready)
		return;
	const int number = fan_revival_work(r, now_ns);
	if (number < 0)
		return;
	snprintf(why, sizeof why, "the switch %s is there again",
		 fan_peer_text(&g->first[number].part.at, addr, sizeof addr));
	begin(r, number, FAN_E_UNREACHABLE, why, now_ns);
}

void fan_regroup_work(struct fan_rank *r, uint64_t now_ns)
{
	follow(r, now_ns);
	if (!r->regroup)
		return;
	serve_old(r, now_ns);
	look_for_lost(r, now_ns);
	if (r->regroup->phase != FAN_REGROUP_JOINS || r->fate.leaving)
		return;
	discount_sleep(r, now_ns);
	check_answers(r, now_ns);
}

void fan_regroup_joined(struct fan_rank *r)
{
	if (!r->regroup)
		return;
	keep_results(r);
	r->regroup->back = -1;
	if (r->regroup->phase == FAN_REGROUP_JOINS)
		fan_regroup_agree(r);
}

uint64_t fan_regroup_deadline(const struct fan_rank *r)
{
	const struct fan_regroup *g = r->regroup;
	uint64_t at_ns = UINT64_MAX;
	for (unsigned i = 0; g && i < g->olds; i++) {
		const struct fan_connection *cn = &g->old[i];
		uint64_t one_ns = has_left(cn) ? UINT64_MAX
				  : cn->news   ? 0
					       : fan_worker_deadline(cn->w);
		at_ns = one_ns < at_ns ? one_ns : at_ns;
	}
	if (g && g->gone && g->phase == FAN_REGROUP_NONE && !r->fate.leaving && r->ready &&
	    fan_echo_due(&g->revival.echo) < at_ns)
		at_ns = fan_echo_due(&g->revival.echo);
	if (!g || r->fate.leaving || g->phase != FAN_REGROUP_JOINS)
		return at_ns;
	if (g->back >= 0 && g->back_by_ns < at_ns)
		at_ns = g->back_by_ns;
	for (unsigned i = 0; i < r->connections; i++)
		if (!fan_worker_welcome(r->connection[i].w) && g->silent_ns < at_ns)
			at_ns = g->silent_ns;
	return at_ns;
}

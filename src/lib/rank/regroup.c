/* SPDX-License-Identifier: Apache-2.0 */
/* regroup.c - who is lost, and joining again at those that are left. */
#include "regroup.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/awake.h"
#include "ends.h"
#include "lib/base/rendezvous.h"
#include "net/clock.h"
#include "parts.h"
#include "rank.h"
#include "regroup_agree.h"

#define BACK_NS (10000 * FAN_MS)	/* in which a part that is there again has to answer */
#define LOOK_NS (2 * FAN_JOIN_RETRY_NS) /* between rounds of a rank that joins, at most */

static const uint64_t nobody[FAN_RANK_WORDS];

/* ---- enabling ---- */

static bool may_regroup(const struct fan_rank *c)
{
	bool others = false; /* than a host's only one */
	for (unsigned k = 0; k < c->parts.count; k++)
		others |= c->parts.inside[k] < 0 || c->parts.rail[k];
	return others && c->parts.count > 1 && c->parts.count <= FAN_CAUSE_PARTS_MAX &&
	       !c->client.on && !c->cfg.ahead && !*c->cfg.server_addr;
}

static void keep_results(struct fan_rank *c)
{
	for (unsigned i = 0; i < c->connections; i++)
		fan_connection_keep(&c->connection[i]);
}

/* What `c` was before any part is lost; NULL: no memory. */
static struct fan_regroup *begin_with(const struct fan_rank *c)
{
	struct fan_regroup *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->all = c->parts.count;
	g->back = -1;
	fan_hello_init(&g->hello);
	for (unsigned k = 0; k < c->parts.count; k++) {
		g->first[k] = (struct fan_regroup_part){c->parts.job[k], c->parts.inside[k],
							c->parts.mbps[k], c->parts.rail[k]};
		g->number[k] = (uint8_t)k;
	}
	return g;
}

void fan_regroup_enable(struct fan_rank *c)
{
	if (c->regroup)
		return;
	c->regroup = c->prepared;
	c->prepared = NULL;
	c->parent = NULL;
	if (!c->regroup && may_regroup(c))
		c->regroup = begin_with(c);
	if (!c->regroup)
		return;
	c->meter.news = true; /* parts have their numbers */
	keep_results(c);
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
	fan_hello_free(&g->hello);
	free(g);
}

static bool is_on(const struct fan_rank *c)
{
	return c->regroup && c->regroup->phase != FAN_REGROUP_NONE;
}

bool fan_regroup_holds(const struct fan_rank *c, const struct fanin_op *op)
{
	return c->regroup && (c->regroup->waits || (is_on(c) && op->kind != FAN_OP_AGREEMENT));
}

/* ---- stopping ---- */

/* Take the operations that have been started, the last one perhaps on some connections only. */
static void stop_ops(struct fan_rank *c)
{
	struct fan_regroup *g = c->regroup;
	g->op_count = 0;
	for (unsigned i = 0; i < c->ops.running_count; i++)
		g->op[g->op_count++] = c->ops.running[i];
	c->ops.running_count = 0;
	if (c->ops.waiting.head && c->ops.waiting.head->is_counted)
		g->op[g->op_count++] = fan_op_queue_take(&c->ops.waiting);
	g->ops = c->meter.ops;
}

static unsigned order_of(const struct fan_connection *cn)
{
	return cn->part * FAN_SHARDS_MAX + cn->shard;
}

/* The number of the connection behind `cn`, by part and shard; NULL: of the first one.  They were
 * opened in the order in which aggregators answered, which is another one on each rank. */
static unsigned next_connection(const struct fan_rank *c, const struct fan_connection *cn)
{
	unsigned next = FAN_SHARDS_MAX;
	for (unsigned i = 0; i < c->connections; i++) {
		bool behind = !cn || order_of(&c->connection[i]) > order_of(cn);
		if (behind && (next == FAN_SHARDS_MAX ||
			       order_of(&c->connection[i]) < order_of(&c->connection[next])))
			next = i;
	}
	assert(next < FAN_SHARDS_MAX);
	return next; /* there is one: no two have the same part and shard */
}

/* The connections tell why they leave, and hear nothing else from now on. */
static void stop_connections(struct fan_rank *c, int number, uint64_t now_ns)
{
	struct fan_regroup *g = c->regroup;
	struct fan_rtt_histogram trips;
	close_old(g);
	g->shares = c->meter.shares;
	memcpy(g->shards, c->parts.shards, sizeof g->shards);
	fan_rank_add_stats(&g->before, c);
	fan_rank_collect_trips(c, &trips);
	g->trips_before = trips;
	for (unsigned i = 0; i < c->connections; i++) {
		struct fan_connection *cn = &g->old[g->olds];
		g->was[g->olds] = (uint8_t)next_connection(c, i ? &cn[-1] : NULL);
		*cn = c->connection[g->was[g->olds]];
		fan_connection_renumber(cn, FAN_SHARDS_MAX + g->olds++);
		fan_worker_leave(cn->w, now_ns, FAN_CAUSE_GONE(number), nobody);
		cn->news = true;
	}
}

/* Close the connections that joined before another part was lost; the others are told `cause`. */
static void drop_connections(struct fan_rank *c, int cause, uint64_t now_ns)
{
	for (unsigned i = 0; i < c->connections; i++) {
		struct fan_connection *cn = &c->connection[i];
		if (!cn->w)
			continue;
		fan_worker_leave(cn->w, now_ns, cause, nobody);
		cn->news = true;
		fan_connection_send(cn, c->io, now_ns);
		fan_connection_close(cn);
	}
}

static void forget_connections(struct fan_rank *c)
{
	memset(c->connection, 0, sizeof c->connection);
	memset(c->parts.shards, 0, sizeof c->parts.shards);
	c->connections = 0;
}

/* The parts that are left, in jobs that tell which are not. */
static void take_parts(struct fan_rank *c, struct fan_regroup *g)
{
	char suffix[32] = "";
	if (g->turns)
		snprintf(suffix, sizeof suffix, "!%llx", (unsigned long long)g->gone);
	if (g->turns != (unsigned)__builtin_popcountll(g->gone)) /* this set may have been before */
		snprintf(suffix, sizeof suffix, "!%llx.%x", (unsigned long long)g->gone, g->turns);
	atomic_store(&c->gone, g->gone);
	if (c->column.gone)
		atomic_store(c->column.gone, g->gone);
	c->parts.count = 0;
	for (unsigned n = 0; n < g->all; n++) {
		const struct fan_regroup_part *p = &g->first[n];
		if (g->gone >> n & 1)
			continue;
		c->parts.job[c->parts.count] = p->part;
		fan_rendezvous_derive(c->parts.job[c->parts.count].name, p->part.name, suffix);
		c->parts.inside[c->parts.count] = p->inside;
		c->parts.mbps[c->parts.count] = p->mbps;
		c->parts.rail[c->parts.count] = p->rail;
		g->number[c->parts.count++] = (uint8_t)n;
	}
}

/* Part `number` is lost, or there again if it was.  `err`: of the loss, if no part is left. */
static void begin(struct fan_rank *c, int number, int err, const char *why, uint64_t now_ns)
{
	struct fan_regroup *g = c->regroup;
	const uint64_t alive_ns = (uint64_t)c->cfg.alive_ms * FAN_MS;
	const uint64_t with = fan_hello_lost_with(g, (unsigned)number);
	assert(number >= 0 && (unsigned)number < g->all && g->phase <= FAN_REGROUP_JOINS);
	g->gone ^= with;
	g->waits = false;
	g->turns++;
	g->back = g->gone >> number & 1 ? -1 : number;
	g->back_by_ns = now_ns + BACK_NS;
	for (unsigned n = 0; n < g->all; n++)
		if (with >> n & 1 && g->back < 0)
			fan_hello_lost(&g->hello, n, now_ns);
		else if (with >> n & 1)
			fan_hello_back(&g->hello, n, now_ns);
	snprintf(g->why, sizeof g->why, "%s", why);
	if (g->phase == FAN_REGROUP_NONE) {
		stop_ops(c);
		stop_connections(c, number, now_ns);
	} else {
		drop_connections(c, FAN_CAUSE_GONE(number), now_ns);
	}
	g->phase = FAN_REGROUP_JOINS;
	forget_connections(c);
	take_parts(c, g);
	g->look_ns = now_ns + LOOK_NS;
	g->silent_ns = now_ns + alive_ns;
	g->until_ns =
		now_ns + 2 * (g->back < 0 ? alive_ns : BACK_NS) + FAN_REGROUP_MARGIN_MS * FAN_MS;
	c->when.join_by_ns = g->until_ns;
	pthread_mutex_lock(&c->lock);
	c->ready = false;
	pthread_mutex_unlock(&c->lock);
	if (c->parts.count)
		fan_rank_open_parts(c, now_ns);
	else
		fan_rank_fail(c, err, g->why);
}

/* ---- groups that form ---- */

/* Of the parts those that the parent has lost; none where that would be all. */
static uint64_t gone_at_parent(const struct fan_rank *c)
{
	const uint64_t gone = fan_rank_gone(c->parent);
	uint64_t mine = 0;
	for (unsigned n = 0; n < c->prepared->all; n++)
		mine |= (gone >> c->parts.of[n] & 1) << n;
	return mine == (UINT64_C(1) << c->prepared->all) - 1 ? 0 : mine;
}

void fan_regroup_prepare(struct fan_rank *c)
{
	struct fan_regroup *g = c->parent && may_regroup(c) ? begin_with(c) : NULL;
	c->prepared = g;
	if (!g)
		return;
	g->gone = gone_at_parent(c);
	g->turns = g->gone != 0;
	take_parts(c, g);
}

void fan_regroup_follow(struct fan_rank *c, uint64_t now_ns)
{
	struct fan_regroup *g = c->prepared;
	if (!g || c->ready || c->fate.leaving || atomic_load(&c->error))
		return;
	const uint64_t gone = gone_at_parent(c);
	if (gone == g->gone)
		return;
	g->gone = gone;
	g->turns = gone != 0;
	drop_connections(c, FAN_OK, now_ns);
	forget_connections(c);
	take_parts(c, g);
	fan_rank_open_parts(c, now_ns);
}

/* ---- losses ---- */

/* Is it a part that is taken in again? */
static bool is_back(const struct fan_regroup *g, const struct fan_connection *cn)
{
	return g->back >= 0 && fan_hello_lost_with(g, (unsigned)g->back) >> g->number[cn->part] & 1;
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

/* Does the fault say that the part is lost, by itself or with its rail? */
static bool says_lost(const struct fan_regroup *g, const struct fan_connection *cn,
		      const struct fan_fault *f)
{
	const bool silent = f->err == FAN_E_UNREACHABLE && !fan_ranks_count(f->ranks);
	if (g->first[g->number[cn->part]].inside < 0)
		return silent || f->err == FAN_E_RESTARTED || f->err == FAN_E_STOPPED;
	return g->phase == FAN_REGROUP_NONE && (silent || f->err == FAN_E_RANK_LOST);
}

/* Has `other`, of another rail, failed as well, so that a host or a rank is lost? */
static bool tells_more(const struct fan_rank *c, const struct fan_connection *cn,
		       const struct fan_connection *other)
{
	return fan_worker_phase(other->w) == FAN_W_FAILED && c->parts.inside[other->part] >= 0 &&
	       c->parts.rail[other->part] != c->parts.rail[cn->part] &&
	       fan_worker_fault(other->w)->err > FAN_CAUSE_GONE(0);
}

/* A rail seems to be lost.  True: a host or a rank may be, of which another rail will tell soon.
 * False: none has told in time; or one has, and `*of_rail` is false. */
static bool waits_for_other_rails(const struct fan_rank *c, struct fan_connection *cn,
				  uint64_t now_ns, bool *of_rail)
{
	for (unsigned i = 0; i < c->connections; i++) {
		*of_rail = !tells_more(c, cn, &c->connection[i]);
		if (!*of_rail)
			return false;
	}
	if (!cn->again_ns)
		cn->again_ns = now_ns + (uint64_t)c->cfg.alive_ms * FAN_MS / 2;
	return now_ns < cn->again_ns;
}

/* The number of the part that a fault says is lost, or there again; -1: it says something else. */
static int number_of(const struct fan_regroup *g, const struct fan_connection *cn,
		     const struct fan_fault *f)
{
	int number = FAN_CAUSE_GONE(0) - f->err;
	const bool told = number >= 0 && number < (int)g->all;
	if (says_lost(g, cn, f))
		number = g->number[cn->part];
	if (g->back >= 0 && (is_back(g, cn) || f->err == FAN_E_TIMEOUT))
		number = g->back; /* whatever it says, or whoever does not join there */
	if (number < 0 || number >= (int)g->all || !has_other_rails(g, (unsigned)number))
		return -1;
	const bool comes_back = told && g->phase == FAN_REGROUP_NONE;
	return comes_back || !(g->gone >> number & 1) ? number : -1;
}

static void tell_why(const struct fan_rank *c, const struct fan_connection *cn, int number,
		     char *why, size_t bytes)
{
	const struct fan_fault *f = fan_worker_fault(cn->w);
	char addr[80];
	if (f->err != FAN_CAUSE_GONE(number))
		fan_rank_fault_text(c, cn, f, why, bytes);
	else
		snprintf(why, bytes, "another rank has %s the switch %s",
			 c->regroup->gone >> number & 1 ? "found" : "lost",
			 fan_peer_text(&c->regroup->first[number].part.at, addr, sizeof addr));
}

/* Ranks `ranks` do not join again: they are lost as well. */
static void fail_for(struct fan_rank *c, const struct fan_connection *cn, const uint64_t *ranks)
{
	struct fan_fault f = {.err = FAN_E_RANK_LOST};
	char text[FAN_FAULT_TEXT_BYTES];
	fan_ranks_copy(f.ranks, ranks);
	fan_ranks_copy(c->fate.blamed, ranks);
	c->fate.cause = FAN_E_RANK_LOST;
	fan_rank_fault_text(c, cn, &f, text, sizeof text);
	fan_rank_fail(c, FAN_E_RANK_LOST, text);
}

bool fan_regroup_forgives(struct fan_rank *c, struct fan_connection *cn, uint64_t now_ns)
{
	struct fan_regroup *g = c->regroup;
	const struct fan_fault *f = fan_worker_fault(cn->w);
	char why[FAN_FAULT_TEXT_BYTES];
	if (!g || g->phase > FAN_REGROUP_JOINS)
		return false;
	int number = number_of(g, cn, f);
	bool of_rail = true, waits = false;
	if (number >= 0 && g->back < 0 && f->err > FAN_CAUSE_GONE(0) &&
	    c->parts.inside[cn->part] >= 0)
		waits = waits_for_other_rails(c, cn, now_ns, &of_rail);
	g->waits |= waits;
	if (waits)
		return true;
	if (number >= 0 && of_rail) {
		tell_why(c, cn, number, why, sizeof why);
		begin(c, number, f->err == FAN_E_STOPPED ? f->err : FAN_E_UNREACHABLE, why, now_ns);
		return true;
	}
	if (g->phase == FAN_REGROUP_NONE || f->err != FAN_E_TIMEOUT || !fan_ranks_count(f->ranks))
		return false;
	fail_for(c, cn, f->ranks);
	return true;
}

/* Does that rank's aggregator answer by another rail? */
static bool answers_by_another(const struct fan_rank *c, const struct fan_connection *cn)
{
	bool answers = false;
	for (unsigned i = 0; i < c->connections; i++) {
		const struct fan_connection *other = &c->connection[i];
		answers |= c->parts.inside[other->part] == c->parts.inside[cn->part] &&
			   c->parts.rail[other->part] != c->parts.rail[cn->part] &&
			   fan_worker_welcome(other->w);
	}
	return answers;
}

/* Who has not answered by now is lost, and with a host's aggregator its rank or, if that answers by
 * another one, the rail: a named switch there may have been missed first. */
static void check_answers(struct fan_rank *c, uint64_t now_ns)
{
	struct fan_regroup *g = c->regroup;
	char why[FAN_FAULT_TEXT_BYTES], addr[80];
	for (unsigned i = 0; i < c->connections; i++) {
		struct fan_connection *cn = &c->connection[i];
		const bool back = is_back(g, cn);
		if (fan_worker_welcome(cn->w) || fan_worker_phase(cn->w) != FAN_W_JOINING ||
		    now_ns < (back ? g->back_by_ns : g->silent_ns))
			continue;
		if (c->parts.inside[cn->part] >= 0 && !back && !answers_by_another(c, cn)) {
			fan_rank_blame_for_silence(c, cn->part);
			fail_for(c, cn, c->fate.blamed);
		} else {
			snprintf(why, sizeof why, "the switch %s stopped answering, too",
				 fan_peer_text(&cn->switch_addr, addr, sizeof addr));
			begin(c, back ? g->back : g->number[cn->part], FAN_E_UNREACHABLE, why,
			      now_ns);
		}
		return;
	}
}

/* ---- work ---- */

/* Time in which this rank did not look, because it was suspended, is no one's silence. */
static void discount_sleep(struct fan_rank *c, uint64_t now_ns)
{
	struct fan_regroup *g = c->regroup;
	const uint64_t late_ns = fan_awake_late_ns(g->look_ns, now_ns);
	g->look_ns = now_ns + LOOK_NS;
	g->silent_ns += late_ns;
	g->back_by_ns += late_ns;
	g->until_ns += late_ns;
	c->when.join_by_ns = g->until_ns;
}

static bool has_left(const struct fan_connection *cn)
{
	return !cn->w || fan_worker_phase(cn->w) == FAN_W_LEFT;
}

/* The old connections leave; what they hold is needed until all have agreed. */
static void serve_old(struct fan_rank *c, uint64_t now_ns)
{
	struct fan_regroup *g = c->regroup;
	bool any = false;
	for (unsigned i = 0; i < g->olds; i++) {
		any |= !has_left(&g->old[i]);
		if (!has_left(&g->old[i]))
			fan_connection_send(&g->old[i], c->io, now_ns);
	}
	if (!any && g->phase == FAN_REGROUP_NONE)
		close_old(g);
}

/* A lost part that all ranks hear again is taken in. */
static void look_for_lost(struct fan_rank *c, uint64_t now_ns)
{
	struct fan_regroup *g = c->regroup;
	char why[FAN_FAULT_TEXT_BYTES], addr[80];
	if (!g->gone || g->phase != FAN_REGROUP_NONE || c->fate.leaving || !c->ready)
		return;
	const int number = fan_hello_work(c, now_ns);
	if (number < 0)
		return;
	snprintf(why, sizeof why, "the switch %s is there again",
		 fan_peer_text(&g->first[number].part.at, addr, sizeof addr));
	begin(c, number, FAN_E_UNREACHABLE, why, now_ns);
}

void fan_regroup_work(struct fan_rank *c, uint64_t now_ns)
{
	if (!c->regroup)
		return;
	serve_old(c, now_ns);
	look_for_lost(c, now_ns);
	if (c->regroup->phase != FAN_REGROUP_JOINS || c->fate.leaving)
		return;
	discount_sleep(c, now_ns);
	check_answers(c, now_ns);
}

void fan_regroup_joined(struct fan_rank *c)
{
	if (!c->regroup)
		return;
	keep_results(c);
	c->regroup->back = -1;
	if (c->regroup->phase == FAN_REGROUP_JOINS)
		fan_regroup_agree(c);
}

uint64_t fan_regroup_deadline(const struct fan_rank *c)
{
	const struct fan_regroup *g = c->regroup;
	uint64_t at_ns = UINT64_MAX;
	for (unsigned i = 0; g && i < g->olds; i++) {
		const struct fan_connection *cn = &g->old[i];
		uint64_t one_ns = has_left(cn) ? UINT64_MAX
				  : cn->news   ? 0
					       : fan_worker_deadline(cn->w);
		at_ns = one_ns < at_ns ? one_ns : at_ns;
	}
	if (g && g->gone && g->phase == FAN_REGROUP_NONE && !c->fate.leaving && c->ready &&
	    fan_echo_due(&g->hello.echo) < at_ns)
		at_ns = fan_echo_due(&g->hello.echo);
	if (!g || c->fate.leaving || g->phase != FAN_REGROUP_JOINS)
		return at_ns;
	if (g->back >= 0 && g->back_by_ns < at_ns)
		at_ns = g->back_by_ns;
	for (unsigned i = 0; i < c->connections; i++)
		if (!fan_worker_welcome(c->connection[i].w) && g->silent_ns < at_ns)
			at_ns = g->silent_ns;
	return at_ns;
}

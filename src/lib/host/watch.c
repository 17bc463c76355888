/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - a rank that shares memory watches those of its host that it waits for, and reports for
 * whom it waits. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/awake.h"
#include "host_comm.h"
#include "net/clock.h"

#define SEARCH_MS 50 /* between two searches */

/* As the ranks have met: rank[number].rank is not set until it opens. */
static uint16_t rank_of(const struct fan_host_comm *l, unsigned number)
{
	assert(number < l->board.ranks);
	return l->rank_at[l->board.with.host][number];
}

/* End the segment, with number `i` to blame. */
static void blame(const struct fan_host_comm *l, unsigned i, int error, const char *why)
{
	uint64_t here[FAN_RANK_WORDS] = {0}, lost[FAN_RANK_WORDS] = {0};
	fan_ranks_set(here, l->board.with.host);
	fan_ranks_set(lost, rank_of(l, i));
	fan_host_fail(l->s, l->board.me, error, why,
		      &(struct fan_host_blame){lost, FAN_CAUSE_LOST(i), here});
}

static void blame_ended(struct fan_host_comm *l, unsigned i)
{
	char why[FAN_HOST_WHY_BYTES];
	snprintf(why, sizeof why, "rank %u has ended: it was killed, or ended by itself",
		 rank_of(l, i));
	blame(l, i, FAN_E_RANK_LOST, why);
}

static void blame_left(const struct fan_rank *rank, unsigned i)
{
	char why[FAN_HOST_WHY_BYTES];
	snprintf(why, sizeof why, "rank %u left job \"%s\" while other ranks still needed it",
		 rank_of(rank->host, i), rank->cfg.job);
	blame(rank->host, i, FAN_E_RANK_LEFT, why);
}

void fan_host_abandon(const struct fan_rank *r)
{
	const struct fan_host_comm *l = r->host;
	if (l->ended < l->board.next_op || r->ops.waiting.head)
		blame_left(r, l->board.me);
}

/* Note a sign of life of number `i`.  This rank has just slept for `late_ns`, without
 * looking at anybody. */
static void receive(struct fan_host_last_word *h, const struct fan_host_segment *s, unsigned i,
		    uint64_t late_ns, uint64_t now_ns)
{
	const uint64_t beats = atomic_load(&s->rank[i].beats);
	/* A rank beats from when it has the memory; until all have been given it, it has time to
	 * come. */
	if (beats != h->beats || !h->at_ns) {
		h->beats = beats;
		h->at_ns = beats || atomic_load(&s->given) ? now_ns : 0;
	}
	if (late_ns && h->at_ns)
		h->at_ns = fan_awake_shift(h->at_ns, late_ns, now_ns);
}

/* This rank waits for number `i`, which makes no progress: has it left, ended or fallen silent? */
static void suspect(struct fan_rank *rank, unsigned i, uint64_t now_ns)
{
	struct fan_host_comm *l = rank->host;
	struct fan_host_rank *r = &l->s->rank[i];
	const bool ended = fan_host_has_ended(l->s, l->memory.fd, i);
	const struct fan_host_last_word *h = &l->heard[i];
	receive(&l->heard[i], l->s, i, 0, now_ns); /* after that: it may have left */
	const uint64_t since_ns = h->at_ns > l->moved_ns ? h->at_ns : l->moved_ns;
	const int64_t come_ms = h->at_ns ? 0 : fan_config_join_ms(&rank->cfg),
		      patient_ms = come_ms + rank->cfg.alive_ms;
	char why[FAN_HOST_WHY_BYTES];
	if (h->beats == UINT64_MAX) {
		blame_left(rank, i);
	} else if (ended) {
		blame_ended(l, i);
	} else if (now_ns > since_ns + (uint64_t)patient_ms * FAN_MS) {
		snprintf(why, sizeof why, "rank %u stopped answering (silent for more than %.1f s)",
			 rank_of(l, i), (double)patient_ms / 1e3);
		blame(l, i, FAN_E_RANK_LOST, why);
	} else {
		atomic_store(&r->asked, 1);
		fan_host_ring(l->s, i, FAN_HOST_WORK);
		fan_host_ring(l->s, i, FAN_HOST_CALL);
	}
}

/* Has number `i` ended without leaving?  The kernel reports nothing about this rank itself. */
static bool has_ended(const struct fan_host_comm *l, unsigned i)
{
	return i != l->board.me && fan_host_has_ended(l->s, l->memory.fd, i) &&
	       atomic_load(&l->s->rank[i].beats) != UINT64_MAX;
}

void fan_host_search(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_host_comm *l = r->host;
	unsigned i = 0;
	if (now_ns < l->searched_ns + SEARCH_MS * FAN_MS)
		return;
	l->searched_ns = now_ns;
	while (i < l->board.ranks && !has_ended(l, i))
		i++;
	l->found_ns = i == l->board.ranks ? 0 : l->found_ns ? l->found_ns : now_ns;
	if (l->found_ns && now_ns >= l->found_ns + (uint64_t)r->cfg.alive_ms * FAN_MS)
		blame_ended(l, i);
}

/* Nothing has moved for timeout_ms: the missing are to blame. */
static void stall(struct fan_rank *r, const bool *missing)
{
	char list[FAN_HOST_WHY_BYTES / 2], why[FAN_HOST_WHY_BYTES];
	uint64_t lost[FAN_RANK_WORDS] = {0};
	for (unsigned i = 0; i < r->host->board.ranks; i++)
		if (missing[i])
			fan_ranks_set(lost, rank_of(r->host, i));
	fan_fault_ranks_text(list, sizeof list, lost);
	snprintf(why, sizeof why, "no progress for %.4g s: %s did not take part",
		 r->cfg.timeout_ms / 1e3, list);
	fan_host_fail(r->host->s, r->host->board.me, FAN_E_STALLED, why,
		      &(struct fan_host_blame){.lost = lost, .cause = FAN_E_STALLED});
}

/* One of those in `missing` still joins its column.  If that fails it reports the cause. */
static bool one_joins(const struct fan_host_segment *s, const bool *missing)
{
	for (unsigned i = 0; i < fan_host_ranks(s); i++)
		if (missing[i] && atomic_load(&s->rank[i].joining))
			return true;
	return false;
}

/* Has the column failed with none of its operations in progress, which would have reported it? */
static void watch_net(struct fan_host_comm *l)
{
	int e = l->net && l->sent_first == l->sent_next ? atomic_load(&l->net->error) : 0;
	if (e && fan_host_needs_net(&l->board))
		fan_host_net_failed(l, e, NULL);
}

void fan_host_watch(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_host_comm *l = r->host;
	const struct fan_host_board *b = &l->board;
	bool missing[FAN_HOST_RANKS_MAX], shares;
	uint64_t moved = b->in + b->sum + b->net + b->out + b->chunks;
	const uint64_t late_ns =
		fan_awake_late_ns(l->looked_ns + FAN_HOST_LOOK_MS * FAN_MS, now_ns);
	l->looked_ns = now_ns;
	l->moved_ns = fan_awake_shift(l->moved_ns, late_ns, now_ns);
	for (unsigned i = 0; late_ns && i < l->board.ranks; i++)
		receive(&l->heard[i], l->s, i, late_ns, now_ns);
	if (moved != l->moved || b->first_op == b->next_op) {
		l->moved = moved;
		l->moved_ns = now_ns;
		return;
	}
	if (now_ns < l->moved_ns + FAN_HOST_LOOK_MS * FAN_MS ||
	    !fan_host_missing(b, missing, &shares))
		return;
	watch_net(l);
	for (unsigned i = 0; i < l->board.ranks; i++)
		if (missing[i])
			suspect(r, i, now_ns);
	if (!shares && !one_joins(l->s, missing) &&
	    now_ns > l->moved_ns + (uint64_t)r->cfg.timeout_ms * FAN_MS)
		stall(r, missing);
}

/* For whom it waits, to the snapshot. */
static void note_waits(const struct fan_host_comm *l, struct fan_rank_snapshot *s)
{
	bool missing[FAN_HOST_RANKS_MAX], shares;
	char list[FAN_HOST_WHY_BYTES];
	const unsigned count = fan_host_missing(&l->board, missing, &shares);
	const bool away = l->net && l->sent_first < l->sent_next && (shares || !count);
	s->away = away;
	for (unsigned i = 0; i < l->board.ranks; i++)
		if (missing[i])
			fan_ranks_set(s->missing, rank_of(l, i));
	fan_fault_ranks_text(list, sizeof list, s->missing);
	if (count)
		snprintf(s->waits, sizeof s->waits, "waits for %s to %s%s", list,
			 shares ? "sum a share" : "take part", away ? ", and for other hosts" : "");
	else if (away)
		snprintf(s->waits, sizeof s->waits, "waits for other hosts");
}

void fan_host_take_snapshot(struct fan_rank *r, uint64_t now_ns)
{
	const struct fan_host_comm *l = r->host;
	struct fan_rank_snapshot *s = &r->shown.snapshot;
	pthread_mutex_lock(&r->lock);
	*s = (struct fan_rank_snapshot){.at_ns = now_ns, .moved_ns = l->moved_ns};
	for (uint64_t n = l->ended; n < l->board.next_op; n++)
		fan_rank_snapshot_add(s, l->running[n % FAN_HOST_OPS_MAX]);
	if (!atomic_load(&r->error) && l->ended < l->board.next_op)
		note_waits(l, s);
	pthread_mutex_unlock(&r->lock);
}

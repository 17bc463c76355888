/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - a communicator of some ranks of another one.
 *
 * A group is a job of its own at the aggregators that its ranks know already, so it needs no
 * meeting: ranks of one host exchange nothing but the segment that they share, and between hosts
 * there is one JOIN for each part, but for parts that its parent has lost.  Its window is small, so
 * that many groups fit a switch. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm.h"
#include "core/base/awake.h"
#include "lib/host/attach.h"
#include "meeting.h"
#include "net/clock.h"

#define NAME_BYTES   24
#define SUFFIX_BYTES (NAME_BYTES + 12)
#define MEETING	     "/left" /* suffix of the meeting's job */
#define LOOK_NS	     (5 * FAN_MS)
#define SILENT_MS    1000 /* at least, until a place that has not answered is lost as well */
#define TRY_MS	     500 /* of the first try of a group, whose ranks may not agree; then twice that */
#define LATE_MAX     3	 /* groups that are tried when the time is over */
#define BEYOND_MS    20000 /* the meeting itself may last so much longer: it is left before that */
#define WINDOW	     2

/* A group: its name, its ranks, where they and the aggregators are, the switch in this process that
 * it shares (NULL: none), whether all ranks of a host join or none, because a late one tries again,
 * and its times. */
struct among {
	const char *name;
	const int *ranks;
	int count;
	const struct fan_comm_places *places;
	struct fan_embedded_switch *embedded;
	bool together;
	int timeout_ms, join_ms; /* < 0: not given */
};

/* The rank in the group of the communicator's rank `rank`; -1: it is not in the group. */
static int place_of(const int *ranks, int count, int rank)
{
	for (int i = 0; i < count; i++)
		if (ranks[i] == rank)
			return i;
	return -1;
}

static bool are_ranks(const struct fanin_comm *of, const int *ranks, int count)
{
	bool seen[FAN_RANKS_MAX] = {false};
	if (count < 2 || count > of->rank.cfg.ranks)
		return false;
	for (int i = 0; i < count; i++) {
		if (ranks[i] < 0 || ranks[i] >= of->rank.cfg.ranks || seen[ranks[i]])
			return false;
		seen[ranks[i]] = true;
	}
	return seen[of->rank.cfg.rank];
}

static bool is_name(const char *name)
{
	size_t n = strnlen(name, NAME_BYTES + 1);
	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] == '"' || name[i] > '~')
			return false;
	return n >= 1 && n <= NAME_BYTES;
}

/* Configure the group as `of` is, with a job and a window of its own.  Ranks that name different
 * members meet in different jobs. */
static void configure(struct fanin_comm *g, const struct fanin_comm *of, const struct among *among)
{
	const int *ranks = among->ranks, count = among->count;
	char suffix[SUFFIX_BYTES];
	uint64_t h = fan_hash(FAN_HASH_START, ranks, (size_t)count * sizeof *ranks);
	g->rank.cfg = of->rank.cfg;
	g->rank.cfg.rank = place_of(ranks, count, of->rank.cfg.rank);
	assert(g->rank.cfg.rank >= 0);
	g->rank.cfg.ranks = count;
	g->rank.cfg.join_ms = among->join_ms < 0 ? 0 : among->join_ms;
	if (among->timeout_ms >= 0)
		g->rank.cfg.timeout_ms = among->timeout_ms;
	fan_config_set_payload(&g->rank.cfg);
	if (!g->rank.cfg.window && !g->rank.cfg.ahead)
		g->rank.cfg.window = FAN_COMM_GROUP_WINDOW;
	snprintf(suffix, sizeof suffix, "/%s~%08x", among->name, (unsigned)(h >> 32 ^ h));
	fan_rendezvous_derive(g->rank.cfg.job, of->rank.cfg.job, suffix);
}

/* The hosts of its ranks, in the order of its ranks. */
static void find_hosts(struct fan_meeting *m, const struct fan_meeting *of, const int *ranks,
		       int count, const char *job)
{
	unsigned at[FAN_MEETING_HOSTS_MAX] = {0};
	memset(m, 0, sizeof *m);
	for (int i = 0; i < count; i++) {
		unsigned old = of->host_of[ranks[i]], h = 0;
		while (h < m->hosts && at[h] != old)
			h++;
		m->host_of[i] = (uint16_t)(old < of->hosts ? h : FAN_MEETING_HOSTS_MAX);
		if (old >= of->hosts)
			continue;
		assert(h < FAN_MEETING_HOSTS_MAX);
		if (h == m->hosts) {
			at[m->hosts++] = old;
			m->host[h] = of->host[old];
			m->host[h].first = (uint16_t)i;
			m->host[h].ranks = 0;
			m->host[h].nonce ^= fan_hash(FAN_HASH_START, job, strlen(job));
		}
		m->host[h].ranks++;
	}
}

/* Parts at the named switches, and at the aggregators of the hosts on which it has ranks. */
static void find_parts(struct fanin_comm *g, const struct fan_comm_places *p, const int *ranks,
		       int count)
{
	const uint16_t *host_of = p->ranks.host_of;
	for (unsigned k = 0; k < p->count; k++) {
		struct fan_rank_part part = p->part[k];
		bool here = part.inside < 0;
		for (int i = 0; i < count && !here; i++)
			here = host_of[ranks[i]] == host_of[part.inside];
		if (!here && (g->rank.parts.count || k + 1 < p->count)) /* somebody sums */
			continue;
		if (part.inside >= 0)
			part.inside = place_of(ranks, count, part.inside);
		g->rank.parts.of[g->rank.parts.count] = (uint8_t)k;
		g->places.part[g->places.count++] = part;
		fan_rank_add_part(&g->rank, &part, "");
	}
}

/* At named switches a group shares memory only if all ranks have asked: columns take jobs of the
 * switch, which are left to the communicators that programs begin with. */
static bool shares_memory(const struct fanin_comm *g, const struct fanin_comm *of)
{
	const struct fan_meeting *m = &g->places.ranks;
	bool asked = of->places.ranks.ask_to_share == (unsigned)of->rank.cfg.ranks;
	bool needs_no_switch = m->hosts == 1 || !*g->rank.cfg.switch_addr;
	return of->rank.host && fan_host_sharing_pays(m) && (asked || needs_no_switch);
}

static int open_group(struct fanin_comm *g, const struct fanin_comm *of,
		      const struct fan_comm_places *places, const int *ranks, int count,
		      bool together)
{
	find_hosts(&g->places.ranks, &places->ranks, ranks, count, g->rank.cfg.job);
	find_parts(g, places, ranks, count);
	g->rank.server_addr = of->rank.server_addr;
	if (places == &of->places) /* else what is left of them */
		g->rank.parent = &of->rank;
	snprintf(g->switch_text, sizeof g->switch_text, "%s", of->switch_text);
	if (shares_memory(g, of))
		return fan_comm_share_memory(g, together);
	return FAN_OK;
}

static int create_among(struct fanin_comm *of, const struct among *among, struct fanin_comm **comm)
{
	struct fanin_comm *g = *comm = fan_comm_new();
	if (!g)
		return FAN_E_NOMEM;
	configure(g, of, among);
	g->embedded = fan_embedded_switch_share(among->embedded);
	g->rank.own = fan_embedded_switch_daemon(g->embedded);
	int e = open_group(g, of, among->places, among->ranks, among->count, among->together);
	if (!e)
		e = fan_rank_begin(&g->rank);
	if (!e)
		fan_comm_complete(g);
	return e;
}

static bool is_time(int ms)
{
	return ms < 0 || (ms >= FAN_CONFIG_WAIT_MIN_MS && ms <= FAN_CONFIG_WAIT_MAX_MS);
}

int fan_comm_create_group(struct fanin_comm *of, const char *name, const int *ranks, int count,
			  int timeout_ms, int join_ms, struct fanin_comm **comm)
{
	const struct among among = {.name = name,
				    .ranks = ranks,
				    .count = count,
				    .places = &of->places,
				    .embedded = of->embedded,
				    .timeout_ms = timeout_ms,
				    .join_ms = join_ms};
	if (fan_rank_is_forked(&of->rank))
		return FAN_E_CLOSED;
	if (!is_name(name) || !are_ranks(of, ranks, count) || !is_time(timeout_ms) ||
	    !is_time(join_ms))
		return FAN_E_INVALID;
	if (*of->rank.cfg.controller_addr) /* its plan names jobs, and not this one */
		return FAN_E_INVALID;
	return create_among(of, &among, comm);
}

/* ---- shrinking ---- */

/* A communicator of the ranks that are left of one that has failed.
 *
 * The survivors meet in a job of all ranks at an aggregator that lives.  It never becomes ready,
 * since the lost ranks do not come, but its aggregator names the missing ranks to each member. Once
 * all are there except the known losses, or the time for it is over, the present ranks join a group
 * whose name follows from them: only ranks that agree about it meet.  The others look again, since
 * the set only grows.  So no two groups come of one meeting.  A
 * first sum shows that no rank has joined in a life that it has given up. */

struct shrink {
	struct fanin_comm *of;
	struct fan_comm_places places; /* what is left of them */
	struct fan_embedded_switch *embedded;
	struct fanin_comm *meeting;
	uint64_t lost[FAN_RANK_WORDS]; /* as this rank knows */
	uint64_t until_ns;
};

static bool is_lost(const struct shrink *s, int rank)
{
	return rank >= 0 && fan_ranks_has(s->lost, (unsigned)rank);
}

/* Places whose rank is not lost. */
static void keep_places(struct shrink *s)
{
	const struct fan_comm_places *p = &s->of->places;
	const struct fan_rank *net = fan_comm_net(s->of);
	const uint64_t lost = net && net->regroup ? net->regroup->gone : 0;
	s->places = *p;
	s->places.count = 0;
	for (unsigned k = 0; k < p->count; k++) {
		bool gone = k < FAN_CAUSE_PARTS_MAX && lost >> k & 1;
		if (is_lost(s, p->part[k].inside) || gone)
			continue;
		s->places.part[s->places.count++] = p->part[k];
	}
}

/* All aggregators are gone: the first survivor of a lost one's host takes its place, at its
 * address. */
static int replace_place(struct shrink *s, char *why, size_t bytes)
{
	const struct fan_comm_places *p = &s->of->places;
	for (unsigned k = 0; k < p->count; k++) {
		int next = p->part[k].inside;
		if (next < 0)
			continue;
		unsigned host = p->ranks.host_of[next];
		while (next < s->of->rank.cfg.ranks &&
		       (is_lost(s, next) || p->ranks.host_of[next] != host))
			next++;
		if (next == s->of->rank.cfg.ranks)
			continue;
		s->places.part[0] = p->part[k];
		s->places.part[0].inside = next;
		s->places.count = 1;
		struct fan_rendezvous at = {.one_host = p->ranks.hosts == 1};
		fan_peer_text(&p->part[k].at, at.addr, sizeof at.addr);
		return next == s->of->rank.cfg.rank
			       ? fan_embedded_switch_get(&s->embedded, &at, &s->of->rank.cfg, why,
							 bytes)
			       : FAN_OK;
	}
	snprintf(why, bytes, "no aggregator of job \"%s\" is left, and none can be replaced",
		 s->of->rank.cfg.job);
	return FAN_E_UNREACHABLE;
}

/* Join the meeting at place `k`, without waiting for it to be ready. */
static int go_to(struct shrink *s, unsigned k, struct fanin_comm **meeting)
{
	assert(k < s->places.count);
	struct fanin_comm *m = *meeting = fan_comm_new();
	if (!m)
		return FAN_E_NOMEM;
	m->rank.cfg = s->of->rank.cfg;
	m->rank.cfg.window = WINDOW;
	m->rank.cfg.ahead = m->rank.cfg.cache = 0;
	m->rank.cfg.multicast = 0;
	m->rank.cfg.waiting = NULL;
	const uint64_t now_ns = fan_clock_ns(),
		       left_ns = s->until_ns > now_ns ? s->until_ns - now_ns : 0;
	m->rank.cfg.join_ms = (int)(left_ns / FAN_MS) + BEYOND_MS;
	fan_rank_add_part(&m->rank, &s->places.part[k], MEETING);
	return fan_rank_start(&m->rank);
}

/* Look which ranks are there.  False: that is not known yet. */
static bool look(struct fanin_comm *m, uint64_t present[FAN_RANK_WORDS])
{
	uint64_t all[FAN_RANK_WORDS];
	fan_ranks_all(all, (unsigned)m->rank.cfg.ranks);
	pthread_mutex_lock(&m->rank.lock);
	bool known = m->rank.ready || m->rank.shown.missing_known;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		present[i] = all[i] & ~(m->rank.ready ? 0 : m->rank.shown.missing[i]);
	pthread_mutex_unlock(&m->rank.lock);
	return known && fan_ranks_has(present, (unsigned)m->rank.cfg.rank);
}

/* Until when the first place may be silent: as long as a rank may, where ranks are lost, since
 * their places are left out already, and those who leave out a place that lives do not meet the
 * others.  The rank at the last place may not have noticed yet that it must start an aggregator
 * there, or may get no processor; without it nobody goes on. */
static uint64_t patient_until(const struct shrink *s)
{
	const uint64_t now_ns = fan_clock_ns();
	const uint64_t left_ns = s->until_ns > now_ns ? s->until_ns - now_ns : 0;
	const uint64_t alive_ns = (uint64_t)s->of->rank.cfg.alive_ms * FAN_MS;
	uint64_t silent_ns = SILENT_MS * FAN_MS;
	assert(s->places.count > 0);
	if (s->places.count == 1 && s->places.part[0].inside >= 0 && silent_ns < left_ns)
		return s->until_ns;
	if (fan_ranks_count(s->lost) && silent_ns < alive_ns && silent_ns < left_ns / 2)
		silent_ns = alive_ns < left_ns / 2 ? alive_ns : left_ns / 2;
	return now_ns + silent_ns;
}

static void leave_out_first_place(struct shrink *s)
{
	struct fan_comm_places *p = &s->places;
	assert(p->count > 0);
	p->count--;
	memmove(p->part, p->part + 1, p->count * sizeof *p->part);
}

/* Sleep until the next look.  Extend a silence that may last until `*by_ns` by the time in which
 * this rank does not run. */
static void doze(uint64_t *by_ns)
{
	const uint64_t due_ns = fan_clock_ns() + 2 * LOOK_NS;
	nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	*by_ns += fan_awake_late_ns(due_ns, fan_clock_ns());
}

/* Meet at the first place that answers.  A place that does not is left out. */
static int meet(struct shrink *s)
{
	uint64_t present[FAN_RANK_WORDS];
	while (s->places.count) {
		uint64_t by_ns = patient_until(s);
		int e = go_to(s, 0, &s->meeting);
		while (!e && fan_clock_ns() < by_ns && !atomic_load(&s->meeting->rank.error)) {
			if (look(s->meeting, present))
				return FAN_OK;
			doze(&by_ns);
		}
		fan_comm_destroy(s->meeting);
		s->meeting = NULL;
		if (e)
			return e;
		leave_out_first_place(s);
	}
	return FAN_E_UNREACHABLE;
}

/* Wait until all are there that this rank does not know as lost, or until the time is over; then
 * they must be most of the ranks, since others may have met before. */
static int assemble(struct shrink *s, uint64_t present[FAN_RANK_WORDS])
{
	unsigned ranks = (unsigned)s->of->rank.cfg.ranks;
	uint64_t all[FAN_RANK_WORDS];
	fan_ranks_all(all, ranks);
	for (;;) {
		bool all_here = look(s->meeting, present);
		for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
			all_here &= !(all[i] & ~present[i] & ~s->lost[i]);
		if (all_here)
			return FAN_OK;
		if (fan_clock_ns() >= s->until_ns) /* first: the meeting's own time may be over */
			return 2 * fan_ranks_count(present) > ranks ? FAN_OK : FAN_E_TIMEOUT;
		if (atomic_load(&s->meeting->rank.error))
			return FAN_E_UNREACHABLE;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
}

/* Make the group of the ranks that are there, within `try_ms`. */
static int join_group(struct shrink *s, const uint64_t present[FAN_RANK_WORDS], int try_ms,
		      struct fanin_comm **comm)
{
	int ranks[FAN_RANKS_MAX];
	int32_t one = 1;
	struct among among = {.name = "left",
			      .ranks = ranks,
			      .places = &s->places,
			      .embedded = s->embedded,
			      .together = true,
			      .timeout_ms = -1,
			      .join_ms = try_ms};
	for (int r = 0; r < s->of->rank.cfg.ranks; r++)
		if (fan_ranks_has(present, (unsigned)r))
			ranks[among.count++] = r;
	if (among.count < 2)
		return FAN_E_RANK_LEFT;
	int e = create_among(s->of, &among, comm);
	return e ? e : fan_meeting_add_up(*comm, &one, 1);
}

/* The time of a group that is tried after so many: ever twice as long, since packets get lost, and
 * a life that a rank has given up keeps its place until it has been silent. */
static int try_ms_after(const struct shrink *s, unsigned tries, unsigned late)
{
	const uint64_t now_ns = fan_clock_ns();
	const uint64_t left_ms = s->until_ns > now_ns ? (s->until_ns - now_ns) / FAN_MS : 0;
	const uint64_t most_ms = 2 * (uint64_t)s->of->rank.cfg.alive_ms;
	uint64_t ms = TRY_MS;
	for (unsigned i = 0; i < (left_ms ? tries : late) && ms < most_ms; i++)
		ms *= 2;
	return (int)(left_ms && ms > left_ms + TRY_MS ? left_ms + TRY_MS : ms);
}

/* Errors of a group whose ranks do not agree, or of which one has given up its life; of a place
 * that is taken the former life is this rank's, of the try before. */
static bool is_worth_a_try(int e)
{
	return e == FAN_E_TIMEOUT || e == FAN_E_UNREACHABLE || e == FAN_E_RANK_TAKEN ||
	       e == FAN_E_RANK_LOST || e == FAN_E_RANK_LEFT;
}

static int shrink(struct shrink *s, struct fanin_comm **comm)
{
	uint64_t present[FAN_RANK_WORDS];
	unsigned tries = 0, late = 0;
	int e = meet(s);
	while (!e) {
		e = assemble(s, present);
		if (e)
			break;
		e = join_group(s, present, try_ms_after(s, tries++, late), comm);
		late += fan_clock_ns() >= s->until_ns;
		if (!*comm || !is_worth_a_try(e) || late == LATE_MAX)
			break;
		fan_comm_destroy(*comm);
		*comm = NULL;
		e = FAN_OK;
	}
	return e;
}

int fan_comm_shrink(struct fanin_comm *of, int wait_ms, struct fanin_comm **comm)
{
	struct shrink *s = calloc(1, sizeof *s);
	char why[FAN_FAULT_TEXT_BYTES] = "";
	if (!s)
		return FAN_E_NOMEM;
	s->of = of;
	s->until_ns = fan_clock_ns() +
		      (uint64_t)(wait_ms < 0 ? of->rank.cfg.timeout_ms : wait_ms) * FAN_MS;
	s->embedded = fan_embedded_switch_share(of->embedded);
	if (atomic_load_explicit(&of->rank.error, memory_order_acquire))
		memcpy(s->lost, of->rank.fate.blamed, sizeof s->lost);
	fan_ranks_clear(s->lost, (unsigned)of->rank.cfg.rank);
	keep_places(s);
	if (fan_ranks_count(s->lost) == (unsigned)of->rank.cfg.ranks - 1) {
		fan_embedded_switch_put(s->embedded, 0);
		free(s);
		return FAN_E_RANK_LEFT;
	}
	int e = s->places.count ? FAN_OK : replace_place(s, why, sizeof why);
	if (!e)
		e = shrink(s, comm);
	fan_comm_destroy(s->meeting);
	fan_embedded_switch_put(s->embedded, 0);
	if (e && e != FAN_E_RANK_LEFT && !*comm && (*comm = fan_comm_new()))
		fan_rank_refuse(&(*comm)->rank, e, *why ? why : fan_err_text(e));
	free(s);
	return e;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c - how a communicator finds its switches and the other ranks, and its end. */
#include "comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/rank_file.h"
#include "lib/base/rendezvous.h"
#include "lib/host/attach.h"
#include "lib/host/host_comm.h"
#include "lib/rank/rank.h"
#include "meeting.h"
#include "net/clock.h"

#define MEETING_WINDOW 8 /* fragments: a meeting leaves the slots to jobs that need them */
#define REFUSE_NS      (5 * FAN_JOIN_RETRY_NS) /* for which rank 0's switch refuses two launches */
#define KEEP_MS	       (FAN_CLAIMS_NS / FAN_MS)

/* ---- kept names ---- */

/* Where the ranks of a communicator have met is kept so that a second launch of its name is noticed
 * (core/aggregator/join.c).  Ranks that share memory, or whose hosts sum, are at the switch under
 * the number of their own launch afterwards, or not at all, and the name would be free at once. */

/* Communicators of this process that keep a name; anew in a child of fork(). */
static struct {
	pthread_mutex_t lock;
	unsigned fork_guard;
	struct fanin_comm *first;
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock_names(void)
{
	if (names.fork_guard != fan_fork_guard()) {
		pthread_mutex_init(&names.lock, NULL);
		names.first = NULL;
		names.fork_guard = fan_fork_guard();
	}
	pthread_mutex_lock(&names.lock);
}

/* Nothing distinguishes the launch from others for certain: another may have this id, or none as
 * well. */
static bool needs_name(const struct fan_config *cfg)
{
	return !(cfg->launch & 1);
}

/* Return the launch from here on: the ranks have met, and unless the launch has an id that no other
 * has, what rank 0 has drawn in the meeting `m` is that. */
static uint64_t launch_of(const struct fanin_comm *c, const struct fan_meeting *m)
{
	return needs_name(&c->rank.cfg) ? m->host[0].nonce | 1 : c->rank.cfg.launch;
}

/* The ranks of `c` have met at `met`, which is no longer the caller's.  It ends; or it keeps the
 * name for FAN_CLAIMS_NS, and `c` fails as it does if two launches use the name. */
static void keep_name(struct fanin_comm *c, struct fanin_comm *met)
{
	if (!needs_name(&met->rank.cfg)) {
		fan_comm_destroy(met);
		return;
	}
	pthread_mutex_lock(&met->rank.lock);
	met->rank.owner = &c->rank;
	pthread_mutex_unlock(&met->rank.lock);
	lock_names();
	c->name = met;
	c->next_name = names.first;
	names.first = c;
	pthread_mutex_unlock(&names.lock);
	fan_rank_close_in(&met->rank, KEEP_MS);
}

/* Let it leave: at an embedded switch, whose last user waits for jobs that are there, for all. */
static void end_name(struct fanin_comm *name)
{
	pthread_mutex_lock(&name->rank.lock);
	name->rank.owner = NULL;
	pthread_mutex_unlock(&name->rank.lock);
	if (*name->rank.cfg.switch_addr)
		fan_rank_close_in(&name->rank, 0);
	else
		fan_rank_end(&name->rank, FAN_E_CLOSED, "", NULL);
}

/* Take the name that the communicator `*at` of the locked list keeps, if there is one: unlock the
 * list, and let the name leave. */
static struct fanin_comm *take_name(struct fanin_comm **at)
{
	struct fanin_comm *owner = *at, *name = NULL;
	if (owner) {
		name = owner->name;
		*at = owner->next_name;
		owner->name = owner->next_name = NULL;
	}
	pthread_mutex_unlock(&names.lock);
	if (name)
		end_name(name);
	return name;
}

/* Return what keeps the name of `c`, which begins to leave, for the caller to destroy; NULL:
 * nothing. */
static struct fanin_comm *drop_name(struct fanin_comm *c)
{
	struct fanin_comm **at = &names.first;
	lock_names();
	while (*at && *at != c)
		at = &(*at)->next_name;
	return take_name(at);
}

static bool keeps_name_of(const struct fanin_comm *c, const struct fan_config *cfg)
{
	const struct fan_config *o = &c->name->rank.cfg;
	return o->rank == cfg->rank && !strcmp(o->job, cfg->job);
}

static struct fanin_comm *take_name_of(const struct fan_config *cfg)
{
	struct fanin_comm **at = &names.first;
	lock_names();
	while (*at && !keeps_name_of(*at, cfg))
		at = &(*at)->next_name;
	return take_name(at);
}

/* This process is about to join by `cfg`: drop its own name of that job and rank. */
static void drop_names_of(const struct fan_config *cfg)
{
	struct fanin_comm *name;
	while ((name = take_name_of(cfg)))
		fan_comm_destroy(name);
}

/* ---- making one ---- */

/* Pages of its own, zero until they are used: most connections of a rank never are. */
struct fanin_comm *fan_comm_new(void)
{
	struct fanin_comm *c =
		mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		return NULL;
	fan_rank_init(&c->rank, &fan_rank_by_sockets, &c->places.ranks);
	return c;
}

static void name_place(struct fanin_comm *c)
{
	const char *named = c->rank.cfg.switch_addr;
	const unsigned hosts = c->places.ranks.hosts;
	const int most = (int)sizeof c->switch_text / 2; /* of many names, the first */
	if (*named && hosts > 1)
		snprintf(c->switch_text, sizeof c->switch_text,
			 "%.*s, behind shared memory on %u hosts", most, named, hosts);
	else
		snprintf(c->switch_text, sizeof c->switch_text, "shared memory on %u host%s", hosts,
			 hosts > 1 ? "s, each of which sums a part" : "");
}

/* Would ranks share memory, if the system did not refuse it to some? */
static void explain_refusal(struct fanin_comm *c)
{
	const struct fan_meeting *m = &c->places.ranks;
	const size_t used = strlen(c->switch_text);
	if (m->cannot_share)
		snprintf(c->switch_text + used, sizeof c->switch_text - used,
			 ", without shared memory, which the system refuses to %u rank%s%s%s",
			 m->cannot_share, m->cannot_share > 1 ? "s" : "",
			 *m->cannot_why ? ": " : "", m->cannot_why);
}

int fan_comm_share_memory(struct fanin_comm *c, bool together)
{
	const int e = fan_host_comm_open(&c->rank, &c->places.ranks, together);
	name_place(c);
	return e;
}

const struct fan_rank *fan_comm_net(const struct fanin_comm *c)
{
	return c->rank.host ? c->rank.host->net : &c->rank;
}

static int resolve_all(struct fanin_comm *c, const char *what, const char *text, fan_peer *to,
		       unsigned max, unsigned *count)
{
	char why[FAN_CONFIG_WHY_BYTES], sentence[FAN_FAULT_TEXT_BYTES];
	if (!fan_resolve_all(to, max, count, text, &c->rank.cfg, why, sizeof why))
		return FAN_OK;
	snprintf(sentence, sizeof sentence, "%s: %.400s", what, why);
	return fan_rank_refuse(&c->rank, FAN_E_CONFIG, sentence);
}

static int resolve(struct fanin_comm *c, const char *what, const char *text, fan_peer *to)
{
	unsigned one;
	return resolve_all(c, what, text, to, 1, &one);
}

/* Parts from `first` on: one at each host whose first rank runs an aggregator, and for each further
 * rail.  How many. */
static unsigned set_hosts(struct fanin_comm *c, unsigned first, const struct fan_meeting *m)
{
	unsigned k = first;
	for (unsigned h = 0; h < m->hosts; h++) {
		const struct fan_meeting_host *host = &m->host[h];
		const struct fan_rank_part part = {host->aggregator, host->first, host->mbps, 0};
		if (host->aggregator.port)
			fan_rank_set_part(&c->rank, k++, &part, "");
	}
	for (unsigned j = 0; j < m->rails; j++)
		for (unsigned h = 0; h < m->hosts; h++) {
			const struct fan_meeting_host *host = &m->host[h];
			const struct fan_rank_part part = {host->rail[j].at, host->first,
							   host->rail[j].mbps, (uint8_t)(j + 1)};
			fan_rank_set_part(&c->rank, k++, &part, "");
		}
	return k - first;
}

static int find_meeting(struct fanin_comm *c, struct fan_rendezvous *at)
{
	if (!*c->rank.cfg.meeting_addr)
		return fan_rendezvous_find(at, c->rank.sentence, sizeof c->rank.sentence);
	memcpy(at->addr, c->rank.cfg.meeting_addr, sizeof at->addr);
	at->one_host = c->rank.cfg.meeting_local;
	return FAN_OK;
}

/* Nobody named a switch: the ranks meet at rank 0, which starts one.  Where they are on several
 * hosts, the first rank of each host runs an aggregator for its part. */
static int meet(struct fanin_comm *c)
{
	struct fan_rendezvous at;
	struct fan_meeting *m = &c->places.ranks;
	struct fanin_comm *met = NULL;
	fan_peer here;
	int e = find_meeting(c, &at);
	if (e)
		return fan_rank_refuse(&c->rank, e, c->rank.sentence);
	e = resolve(c, *c->rank.cfg.meeting_addr ? "switch" : "rank 0's host", at.addr, &here);
	if (e)
		return e;
	if (!c->rank.cfg.rank)
		e = fan_embedded_switch_get(&c->embedded, &at, &c->rank.cfg, c->rank.sentence,
					    sizeof c->rank.sentence);
	m->hosts = 1;
	m->host[0].aggregator = here;
	if (!e)
		e = fan_meeting_hold(m, &c->rank.cfg, &here, &c->embedded, &met, c->rank.sentence,
				     sizeof c->rank.sentence);
	if (e)
		return fan_rank_refuse(&c->rank, e, c->rank.sentence);
	c->rank.cfg.launch = launch_of(c, m);
	keep_name(c, met);
	c->rank.own = fan_embedded_switch_daemon(c->embedded);
	c->rank.parts.count = set_hosts(c, 0, m);
	if (fan_host_sharing_is_agreed(m, (unsigned)c->rank.cfg.ranks, false))
		return fan_comm_share_memory(c, false);
	if (c->rank.parts.count == 1)
		snprintf(c->switch_text, sizeof c->switch_text, "%s (inside rank 0)", at.addr);
	else
		snprintf(c->switch_text, sizeof c->switch_text,
			 "%s (inside rank 0) and %u more hosts", at.addr, c->rank.parts.count - 1);
	explain_refusal(c);
	return FAN_OK;
}

/* The address at which to join switch `one` of a list.  If its name has others, these are further
 * ones, but for jobs of one switch. */
static int take_switch(struct fanin_comm *c, const char *one, fan_peer *at)
{
	fan_peer all[FAN_COMM_MIXED_MAX];
	const bool several = !*c->rank.cfg.server_addr && !c->rank.cfg.ahead;
	unsigned count = 0;
	int e = resolve_all(c, "switch", one, all, several ? FAN_COMM_MIXED_MAX : 1, &count);
	if (e)
		return e;
	c->has_names |= several && !fan_peer_read(at, one);
	*at = all[0];
	for (unsigned i = 1; i < count && c->further_count < FAN_COMM_MIXED_MAX; i++)
		c->further[c->further_count++] = all[i];
	return FAN_OK;
}

static int take_list(struct fanin_comm *c)
{
	char text[sizeof c->rank.cfg.switch_addr], sentence[FAN_FAULT_TEXT_BYTES], *rest;
	memcpy(text, c->rank.cfg.switch_addr, sizeof text);
	snprintf(c->switch_text, sizeof c->switch_text, "%s", text);
	for (char *one = text; one; one = rest) {
		rest = strchr(one, ',');
		if (rest)
			*rest++ = '\0';
		fan_peer at;
		int e = take_switch(c, one, &at);
		if (e)
			return e;
		snprintf(sentence, sizeof sentence,
			 "switch %.100s: named twice: expected different ones", one);
		for (unsigned k = 0; k < c->rank.parts.count; k++)
			if (fan_peer_equal(&c->rank.parts.job[k].at, &at))
				return fan_rank_refuse(&c->rank, FAN_E_CONFIG, sentence);
		fan_rank_add_part(&c->rank, &(struct fan_rank_part){.at = at, .inside = -1}, "");
	}
	return FAN_OK;
}

/* Do the options allow that hosts sum parts beside named switches, and get what share pays? */
static bool hosts_may_sum(const struct fan_config *cfg)
{
	return *cfg->switch_addr && !*cfg->server_addr && !cfg->ahead && cfg->hosts;
}

static bool fits(unsigned named, unsigned parts, unsigned connections)
{
	return named + parts <= FAN_COMM_MIXED_MAX &&
	       connections + parts * FAN_EMBEDDED_THREADS <= FAN_SHARDS_MAX;
}

/* Parts at further addresses of named switches, to which there are `connections`, as long as there
 * is room if each has as many threads as any.  How many. */
static unsigned add_further(struct fanin_comm *c, unsigned *connections)
{
	unsigned named = c->rank.parts.count;
	const unsigned threads = *connections - named + 1;
	for (unsigned i = 0; i < c->further_count && named < FAN_COMM_MIXED_MAX; i++) {
		bool known = *connections + threads > FAN_SHARDS_MAX;
		for (unsigned k = 0; k < named; k++)
			known |= fan_peer_equal(&c->rank.parts.job[k].at, &c->further[i]);
		if (known)
			continue;
		fan_rank_set_part(&c->rank, named++,
				  &(struct fan_rank_part){.at = c->further[i], .inside = -1}, "");
		*connections += threads;
	}
	return named - c->rank.parts.count;
}

/* Parts at further addresses, and at hosts by as many rails as there is room for; none of these
 * where there would be too many parts or connections even by one.  How many: all ranks find the
 * same. */
static unsigned mix(struct fanin_comm *c, struct fan_meeting *m, unsigned connections)
{
	const unsigned further = add_further(c, &connections);
	const unsigned named = c->rank.parts.count + further;
	unsigned parts = m->hosts * (1 + m->rails);
	while (m->rails && !fits(named, parts, connections))
		parts = m->hosts * (1 + --m->rails);
	const bool room = m->hosts > 1 && fits(named, parts, connections);
	return further + (room ? set_hosts(c, named, m) : 0);
}

/* Find out whom to ask: switches, which are then a part each; or a controller, which names the
 * parts. */
static int find_switch(struct fanin_comm *c)
{
	if (*c->rank.cfg.controller_addr) {
		snprintf(c->switch_text, sizeof c->switch_text, "%s (controller)",
			 c->rank.cfg.controller_addr);
		return resolve(c, "controller", c->rank.cfg.controller_addr,
			       &c->rank.controller_addr);
	}
	int e = *c->rank.cfg.switch_addr ? take_list(c) : meet(c);
	if (e || !*c->rank.cfg.server_addr)
		return e;
	return resolve(c, "server", c->rank.cfg.server_addr, &c->rank.server_addr);
}

/* The error of a meeting at `c`. */
static int fails_to_meet(struct fanin_comm *c, int e)
{
	return atomic_load(&c->rank.error) ? atomic_load(&c->rank.error)
					   : fan_rank_refuse(&c->rank, e, fan_err_text(e));
}

static int open_shared(struct fanin_comm *d, const struct fanin_comm *c)
{
	struct fan_meeting *m = &d->places.ranks;
	d->rank.cfg = c->rank.cfg;
	d->rank.own = fan_embedded_switch_daemon(c->embedded);
	d->places.ranks = c->places.ranks;
	d->rank.cfg.launch = launch_of(c, m);
	d->rank.trace = c->rank.trace;
	d->further_count = c->further_count;
	memcpy(d->further, c->further, sizeof d->further);
	d->rank.parts.count = c->rank.parts.count;
	memcpy(d->rank.parts.job, c->rank.parts.job, sizeof d->rank.parts.job);
	d->rank.parts.count += mix(d, m, fan_rank_connections(&c->rank));
	int e = fan_comm_share_memory(d, false);
	return e ? e : fan_rank_begin(&d->rank);
}

/* Put a communicator whose ranks share memory into the place of `*comm`, at which they have met;
 * unless one of them cannot open it, for want of room at a switch or of the right to share memory:
 * then all keep `*comm`. */
static int share_memory(struct fanin_comm **comm)
{
	struct fanin_comm *c = *comm, *d = fan_comm_new();
	int32_t fail = !d || open_shared(d, c);
	int e = fan_meeting_add_up(c, &fail, 1);
	if (!e && !fail && d) {
		d->embedded = c->embedded;
		c->embedded = NULL;
		c->rank.trace = NULL; /* of the other one */
		*comm = d;
		keep_name(d, c);
		return FAN_OK;
	}
	if (d)
		d->rank.trace = NULL;
	fan_comm_destroy(d);
	return e ? fails_to_meet(c, e) : FAN_OK;
}

/* The ranks have joined at the named switches, and exchange their hosts there.  Ranks of a host
 * share memory, and hosts join as well.  The options alone decide that, since look-ups may differ
 * between ranks. */
static int join_hosts(struct fanin_comm **comm)
{
	struct fanin_comm *c = *comm;
	struct fan_meeting *m = &c->places.ranks;
	bool hosts = hosts_may_sum(&c->rank.cfg);
	if (c->rank.host || !*c->rank.cfg.switch_addr ||
	    (!hosts && !c->has_names && !fan_host_sharing_is_asked_for(&c->rank.cfg)))
		return FAN_OK;
	int e = fan_meeting_join(m, c, &c->rank.parts.job[0].at, true, hosts ? &c->embedded : NULL);
	if (!m->further)
		c->further_count = 0;
	if (!e && m->further)
		e = fan_meeting_agree(c, c->further, &c->further_count);
	if (e)
		return fails_to_meet(c, e);
	explain_refusal(c);
	if (fan_host_sharing_is_agreed(m, (unsigned)c->rank.cfg.ranks, true))
		e = share_memory(comm);
	if (e || *comm != c)
		return e;
	const unsigned connections = fan_rank_connections(&c->rank);
	pthread_mutex_lock(
		&c->rank.lock); /* which the thread takes before it looks at further parts */
	c->rank.own = fan_embedded_switch_daemon(c->embedded);
	c->rank.cfg.launch = launch_of(c, m);
	c->rank.asked.parts_to_add = mix(c, m, connections);
	c->rank.kind->wake(&c->rank);
	pthread_mutex_unlock(&c->rank.lock);
	fan_rank_wait_ready(&c->rank);
	return atomic_load(&c->rank.error);
}

static void trace_join(struct fanin_comm *c, uint64_t begin_ns)
{
	struct fan_trace_event e = {.kind = FAN_TRACE_JOIN,
				    .name = "join",
				    .begin_ns = begin_ns,
				    .end_ns = fan_clock_ns()};
	fan_trace_add(c->rank.trace, &e);
}

/* All parts are there: from now on the job may go on without some of them. */
void fan_comm_complete(struct fanin_comm *c)
{
	atomic_store(&c->rank.met, true);
	const unsigned known = c->places.count; /* of a group, which may have lost some */
	c->places.count = *c->rank.cfg.controller_addr ? 0 /* a controller's parts change */
			  : known		       ? known
						       : c->rank.parts.count;
	for (unsigned k = known; k < c->places.count; k++) {
		c->places.part[k] =
			(struct fan_rank_part){c->rank.parts.job[k].at, c->rank.parts.inside[k],
					       c->rank.parts.mbps[k], c->rank.parts.rail[k]};
	}
	pthread_mutex_lock(&c->rank.lock);
	c->rank.asked.complete = true;
	if (c->rank.kind->has_sockets)
		c->rank.kind->wake(&c->rank);
	pthread_mutex_unlock(&c->rank.lock);
}

static void take_terms(struct fan_config *cfg, const struct fan_comm_terms *terms)
{
	if (terms->meeting_addr)
		snprintf(cfg->meeting_addr, sizeof cfg->meeting_addr, "%s", terms->meeting_addr);
	cfg->meeting_local = terms->meeting_local;
	cfg->one_card = terms->one_card;
	if (!cfg->join_ms) /* which the user has not given */
		cfg->join_ms = terms->join_ms;
}

int fan_comm_create_on(const struct fanin_options *options, const struct fan_comm_terms *terms,
		       struct fanin_comm **comm)
{
	struct fanin_comm *c = *comm = fan_comm_new();
	if (!c)
		return FAN_E_NOMEM;
	int e = fan_config_load(&c->rank.cfg, options, c->rank.sentence, sizeof c->rank.sentence);
	if (terms)
		take_terms(&c->rank.cfg, terms);
	if (e)
		return fan_rank_refuse(&c->rank, e, c->rank.sentence);
	drop_names_of(&c->rank.cfg);
	c->rank.trace = fan_trace_open(&c->rank.cfg);
	uint64_t begin_ns = c->rank.trace ? fan_clock_ns() : 0;
	e = find_switch(c);
	if (!e)
		e = fan_rank_begin(&c->rank);
	if (!e)
		e = join_hosts(comm);
	c = *comm;
	if (c->rank.trace)
		trace_join(c, begin_ns);
	if (e)
		return e;
	fan_comm_complete(c);
	return FAN_OK;
}

int fan_comm_create_at(const struct fan_config *cfg, const fan_peer *at, const char *suffix,
		       struct fanin_comm **comm)
{
	struct fanin_comm *c = *comm = fan_comm_new();
	if (!c)
		return FAN_E_NOMEM;
	c->rank.cfg = *cfg;
	c->rank.cfg.window = MEETING_WINDOW;
	fan_rank_add_part(&c->rank, &(struct fan_rank_part){.at = *at, .inside = 0}, suffix);
	return fan_rank_begin(&c->rank);
}

static void free_all(struct fanin_comm *c, bool forked)
{
	c->rank.kind->release(&c->rank); /* leaves the jobs at the embedded switch */
	if (!forked) /* which has no part in the switch: embedded_switch.c sees to that itself */
		fan_embedded_switch_put(c->embedded, c->rank.cfg.alive_ms + FAN_COMM_LINGER_MS);
	munmap(c, sizeof *c);
}

void fan_comm_destroy(struct fanin_comm *c)
{
	if (!c)
		return;
	const bool forked = fan_rank_is_forked(&c->rank); /* thread and job are the parent's */
	if (c->watcher.end)
		c->watcher.end(c->watcher.of, forked);
	struct fan_trace *trace = c->rank.trace;
	if (forked) {
		fan_trace_close(trace, false);
		fan_comm_destroy(c->name);
		free_all(c, true);
		return;
	}
	struct fanin_comm *name = drop_name(c);
	fan_rank_stop(&c->rank);
	fan_comm_destroy(name);
	/* Ranks that ask in vain would meet the other launch's rank 0, which waits for the port. */
	if (c->embedded && atomic_load(&c->rank.error) == FAN_E_LAUNCHES)
		nanosleep(&(struct timespec){.tv_nsec = REFUSE_NS}, NULL);
	free_all(c, false); /* its columns end */
	fan_trace_close(trace, true);
}

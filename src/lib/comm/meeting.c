/* SPDX-License-Identifier: Apache-2.0 */
#include "meeting.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm.h"
#include "lib/host/attach.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "net/echo.h"
#include "net/rails.h"
#include "net/udp.h"

#define ID_WORDS 4

/* ---- records ---- */

void fan_meeting_record(int32_t record[FAN_MEETING_RECORD], const fan_peer *at)
{
	struct fan_host_id id = fan_host_id_read(geteuid());
	fan_peer local = {0};
	if (at)
		fan_udp_interface_to(at, &local);
	memcpy(record, id.word, sizeof id.word);
	memcpy(record + ID_WORDS, local.addr, sizeof local.addr);
}

bool fan_meeting_is_named(void)
{
	const struct fanin_options o = FANIN_OPTIONS_INIT;
	struct fan_config cfg;
	char why[FAN_CONFIG_WHY_BYTES];
	return fan_config_load_part(&cfg, &o, why, sizeof why) || *cfg.switch_addr ||
	       *cfg.controller_addr;
}

_Static_assert(ID_WORDS * 4 == sizeof(struct fan_host_id) &&
		       (FAN_MEETING_RECORD - ID_WORDS) * 4 == sizeof((fan_peer *)0)->addr,
	       "a record is an id and an address");

static bool same_host(const int32_t *records, unsigned a, unsigned b)
{
	return !memcmp(records + a * FAN_MEETING_RECORD, records + b * FAN_MEETING_RECORD,
		       ID_WORDS * sizeof *records);
}

/* Sort the records of `ranks` ranks, FAN_MEETING_RECORD words each, into hosts. */
static void sort_records(struct fan_meeting *m, const int32_t *records, unsigned ranks)
{
	assert(ranks <= FAN_RANKS_MAX);
	memset(m, 0, sizeof *m);
	for (unsigned r = 0; r < ranks; r++) {
		unsigned h = 0;
		while (h < m->hosts && !same_host(records, m->host[h].first, r))
			h++;
		m->host_of[r] = (uint16_t)h;
		if (h == FAN_MEETING_HOSTS_MAX)
			continue;
		struct fan_meeting_host *host = &m->host[h];
		if (h == m->hosts) {
			m->hosts++;
			host->first = (uint16_t)r;
			memcpy(host->aggregator.addr, records + r * FAN_MEETING_RECORD + ID_WORDS,
			       sizeof host->aggregator.addr);
		}
		host->ranks++;
	}
}

/* ---- the job ---- */

int fan_meeting_add_up(struct fanin_comm *c, int32_t *words, unsigned count)
{
	const struct fan_op_args call = {.op = FAN_SUM,
					 .kind = FAN_OP_OWN,
					 .in = words,
					 .out = words,
					 .count = count,
					 .dtype = FANIN_INT32};
	struct fanin_op *op;
	assert(count > 0);
	int e = fan_rank_submit(&c->rank, &call, 1, true, &op);
	if (e)
		return e;
	e = fanin_op_wait(op, -1);
	fanin_op_free(op);
	return e;
}

/* The port of an aggregator on all interfaces of this host; 0: there is none. */
static int start_embedded(struct fan_embedded_switch **sw, const struct fan_config *cfg,
			  const fan_peer *at)
{
	char why[FAN_CONFIG_WHY_BYTES];
	struct fan_rendezvous any = {.one_host = false};
	bool v4 = fan_peer_family(at) == AF_INET;
	snprintf(any.addr, sizeof any.addr, "%s", v4 ? "0.0.0.0:0" : "[::]:0");
	if (fan_embedded_switch_get(sw, &any, cfg, why, sizeof why))
		return 0;
	return (int)fan_daemon_address(fan_embedded_switch_daemon(*sw)).port;
}

static int exchange_hosts(struct fan_meeting *m, struct fanin_comm *c, const fan_peer *at)
{
	enum { MAY, ASK, WISHES };
	unsigned ranks = (unsigned)c->rank.cfg.ranks, count = ranks * FAN_MEETING_RECORD + WISHES;
	int32_t *records = calloc(count, sizeof *records);
	if (!records)
		return FAN_E_NOMEM;
	int32_t *wish = records + ranks * FAN_MEETING_RECORD;
	fan_meeting_record(records + c->rank.cfg.rank * FAN_MEETING_RECORD, at);
	wish[MAY] = fan_host_sharing_is_wanted(&c->rank.cfg);
	wish[ASK] = fan_host_sharing_is_asked_for(&c->rank.cfg);
	int e = fan_meeting_add_up(c, records, count);
	if (!e) {
		sort_records(m, records, ranks);
		m->may_share = (unsigned)wish[MAY];
		m->ask_to_share = (unsigned)wish[ASK];
	}
	free(records);
	return e;
}

/* Return a rate that a first rank has sent, in Mb/s; 0: it is none. */
static uint32_t take_rate(int32_t word)
{
	return word > 0 && word <= FAN_LINK_MBPS_MAX ? (uint32_t)word : 0;
}

/* ---- rails ---- */

/* The further rails of this host, which may sum a part each beside `named` switches; none where
 * parts would be too many. */
static unsigned find_rails(const struct fan_meeting *m, const fan_peer *at, unsigned named,
			   struct fan_rail *rails)
{
	const unsigned each =
		named < FAN_COMM_MIXED_MAX ? (FAN_COMM_MIXED_MAX - named) / m->hosts : 0;
	const unsigned most = each ? each - 1 : 0;
	fan_peer local = {0};
	if (m->hosts < 2)
		return 0;
	fan_udp_interface_to(at, &local);
	return fan_rails_beside(&local, rails,
				most < FAN_MEETING_RAILS_MAX ? most : FAN_MEETING_RAILS_MAX);
}

static bool is_elsewhere(const struct fan_meeting *m, unsigned h, const fan_peer *at)
{
	bool elsewhere = false;
	for (unsigned i = 0; i < m->hosts && !elsewhere; i++) {
		elsewhere = fan_peer_same_host(&m->host[i].aggregator, at);
		for (unsigned j = 0; j <= m->rails && j < FAN_MEETING_RAILS_MAX && i < h; j++)
			elsewhere |= fan_peer_same_host(&m->host[i].rail[j].at, at);
	}
	return elsewhere;
}

/* Find among the `count` rails of host `h`, which the first host's are, the one in the network of
 * `like`. An address that two hosts have is that of neither: bridges of containers are alike
 * everywhere. */
static bool pair(struct fan_meeting *m, unsigned h, const struct fan_rail *rails, unsigned count,
		 const struct fan_rail *like)
{
	for (unsigned j = 0; j < count; j++)
		if (fan_rails_are_near(&rails[j].at, &like->at, like->prefix_bits) &&
		    !is_elsewhere(m, h, &rails[j].at)) {
			struct fan_meeting_rail *r = &m->host[h].rail[m->rails];
			r->at = rails[j].at;
			r->at.port = m->host[h].aggregator.port;
			r->mbps = take_rate(rails[j].mbps);
			return true;
		}
	return false;
}

/* Take those of the first host's further rails in whose networks all hosts have one, as m->rails:
 * `rails` has FAN_MEETING_RAILS_MAX places of each host, the first `count` of which are used. */
static void pair_all(struct fan_meeting *m, const struct fan_rail *rails, const unsigned *count)
{
	assert(m->hosts <= FAN_COMM_MIXED_MAX);
	m->rails = 0;
	for (unsigned i = 0; i < count[0]; i++) {
		bool all = true;
		for (unsigned h = 0; h < m->hosts && all; h++)
			all = pair(m, h, rails + h * FAN_MEETING_RAILS_MAX, count[h], &rails[i]);
		m->rails += all;
	}
}

/* All hosts have further rails, `count` of them: exchange their addresses. */
static int exchange_rails(struct fan_meeting *m, struct fanin_comm *c, const struct fan_rail *mine,
			  const unsigned *count)
{
	enum { ADDRESS, PREFIX = 4, MBPS, WORDS };
	int32_t word[FAN_COMM_MIXED_MAX * FAN_MEETING_RAILS_MAX][WORDS] = {{0}};
	struct fan_rail rails[FAN_COMM_MIXED_MAX * FAN_MEETING_RAILS_MAX];
	const unsigned all = m->hosts * FAN_MEETING_RAILS_MAX, own = m->host_of[c->rank.cfg.rank];
	for (unsigned j = 0; m->host[own].first == c->rank.cfg.rank && j < count[own]; j++) {
		int32_t *w = word[own * FAN_MEETING_RAILS_MAX + j];
		memcpy(w + ADDRESS, mine[j].at.addr, sizeof mine[j].at.addr);
		w[PREFIX] = (int32_t)mine[j].prefix_bits;
		w[MBPS] = mine[j].mbps;
	}
	int e = fan_meeting_add_up(c, word[0], all * WORDS);
	for (unsigned i = 0; i < all && !e; i++) {
		rails[i] = (struct fan_rail){.prefix_bits = (unsigned)word[i][PREFIX],
					     .mbps = word[i][MBPS]};
		memcpy(rails[i].at.addr, word[i] + ADDRESS, sizeof rails[i].at.addr);
	}
	if (!e)
		pair_all(m, rails, count);
	return e;
}

/* Does what this host sends to rail `j` of host `h` leave by its own rail `j`?  Of two cards in one
 * network the kernel takes one for both. */
static bool leaves_by(const struct fan_meeting *m, unsigned own, unsigned h, unsigned j)
{
	const unsigned by = fan_udp_interface_to(&m->host[h].rail[j].at, NULL);
	return by && by == fan_udp_interface_to(&m->host[own].rail[j].at, NULL);
}

/* ---- aggregators ---- */

/* Exchange the ports of the first ranks' aggregators, the rates of their links, and a nonce of each
 * host.  A link-local address is reached by the interface that leads to the meeting point. */
static int exchange_ports(struct fan_meeting *m, struct fanin_comm *c, const fan_peer *at,
			  bool named, struct fan_embedded_switch **sw)
{
	enum { PORT, MBPS, NONCE, WORDS = NONCE + 2, RAILS_BIT = 16, RAILS = 15, FURTHER_BIT = 20 };
	int32_t word[FAN_MEETING_HOSTS_MAX * WORDS + 1] = {0}; /* the last: cannot_share */
	struct fan_rail rails[FAN_MEETING_RAILS_MAX] = {{.prefix_bits = 0}};
	unsigned count[FAN_MEETING_HOSTS_MAX];
	const unsigned ranks = m->host[m->host_of[c->rank.cfg.rank]].ranks;
	bool all = sw && m->hosts > 1;
	uint64_t nonce = fan_clock_nonce();
	for (unsigned h = 0; h < m->hosts; h++) {
		if (m->host[h].first != c->rank.cfg.rank)
			continue;
		if (sw && !*sw && m->hosts > 1)
			word[h * WORDS + PORT] = start_embedded(sw, &c->rank.cfg, at);
		else if (!named)
			word[h * WORDS + PORT] = (int32_t)at->port;
		if (all && c->rank.cfg.rails && !c->rank.cfg.one_card)
			word[h * WORDS + PORT] |=
				(int32_t)find_rails(m, at, named ? c->rank.parts.count : 0, rails)
				<< RAILS_BIT;
		word[h * WORDS + PORT] |= (c->further_count != 0) << FURTHER_BIT;
		word[h * WORDS + MBPS] = fan_link_rate_to(at);
		memcpy(word + h * WORDS + NONCE, &nonce, sizeof nonce);
	}
	word[m->hosts * WORDS] =
		fan_host_sharing_is_agreed(m, (unsigned)c->rank.cfg.ranks, named) &&
		!fan_host_can_attach(ranks, m->cannot_why, sizeof m->cannot_why);
	int e = fan_meeting_add_up(c, word, m->hosts * WORDS + 1);
	m->cannot_share = (unsigned)word[m->hosts * WORDS];
	m->further = named;
	for (unsigned h = 0; h < m->hosts; h++) {
		m->host[h].aggregator.port = (uint16_t)word[h * WORDS + PORT];
		count[h] = (unsigned)word[h * WORDS + PORT] >> RAILS_BIT & RAILS;
		m->further &= word[h * WORDS + PORT] >> FURTHER_BIT & 1;
		all &= count[h] && count[h] <= FAN_MEETING_RAILS_MAX && m->host[h].aggregator.port;
		m->host[h].aggregator.scope = at->scope;
		m->host[h].mbps = take_rate(word[h * WORDS + MBPS]);
		memcpy(&m->host[h].nonce, word + h * WORDS + NONCE, sizeof nonce);
	}
	if (!named)
		m->host[0].aggregator = *at;
	return e || !all ? e : exchange_rails(m, c, rails, count);
}

/* Keep the rails by which nobody has missed an aggregator: `silent` has how many ranks did, of each
 * host, then of each host's first further rail. */
static void keep_rails(struct fan_meeting *m, const int32_t *silent)
{
	unsigned kept = 0;
	for (unsigned j = 0; j < m->rails; j++) {
		bool answers = true;
		for (unsigned h = 0; h < m->hosts; h++)
			answers &= !silent[(j + 1) * m->hosts + h] && m->host[h].aggregator.port;
		for (unsigned h = 0; h < m->hosts && answers; h++)
			m->host[h].rail[kept] = m->host[h].rail[j];
		kept += answers;
	}
	m->rails = kept;
}

/* A host whose aggregator does not answer every rank sums nothing, and a rail by which one does not
 * is not used. */
static int drop_unreachable(struct fan_meeting *m, struct fanin_comm *c, bool named)
{
	fan_peer at[FAN_ECHO_PEERS_MAX] = {{{0}, 0, 0}};
	bool answers[FAN_ECHO_PEERS_MAX];
	int32_t silent[FAN_ECHO_PEERS_MAX];
	const unsigned count = m->hosts * (1 + m->rails), own = m->host_of[c->rank.cfg.rank];
	assert(count <= FAN_ECHO_PEERS_MAX);
	for (unsigned i = 0; i < count; i++) {
		const unsigned h = i % m->hosts, j = i / m->hosts;
		at[i] = m->host[h].aggregator;
		if (j && leaves_by(m, own, h, j - 1))
			at[i] = m->host[h].rail[j - 1].at;
		else if (j)
			at[i].port = 0;
	}
	fan_echo_all(at, count, answers);
	for (unsigned i = 0; i < count; i++)
		silent[i] = !answers[i];
	int e = fan_meeting_add_up(c, silent, count);
	for (unsigned h = named ? 0 : 1; h < m->hosts; h++)
		if (silent[h] && m->host[h].aggregator.port) {
			m->host[h].aggregator.port = 0;
			m->host[h].misses = (uint16_t)silent[h];
		}
	keep_rails(m, silent);
	return e;
}

int fan_meeting_agree(struct fanin_comm *c, fan_peer *at, unsigned *count)
{
	enum { HASH = 0xfffff }; /* of all ranks together less than 31 bits */
	bool answers[FAN_COMM_MIXED_MAX];
	int32_t silent[FAN_COMM_MIXED_MAX], all, mine = 0;
	unsigned kept = 0;
	assert(*count <= FAN_COMM_MIXED_MAX);
	for (unsigned i = 0; i < *count; i++) {
		char text[80];
		fan_peer_text(&at[i], text, sizeof text);
		mine = (int32_t)(fan_hash(FAN_HASH_START ^ (uint64_t)mine, text, strlen(text)) &
				 HASH);
	}
	all = mine;
	int e = fan_meeting_add_up(c, &all, 1);
	fan_echo_all(at, *count, answers);
	for (unsigned i = 0; i < FAN_COMM_MIXED_MAX; i++)
		silent[i] = all != mine * c->rank.cfg.ranks || i >= *count || !answers[i];
	if (!e)
		e = fan_meeting_add_up(c, silent, FAN_COMM_MIXED_MAX);
	for (unsigned i = 0; i < *count; i++)
		if (!silent[i])
			at[kept++] = at[i];
	*count = e ? 0 : kept;
	return e;
}

int fan_meeting_join(struct fan_meeting *m, struct fanin_comm *c, const fan_peer *at, bool named,
		     struct fan_embedded_switch **sw)
{
	int e = exchange_hosts(m, c, at);
	m->sums = m->hosts > 1 && sw;
	if (!e)
		e = exchange_ports(m, c, at, named, sw);
	if (!e && m->sums)
		e = drop_unreachable(m, c, named);
	return e;
}

int fan_meeting_hold(struct fan_meeting *m, const struct fan_config *cfg, const fan_peer *at,
		     struct fan_embedded_switch **sw, struct fanin_comm **met, char *why,
		     size_t bytes)
{
	int e = fan_comm_create_at(cfg, at, FAN_MEETING_SUFFIX, met);
	if (!e)
		e = fan_meeting_join(m, *met, at, false, sw);
	if (!e)
		return FAN_OK;
	snprintf(why, bytes, "%s",
		 *met && *fan_rank_error(&(*met)->rank) ? fan_rank_error(&(*met)->rank)
							: fan_err_text(e));
	fan_comm_destroy(*met);
	*met = NULL;
	return e;
}

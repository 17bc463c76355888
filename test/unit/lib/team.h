/* SPDX-License-Identifier: Apache-2.0 */
/* lib_team.h - a switch in this process and a thread for every rank, for the tests of
 * src/lib.  Ranks note what is wrong with EXPECT, since cmocka's asserts work in the
 * test's own thread only. */
#ifndef FAN_TEST_LIB_TEAM_H
#define FAN_TEST_LIB_TEAM_H

#include "unit/unit.h"

#include <fanin.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/limits.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "net/udp.h"

#define TEAM_MAX	8
#define TEAM_PORT_TRIES 50
#define TEAM_PATIENT_MS 120000 /* never reached unless something hangs */

static atomic_int team_wrong;

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x);            \
			atomic_fetch_add(&team_wrong, 1);                                          \
		}                                                                                  \
	} while (0)

struct team;

/* One rank's part of a test. */
struct member {
	struct team *team;
	int rank;
	fanin_comm *comm;
	int created; /* what fanin_comm_create said */
};

struct team {
	struct fan_daemon *sw;
	char address[80];
	const char *list; /* of switches, for the ranks; NULL: that one */
	int ranks;
	struct fanin_options options; /* of every rank but switch, rank and ranks */
	void (*adjust)(struct fanin_options *o, int rank); /* or NULL */
	void (*body)(struct member *m);
	void *ctx;
	bool may_fail; /* ranks that do not join run `body`, too */
};

/* A UDP port that is free, and promised to this process for as long as it lives: a name in the
 * network namespace says so, as in test/ports.py.  The kernel gives others, from 32768 on. */
static inline unsigned team_port(void)
{
	for (int i = 0; i < TEAM_PORT_TRIES; i++) {
		unsigned port = 10000 + (unsigned)(fan_clock_nonce() % 20000);
		struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
		struct sockaddr_un name = {.sun_family = AF_UNIX};
		int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
				   "fanin-test-port-%u", port);
		int promise = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int tried = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		assert_true(promise >= 0 && tried >= 0);
		bool ours = !bind(promise, (struct sockaddr *)&name,
				  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) &&
			    !bind(tried, (struct sockaddr *)&any, sizeof any);
		close(tried);
		if (ours)
			return port; /* the promise stays open */
		close(promise);
	}
	fail_msg("no port is free");
	return 0;
}

static inline struct fan_daemon *team_switch(char *address, size_t bytes, unsigned shards)
{
	struct fan_daemon_options o;
	struct fan_daemon *d = NULL;
	char why[256] = "", text[32];
	int e = -1;
	fan_daemon_defaults(&o);
	o.threads = shards;
	o.core.payload_bytes = FAN_PAYLOAD_MAX;
	o.core.slots = 2048;
	for (int i = 0; i < TEAM_PORT_TRIES && e; i++) {
		unsigned port = shards > 1 ? team_port() : 0;
		snprintf(text, sizeof text, "127.0.0.1:%u", port);
		assert_int_equal(fan_peer_parse(&o.listen, text, why, sizeof why), 0);
		e = fan_daemon_start(&d, &o, why, sizeof why);
	}
	if (e)
		fail_msg("the switch does not start: %s", why);
	fan_peer at = fan_daemon_address(d);
	fan_peer_text(&at, address, bytes);
	return d;
}

/* A team of `ranks` whose job has a name of its own. */
static inline struct team team_new(int ranks, void (*body)(struct member *))
{
	struct team t = {.ranks = ranks, .body = body};
	struct fanin_options o = FANIN_OPTIONS_INIT;
	t.options = o;
	t.options.timeout_ms = TEAM_PATIENT_MS;
	t.options.alive_ms = 60000;
	t.sw = team_switch(t.address, sizeof t.address, 1);
	return t;
}

static inline void *team_member(void *arg)
{
	struct member *m = arg;
	struct fanin_options o = m->team->options;
	o.switch_addr = m->team->list ? m->team->list : m->team->address;
	o.rank = m->rank;
	o.ranks = m->team->ranks;
	if (m->team->adjust)
		m->team->adjust(&o, m->rank);
	m->created = fanin_comm_create(&o, &m->comm);
	if (m->created && !m->team->may_fail) { /* others may wait for it for ever */
		fprintf(stderr, "rank %d: %s\n", m->rank, fanin_comm_error(m->comm));
		_exit(EXIT_FAILURE);
	}
	m->team->body(m);
	fanin_comm_destroy(m->comm);
	return NULL;
}

/* Ends the program if something was wrong: threads of the test that has failed may use its memory,
 * which the next one would take. */
static inline void team_check(void)
{
	const int wrong = atomic_load(&team_wrong);
	if (!wrong)
		return;
	fprintf(stderr, "%d expectations of this test do not hold; none is run after it\n", wrong);
	fflush(NULL);
	_exit(EXIT_FAILURE);
}

/* Run all ranks; the switch stays. */
static inline void team_run(struct team *t)
{
	pthread_t thread[TEAM_MAX];
	struct member m[TEAM_MAX];
	atomic_store(&team_wrong, 0);
	for (int r = 0; r < t->ranks; r++) {
		m[r] = (struct member){.team = t, .rank = r};
		assert_int_equal(pthread_create(&thread[r], NULL, team_member, &m[r]), 0);
	}
	for (int r = 0; r < t->ranks; r++)
		pthread_join(thread[r], NULL);
	team_check();
}

static inline void team_free(struct team *t)
{
	fan_daemon_stop(t->sw);
}

/* Likewise, and the switch stops. */
static inline void team_run_last(struct team *t)
{
	team_run(t);
	team_free(t);
}

static inline void team_run_once(int ranks, void (*body)(struct member *))
{
	struct team t = team_new(ranks, body);
	team_run_last(&t);
}

#endif

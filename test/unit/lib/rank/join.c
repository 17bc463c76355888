/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank does until it is in. */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/wire/ctlmsg.h"
#include "lib/rank/thread.h"
#include "net/shard.h"
#include "unit/lib/team.h"

/* ---- challenged ---- */

/* A switch whose table is full of jobs in which nobody has answered: who comes proves its address,
 * takes a place, and hears the group of the job that it is in at last. */

#define GROUP_TRIES 10

static atomic_int multicast; /* ranks to which results came by the group */

static void send_join(int fd, unsigned n)
{
	uint8_t pkt[FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX], body[FAN_CTL_BYTES_MAX];
	struct fan_join m = {
		.ranks = 2, .payload_bytes = FAN_PAYLOAD_MIN, .window = 2, .alive_ms = 1000};
	struct fan_frag f = {.nonce = 1 + n, .type = FAN_TYPE_JOIN, .payload = body};
	m.name_bytes = (uint8_t)snprintf(m.name, sizeof m.name, "nobody-%u", n);
	f.payload_bytes = fan_ctl_put(body, &m);
	fan_wire_put(pkt, &f);
	memcpy(pkt + FAN_HEAD_BYTES, body, f.payload_bytes);
	assert_true(send(fd, pkt, FAN_HEAD_BYTES + f.payload_bytes, 0) > 0);
}

/* Jobs of nobody take all places of the switch. */
static void fill(const struct team *t)
{
	uint8_t pkt[FAN_PACKET_MAX];
	const struct timeval most = {.tv_sec = TEAM_PATIENT_MS / 1000};
	struct sockaddr_storage ss;
	const fan_peer at = fan_daemon_address(t->sw);
	const socklen_t bytes = fan_peer_to_sockaddr(&at, fan_peer_family(&at), &ss);
	const int fd = socket(fan_peer_family(&at), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0 && !connect(fd, (struct sockaddr *)&ss, bytes));
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most), 0);
	for (unsigned n = 0; n < FAN_JOBS_MAX; n++)
		send_join(fd, n);
	for (unsigned n = 0; n < FAN_JOBS_MAX; n++)
		assert_true(recv(fd, pkt, sizeof pkt, 0) > 0 && pkt[1] == FAN_TYPE_WELCOME);
	close(fd);
}

static void sum(struct member *m)
{
	struct fanin_stats s = {.size = sizeof s};
	int one = 1, all = 0;
	EXPECT(!fanin_allreduce(m->comm, &one, &all, 1, FANIN_INT32, FANIN_SUM) && all == 2);
	EXPECT(!fanin_comm_stats(m->comm, &s));
	atomic_fetch_add(&multicast, s.multicast);
}

/* Ranks to which the results of a job came by the group, of two; `*challenges`: JOINs that were
 * told to prove their address.  A busy machine may be too late for the tests of the group, so there
 * are several tries. */
static int run(bool full, uint64_t *challenges)
{
	static struct fan_shard_health h;
	for (int try = 0; try < GROUP_TRIES; try++) {
		struct team t = team_new(2, sum);
		if (full)
			fill(&t);
		atomic_store(&multicast, 0);
		team_run(&t);
		fan_daemon_health(t.sw, 0, &h);
		*challenges = h.aggregator.challenges;
		assert_true(full == (*challenges > 0));
		team_free(&t);
		if (atomic_load(&multicast) == 2)
			break;
	}
	return atomic_load(&multicast);
}

TEST(challenged__who_comes_is_in)
{
	uint64_t challenges;
	setenv("FANIN_LOCAL", "0", 1);
	setenv("FANIN_HOSTS", "0", 1);
	const int quiet = run(false, &challenges);
	if (quiet == 2)
		assert_int_equal(run(true, &challenges), quiet);
	else
		run(true, &challenges);
	print_message("%d ranks by multicast, %d challenges\n", quiet, (int)challenges);
}

/* ---- wait_text: what fanin_comm_create says while it waits. ---- */

#define JOIN_MS	 5000 /* much longer than the two seconds before the first word */
#define SHORT_MS 2000 /* as long as these */

/* A join that has to wait, and what it says first. */
struct waiter {
	struct fanin_options options;
	pthread_t thread;
	char text[512];
};

static void note(void *arg, const char *text)
{
	struct waiter *w = arg;
	if (!*w->text)
		snprintf(w->text, sizeof w->text, "%s", text);
}

static void *wait_in_vain(void *arg)
{
	struct waiter *w = arg;
	fanin_comm *c;
	fanin_comm_create(&w->options, &c);
	fanin_comm_destroy(c);
	return NULL;
}

static void begin(struct waiter *w, const char *address, int timeout_ms)
{
	*w = (struct waiter){.options = FANIN_OPTIONS_INIT};
	w->options.switch_addr = address;
	w->options.job = "train";
	w->options.rank = 1;
	w->options.ranks = 4;
	w->options.timeout_ms = timeout_ms;
	w->options.waiting = note;
	w->options.waiting_arg = w;
	assert_int_equal(pthread_create(&w->thread, NULL, wait_in_vain, w), 0);
}

static void end(struct waiter *w, const char *words)
{
	unsigned left = JOIN_MS; /* too many */
	pthread_join(w->thread, NULL);
	const char *rest = strstr(w->text, "; gives up in ");
	if (strncmp(w->text, words, strlen(words)) || !rest ||
	    sscanf(rest, "; gives up in %u s", &left) != 1)
		fail_msg("\"%s\" is not \"%s; gives up in ...\"", w->text, words);
	assert_in_range(left, 1, JOIN_MS / 1000);
}

TEST(wait__says_for_what_and_why)
{
	struct waiter closed, silent, ranks, hasty;
	struct fan_udp u;
	struct fan_udp_options o = {.bind = {{0}, 0, 0}};
	char why[80], mute[80], address[80], words[160];
	assert_int_equal(fan_peer_parse(&o.bind, "127.0.0.1:0", why, sizeof why), 0);
	assert_int_equal(fan_udp_open(&u, &o), 0);
	fan_peer at = fan_udp_local(&u);
	fan_peer_text(&at, mute, sizeof mute);
	struct fan_daemon *sw = team_switch(address, sizeof address, 1);
	begin(&closed, "127.0.0.1:9", JOIN_MS);
	begin(&hasty, "127.0.0.1:9", SHORT_MS);
	begin(&silent, mute, JOIN_MS);
	begin(&ranks, address, JOIN_MS);
	end(&closed, "waits for the switch 127.0.0.1:9: port unreachable");
	end(&hasty, "waits for the switch 127.0.0.1:9: port unreachable");
	snprintf(words, sizeof words, "waits for the switch %s: no answer", mute);
	end(&silent, words);
	end(&ranks, "waits for ranks 0, 2, 3 of 4 to join job \"train\"");
	fan_daemon_stop(sw);
	fan_udp_close(&u);
}

/* ---- revival ---- */

#define S (1000 * FAN_MS)

/* Who is lost again soon waits twice as long each time, up to a bound; a long stay forgives. */
TEST(revival__waits_longer_each_time)
{
	struct fan_revival h;
	uint64_t now_ns = S, wait_ns = FAN_REVIVAL_WAIT_NS;
	memset(&h, 0, sizeof h);
	for (unsigned n = 0; n < FAN_REVIVAL_WAITS + 4; n++) {
		fan_revival_lost(&h, 3, now_ns);
		assert_int_equal(h.part[3].from_ns - now_ns, wait_ns);
		assert_int_equal(h.part[3].heard_ns, 0);
		assert_int_equal(h.part[2].from_ns, 0);
		now_ns = h.part[3].from_ns;
		fan_revival_back(&h, 3, now_ns);
		now_ns += 5 * S;
		if (n < FAN_REVIVAL_WAITS)
			wait_ns *= 2;
	}
	assert_true(wait_ns == FAN_REVIVAL_WAIT_NS << FAN_REVIVAL_WAITS);
	now_ns += FAN_REVIVAL_CALM_NS;
	fan_revival_lost(&h, 3, now_ns);
	assert_int_equal(h.part[3].from_ns - now_ns, FAN_REVIVAL_WAIT_NS);
}

/* What was heard of one before it was lost, or agreed about it, counts no more. */
TEST(revival__forgets_at_each_change)
{
	struct fan_revival h;
	memset(&h, 0, sizeof h);
	h.back = 6;
	h.ops = 9;
	h.bytes = 9;
	h.part[1].heard_ns = S;
	fan_revival_lost(&h, 1, 2 * S);
	assert_true(h.back == 4 && !h.ops && !h.bytes && !h.part[1].heard_ns);
	h.ops = 3;
	fan_revival_back(&h, 1, 3 * S);
	assert_true(!h.back && !h.ops && h.part[1].back_ns == 3 * S);
}

UNIT_MAIN

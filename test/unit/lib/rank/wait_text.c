/* SPDX-License-Identifier: Apache-2.0 */
/* What fanin_comm_create says while it waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "unit/lib/team.h"

#define JOIN_MS 5000 /* much longer than the two seconds before the first word */

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

static void begin(struct waiter *w, const char *address)
{
	*w = (struct waiter){.options = FANIN_OPTIONS_INIT};
	w->options.switch_addr = address;
	w->options.job = "train";
	w->options.rank = 1;
	w->options.ranks = 4;
	w->options.timeout_ms = JOIN_MS;
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
	assert_in_range(left, 0, JOIN_MS / 1000);
}

static void wait__says_for_what_and_why(void **state)
{
	struct waiter closed, silent, ranks;
	struct fan_udp u;
	struct fan_udp_options o = {.bind = {{0}, 0, 0}};
	char why[80], mute[80], address[80], words[160];
	(void)state;
	assert_int_equal(fan_peer_parse(&o.bind, "127.0.0.1:0", why, sizeof why), 0);
	assert_int_equal(fan_udp_open(&u, &o), 0);
	fan_peer at = fan_udp_local(&u);
	fan_peer_text(&at, mute, sizeof mute);
	struct fan_daemon *sw = team_switch(address, sizeof address, 1);
	begin(&closed, "127.0.0.1:9");
	begin(&silent, mute);
	begin(&ranks, address);
	end(&closed, "waits for the switch 127.0.0.1:9: port unreachable");
	snprintf(words, sizeof words, "waits for the switch %s: no answer", mute);
	end(&silent, words);
	end(&ranks, "waits for ranks 0, 2, 3 of 4 to join job \"train\"");
	fan_daemon_stop(sw);
	fan_udp_close(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wait__says_for_what_and_why),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

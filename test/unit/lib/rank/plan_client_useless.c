/* SPDX-License-Identifier: Apache-2.0 */
/* Workers whose controller is of no use: it is not there, says nothing, or says what makes no
 * sense. */
#include "unit/lib/controller.h"
#include "unit/unit.h"

#include "net/clock.h"

#define RANKS	 3
#define HURRY_MS 1000 /* for create, which must end in an error */

static struct scripted controller;

struct useless {
	const char *text; /* said at once; NULL: nothing */
	bool closes;
	int error;
	const char *words;
};

static void say_useless(struct scripted *s, struct scripted_worker *w)
{
	const struct useless *u = (const struct useless *)s->text;
	if (u->text)
		scripted_say(w, u->text);
	if (u->closes)
		scripted_hang_up(w);
}

/* Returns how often it was tried. */
static int expect_end(const struct useless *u, const char *address)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	fanin_comm *c;
	int e, tries = 1; /* time may be over while a line is up that is closed at once */
	o.controller_addr = address;
	o.job = "j";
	o.rank = 0;
	o.ranks = RANKS;
	o.timeout_ms = HURRY_MS;
	while ((e = fanin_comm_create(&o, &c)) == FAN_E_TIMEOUT && u->closes && tries++ < 4)
		fanin_comm_destroy(c);
	assert_int_equal(e, u->error);
	if (!strstr(fanin_comm_error(c), u->words))
		fail_msg("\"%s\" has no \"%s\"", fanin_comm_error(c), u->words);
	fanin_comm_destroy(c);
	return tries;
}

static void expect_useless(const struct useless *u)
{
	memset(&controller, 0, sizeof controller);
	controller.text = (const char *)u;
	controller.met = say_useless;
	scripted_start(&controller);
	const uint64_t begin_ns = fan_clock_ns();
	const int tries = expect_end(u, controller.address);
	const int ms = (int)((fan_clock_ns() - begin_ns) / FAN_MS);
	/* It is dialled again after 250 ms, after 500 ms, and then once a second. */
	assert_in_range(atomic_load(&controller.met_count), 1,
			2 * tries + (ms + 250 * tries) / 1000);
	scripted_stop(&controller);
}

TEST(plan_client_useless__ends_with_its_error)
{
	static const struct useless all[] = {
		{NULL, false, FANIN_E_TIMEOUT, "has not told the parts of job \"j\""},
		{NULL, true, FANIN_E_UNREACHABLE, "does not answer"},
		{"{\"job\":", true, FANIN_E_UNREACHABLE, "does not answer"},
		{"SSH-2.0-OpenSSH_9.2\n", false, FANIN_E_FORMAT, "no controller"},
		{"[]\n", false, FANIN_E_FORMAT, "no controller"},
		{"{\"hello\":\"switch\"}\n", false, FANIN_E_FORMAT, "no controller"},
		{"{\"move\":{\"part\":0,\"route\":1,\"at\":\"10.0.0.1:1\"}}\n", false,
		 FANIN_E_FORMAT, "a part that there is not"},
		{"{\"refused\":\"no job \\\"j\\\": expected one of a, b\"}\n", false,
		 FANIN_E_CONFIG, "refuses rank 0 of job \"j\": no job \"j\": expected one of a, b"},
		{"{\"refused\":\"first\"}\n{\"refu", true, FANIN_E_CONFIG, "of job \"j\": first"},
		{"{\"job\":{\"name\":\"j\",\"ranks\":8,\"parts\":[{\"number\":0,\"name\":\"j/0\","
		 "\"route\":1,\"cut\":[0,4294967296],\"at\":\"127.0.0.1:9\"}]}}\n",
		 false, FANIN_E_JOB_MISMATCH, "with 8 ranks, rank 0 was started with 3"},
	};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		expect_useless(&all[i]);
}

TEST(plan_client_useless__nobody_listens)
{
	static const struct useless u = {NULL, false, FANIN_E_UNREACHABLE, "Connection refused"};
	expect_end(&u, "127.0.0.1:9");
}

static void say_huge(struct scripted *s, struct scripted_worker *w)
{
	static char huge[(1 << 20) + 4096];
	(void)s;
	memset(huge, 'x', sizeof huge - 1);
	scripted_say(w, huge);
}

TEST(plan_client_useless__a_line_without_end)
{
	static const struct useless u = {NULL, true, FANIN_E_UNREACHABLE, "a line is too long"};
	memset(&controller, 0, sizeof controller);
	controller.met = say_huge;
	scripted_start(&controller);
	expect_end(&u, controller.address);
	scripted_stop(&controller);
}

UNIT_MAIN

/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text, and those of this machine. */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "net/udp.h"

/* ---- peer ---- */

/* Addresses: text, sockets and the core's fan_peer, and back. */

static fan_peer parse(const char *text)
{
	char why[256] = "";
	fan_peer p;

	if (fan_peer_parse(&p, text, why, sizeof why))
		fail_msg("\"%s\": %s", text, why);
	return p;
}

static void same_text(const char *text)
{
	char back[80];
	fan_peer p = parse(text);

	assert_string_equal(fan_peer_text(&p, back, sizeof back), text);
}

static void refused(const char *text, const char *expected)
{
	char why[256] = "";
	fan_peer p;

	assert_int_equal(fan_peer_parse(&p, text, why, sizeof why), -1);
	if (!strstr(why, expected))
		fail_msg("\"%s\": \"%s\" does not say \"%s\"", text, why, expected);
}

TEST(sockaddr__ipv4_is_kept_mapped)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(5000)};
	const uint8_t want[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 7};
	struct sockaddr_storage ss;

	in.sin_addr.s_addr = htonl(0x0a000007);
	fan_peer p = fan_peer_from_sockaddr((struct sockaddr *)&in, sizeof in);
	assert_memory_equal(p.addr, want, 16);
	assert_int_equal(p.port, 5000);
	assert_int_equal(fan_peer_family(&p), AF_INET);
	assert_int_equal(fan_peer_to_sockaddr(&p, AF_INET, &ss), sizeof in);
	assert_memory_equal(&ss, &in, sizeof in);
}

TEST(sockaddr__ipv6_with_scope_and_back)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(65535), .sin6_scope_id = 3};
	struct sockaddr_storage ss;

	inet_pton(AF_INET6, "fe80::1:2", &in6.sin6_addr);
	fan_peer p = fan_peer_from_sockaddr((struct sockaddr *)&in6, sizeof in6);
	assert_int_equal(p.scope, 3);
	assert_int_equal(fan_peer_family(&p), AF_INET6);
	assert_int_equal(fan_peer_to_sockaddr(&p, AF_UNSPEC, &ss), sizeof in6);
	assert_memory_equal(&ss, &in6, sizeof in6);
}

TEST(sockaddr__of_the_other_family_is_none)
{
	struct sockaddr_storage ss;
	fan_peer v4 = parse("127.0.0.1:1"), v6 = parse("[::1]:1");

	assert_int_equal(fan_peer_to_sockaddr(&v4, AF_INET6, &ss), 0);
	assert_int_equal(fan_peer_to_sockaddr(&v6, AF_INET, &ss), 0);
}

TEST(sockaddr__too_short_is_nobody)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = 1};
	fan_peer p = fan_peer_from_sockaddr((struct sockaddr *)&in, sizeof in - 1);

	assert_true(fan_peer_is_none(&p));
}

TEST(parse__text_comes_back)
{
	same_text("10.0.0.1:5000");
	same_text("0.0.0.0:0");
	same_text("255.255.255.255:65535");
	same_text("[fd00::1]:5000");
	same_text("[::]:1");
	same_text("[fe80::1%lo]:9");
}

TEST(parse__any_address)
{
	fan_peer p = parse("0.0.0.0:5"), q = parse("[::]:5"), r = parse("127.0.0.1:5");

	assert_true(fan_peer_is_any(&p));
	assert_true(fan_peer_is_any(&q));
	assert_false(fan_peer_is_any(&r));
	assert_false(fan_peer_is_none(&p));
}

TEST(parse__a_name_is_resolved)
{
	struct addrinfo *there;
	if (getaddrinfo("localhost", NULL, NULL, &there)) /* a bare system: no /etc/hosts */
		skip();
	freeaddrinfo(there);
	fan_peer p = parse("localhost:77");

	assert_int_equal(p.port, 77);
	assert_false(fan_peer_is_any(&p));
}

TEST(parse__errors_say_what_is_expected)
{
	refused("", "expected HOST:PORT or [IPV6]:PORT, got \"\"");
	refused("10.0.0.1", "expected HOST:PORT");
	refused(":5000", "expected HOST:PORT");
	refused("[fd00::1]", "expected HOST:PORT");
	refused("[fd00::1", "expected HOST:PORT");
	refused("[]:1", "expected HOST:PORT");
	refused("fd00::1:5000", "brackets around an IPv6 address");
	refused("10.0.0.1:", "expected a port from 0 to 65535 after the address, got \"\"");
	refused("10.0.0.1:65536", "got \"65536\"");
	refused("10.0.0.1:+1", "got \"+1\"");
	refused("10.0.0.1:1x", "got \"1x\"");
	refused("10.0.0.1:0000001", "expected a port");
	refused("[10.0.0.1]:1", "expected an IPv6 address in brackets");
	refused("[fe80::1%nosuchif0]:1", "expected an IPv6 address in brackets");
}

TEST(parse__a_long_host_is_refused)
{
	char text[400];

	memset(text, 'a', sizeof text);
	memcpy(text + sizeof text - 3, ":1", 3);
	refused(text, "expected HOST:PORT");
}

TEST(public__are_not_private_nor_local)
{
	static const char *const ours[] = {"10.1.2.3:1",    "172.16.0.1:1", "172.31.255.1:1",
					   "192.168.7.1:1", "100.64.0.1:1", "127.0.0.1:1",
					   "169.254.1.1:1", "0.0.0.0:1",    "224.0.0.1:1",
					   "[::1]:1",	    "[fd00::1]:1",  "[::]:1"};
	static const char *const others[] = {"8.8.8.8:1",     "172.32.0.1:1", "192.169.0.1:1",
					     "100.128.0.1:1", "11.0.0.1:1",   "[2001:db8::1]:1"};

	for (unsigned i = 0; i < sizeof ours / sizeof *ours; i++) {
		fan_peer p = parse(ours[i]);
		assert_false(fan_peer_is_public(&p));
	}
	for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
		fan_peer p = parse(others[i]);
		assert_true(fan_peer_is_public(&p));
	}
}

TEST(interface__of_the_loopback)
{
	fan_peer to = parse("127.0.0.1:0"), local;

	assert_int_equal(fan_udp_interface_to(&to, &local), if_nametoindex("lo"));
	assert_memory_equal(local.addr, to.addr, sizeof to.addr);
	assert_int_equal(fan_udp_interface_to(&to, NULL), if_nametoindex("lo"));
}

/* ---- locals ---- */

#define PLACES (FAN_LOCALS_SETS * FAN_LOCALS_WAYS)

static struct fan_locals table;

/* A peer and an address that follow from a number. */
static fan_peer peer_of(uint64_t n)
{
	fan_peer p = {{0, 0x0a000001ffff0000 + (n & 255)}, 40000 + (uint32_t)(n >> 8), 0};
	return p;
}

static void put(uint64_t n)
{
	fan_peer p = peer_of(n);
	const uint64_t addr[2] = {n + 1, ~n};
	fan_locals_put(&table, &p, addr);
}

static bool has(uint64_t n)
{
	fan_peer p = peer_of(n);
	const uint64_t *addr = fan_locals_get(&table, &p);
	if (addr) {
		assert_true(addr[0] == n + 1);
		assert_true(addr[1] == ~n);
	}
	return addr != NULL;
}

static int clear(void **state __attribute__((unused)))
{
	memset(&table, 0, sizeof table);
	return 0;
}

TEST_WITH(get__nobody_at_first, clear, NULL)
{
	const fan_peer none = {{0, 0}, 0, 0};
	assert_false(has(0));
	assert_null(fan_locals_get(&table, &none));
}

TEST_WITH(get__what_was_put_last, clear, NULL)
{
	fan_peer p = peer_of(7);
	const uint64_t first[2] = {1, 2}, second[2] = {0, 3};
	fan_locals_put(&table, &p, first);
	fan_locals_put(&table, &p, second);
	assert_memory_equal(fan_locals_get(&table, &p), second, sizeof second);
	fan_locals_forget(&table, &p);
	assert_null(fan_locals_get(&table, &p)); /* it was there once only */
}

TEST_WITH(get__a_peer_is_all_of_its_fields, clear, NULL)
{
	fan_peer p = peer_of(7), q = p;
	put(7);
	q.port++;
	assert_null(fan_locals_get(&table, &q));
	q = p;
	q.scope++;
	assert_null(fan_locals_get(&table, &q));
	q = p;
	q.addr[0]++;
	assert_null(fan_locals_get(&table, &q));
	q = p;
	q.addr[1]++;
	assert_null(fan_locals_get(&table, &q));
}

/* As many as one job may have ranks: all are there.  As many as a switch may have
 * members, twice the load: nearly all are. */
TEST_WITH(put__members_find_room, clear, NULL)
{
	unsigned found = 0;
	for (unsigned n = 0; n < FAN_RANKS_MAX; n++)
		put(n);
	for (unsigned n = 0; n < FAN_RANKS_MAX; n++)
		assert_true(has(n));
	for (unsigned n = 0; n < FAN_MEMBERS_MAX; n++)
		put(n);
	for (unsigned n = 0; n < FAN_MEMBERS_MAX; n++)
		found += has(n);
	assert_in_range(found, FAN_MEMBERS_MAX * 95 / 100, FAN_MEMBERS_MAX);
}

/* Those who keep sending stay, however many strangers come and go. */
TEST_WITH(put__the_silent_give_way, clear, NULL)
{
	unsigned old = 0;
	for (uint64_t n = 0; n < 20 * PLACES; n++) {
		put(1000 + n);
		for (uint64_t m = 0; n % 64 == 0 && m < 100; m++)
			put(m);
	}
	for (unsigned m = 0; m < 100; m++)
		assert_true(has(m));
	for (uint64_t n = 0; n < 15 * PLACES; n++)
		old += has(1000 + n);
	assert_int_equal(old, 0);
}

TEST_WITH(forget__one_only, clear, NULL)
{
	fan_peer p = peer_of(3);
	for (unsigned n = 0; n < 200; n++)
		put(n);
	fan_locals_forget(&table, &p);
	fan_locals_forget(&table, &p);
	for (unsigned n = 0; n < 200; n++)
		assert_int_equal(has(n), n != 3);
	put(3);
	assert_true(has(3));
}

UNIT_MAIN

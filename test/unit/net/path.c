/* SPDX-License-Identifier: Apache-2.0 */
#include "net/path.h"

#include <errno.h>
#include <net/if.h>

#include "udp_rig.h"

static void path__of_the_loopback(void **state)
{
	(void)state;
	static const char *const at[] = {"127.0.0.1:5000", "127.0.0.1:0", "[::1]:5000"};

	for (unsigned i = 0; i < sizeof at / sizeof *at; i++) {
		const fan_peer to = peer(at[i]);
		struct fan_path p;
		fan_path_read(&p, &to);
		assert_int_equal(p.interface, if_nametoindex("lo"));
		assert_int_equal(p.mtu, 65535);
		assert_int_equal(p.told_mtu, 0);
		assert_false(p.by_gateway);
		assert_false(p.redirected);
	}
}

static void path__of_no_route(void **state)
{
	(void)state;
	const fan_peer to = peer("240.0.0.1:5000");
	struct fan_path p;

	fan_path_read(&p, &to);
	if (!p.interface) { /* a machine may have one */
		assert_int_equal(p.mtu, 0);
		assert_int_equal(p.told_mtu, 0);
	}
}

static void told__what_icmp_can_say(void **state)
{
	(void)state;
	static const int can[] = {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE, ENOPROTOOPT,
				  EOPNOTSUPP,	EHOSTDOWN,    ENONET,	   EPROTO,   EACCES};
	static const int cannot[] = {0, EAGAIN, EBADF, EINVAL, EIO, ENOBUFS, ENOTCONN, EFAULT};

	for (unsigned i = 0; i < sizeof can / sizeof *can; i++)
		assert_true(fan_udp_is_told(can[i]));
	for (unsigned i = 0; i < sizeof cannot / sizeof *cannot; i++)
		assert_false(fan_udp_is_told(cannot[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path__of_the_loopback),
		cmocka_unit_test(path__of_no_route),
		cmocka_unit_test(told__what_icmp_can_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/err.h"
#include "lib/link/connection.h"

/* One that had gone past its switch begins at the switch again, and counts on its changes of path.
 */
static void connection__opened_again_is_at_its_switch(void **state)
{
	struct fan_connection cn = {.epoll_fd = epoll_create1(0)};
	const struct fan_worker_config cfg = {.name = "j",
					      .rank = 1,
					      .ranks = 2,
					      .payload_bytes = 1408,
					      .window_max = 64,
					      .alive_ms = 10000,
					      .join_ms = 30000,
					      .stall_ms = 30000,
					      .nonce = 7};
	char why[FAN_CONNECTION_WHY_BYTES];
	fan_peer at;
	(void)state;
	assert_false(fan_peer_parse(&at, "127.0.0.1:9", why, sizeof why));
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fan_connection_open(&cn, &cfg, &at, NULL, FAN_MS, why), FAN_OK);
		assert_false(cn.failover.at_server);
		assert_int_equal(cn.failover.aside.fd, -1);
		assert_int_equal(cn.failover.ask_ns, 0);
		assert_int_equal(cn.failover.moves, i);
		cn.failover.at_server = true;
		cn.failover.ask_ns = FAN_MS;
		cn.failover.moves++;
		fan_connection_close(&cn);
	}
	close(cn.epoll_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connection__opened_again_is_at_its_switch),
	};
	return RUN(tests);
}

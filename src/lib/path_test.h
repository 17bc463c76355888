/* SPDX-License-Identifier: Apache-2.0 */
/* path_test.h - does the path of a connection lose large datagrams?
 *
 * Routers say so by ICMP, which anybody can forge, and firewalls lose what they say.  So a
 * connection whose large datagrams bring no result for a while sends ECHOs of that length and short
 * ones beside them.  If short ones are answered again and again and no long one is, nor a result
 * comes, the path takes no such datagrams.  What a router has said is only tried: an ECHO of that
 * length. */
#ifndef FAN_LIB_PATH_TEST_H
#define FAN_LIB_PATH_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_PATH_TEST_AFTER_MS 500  /* without a result, until a test begins... */
#define FAN_PATH_TEST_AGAIN_MS 5000 /* ...and after one that was passed */
#define FAN_PATH_TEST_STEP_MS  100  /* from round to round */
#define FAN_PATH_TEST_ROUNDS   24 /* without an answer to a long ECHO, until the path is given up */
#define FAN_PATH_TEST_SHORT    8  /* answers to short ones by then, at least */
#define FAN_PATH_TEST_PART     8  /* of the stall time: the most that AFTER_MS is... */
#define FAN_PATH_TEST_PARTS    64 /* ...and STEP_MS */

struct fan_connection;

/* Of one connection.  All zero: nothing is under way. */
struct fan_path_test {
	uint64_t next_ns;     /* of the next round; 0: no large datagram waits for a result */
	uint64_t nonce;	      /* of the test's ECHOs, plus which of them it is */
	uint32_t bytes;	      /* of the longest datagram since the last result, with its header */
	unsigned rounds;      /* sent; 0: none under way */
	unsigned short_heard; /* answers to short ECHOs */
	bool told_heard;      /* an ECHO of `told_bytes` has been answered */
	uint32_t told_bytes;  /* that a router is said to take, as `bytes`; 0: nothing was said */
	int told_mtu;
};

/* A datagram of `bytes` has been sent at `now_ns`.  `stall_ms`: the stall time of the job. */
void fan_path_test_sent(struct fan_path_test *t, uint32_t bytes, uint64_t now_ns,
			uint32_t stall_ms);

/* A result has come: the path takes what it must. */
void fan_path_test_result(struct fan_path_test *t);

/* Is datagram `pkt` an answer to an ECHO of the test, and nothing else?  It is heeded then. */
bool fan_path_test_heard(struct fan_path_test *t, const uint8_t *pkt, size_t len, uint64_t now_ns);

/* Send the ECHOs that are due on the socket of `cn`.  True: the path does not take what it must. */
bool fan_path_test_turn(struct fan_connection *cn, uint64_t now_ns);

/* Send an ECHO of `nonce` and `bytes` with its header to the switch. */
void fan_path_ask(struct fan_connection *cn, uint64_t nonce, uint32_t bytes);

/* When it is due next; UINT64_MAX: never. */
uint64_t fan_path_test_deadline(const struct fan_path_test *t);

#endif

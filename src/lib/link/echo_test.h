/* SPDX-License-Identifier: Apache-2.0 */
/* echo_test.h - which aggregators answer this process. */
#ifndef FAN_LIB_LINK_ECHO_TEST_H
#define FAN_LIB_LINK_ECHO_TEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/out.h"

#define FAN_ECHO_TEST_MAX   64	/* aggregators */
#define FAN_ECHO_TEST_TRIES 12	/* echoes to one that does not answer: ARP asks again after 1 s */
#define FAN_ECHO_TEST_MS    100 /* between two echoes */

struct fan_udp;

/* Send one echo to the aggregator that `u` is connected to. */
void fan_echo_ask(struct fan_udp *u, uint64_t nonce);

/* Has the answer to the echo `nonce` come? */
bool fan_echo_heard(struct fan_udp *u, uint64_t nonce);

/* Send an echo to each of `count` aggregators, and note in `answers` which have answered.  Entries
 * without a port do not.  Blocks for at most FAN_ECHO_TEST_TRIES * FAN_ECHO_TEST_MS. */
void fan_echo_test(const fan_peer *at, unsigned count, bool *answers);

#endif

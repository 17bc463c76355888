/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams to a daemon that asks its neighbours.  The first byte of the input chooses the length
 * of the first one, and so on; all come from the address of a neighbour, which is the worst case.
 * None but an answer to one of the last questions, whose nonces are not in the input's reach, may
 * count as a sign of life. */
#include "fuzz.h"

#include "core/wire/ctlmsg.h"
#include "core/wire/wire.h"
#include "net/neighbours.h"

#define NONCE UINT64_C(0x9e3779b97f4a7c15)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fan_neighbours n;
	struct fan_out_item item[2];
	struct fan_neighbour of[2] = {{"X", {{0, 1}, 7, 0}}, {"Y", {{0, 2}, 7, 0}}};
	struct fan_out out;
	struct fan_frag f;

	memset(&n, 0, sizeof n);
	fan_neighbours_set(&n, 1, of, 2, 0);
	fan_neighbours_turn(&n, 0);
	fan_out_init(&out, item, 2, NULL, 0);
	for (unsigned i = 0; i < 2; i++)
		fan_neighbours_ask(&n, i, NONCE + i, &out);
	for (size_t at = 0; at < size;) {
		size_t bytes = data[at++];
		bytes = bytes < size - at ? bytes : size - at;
		bool good = fan_neighbours_take(&n, &of[0].at, data + at, bytes);
		FUZZ_CHECK(!good ||
			   (fan_wire_get(&f, data + at, bytes) < 0 && f.type == FAN_TYPE_REPORT &&
			    f.topic == FAN_TOPIC_ECHO && f.nonce == NONCE));
		FUZZ_CHECK(n.of[0].answered >= good && !n.of[1].answered);
		at += bytes;
	}
	return 0;
}

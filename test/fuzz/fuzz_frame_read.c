/* SPDX-License-Identifier: Apache-2.0 */
/* Frames from an interface.  What is taken lies in the frame, and its checksum is right by the
 * plainest way to take it. */
#include "fuzz.h"

#include "net/frame.h"

static unsigned sum(const uint8_t *p, size_t bytes, unsigned begin)
{
	uint64_t s = begin;

	for (size_t i = 0; i < bytes; i++)
		s += i % 2 ? p[i] : p[i] * 256u;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (unsigned)s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fan_plane_datagram d;

	if (fan_frame_read(&d, data, size) != FAN_FRAME_GOOD)
		return 0;
	bool four = data[12] == 8;
	size_t udp = four ? 34 : 54;
	FUZZ_CHECK(d.data == data + udp + 8 && d.bytes <= size - udp - 8);
	FUZZ_CHECK(d.from.port == data[udp] * 256u + data[udp + 1]);
	unsigned told = data[udp + 6] * 256u + data[udp + 7];
	unsigned begin = sum(data + (four ? 26 : 22), four ? 8 : 32, (unsigned)(17 + 8 + d.bytes));
	FUZZ_CHECK((four && !told) || sum(data + udp, 8 + d.bytes, begin) == 0xffff);
	return 0;
}

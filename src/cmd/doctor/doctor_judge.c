/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor_judge.h"

#include <string.h>

#include "lib/base/config.h"

int doctor_rising(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x < y ? -1 : x > y;
}

uint64_t doctor_percentile(const uint64_t *rising, unsigned count, unsigned permille)
{
	if (count == 0)
		return 0;
	uint64_t rank = ((uint64_t)count * permille + 999) / 1000; /* 1 is the first */
	return rising[rank ? rank - 1 : 0];
}

int doctor_bisect_next(const struct doctor_bisect *b)
{
	return b->fails - b->passes > 1 ? b->passes + (b->fails - b->passes) / 2 : 0;
}

int doctor_mtu_of_slots(unsigned payload_bytes)
{
	static const int usual[] = {1500, 9000};

	for (unsigned i = 0; i < sizeof usual / sizeof usual[0]; i++)
		if (fan_config_payload_bytes(usual[i], 2) == payload_bytes)
			return usual[i];
	int mtu = 576;
	while (mtu < 9000 && fan_config_payload_bytes(mtu, 2) < payload_bytes)
		mtu++;
	return mtu;
}

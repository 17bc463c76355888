/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "cmd/doctor/doctor_judge.h"
#include "lib/base/config.h"

TEST(doctor__percentiles)
{
	uint64_t v[200];
	for (unsigned i = 0; i < 200; i++)
		v[i] = i + 1;
	assert_int_equal(doctor_percentile(v, 0, 500), 0);
	assert_int_equal(doctor_percentile(v, 1, 990), 1);
	assert_int_equal(doctor_percentile(v, 200, 0), 1);
	assert_int_equal(doctor_percentile(v, 200, 500), 100);
	assert_int_equal(doctor_percentile(v, 200, 990), 198);
	assert_int_equal(doctor_percentile(v, 200, 1000), 200);
	assert_int_equal(doctor_percentile(v, 3, 500), 2);
}

TEST(doctor__bisection_ends_at_the_largest_that_passes)
{
	for (int path = 576; path < 9000; path += 7) {
		struct doctor_bisect b = {576, 9000};
		unsigned tries = 0;
		int size;
		while ((size = doctor_bisect_next(&b)) != 0) {
			assert_true(size > b.passes && size < b.fails);
			assert_true(++tries <= 14);
			*(size <= path ? &b.passes : &b.fails) = size;
		}
		assert_int_equal(b.passes, path);
	}
}

TEST(doctor__mtu_of_slots)
{
	assert_int_equal(doctor_mtu_of_slots(1408), 1500);
	assert_int_equal(doctor_mtu_of_slots(8832), 9000);
	for (int mtu = 576; mtu <= 9000; mtu++) { /* asked for again, it gives the same slots */
		unsigned payload = fan_config_payload_bytes(mtu, 2);
		assert_int_equal(fan_config_payload_bytes(doctor_mtu_of_slots(payload), 2),
				 payload);
	}
}

UNIT_MAIN

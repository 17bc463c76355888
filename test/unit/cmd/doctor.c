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

TEST(doctor__loss)
{
	assert_int_equal(doctor_judge_loss(1000, 1000), DOCTOR_OK);
	assert_int_equal(doctor_judge_loss(1000, 999), DOCTOR_WARN);
	assert_int_equal(doctor_judge_loss(1000, 801), DOCTOR_WARN);
	assert_int_equal(doctor_judge_loss(1000, 800), DOCTOR_FAIL);
	assert_int_equal(doctor_judge_loss(1000, 0), DOCTOR_FAIL);
	assert_int_equal(doctor_judge_loss(0, 0), DOCTOR_FAIL); /* nothing could be sent */
}

TEST(doctor__rtt)
{
	assert_int_equal(doctor_judge_rtt(100000, 300000), DOCTOR_OK);
	assert_int_equal(doctor_judge_rtt(5000000, 20000000), DOCTOR_OK);
	assert_int_equal(doctor_judge_rtt(5000001, 5000001), DOCTOR_WARN);
	assert_int_equal(doctor_judge_rtt(100000, 20000001), DOCTOR_WARN);
	assert_int_equal(doctor_worse(DOCTOR_OK, DOCTOR_FAIL), DOCTOR_FAIL);
	assert_int_equal(doctor_worse(DOCTOR_WARN, DOCTOR_OK), DOCTOR_WARN);
}

TEST(doctor__quota)
{
	assert_int_equal(doctor_quota_millicores("max 100000\n"), 0);
	assert_int_equal(doctor_quota_millicores("150000 100000\n"), 1500);
	assert_int_equal(doctor_quota_millicores("1 100000"), 1); /* a limit all the same */
	assert_int_equal(doctor_quota_millicores("-1 100000"), 0);
	assert_int_equal(doctor_quota_millicores("5 0"), 0);
	assert_int_equal(doctor_quota_millicores(""), 0);
}

TEST(doctor__cgroup_path)
{
	static const char both[] = "12:memory:/m\n4:cpuset:/set\n3:cpu,cpuacct:/one\n0::/two/x";
	char path[8];
	assert_true(doctor_cgroup_path(both, "cpu", path, sizeof path));
	assert_string_equal(path, "/one");
	assert_true(doctor_cgroup_path(both, "cpuacct", path, sizeof path));
	assert_string_equal(path, "/one");
	assert_true(doctor_cgroup_path(both, "", path, sizeof path));
	assert_string_equal(path, "/two/x");
	assert_false(doctor_cgroup_path(both, "", path, 6)); /* does not fit */
	assert_false(doctor_cgroup_path(both, "acct", path, sizeof path));
	assert_false(doctor_cgroup_path("", "cpu", path, sizeof path));
	assert_false(doctor_cgroup_path("what\n1:cpu\n", "cpu", path, sizeof path));
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor_judge.h"

#include <stdio.h>
#include <stdlib.h>
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

enum doctor_status doctor_judge_loss(unsigned sent, unsigned answered)
{
	if (answered >= sent)
		return sent ? DOCTOR_OK : DOCTOR_FAIL;
	uint64_t lost = sent - answered;
	return lost * 1000 >= (uint64_t)sent * DOCTOR_LOSS_FAIL_PERMILLE ? DOCTOR_FAIL
									 : DOCTOR_WARN;
}

enum doctor_status doctor_judge_rtt(uint64_t p50_ns, uint64_t p99_ns)
{
	return p50_ns > DOCTOR_RTT_WARN_NS || p99_ns > DOCTOR_TAIL_WARN_NS ? DOCTOR_WARN
									   : DOCTOR_OK;
}

enum doctor_status doctor_worse(enum doctor_status a, enum doctor_status b)
{
	return a > b ? a : b;
}

unsigned doctor_quota_millicores(const char *cpu_max)
{
	long long quota, period;

	if (sscanf(cpu_max, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0 ||
	    quota > INT32_MAX || period > INT32_MAX)
		return 0;
	long long milli = quota * 1000 / period;
	return milli > 0 ? (unsigned)milli : 1;
}

/* Is `word` one of the comma-separated words of `list` up to `end`? */
static bool lists(const char *list, const char *end, const char *word)
{
	size_t bytes = strlen(word);

	if (bytes == 0)
		return list == end;
	while (list < end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		const char *stop = comma ? comma : end;
		if ((size_t)(stop - list) == bytes && memcmp(list, word, bytes) == 0)
			return true;
		list = stop + 1;
	}
	return false;
}

bool doctor_cgroup_path(const char *text, const char *controller, char *path, size_t bytes)
{
	while (*text) { /* "4:cpu,cpuacct:/jobs/7" or "0::/jobs/7" */
		const char *line = text, *end = strchr(text, '\n');
		if (!end)
			end = text + strlen(text);
		text = *end ? end + 1 : end;
		const char *first = memchr(line, ':', (size_t)(end - line));
		const char *second =
			first ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
		if (!second || !lists(first + 1, second, controller))
			continue;
		size_t n = (size_t)(end - second - 1);
		if (n >= bytes)
			return false;
		memcpy(path, second + 1, n);
		path[n] = '\0';
		return true;
	}
	return false;
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "series.h"

#include <string.h>

void fan_series_init(struct fan_series *s, uint64_t start_ns, uint64_t interval_ns)
{
	memset(s, 0, sizeof *s);
	s->start_ns = start_ns;
	s->interval_ns = interval_ns ? interval_ns : 1;
	s->next_ns = start_ns + s->interval_ns;
}

static void halve(struct fan_series *s)
{
	for (uint32_t i = 0; i < FAN_SERIES_MAX / 2; i++) {
		for (unsigned f = 0; f < FAN_SERIES_FIGURES; f++)
			s->sum[i][f] = s->sum[2 * i][f] + s->sum[2 * i + 1][f];
		memcpy(s->last[i], s->last[2 * i + 1], sizeof s->last[i]);
		s->weight[i] = s->weight[2 * i] + s->weight[2 * i + 1];
	}
	s->count = FAN_SERIES_MAX / 2;
	s->interval_ns *= 2;
}

void fan_series_add(struct fan_series *s, const uint64_t *figure)
{
	if (s->count == FAN_SERIES_MAX)
		halve(s);
	memcpy(s->sum[s->count], figure, sizeof s->sum[0]);
	memcpy(s->last[s->count], figure, sizeof s->last[0]);
	s->weight[s->count++] = 1;
	s->next_ns = s->start_ns + (s->count + UINT64_C(1)) * s->interval_ns;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include "core/wire/wire.h"

#define FLIPS_MAX 3

bool fan_fault_is_covered(const uint8_t *head)
{
	return head[1] > FAN_TYPE_RESULT || fan_get16(head + 2) & FAN_F_SUMMED;
}

bool fan_fault_any(const struct fan_sim_fault *f)
{
	return f->loss || f->duplicate || f->reorder || f->corrupt || f->jitter_ns;
}

bool fan_fault_damage(struct fan_rng *r, uint8_t *p, uint16_t *len)
{
	if (*len < FAN_HEAD_BYTES)
		return false;
	switch (fan_rng_below(r, 4)) {
	case 0: *len = (uint16_t)fan_rng_below(r, *len); return true;
	case 1: {
		uint16_t more = (uint16_t)(1 + fan_rng_below(r, FAN_FAULT_LONGER));
		memset(p + *len, 0, more);
		*len = (uint16_t)(*len + more);
		return true;
	}
	case 2: return false;
	default: break;
	}
	size_t bytes = fan_fault_is_covered(p) ? *len : FAN_HEAD_BYTES;
	for (uint64_t n = 1 + fan_rng_below(r, FLIPS_MAX); n; n--) {
		size_t at = fan_rng_below(r, bytes * 8);
		p[at / 8] ^= (uint8_t)(1u << at % 8);
	}
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

#include <stdbool.h>

/* Is it an error that ranks of a job agree on, and of libfanin's (lib/base/fault_text.h)? */
static bool is_moved(int err)
{
	return err <= -32 && err > -64;
}

static bool is_lost(int err)
{
	return err <= -64 && err > -128;
}

const char *fan_err_text(int err)
{
	switch (err) {
#define X(name, value, word, text)                                                                 \
	case value: return text;
		FAN_ERRORS(X)
#undef X
	default:
		if (is_moved(err))
			return "its ranks go on in another job, without one of its switches or "
			       "with it again";
		return is_lost(err) ? "a rank of a host stopped answering" : "unknown error";
	}
}

const char *fan_err_name(int err)
{
	switch (err) {
#define X(name, value, word, text)                                                                 \
	case value: return word;
		FAN_ERRORS(X)
#undef X
	default: return is_moved(err) ? "moved" : is_lost(err) ? "rank_lost" : "unknown";
	}
}

const char *fan_drop_text(unsigned drop)
{
	static const char *const text[FAN_DROP_COUNT] = {
#define X(name, word) [name] = word,
		FAN_DROPS(X)
#undef X
	};
	return drop < FAN_DROP_COUNT ? text[drop] : "unknown";
}

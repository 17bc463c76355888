/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

const char *fan_err_text(int err)
{
	switch (err) {
#define X(name, value, word, text)                                                                 \
	case value: return text;
		FAN_ERRORS(X)
#undef X
	default: return "unknown error";
	}
}

const char *fan_err_name(int err)
{
	switch (err) {
#define X(name, value, word, text)                                                                 \
	case value: return word;
		FAN_ERRORS(X)
#undef X
	default: return "unknown";
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

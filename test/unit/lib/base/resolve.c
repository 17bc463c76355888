/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are not known, or not yet.  One that comes in time: ns-torchrun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/base/err.h"
#include "lib/base/addresses.h"
#include "net/udp.h"

#define NOBODY "no such host:5000" /* no resolver asks anybody for a name with blanks */

static char why[FAN_CONFIG_WHY_BYTES];
static unsigned count;
static char told[256];

static void note(void *arg, const char *text)
{
	(void)arg;
	snprintf(told, sizeof told, "%s", text);
}

static void resolve__address(void **state)
{
	const struct fan_config cfg = {.timeout_ms = 3600000};
	fan_peer p;
	char text[80];
	(void)state;
	assert_int_equal(fan_resolve_all(&p, 1, &count, "10.0.0.7:5000", &cfg, why, sizeof why),
			 FAN_OK);
	assert_string_equal(fan_peer_text(&p, text, sizeof text), "10.0.0.7:5000");
}

/* What can never be a name is not asked for again; an hour would be longer than the test may take.
 */
static void resolve__what_is_no_name(void **state)
{
	static const char *const wrong[] = {"10.0.0.256:5000", "10.0.0.1", "[fd00::g]:1", "a:x"};
	const struct fan_config cfg = {.timeout_ms = 3600000};
	fan_peer p;
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_int_equal(fan_resolve_all(&p, 1, &count, wrong[i], &cfg, why, sizeof why),
				 FAN_E_CONFIG);
}

static void resolve__a_name_is_asked_for_until_the_time_is_over(void **state)
{
	struct fan_config cfg = {.timeout_ms = 3600000, .join_ms = 5000, .waiting = note};
	fan_peer p;
	(void)state;
	assert_int_equal(fan_resolve_all(&p, 1, &count, NOBODY, &cfg, why, sizeof why),
			 FAN_E_CONFIG);
	assert_non_null(strstr(why, "known host name"));
	assert_non_null(strstr(told, "waits for the address of \"" NOBODY "\""));
	assert_non_null(strstr(told, "gives up in "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resolve__address),
		cmocka_unit_test(resolve__what_is_no_name),
		cmocka_unit_test(resolve__a_name_is_asked_for_until_the_time_is_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

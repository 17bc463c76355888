/* SPDX-License-Identifier: Apache-2.0 */
#include "net/estate.h"
#include "unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/shard.h"

#define BYTES 100000

#ifdef __SANITIZE_THREAD__
#define SKIP_WITH_TSAN skip() /* it knows no memory where this is */
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define SKIP_WITH_TSAN skip()
#endif
#endif
#ifndef SKIP_WITH_TSAN
#define SKIP_WITH_TSAN (void)0
#endif

/* What a child does with the estate; its exit code is 0 if all holds. */
static int in_child(const struct fan_estate *e, int fd)
{
	if (fan_estate_map(e, fd))
		return 2; /* the place is taken: fork has copied it */
	if (strcmp((const char *)fan_estate_node(e->at), "left"))
		return 3;
	memcpy((char *)(uintptr_t)fan_estate_node(e->at), "taken", sizeof "taken");
	return fan_estate_map(e, fd) == -EEXIST ? 0 : 4;
}

/* A child of fork() has no copy, so this one can be the other process. */
static void estate__is_at_one_address_in_both(void **state)
{
	(void)state;
	SKIP_WITH_TSAN;
	size_t bytes = BYTES;
	int fd, status;
	struct fan_estate e = {.at = fan_estate_make(&bytes, &fd)};
	assert_non_null(e.at);
	e.bytes = bytes;
	assert_true(bytes >= BYTES + sizeof *e.at);
	char *node = (char *)(uintptr_t)fan_estate_node(e.at);
	node[BYTES - 1] = 1;
	memcpy(node, "left", sizeof "left");
	pid_t pid = fork();
	if (!pid)
		_exit(in_child(&e, fd));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_string_equal(node, "taken");
	fan_estate_free(e.at, bytes);
	close(fd);
}

/* A signal would end the process. */
static void estate__heeds_the_limit_of_files(void **state)
{
	(void)state;
	struct rlimit before, little;
	size_t bytes = BYTES;
	int fd;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	little = before;
	little.rlim_cur = BYTES / 2;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	struct fan_estate_head *at = fan_estate_make(&bytes, &fd);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_null(at);
}

/* A node that is half changed is worse than none. */
static void estate__is_not_taken_from_the_middle_of_work(void **state)
{
	(void)state;
	struct fan_estate_head head = {.at_work = 1};
	struct fan_estate e = {.at = &head, .sockets = 0};
	struct fan_shard *s = NULL;
	assert_int_equal(fan_shard_inherit(&s, &e, NULL, NULL), -EBUSY);
	assert_null(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(estate__is_at_one_address_in_both),
		cmocka_unit_test(estate__heeds_the_limit_of_files),
		cmocka_unit_test(estate__is_not_taken_from_the_middle_of_work),
	};
	return RUN(tests);
}

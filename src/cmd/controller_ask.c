/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "ask.h"
#include "cmd/args.h"
#include "net/clock.h"

#define FIRST_BYTES 65536
#define MOST_BYTES  (256u << 20)
#define PATIENCE_S  30 /* a controller that plans answers afterwards */

static char *read_all(int fd, uint64_t by_ns)
{
	size_t room = FIRST_BYTES, used = 0;
	char *text = malloc(room);
	ssize_t n = 1;

	if (!text)
		return NULL;
	while (n > 0 && used < MOST_BYTES && fan_clock_ns() < by_ns) {
		if (used + 1 == room) {
			char *more = realloc(text, room *= 2);
			if (!more)
				break;
			text = more;
		}
		n = read(fd, text + used, room - used - 1);
		used += n > 0 ? (size_t)n : 0;
	}
	if (n == 0 && used && text[used - 1] == '\n') {
		text[used] = '\0';
		return text;
	}
	if (n == 0 && used)
		errno = ECONNRESET; /* a part of an answer */
	free(text);
	return NULL;
}

char *controller_ask(const char *path, const char *line, char *why)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	const uint64_t by_ns = fan_clock_ns() + PATIENCE_S * 1000 * FAN_MS;
	char *text = NULL;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	errno = strlen(path) < sizeof a.sun_path ? 0 : ENAMETOOLONG;
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	if (fd >= 0 && !errno &&
	    !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) &&
	    !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) &&
	    !connect(fd, (const struct sockaddr *)&a, sizeof a) && dprintf(fd, "%s\n", line) > 0)
		text = read_all(fd, by_ns);
	if (!text)
		snprintf(why, ARGS_WHY_BYTES,
			 "%s: %s; does a controller run there with that --socket?", path,
			 errno ? strerror(errno) : "no answer");
	if (fd >= 0)
		close(fd);
	return text;
}

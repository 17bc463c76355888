/* SPDX-License-Identifier: Apache-2.0 */
#include "link_rate.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "file/file.h"
#include "udp.h"

#define PATH_BYTES 96

int32_t fan_link_rate_parse(const char *text)
{
	char *end;
	if (!text || !*text)
		return 0;
	errno = 0;
	long rate = strtol(text, &end, 10);
	return end == text || *end || errno || rate < 0 || rate > FAN_LINK_MBPS_MAX ? -1
										    : (int32_t)rate;
}

int32_t fan_link_rate_of(const char *folder)
{
	char path[PATH_BYTES], text[32] = "";
	snprintf(path, sizeof path, "%s/device", folder);
	if (access(path, F_OK))
		return 0;
	snprintf(path, sizeof path, "%s/speed", folder);
	char why[2 * PATH_BYTES];
	FILE *f = fan_file_stream(path, FAN_FILE_READ, why, sizeof why);
	if (!f)
		return 0;
	if (!fgets(text, sizeof text, f)) /* EINVAL while the link is down */
		text[0] = '\0';
	fclose(f);
	text[strcspn(text, "\n")] = '\0';
	int32_t rate = fan_link_rate_parse(text);
	return rate > 0 ? rate : 0;
}

static bool is_at(const struct ifaddrs *i, const fan_peer *local)
{
	const fan_peer own = fan_peer_of_interface(i);
	return !(i->ifa_flags & IFF_LOOPBACK) && !memcmp(own.addr, local->addr, sizeof own.addr);
}

/* The interface that has the address by which `at` is reached: of an address of this host it is not
 * the loopback's, which the route would name. */
int32_t fan_link_rate_to(const fan_peer *at)
{
	char folder[PATH_BYTES / 2];
	struct ifaddrs *all;
	fan_peer local = {0};
	int32_t rate = fan_link_rate_parse(secure_getenv("FANIN_LINK_MBPS"));
	if (rate)
		return rate > 0 ? rate : 0;
	fan_udp_interface_to(at, &local);
	if (fan_peer_is_any(&local) || getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i && !rate; i = i->ifa_next)
		if (is_at(i, &local)) {
			snprintf(folder, sizeof folder, "/sys/class/net/%.16s", i->ifa_name);
			rate = fan_link_rate_of(folder);
		}
	freeifaddrs(all);
	return rate;
}

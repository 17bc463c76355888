/* SPDX-License-Identifier: Apache-2.0 */
#include "rails.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "file/file.h"
#include "udp.h"

/* ---- the rate of a link ---- */

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

#define FOLDER_BYTES 40
#define PATH_BYTES   96
#define MAPPED_BITS  96 /* before an IPv4 address */
#define ALL_BITS     128

/* An address that other hosts may reach: none that holds for one link only. */
static bool is_usable(const struct ifaddrs *i, int family)
{
	if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
	    !(i->ifa_flags & IFF_RUNNING) || i->ifa_flags & (IFF_LOOPBACK | IFF_POINTOPOINT))
		return false;
	if (family == AF_INET6)
		return !IN6_IS_ADDR_LINKLOCAL(
			&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr);
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)i->ifa_addr;
	return ntohl(in->sin_addr.s_addr) >> 16 != 0xa9fe; /* 169.254 */
}

static void folder_of(char *folder, const char *name)
{
	snprintf(folder, FOLDER_BYTES, "/sys/class/net/%.15s", name);
}

/* The end of a container's link inside of it, not that of the host, which has a name of its own. */
static bool is_containers(const char *name)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq r = {.ifr_data = (char *)&driver};
	if (!strncmp(name, "veth", 4) || !strncmp(name, "cali", 4))
		return false;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
	const bool is_veth = !ioctl(fd, SIOCETHTOOL, &r) && !strcmp(driver.driver, "veth");
	close(fd);
	return is_veth;
}

static bool is_rail(const struct ifaddrs *i)
{
	char folder[FOLDER_BYTES], path[PATH_BYTES];
	folder_of(folder, i->ifa_name);
	snprintf(path, sizeof path, "%s/device", folder);
	return !access(path, F_OK) || is_containers(i->ifa_name);
}

static int32_t rate_of(const char *name)
{
	char folder[FOLDER_BYTES];
	folder_of(folder, name);
	return fan_link_rate_of(folder);
}

unsigned fan_rails_prefix(const struct ifaddrs *i)
{
	const bool four = i->ifa_addr->sa_family == AF_INET;
	const socklen_t bytes = four ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	unsigned bits = four ? MAPPED_BITS : 0;
	struct sockaddr_storage ss = {0};
	if (!i->ifa_netmask)
		return ALL_BITS;
	memcpy(&ss, i->ifa_netmask, bytes);
	ss.ss_family = i->ifa_addr->sa_family; /* which some leave out */
	const fan_peer mask = fan_peer_from_sockaddr((struct sockaddr *)&ss, bytes);
	const uint8_t *at = (const uint8_t *)mask.addr;
	while (bits < ALL_BITS && at[bits / 8] << bits % 8 & 0x80)
		bits++;
	return bits;
}

/* The interface that has the address of `at`; NULL: none does. */
static const struct ifaddrs *owner(const struct ifaddrs *all, const fan_peer *at)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		const fan_peer own = fan_peer_of_interface(i);
		if (fan_peer_same_host(&own, at))
			return i;
	}
	return NULL;
}

/* An interface may have several addresses: the first one counts. */
static bool was_before(const struct ifaddrs *all, const struct ifaddrs *i, int family)
{
	const struct ifaddrs *same = all;
	while (same != i && (strcmp(same->ifa_name, i->ifa_name) != 0 || !is_usable(same, family)))
		same = same->ifa_next;
	return same != i;
}

unsigned fan_rails_beside(const fan_peer *first, struct fan_rail *rails, unsigned max)
{
	struct ifaddrs *all;
	const int family = fan_peer_family(first);
	unsigned count = 0;
	if (getifaddrs(&all))
		return 0;
	const struct ifaddrs *main = owner(all, first);
	const int32_t least = main ? rate_of(main->ifa_name) / FAN_RAILS_SLOW : 0;
	for (const struct ifaddrs *i = all; main && i && count < max; i = i->ifa_next) {
		if (!is_usable(i, family) || !strcmp(i->ifa_name, main->ifa_name) ||
		    was_before(all, i, family) || !is_rail(i))
			continue;
		const int32_t mbps = rate_of(i->ifa_name);
		if (!mbps || mbps >= least)
			rails[count++] = (struct fan_rail){fan_peer_of_interface(i),
							   fan_rails_prefix(i), mbps};
	}
	freeifaddrs(all);
	return count;
}

bool fan_rails_are_near(const fan_peer *a, const fan_peer *b, unsigned prefix_bits)
{
	const uint8_t *x = (const uint8_t *)a->addr, *y = (const uint8_t *)b->addr;
	const unsigned whole = prefix_bits / 8, rest = prefix_bits % 8;
	if (prefix_bits > ALL_BITS || memcmp(x, y, whole) != 0)
		return false;
	return !rest || !((x[whole] ^ y[whole]) >> (8 - rest));
}

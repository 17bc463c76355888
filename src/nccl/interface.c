/* SPDX-License-Identifier: Apache-2.0 */
/* interface.c - the network interfaces that NCCL is offered as its devices; and lines in NCCL's own
 * log, by the logger that it hands to init.
 *
 * Interfaces that are up and have an address, in the kernel's order: the ones that
 * NCCL_SOCKET_IFNAME names ("eth,ib": by prefix; "=eth0": exactly; "^docker": all others); without
 * it those of InfiniBand ("ib"), else all but the loopback, Docker's and virtual bridges (virbr),
 * else these.  NCCL's own sockets choose so; net/rails.h has the rule of jobs whose hosts sum. They
 * are looked at once in a process, because NCCL keeps a device by its number. */

#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/rails.h"
#include "net/udp.h"
#include "plugin.h"

/* Passes over the interfaces where NCCL_SOCKET_IFNAME is not set, as NCCL's sockets make them: each
 * is taken only if those before have found none. */
static const char *const passes[] = {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"};

#define PASSES (sizeof passes / sizeof *passes)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct fan_nccl_interface interfaces[FAN_NCCL_INTERFACES_MAX]; /* constant once looked at */
static int count;

static bool is_named(const char *names, const char *name)
{
	bool others = *names == '^', exact;
	names += others;
	exact = *names == '=';
	names += exact;
	while (*names) {
		size_t bytes = strcspn(names, ",");
		if (bytes && !strncmp(names, name, bytes) && (!exact || !name[bytes]))
			return !others;
		names += bytes + (names[bytes] == ',');
	}
	return others;
}

static bool is_taken(const struct ifaddrs *i, size_t pass)
{
	const char *names = secure_getenv("NCCL_SOCKET_IFNAME");
	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING))
		return false;
	if (names && *names)
		return !pass && is_named(names, i->ifa_name);
	return is_named(passes[pass], i->ifa_name);
}

/* An address that other hosts may reach: of IPv6's none that holds for one link only. */
static bool is_usable(const struct sockaddr *at)
{
	const char *family = secure_getenv("NCCL_SOCKET_FAMILY");
	if (at->sa_family == AF_INET)
		return !family || strcmp(family, "AF_INET6") != 0;
	return at->sa_family == AF_INET6 && (!family || strcmp(family, "AF_INET") != 0) &&
	       !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr);
}

static struct fan_nccl_interface *find(const char *name)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(interfaces[i].name, name))
			return &interfaces[i];
	return NULL;
}

static void describe(struct fan_nccl_interface *r, const char *name)
{
	char folder[64], path[PATH_MAX];
	int32_t rate = fan_link_rate_parse(secure_getenv("FANIN_LINK_MBPS"));
	snprintf(r->name, sizeof r->name, "%s", name);
	snprintf(folder, sizeof folder, "/sys/class/net/%s", r->name);
	if (rate <= 0)
		rate = fan_link_rate_of(folder);
	r->speed_mbps = rate > 0 ? rate : FAN_NCCL_INTERFACE_MBPS;
	r->guid = if_nametoindex(name);
	snprintf(folder, sizeof folder, "/sys/class/net/%s/device", r->name);
	if (realpath(folder, path) && strlen(path) < sizeof r->pci_path)
		memcpy(r->pci_path, path, strlen(path) + 1);
}

static void add(const struct ifaddrs *i)
{
	struct fan_nccl_interface *r = find(i->ifa_name);
	if (!r) {
		if (count == FAN_NCCL_INTERFACES_MAX)
			return;
		r = &interfaces[count++];
		describe(r, i->ifa_name);
	} else if (i->ifa_addr->sa_family != AF_INET || fan_peer_family(&r->at) == AF_INET) {
		return;
	}
	r->at = fan_peer_of_interface(i);
	r->prefix_bits = fan_rails_prefix(i);
}

static void look(void)
{
	struct ifaddrs *all;
	if (getifaddrs(&all))
		return;
	for (size_t pass = 0; pass < PASSES && !count; pass++)
		for (const struct ifaddrs *i = all; i; i = i->ifa_next)
			if (is_taken(i, pass) && is_usable(i->ifa_addr))
				add(i);
	freeifaddrs(all);
}

int fan_nccl_interfaces(void)
{
	pthread_once(&once, look);
	return count;
}

const struct fan_nccl_interface *fan_nccl_interface(int dev)
{
	return dev >= 0 && dev < fan_nccl_interfaces() ? &interfaces[dev] : NULL;
}

static bool has(const struct fan_nccl_interface *r, const fan_peer *to)
{
	return fan_rails_are_near(&r->at, to, r->prefix_bits);
}

bool fan_nccl_interface_is_beside(const struct fan_nccl_interface *interface, const fan_peer *to)
{
	bool others = false;
	for (int i = 0; i < fan_nccl_interfaces(); i++)
		others |= has(&interfaces[i], to);
	return others && !has(interface, to);
}

/* ---- the log ---- */

static _Atomic(fan_nccl_logger) logger;

static void log_line(int level, const char *format, va_list args)
{
	char line[FAN_NCCL_LINE_BYTES];
	fan_nccl_logger to = atomic_load(&logger);
	if (!to)
		return;
	vsnprintf(line, sizeof line, format, args);
	to(level, FAN_NCCL_ABOUT_INIT | FAN_NCCL_ABOUT_NET, "fanin", 0, "NET/Fanin: %s", line);
}

void fan_nccl_info(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	log_line(FAN_NCCL_LOG_INFO, format, args);
	va_end(args);
}

int fan_nccl_warn(int result, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	log_line(FAN_NCCL_LOG_WARN, format, args);
	va_end(args);
	return result;
}

void fan_nccl_log_to(fan_nccl_logger log)
{
	atomic_store(&logger, log);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - addresses: between sockets, text and the core's fan_peer. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "udp.h"

#define HOST_BYTES 256 /* a host name with its zero; DNS allows 253 */

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

fan_peer fan_peer_from_sockaddr(const struct sockaddr *sa, socklen_t len)
{
	fan_peer p = {{0, 0}, 0, 0};
	uint8_t *b = (uint8_t *)p.addr;
	if (sa->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
		struct sockaddr_in in;
		memcpy(&in, sa, sizeof in);
		memcpy(b, mapped, sizeof mapped);
		memcpy(b + sizeof mapped, &in.sin_addr, 4);
		p.port = ntohs(in.sin_port);
	} else if (sa->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
		struct sockaddr_in6 in6;
		memcpy(&in6, sa, sizeof in6);
		memcpy(b, &in6.sin6_addr, 16);
		p.port = ntohs(in6.sin6_port);
		p.scope = in6.sin6_scope_id;
	}
	return p;
}

fan_peer fan_peer_of_interface(const struct ifaddrs *i)
{
	static const fan_peer none;
	if (!i->ifa_addr)
		return none;
	return fan_peer_from_sockaddr(i->ifa_addr, i->ifa_addr->sa_family == AF_INET
							   ? sizeof(struct sockaddr_in)
							   : sizeof(struct sockaddr_in6));
}

int fan_peer_family(const fan_peer *p)
{
	return memcmp(p->addr, mapped, sizeof mapped) == 0 ? AF_INET : AF_INET6;
}

bool fan_peer_is_any(const fan_peer *p)
{
	static const uint8_t zero[16];
	const uint8_t *b = (const uint8_t *)p->addr;
	if (fan_peer_family(p) == AF_INET)
		return memcmp(b + 12, zero, 4) == 0;
	return memcmp(b, zero, 16) == 0;
}

bool fan_peer_is_public(const fan_peer *p)
{
	const uint8_t *b = (const uint8_t *)p->addr, *v4 = b + 12;
	if (fan_peer_family(p) == AF_INET6) /* global unicast, RFC 4291; unique local is not */
		return b[0] >> 5 == 1;
	bool private = v4[0] == 10 || (v4[0] == 172 && v4[1] >> 4 == 1) ||
		       (v4[0] == 192 && v4[1] == 168);		    /* RFC 1918 */
	bool carrier = v4[0] == 100 && v4[1] >> 6 == 1;		    /* RFC 6598 */
	bool link = v4[0] == 127 || (v4[0] == 169 && v4[1] == 254); /* and this host */
	return v4[0] && v4[0] < 224 && !private && !carrier && !link;
}

socklen_t fan_peer_to_mapped(const fan_peer *p, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)p->port),
				   .sin6_scope_id = p->scope};
	memcpy(&in6.sin6_addr, p->addr, 16);
	memcpy(ss, &in6, sizeof in6);
	return sizeof in6;
}

socklen_t fan_peer_to_sockaddr(const fan_peer *p, int family, struct sockaddr_storage *ss)
{
	const uint8_t *b = (const uint8_t *)p->addr;
	if (family != AF_UNSPEC && family != fan_peer_family(p))
		return 0;
	if (fan_peer_family(p) == AF_INET) {
		struct sockaddr_in in = {.sin_family = AF_INET,
					 .sin_port = htons((uint16_t)p->port)};
		memcpy(&in.sin_addr, b + sizeof mapped, 4);
		memcpy(ss, &in, sizeof in);
		return sizeof in;
	}
	return fan_peer_to_mapped(p, ss);
}

/* Split `text` at the colon before the port.  `host` is HOST_BYTES.  Returns the
 * port's text, or NULL with `why` filled in. */
static const char *split(const char *text, char *host, bool *brackets, char *why, size_t bytes)
{
	const char *end, *begin = text;
	*brackets = *text == '[';
	if (*brackets) {
		begin = text + 1;
		end = strchr(begin, ']');
		if (end && end[1] != ':')
			end = NULL;
	} else {
		end = strrchr(text, ':');
		if (end && memchr(text, ':', (size_t)(end - text))) {
			snprintf(why, bytes, "expected brackets around an IPv6 address, got \"%s\"",
				 text);
			return NULL;
		}
	}
	if (!end || end == begin || end - begin >= HOST_BYTES) {
		snprintf(why, bytes, "expected HOST:PORT or [IPV6]:PORT, got \"%s\"", text);
		return NULL;
	}
	memcpy(host, begin, (size_t)(end - begin));
	host[end - begin] = '\0';
	return end + (*brackets ? 2 : 1);
}

static int parse_port(uint32_t *port, const char *text)
{
	uint32_t v = 0;
	unsigned digits = 0;
	for (; text[digits] >= '0' && text[digits] <= '9' && digits < 6; digits++)
		v = v * 10 + (uint32_t)(text[digits] - '0');
	if (!digits || text[digits] || v > 65535)
		return -1;
	*port = v;
	return 0;
}

/* Choose the first IPv4 address of a name, else its first: switches that listen on one family are
 * found by a name that has both. */
static const struct addrinfo *choose(const struct addrinfo *list)
{
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		if (a->ai_family == AF_INET)
			return a;
	return list;
}

int fan_peer_check(const char *text, char *why, size_t bytes)
{
	char host[HOST_BYTES];
	bool brackets;
	uint32_t port;
	const char *number = split(text, host, &brackets, why, bytes);
	if (!number)
		return -1;
	if (!parse_port(&port, number) && port)
		return 0;
	snprintf(why, bytes, "expected a port from 1 to 65535 after the address, got \"%s\"",
		 number);
	return -1;
}

/* No host can have such a name: "10.0.0.256". */
static bool is_number(const char *host)
{
	return host[strspn(host, "0123456789.")] == '\0';
}

/* The first `max` addresses of the family of `first`, each once.  How many. */
static unsigned take_family(fan_peer *p, unsigned max, const struct addrinfo *first, uint32_t port)
{
	unsigned count = 0;
	for (const struct addrinfo *a = first; a && count < max; a = a->ai_next) {
		unsigned same = 0;
		if (a->ai_family != first->ai_family)
			continue;
		p[count] = fan_peer_from_sockaddr(a->ai_addr, a->ai_addrlen);
		p[count].port = port;
		while (!fan_peer_equal(&p[same], &p[count]))
			same++;
		count += same == count;
	}
	return count;
}

/* `numeric`: names are none. */
static int parse(fan_peer *p, unsigned max, unsigned *count, const char *text, bool numeric,
		 char *why, size_t bytes)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *list = NULL;
	char host[HOST_BYTES];
	bool brackets;
	uint32_t port;
	const char *number = split(text, host, &brackets, why, bytes);
	if (!number)
		return -1;
	if (parse_port(&port, number)) {
		snprintf(why, bytes,
			 "expected a port from 0 to 65535 after the address, got \"%s\"", number);
		return -1;
	}
	if (brackets)
		hints.ai_family = AF_INET6;
	if (brackets || numeric)
		hints.ai_flags = AI_NUMERICHOST;
	int e = getaddrinfo(host, NULL, &hints, &list);
	if (e) {
		snprintf(why, bytes,
			 brackets ? "expected an IPv6 address in brackets, got \"%s\" (%s)"
				  : "expected an address or a known host name, got \"%s\" (%s)",
			 host, gai_strerror(e));
		return hints.ai_flags & AI_NUMERICHOST || is_number(host) ? -1 : FAN_PEER_UNKNOWN;
	}
	*count = take_family(p, max, choose(list), port);
	freeaddrinfo(list);
	return 0;
}

int fan_peer_parse(fan_peer *p, const char *text, char *why, size_t bytes)
{
	unsigned one;
	return parse(p, 1, &one, text, false, why, bytes);
}

int fan_peer_parse_all(fan_peer *p, unsigned max, unsigned *count, const char *text, char *why,
		       size_t bytes)
{
	return parse(p, max, count, text, false, why, bytes);
}

bool fan_peer_read(fan_peer *p, const char *text)
{
	char why[HOST_BYTES];
	unsigned one;
	return parse(p, 1, &one, text, true, why, sizeof why) == 0;
}

const char *fan_peer_text(const fan_peer *p, char *text, size_t bytes)
{
	const uint8_t *b = (const uint8_t *)p->addr;
	char host[INET6_ADDRSTRLEN];
	if (fan_peer_family(p) == AF_INET) {
		inet_ntop(AF_INET, b + sizeof mapped, host, sizeof host);
		snprintf(text, bytes, "%s:%u", host, p->port);
	} else {
		char name[IF_NAMESIZE];
		inet_ntop(AF_INET6, b, host, sizeof host);
		bool scoped = p->scope && if_indextoname(p->scope, name);
		snprintf(text, bytes, "[%s%s%s]:%u", host, scoped ? "%" : "", scoped ? name : "",
			 p->port);
	}
	return text;
}

/* The index of the interface that owns the address of `local`; 0: none does. */
static unsigned interface_of(const fan_peer *local)
{
	struct ifaddrs *list = NULL;
	unsigned index = 0;
	if (getifaddrs(&list))
		return 0;
	for (const struct ifaddrs *i = list; i && !index; i = i->ifa_next) {
		fan_peer p = fan_peer_of_interface(i);
		if (fan_peer_same_host(&p, local) && (!local->scope || local->scope == p.scope))
			index = if_nametoindex(i->ifa_name);
	}
	freeifaddrs(list);
	return index;
}

/* A socket whose datagrams go to `to`; -1: there is no route. */
static int connected_to(const fan_peer *to)
{
	struct sockaddr_storage ss;
	fan_peer there = *to;
	int fd = socket(fan_peer_family(to), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (!there.port) /* the kernel connects to no port 0; no packet is sent */
		there.port = 9;
	socklen_t len = fan_peer_to_sockaddr(&there, AF_UNSPEC, &ss);
	if (connect(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	close(fd);
	return -1;
}

int fan_udp_mtu_to(const fan_peer *to)
{
	bool v4 = fan_peer_family(to) == AF_INET;
	int fd = connected_to(to), mtu = 0;
	socklen_t len = sizeof mtu;
	if (fd < 0)
		return 0;
	if (getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &len))
		mtu = 0;
	close(fd);
	return mtu;
}

unsigned fan_udp_interface_to(const fan_peer *to, fan_peer *local)
{
	struct sockaddr_storage ss = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof ss;
	unsigned index = 0;
	int fd = connected_to(to);
	if (fd < 0)
		return 0;
	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0) {
		fan_peer here = fan_peer_from_sockaddr((struct sockaddr *)&ss, len);
		index = interface_of(&here);
		if (local)
			*local = here;
	}
	close(fd);
	return index;
}

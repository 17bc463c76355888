/* SPDX-License-Identifier: Apache-2.0 */
#include "meet.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/comm/meeting.h"
#include "net/clock.h"

#define PREFIX_BYTES  40 /* of FANIN_JOB that go into names of jobs */
#define ADDRESSES_MAX 30 /* of a host; answers have a bit for each, and two more */
#define ANSWERS	      2	 /* words of an answer; that of all has the bits that all ranks have set */

/* Bits of answers, after the bits for addresses; the first word has the bits of near addresses. */
#define SAME_HOST (1u << ADDRESSES_MAX)
#define WILLING	  (1u << (ADDRESSES_MAX + 1)) /* of the first word */

/* An address of a host, as the network has it. */
struct address {
	uint32_t addr, mask;
};

/* The message of rank 0 to all ranks. */
struct offer {
	uint64_t nonce;			  /* makes the job's name unique; 0: there is none */
	int32_t host[FAN_MEETING_RECORD]; /* only the host's id is used */
	int32_t named;			  /* a switch or a controller */
	uint16_t port, count;
	struct address address[ADDRESSES_MAX];
};

static uint16_t own_addresses(struct address *a)
{
	struct ifaddrs *all;
	uint16_t n = 0;
	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i && n < ADDRESSES_MAX; i = i->ifa_next) {
		if (!i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET ||
		    !(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK)
			continue;
		a[n].addr = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr;
		a[n++].mask = ((struct sockaddr_in *)(void *)i->ifa_netmask)->sin_addr.s_addr;
	}
	freeifaddrs(all);
	return n;
}

/* A port that is free now; 0: none is. */
static uint16_t free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) ||
	    getsockname(fd, (struct sockaddr *)&at, &bytes))
		at.sin_port = 0;
	if (fd >= 0)
		close(fd);
	return ntohs(at.sin_port);
}

static bool same_host(const int32_t *a, const int32_t *b)
{
	return !memcmp(a, b, sizeof(struct fan_host_id));
}

static void make(struct offer *o)
{
	memset(o, 0, sizeof *o);
	o->nonce = fan_clock_nonce();
	o->named = fan_meeting_is_named();
	fan_meeting_record(o->host, NULL);
	o->count = own_addresses(o->address);
	o->port = free_port();
}

static bool has_route(uint32_t addr)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	to.sin_addr.s_addr = addr;
	bool ok = fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof to);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* The addresses that this host reaches: `near` in a network of its own, `far` through a router as
 * well.  An address that this host has itself, as bridges of containers do, is not rank 0's. */
static void look(const struct offer *o, uint32_t *near, uint32_t *far)
{
	struct address own[ADDRESSES_MAX];
	unsigned count = own_addresses(own);
	*near = *far = 0;
	for (unsigned i = 0; i < o->count; i++) {
		uint32_t to = o->address[i].addr;
		bool mine = false, beside = false;
		for (unsigned k = 0; k < count; k++) {
			mine |= own[k].addr == to;
			beside |= (own[k].addr & own[k].mask) == (to & own[k].mask);
		}
		*near |= !mine && beside ? 1u << i : 0;
		*far |= !mine && (beside || has_route(to)) ? 1u << i : 0;
	}
}

/* The first address that all ranks reach. */
static bool choose(struct fan_mpi_meet *meet, const struct offer *o, uint32_t near, uint32_t far)
{
	struct in_addr at = {.s_addr = htonl(INADDR_LOOPBACK)};
	uint32_t common = near & (SAME_HOST - 1) ? near : far;
	unsigned i = 0;
	char text[INET_ADDRSTRLEN];
	meet->local = near & SAME_HOST;
	while (i < o->count && !(common & 1u << i))
		i++;
	if (!o->port || (!meet->local && i == o->count))
		return false;
	if (!meet->local)
		at.s_addr = o->address[i].addr;
	inet_ntop(AF_INET, &at, text, sizeof text);
	snprintf(meet->addr, sizeof meet->addr, "%s:%u", text, (unsigned)o->port);
	return true;
}

static void answer_to(const struct offer *o, bool willing, uint32_t answer[ANSWERS])
{
	int32_t host[FAN_MEETING_RECORD];
	fan_meeting_record(host, NULL);
	look(o, &answer[0], &answer[1]);
	if (same_host(host, o->host))
		answer[0] = answer[1] = (2 * SAME_HOST) - 1;
	if (willing && o->nonce && fan_meeting_is_named() == (bool)o->named)
		answer[0] |= WILLING;
}

static bool take(struct fan_mpi_meet *meet, const struct offer *o, const uint32_t all[ANSWERS],
		 char *why, size_t bytes)
{
	const char *prefix = secure_getenv("FANIN_JOB");
	memset(meet, 0, sizeof *meet);
	snprintf(meet->job, sizeof meet->job, "%.*s-%016llx", PREFIX_BYTES,
		 prefix && *prefix ? prefix : "mpi", (unsigned long long)o->nonce);
	snprintf(why, bytes, "not all of its ranks can join a job now");
	if (!(all[0] & WILLING))
		return false;
	snprintf(why, bytes,
		 "no IPv4 address of rank 0 is within reach of all ranks: name a switch "
		 "in FANIN_SWITCH");
	return o->named || choose(meet, o, all[0], all[1]);
}

bool fan_mpi_meet(struct fan_mpi_meet *meet, MPI_Comm comm, int rank, bool willing, char *why,
		  size_t bytes)
{
	assert(rank >= 0);
	struct offer o;
	uint32_t mine[ANSWERS], all[ANSWERS];
	if (!rank)
		make(&o);
	PMPI_Bcast(&o, sizeof o, MPI_BYTE, 0, comm);
	answer_to(&o, willing, mine);
	PMPI_Allreduce(mine, all, ANSWERS, MPI_UINT32_T, MPI_BAND, comm);
	return take(meet, &o, all, why, bytes);
}

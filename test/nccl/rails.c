/* SPDX-License-Identifier: Apache-2.0 */
/* rails.c - several devices, and many communicators. */
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"

#define LINKS	      2
#define MESSAGES      8
#define MESSAGE_BYTES (256u << 10)
#define FLOATS	      (1u << 20)
#define MUCH_BYTES    (1u << 20) /* what a link carries that is used, at least */
#define LITTLE_BYTES  (1u << 18) /* and what one does that is not, at most */
#define SPEED_MBPS    10000	 /* of a veth */
#define MANY_MAX      100

/* A setting of both ranks. */
struct rails {
	const char *plugin, *names; /* names: NCCL_SOCKET_IFNAME; NULL: not set */
	const char *second;	    /* name of the second link; NULL: eth1 */
	bool down;		    /* it is */
	int devices;
	const char *device[LINKS]; /* their names */
};

/* ---- a network of two ranks ---- */

static bool run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool run(const char *format, ...)
{
	char line[256];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	return !system(line);
}

static const char *link_name(const struct rails *o, int i)
{
	return !i ? "eth0" : o->second ? o->second : "eth1";
}

static bool is_running(const char *name)
{
	struct ifreq r = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
	bool yes = !ioctl(fd, SIOCGIFFLAGS, &r) && (r.ifr_flags & IFF_RUNNING);
	close(fd);
	return yes;
}

/* 10.78.0.0/24 over the first link and 10.79.0.0/24 over the second, whose ends drop what comes
 * from elsewhere. */
static int build(struct seat *s, const struct rails *o)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		FAIL("unshare");
	if (mount("sysfs", "/sys", "sysfs", 0, NULL)) /* it shows the devices of this namespace */
		FAIL("/sys");
	atomic_store(&s->world->value[s->rank][0], (unsigned long long)getpid());
	if (!seat_barrier(s))
		return -1;
	int other = (int)atomic_load(&s->world->value[1][0]);
	for (int i = 0; !s->rank && i < LINKS; i++)
		if (!run("ip link add %s type veth peer name %s netns %d", link_name(o, i),
			 link_name(o, i), other))
			FAIL("%s", link_name(o, i));
	if (!seat_barrier(s))
		return -1;
	for (int i = 0; i < LINKS; i++) {
		const char *name = link_name(o, i);
		if (!run("ip addr add 10.%d.0.%d/24 dev %s", 78 + i, s->rank + 1, name) ||
		    !run("echo 1 2>/dev/null >/proc/sys/net/ipv4/conf/%s/rp_filter || true",
			 name) ||
		    (!(i && o->down) && !run("ip link set %s up", name)))
			FAIL("%s", name);
	}
	if (!run("ip link set lo up"))
		FAIL("lo");
	for (int i = 0; i < LINKS - o->down; i++)
		while (!is_running(link_name(o, i))) {
			if (!seat_has_time(s, "a link that is up"))
				return -1;
			usleep(1000);
		}
	return seat_barrier(s) ? 0 : -1;
}

/* Bytes that have left by an interface. */
static uint64_t sent_by(const char *name)
{
	char line[512], is[IF_NAMESIZE];
	unsigned long long sent = 0, found = 0;
	FILE *f = fopen("/proc/thread-self/net/dev", "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, " %15[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %llu", is, &sent) ==
			    2 &&
		    !strcmp(is, name))
			found = sent;
	if (f)
		fclose(f);
	return found;
}

struct counts {
	uint64_t sent[LINKS];
};

static struct counts count(const struct rails *o)
{
	return (struct counts){{sent_by(link_name(o, 0)), sent_by(link_name(o, 1))}};
}

/* Since then the link of one device has carried much, and the other one little. */
static int carried(const struct rails *o, const struct counts *before, const char *much)
{
	struct counts now = count(o);
	for (int i = 0; i < LINKS; i++) {
		uint64_t bytes = now.sent[i] - before->sent[i];
		bool is = !strcmp(link_name(o, i), much);
		if (is ? bytes < MUCH_BYTES : bytes > LITTLE_BYTES)
			FAIL("%s has carried %llu bytes, and %s was used", link_name(o, i),
			     (unsigned long long)bytes, much);
	}
	return 0;
}

/* ---- traffic ---- */

/* Messages from rank 0 by device `from` to rank 1's device `to`. */
static int send_messages(struct seat *s, const struct api *a, int from, int to)
{
	static uint8_t data[MESSAGE_BYTES];
	uint8_t handle[FAN_NCCL_HANDLE_BYTES];
	void *listening = NULL, *link = NULL, *request = NULL, *place[1] = {data};
	size_t room[1] = {sizeof data};
	int box = seat_box(s), tags[1] = {0}, done;
	if (s->rank && api_listen(a, to, handle, &listening))
		FAIL("listen");
	if (s->rank)
		box_put(s->world, box, handle);
	while (!box_get(s->world, box, handle) && seat_has_time(s, "a handle"))
		usleep(200);
	while (!link && seat_has_time(s, "a link")) {
		if (s->rank ? api_accept(a, listening, &link) : api_connect(a, from, handle, &link))
			FAIL("device %d to %d: %s", from, to, last_warning);
		usleep(200);
	}
	for (int i = 0; i < MESSAGES; i++) {
		memset(data, s->rank ? 0 : i + 1, sizeof data);
		for (request = NULL; !request && seat_has_time(s, "a message");)
			if (s->rank ? api_irecv(a, link, 1, place, room, tags, &request)
				    : api_isend(a, link, data, sizeof data, 0, &request))
				FAIL("message %d", i);
		for (done = 0; !done && seat_has_time(s, "a message");)
			if (api_test(a, request, &done, NULL))
				FAIL("message %d: %s", i, last_warning);
		if (data[0] != i + 1 || data[sizeof data - 1] != i + 1)
			FAIL("message %d is wrong", i);
	}
	if (s->rank && (api_close_recv(a, link) || api_close_listen(a, listening)))
		FAIL("close");
	return !s->rank && api_close_send(a, link) ? -1 : 0;
}

/* Sums of `count` of these communicators at a time. */
static int sum(struct seat *s, const struct api *a, void *const *comm, int count, size_t floats)
{
	float *data = malloc(floats * sizeof *data * (size_t)count);
	void *request[MANY_MAX] = {NULL};
	int left = count, done;
	for (size_t i = 0; i < floats * (size_t)count; i++)
		data[i] = (float)(s->rank + 1);
	for (int c = 0; c < count; c++)
		while (!request[c] && seat_has_time(s, "a sum's start"))
			if (coll_allreduce(a, comm[c], data + (size_t)c * floats,
					   data + (size_t)c * floats, floats, FAN_NCCL_FLOAT32,
					   FAN_NCCL_SUM, &request[c]))
				FAIL("sum %d: %s", c, last_warning);
	while (left && seat_has_time(s, "a sum")) {
		for (int c = 0; c < count; c++) {
			if (!request[c])
				continue;
			if (coll_test(a, request[c], &done, NULL))
				FAIL("sum %d: %s", c, last_warning);
			left -= done;
			request[c] = done ? NULL : request[c];
		}
		usleep(100);
	}
	for (size_t i = 0; i < floats * (size_t)count; i++)
		if (data[i] != 3)
			FAIL("element %zu is %f", i, (double)data[i]);
	free(data);
	return 0;
}

static int use(struct seat *s, const struct api *a, const struct rails *o)
{
	void *comm[LINKS];
	for (int d = 0; d < o->devices; d++) {
		struct counts before = count(o);
		if (!seat_barrier(s) || send_messages(s, a, d, d) || !seat_barrier(s) ||
		    (!s->rank && carried(o, &before, o->device[d])))
			return -1;
	}
	/* From one rail to the other: each way is as good, as long as there is one. */
	if (o->devices > 1 && (send_messages(s, a, 0, 1) || send_messages(s, a, 1, 0)))
		return -1;
	for (int d = 0; d < o->devices; d++) {
		struct counts before = count(o);
		if (coll_try(s, a, d, 2, s->rank, &comm[d]) || sum(s, a, &comm[d], 1, FLOATS) ||
		    !seat_barrier(s) || carried(o, &before, o->device[d]))
			FAIL("CollNet by %s: %s", o->device[d], last_warning);
	}
	if (sum(s, a, comm, o->devices, FLOATS) || !seat_barrier(s))
		return -1;
	for (int d = 0; d < o->devices; d++)
		if (coll_close(a, comm[d]))
			FAIL("close");
	return 0;
}

static int rails_life(struct seat *s, void *arg)
{
	const struct rails *o = arg;
	struct fan_nccl_props_v12 p;
	struct api a;
	int devices = 0;
	if (o->names)
		setenv("NCCL_SOCKET_IFNAME", o->names, 1);
	if (build(s, o) || api_load(&a, o->plugin, API_LAST) || api_init(&a, logger) ||
	    api_devices(&a, &devices))
		return 1;
	if (devices != o->devices) {
		fprintf(stderr, "%d devices in place of %d\n", devices, o->devices);
		return 1;
	}
	for (int d = 0; d < devices; d++)
		if (api_properties(&a, d, &p) || strcmp(p.name, o->device[d]) != 0 || p.pci_path ||
		    p.speed != SPEED_MBPS) {
			fprintf(stderr, "device %d is %s, %d Mb/s, at %s\n", d, p.name, p.speed,
				p.pci_path ? p.pci_path : "no card");
			return 1;
		}
	return use(s, &a, o) || api_finalize(&a);
}

int rails_run(const char *plugin)
{
	static const struct rails tries[] = {
		{NULL, NULL, NULL, false, 2, {"eth0", "eth1"}},
		{NULL, NULL, NULL, true, 1, {"eth0", NULL}},
		{NULL, "=eth1", NULL, false, 1, {"eth1", NULL}},
		{NULL, NULL, "ib0", false, 1, {"ib0", NULL}},
		{NULL, NULL, "virbr0", false, 1, {"eth0", NULL}},
		{NULL, "virbr,eth", "virbr0", false, 2, {"eth0", "virbr0"}},
	};
	int failed = 0;
	if (system("ip -V >/dev/null 2>&1 && unshare -nm mount -t sysfs none /sys 2>/dev/null")) {
		puts("SKIPPED: two rails need root, ip and namespaces");
		return 0;
	}
	for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
		struct rails o = tries[i];
		struct world *w = world_new(2);
		o.plugin = plugin;
		failed += world_run(w, NULL, -1, rails_life, &o) != 0;
		world_free(w);
	}
	return failed;
}

/* ---- many communicators ---- */

struct many {
	const char *plugin, *cause;
	int count;
};

static int many_life(struct seat *s, void *arg)
{
	const struct many *o = arg;
	static void *comm[MANY_MAX];
	struct api a;
	int count = 0, result = 0;
	if (api_load(&a, o->plugin, API_LAST) || api_init(&a, logger))
		return 1;
	while (count < MANY_MAX - 1) {
		result = coll_try(s, &a, 0, 2, s->rank, &comm[count]);
		if (result)
			break;
		count++;
	}
	if (!s->rank)
		printf("%d communicators; then: %s\n", count, last_warning);
	fflush(stdout);
	if (result != FAN_NCCL_SYSTEM_ERROR || !strstr(last_warning, o->cause) || comm[count] ||
	    (o->count && count != o->count) || !count) {
		fprintf(stderr, "%d communicators, result %d: %s\n", count, result, last_warning);
		return 1;
	}
	if (sum(s, &a, comm, count, 1000) || !seat_barrier(s) || coll_close(&a, comm[0]) ||
	    !seat_barrier(s))
		return 1;
	if (coll_try(s, &a, 0, 2, s->rank, &comm[0]) || sum(s, &a, comm, count, 1000) ||
	    !seat_barrier(s)) {
		fprintf(stderr, "one more: %s\n", last_warning);
		return 1;
	}
	for (int i = 0; i < count; i++)
		if (coll_close(&a, comm[i]))
			return 1;
	return api_finalize(&a);
}

int many_run(const char *plugin, const char *const *names, int count, const char *cause)
{
	struct many o = {plugin, cause, count};
	struct world *w = world_new(2);
	int failed = world_run(w, names, -1, many_life, &o);
	world_free(w);
	return failed;
}

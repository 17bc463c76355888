/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_local.c - the resources that this machine gives a worker. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "file/file.h"
#include "info.h"
#include "lib/host/attach.h"
#include "lib/link/connection.h"
#include "net/clock.h"

#define FILE_BYTES	   4096
#define PATH_BYTES	   512
#define CGROUP_LEVELS	   32	/* nested groups that are read */
#define MILLICORES_A_RANK  2000 /* for training, and for the thread that sends and receives */
#define CLOCK_CALLS	   10000
#define CLOCK_COST_WARN_NS 500	  /* of one reading; the vDSO takes 20 to 50 */
#define CLOCK_STEP_WARN_NS 100000 /* the timer's floor is 1 ms */
#define LOOP_DATAGRAMS	   16
#define LOOP_WAIT_NS	   (200 * FAN_MS)

/* Read the first bytes of a file as text; false: it cannot be read. */
static bool read_text(const char *path, char *text, size_t bytes)
{
	char why[256];
	FILE *f = fan_file_stream(path, FAN_FILE_READ, why, sizeof why);

	if (!f)
		return false;
	size_t n = fread(text, 1, bytes - 1, f);
	text[n] = '\0';
	fclose(f);
	return n > 0;
}

/* Read its first line. */
static bool read_line(const char *path, char *text, size_t bytes)
{
	if (!read_text(path, text, bytes))
		return false;
	text[strcspn(text, "\n")] = '\0';
	return true;
}

/* The quota of one group, whose folder is `dir`; 0: none.  Stores its file in `file`. */
static unsigned quota_of(const char *dir, bool v1, char *file, size_t bytes)
{
	char text[64], period[64], path[2 * PATH_BYTES], both[2 * sizeof text];

	snprintf(file, bytes, "%s/%s", dir, v1 ? "cpu.cfs_quota_us" : "cpu.max");
	if (!read_line(file, text, sizeof text))
		return 0;
	if (!v1)
		return doctor_quota_millicores(text);
	snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
	if (!read_line(path, period, sizeof period))
		return 0;
	snprintf(both, sizeof both, "%s %s", text, period);
	return doctor_quota_millicores(both);
}

/* The least quota of the group `path` below `mount` and of its ancestors. */
static unsigned least_quota(const char *mount, char *path, bool v1, char *where, size_t bytes)
{
	unsigned least = 0;

	for (unsigned i = 0; i < CGROUP_LEVELS; i++) {
		char dir[PATH_BYTES + 64], file[2 * PATH_BYTES];
		snprintf(dir, sizeof dir, "%s%s", mount, path);
		unsigned now = quota_of(dir, v1, file, sizeof file);
		if (now && (!least || now < least)) {
			least = now;
			snprintf(where, bytes, "%s", file);
		}
		char *slash = strrchr(path, '/');
		if (!slash)
			break;
		*slash = '\0'; /* its parent; the mount itself is the last */
	}
	return least;
}

/* What the control groups allow, in thousandths of a core; 0: no limit. */
static unsigned quota(char *where, size_t bytes)
{
	char text[FILE_BYTES], path[PATH_BYTES];

	if (!read_text("/proc/self/cgroup", text, sizeof text))
		return 0;
	if (doctor_cgroup_path(text, "cpu", path, sizeof path))
		return least_quota("/sys/fs/cgroup/cpu", path, true, where, bytes);
	if (doctor_cgroup_path(text, "", path, sizeof path))
		return least_quota("/sys/fs/cgroup", path, false, where, bytes);
	return 0;
}

/* How many ranks a launcher starts on this machine. */
static unsigned ranks_here(void)
{
	static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"};

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *text = getenv(names[i]);
		int n = text ? atoi(text) : 0;
		if (n > 0 && n <= FAN_RANKS_MAX)
			return (unsigned)n;
	}
	return 1;
}

void doctor_check_cores(struct doctor *d)
{
	cpu_set_t set;
	char where[2 * PATH_BYTES] = "", limit[64] = "no quota";
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned ranks = ranks_here(), wanted = ranks * MILLICORES_A_RANK;
	int allowed = sched_getaffinity(0, sizeof set, &set) ? (int)online : CPU_COUNT(&set);
	unsigned milli = quota(where, sizeof where);
	unsigned have = (unsigned)allowed * 1000;

	if (milli)
		snprintf(limit, sizeof limit, "a quota of %u.%u", milli / 1000, milli / 100 % 10);
	if (milli && milli < have)
		have = milli;
	struct doctor_finding *f = doctor_find(
		d, "cores", have >= wanted ? DOCTOR_OK : DOCTOR_WARN,
		"%ld online, %d allowed, %s; %u rank%s here want%s %u", online, allowed, limit,
		ranks, ranks == 1 ? "" : "s", ranks == 1 ? "s" : "", wanted / 1000);
	doctor_value(f, "online", json_integer(online));
	doctor_value(f, "allowed", json_integer(allowed));
	doctor_value(f, "quota_millicores", milli ? json_integer(milli) : json_null());
	doctor_value(f, "wanted_millicores", json_integer(wanted));
	if (have >= wanted)
		return;
	if (milli && milli < wanted)
		doctor_advise(f,
			      "as root: echo %s > %s; for a systemd unit: systemctl set-property "
			      "UNIT CPUQuota=%u%%; for a container: docker run --cpus %u ...",
			      strstr(where, "cfs_quota") ? "-1" : "max", where, wanted / 10,
			      wanted / 1000);
	if (allowed < online && (unsigned)allowed * 1000 < wanted)
		doctor_advise(f,
			      "bind the job to more cores: taskset -c 0-%ld COMMAND, or in "
			      "Slurm --cpus-per-task=%u",
			      online - 1, wanted / 1000 / ranks);
	if (online * 1000 < (long)wanted)
		doctor_advise(f, "run fewer ranks here (torchrun --nproc-per-node), or fewer "
				 "compute threads: export OMP_NUM_THREADS=1");
}

/* Nanoseconds that a reading of the clock takes, and the smallest step seen. */
static void time_clock(uint64_t *cost_ns, uint64_t *step_ns)
{
	uint64_t begin = fan_clock_ns(), last = begin, now = begin;

	*step_ns = UINT64_MAX;
	for (unsigned i = 0; i < CLOCK_CALLS; i++) {
		now = fan_clock_ns();
		if (now != last && now - last < *step_ns)
			*step_ns = now - last;
		last = now;
	}
	*cost_ns = (now - begin) / CLOCK_CALLS;
}

void doctor_check_clock(struct doctor *d)
{
	static const char dir[] = "/sys/devices/system/clocksource/clocksource0";
	char path[PATH_BYTES], source[64] = "unknown", all[128] = "";
	struct timespec res = {0, 0};
	uint64_t cost_ns, step_ns;

	snprintf(path, sizeof path, "%s/current_clocksource", dir);
	read_line(path, source, sizeof source);
	snprintf(path, sizeof path, "%s/available_clocksource", dir);
	read_line(path, all, sizeof all);
	clock_getres(CLOCK_MONOTONIC, &res);
	time_clock(&cost_ns, &step_ns);
	bool coarse = step_ns > CLOCK_STEP_WARN_NS, slow = cost_ns > CLOCK_COST_WARN_NS;
	struct doctor_finding *f = doctor_find(d, "clock", coarse || slow ? DOCTOR_WARN : DOCTOR_OK,
					       "source %s, resolution %ld ns, %llu ns per reading",
					       source, res.tv_nsec, (unsigned long long)cost_ns);
	doctor_value(f, "source", json_string(source));
	doctor_value(f, "resolution_ns", json_integer(res.tv_nsec));
	doctor_value(f, "reading_ns", json_integer((json_int_t)cost_ns));
	if (!coarse && !slow)
		return;
	const char *better = strstr(all, "tsc")		? "tsc"
			     : strstr(all, "kvm-clock") ? "kvm-clock"
							: NULL;
	if (better && strcmp(source, better) != 0)
		doctor_advise(f, "as root: echo %s > %s/current_clocksource", better, dir);
	else
		doctor_advise(
			f,
			"the kernel offers \"%s\" only; for the reason: dmesg | grep -i -e tsc -e "
			"clocksource",
			all);
}

long doctor_sysctl(const char *name)
{
	char path[PATH_BYTES], text[64];

	snprintf(path, sizeof path, "/proc/sys/net/%s", name);
	return read_line(path, text, sizeof text) ? atol(text) : -1;
}

void doctor_check_buffers(struct doctor *d)
{
	const int want = FAN_CONNECTION_BUFFER_BYTES;
	struct fan_udp u;
	int e = info_try_socket(&u);
	if (e) {
		doctor_find(d, "buffers", DOCTOR_FAIL, "no UDP socket: %s", strerror(-e));
		return;
	}
	long rmem = doctor_sysctl("core/rmem_max"), wmem = doctor_sysctl("core/wmem_max");
	bool enough = u.rcvbuf >= want && u.sndbuf >= want;
	bool forced = enough && ((rmem >= 0 && rmem < want) || (wmem >= 0 && wmem < want));
	struct doctor_finding *f = doctor_find(
		d, "buffers", enough ? DOCTOR_OK : DOCTOR_WARN,
		"a socket gets %d KiB to receive and %d KiB to send, of %d KiB asked for%s",
		u.rcvbuf / 1024, u.sndbuf / 1024, want / 1024,
		forced ? ", by this user's privilege; other users get less" : "");
	doctor_value(f, "receive_bytes", json_integer(u.rcvbuf));
	doctor_value(f, "send_bytes", json_integer(u.sndbuf));
	doctor_value(f, "wanted_bytes", json_integer(want));
	doctor_value(f, "rmem_max", json_integer(rmem));
	doctor_value(f, "wmem_max", json_integer(wmem));
	if (enough && !forced)
		return;
	doctor_advise(f, "as root: sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", want,
		      want);
	doctor_advise(f,
		      "to keep it after a reboot: printf "
		      "'net.core.rmem_max=%d\\nnet.core.wmem_max=%d\\n' > "
		      "/etc/sysctl.d/60-fanin.conf",
		      want, want);
}

/* Send a batch through two sockets of this machine.  Returns how many datagrams arrived; stores the
 * number of receives. */
static unsigned loop(struct fan_udp *from, struct fan_udp *to, unsigned *receives)
{
	static uint8_t buffer[FAN_UDP_RECV_BYTES], body[FAN_PAYLOAD_1500];
	struct fan_out_item item[LOOP_DATAGRAMS];
	struct fan_out out;
	struct fan_udp_batch b;
	unsigned came = 0;
	uint64_t end_ns = fan_clock_ns() + LOOP_WAIT_NS;

	fan_out_init(&out, item, LOOP_DATAGRAMS, NULL, 0);
	for (unsigned i = 0; i < LOOP_DATAGRAMS; i++) {
		struct fan_frag h = {.type = FAN_TYPE_QUERY, .topic = FAN_TOPIC_ECHO, .nonce = i};
		fan_ctl_finish(fan_out_add(&out, FAN_TO_PEER), &h, body, sizeof body);
	}
	fan_udp_send(from, &out, true);
	*receives = 0;
	while (came < LOOP_DATAGRAMS && fan_clock_ns() < end_ns) {
		struct pollfd p = {to->fd, POLLIN, 0};
		poll(&p, 1, fan_clock_timeout_ms(end_ns, -1));
		if (fan_udp_recv(to, buffer, &b) != 1)
			continue;
		++*receives;
		struct fan_frag f;
		for (size_t at = 0; at < b.bytes; at += fan_udp_datagram_bytes(&b, at))
			came += fan_wire_get(&f, buffer + at, fan_udp_datagram_bytes(&b, at)) < 0;
	}
	return came;
}

/* Add the finding about a batch of which `came` arrived. */
static void judge_loop(struct doctor *d, const struct fan_udp *from, const struct fan_udp *to,
		       unsigned came, unsigned receives)
{
	struct utsname u;
	bool segment = from->segment && from->sends == 1;
	bool gro = to->gro && receives < LOOP_DATAGRAMS;
	bool good = segment && gro && came == LOOP_DATAGRAMS;

	uname(&u);
	struct doctor_finding *f = doctor_find(
		d, "offload", good ? DOCTOR_OK : DOCTOR_WARN,
		"UDP_SEGMENT %s, UDP_GRO %s: %d datagrams over lo in %llu send%s and %u "
		"receive%s%s",
		segment ? "works" : "does not work", gro ? "works" : "does not work",
		LOOP_DATAGRAMS, (unsigned long long)from->sends, from->sends == 1 ? "" : "s",
		receives, receives == 1 ? "" : "s", came < LOOP_DATAGRAMS ? ", some lost" : "");
	doctor_value(f, "segment", json_boolean(segment));
	doctor_value(f, "gro", json_boolean(gro));
	doctor_value(f, "kernel", json_string(u.release));
	if (!segment || !gro)
		doctor_advise(f,
			      "this kernel is %s; UDP_SEGMENT needs Linux 4.18, UDP_GRO 5.0; plain "
			      "datagrams work, but several times slower",
			      u.release);
	if (came < LOOP_DATAGRAMS)
		doctor_advise(
			f,
			"only %u of %d arrived: ip link set lo up; then look for a filter: nft "
			"list ruleset",
			came, LOOP_DATAGRAMS);
}

void doctor_check_offload(struct doctor *d)
{
	struct fan_udp_options o = {.buffer_bytes = 1 << 20};
	struct fan_udp from, to;
	char why[ARGS_WHY_BYTES];
	unsigned receives;

	fan_peer_parse(&o.bind, "127.0.0.1:0", why, sizeof why);
	int e = fan_udp_open(&to, &o);
	if (!e) {
		o.bind = (fan_peer){{0, 0}, 0, 0};
		o.connect = fan_udp_local(&to);
		e = fan_udp_open(&from, &o);
		if (e)
			fan_udp_close(&to);
	}
	if (e) {
		struct doctor_finding *f =
			doctor_find(d, "offload", DOCTOR_WARN,
				    "not known: no UDP socket on 127.0.0.1: %s", strerror(-e));
		doctor_advise(f, "as root: ip link set lo up");
		return;
	}
	unsigned came = loop(&from, &to, &receives);
	judge_loop(d, &from, &to, came, receives);
	fan_udp_close(&from);
	fan_udp_close(&to);
}

/* Can two ranks of this machine share memory? */
void doctor_check_memory(struct doctor *d)
{
	char why[DOCTOR_TEXT_BYTES / 2];
	const bool can = fan_host_can_attach(2, why, sizeof why);

	if (can) {
		doctor_find(d, "memory", DOCTOR_OK, "ranks of this machine can share it");
		return;
	}
	struct doctor_finding *f =
		doctor_find(d, "memory", DOCTOR_WARN,
			    "ranks of this machine cannot share it, and sum by sockets: %s", why);
	doctor_advise(f, "look at `ulimit -f`, and at what a container's filter refuses: "
			 "memfd_create, sockets of AF_UNIX");
}

/* The library that other programs, such as Python, load. */
void doctor_check_library(struct doctor *d)
{
	static struct info_library l;

	info_find_library(&l);
	bool found = *l.version, same = strcmp(l.version, FAN_BUILD_VERSION) == 0;
	if (!found) {
		struct doctor_finding *f = doctor_find(
			d, "library", l.named ? DOCTOR_FAIL : DOCTOR_OK,
			"program %s, protocol %d; %s", FAN_BUILD_VERSION, FAN_WIRE_VERSION,
			l.named ? l.why
				: "no libfanin.so.0 on the loader's path; only programs linked "
				  "with it need it");
		if (l.named)
			doctor_advise(f, "set FANIN_LIBRARY to libfanin.so.0, or unset it");
		return;
	}
	struct doctor_finding *f = doctor_find(d, "library", same ? DOCTOR_OK : DOCTOR_WARN,
					       "program %s, protocol %d; %s %s", FAN_BUILD_VERSION,
					       FAN_WIRE_VERSION, l.path, l.version);
	doctor_value(f, "program", json_string(FAN_BUILD_VERSION));
	doctor_value(f, "library", json_string(l.version));
	if (!same)
		doctor_advise(f, "install both in one version; `fanin info` and `python3 -m "
				 "fanin` say which files they are");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks to which the system refuses something: a call, descriptors, memory, files, a disk.
 *
 *     lib_comm_refused         the cases of ./check
 *     lib_comm_refused all     each call with each error, to rank 0, to the others, to all
 *     lib_comm_refused NAME    those that have it in their names
 *
 * Every call ends in time, with the right sum or an error that has a sentence, and never by a
 * signal.  What fanin can do without is refused to no effect.  Where a case ends with an error it
 * may be any.  futex is left out, without which the C library ends a program. */
#include <errno.h>
#include <fanin.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS	   4 /* on two hosts; 2 on one */
#define HOST_RANKS 2
#define TEXT_BYTES 512
#define AT_ONCE	   4
#define WORKS_MS   "60000" /* never reached unless something hangs */
#define FAILS_MS   "3000"
#define HANG_S	   200 /* many times what a case takes on a machine with other work */
#define ELEMS	   100000
#define ANY	   (-1) /* argument of a call */
#define MIB	   (1ul << 20)

enum kind { NOTHING, CALL, LIMIT, FULL_ERROR, FULL_SHM, TINY_SHM };

/* What is refused, and the effect that it may have. */
struct refusal {
	const char *name;
	long which; /* call, or limit */
	long value; /* first argument, or ANY; or the limit */
	enum kind kind;
	bool works; /* fanin does without */
	bool brief; /* of ./check */
};

/* clang-format off */
#define CALL(call, works, brief) {#call, SYS_##call, ANY, CALL, works, brief}
/* clang-format on */

static const struct refusal refusals[] = {
	{"nothing", 0, 0, NOTHING, true, true},
	CALL(memfd_create, true, true),
	CALL(ftruncate, true, false),
	{"socket(AF_UNIX)", SYS_socket, AF_UNIX, CALL, true, true},
	{"socket(AF_NETLINK)", SYS_socket, AF_NETLINK, CALL, true, false},
	{"socket(AF_INET)", SYS_socket, AF_INET, CALL, false, true},
	CALL(socketpair, true, false),
	CALL(listen, true, false),
	CALL(accept4, true, true),
	CALL(bind, false, false),
	CALL(connect, false, true),
	CALL(sendmmsg, true, true),
	CALL(sendmsg, true, true),
	CALL(sendto, false, false),
	CALL(recvmsg, false, true),
	CALL(recvfrom, false, false),
	CALL(setsockopt, false, true),
	CALL(getsockopt, false, false),
	CALL(getsockname, false, false),
	CALL(getpeername, true, false),
	CALL(epoll_create1, false, false),
	CALL(epoll_ctl, false, false),
	CALL(eventfd2, false, false),
	CALL(ppoll, true, false),
	CALL(fcntl, true, true),
	CALL(mmap, false, false),
	CALL(munmap, false, false),
	CALL(mprotect, false, false),
	CALL(madvise, true, false),
	CALL(clone, false, false),
#ifdef SYS_clone3
	CALL(clone3, false, true),
#endif
#ifdef SYS_epoll_wait /* not on aarch64 */
	CALL(epoll_wait, false, true),
	CALL(poll, false, true),
	CALL(vfork, true, false),
	CALL(fork, true, false),
	CALL(accept, true, false),
	CALL(access, true, false),
#endif
	CALL(execve, true, true),
	CALL(wait4, false, false),
	CALL(kill, true, false),
	CALL(getrandom, true, true),
	CALL(openat, true, false),
	CALL(read, false, true),
	CALL(write, false, true),
	CALL(close, false, false),
	CALL(newfstatat, false, false),
	CALL(clock_nanosleep, true, false),
	CALL(sched_yield, true, false),
	CALL(getrusage, true, false),
	CALL(prlimit64, true, false),
	CALL(prctl, true, false),
	CALL(sched_getaffinity, true, false),
	CALL(getdents64, true, false),
	CALL(rt_sigprocmask, true, false),
	CALL(ioctl, true, false),
	CALL(uname, true, false),
	{"4 descriptors", RLIMIT_NOFILE, 4, LIMIT, false, true},
	{"5 descriptors", RLIMIT_NOFILE, 5, LIMIT, false, false},
	{"6 descriptors", RLIMIT_NOFILE, 6, LIMIT, false, false},
	{"7 descriptors", RLIMIT_NOFILE, 7, LIMIT, false, false},
	{"8 descriptors", RLIMIT_NOFILE, 8, LIMIT, false, true},
	{"10 descriptors", RLIMIT_NOFILE, 10, LIMIT, false, false},
	{"12 descriptors", RLIMIT_NOFILE, 12, LIMIT, false, false},
	{"14 descriptors", RLIMIT_NOFILE, 14, LIMIT, false, false},
	{"16 descriptors", RLIMIT_NOFILE, 16, LIMIT, false, true},
	{"20 descriptors", RLIMIT_NOFILE, 20, LIMIT, false, false},
	{"24 descriptors", RLIMIT_NOFILE, 24, LIMIT, false, false},
	{"32 descriptors", RLIMIT_NOFILE, 32, LIMIT, false, false},
	{"64 descriptors", RLIMIT_NOFILE, 64, LIMIT, true, true},
	{"files of 0 bytes", RLIMIT_FSIZE, 0, LIMIT, true, true},
	{"files of 1 MiB", RLIMIT_FSIZE, MIB, LIMIT, true, false},
	{"files of 12 MiB", RLIMIT_FSIZE, 12 * MIB, LIMIT, true, false},
	{"files of 100 MiB", RLIMIT_FSIZE, 100 * MIB, LIMIT, true, false},
	{"no more memory", RLIMIT_AS, 0, LIMIT, false, true},
	{"2 MiB more memory", RLIMIT_AS, 2 * MIB, LIMIT, false, false},
	{"8 MiB more memory", RLIMIT_AS, 8 * MIB, LIMIT, false, false},
	{"16 MiB more memory", RLIMIT_AS, 16 * MIB, LIMIT, false, true},
	{"32 MiB more memory", RLIMIT_AS, 32 * MIB, LIMIT, false, false},
	{"64 MiB more memory", RLIMIT_AS, 64 * MIB, LIMIT, false, false},
	{"256 MiB more memory", RLIMIT_AS, 256 * MIB, LIMIT, false, false},
	{"standard error", 0, 0, FULL_ERROR, true, true},
	{"/dev/shm, full", 0, 0, FULL_SHM, true, true},
	{"/dev/shm, but a page", 0, 0, TINY_SHM, true, false},
};

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1 /* what they need themselves is not refused */
#elif defined __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

#define REFUSALS (sizeof refusals / sizeof refusals[0])

/* How the ranks are placed. */
enum place { MEMORY, SOCKETS, HOSTS, NAMED, PLACES };

static const char *const place_name[] = {"one host", "one host by sockets", "two hosts",
					 "one host with a named switch"};

/* Shared by the two processes of a case and this one. */
struct shown {
	char why[RANKS][TEXT_BYTES];
	char at[RANKS][TEXT_BYTES];
	int host_ranks[RANKS];
};

struct run {
	const struct refusal *of;
	enum place place;
	int error;
	unsigned whom; /* to whom it is refused; bits: the first rank, the others */
	int ranks;
	pid_t rank[RANKS];
	int status[RANKS];
	unsigned alive;
	struct timespec since;
	struct shown *shown;
};

static char switch_address[80];	     /* of a named switch */
static char network[HOST_RANKS][64]; /* files of the two hosts' network namespaces; "": none */

/* ---- a rank ---- */

static void refuse_call(const struct refusal *r, int error)
{
	const unsigned number = offsetof(struct seccomp_data, nr);
	const unsigned first = offsetof(struct seccomp_data, args[0]);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)r->which, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)r->value, 0, r->value != ANY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof code / sizeof *code, code};
	if (r->value == ANY) /* whatever the argument is */
		code[3] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

static rlim_t memory_now(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%lu", &pages) != 1)
		_exit(77);
	fclose(f);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void limit(const struct refusal *r)
{
	const rlim_t base = r->which == RLIMIT_AS ? memory_now() : 0;
	struct rlimit to;
	volatile char stack[MIB]; /* that cannot grow later, which would be a signal */
	memset((char *)stack, 1, sizeof stack);
	getrlimit((int)r->which, &to);
	to.rlim_cur = base + (rlim_t)r->value;
	if (to.rlim_cur > to.rlim_max)
		to.rlim_cur = to.rlim_max;
	if (setrlimit((int)r->which, &to))
		_exit(77);
}

static void fill_shm(bool leave_a_page)
{
	static char page[4096];
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev/shm", "tmpfs", 0, "size=64k"))
		_exit(77);
	int fd = open("/dev/shm/full", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (fd >= 0 && write(fd, page, sizeof page) > 0)
		;
	if (leave_a_page && ftruncate(fd, 15 * (off_t)sizeof page))
		_exit(77);
}

static void refuse(const struct run *t)
{
	switch (t->of->kind) {
	case CALL: refuse_call(t->of, t->error); break;
	case LIMIT: limit(t->of); break;
	case FULL_ERROR: dup2(open("/dev/full", O_WRONLY | O_CLOEXEC), 2); break;
	case FULL_SHM:
	case TINY_SHM: fill_shm(t->of->kind == TINY_SHM); break;
	default: break;
	}
}

static bool is_summed(fanin_comm *c, int rank, int ranks, int *error)
{
	static int32_t in[ELEMS], out[ELEMS];
	for (int count = 1; count <= ELEMS; count *= 10) {
		for (int i = 0; i < count; i++)
			in[i] = (rank + 1) * (i + count);
		*error = fanin_allreduce(c, in, out, (size_t)count, FANIN_INT32, FANIN_SUM);
		for (int i = 0; i < count && !*error; i++)
			if (out[i] != ranks * (ranks + 1) / 2 * (i + count))
				return false;
		if (*error)
			return true;
	}
	return true;
}

/* Exit code: 0 sums, 1 a wrong one, 2 an error, 3 one without a sentence, 77 cannot be refused. */
static int work(const struct run *t, int rank)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm *c = NULL;
	bool right = true;
	if (t->whom >> (rank > 0) & 1)
		refuse(t);
	o.rank = rank;
	o.ranks = t->ranks;
	int e = fanin_comm_create(&o, &c);
	if (!e) {
		snprintf(t->shown->at[rank], TEXT_BYTES, "%s", fanin_comm_switch(c));
		right = is_summed(c, rank, t->ranks, &e);
		if (!fanin_comm_stats(c, &s))
			t->shown->host_ranks[rank] = (int)s.host_ranks;
	}
	snprintf(t->shown->why[rank], TEXT_BYTES, "%s: %s", fanin_strerror(e),
		 c ? fanin_comm_error(c) : "");
	const bool named = c && *fanin_comm_error(c);
	fanin_comm_destroy(c);
	return !right ? 1 : !e ? 0 : named || e == FANIN_E_NOMEM ? 2 : 3;
}

/* ---- cases ---- */

static unsigned free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) ||
	    getsockname(fd, (struct sockaddr *)&at, &bytes))
		abort();
	close(fd);
	return ntohs(at.sin_port);
}

static void enter_network(int host)
{
	int fd = open(network[host], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		_exit(77);
	close(fd);
}

static void start(struct run *t)
{
	char port[8];
	snprintf(port, sizeof port, "%u", free_port());
	setenv("FANIN_JOB", port, 1);
	setenv("FANIN_SWITCH", t->place == NAMED ? switch_address : "", 1);
	setenv("MASTER_ADDR", t->place == HOSTS ? "10.77.0.1" : "127.0.0.1", 1);
	setenv("MASTER_PORT", port, 1);
	setenv("FANIN_LOCAL", t->place == SOCKETS ? "0" : "1", 1);
	setenv("FANIN_JOIN_MS", t->of->works ? WORKS_MS : FAILS_MS, 1);
	setenv("FANIN_TIMEOUT_MS", t->of->works ? WORKS_MS : FAILS_MS, 1);
	setenv("FANIN_ALIVE_MS", t->of->works ? WORKS_MS : FAILS_MS, 1);
	memset(t->shown, 0, sizeof *t->shown);
	clock_gettime(CLOCK_MONOTONIC, &t->since);
	fflush(NULL);
	for (int r = 0; r < t->ranks; r++) {
		t->rank[r] = fork();
		if (t->rank[r])
			continue;
		if (t->place == HOSTS)
			enter_network(r / HOST_RANKS);
		_exit(work(t, r));
	}
	t->alive = (unsigned)t->ranks;
}

static bool has_status(const struct run *t, int r, int code)
{
	return WIFEXITED(t->status[r]) && WEXITSTATUS(t->status[r]) == code;
}

/* One line for a case that fails, or for all with `all`.  True: it has passed, or cannot be. */
static bool judge(const struct run *t, bool all)
{
	bool good = true, skipped = false;
	for (int r = 0; r < t->ranks; r++) {
		const bool works = t->of->works && !has_status(t, r, 77);
		const bool told = strstr(t->shown->at[r], "without shared memory") &&
				  !t->shown->host_ranks[r];
		skipped |= has_status(t, r, 77);
		good &= has_status(t, r, 0) || (has_status(t, r, 2) && !works);
		good &= told || t->place == SOCKETS || t->of->which != SYS_memfd_create;
	}
	if (skipped)
		good = true;
	for (int r = 0; r < t->ranks && (all || !good); r++)
		printf("%s: %s: %s refused to %s (%s): rank %d: status %x at \"%s\", %s\n",
		       skipped ? "SKIP"
		       : good  ? "ok"
			       : "FAIL",
		       place_name[t->place], t->of->name,
		       t->whom == 3   ? "all ranks"
		       : t->whom == 1 ? "rank 0"
				      : "the other ranks",
		       strerror(t->error), r, (unsigned)t->status[r], t->shown->at[r],
		       t->shown->why[r]);
	return good;
}

static bool is_late(const struct run *t)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > t->since.tv_sec + HANG_S;
}

/* Note a rank that has ended; kill those of a case that hangs. */
static void look(struct run *t)
{
	for (int r = 0; r < t->ranks; r++) {
		if (t->rank[r] <= 0)
			continue;
		if (is_late(t))
			kill(t->rank[r], SIGKILL);
		if (waitpid(t->rank[r], &t->status[r], WNOHANG) != t->rank[r])
			continue;
		t->rank[r] = 0;
		t->alive--;
	}
}

/* ---- two hosts ---- */

/* Namespaces of processes that end with this one, and a cable.  False: they cannot be made. */
static bool make_hosts(void)
{
	char line[256];
	pid_t child[HOST_RANKS];
	for (int r = 0; r < HOST_RANKS; r++) {
		int ready[2];
		char byte = 0;
		if (pipe(ready))
			return false;
		child[r] = fork();
		if (!child[r]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			byte = !unshare(CLONE_NEWNET) && !system("ip link set lo up 2>&-");
			(void)!write(ready[1], &byte, 1);
			pause();
			_exit(0);
		}
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1 || !byte)
			return false;
		close(ready[0]);
		snprintf(network[r], sizeof network[r], "/proc/%d/ns/net", (int)child[r]);
	}
	snprintf(line, sizeof line,
		 "nsenter -n -t %d ip link add v0 type veth peer name v0 netns %d 2>&-",
		 (int)child[0], (int)child[1]);
	bool made = !system(line);
	for (int r = 0; r < HOST_RANKS && made; r++) {
		snprintf(line, sizeof line,
			 "nsenter -n -t %d sh -c 'ip addr add 10.77.0.%d/24 dev v0; "
			 "ip link set v0 up'",
			 (int)child[r], r + 1);
		made = !system(line);
	}
	return made;
}

/* ---- a named switch ---- */

/* In a process that ends with this one. */
static bool start_switch(void)
{
	int told[2];
	if (pipe(told))
		return false;
	if (fork() == 0) {
		struct fanin_switch_options o = FANIN_SWITCH_OPTIONS_INIT;
		fanin_switch *sw;
		char why[TEXT_BYTES];
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fanin_switch_start(&o, &sw, why, sizeof why))
			_exit(1);
		snprintf(why, sizeof why, "%s", fanin_switch_address(sw));
		(void)!write(told[1], why, strlen(why) + 1);
		pause();
	}
	close(told[1]);
	const bool started = read(told[0], switch_address, sizeof switch_address) > 0;
	close(told[0]);
	return started;
}

/* ---- all ---- */

static bool is_wanted(const struct refusal *r, enum place place, int error, unsigned whom, bool all)
{
	if ((r->kind != CALL && error != EPERM) || (SANITIZED && !r->works))
		return false;
	if (all)
		return true;
	const bool alone = r->works && r->kind == CALL; /* to some, which rank 0 must hear of */
	return r->brief && error == EPERM && whom == (alone ? 2 : 3) &&
	       (place == MEMORY || (alone && (place == HOSTS || place == NAMED)));
}

struct cursor {
	size_t of;
	int place, error;
	unsigned whom;
};

static const int errors[] = {EPERM, ENOSYS};

/* The next case that is wanted.  False: there is none. */
static bool next(struct cursor *c, struct run *t, bool all, bool hosts)
{
	while (c->of < REFUSALS) {
		*t = (struct run){.of = &refusals[c->of],
				  .place = (enum place)c->place,
				  .error = errors[c->error],
				  .whom = c->whom,
				  .ranks = c->place == HOSTS ? RANKS : HOST_RANKS,
				  .shown = t->shown};
		if (++c->whom > 3) {
			c->whom = 1;
			c->error++;
		}
		if (c->error == 2) {
			c->error = 0;
			c->place++;
		}
		if (c->place == PLACES) {
			c->place = 0;
			c->of++;
		}
		if ((t->place != HOSTS || hosts) &&
		    is_wanted(t->of, t->place, t->error, t->whom, all))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	const bool all = argc > 1 && !strcmp(argv[1], "all");
	const char *one = argc > 1 && !all ? argv[1] : NULL;
	struct run run[AT_ONCE] = {{0}};
	struct cursor c = {.whom = 1};
	unsigned cases = 0, failed = 0, under_way = 0;
	bool more = true;
	struct shown *shown = mmap(NULL, AT_ONCE * sizeof *shown, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const bool hosts = make_hosts();
	if (!start_switch())
		return 1;
	if (!hosts)
		printf("SKIP: two hosts: no network namespaces here\n");
	for (unsigned i = 0; i < AT_ONCE; i++)
		run[i].shown = &shown[i];
	while (more || under_way) {
		for (unsigned i = 0; i < AT_ONCE; i++) {
			if (run[i].alive) {
				look(&run[i]);
				if (run[i].alive)
					continue;
				under_way--;
				cases++;
				failed += !judge(&run[i], all || one);
			}
			more = more && next(&c, &run[i], all || one, hosts);
			if (more && (!one || strstr(run[i].of->name, one))) {
				start(&run[i]);
				under_way++;
			}
		}
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	printf("%u cases, %u failed\n", cases, failed);
	return failed != 0;
}

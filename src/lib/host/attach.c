/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/base/rank_set.h"
#include "file/file.h"
#include "lib/base/fault_text.h"
#include "net/clock.h"

#define SEALS	     (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define RETRY_NS     FAN_MS
#define REHEARSAL_MS 1000
#define BACKLOG	     FAN_HOST_RANKS_MAX
#define PID_NS	     "/proc/self/ns/pid"

/* ---- whether ranks share memory ---- */

bool fan_host_sharing_is_wanted(const struct fan_config *cfg)
{
	return cfg->local != 0 && !*cfg->server_addr && !*cfg->controller_addr &&
	       cfg->mode == FANIN_MODE_NATIVE && !cfg->ahead;
}

bool fan_host_sharing_is_asked_for(const struct fan_config *cfg)
{
	return cfg->local == 1 && fan_host_sharing_is_wanted(cfg);
}

bool fan_host_sharing_pays(const struct fan_meeting *m)
{
	bool several = false;
	for (unsigned h = 0; h < m->hosts; h++) {
		if (m->host[h].ranks > FAN_HOST_RANKS_MAX)
			return false;
		several |= m->host[h].ranks > 1;
	}
	return several && m->hosts < FAN_MEETING_HOSTS_MAX;
}

bool fan_host_sharing_is_agreed(const struct fan_meeting *m, unsigned ranks, bool named)
{
	bool left_to_switches = named && !m->sums;
	return (left_to_switches ? m->ask_to_share : m->may_share) == ranks && !m->cannot_share &&
	       fan_host_sharing_pays(m);
}

unsigned fan_host_columns(const struct fan_meeting *m, bool named)
{
	unsigned columns = named ? FAN_HOST_NAMED_COLUMNS : FAN_HOST_RANKS_MAX;
	for (unsigned h = 0; h < m->hosts; h++)
		columns = m->host[h].ranks < columns ? m->host[h].ranks : columns;
	return columns;
}

/* ---- which ranks have ended ---- */

static struct flock byte_of(unsigned i)
{
	return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
}

/* Never 0.  Where namespaces look alike, ranks in several may look like one process. */
static uint64_t this_process(void)
{
	struct stat ns;
	uint64_t inode = stat(PID_NS, &ns) ? 0 : ns.st_ino;
	return inode << 32 | (uint32_t)getpid();
}

/* Hold the lock of number `me`, by the descriptor of `s`, until that is closed. */
static void hold(struct fan_host_segment *s, int fd, unsigned me)
{
	assert(fd >= 0 && me < FAN_HOST_RANKS_MAX);
	struct flock mine = byte_of(me);
	atomic_store(&s->rank[me].process, this_process());
	if (!fcntl(fd, F_SETLK, &mine))
		atomic_store(&s->rank[me].holds, 1);
}

/* Number `i` has the segment: `hold` was called for it. */
static bool is_known(const struct fan_host_segment *s, unsigned i)
{
	return atomic_load(&s->rank[i].process) != 0;
}

/* All ranks are known, and none is in the process of number `i`, where it could drop its lock. */
static bool is_alone(const struct fan_host_segment *s, unsigned i)
{
	uint64_t process = atomic_load(&s->rank[i].process);
	for (unsigned k = 0; k < fan_host_ranks(s); k++) {
		uint64_t other = atomic_load(&s->rank[k].process);
		if (k != i && (!other || other == process))
			return false;
	}
	return true;
}

bool fan_host_has_ended(const struct fan_host_segment *s, int fd, unsigned i)
{
	assert(fd >= 0 && i < FAN_HOST_RANKS_MAX);
	struct flock its = byte_of(i);
	return atomic_load(&s->rank[i].holds) && is_alone(s, i) && !fcntl(fd, F_GETLK, &its) &&
	       its.l_type == F_UNLCK;
}

/* ---- attaching ---- */

enum { ALL_HAVE_IT = 1, GIVEN_UP };

static int fail(int error, char *why, size_t bytes, const char *what)
{
	snprintf(why, bytes, "the ranks of this host cannot share memory: %s: %s", what,
		 error == FAN_E_SYSTEM ? strerror(errno) : fan_err_text(error));
	return error;
}

static void miss(struct fan_host_memory *m, const struct fan_host_seat *h, unsigned i)
{
	fan_ranks_set(m->missing, h->of_job ? h->of_job[i] : i);
}

/* Note the missing ranks, as far as the segment shows them.  Returns the lowest number; h->ranks:
 * there is none. */
static unsigned find_missing(struct fan_host_memory *m, const struct fan_host_seat *h)
{
	unsigned first = h->ranks;
	for (unsigned i = h->ranks; m->s && i-- > 0;)
		if (!is_known(m->s, i)) {
			miss(m, h, i);
			first = i;
		}
	return first;
}

static int fail_for_missing(const struct fan_host_memory *m, const struct fan_host_seat *h,
			    char *why, size_t bytes)
{
	char list[FAN_HOST_WHY_BYTES / 2];
	if (fan_ranks_is_empty(m->missing))
		return fail(FAN_E_TIMEOUT, why, bytes, "not all have come");
	fan_fault_ranks_text(list, sizeof list, m->missing);
	snprintf(why, bytes,
		 "the ranks of this host cannot share memory: %s did not come within %.4g s", list,
		 h->timeout_ms / 1e3);
	return FAN_E_TIMEOUT;
}

static socklen_t name_of(struct sockaddr_un *at, uint64_t nonce)
{
	memset(at, 0, sizeof *at);
	at->sun_family = AF_UNIX;
	int n = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "fanin-%016llx",
			 (unsigned long long)nonce);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool same_user(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	errno = EPERM;
	return peer.uid == geteuid();
}

static int left_ms(uint64_t until_ns)
{
	uint64_t now_ns = fan_clock_ns();
	return now_ns < until_ns ? (int)((until_ns - now_ns) / FAN_MS) + 1 : 0;
}

/* ---- the descriptor ---- */

static bool send_fd(int to, int fd)
{
	char byte = 0;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof fd)];
	} control;
	struct iovec data = {&byte, 1};
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof control.bytes};
	memset(&control, 0, sizeof control);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	return sendmsg(to, &m, MSG_NOSIGNAL) == 1;
}

/* Sleep between two tries, until `until_ns` at most.  False: it is that time. */
static bool may_try_again(uint64_t until_ns)
{
	const bool may = left_ms(until_ns) > 0;
	if (may)
		nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
	return may;
}

/* Wait for a descriptor; -1: errno has the cause. */
static int recv_fd(int from, uint64_t until_ns)
{
	struct pollfd p = {.fd = from, .events = POLLIN};
	ssize_t got;
	char byte;
	int fd = -1;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof fd)];
	} control;
	struct iovec data = {&byte, 1};
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof control.bytes};
	do { /* SIGSTOP and SIGCONT interrupt a wait with a limit, without any handler */
		poll(&p, 1, left_ms(until_ns));
		got = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
	} while (got < 0 && (errno == EINTR || errno == EAGAIN) && may_try_again(until_ns));
	if (got < 0)
		return -1;
	errno = m.msg_flags & MSG_CTRUNC ? EMFILE : ECONNRESET;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof fd))
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

/* False: it cannot be mapped. */
static bool map(struct fan_host_memory *m, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (at == MAP_FAILED)
		return false;
	m->s = at;
	m->bytes = bytes;
	return true;
}

void fan_host_detach(struct fan_host_memory *m)
{
	if (m->s)
		munmap(m->s, m->bytes);
	if (m->fd >= 0)
		close(m->fd);
	m->s = NULL;
	m->fd = -1;
}

/* ---- together ---- */

static void decide(struct fan_host_segment *s, uint32_t what)
{
	uint32_t nothing = 0;
	atomic_compare_exchange_strong(&s->agreed, &nothing, what);
}

/* This rank has the segment.  Wait until all have it, or until one of them runs out of time. */
static int agree(struct fan_host_segment *s, uint64_t until_ns)
{
	uint32_t agreed;
	if (atomic_fetch_add(&s->present, 1) + 1 == s->ranks)
		decide(s, ALL_HAVE_IT);
	while (!(agreed = atomic_load(&s->agreed)))
		if (!may_try_again(until_ns))
			decide(s, GIVEN_UP);
	return agreed == ALL_HAVE_IT ? FAN_OK : FAN_E_TIMEOUT;
}

/* ---- the first rank ---- */

static int make(struct fan_host_memory *m, const struct fan_host_seat *h)
{
	size_t bytes = fan_host_bytes(h->ranks);
	m->fd = memfd_create("fanin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->fd < 0 || !fan_file_may_have(bytes) || ftruncate(m->fd, (off_t)bytes) ||
	    fcntl(m->fd, F_ADD_SEALS, SEALS))
		return FAN_E_SYSTEM;
	if (!map(m, bytes))
		return FAN_E_SYSTEM;
	fan_host_init(m->s, h->ranks, h->columns);
	return FAN_OK;
}

static int listen_at(uint64_t nonce)
{
	struct sockaddr_un at;
	socklen_t len = name_of(&at, nonce);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && (bind(fd, (struct sockaddr *)&at, len) || listen(fd, BACKLOG))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Hand it to all others.  One that has given up meanwhile is not counted, and may come again. */
static int hand_over(int listener, const struct fan_host_memory *m, unsigned others,
		     uint64_t until_ns)
{
	int refused = 0; /* why the last one was not let in */
	for (unsigned given = 0; given < others;) {
		struct pollfd p = {.fd = listener, .events = POLLIN};
		poll(&p, 1, left_ms(until_ns));
		int to = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (to < 0 && errno != EAGAIN && errno != EINTR) /* it waits there still */
			refused = errno;
		if (to >= 0 && same_user(to) && send_fd(to, m->fd))
			given++;
		if (to >= 0) {
			refused = 0;
			close(to);
		}
		const bool may = to >= 0 ? left_ms(until_ns) > 0 : may_try_again(until_ns);
		if (given < others && (!may || atomic_load(&m->s->agreed) == GIVEN_UP)) {
			errno = refused;
			return refused ? FAN_E_SYSTEM : FAN_E_TIMEOUT;
		}
	}
	return FAN_OK;
}

/* Give up.  Ranks that have the segment, and may be at work, would wait for the missing and for
 * this one. */
static void give_up(struct fan_host_memory *m, const struct fan_host_seat *h, int error, char *why,
		    size_t bytes)
{
	const unsigned first = find_missing(m, h);
	uint64_t here[FAN_RANK_WORDS] = {0};
	if (error == FAN_E_TIMEOUT)
		fail_for_missing(m, h, why, bytes);
	fan_ranks_set(here, h->host);
	if (first < h->ranks)
		fan_host_fail(m->s, 0, error, why,
			      &(struct fan_host_blame){m->missing, FAN_CAUSE_LOST(first), here});
}

static int give(struct fan_host_memory *m, const struct fan_host_seat *h, uint64_t until_ns,
		char *why, size_t bytes)
{
	int listener = listen_at(h->nonce);
	int e = listener < 0 ? FAN_E_SYSTEM : make(m, h);
	if (!e)
		hold(m->s, m->fd, 0);
	if (!e)
		e = hand_over(listener, m, h->ranks - 1, until_ns);
	if (e)
		fail(e, why, bytes, "the first of them");
	else
		atomic_store(&m->s->given, 1);
	if (e && m->s) {
		decide(m->s, GIVEN_UP);
		give_up(m, h, e, why, bytes);
	}
	if (listener >= 0)
		close(listener);
	return e;
}

/* ---- the others ---- */

/* Connect to the first rank, which may not listen yet, and whose queue strangers may fill; -1:
 * errno has the cause. */
static int reach(uint64_t nonce, uint64_t until_ns)
{
	struct sockaddr_un at;
	socklen_t len = name_of(&at, nonce);
	do {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0 && !connect(fd, (struct sockaddr *)&at, len))
			return fd;
		const int e = errno;
		if (fd >= 0)
			close(fd);
		errno = e;
	} while (may_try_again(until_ns));
	return -1;
}

/* Is it a file that cannot shrink while it is mapped, of the right size? */
static bool is_ours(int fd, size_t bytes)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	errno = seals >= 0 ? EINVAL : errno;
	return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &st) &&
	       (size_t)st.st_size == bytes;
}

static int take(struct fan_host_memory *m, const struct fan_host_seat *h, uint64_t until_ns,
		char *why, size_t bytes)
{
	size_t all = fan_host_bytes(h->ranks);
	int from = reach(h->nonce, until_ns);
	if (from < 0 && errno != ECONNREFUSED && errno != EAGAIN)
		return fail(FAN_E_SYSTEM, why, bytes, "the way to the first of them");
	if (from < 0) {
		miss(m, h, 0);
		return fail_for_missing(m, h, why, bytes);
	}
	errno = EAGAIN;
	m->fd = same_user(from) ? recv_fd(from, until_ns) : -1;
	int e = m->fd >= 0	  ? is_ours(m->fd, all) ? FAN_OK : FAN_E_FORMAT
		: errno == EAGAIN ? FAN_E_TIMEOUT
				  : FAN_E_SYSTEM;
	if (!e && !map(m, all))
		e = FAN_E_SYSTEM;
	if (!e && !fan_host_is_sane(m->s, all, h->ranks))
		e = FAN_E_FORMAT;
	if (e)
		fail(e, why, bytes, "what the first of them gives");
	else
		hold(m->s, m->fd, h->me);
	close(from);
	return e;
}

int fan_host_attach(struct fan_host_memory *m, const struct fan_host_seat *h, char *why,
		    size_t bytes)
{
	uint64_t until_ns = fan_clock_ns() + (uint64_t)h->timeout_ms * FAN_MS;
	assert(h->me < h->ranks && h->ranks <= FAN_HOST_RANKS_MAX);
	assert(h->columns >= 1 && h->columns <= h->ranks);
	*m = (struct fan_host_memory){.fd = -1};
	int e = h->me ? take(m, h, until_ns, why, bytes) : give(m, h, until_ns, why, bytes);
	if (!e && h->together && (e = agree(m->s, until_ns))) {
		find_missing(m, h);
		fail_for_missing(m, h, why, bytes);
	}
	if (e)
		fan_host_detach(m);
	return e;
}

/* ---- rehearsal ---- */

/* As give and take do, with this process on both sides. */
static bool rehearse(struct fan_host_memory *m, int fd[3], unsigned ranks, const char **step)
{
	enum { LISTENER, FROM, TO };
	const uint64_t nonce = fan_clock_nonce(), until_ns = fan_clock_ns() + REHEARSAL_MS * FAN_MS;
	const struct fan_host_seat h = {.ranks = ranks, .columns = 1};
	*step = "memory to share (memfd_create)";
	if (make(m, &h))
		return false;
	munmap(m->s, m->bytes);
	m->s = NULL;
	*step = "a socket of AF_UNIX";
	if ((fd[LISTENER] = listen_at(nonce)) < 0 || (fd[FROM] = reach(nonce, until_ns)) < 0 ||
	    (fd[TO] = accept4(fd[LISTENER], NULL, NULL, SOCK_CLOEXEC)) < 0)
		return false;
	*step = "passing a descriptor";
	if (!same_user(fd[TO]) || !send_fd(fd[TO], m->fd))
		return false;
	close(m->fd);
	m->fd = recv_fd(fd[FROM], until_ns);
	return m->fd >= 0 && is_ours(m->fd, fan_host_bytes(ranks)) && map(m, fan_host_bytes(ranks));
}

bool fan_host_can_attach(unsigned ranks, char *why, size_t bytes)
{
	struct fan_host_memory m = {.fd = -1};
	int fd[3] = {-1, -1, -1};
	const char *step;
	const bool can = rehearse(&m, fd, ranks, &step);
	*why = '\0';
	if (!can)
		snprintf(why, bytes, "%s: %s", step, strerror(errno));
	for (unsigned i = 0; i < 3; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	fan_host_detach(&m);
	return can;
}

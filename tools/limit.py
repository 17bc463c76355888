#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a command, and end it after a time that other work on the machine does not use up.

    tools/limit.py SECONDS COMMAND...

A second counts as far as the command, with all that it has started, computed in it, or a processor was
idle, whichever is more: whoever computes for ever is ended after SECONDS of processor time, and whoever waits
for ever on a machine that is idle after SECONDS.  While others have all processors, neither can be told
from a command that has had no turn, so nothing counts; but after FAR times SECONDS of the clock it is ended
in any case.

What ran then is printed.  All of it gets SIGTERM, and after KILL_S seconds SIGKILL.  Exit status: the
command's, 128 and the number of the signal that ended it, or 124 after the limit.
"""

import os
import signal
import sys
import time

FAR = 10
KILL_S = 10
POLL_S = (0.05, 2.0)  # the first time, and the longest
TICKS = os.sysconf("SC_CLK_TCK")
IDLE = slice(4, 6)  # of the words of /proc/stat's first line: idle, and waiting for disks
ENDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def idle_s():
    """Seconds that processors have been idle, all of them together."""
    with open("/proc/stat", encoding="ascii") as file:
        return sum(int(word) for word in file.readline().split()[IDLE]) / TICKS


def processes():
    """(parent, ticks of processor time, those of its ended children included, whether it runs) of each."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as file:
                words = file.read().rpartition(")")[2].split()  # behind a name that may have blanks
        except OSError:
            continue
        ticks = sum(int(word) for word in words[11:15])
        found[int(name)] = (int(words[1]), ticks, words[0] not in "ZX")
    return found


def family(found, root):
    """`root` and whoever descends from it."""
    children = {}
    for pid, (parent, _, _) in found.items():
        children.setdefault(parent, []).append(pid)
    members, rest = [], [root]
    while rest:
        pid = rest.pop()
        members.append(pid)
        rest += children.get(pid, [])
    return [pid for pid in members if pid in found]


class Clock:
    """Seconds that count, of the command whose process is `root`."""

    def __init__(self, root):
        self.root, self.counted = root, 0.0
        self.begun = self.at = time.monotonic()
        self.idle, self.own = idle_s(), 0.0

    def look(self):
        """Add what has passed since the last look."""
        found = processes()
        own = sum(found[pid][1] for pid in family(found, self.root)) / TICKS
        at, idle = time.monotonic(), idle_s()
        # What has lost its parent takes its time away from the family's.
        used = max(0.0, own - self.own)
        self.counted += min(at - self.at, max(used, idle - self.idle))
        self.at, self.idle, self.own = at, idle, own
        return self.counted


def tell(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def show(pids):
    for pid in pids:
        try:
            with open("/proc/%d/cmdline" % pid, encoding="utf-8", errors="replace") as file:
                print("  %7d  %s" % (pid, " ".join(file.read().split("\0"))[:200]), file=sys.stderr)
        except OSError:
            pass
    sys.stderr.flush()


class Child:
    """The command, started."""

    def __init__(self, command, mask):
        ignored_here = {signal.SIGPIPE, signal.SIGXFSZ}  # by Python
        self.pid = os.posix_spawnp(
            command[0], command, os.environ, setsigmask=mask, setsigdef=ignored_here
        )
        self.status = None

    def ended(self, options=os.WNOHANG):
        if self.status is None:
            pid, status = os.waitpid(self.pid, options)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None

    def end(self):
        """SIGTERM to all, and SIGKILL to those that are left."""
        last = family(processes(), self.pid)
        tell(last, signal.SIGTERM)
        until = time.monotonic() + KILL_S
        while last and time.monotonic() < until:
            time.sleep(0.05)
            self.ended()
            found = processes()
            last = [pid for pid in last if pid in found and found[pid][2]]
        tell({*last, *family(processes(), self.pid)}, signal.SIGKILL)
        self.ended(0)


def watch(child, limit_s):
    """Until it has ended, or the limit: True."""
    clock, pause_s = Clock(child.pid), POLL_S[0]
    while not child.ended():
        got = signal.sigtimedwait({signal.SIGCHLD, *ENDED}, pause_s)
        if got and got.si_signo in ENDED:
            child.end()
            sys.exit(128 + got.si_signo)
        pause_s = min(2 * pause_s, POLL_S[1])
        if child.ended():
            break
        counted, passed = clock.look(), time.monotonic() - clock.begun
        if counted >= limit_s or passed >= FAR * limit_s:
            print("limit.py: ended after %.0f s of the clock, of which %.0f count and %g may; these ran:" % (
                passed, counted, limit_s), file=sys.stderr)  # fmt: skip
            return True
    return False


def main():
    limit_s, command = float(sys.argv[1]), sys.argv[2:]
    child = Child(command, signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *ENDED}))
    if watch(child, limit_s):
        show(family(processes(), child.pid))
        child.end()
        return 124
    return child.status if child.status >= 0 else 128 - child.status


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The layout as Mininet hosts and veth pairs, and the processes in them.

All interfaces are in the hosts' namespaces, the bridge of the management network too: with the
hosts' shells everything goes.  Processes end when this one does, however it ends.
"""

import os
import shutil
import signal
import subprocess
import sys
import time

from layout import CONTROLLER, LabError

DEBIAN = "/usr/lib/python3/dist-packages"
COMMAND_TIMEOUT_S = 60
STOP_TIMEOUT_S = 3
POLL_S = 0.02


def missing():
    """What the lab needs and this machine does not have, or None."""
    for tool in ("ip", "tc", "mnexec", "nsenter", "setpriv"):
        if shutil.which(tool) is None:
            return "%s (Debian: mininet, iproute2, util-linux)" % tool
    if DEBIAN not in sys.path:
        sys.path.append(DEBIAN)
    try:
        import mininet.net  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        return "Mininet for %s (Debian: mininet): %s" % (sys.executable, error)
    return None


def inside(host):
    """The beginning of a command in the host's network.  `mnexec -a` would go to its mount namespace
    as well, whose root is another one where this program runs in a chroot."""
    return ["nsenter", "--net=/proc/%d/ns/net" % host.pid]


class Network:
    """`with Network(layout) as net:`; afterwards nothing is left."""

    def __init__(self, layout):
        self.layout = layout
        self.mininet, self.hosts, self.controller = None, {}, None
        self.children = []
        self.blocked = {}  # ends of links through which nothing passes, by their nodes' names

    def __enter__(self):
        from mininet.net import Mininet  # pylint: disable=import-outside-toplevel

        Mininet.inited = True  # it would raise limits of the whole machine, for good
        try:
            self.mininet = Mininet(topo=None, build=False, controller=None)
            self._make_hosts()
            self._make_links()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.stop(self.children)
            for host in [*self.hosts.values(), self.controller]:
                if host is not None:
                    host.terminate()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # ---- building ---------------------------------------------------------------------

    def _make_hosts(self):
        self.controller = self.mininet.addHost("ctl")
        self._batch(
            self.controller,
            "ip",
            "link set lo up\nlink add br0 type bridge\naddr add %s/16 dev br0\nlink set br0 up\n"
            % CONTROLLER,
        )
        for node in self.layout.nodes:
            self.hosts[node.name] = self.mininet.addHost("n%d" % node.number)

    def _make_links(self):
        from mininet.link import Link  # pylint: disable=import-outside-toplevel

        for a, b in self.layout.links:
            self.mininet.addLink(
                self.hosts[a.node.name],
                self.hosts[b.node.name],
                cls=Link,
                intfName1=a.interface,
                intfName2=b.interface,
                addr1=a.mac,
                addr2=b.mac,
            )
        for node in self.layout.nodes:
            host = self.hosts[node.name]
            port = "m%d" % node.number
            self.mininet.addLink(self.controller, host, cls=Link, intfName1=port, intfName2="m0")
            self._batch(self.controller, "ip", "link set %s master br0 up\n" % port)
            self._batch(host, "ip", "addr add %s/16 dev m0\nlink set m0 up\n" % node.management)
            if node.kind == "switch":
                self._batch(host, "ip", "link add ifb0 type ifb\nlink set ifb0 up\n")
                self.run(host, ["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
            self._batch(host, "ip", self.layout.addresses(node))
            self._batch(host, "tc", self.layout.shaping(node))

    def set_filters(self, install):
        """Switches' capacities hold for what this installation has them sum."""
        for node in self.layout.of("switch"):
            batch = self.layout.sum_filters(node, install)
            if batch:
                self._batch(self.hosts[node.name], "tc", batch)

    # ---- failures -----------------------------------------------------------------------

    def block(self, a, b, blocked):
        """Let nothing pass the link between two nodes, either way, or all again.  Carrier and
        routes stay: only who asks finds out."""
        for node, peer in ((a, b), (b, a)):
            end = next(e for e in self.layout.by_name[node].ends if e.peer.name == peer)
            host = self.hosts[node]
            if blocked:
                self._batch(host, "tc", self.layout.wall(end))
                self.blocked[node, peer] = (host, end)
            elif self.blocked.pop((node, peer), None):
                self._batch(host, "tc", self.layout.no_wall(end))

    def unblock(self):
        for a, b in list(self.blocked):
            self.block(a, b, False)

    # ---- commands and processes ---------------------------------------------------------

    def _batch(self, host, tool, text):
        done = self._inside(host, [tool, "-force", "-batch", "-"], text)
        wrong = [
            line
            for line in done.stderr.splitlines()
            if "quantum" not in line and "filter with specified" not in line
        ]
        if done.returncode and [w for w in wrong if "Command failed" not in w]:
            raise LabError("%s in the lab's network: %s" % (tool, "; ".join(wrong)[:500]))

    def run(self, host, argv):
        done = self._inside(host, argv, "")
        if done.returncode:
            raise LabError("%s: %s" % (" ".join(argv), done.stderr.strip()[:500]))
        return done.stdout

    @staticmethod
    def _inside(host, argv, text):
        return subprocess.run(
            [*inside(host), *argv],
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )

    def start(self, host, argv, log):
        """A process of its own group in the host, which ends with this one."""
        with open(log, "wb") as out:
            child = subprocess.Popen(  # pylint: disable=consider-using-with
                [*inside(host), "setpriv", "--pdeathsig", "KILL", *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        child.log = log
        self.children.append(child)
        return child

    def stop(self, children):
        """End these processes, politely and then not."""
        running = [child for child in children if child.poll() is None]
        for child in running:
            signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for child in running:
            try:
                child.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                signal_group(child, signal.SIGKILL)
                child.wait()
        self.children = [child for child in self.children if child not in children]


def signal_group(child, number):
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def tail(child):
    """The end of what a process has printed."""
    with open(child.log, errors="replace", encoding="utf-8") as file:
        return " | ".join(file.read().splitlines()[-6:])[-600:]

# SPDX-License-Identifier: Apache-2.0
"""Benches between network namespaces whose links are shaped: the network (test/net/netns.sh
draws it), and fanin, Gloo's ring and Open MPI on it."""

import contextlib
import json
import os
import subprocess
import sys
import time

import benchlib
from benchlib import SKIP, TENSOR_BYTES, BenchError

NETNS = os.path.join(benchlib.ROOT, "test", "net", "netns.sh")
BURST = "70kb"  # tbf's: one batch of 64 KiB
LIMIT = "1mb"  # tbf's queue
# No bridged packet through iptables, whose hooks cost a byte some processor time.
BRIDGE_QUIET = """for tables in iptables ip6tables arptables; do
        knob=/proc/sys/net/bridge/bridge-nf-call-$tables
        if [ -w $knob ]; then echo 0 >$knob; fi
done"""
SWITCH_ADDRESS = "10.77.0.254"
PORT = 7077
TIMEOUT_S = 180


def netns(*argv):
    """One step of netns.sh; SKIPPED ends the command with its exit code."""
    done = subprocess.run(("sh", NETNS) + argv, capture_output=True, text=True, timeout=120)
    if done.returncode == SKIP:
        print(done.stdout.strip())
        sys.exit(SKIP)
    if done.returncode != 0:
        raise BenchError("netns.sh %s: exit code %d\n%s"
                         % (" ".join(argv), done.returncode, done.stderr))
    return done.stdout


class Network:
    """`workers` namespaces and the switch's, links of `mbps`; up for as long as it is open."""

    def __init__(self, workers, mbps, burst=BURST, limit=LIMIT):
        self.prefix = "fanin-%d-%d" % (os.getpid(), workers)
        self.workers = workers
        self.link = ("%dkbit" % round(mbps * 1000), burst, limit)

    def __enter__(self):
        netns("up", self.prefix, str(self.workers), *self.link)
        return self

    def __exit__(self, *_):
        netns("down", self.prefix)

    def inside(self, where, argv):
        return ["ip", "netns", "exec", "%s-%s" % (self.prefix, where)] + argv

    def loss(self, permille):
        if permille:
            netns("loss", self.prefix, str(permille))
        else:
            netns("noloss", self.prefix)

    def rate(self, worker, mbps):
        netns("rate", self.prefix, str(worker), "%dkbit" % round(mbps * 1000), *self.link[1:])

    def carried(self, worker):
        """Bytes that the worker's link has carried so far, up and down.  tc counts the headers of
        every frame, also in a batch that it carries whole."""
        return tuple(self._carried(where, device) for where, device in (
            ("w%d" % worker, "eth0"), ("sw", "p%d" % worker)))

    def _carried(self, where, device):
        done = subprocess.run(["tc", "-n", "%s-%s" % (self.prefix, where), "-s", "-j", "qdisc",
                               "show", "dev", device, "root"],
                              capture_output=True, text=True, timeout=10)
        if done.returncode != 0:
            raise BenchError("tc: exit code %d\n%s" % (done.returncode, done.stderr))
        return json.loads(done.stdout)[0]["bytes"]

    def mark_over(self, worker, mbps):
        """What goes over that worker's link beyond a rate is marked (ECN)."""
        netns("mark", self.prefix, str(worker), "limit", "rate", "over",
              "%d" % round(mbps * 1000 / 8), "kbytes/second", "burst", "128", "kbytes")

    def cut(self):
        netns("cut", self.prefix)

    def lengthen(self, procs, build, us):
        """What enters a link leaves it so many microseconds later: build/bench/long-wire carries it,
        in place of nftables, until procs ends it.  No losses then."""
        wire = procs.start(self.inside("wire", [
            os.path.join(build, "bench", "long-wire"), str(us), str(self.workers)]))
        deadline = time.monotonic() + benchlib.LISTEN_TIMEOUT_S
        while not os.path.getsize(wire.stem + ".out"):
            if wire.poll() is not None or time.monotonic() > deadline:
                raise BenchError("long-wire: %s" % benchlib.output_tail(wire))
            time.sleep(benchlib.POLL_S)
        subprocess.run(self.inside("wire", ["nft", "flush", "ruleset"]), check=True, timeout=10)
        return wire

    def lost_share(self):
        """Frames lost over frames sent, as nftables counted them; None before any."""
        passed = dropped = 0
        for line in netns("counters", self.prefix).splitlines():
            passed += int(line.split()[2])
            dropped += int(line.split()[3])
        return dropped / (passed + dropped) if passed + dropped else None


def ip(namespace, lines):
    """These of ip's commands, in a namespace or, None, where we are."""
    done = subprocess.run(["ip"] + (["-n", namespace] if namespace else []) + ["-batch", "-"],
                          input="\n".join(lines), capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise BenchError("ip: exit code %d\n%s" % (done.returncode, done.stderr))


class Bridge(Network):
    """The same on a bridge alone, without the wires in between on which Network loses frames: each
    costs a byte some processor time.  `mbps` 0: no shaper.  `second`, what a link is, as of `link`:
    a second network, on a bridge of its own."""

    def __init__(self, workers, mbps, mtu, burst=BURST, limit=LIMIT, second=None):
        super().__init__(workers, mbps, burst, limit)
        self.mtu, self.shaped, self.second = mtu, mbps > 0, second

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self):
        middle = self.prefix + "-sw"
        ip(None, ["netns add " + middle])
        ip(middle, ["link set lo up",
                    "link add br0 address 02:77:00:00:00:fe mtu %d type bridge mcast_snooping 0 "
                    "stp_state 0 forward_delay 0" % self.mtu,
                    "addr add %s/24 dev br0" % SWITCH_ADDRESS, "link set br0 up",
                    "route add 224.0.0.0/4 dev br0"])
        subprocess.run(self.inside("sw", ["sh", "-c", BRIDGE_QUIET]), check=True, timeout=10)
        for worker in range(self.workers):
            self._add(middle, worker, "%s-w%d" % (self.prefix, worker))
        if self.second:
            ip(middle, ["link add br1 mtu %d type bridge mcast_snooping 0 stp_state 0 "
                        "forward_delay 0" % self.mtu,
                        "addr add %s/24 dev br1" % second_of(SWITCH_ADDRESS), "link set br1 up"])
        for worker in range(self.workers) if self.second else ():
            self._add_second(middle, worker, "%s-w%d" % (self.prefix, worker))

    def _add(self, middle, worker, namespace):
        port = "p%d" % worker
        ip(None, ["netns add " + namespace])
        ip(middle, ["link add %s mtu %d type veth peer name eth0 mtu %d netns %s" % (
            port, self.mtu, self.mtu, namespace), "link set %s master br0 up" % port])
        ip(namespace, ["link set lo up", "addr add %s/24 dev eth0" % worker_address(worker),
                       "link set eth0 up", "route add 224.0.0.0/4 dev eth0"])
        if self.shaped:
            self._shape(((namespace, "eth0"), (middle, port)), *self.link)

    def _add_second(self, middle, worker, namespace):
        port = "q%d" % worker
        ip(middle, ["link add %s mtu %d type veth peer name eth1 mtu %d netns %s" % (
            port, self.mtu, self.mtu, namespace), "link set %s master br1 up" % port])
        ip(namespace, ["addr add %s/24 dev eth1" % second_of(worker_address(worker)),
                       "link set eth1 up"])
        self._shape(((namespace, "eth1"), (middle, port)), *self.second)

    @staticmethod
    def _shape(ends, rate, burst, limit):
        for where, device in ends:
            subprocess.run(["tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                            rate, "burst", burst, "limit", limit], check=True, timeout=10)


def worker_address(worker):
    return "10.77.0.%d" % (worker + 1)


def second_of(address):
    """The address in the second network of who has `address` in the first."""
    return address.replace("10.77.", "10.78.")


class HasResult(Exception):
    """A program has printed its line."""


class NetBench:
    """Runs of one system at a time, each checked; the results are those of rank 0.  A namespace
    of a worker has `per_host` ranks, neighbours in their order."""

    def __init__(self, procs, programs, iters, warmup, size=TENSOR_BYTES):
        self.procs = procs
        self.programs = programs
        self.iters = iters
        self.warmup = warmup
        self.size = size
        self.runs = 0

    def start_switch(self, net, where, flags=(), everywhere=False):
        """A switch in the namespace `where`: its process and its address; both of it, `everywhere`."""
        at = SWITCH_ADDRESS if where == "sw" else worker_address(int(where[1:]))
        address = "%s:%d" % (at, PORT)
        listen = "0.0.0.0:%d" % PORT if everywhere else address
        process = self.procs.start(net.inside(
            where, [self.programs["fanin"], "switch", "--listen", listen] + list(flags)))
        benchlib.wait_listening(process, PORT)
        return process, "%s,%s:%d" % (address, second_of(at), PORT) if everywhere else address

    def fanin(self, net, flags, hosts=None, per_host=1, switches=("sw",), env=None, watch=None,
              switch_flags=()):
        """One job; switches in these namespaces, each with its part of the tensor.  None: the
        ranks are told where rank 0 is, as a launcher tells them, and the library does the rest.
        `watch`: called with the ranks' processes again and again while they run."""
        self.runs += 1
        path = self.procs.path("fanin-%d.json" % self.runs)
        count = (hosts or net.workers) * per_host
        running = [self.start_switch(net, where, switch_flags) for where in switches]
        named = ["--switch", ",".join(address for _, address in running)] if running else []
        ranks = []
        for rank in range(count):
            argv = [self.programs["fanin"], "bench"] + named + [
                    "--job", "bench-%d" % self.runs, "--rank", str(rank),
                    "--ranks", str(count), "-b", str(self.size),
                    "-e", str(self.size), "-n", str(self.iters), "-w", str(self.warmup),
                    "-d", "float32", "--mtu", "1500"] + flags
            if rank == 0:
                argv += ["--json", path]
            told = ({"FANIN_HOSTS": "0"} if running  # the switches alone sum
                    else {"MASTER_ADDR": worker_address(0), "MASTER_PORT": str(PORT)})
            if per_host > 1:
                told["FANIN_LOCAL"] = "1"  # the default, but at named switches
            ranks.append(self.procs.start(net.inside("w%d" % (rank // per_host), argv),
                                          env=dict(told, **(env or {}))))
        self.procs.wait(ranks, TIMEOUT_S, servers=[process for process, _ in running],
                        sample=(lambda: watch(ranks)) if watch else None)
        self.procs.stop([process for process, _ in running])
        return benchlib.read_result(path, benchlib.command(ranks[0]))

    def peer_flags(self):
        return ["--bytes", str(self.size), "--iters", str(self.iters),
                "--warmup", str(self.warmup)]

    def gloo(self, net, _, hosts=None, per_host=1):
        return self._by_store("gloo", net, hosts or net.workers, per_host)

    def ccl(self, net, _, hosts=None, per_host=1):
        """A host has its name, by which oneCCL tells hosts apart."""
        return self._by_store("ccl", net, hosts or net.workers, per_host, benchlib.ONECCL)

    def _by_store(self, peer, net, hosts, per_host, env=None):
        """Ranks that meet through a folder."""
        self.runs += 1
        store = self.procs.path("store-%d" % self.runs)
        os.mkdir(store)
        ranks = [self.procs.start(
            [benchlib.NETNS_RSH, worker_address(rank // per_host), self.programs[peer],
             "--rank", str(rank), "--size", str(hosts * per_host), "--store", store,
             "--host", worker_address(rank // per_host)] + self.peer_flags(),
            env=dict(env or {}, FANIN_NETNS=net.prefix, CCL_LOCAL_SIZE=str(per_host),
                     CCL_LOCAL_RANK=str(rank % per_host)))
            for rank in range(hosts * per_host)]
        self.procs.wait(ranks, TIMEOUT_S)
        return benchlib.read_result(ranks[0].stem + ".out", peer)

    def mpi(self, net, _, hosts=None, per_host=1, **setting):
        """`setting`: as of benchlib.mpi_command; without it ranks of a host share memory."""
        setting.setdefault("transports", "tcp,vader,self" if per_host > 1 else "tcp,self")
        return self._by_mpirun(net, hosts or net.workers, per_host, {}, lambda ranks, slots:
                               benchlib.mpi_command(self.programs["mpi"], ranks, slots, **setting))

    def ucc(self, net, _, **setting):
        return self.mpi(net, _, parameters=benchlib.UCC, **setting)

    def mpich(self, net, _, hosts=None, per_host=1):
        """Its result is its end: 4.0.2 may then wait in MPI_Finalize for ever."""
        return self._by_mpirun(
            net, hosts or net.workers, per_host, benchlib.MPICH, lambda ranks, slots:
            benchlib.mpich_command(self.programs["mpich"], ranks, slots, SWITCH_ADDRESS), True)

    def _by_mpirun(self, net, hosts, per_host, env, command, ends_with_result=False):
        slots = ["%s:%d" % (worker_address(host), per_host) for host in range(hosts)]
        child = self.procs.start(net.inside("sw", command(hosts * per_host, slots) + self.peer_flags()),
                                 env=dict(env, FANIN_NETNS=net.prefix))

        def look():
            with open(child.stem + ".out") as file:
                if ends_with_result and file.read().endswith("}\n"):
                    raise HasResult

        with contextlib.suppress(HasResult):  # which stops it
            self.procs.wait([child], TIMEOUT_S, sample=look)
        return benchlib.read_result(child.stem + ".out", benchlib.command(child))

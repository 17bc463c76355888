# SPDX-License-Identifier: Apache-2.0
"""One algorithm's plan: made, simulated, and put to work on the lab's network."""

import configparser
import json
import os
import socket
import subprocess
import time

from layout import CONTROLLER, CONTROLLER_PORT, SIM_ELEMENTS, SIM_WINDOW, WIRE, LabError
from network import POLL_S, signal_group, tail

TOOL_TIMEOUT_S = 300
UP_TIMEOUT_S = 20
ASK_TIMEOUT_S = 2
EXTRA_S = 40  # what a job may take beyond four times what was asked
ITERATIONS = 3
PART_MIN_BYTES = 1 << 16
WINDOW, WINDOW_PART = 32, 8  # fragments: at least, and for each part
WINDOW_MIN = 2  # of fanin bench
TREES = 4  # of best on one server, as for fanin controller
RTO_MIN_MS = 400  # timers are of fast links; here, a result waits for hundreds of ms in queues


def window_of(asked, install):
    """Fragments in flight, of all parts together: as `asked`, or so many that each part can fill its
    round trip."""
    return asked or max(WINDOW, WINDOW_PART * len(install["parts"]))


def largest_window(window, install):
    """Fragments of the largest part, where all parts together have `window` of them in flight: ranks
    give the others theirs by share."""
    rates = [part["gbps"] for part in install["parts"]]
    return max(WINDOW_MIN, round(window * max(rates) / sum(rates)))


class Tools:
    """fanin's other subcommands, on files in the lab's folder."""

    def __init__(self, fanin, folder, args):
        self.fanin, self.folder, self.args = fanin, folder, args

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *argv):
        try:
            done = subprocess.run(
                [self.fanin, *argv],
                capture_output=True,
                text=True,
                timeout=TOOL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LabError("fanin %s: not done after %d s" % (argv[0], TOOL_TIMEOUT_S)) from None
        if done.returncode:
            text = done.stderr.strip() or "exit status %d" % done.returncode
            raise LabError(text if argv[0] == "plan" else "fanin %s: %s" % (argv[0], text))
        return done.stdout

    def load(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def save(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(value, file)
        return self.path(name)

    def topology(self, text):
        """The topology as JSON, whatever form it was given in, with its one job."""
        out = self.path("topology.json")
        asked = {"--rate": self.args.rate, "--attach": self.args.attach}
        more = [word for row in asked.items() if row[1] for word in row]
        self.run("plan", text, "-a", "geryon", "--no-bound", "--topology", out, *more)
        return self.load("topology.json")

    def plan(self, topology, algorithm):
        """(plan, installation) for a topology's file, with as many trees for every algorithm."""
        more = ["--no-bound", "--trees", str(TREES)]
        more += ["--sums-at", self.args.sums_at]
        plan, install = algorithm + ".plan.json", algorithm + ".install.json"
        command = ["plan", topology, "-a", algorithm, "--json", self.path(plan), *more]
        self.run(*command, "--seed", str(self.args.seed), "--install", self.path(install))
        return self.load(plan), self.load(install)

    def simulate(self, layout, install, window=SIM_WINDOW):
        """The rate in Gb/s of the wire."""
        scenario = layout.scenario(install, self.args.seed, window)
        file, out = self.save("scenario.json", scenario), self.path("sim.json")
        self.run("sim", file, "-q", "--json", out)
        jobs = self.load("sim.json")["jobs"]
        for job in jobs:
            if job["error"]:
                raise LabError("fanin sim: %s: %s" % (job["name"], job["error"]))
        return SIM_ELEMENTS * 32 * WIRE / max(job["comm_s"] for job in jobs) / 1e9


class Kill:
    """NODE@T, or NODE@T+D: kill that node's daemon T s into the job, and start it again D s later.
    NODE may be "controller".  A-B@T, A-B@T+D: nothing passes the link between A and B any more, and
    passes it again; their interfaces stay up, so nobody is told."""

    FORM = "NODE@SECONDS, A-B@SECONDS, or one of them with +SECONDS"

    def __init__(self, text):
        self.text = text
        self.node, _, when = text.rpartition("@")
        self.ends = None  # of a link: the names of its nodes
        at, _, back = when.partition("+")
        try:
            self.at_s, self.back_s = float(at), float(back) if back else None
        except ValueError:
            raise LabError('--kill: "%s": expected %s' % (text, self.FORM)) from None
        if not self.node or self.at_s < 0 or (self.back_s or 0) < 0:
            raise LabError('--kill: "%s": expected %s' % (text, self.FORM))

    def check(self, topology):
        """Is it of this topology?  A name with a "-" in it is a node's before it is a link."""
        kinds = {n["name"]: n["kind"] for n in topology["nodes"]}
        if self.node == "controller" or kinds.get(self.node) in ("switch", "server"):
            return
        for link in topology["links"]:
            if self.node in ("%s-%s" % (link["a"], link["b"]), "%s-%s" % (link["b"], link["a"])):
                self.ends = (link["a"], link["b"])
                return
        raise LabError('--kill: "%s": no switch, server or link of the topology' % self.node)


class Job:
    """Daemons, controller and ranks of one algorithm, on a network that is up."""

    def __init__(self, net, tools, algorithm, kills):
        self.net, self.tools, self.algorithm, self.kills = net, tools, algorithm, kills
        self.args, self.layout = tools.args, net.layout
        self.daemons = {}
        self.socket = tools.path("controller.sock")
        self.dial = "%s:%d" % (CONTROLLER, CONTROLLER_PORT)
        self.events = []

    def run(self, topology, install, iteration_bytes, planned_s):
        """What rank 0 of `fanin bench` reports, with what the controller knew at the end."""
        try:
            self._start_daemons(topology)
            self.net.set_filters(install)
            window = window_of(self.args.window, install)
            ranks = self._start_ranks(iteration_bytes, largest_window(window, install))
            idle = self._wait(ranks, planned_s)
            with open(self.tools.path("bench.json"), encoding="utf-8") as file:
                result = json.load(file)["results"][0]
            status = None if "controller" in self._dead() else self.ask("status json")
            return dict(result, cpu_idle=idle, events=self.events, status=status)
        finally:
            self.net.stop(list(self.net.children))
            self.net.unblock()
            self.daemons = {}

    # ---- daemons --------------------------------------------------------------------------

    def _start_daemons(self, topology):
        self.topology = topology
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self._start("controller")
        for node in self.layout.nodes:
            if node.kind != "worker":
                self._start(node.name)
        deadline = time.monotonic() + UP_TIMEOUT_S
        while True:
            self._check_daemons()
            missing = self._not_up()
            if not missing:
                return
            if time.monotonic() > deadline:
                raise LabError("after %d s the controller does not see: %s"
                               % (UP_TIMEOUT_S, ", ".join(missing)))  # fmt: skip
            time.sleep(5 * POLL_S)

    def _start(self, name):
        fanin = self.tools.fanin
        log = self.tools.path("%s.%s.log" % (self.algorithm, name))
        if name == "controller":
            host = self.net.controller
            argv = [fanin, "controller", "--listen", self.dial, self.topology, "--plan",
                    self.tools.path(self.algorithm + ".plan.json"), "--socket", self.socket,
                    "--sums-at", self.args.sums_at]  # fmt: skip
        else:
            node = self.layout.by_name[name]
            host = self.net.hosts[name]
            argv = [fanin, node.kind, "--listen", node.listen, "--controller", self.dial,
                    "--name", name]  # fmt: skip
            if node.kind == "switch":
                argv += ["--policy", self.args.policy]
        self.daemons[name] = self.net.start(host, argv, log)

    def _dead(self):
        return [name for name, child in self.daemons.items() if child.poll() is not None]

    def _check_daemons(self):
        expected = {kill.node for kill in self.kills if not kill.ends}
        for name in self._dead():
            if name not in expected:
                raise LabError("%s ended: %s" % (name, tail(self.daemons[name])))

    def _not_up(self):
        status = self.ask("status json")
        if status is None:
            return ["anything: it does not answer yet"]
        return [n["name"] for n in status["nodes"] if n["kind"] != "worker" and n["state"] != "up"]

    def ask(self, line):
        """The controller's answer as JSON; None: there is none."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(ASK_TIMEOUT_S)
            try:
                s.connect(self.socket)
                s.sendall(line.encode() + b"\n")
                answer = b"".join(iter(lambda: s.recv(65536), b""))
                return json.loads(answer)
            except (OSError, ValueError):
                return None

    # ---- ranks ----------------------------------------------------------------------------

    def _start_ranks(self, iteration_bytes, window):
        config, ranks = self._write_keys(), []
        for rank, node in enumerate(self.layout.ranks):
            argv = ["env", "FANIN_CONFIG=" + config, "FANIN_WINDOW=%d" % window,
                    self.tools.fanin, "bench", "--controller", self.dial,
                    "--job", self.layout.job, "--rank", str(rank),
                    "--ranks", str(len(self.layout.ranks)),
                    "-b", str(iteration_bytes), "-e", str(iteration_bytes),
                    "-n", str(ITERATIONS), "-w", "1"]  # fmt: skip
            if rank == 0:
                argv += ["--json", self.tools.path("bench.json")]
            log = self.tools.path("%s.rank%d.log" % (self.algorithm, rank))
            ranks.append(self.net.start(self.net.hosts[node.name], argv, log))
        return ranks

    def _write_keys(self):
        """An INI file of the ranks: the user's, with the lab's own keys."""
        keys = configparser.ConfigParser(interpolation=None, strict=False)
        keys.read_dict({"worker": {}})
        keys.read(os.environ.get("FANIN_CONFIG", ""))
        keys["worker"].update(rto_min_ms=str(RTO_MIN_MS), multicast="0")
        with open(self.tools.path("ranks.ini"), "w", encoding="utf-8") as file:
            keys.write(file)
        return file.name

    def _joined(self):
        status = self.ask("status json")
        return bool(status) and any(
            job.get("joined") == len(self.layout.ranks) for job in status["jobs"]
        )

    def _wait(self, ranks, planned_s):
        """Until all ranks are done; kills what is to be killed.  The share of idle processors."""
        deadline = time.monotonic() + 4 * planned_s + EXTRA_S
        begun = None
        pending = sorted([(k.at_s, False, k) for k in self.kills]
                         + [(k.at_s + k.back_s, True, k) for k in self.kills
                            if k.back_s is not None], key=lambda p: p[:2])  # fmt: skip
        before = cpu_times()
        while True:
            self._check_daemons()
            codes = [child.poll() for child in ranks]
            for rank, code in enumerate(codes):
                if code:
                    raise LabError("rank %d: exit status %d: %s" % (rank, code, tail(ranks[rank])))
            if None not in codes:
                return idle_share(before, cpu_times())
            if time.monotonic() > deadline:
                rank = codes.index(None)
                raise LabError("rank %d is not done after %d s: %s"
                               % (rank, 4 * planned_s + EXTRA_S, tail(ranks[rank])))  # fmt: skip
            if begun is None and (not pending or self._joined()):
                begun = time.monotonic()
                before = cpu_times()
            while pending and begun is not None and time.monotonic() >= begun + pending[0][0]:
                self._strike(*pending.pop(0)[1:])
            time.sleep(POLL_S)

    def _strike(self, back, kill):
        if kill.ends:
            self.net.block(*kill.ends, not back)
            what = "passes again" if back else "nothing passes"
        elif back:
            self._start(kill.node)
            what = "started again"
        else:
            signal_group(self.daemons[kill.node], 9)
            what = "killed"
        self.events.append({"node": kill.node, "what": what})


def cpu_times():
    """(idle, all) ticks of all processors so far."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(x) for x in file.readline().split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def idle_share(before, after):
    return (after[0] - before[0]) / max(after[1] - before[1], 1)

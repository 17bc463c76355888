# SPDX-License-Identifier: Apache-2.0
"""What the bench commands share: running the systems under test, checking that
their sums were right, and the figures they print and write.

Every process is started through Processes, which knows it by its id, gives it a
deadline, and ends it, and nothing else, on exit, error and Ctrl-C.
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(BENCH)
sys.path.append(os.path.join(ROOT, "tools"))
import records  # noqa: E402  pylint: disable=wrong-import-position

TENSOR_BYTES = 16 << 20
LISTEN_TIMEOUT_S = 300
KILL_TIMEOUT_S = 3
POLL_S = 0.01
BUSY_LOAD = 1.0
SKIP = 77
SERIES = ("starts_us", "times_us")  # of `fanin bench`, one value an all-reduce


class BenchError(Exception):
    """A run that failed or summed wrong; its text says which and why."""


# ---------------------------------------------------------------- processes

class Processes:
    """Children of this command.  `with Processes() as procs:` leaves none behind."""

    def __init__(self):
        self.children = []
        self.folder = None

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="fanin-bench-")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return self

    def __exit__(self, *_):
        self.stop(self.children)
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, argv, env=None):
        """Start argv as the leader of its own processes; its output goes to files in the folder."""
        number = len(os.listdir(self.folder))
        stem = self.path("%d.%s" % (number, os.path.basename(argv[0])))
        with open(stem + ".out", "wb") as out, open(stem + ".err", "wb") as err:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                     start_new_session=True,
                                     env=dict(os.environ, **(env or {})))
        child.stem = stem
        self.children.append(child)
        return child

    def wait(self, children, timeout_s, servers=(), sample=None):
        """Until all children succeed, calling sample() every POLL_S.  BenchError when
        one fails or is late, or when one of `servers` ends before they do; all of
        them are stopped then."""
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                if sample:
                    sample()
                codes = [child.poll() for child in children]
                for child, code in zip(children, codes):
                    if code not in (None, 0):
                        raise BenchError("%s: exit code %d\n%s"
                                         % (command(child), code, output_tail(child)))
                for server in servers:
                    if server.poll() is not None:
                        raise BenchError("%s: ended early, exit code %d\n%s" % (
                            command(server), server.returncode, output_tail(server)))
                if None not in codes:
                    return
                if time.monotonic() > deadline:
                    late = children[codes.index(None)]
                    raise BenchError("%s: not done after %d s\n%s"
                                     % (command(late), timeout_s, output_tail(late)))
                time.sleep(POLL_S)
        except BaseException:
            self.stop(list(children) + list(servers))
            raise

    def stop(self, children):
        """End these children and what they started in their groups, politely
        and then not, and forget them."""
        running = [child for child in children if child.poll() is None]
        for child in running:
            os.killpg(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + KILL_TIMEOUT_S
        for child in running:
            try:
                child.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        self.children = [child for child in self.children if child not in children]


def command(child):
    return " ".join(child.args)


def output_tail(child):
    """The last lines that the child printed, for an error message."""
    lines = []
    for end in (".out", ".err"):
        with open(child.stem + end, errors="replace") as file:
            lines += file.read().splitlines()[-15:]
    return "\n".join("    " + line for line in lines)


def wait_listening(server, port):
    """Until `server` has a UDP socket on `port`, seen in its own namespace."""
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise BenchError("%s: exit code %d\n%s"
                             % (command(server), server.returncode, output_tail(server)))
        for table in ("udp", "udp6"):
            try:
                with open("/proc/%d/net/%s" % (server.pid, table)) as file:
                    if re.search(r":%04X [0-9A-F]+:0000 " % port, file.read()):
                        return
            except OSError:
                pass
        time.sleep(POLL_S)
    raise BenchError("%s: port %d is not open after %d s\n%s"
                     % (command(server), port, LISTEN_TIMEOUT_S, output_tail(server)))


# ---------------------------------------------------------------- programs

def program(build, name, wanted_for):
    """The path of a built program, or None with a line that says what is missing."""
    for folder in ("", "bench", "bench/peers"):
        path = os.path.join(build, folder, name)
        if os.access(path, os.X_OK):
            return os.path.abspath(path)
    print("%s is not in %s: %s" % (name, build, wanted_for), file=sys.stderr)
    return None


PEERS = {  # program, name, and what it needs when the build is set up
    "gloo": ("gloo_allreduce", "Gloo", "libgloo-dev"),
    "mpi": ("mpi_allreduce", "Open MPI", "libopenmpi-dev and openmpi-bin"),
    "mpich": ("mpich_allreduce", "MPICH", "libmpich-dev and mpich"),
    "ccl": ("ccl_allreduce", "oneCCL", "PyPI's oneccl-cpu-devel: bench/README.md"),
}


def programs(build, wanted=("fanin", "gloo", "mpi")):
    """{"fanin": path, "gloo": path or None, ...}; "ucc" is Open MPI's, where it has UCC."""
    found = dict.fromkeys(("fanin", *PEERS, "ucc"))
    found["fanin"] = program(build, "fanin", "build it first (ninja -C %s all benches)" % build)
    if found["fanin"] is None:
        raise BenchError("nothing to measure")
    for key, (file, name, needs) in PEERS.items():
        if key in wanted:
            found[key] = program(build, file, "SKIPPED: %s (needs %s)" % (name, needs))
    if "ucc" in wanted and found["mpi"]:
        info = subprocess.run(["ompi_info", "--parsable"], capture_output=True, text=True, timeout=60)
        found["ucc"] = found["mpi"] if "mca:coll:ucc:" in info.stdout else None
    if "ucc" in wanted and not found["ucc"]:
        print("SKIPPED: UCC (needs an Open MPI that is built with it)", file=sys.stderr)
    return found


def peer(name):
    """The path of a script in bench/peers."""
    return os.path.join(BENCH, "peers", name)


def torch_python():
    """A Python that has PyTorch: Debian's package is for Debian's Python, which need not be the
    first on the PATH.  SKIPPED ends the command."""
    for python in ("python3", "/usr/bin/python3"):
        path = shutil.which(python)
        if path and subprocess.run([path, "-c", "import torch"], capture_output=True,
                                   timeout=300).returncode == 0:
            return path
    print("SKIPPED: needs PyTorch (Debian: python3-torch)")
    sys.exit(SKIP)


def make_keys(fanin, procs):
    """The files of a fabric's key, and of one of jobs that are named bench/..."""
    fabric, tenant = procs.path("fabric.key"), procs.path("tenant.key")
    for argv in (["new", "--out", fabric], ["job", "bench", "--key", fabric, "--out", tenant]):
        if subprocess.run([fanin, "key"] + argv, timeout=300, check=False).returncode != 0:
            raise BenchError("fanin key")
    return fabric, tenant


def worker_keys(path, **keys):
    """The environment of ranks that find these keys in an INI file, which is written to `path`."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("[worker]\n" + "".join("%s = %s\n" % row for row in keys.items()))
    return {"FANIN_CONFIG": path}


def package_environment(build):
    """The variables with which Python finds this checkout's package and library."""
    return {"PYTHONPATH": os.path.join(ROOT, "python"),
            "FANIN_LIBRARY": os.path.abspath(os.path.join(build, "src", "libfanin.so.0"))}


def mpi_command(name, ranks, hosts=None, transports="tcp,self", parameters=(), variables=None,
                pml="ob1"):
    """mpirun's part of the command: TCP between hosts.  It yields when idle, because there
    are more ranks than cores: without that it takes 4 to 7 times as long here.  `transports`: of
    UCX where that is the `pml`, otherwise of Open MPI itself."""
    interfaces = "10.77.0.0/24" if hosts else "lo"
    argv = mpirun(ranks) + [
        "--mca", "pml", pml, "--mca", "mpi_yield_when_idle", "1",
        "--mca", "btl_tcp_if_include", interfaces, "--mca", "oob_tcp_if_include", interfaces]
    if pml == "ucx":  # which by itself leaves plain Ethernet to ob1
        argv += ["--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
                 "-x", "UCX_TLS=" + transports]
    else:
        argv += ["--mca", "btl", transports]
    for key, value in parameters:
        argv += ["--mca", key, str(value)]
    for key, value in (variables or {}).items():
        argv += ["-x", "%s=%s" % (key, value)]
    if hosts:
        argv += ["--host", ",".join(hosts), "--mca", "plm_rsh_no_tree_spawn", "1",
                 "--mca", "plm_rsh_agent", NETNS_RSH,
                 "-x", "FANIN_NETNS"]
    return argv + [name]


NETNS_RSH = os.path.join(BENCH, "peers", "netns_rsh")
# TCP between hosts, and cores that are given away where there are fewer than ranks.
MPICH = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}
ONECCL = {"CCL_ATL_TRANSPORT": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0",
          "CCL_KVS_IFACE": "eth0", "CCL_PROCESS_LAUNCHER": "none", "CCL_YIELD": "sched_yield"}
for variable in ("LD_LIBRARY_PATH", "FI_PROVIDER_PATH") if "ONECCL" in os.environ else ():
    ONECCL[variable] = os.path.join(os.environ["ONECCL"], "lib")
UCC = (("coll_ucc_enable", 1), ("coll_ucc_priority", 100))


def mpich_command(name, ranks, hosts, meeting):
    """Over hosts; mpirun itself is at the address `meeting`."""
    return ["mpirun.mpich", "-n", str(ranks), "-launcher", "rsh", "-launcher-exec", NETNS_RSH,
            "-localhost", meeting, "-hosts", ",".join(hosts), name]


def mpirun(ranks):
    """mpirun's part of a command for ranks of this host, more than it has cores."""
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]


def read_result(path, what):
    """The first result in a bench JSON file, whatever follows; BenchError unless every sum was right."""
    try:
        with open(path) as file:
            result = json.JSONDecoder().raw_decode(file.read().lstrip())[0]["results"][0]
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise BenchError("%s: no result in its JSON: %s" % (what, error)) from error
    if result.get("wrong") != 0:
        raise BenchError("%s: WRONG SUM: %s wrong elements" % (what, result.get("wrong")))
    return result


def recorded(name):
    """The whole result of a bench that was recorded here."""
    try:
        with open(records.whole(name)) as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise BenchError("%s; `tools/record %s` makes it" % (error, name)) from error


# ---------------------------------------------------------------- perf

# What a function does, the first that fits its name's beginning: of the kernel, libfanin, Gloo or
# libc.  A sample that blocked interrupts have put off falls on whoever lets them in again: the
# spinlocks' and finish_task_switch, which end wake-ups, and do_syscall_64.
WORK = (
    ("the bench's own", r"bench_(fill|wrong|expect)"),
    ("copies", r"_?copy_(user|from|to|page)|_?_?copy_\w*iter|rep_(movs|stos)|_?_?mem(cpy|move|set)|"
     r"skb_copy|skb_store|fan_copy|clear_page|csum_(partial_copy|and_copy)"),
    ("sums", r"(fan_)?(sum|add|cut)_[fbi]\d+|fan_\w*(sum|reduce)|gloo::(sum|reduce)|"
     r"std::_Function_handler<void \(void\*, void const\*, void const\*"),
    ("wake-ups", r"finish_task|_?_?schedul|sched_|\w*try_to_wake|ttwu|_?_?wake|\w*wakeup|\w*futex|"
     r"\w*epoll|ep_|eventfd|do_poll|\w*_poll$|\w*timer|clockevent|tick_|(en|de)queue_(task|entit)|"
     r"\w*pick_|\w*_curr|set_next|put_prev|select_|_raw_(spin|read|write)|native_queued|\w*_ipi|"
     r"\w*smp_call|\w*resched|_?_?switch_|place_entity|\w*vruntime|\w*load_avg|update_|\w*wait|"
     r"\w*mutex|\w*pthread_(cond|mutex)|\w*lll_|\w*clock_get|ktime|read_tsc|kvm_clock|pvclock|"
     r"rcu_|cpuacct|psi_|\w*load_balance|nohz|dl_|timekeeping|__put_user|std::(condition|mutex)|"
     r"gloo::transport::tcp::Loop|irqentry|asm_sysvec|sysvec"),
    ("headers", r"\w*(udp|tcp|ip6?_|inet|skb|sock|veth|netif|net_rx|backlog|napi|gro_|gso|dev_|"
     r"qdisc|kmalloc|kfree|kmem_cache|slab|page|folio|send|recv|msg|csum|fib_|dst_|neigh|eth_|iov|"
     r"obj_cgroup|softirq)|br_|tbf|sch_|fq_|nf_|nft_|rt_|fdget|fget|fput|entry_|do_syscall|syscall|"
     r"_*x64_sys|sk_|lock_sock|security_|aa_|apparmor|consume|fan_|gloo::|_*GI___pthread_\w*async|"
     r"\w*exit_to_user|ksys_|vfs_|fdb_|validate_|\w*checksum|memcg|refill|\w*read_iter|"
     r"\w*write_iter|__libc_"),
)
OTHER_WORK = "other"
WORKS = tuple(name for name, _ in WORK) + (OTHER_WORK,)
IDLE = re.compile(r"\w*safe_halt|default_idle|acpi_idle|intel_idle|do_idle|cpuidle|cpu_startup|"
                  r"\w*mwait|poll_idle")
PERF_HZ = 1499
PERF_BEGIN_S = 0.3
PERF_REPORT_S = 100
TOP = 25  # functions that are kept


def work_of(function):
    return next((name for name, names in WORK if re.match(names, function)), OTHER_WORK)


class Perf:
    """Samples of all processors for as long as it is open."""

    def __init__(self, procs):
        self.procs, self.process = procs, None
        self.path = procs.path("perf.data")

    def __enter__(self):
        self.process = self.procs.start(["perf", "record", "-q", "-a", "-N", "-F", str(PERF_HZ), "-e",
                                         "cpu-clock", "-o", self.path])
        time.sleep(PERF_BEGIN_S)
        return self

    def __exit__(self, *_):
        self.procs.stop([self.process])

    def works(self, pids):
        """Nanoseconds of these processes, and of what the kernel does while a processor is idle, by
        work, and the functions that took most."""
        kernel = ["swapper"] + ["ksoftirqd/%d" % n for n in range(os.cpu_count())]
        functions = self.functions("--pid", pids)
        if not functions:
            raise BenchError("perf has no samples\n%s" % output_tail(self.process))
        for function, ns in self.functions("--comms", kernel).items():
            if not IDLE.match(function):
                functions[function] = functions.get(function, 0) + ns
        works = {}
        for function, ns in functions.items():
            works[work_of(function)] = works.get(work_of(function), 0) + ns
        top = sorted(functions.items(), key=lambda one: -one[1])[:TOP]
        return works, [{"function": function, "work": work_of(function), "ns": ns}
                       for function, ns in top]

    def functions(self, flag, whose):
        """{function: nanoseconds}.  By thread: of a function that other processes call too perf would
        drop all, or count all, by who was seen in it first."""
        done = subprocess.run(["perf", "report", "-q", "-i", self.path, "--no-children", "--stdio", flag,
                               ",".join(str(one) for one in whose), "-F", "period,pid,symbol", "-t", "|"],
                              capture_output=True, text=True, timeout=PERF_REPORT_S,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise BenchError("perf report: exit code %d\n%s" % (done.returncode, done.stderr))
        found = {}
        for line in done.stdout.splitlines():
            ns, _, rest = line.partition("|")
            symbol = rest.partition("|")[2]
            if ns.strip().isdigit():
                name = re.sub(r"^\[[.k]\] |\(anonymous namespace\)::", "", symbol.strip())
                found[name] = found.get(name, 0) + int(ns)
        return found


# ---------------------------------------------------------------- figures

class Figures:
    """Figures asked and obtained, the raw results behind them, a table and JSON."""

    def __init__(self, title):
        self.title = title
        self.figures = []
        self.results = []
        self.seed = None  # no bench draws random numbers of its own
        self.machine = records.machine()
        warn_if_busy()

    def record(self, system, round_number, result):
        """Keep it, but for its iterations one by one."""
        kept = {key: value for key, value in result.items() if key not in SERIES}
        self.results.append(dict(kept, system=system, round=round_number))

    def median(self, system, key="time_us_p50"):
        """Over the rounds; None when the system did not run."""
        values = [r[key] for r in self.results if r["system"] == system]
        return statistics.median(values) if values else None

    def median_of(self, key):
        """Of key(result) over all results that have it; None when none has."""
        values = [key(r) for r in self.results if key(r) is not None]
        return statistics.median(values) if values else None

    def ratio(self, name, asked, slower, faster):
        """How many times as fast as `slower` `faster` is."""
        slow, fast = self.median(slower), self.median(faster)
        self.add(name, asked, slow / fast if slow and fast else None, "x")

    def add(self, name, asked, obtained, unit, at_most=False):
        """`asked` None: for information.  `obtained` None: was not measured."""
        holds = None
        if asked is not None and obtained is not None:
            holds = obtained <= asked if at_most else obtained >= asked
        self.figures.append({"name": name, "asked": asked, "obtained": obtained, "unit": unit,
                             "at_most": at_most, "holds": holds})

    def print(self):
        systems = list(dict.fromkeys(r["system"] for r in self.results))
        if systems:
            print("\n%-44s %10s %10s %12s" % ("system", "time ms", "p99 ms", "linkbw GB/s"))
        for system in systems:
            print("%-44s %10.1f %10.1f %12.4f" % (
                system, self.median(system) / 1e3, self.median(system, "time_us_p99") / 1e3,
                self.median(system, "linkbw_GBps")))
        print("\n%-68s %12s %10s  %s" % (self.title, "asked", "obtained", "holds"))
        for f in self.figures:
            print("%-68s %12s %10s  %s" % (
                f["name"], limit_text(f),
                "SKIPPED" if f["obtained"] is None else number_text(f["obtained"], f["unit"]),
                {True: "yes", False: "no", None: "-"}[f["holds"]]))

    def write(self, path, settings):
        document = {"figures": self.figures, "results": self.results, "seed": self.seed,
                    "revision": records.revision(), "settings": dict(settings, machine=self.machine)}
        with open(path, "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")

    def exit_code(self, strict):
        return 1 if strict and any(f["holds"] is False for f in self.figures) else 0


def number_text(value, unit):
    if value >= 1000:
        return "%.0f %s" % (value, unit)
    if 0 < abs(value) < 0.01:
        return "%.1e %s" % (value, unit)
    return "%.3f %s" % (value, unit)


def limit_text(figure):
    if figure["asked"] is None:
        return "-"
    return "%s %s" % ("<=" if figure["at_most"] else ">=",
                      ("%g %s" % (figure["asked"], figure["unit"])).strip())


def warn_if_busy():
    """Ratios survive a busy machine only so far: who spins when idle suffers more."""
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print("the machine is busy (load %.1f): figures will be off" % load, file=sys.stderr)


def add_flags(parser):
    """The flags that every bench command has."""
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR",
                        help="where the programs were built (default: build)")
    parser.add_argument("--json", metavar="FILE", help="write figures and raw results")
    parser.add_argument("--quick", action="store_true", help="few iterations, one round")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a figure is missed")


def finish(figures, args, settings):
    figures.print()
    if args.json:
        figures.write(args.json, dict(settings, quick=args.quick))
    return figures.exit_code(args.strict)


def main(run):
    """Run a command's main; a failure is one message and exit code 1, never a trace."""
    try:
        sys.exit(run())
    except BenchError as error:
        print("FAILED: %s" % error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)

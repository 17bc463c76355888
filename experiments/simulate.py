# SPDX-License-Identifier: Apache-2.0
"""A plan's rate, run packet by packet in virtual time on the plan's own routes."""

import json
import os
import signal
import subprocess
import sys
import tempfile

from planlib import ROOT, TIMEOUT_S

sys.path[:0] = [os.path.join(ROOT, "page"), os.path.join(ROOT, "simulator", "lab")]
from layout import WIRE, Layout  # noqa: E402  pylint: disable=wrong-import-position


def simulated_rate(fanin, spec, way, settings):
    """(planned, simulated, ratio) of the plan that `fanin plan spec -a way` installs, in Gb/s;
    the latter two None: it was not over in settings["limit_s"] of processor time."""
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        argv = [fanin, "plan", spec, "-a", *way, "--no-bound"]
        argv += ["--json", at("plan"), "--install", at("install"), "--topology", at("topology")]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
        with open(at("plan"), encoding="utf-8") as file:
            planned = json.load(file)["with_results_gbps"]
        with open(at("install"), encoding="utf-8") as file:
            install = json.load(file)
        with open(at("topology"), encoding="utf-8") as file:
            scenario = Layout(json.load(file)).scenario(install, 1)
        scenario["jobs"][0]["model"]["numel"] = settings["elements"]
        scenario["jobs"][0]["window"] = settings["window"]
        with open(at("scenario"), "w", encoding="utf-8") as file:
            json.dump(scenario, file)
        limited = ["prlimit", "--cpu=%d:%d" % (settings["limit_s"], settings["limit_s"] + 1)]
        try:
            subprocess.run([*limited, fanin, "sim", at("scenario"), "-q", "--json", at("sim")],
                           check=True, capture_output=True)  # fmt: skip
        except subprocess.CalledProcessError as error:
            if error.returncode != -signal.SIGXCPU:
                raise
            return planned, None, None
        with open(at("sim"), encoding="utf-8") as file:
            jobs = json.load(file)["jobs"]
        failed = [job["error"] for job in jobs if job["error"]]
        if failed:
            raise RuntimeError("%s: %s" % (spec, failed[0]))
        took = max(job["comm_s"] for job in jobs)
    gbps = settings["elements"] * 32 * WIRE / took / 1e9
    return planned, gbps, gbps / planned

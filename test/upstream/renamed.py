# SPDX-License-Identifier: Apache-2.0
"""A test of PyTorch's with the backend "gloo" made "fanin"."""
import os
import re

# "gloo" and "cpu:gloo,cuda:nccl" as whole strings.
NAME = re.compile(r"""(["'])((?:[a-z0-9:]+,)?(?:cpu:)?)gloo((?:,[a-z0-9:]+)?)\1""")
# Gloo by its constant, as what a test uses without a GPU.
CHOSEN = re.compile(r"(\belse|\bBACKEND =) dist\.Backend\.GLOO\b")
# Whether PyTorch has Gloo: fanin has the same need; and what is expected of Gloo by its constant.
ASKS = ("is_gloo_available", "Backend.GLOO")
# Whether the backend of the tests is there, asked before Gloo's name.
HAS = re.compile(r"\bif backend (==|!=) dist\.Backend\.GLOO:")
# A call of Gloo's own, whose result no test uses.
OWN = re.compile(r"\bbackend\.create_device\(interface=LOOPBACK\)")
# The first import of PyTorch.
FIRST = re.compile(r"^(?=(?:import|from) torch\b)", re.MULTILINE)
IMPORT = "import renamed; renamed.begin()  # noqa\n"


def begin() -> None:
    """In each process of the tests: fanin is what PyTorch takes for CPUs, where a test names no backend.  A test
    that makes a group of it is noted in the file $NOTES."""
    from fanin import _group, torch

    defaults = torch.dist.Backend.default_device_backend_map
    if defaults["cpu"] == "fanin":
        return
    defaults["cpu"] = "fanin"
    make = _group.FaninGroup.__init__

    def make_noted(*given, **named):
        make(*given, **named)
        with open(os.environ["NOTES"], "a", encoding="utf-8") as f:
            f.write(os.environ.get("PYTEST_CURRENT_TEST", "") + "\n")

    _group.FaninGroup.__init__ = make_noted


def text(source: str) -> str:
    lines = []
    for line in source.split("\n"):
        line = CHOSEN.sub(r'\1 "fanin"', line)
        asked = HAS.search(line)
        if asked:
            which = "in" if asked.group(1) == "==" else "not in"
            line = HAS.sub(f'if backend {which} (dist.Backend.GLOO, "fanin"):', line)
        elif not any(word in line for word in ASKS):
            line = OWN.sub("pass", NAME.sub(r"\1\2fanin\3\1", line))
        lines.append(line)
    renamed = "\n".join(lines)
    return renamed if renamed == source else FIRST.sub(IMPORT, renamed, count=1)

# SPDX-License-Identifier: Apache-2.0
"""A test of PyTorch's with the backend "gloo" made "fanin"."""
import re

# "gloo" and "cpu:gloo,cuda:nccl" as whole strings.
NAME = re.compile(r"""(["'])((?:[a-z0-9:]+,)?(?:cpu:)?)gloo((?:,[a-z0-9:]+)?)\1""")
# Whether PyTorch has Gloo: fanin has the same need; and what is expected of Gloo by its constant.
ASKS = ("is_gloo_available", "Backend.GLOO")
# Whether the backend of the tests is there, asked before Gloo's name.
HAS = re.compile(r"\bif backend (==|!=) dist\.Backend\.GLOO:")
# A call of Gloo's own, whose result no test uses.
OWN = re.compile(r"\bbackend\.create_device\(interface=LOOPBACK\)")
IMPORT = "import fanin.torch  # noqa\n"


def text(source: str) -> str:
    lines = []
    for line in source.split("\n"):
        asked = HAS.search(line)
        if asked:
            which = "in" if asked.group(1) == "==" else "not in"
            line = HAS.sub(f'if backend {which} (dist.Backend.GLOO, "fanin"):', line)
        elif not any(word in line for word in ASKS):
            line = OWN.sub("pass", NAME.sub(r"\1\2fanin\3\1", line))
        lines.append(line)
    renamed = "\n".join(lines)
    at = renamed.find("import torch\n")
    if renamed != source and (at == 0 or renamed[at - 1 : at] == "\n"):
        at += len("import torch\n")
        renamed = renamed[:at] + IMPORT + renamed[at:]
    return renamed

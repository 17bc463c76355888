# SPDX-License-Identifier: Apache-2.0
"""`python3 -m fanin.operate.controller`: what `fanin controller` executes."""

import sys

from .command import main

sys.exit(main(sys.argv[1:]))

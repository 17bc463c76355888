#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn a text into the lines of a C string literal: tools/c-string.py TEXT OUT."""

import sys

with open(sys.argv[1], encoding="utf-8") as page, open(sys.argv[2], "w", encoding="utf-8") as out:
    for line in page:
        text = line.rstrip("\n").replace("\\", "\\\\").replace('"', '\\"')
        out.write('\t"%s\\n"\n' % text)

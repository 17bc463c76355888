#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A page as lines of a C string literal, and the Content-Security-Policy of the one style and one script in it
as another: tools/page-text.py PAGE TEXT POLICY."""

import base64
import hashlib
import re
import sys


def own(page, tag):
    """The hash of what stands between <tag> and </tag>."""
    inside = re.findall("<%s>(.*?)</%s>" % (tag, tag), page, re.DOTALL)
    assert len(inside) == 1, "%s: expected one <%s>" % (sys.argv[1], tag)
    digest = hashlib.sha256(inside[0].encode()).digest()
    return "'sha256-%s'" % base64.b64encode(digest).decode()


with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
POLICY = [
    "default-src 'none'",
    "script-src " + own(text, "script"),
    "style-src " + own(text, "style"),
    "img-src data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
]
with open(sys.argv[2], "w", encoding="utf-8") as out:
    for line in text.splitlines():
        out.write('\t"%s\\n"\n' % line.replace("\\", "\\\\").replace('"', '\\"'))
with open(sys.argv[3], "w", encoding="utf-8") as out:
    out.write('\t"%s"\n' % "; ".join(POLICY))

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Print a Python that has PyTorch.  Debian's package is for Debian's Python, which need
# not be the first on the PATH; PYTHON names another.  Exit 1, with a word, if none has.
for python in ${PYTHON:-python3 /usr/bin/python3}; do
        if "$python" -c 'import torch' >/dev/null 2>&1; then
                command -v "$python"
                exit 0
        fi
done
echo "no Python with PyTorch is here (Debian: python3-torch)" >&2
exit 1

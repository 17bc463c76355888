# SPDX-License-Identifier: Apache-2.0
"""`fanin top` and `fanin ps`: what ranks and the jobs of switches do, and for whom they wait.

`typing` takes longer to import than all these modules, so only type checkers see it imported.
"""

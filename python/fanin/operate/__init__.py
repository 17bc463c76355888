# SPDX-License-Identifier: Apache-2.0
"""What an operator runs: `fanin controller`, `fanin doctor`, `fanin top`, `fanin ps`."""

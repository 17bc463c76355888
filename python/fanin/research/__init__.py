# SPDX-License-Identifier: Apache-2.0
"""What people read and write of simulations: scenarios, sweeps, models, tables.

`fanin sim` is fanin.research.sim; the simulator itself is in C (engine.py).
"""

# SPDX-License-Identifier: Apache-2.0
"""`fanin doctor`: prints what `fanin probe` finds, and forecasts all-reduces by what it measures."""

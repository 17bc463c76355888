# SPDX-License-Identifier: Apache-2.0
"""`fanin controller`: puts plans to work on many switches and servers.

Daemons register and report their health, workers ask to join, and people send orders.  The
controller plans jobs on the nodes that are up, installs routes in switches, assigns parts to
workers, and mends plans after failures.  doc/controller.md describes the lines, adr 11 the reasons.

From the bottom: limits; model (nodes, links, rules, routes, jobs); lines (from text to checked
messages); core (the state, and what sends, logs and asks for plans); routes, links, load, jobs,
drains, nodes (what a message changes); planner, drafts, plans (plans by `fanin plan`); saved,
reports, orders; dispatch (a line or a tick to its handler); sockets and serve.  Each imports those
before it.  Times are seconds of the monotonic clock.
"""

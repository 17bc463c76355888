# SPDX-License-Identifier: Apache-2.0
"""Bounds and times of the controller; those of the network's protocol are the C headers'."""

from __future__ import annotations

JOBS_MAX = 256  # each group of one counts
JOB_NAME_MAX = 56  # "/63~999" follows in the name of a part
RANKS_MAX = 256  # workers of a job or group
PARTS_MAX = 64  # of a job
SHARDS_MAX = 64  # threads of a daemon
SLOTS_MAX = 65536 * SHARDS_MAX
SWITCH_ROUTES_MAX = 256  # routes in one switch
NUMBER_MAX = 65535  # of a route
CUT_WHOLE = 1 << 32  # cuts of tensors are in units of 1 / CUT_WHOLE

CONNECTIONS_MAX = 4096  # of daemons and workers
NAMELESS_MAX = 64  # connections of one host that have not said who they are
NAMELESS_BYTES = 8192  # of their first line: all routes of a switch fit
LINE_BYTES = 1 << 20  # of a line, its LF included
OUT_BYTES = 8 << 20  # that wait to be sent on a connection
ASKERS_MAX = 32  # people who ask at a time
ROUTES_MAX = 4096  # route numbers in use at a time
BESIDE_MAX = 256  # neighbours of a daemon
EVENTS_MAX = 64  # kept for `status`
EVENT_BYTES = 255  # text of an event
WHY_BYTES = 319  # text of an error
ADDRESS_BYTES = 79  # ADDR:PORT
REFUSALS_MAX = 4  # refusals of a job's routes until it waits for a change
SLICE = 32  # elements of a plan that are written, read or sent at a time
TURNS = 4  # of the loop, that others have before the next ones
OVERTAKEN_MAX = 3  # outdated plans in a row until one is completed nevertheless
DESCRIPTORS_SPARE = 40  # for files, people and the planner

SILENT_S = 1.0  # silence after which a daemon counts as lost
SOON_S = 0.01  # for what many daemons cause at a time
AWAKE_S = 0.25  # longest time between two ticks unless suspended
BACK_S = 0.4  # time for a server to reconnect before it is lost
NAMELESS_S = 10.0  # time for a connection to send its first line
ASK_S = 2.0  # time for a question, or for reading some of its answer
PAUSE_S = 1.0  # pause of accepting when descriptors have run out
SETTLE_S = 0.02  # from a failure to mending the plan
ARRIVAL_S = 0.1  # from a node's arrival to planning
LINGER_S = 3.0  # life of routes to a lost aggregator, for LEAVEs
ABSENT_S = 10.0  # how long a disconnected worker keeps its routes
STRAY_S = 30.0  # life of an earlier controller's unused routes
HOLD_S = 2.0  # from a link's return to its use; doubles each time
HOLD_MAX_S = 64.0
CALM_S = 300.0  # time without failures that resets doublings
BLAME_S = 2.0  # a node lost within it explains failed links
LOOK_S = 3.0  # between searches for better paths by load
OFFER_S = 10.0  # from a daemon's arrival to a search for paths over it
OFFER_DOUBLINGS = 6  # most doublings of that, one for each recent loss
AGAIN_S = 5.0  # between attempts to write a file after a failure
JSON_S = 0.25  # least time between two writes of the status

# Traffic of others on a link, as daemons measure it: shares are of the link's rate.
OTHERS_STEP = 0.1  # smaller changes are ignored
OTHERS_MOST = 0.9  # highest share that counts
OTHERS_OLD_S = 2.0  # how long a report counts
OTHERS_RISE_S = 1.0  # how long a rise must last before it counts
OTHERS_FALL_S = 10.0  # how long a fall must last; doubled for each recent rise
OTHERS_DOUBLINGS = 6

WORTH = 1.1  # how many times the rate makes moving working flows worthwhile
SAME = 0.01  # share of a rate: smaller changes are not sent to workers
LEFT_MIN = 0.01  # share of a rate that plans can always use: what is busy has not failed

# SPDX-License-Identifier: Apache-2.0
"""What one rank of a test of waits does: `waits_ranks.py FUNCTION ARGUMENTS-AS-JSON`.

Ranks that are not to come in time wait until the others have said so by the store of the default group,
which waits for minutes.
"""

import datetime
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import fanin._membership
import fanin.torch

PATIENT = datetime.timedelta(minutes=30)
HEARD_S = 60  # many times what ranks need to hear of another's refusal


def store():
    return dist.distributed_c10d._get_default_store()


def tell(key):
    store().set(f"test {key} {dist.get_rank()}", "1")


def wait_for(key, ranks):
    store().wait([f"test {key} {rank}" for rank in ranks], PATIENT)


def failure(call):
    """Of a call that has to fail, class and text."""
    try:
        call()
    except (RuntimeError, KeyboardInterrupt) as error:
        return [type(error).__name__, str(error)]
    return ["", "did not fail"]


def total(group=None):
    dist.all_reduce(tensor := torch.ones(3), group=group)
    return tensor.tolist()


def shortened():
    """The last rank does not take part after the group's timeout has been made shorter."""
    last = dist.get_world_size() - 1
    total()
    setters = [
        getattr(dist, "set_timeout", None),
        dist.distributed_c10d.__dict__.get("_set_pg_timeout"),
    ]
    setter = next(
        (one for one in setters if one), lambda timeout: dist.group.WORLD.set_timeout(timeout)
    )
    setter(datetime.timedelta(seconds=1.5))
    if dist.get_rank() == last:
        wait_for("shortened", range(last))
        return {}
    begun, answer = time.monotonic(), {"failure": failure(total)}
    tell("shortened")
    return {**answer, "seconds": time.monotonic() - begun}


def stalled():
    """The last rank does not take part, until the others have given up; in the default group and in one
    whose timeout is another."""
    last = dist.get_world_size() - 1
    others, answer = range(last), {}
    group = dist.new_group(timeout=datetime.timedelta(seconds=1.5))
    total(group)
    for name, one in {"group": group, "default": None}.items():
        if dist.get_rank() == last:
            wait_for(name, others)
        else:
            answer[name] = failure(lambda one=one: total(one))
            tell(name)
    return answer


def late():
    """Ranks come to new groups one after the other, the last one to one that the others have given up."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    whole = dist.new_group(timeout=PATIENT)
    given_up = dist.new_group(timeout=datetime.timedelta(seconds=1))
    time.sleep(rank * 1.2)
    answer = {"whole": total(whole)}
    if rank == last:
        wait_for("given up", range(last))
    answer["given up"] = failure(lambda: total(given_up))
    tell("given up")
    answer["after"] = total()
    return answer


def gives_up():
    """All ranks say that they do what goes through Gloo, and the last one gives up as the others begin: in a
    group whose Gloo group is made already, and in one whose is not."""
    answer = {}
    for name in ("made", "not made"):
        group = dist.new_group(timeout=PATIENT)
        if name == "made":
            dist.all_reduce(torch.ones(3, dtype=torch.int8), group=group)
        total(group)
        if dist.get_rank() == dist.get_world_size() - 1:
            group.membership.wait = lambda op, of=group, key=name: goes(op, of, key)
        else:
            sequencer = group._here().sequencer
            sequencer._gloo = lambda key=name, gloo=sequencer._gloo: (tell(key), gloo())[1]
        work = dist.all_reduce(torch.eye(3).to_sparse(), group=group, async_op=True)
        if dist.get_rank() < dist.get_world_size() - 1:
            failure(lambda of=group: total(of))  # what the last rank does not do
        answer[name] = failure(work.wait)
    return answer


def goes(op, group, key):
    """A rank's wait for its word: it goes on once the others have begun what that was about."""
    op.wait()
    wait_for(key, range(dist.get_world_size() - 1))
    group.membership.communicator.barrier()


def joins_alone(gives_up):
    """The last rank has joined a group, and gives up or is killed, while the others wait for its word."""
    group, last = dist.new_group(timeout=PATIENT), dist.get_world_size() - 1
    made = group.membership._made_of_world

    def joins():
        comm = made()
        tell("joined")
        if dist.get_rank() < last:
            return comm
        wait_for("joined", range(last))
        comm.close()
        if not gives_up:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)  # the others have heard that it has left
        raise fanin.FaninError("no")

    group.membership._made_of_world = joins
    begun = time.monotonic()
    return {"failure": failure(lambda: total(group)), "seconds": time.monotonic() - begun}


def refuse():
    raise RuntimeError("refused")


def refused(made):
    """The last rank's own Gloo refuses what all have stated, and the rank stays until the others have ended;
    after HEARD_S it ends, which they would hear of, too.  Then all ranks are refused something."""
    fanin._membership.REFUSED_S = 2.0
    group, all_refused = (dist.new_group(timeout=PATIENT) for _ in range(2))
    last = dist.get_world_size() - 1
    if made:
        dist.all_reduce(torch.ones(3, dtype=torch.int8), group=group)
    total(group)
    total(all_refused)
    if dist.get_rank() == last:
        group._here().sequencer._gloo = refuse
    answer = {
        "failure": failure(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int8), group=group))
    }
    if dist.get_rank() == last:
        store().wait(
            [f"test refused {rank}" for rank in range(last)], datetime.timedelta(seconds=HEARD_S)
        )
    tell("refused")
    answer["after"] = failure(lambda: total(group))
    all_refused._here().sequencer._gloo = refuse
    answer["all"] = failure(
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.int8), group=all_refused)
    )
    answer["sum"] = total(all_refused)
    return answer


def beside_gloo():
    """The last rank comes late to a group in a job whose default group is Gloo's."""
    if dist.get_rank() == dist.get_world_size() - 1:
        time.sleep(0.7)
    group = dist.new_group(backend="fanin")
    dist.all_reduce(tensor := torch.full((3,), 2.0), group=group)
    return {"sum": tensor.tolist(), "summary": fanin.torch.summary(group)}


def dead():
    """Rank 1 has ended; the others have a group with it, and one without it."""
    both, without = dist.new_group(timeout=PATIENT), dist.new_group([0, 2], timeout=PATIENT)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    answer = {"failure": failure(lambda: total(both)), "seconds": time.monotonic() - begun}
    begun = time.monotonic()
    answer["barrier"] = failure(lambda: dist.monitored_barrier(both))
    answer["without"] = total(without)
    answer["seconds"] = max(answer["seconds"], time.monotonic() - begun)
    return answer


def ended():
    """Rank 1 ends once all have said that they begin what goes through Gloo; rank 3 has no connection to it
    that it needs, and the others, who see the end at once, stay.  Messages between two of them still come.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.distributed_c10d._get_default_group()
    total()
    dist.all_reduce(torch.ones(3, dtype=torch.int8))
    if rank == 1:
        group.membership.wait = lambda op: (op.wait(), os.kill(os.getpid(), signal.SIGKILL))
    answer = {"gloo": failure(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int8)))}
    tell("gloo")
    wait_for("gloo", [other for other in range(size) if other != 1])
    while not group.membership.communicator.error:
        time.sleep(0.01)
    answer["send"] = failure(lambda: dist.send(torch.ones(3), 1))
    answer["recv"] = failure(lambda: dist.recv(torch.ones(3), 1))
    answer["total"] = failure(total)
    message = torch.full((3,), float(rank))
    if rank == 0:
        dist.send(message, 2)
    elif rank == 2:
        dist.recv(message, 0)
        answer["message"] = message.tolist()
    return answer


def interrupted():
    """Rank 0 waits for a rank of a group, and gets a signal."""
    group = dist.new_group(timeout=PATIENT)
    if dist.get_rank() == 0:
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        answer = {"failure": failure(lambda: total(group))}
        tell("interrupted")
    else:
        wait_for("interrupted", [0])
        answer = {"failure": failure(lambda: total(group))}
    return answer


def monitored():
    """New groups whose first call it is."""
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(timeout=PATIENT) for _ in range(5)]
    short = 0.5 if rank == 0 else PATIENT
    dist.monitored_barrier(groups[0])
    dist.monitored_barrier(groups[0], wait_all_ranks=True)
    answer = {"sum": total(groups[0])}
    early = datetime.timedelta(seconds=0.2) if rank else PATIENT
    calls = {
        "early": lambda: dist.monitored_barrier(groups[4], early),
        "first": lambda: dist.monitored_barrier(groups[1], short),
        "all": lambda: dist.monitored_barrier(groups[2], short, wait_all_ranks=True),
        "zero": lambda: dist.monitored_barrier(groups[3], datetime.timedelta()),
    }
    for name, call in calls.items():
        if rank in {"early": (size - 1,), "zero": (0,)}.get(name, (0, size - 1)):
            answer[name] = failure(call)
            tell(name)
        else:
            wait_for(name, [size - 1 if name == "early" else 0])
    wait_for("all", [size - 1])
    dist.monitored_barrier()
    answer["after"] = total()
    return answer


def main():
    torch.set_num_threads(1)
    arguments = json.loads(sys.argv[2])
    timeout = arguments.pop("timeout", None)
    given = {} if timeout is None else {"timeout": datetime.timedelta(seconds=timeout)}
    dist.init_process_group(arguments.pop("backend", "fanin"), **given)
    print(json.dumps(globals()[sys.argv[1]](**arguments)), flush=True)
    ends = 1 if sys.argv[1] in ("dead", "ended") else -1
    ends = 2 if arguments.get("gives_up") is False else ends
    tell("end")
    if dist.get_rank() == 0:  # whose store it is
        wait_for("end", [rank for rank in range(dist.get_world_size()) if rank != ends])
    os._exit(0)


if __name__ == "__main__":
    main()

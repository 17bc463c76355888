# SPDX-License-Identifier: Apache-2.0
"""How long to wait for the Gloo group inside a group."""

import threading
from typing import Any, Callable

from .errors import FaninError


def made_within(make: Callable[[], Any], seconds: float) -> None:
    """Call `make` on all ranks.  One may be lost since it joined, for which Gloo alone waits until the
    group's timeout, half an hour; a FaninError says so."""
    failed: list[Exception] = []

    def try_it() -> None:
        try:
            make()
        except Exception as error:  # of Gloo's, or of the store
            failed.append(error)

    thread = threading.Thread(target=try_it, name="fanin-gloo", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        failed.append(TimeoutError(f"not all ranks have connected within {seconds:g} s"))
    if failed:
        raise FaninError(
            f"the Gloo group inside cannot be made: {failed[0]}; a rank has gone, or ranks do not "
            "reach each other by TCP (GLOO_SOCKET_IFNAME names the interface)"
        ) from failed[0]

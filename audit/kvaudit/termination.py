"""SIGTERM and SIGHUP end the processes that were started, too.

They run in groups of their own, so that a terminal or `timeout` does not reach them; and one that hangs does not notice
that nobody listens any more. SIGKILL leaves it behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

_groups: set[int] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_groups.clear)  # they are the parent's


def ends_with_us(group: int) -> None:
    """From now on a signal that ends this process ends that group first. Somebody's own handler is left alone."""
    _groups.add(group)
    if threading.current_thread() is threading.main_thread():
        for signum in _SIGNALS:
            if signal.getsignal(signum) is signal.SIG_DFL:
                signal.signal(signum, _end)


def end_group(group: int) -> None:
    """End all processes of the group. Safe if there are none."""
    _groups.discard(group)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _end(signum: int, frame: FrameType | None) -> None:
    for group in list(_groups):
        end_group(group)
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)

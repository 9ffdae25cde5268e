"""A limit in time for a call into somebody else's code: a call that hangs is ended by an alarm."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType


class Hang(BaseException):
    """A call did not return in time. Not an Exception, so that no target swallows it."""


class TimeLimit:
    """Raises Hang in its block if that takes longer. Where there are no timers (not the main thread): no limit.

    To set a timer costs more than most blocks take. So it is left to run at the end of a block, and the next one sets
    it only if it would ring too late. Where it rings too early, it is set again for the rest.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._works = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")

    def arm(self) -> None:
        """Install the handler. No timer set before is trusted: somebody else may have taken the signal since."""
        if self._works:
            signal.signal(signal.SIGALRM, _ALARM.ring)
            _ALARM.rings = 0.0

    def disarm(self) -> None:
        """Stop the timer."""
        if self._works and _ALARM.rings:
            _ALARM.set(0.0, 0.0)

    def __enter__(self) -> None:
        if self._works:
            now = time.monotonic()
            _ALARM.ends = ends = now + self._seconds
            if not now < _ALARM.rings <= ends:
                _ALARM.set(self._seconds, ends)

    def __exit__(self, *_: object) -> None:
        _ALARM.ends = None


class _Alarm:
    """The timer of the process.

    ends: when Hang is due, while a block is open. rings: when the timer rings, if it is set.
    """

    def __init__(self) -> None:
        self.ends: float | None = None
        self.rings = 0.0

    def set(self, seconds: float, rings: float) -> None:
        self.rings = rings
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def ring(self, signum: int, frame: FrameType | None) -> None:
        if self.ends is None:
            return
        left = self.ends - time.monotonic()
        if left <= 0:
            raise Hang
        self.set(left, self.ends)


_ALARM = _Alarm()

"""Ctrl-C as a flag that is looked at between steps.

A KeyboardInterrupt may come anywhere: inside Hypothesis, which takes it for a flaky test, inside a callback of the
garbage collector, which swallows it, or between a question to a child and its answer. So it is raised only where
something hangs: a second after Ctrl-C, or at the next one.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

_PATIENCE_S = 1.0


class Interrupt:
    """Use as a context manager. `came` says whether Ctrl-C was pressed since."""

    def __init__(self) -> None:
        self.came = False
        self._timer: threading.Timer | None = None
        self._installed = False

    def __enter__(self) -> Interrupt:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if self._timer is not None:
                self._timer.cancel()
                self._timer.join()
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
        self._timer = threading.Timer(_PATIENCE_S, _press_again)
        self._timer.daemon = True
        self._timer.start()


def _press_again() -> None:
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)

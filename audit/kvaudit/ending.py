"""How a session ends: its budget is spent, it is cut short, or Ctrl-C comes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kvaudit.interrupt import Interrupt

INTERRUPTED = "interrupted"
"""Why a session was cut short that Ctrl-C has ended."""


class BudgetSpent(BaseException):
    """Ends a session. Not an Exception, so that Hypothesis passes it on untouched."""


class CutShort(BaseException):
    """Ends a session before its budget; the message says why."""


class Ending:
    """Why a session ended; empty if its budget is spent, or all is done."""

    why = ""


@contextlib.contextmanager
def until_its_end(interrupt: Interrupt) -> Iterator[Ending]:
    """What is played within goes on to the end of its budget, until it is cut short, or to Ctrl-C."""
    ending = Ending()
    with interrupt:
        try:
            yield ending
        except BudgetSpent:
            pass
        except CutShort as cut:
            ending.why = str(cut)
        except KeyboardInterrupt:
            interrupt.came = True
        except Exception:
            if not interrupt.came:
                raise  # else it is what a KeyboardInterrupt has become on its way
    if interrupt.came:
        ending.why = INTERRUPTED

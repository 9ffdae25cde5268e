"""Situations that a comparison has to have met before "no difference" says anything."""

from __future__ import annotations

from kvaudit.diffing.pair import Pair
from kvaudit.limits import Limits
from kvaudit.protocol import Allocate, Append, Refused

SITUATIONS = {
    "refused": "an operation was refused",
    "hit": "cached tokens were hit",
    "grown": "an append took a new block",
    "used again": "a block was handed out again",
}


class Situations:
    """Counts how often each was met, by what the first of the two showed."""

    def __init__(self) -> None:
        self.met = dict.fromkeys(SITUATIONS, 0)
        self._used: set[int] = set()

    def begin(self) -> None:
        """A fresh pool."""
        self._used = set()

    def note(self, pair: Pair) -> None:
        """Look at the last step of a pair."""
        operation, shown, _ = pair.steps[-1]
        if isinstance(shown.answer, Refused):
            self.met["refused"] += 1
            return
        tables = pair.steps[-2].a.tables if len(pair.steps) > 1 else {}
        held = {block for table in tables.values() for block in table}
        new = set(shown.tables.get(operation.seq, ())) - held
        if isinstance(operation, Allocate):
            self.met["hit"] += bool((shown.cached or {}).get(operation.seq))
        elif isinstance(operation, Append):
            self.met["grown"] += bool(new)
        self.met["used again"] += bool(new & self._used)
        self._used |= held | new

    def lacking(self, limits: Limits) -> list[str]:
        """What was never met, of what the two can do, in words."""
        return [
            f"never met: {told}"
            for name, told in SITUATIONS.items()
            if not self.met[name] and (limits.appends or name != "grown")
        ]

"""The obligations of the scheduler level: those of a block manager, as far as the work of a scheduler shows them."""

from __future__ import annotations

from kvaudit.duty import Duty
from kvspec.obligations import LEDGER

_POOL = frozenset({LEDGER})

DUTIES = {
    "I1": Duty("num_free_blocks counts the blocks that can be taken", _POOL | {"num_free_blocks"}),
    "I4": Duty(
        "ref is the number of live tables; all is back when no request is left",
        _POOL | {"num_free_blocks"},
        weaker="all is back when no request is left",
    ),
    "I5": Duty("work starts before the last token"),
    "I7": Duty("no table names a block twice"),
    "I8": Duty("each block can be taken or is in a live table, never both", _POOL),
    "O2": Duty("what fits is accepted, nothing raises, and every request is finished in a bounded number of steps"),
    "O4": Duty("work starts behind the cached tokens, and goes on where it ended, or behind what was cached since"),
    "O5": Duty("the table covers what is computed, and names blocks of the pool"),
    "O9": Duty(
        "with the cache off work starts at 0, and no two tables share a block",
        _POOL,
        weaker="with the cache off work starts at 0",
    ),
    "K1": Duty("each request reads its own prefix through its table, at every position, in every pass"),
    "K2": Duty("no write replaces KV on which another request counts"),
}
"""What is looked at, and what has to be shown for it. The others cannot be seen from a scheduler's work."""

DUE = {
    "I1": "num_free_blocks counts what can be taken",
    "I4": "each block is held by those who read it",
    "I5": "a token is left to compute",
    "I7": "a table names each block once",
    "I8": "each block is in one place",
    "O2": "every request is served",
    "O4": "work goes on where it ended",
    "O5": "the table covers what is computed",
    "O9": "nothing is cached",
    "K1": "each request reads its own prefix",
    "K2": "nobody overwrites what another reads",
}
"""What was expected of a step that breaks an obligation, in a few words."""

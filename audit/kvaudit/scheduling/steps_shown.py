"""A step of a scheduler as a finding shows it and a trace keeps it: in words, with the pool after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvaudit import words
from kvaudit.breach import Breach, concerned_by, gravest, gravity
from kvaudit.execution import Played
from kvaudit.printable import one_line
from kvaudit.protocol import Cancel, Pool, Raised, Refused, Request, State, Step, Submit, is_hang
from kvaudit.report import PoolShown, StepShown
from kvaudit.scheduling.duties import DUE
from kvaudit.scheduling.oracle import Judgement
from kvaudit.scheduling.work import Computed, Item, Work
from kvaudit.snapshots import MAX_BLOCKS
from kvaudit.trace import Answer
from kvspec.identity import Identity

_AFTERWARDS = ("I1", "I4", "I8")
"""What breaks when a step is over."""


def step_shown(played: Played[Request, Judgement], pool: Pool) -> StepShown:
    """A step in words, and the pool after it, as far as it is known."""
    operation, judgement = played.operation, played.judgement
    breaches = sorted(judgement.breaches, key=gravity)
    got = came(operation, judgement)
    return StepShown(
        call=words.call(operation),
        expected=_expected(operation, got, breaches),
        got=got,
        broken=[breach.obligation for breach in breaches],
        due=_pool(judgement, pool),
        blocks=concerned_by(breaches),
    )


def _expected(operation: Request, got: str, breaches: Sequence[Breach]) -> str:
    """What was due. A scheduler decides by itself what a step does."""
    if breaches:
        return DUE[breaches[0].obligation]
    return "no breach" if isinstance(operation, Step) else got


def came(operation: Request, judgement: Judgement) -> str:
    """What the target answered."""
    answer = judgement.answer
    if isinstance(answer, Refused):
        return f"refused ({one_line(answer.error)})"
    if isinstance(answer, Raised):
        return "no answer" if is_hang(answer) else f"raised {one_line(answer.error)}"
    if isinstance(operation, Submit):
        return "accepted"
    return "cancelled" if isinstance(operation, Cancel) else _work(operation, judgement)


def _work(operation: Step, judgement: Judgement) -> str:
    work = judgement.work
    if work == Work() and words.value(judgement.answer) is not None and not _is_idle(words.value(judgement.answer)):
        return words.short(words.value(judgement.answer))
    parts = [f"{', '.join(work.preempted)} preempted"] if work.preempted else []
    parts += [", ".join(map(_item, items)) for items in work.passes if items]
    parts += [f"{', '.join(judgement.sampled)} got {operation.token}"] if judgement.sampled else []
    parts += [f"{', '.join(work.finished)} finished"] if work.finished else []
    return "; ".join(parts) or "nothing computed"


def _is_idle(value: Any) -> bool:
    return isinstance(value, Mapping) and not any(value.get(name) for name in ("passes", "finished", "preempted"))


def _item(item: Item) -> str:
    if not isinstance(item, Computed):
        return f"copied {item.tokens} of {item.source} to {item.target}"
    positions = f"{item.start}" if item.end == item.start + 1 else f"{item.start}-{item.end - 1}"
    return f"{item.seq} {positions} in {list(item.table)}"


def answer_of(judgement: Judgement) -> Answer:
    """What came, as a trace keeps it."""
    answer, seen = judgement.answer, judgement.seen
    free = seen.num_free_blocks if seen is not None and type(seen.num_free_blocks) is int else None
    if isinstance(answer, Refused):
        return Answer("refused", num_free_blocks=free, error=answer.error)
    if isinstance(answer, Raised):
        return Answer("raised", num_free_blocks=free, error=answer.error, other=answer.message)
    value = words.value(answer)
    if value is None:
        return Answer("completed", num_free_blocks=free)
    if judgement.work == Work() and not _is_idle(value):
        return Answer("completed", num_free_blocks=free, other=words.short(value))
    return Answer("completed", num_free_blocks=free, work=judgement.work)


def _pool(judgement: Judgement, pool: Pool) -> PoolShown | None:
    """Who reads which blocks and what is in them, by what was reported; free and referenced, by what was shown.

    Where something was computed wrongly, those are shown too who were computed and have ended with the step.
    """
    if pool.num_blocks > MAX_BLOCKS:
        return None
    state = (judgement.seen and judgement.seen.state) or State()
    ref = list(state.ref) if state.ref is not None and len(state.ref) == pool.num_blocks else None
    tables = dict(judgement.tables)
    free = tuple(b for b in state.free if type(b) is int) if state.free is not None else None
    if judgement.breaches and gravest(judgement.breaches).obligation not in _AFTERWARDS:
        tables |= {item.seq: item.table for item in judgement.work.computed}
        held = {b for table in tables.values() for b in table}
        free, ref = tuple(b for b in free or () if b not in held) if free is not None else None, None
    return PoolShown(
        free=[b for b in free if b in range(pool.num_blocks)] if free is not None else None,
        evictable=[] if free is not None else None,
        ref=ref,
        content=[_content(judgement.cells, b, pool.block_size) for b in range(pool.num_blocks)],
        tables={seq: [b for b in table if b in range(pool.num_blocks)] for seq, table in tables.items()},
    )


def _content(cells: Mapping[int, Identity], block: int, size: int) -> str | None:
    """The last prefix in a block that was written."""
    for slot in reversed(range(block * size, (block + 1) * size)):
        if slot in cells:
            return words.short(cells[slot])
    return None

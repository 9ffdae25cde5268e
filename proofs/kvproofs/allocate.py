"""allocate: the checks, the chain of keys, the match, and three loops that write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import z3

from kvblocks import errors
from kvproofs import allocate_reading, allocate_writing, theory
from kvproofs.allocate_prompt import (
    EXTRA_GIVEN,
    IMAGES,
    LENGTH,
    LORA,
    PROMPT,
    RUN,
    SALT,
    IterationError,
    definitions,
    idle,
    is_extra,
    is_prompt,
)
from kvproofs.allocate_table import focus, prove_table
from kvproofs.allocate_writing import HITS, TAKE
from kvproofs.backend import StateView, Step
from kvproofs.containers import List
from kvproofs.executor import Goal, executing
from kvproofs.formulas import between
from kvproofs.operation import (
    NEW_PLACE,
    SEQ_ID,
    Run,
    answered,
    completed,
    ghosts_after,
    prove_operation,
    refused,
    unchanged,
)
from kvproofs.state import State, capture
from kvproofs.terms import SIZE, SeqTerm, div, lift, times
from kvspec import postconditions as post

_USING = {
    "I3": ("table:",),
    "I4": ("I1", "I2", "I4", "N2", "cached", "ghost", "no ", "place", "table:", "BlockManager.allocate#1", TAKE),
    "I6": (
        "I1", "I2", "I4", "I6", "N1", "N2", "O5", "ghost", "no ", "place", "table: a last", "table: all",
        "table: each of", "table: no table", "table: nothing", "table: other", "table: then", "table: without",
    ),
    "I7": (
        "I6", "I7", "N1", "N2", "N3", "N4", "O5", "BlockManager._hash_chain", "BlockManager.allocate", HITS,
        "ghost", "identity", "no ", "place", "table:",
    ),
    "K1": (
        "I8", "K1", "N1", "N2", "O5", "ghost", "identity", "no ", "place", "table: a",
        "table: each", "table: hits hold", "table: it", "table: no", "table: other", "table: the", "table: which",
    ),
    "N5": (
        "N2", "N5", "BlockManager._match", f"{TAKE}: the table", "identity", "place", "table:",
    ),
    "O8": ("N1", "BlockManager._hash_chain", "cached", "identity", "no ", "place", "table:"),
}  # fmt: skip
"""What each of these obligations follows from. See `Executor.prove`."""


def begin(manager: Any) -> Any:
    """The call, after saying what is meant by the run of hits."""
    for claim in definitions(capture(manager)):
        executing().assume(claim)
    return manager.allocate(SeqTerm(SEQ_ID), PROMPT, salt=SALT, lora=LORA, images=IMAGES)


def allocate(cls: Any, options: dict[str, Any]) -> Iterator[Goal]:
    """allocate, with any sequence id, any iterable for a prompt, and anything beside it."""

    def at_end(run: Run) -> None:
        if isinstance(run.outcome.error, IterationError):
            unchanged(run, "O1")
            return
        before = run.before.state
        legal = z3.And(z3.Not(before.live(SEQ_ID)), is_prompt(), is_extra())
        if not answered(run, legal, (errors.SequenceExists, errors.InvalidArgument)):
            return
        if run.outcome.error is not None:
            refused(run, "allocate", step(run, capture(run.manager), refused=True))
            run.prove("O3", "refused: can_allocate says False", div(LENGTH + SIZE - 1) > before.num_free_blocks)
            return
        _allocated(run)

    return prove_operation(cls, begin, at_end, options, allocate_reading.LOOPS | allocate_writing.LOOPS)


def step(run: Run, after: State, **answer: Any) -> Any:
    """The transition from the state before the call to one after it."""
    given = {"extra": EXTRA_GIVEN, "run": RUN, "idle": idle(RUN)}
    return Step(run.before, StateView(after), SeqTerm(SEQ_ID), (PROMPT, LENGTH), **given, **answer)


def _allocated(run: Run) -> None:
    """The end of a path that gave a table."""
    after, result, j = capture(run.manager), run.outcome.value, z3.Int("j")
    run.prove("O11", "the answer is a list of its own", z3.BoolVal(isinstance(result, List) and result.is_private))
    array, start, length = result.snapshot()
    run.prove("O5", "the answer begins at its begin", start == 0)
    answer = {"result": (array, length)}
    run.executor.require(lift(post.others_unchanged(run.logic, step(run, after, **answer))), "no other table changes")
    row = after.tokens[SEQ_ID]
    run.executor.require(between(j, 0, LENGTH, row[j] == PROMPT[j]), "the tokens are the prompt")
    run.executor.require(after.extra[SEQ_ID] == EXTRA_GIVEN, "what it depends on is what was given")
    for fact in theory.agreement(row, PROMPT, EXTRA_GIVEN, LENGTH):
        run.executor.assume(fact)
    run.executor.require(div(times(RUN)) == RUN, "cached counts the hits")
    ghost = ghosts_after(run, after, SEQ_ID, _memory(run.before.state, after))
    prove_table(run, ghost)
    completed(run, "allocate", step(run, ghost, **answer), {name: focus(_USING, name) for name in _USING})


def _memory(before: State, after: State) -> Callable[[Any, Any], Any]:
    """The memory once the caller has written what it was given to write: all tokens but those of the hits."""

    def cell(b: Any, o: Any) -> Any:
        at = NEW_PLACE(b)
        row, count = after.tokens[SEQ_ID], after.tables_len[SEQ_ID]
        written = z3.And(RUN <= at, at < count, after.tables[SEQ_ID][at] == b, times(at) + o < LENGTH)
        return z3.If(written, theory.reading(row, EXTRA_GIVEN, times(at) + o), before.cell(b, o))

    return cell

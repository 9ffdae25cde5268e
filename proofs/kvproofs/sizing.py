"""The blocks of stages that share a card: they fit, no stage has room for one more, and each has its share.

The text of `kvblocks.sizing.num_blocks` is executed for any card and any number of stages. `Stage` refuses what is no
size, so each stage is one of sizes; that is all that is known of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import z3

from kvblocks import errors, sizing
from kvproofs import sources
from kvproofs.executor import Executor, Goal, Outcome
from kvproofs.formulas import between
from kvproofs.lemmas import lemma
from kvproofs.loops import Loop
from kvproofs.operation import goals_of
from kvproofs.rewriting import load_source
from kvproofs.sizing_values import FACTS, NUMBERS, STAGES, Whole, block_bytes, fixed, share, shares, spent, zipped

SOURCE = inspect.getsource(sizing.num_blocks)

USABLE = z3.Int("usable")
_J = z3.Int("j")
_COUNT = STAGES.count


def fits_with(blocks: Any) -> Any:
    """What weights, activations and so many blocks take in all."""
    return fixed(_COUNT) + spent(blocks, _COUNT)


def each(count: Any, blocks: Any, claim: Any) -> Any:
    """The claim, which speaks of j, holds of the first `count` stages."""
    return between(_J, 0, count, claim, blocks[_J], block_bytes(_J))


def has_share(blocks: Any) -> Any:
    """Stage j has the whole blocks of its share of the room: one more would be more than that."""
    return (blocks[_J] + 1) * block_bytes(_J) * shares(_COUNT) > (USABLE - fixed(_COUNT)) * share(_J)


def _spending(loop: Loop, local: dict[str, Any]) -> list[tuple[str, Any]]:
    room, total = _int(local["room"]), _int(local["shares"])
    return [
        ("the room", room == USABLE - fixed(loop.i)),
        ("the shares", z3.And(total == shares(loop.i), total >= loop.i)),
    ]


def _sharing(loop: Loop, local: dict[str, Any]) -> list[tuple[str, Any]]:
    due, rest, room = local["due"], _int(local["rest"]), USABLE - fixed(_COUNT)
    return [
        ("their number", z3.And(due.length == loop.i, due.start == 0)),
        ("the rest", rest == room - spent(due.array, loop.i)),
        ("no more than the shares", spent(due.array, loop.i) * shares(_COUNT) <= room * shares(loop.i)),
        ("none is negative", each(loop.i, due.array, due.array[_J] >= 0)),
        ("each share", each(loop.i, due.array, has_share(due.array))),
    ]


def _filling(loop: Loop, local: dict[str, Any]) -> list[tuple[str, Any]]:
    fitting, due, rest = local["fitting"], local["due"], _int(local["rest"])
    still_due = spent(due.array, _COUNT) - spent(due.array, loop.i)
    return [
        ("their number", z3.And(fitting.length == loop.i, fitting.start == 0)),
        ("the rest", rest == USABLE - fixed(_COUNT) - spent(fitting.array, loop.i) - still_due),
        ("some rest", rest >= 0),
        ("no block fits", each(loop.i, fitting.array, rest < block_bytes(_J))),
        ("no fewer than due", each(loop.i, fitting.array, fitting.array[_J] >= due.array[_J])),
    ]


INVARIANTS = {"num_blocks#1": _spending, "num_blocks#2": _sharing, "num_blocks#3": _filling}


def _int(value: Any) -> Any:
    return value.term if hasattr(value, "term") else z3.IntVal(value)


def shared(text: str, options: dict[str, Any]) -> Iterator[Goal]:
    """The text of `num_blocks`: what it returns, and when it raises."""
    executor = Executor(hypotheses=[USABLE >= 1, *FACTS.values()], invariants=INVARIANTS, **options)
    names = {
        "check_size": sources.arithmetic()["check_size"],
        "InvalidArgument": errors.InvalidArgument,
        "zip": zipped,
    }
    function = load_source(text, "kvblocks.sizing", names)["num_blocks"]

    def program() -> Any:
        return function(Whole(USABLE), STAGES)

    def at_end(outcome: Outcome) -> None:
        if isinstance(outcome.error, errors.InvalidArgument):
            executor.prove("refused", "weights and activations do not fit", fixed(_COUNT) > USABLE)
            return
        blocks = outcome.value
        if outcome.error is not None or getattr(blocks, "array", None) is None:
            executor.prove("fits", "it returns the blocks of each stage", z3.BoolVal(False))
            return
        array = blocks.array
        executor.prove("refused", "weights and activations fit", fixed(_COUNT) <= USABLE)
        executor.prove("fits", "a number of blocks for each stage", blocks.length == _COUNT)
        executor.prove("fits", "none is negative", each(_COUNT, array, array[_J] >= 0))
        executor.prove("fits", "all of it is no more than may be used", fits_with(array) <= USABLE)
        one_more = fits_with(array) + block_bytes(_J) > USABLE
        executor.prove("full", "with one block more it is", each(_COUNT, array, one_more))
        executor.prove("shares", "each has the whole blocks of its share", each(_COUNT, array, has_share(array)))

    return goals_of(executor, program, at_end)


def sums() -> Iterator[Goal]:
    """What `FACTS` says of sums beyond their definition, by induction over the stages."""
    a, k, n, value = z3.Const("a", NUMBERS), z3.Int("k"), z3.Int("n"), z3.Int("value")
    definitions = [FACTS["no stage"], FACTS["one stage more"]]
    stored = z3.Store(a, n, value)
    name = "a later stage does not count"
    yield lemma("sums", f"{name}: no stage", definitions, spent(stored, 0) == spent(a, 0))
    known = [*definitions, 0 <= k, k < n, spent(stored, k) == spent(a, k)]
    yield lemma("sums", f"{name}: one stage more", known, spent(stored, k + 1) == spent(a, k + 1))

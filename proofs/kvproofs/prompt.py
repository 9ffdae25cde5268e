"""check_tokens: whatever the caller gives, it is copied if it is a prompt, and refused if it is not.

The proof of `allocate` takes it for what is proved here: `allocate_prompt.checked`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import z3

from kvblocks import errors
from kvblocks.arithmetic import MAX_TOKEN_ID, TOKEN
from kvproofs.allocate_prompt import LENGTH, PROMPT, IterationError, argument, is_prompt, tokens_below
from kvproofs.containers import Array, List, Packed
from kvproofs.errors import Unsupported
from kvproofs.executor import Executor, Goal, Outcome, executing
from kvproofs.formulas import between
from kvproofs.loops import Items, Loop
from kvproofs.operation import goals_of
from kvproofs.terms import BOOL, INT, Argument, Bool, Int, Symbol, number, require

_IS_LIST, _IS_BUFFER, _IS_PACKED = (z3.Bool(f"prompt_is_a_{kind}") for kind in ("list", "buffer", "buffer_of_tokens"))
_DIMENSIONS = z3.Int("prompt_dimensions")


class Prompt(Symbol):
    """Any iterable of anything, which may raise; it may be a list, or a buffer."""

    def __init__(self) -> None:
        super().__init__(PROMPT)

    def instance_of(self, kind: Any) -> Bool:
        if kind is not list:
            raise Unsupported("isinstance of another kind")
        return Bool(_IS_LIST)

    def listed(self) -> Listed:
        """list(prompt)"""
        if executing().fork(executing().fresh(BOOL, "iterating_raises")):
            raise IterationError
        return Listed()

    def view(self) -> View:
        """memoryview(prompt)"""
        if not executing().fork(_IS_BUFFER):
            raise TypeError("no buffer")
        return View()


class View(Symbol):
    """A memoryview of the prompt."""

    def __init__(self) -> None:
        super().__init__(PROMPT)
        self.format, self.ndim = Format(_IS_PACKED), Int(_DIMENSIONS)

    def tobytes(self) -> Packed:
        """Its bytes: those of token ids, if its items are what an array has."""
        require(z3.And(_IS_PACKED, _DIMENSIONS == 1), "a buffer of token ids")
        executing().assume(tokens_below(LENGTH))
        return Packed(PROMPT, z3.IntVal(0), LENGTH)

    def tolist(self) -> Listed:
        require(_DIMENSIONS == 1, "a buffer of one dimension")
        return Listed()


class Format(Symbol):
    """What the items of a buffer are."""

    def __eq__(self, other: object) -> Any:
        return Bool(self.term) if other == TOKEN else self._concrete()

    __hash__ = Symbol._concrete


class Listed(Items):
    """A list of what the caller gave."""

    count = LENGTH

    def __init__(self) -> None:
        super().__init__(PROMPT)

    def at(self, i: Any) -> Any:
        return argument(i)

    def size(self) -> Any:
        return LENGTH

    def types(self) -> Types:
        """map(type, items)"""
        return Types(LENGTH)


class Types(Symbol):
    """The types of all items; `list` of it is no different."""

    def listed(self) -> Types:
        return self

    def count(self, kind: Any) -> OfType:
        if kind is not int:
            raise Unsupported("another type is counted")
        return OfType(LENGTH)


class OfType(Symbol):
    """How many items are of type int."""

    def __eq__(self, other: Any) -> Any:
        require(number(other) == LENGTH, "it is asked whether all are")
        return Bool(_each(lambda item: item.is_plain))

    __hash__ = Symbol._concrete


def _each(claim: Callable[[Argument], Any]) -> Any:
    """It holds of each that the caller gave."""
    j = z3.Int("j")
    item = argument(j)
    return between(j, 0, LENGTH, claim(item), PROMPT[j], item.is_int, item.is_bool, item.is_plain)


def array(typecode: str, items: Any) -> Array:
    """`array(TOKEN, items)`: of bytes, of what the caller gave, or of a list of integers."""
    if typecode != TOKEN:
        raise Unsupported("an array of something else")
    if isinstance(items, Packed):
        require(items.start == 0, "no part of the bytes")
        return Array(items.array, items.length)
    if isinstance(items, Listed):
        given, length = PROMPT, LENGTH
        require(_each(lambda item: item.is_int), "an array is made of integers")
    elif type(items) is List:
        given, start, length = items.snapshot()
        require(start == 0, "no slice")
    else:
        raise Unsupported("an array of this")
    j = z3.Int("j")
    if not executing().fork(between(j, 0, length, z3.And(0 <= given[j], given[j] <= MAX_TOKEN_ID), given[j])):
        raise OverflowError("out of range")
    return Array(given, length)


def check_loop(loop: Loop, local: dict[str, Any]) -> list[tuple[str, Any]]:
    """Each item that was checked is a token id, and the next in the list that is made."""
    made, j = local[f"_made{loop.site.partition('#')[2]}"], z3.Int("j")
    items = made.array if made.array is not None else z3.K(INT, z3.IntVal(0))
    return [
        ("copied so far", z3.And(made.length == loop.i, made.start == 0)),
        ("the caller's tokens", between(j, 0, loop.i, items[j] == PROMPT[j], items[j])),
        ("each of them valid", tokens_below(loop.i)),
    ]


def check_tokens(cls: Any, options: dict[str, Any]) -> Iterator[Goal]:
    """`check_tokens`, as the class has it, of any prompt."""
    executor = Executor(hypotheses=[], invariants={"_packed#1": check_loop}, **options)
    j = z3.Int("j")

    def program() -> Any:
        executor.assume(LENGTH >= 0)
        executor.assume(z3.ForAll([j], argument(j).facts(), patterns=[argument(j).is_plain]))
        return cls.check_tokens(Prompt())

    def at_end(outcome: Outcome) -> None:
        if isinstance(outcome.error, IterationError):
            return  # nothing is written yet
        if isinstance(outcome.error, errors.InvalidArgument):
            executor.prove("O10", "a legal prompt is no misuse", z3.Not(is_prompt()))
            return
        executor.prove("O10", "misuse is named", is_prompt())
        made = outcome.value
        own = isinstance(made, Array) and made.is_private
        name = type(outcome.error).__name__ if outcome.error else type(made).__name__
        executor.prove("O2", f"a legal prompt gives an array, not {name}", z3.BoolVal(own))
        if own:
            items, start, length = made.snapshot()
            executor.prove("O5", "it is a copy of the prompt", z3.And(start == 0, length == LENGTH))
            executor.prove("O5", "each token is at its place", between(j, 0, LENGTH, items[j] == PROMPT[j]))

    return goals_of(executor, program, at_end)

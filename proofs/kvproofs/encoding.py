"""(E): `kvblocks.hashing.encode` determines parent, tokens and extra keys.

The text is executed for any parent, any tokens and any number of extra keys, and shown to return the block alone, or
the parts that `is_encoding` says and the block, joined, or to raise. Of these very formulas `encoding_injective` proves
that they determine the input.

Taken for true: what `struct.pack`, `join`, `+` and `array.tobytes` do, and that byte n of `_LENGTH` is n; that
`str.encode("utf-8", "surrogatepass")` and `str(int).encode()` give different bytes for different values.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import z3

from kvblocks import errors, hashing
from kvproofs.encoding_values import (
    LIMIT,
    Data,
    Extra,
    Extras,
    Joined,
    Lengths,
    Struct,
    Written,
    byte,
    digits,
    in_range,
    is_length,
    join,
    le32,
    utf8,
)
from kvproofs.executor import Executor, Goal, Outcome
from kvproofs.formulas import between
from kvproofs.loops import Loop
from kvproofs.operation import goals_of
from kvproofs.rewriting import load_source
from kvproofs.terms import BYTES, lift


@dataclass(frozen=True)
class Input:
    """One input, all of it unknown; `has_parent` is a constant where that is decided."""

    parent: Any
    has_parent: Any
    tokens: Any
    extras: Extras

    @classmethod
    def of(cls, name: str, has_parent: Any) -> Input:
        return cls(z3.Const(f"{name}_parent", BYTES), has_parent, z3.Const(f"{name}_tokens", BYTES), Extras(name))

    def block(self) -> Any:
        """What stands for the parent and the tokens."""
        some = z3.Concat(byte(z3.Length(self.parent)), self.parent)
        return z3.Concat(z3.If(self.has_parent, some, lift(hashing._NO_PARENT)), self.tokens)

    def head(self) -> Any:
        """What stands before extra keys."""
        return z3.Concat(lift(hashing._EXTRA), le32(self.extras.count))

    def fits(self) -> Any:
        return z3.Implies(self.has_parent, is_length(z3.Length(self.parent)))

    def extra(self, j: Any) -> Extra:
        return Extra(self.extras.name, j)


def raw(x: Extra) -> Any:
    return z3.If(x.is_bytes, x.data, z3.If(x.is_str, utf8(x.text), digits(x.number)))


def item(x: Extra) -> Any:
    """The part of an extra key."""
    tag = z3.If(x.is_bytes, lift(b"b"), z3.If(x.is_str, lift(b"s"), lift(b"i")))
    return z3.Concat(tag, le32(z3.Length(raw(x))), raw(x))


def encodable(x: Extra) -> Any:
    """It is of one of the three kinds, and not too long."""
    return z3.And(
        x.facts(), z3.Or(x.is_bytes, x.is_str, z3.And(x.is_int, z3.Not(x.is_bool))), z3.Length(raw(x)) < LIMIT
    )


def is_encoding(parts: Any, given: Input, num_extras: Any) -> dict[str, Any]:
    """The parts before the last are those of the input, with its first `num_extras` extra keys."""
    k = z3.Int("k")
    extra = given.extra(k - 1)
    each = z3.If(parts[k] == item(extra), encodable(extra), z3.BoolVal(False))  # one claim, about the part
    return {
        "how many extra keys": parts[0] == given.head(),
        "all fit": z3.And(given.fits(), in_range(given.extras.count)),
        "then each extra key": between(k, 1, num_extras + 1, each, parts[k]),
    }


SOURCE = inspect.getsource(hashing.encode)


def encode(text: str, options: dict[str, Any]) -> Iterator[Goal]:
    """The text of `encode`: what it returns is the encoding of what it was given."""
    for has_parent in (True, False):
        yield from _encode(text, Input.of("given", z3.BoolVal(has_parent)), Data if has_parent else None, options)


def _encode(text: str, given: Input, parent: Any, options: dict[str, Any]) -> Iterator[Goal]:
    def parts_so_far(loop: Loop, local: dict[str, Any]) -> list[tuple[str, Any]]:
        parts = local["parts"]
        count = z3.And(parts.length == loop.i + 1, parts.start == 0)
        return [("their number", count), *is_encoding(parts.array, given, loop.i).items()]

    executor = Executor(hypotheses=[], invariants={"encode#1": parts_so_far}, **options)
    constants = {name: getattr(hashing, name) for name in ("_EXTRA", "_NO_PARENT")}
    names = {"struct": Struct, "str": Written, "_join_": join, "InvalidArgument": errors.InvalidArgument}
    function = load_source(text, "kvblocks.hashing", {**names, **constants, "_LENGTH": Lengths()})["encode"]

    def program() -> Any:
        executor.assume(given.extras.count >= 0)
        return function(parent and parent(given.parent), Data(given.tokens), given.extras)

    def at_end(outcome: Outcome) -> None:
        if isinstance(outcome.error, errors.InvalidArgument | Struct.error | IndexError):
            return  # no encoding
        found, count = outcome.value, given.extras.count
        if not isinstance(found, Data):
            executor.prove("E", "it returns bytes", z3.BoolVal(False))
        elif not isinstance(found, Joined):
            executor.prove("E", "without extra keys, the block alone", z3.And(count == 0, found.term == given.block()))
            executor.prove("E", "the block: all fit", given.fits())
        else:
            executor.prove("E", "it returns so many parts, joined", z3.And(count >= 1, found.length == count + 2))
            executor.prove("E", "the parts: the block comes last", found.array[count + 1] == given.block())
            for label, claim in is_encoding(found.array, given, count).items():
                executor.prove("E", f"the parts: {label}", claim)

    return goals_of(executor, program, at_end)

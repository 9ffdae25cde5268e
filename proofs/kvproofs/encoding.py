"""(E): `kvblocks.hashing.encode` determines parent, tokens and extra keys.

The text is executed for any parent, any number of tokens and of extra keys, and shown to return the parts that
`is_encoding` says, joined, or to raise. Of that very formula `encoding_injective` proves that it determines the input.

Taken for true: what `struct.pack`, `join` and `+` do; that `str.encode("utf-8", "surrogatepass")` and
`str(int).encode()` give different bytes for different values.
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
    Struct,
    Tokens,
    Written,
    digits,
    in_range,
    join,
    le32,
    tokens_fit,
    utf8,
    words,
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
    tokens: Tokens
    extras: Extras

    @classmethod
    def of(cls, name: str, has_parent: Any) -> Input:
        return cls(z3.Const(f"{name}_parent", BYTES), has_parent, Tokens(name), Extras(name))

    def head(self) -> Any:
        some = z3.Concat(lift(b"\1"), le32(z3.Length(self.parent)), self.parent)
        return z3.If(self.has_parent, some, lift(b"\0"))

    def counted(self) -> Any:
        return z3.Concat(le32(self.tokens.count), words(self.tokens.term, self.tokens.count))

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
    """The parts are those of the input, with its first `num_extras` extra keys."""
    k = z3.Int("k")
    fits = z3.And(
        z3.Implies(given.has_parent, z3.Length(given.parent) < LIMIT),
        in_range(given.tokens.count),
        tokens_fit(given.tokens.term, given.tokens.count),
    )
    extra = given.extra(k - 2)
    each = z3.If(parts[k] == item(extra), encodable(extra), z3.BoolVal(False))  # one claim, about the part
    return {
        "the parent first": parts[0] == given.head(),
        "then the tokens": parts[1] == given.counted(),
        "all fit": fits,
        "then each extra key": between(k, 2, num_extras + 2, each, parts[k]),
    }


SOURCE = inspect.getsource(hashing.encode)


def encode(text: str, options: dict[str, Any]) -> Iterator[Goal]:
    """The text of `encode`: what it returns is the encoding of what it was given."""
    for has_parent in (True, False):
        yield from _encode(text, Input.of("given", z3.BoolVal(has_parent)), Data if has_parent else None, options)


def _encode(text: str, given: Input, parent: Any, options: dict[str, Any]) -> Iterator[Goal]:
    def parts_so_far(loop: Loop, local: dict[str, Any]) -> list[tuple[str, Any]]:
        parts = local["parts"]
        count = z3.And(parts.length == loop.i + 2, parts.start == 0)
        return [("their number", count), *is_encoding(parts.array, given, loop.i).items()]

    executor = Executor(hypotheses=[], invariants={"encode#1": parts_so_far}, **options)
    names = {"struct": Struct, "str": Written, "_join_": join, "InvalidArgument": errors.InvalidArgument}
    function = load_source(text, "kvblocks.hashing", names)["encode"]

    def program() -> Any:
        return function(parent and parent(given.parent), given.tokens, given.extras)

    def at_end(outcome: Outcome) -> None:
        if isinstance(outcome.error, errors.InvalidArgument | Struct.error):
            return  # no encoding
        found = outcome.value
        if not isinstance(found, Joined):
            executor.prove("E", "it returns the parts, joined", z3.BoolVal(False))
            return
        executor.prove("E", "it returns so many parts, joined", found.length == given.extras.count + 2)
        for label, claim in is_encoding(found.array, given, given.extras.count).items():
            executor.prove("E", f"the parts: {label}", claim)

    return goals_of(executor, program, at_end)

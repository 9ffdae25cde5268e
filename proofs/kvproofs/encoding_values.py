"""The values of `hashing.encode`: bytes, a tuple of tokens, extra keys; and what stands for `struct` and `str`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import z3

from kvproofs.errors import Unsupported
from kvproofs.executor import executing
from kvproofs.formulas import between
from kvproofs.loops import Items
from kvproofs.terms import BOOL, BYTES, INT, Bool, Int, Symbol, lift, number, require

TEXT = z3.DeclareSort("Text")
LIMIT = 2**32

le32 = z3.Function("le32", INT, BYTES)  # four bytes, little endian
words = z3.Function("words", z3.ArraySort(INT, INT), INT, BYTES)  # the first k numbers of an array, four bytes each
concat_from = z3.Function("concat_from", z3.ArraySort(INT, BYTES), INT, INT, BYTES)  # parts k .. n - 1, in order
utf8 = z3.Function("utf8", TEXT, BYTES)
digits = z3.Function("digits", INT, BYTES)


class Data(Symbol):
    """Bytes."""

    def size(self) -> Any:
        return z3.Length(self.term)

    def __add__(self, other: Any) -> Data:
        return Data(z3.Concat(self.term, _data(other)))

    def __radd__(self, other: Any) -> Data:
        return Data(z3.Concat(_data(other), self.term))


class Joined(Data):
    """`b"".join(parts)`."""

    def __init__(self, parts: Any) -> None:
        self.array, start, self.length = parts.snapshot()
        require(start == 0, "no slice is joined")
        super().__init__(concat_from(self.array, 0, self.length))


class Tokens(Symbol):
    """A tuple of any integers. Starred, it is one argument that stands for all."""

    def __init__(self, name: str) -> None:
        super().__init__(z3.Array(f"{name}_tokens", INT, INT))
        self.count = z3.Int(f"{name}_num_tokens")

    def size(self) -> Any:
        return Count(self.count)

    def __iter__(self) -> Iterator[Tokens]:  # type: ignore[override]
        return iter((self,))

    def __len__(self) -> int:  # type: ignore[override]
        return 1  # Python asks before it stars; the program's own `len` is `size`


class Count(Int):
    """The length of `Tokens`; in a format it keeps its name."""

    def __format__(self, _: str) -> str:
        return f"<{self.term}>"


class Extra(Symbol):
    """Extra key i: bytes, str or int, or something else."""

    def __init__(self, name: str, i: Any) -> None:
        super().__init__(i)
        self.is_bytes, self.is_str, self.is_int, self.is_bool = (
            z3.Array(f"{name}_is_{kind}", INT, BOOL)[i] for kind in ("bytes", "str", "int", "bool")
        )
        self.data = z3.Array(f"{name}_bytes", INT, BYTES)[i]
        self.text = z3.Array(f"{name}_text", INT, TEXT)[i]
        self.number = z3.Array(f"{name}_number", INT, INT)[i]

    def facts(self) -> Any:
        """Nothing is of two kinds, but a bool is an int."""
        return z3.And(
            z3.Not(z3.And(self.is_bytes, z3.Or(self.is_str, self.is_int))),
            z3.Not(z3.And(self.is_str, self.is_int)),
            z3.Implies(self.is_bool, self.is_int),
        )

    def instance_of(self, kind: Any) -> Bool:
        kinds = {bytes: self.is_bytes, Written: self.is_str, int: self.is_int, bool: self.is_bool}
        if kind not in kinds:
            raise Unsupported("isinstance of another kind")
        return Bool(kinds[kind])

    def encode(self, coding: str, handling: str) -> Data:
        """Of a str."""
        require(self.is_str, "it is a str that is encoded")
        if (coding, handling) != ("utf-8", "surrogatepass"):
            raise Unsupported("a coding of which nothing is known")
        return Data(utf8(self.text))

    def size(self) -> Any:
        return z3.Length(_data(self))


class Extras(Items):
    """A tuple of any number of anything."""

    def __init__(self, name: str) -> None:
        super().__init__(None)
        self.name, self.count = name, z3.Int(f"{name}_num_extras")

    def at(self, i: Any) -> Extra:
        item = Extra(self.name, i)
        executing().assume(item.facts())
        return item


class Written:
    """`str`: of an extra key that is an int, its digits."""

    def __init__(self, value: Any) -> None:
        require(value.is_int, "it is an int that is written")
        self._number = value.number

    def encode(self) -> Data:
        return Data(digits(self._number))


class Struct:
    """`struct`: packing one number, or a number and all tokens. What does not fit in four bytes is an error."""

    error = struct.error

    @classmethod
    def pack(cls, form: str, first: Any, *others: Any) -> Data:
        count = number(first)
        cls._check(in_range(count))
        if form == "<I" and not others:
            return Data(le32(count))
        if len(others) == 1 and isinstance(others[0], Tokens) and form == f"<I{others[0].size()}I":
            tokens = others[0]
            all_fit = executing().fresh(BOOL, "all_tokens_fit")
            cls._check(all_fit)
            executing().assume(z3.Implies(all_fit, tokens_fit(tokens.term, tokens.count)))
            return Data(z3.Concat(le32(count), words(tokens.term, tokens.count)))
        raise Unsupported(f"struct.pack of {form!r}")

    @staticmethod
    def _check(condition: Any) -> None:
        if not executing().fork(condition):
            raise struct.error("it does not fit")


def in_range(term: Any) -> Any:
    """It fits in four bytes."""
    return z3.And(0 <= term, term < LIMIT)


def tokens_fit(tokens: Any, count: Any) -> Any:
    """So does each of the first `count`."""
    j = z3.Int("j")
    return between(j, 0, count, in_range(tokens[j]), tokens[j])


def join(separator: bytes, parts: Any) -> Joined:
    if separator:
        raise Unsupported("a separator")
    return Joined(parts)


def _data(value: Any) -> Any:
    if isinstance(value, Extra):
        require(value.is_bytes, "it is bytes that are joined")
        return value.data
    if not isinstance(value, bytes | Data):
        raise Unsupported("bytes and something else")
    return lift(value)

"""The values of `hashing.encode`: bytes, a tuple of tokens, extra keys; and what stands for `struct` and `str`."""

from __future__ import annotations

import struct
from typing import Any

import z3

from kvblocks import hashing
from kvproofs.errors import Unsupported
from kvproofs.executor import executing
from kvproofs.loops import Items
from kvproofs.terms import BOOL, BYTES, INT, Bool, Symbol, lift, number, require

TEXT = z3.DeclareSort("Text")
LIMIT = 2**32

le32 = z3.Function("le32", INT, BYTES)  # four bytes, in the order of the machine or little endian
words = z3.Function("words", z3.ArraySort(INT, INT), INT, BYTES)  # the first k numbers of an array, four bytes each
octet = z3.Function("octet", INT, z3.BitVecSort(8))  # a number below 256 as a byte
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


class Lengths(Symbol):
    """`_LENGTH`: for each length of a parent the byte that stands for it."""

    def __init__(self) -> None:
        super().__init__(None)

    def __getitem__(self, index: Any) -> Data:
        if not executing().fork(is_length(number(index))):
            raise IndexError("no such length")
        return Data(byte(number(index)))


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

    def size(self) -> Any:
        return self.count

    def __bool__(self) -> bool:
        return executing().fork(self.count > 0)

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
    """`struct`: packing one number. What does not fit in four bytes is an error."""

    error = struct.error

    @classmethod
    def pack(cls, form: str, value: Any) -> Data:
        if form != "<I":
            raise Unsupported(f"struct.pack of {form!r}")
        if not executing().fork(in_range(number(value))):
            raise struct.error("it does not fit")
        return Data(le32(number(value)))


def in_range(term: Any) -> Any:
    """It fits in four bytes."""
    return z3.And(0 <= term, term < LIMIT)


def is_length(term: Any) -> Any:
    """A length of a parent: a byte can say it, and is none that says something else."""
    return z3.And(0 <= term, term < hashing._NO_PARENT[0])


def byte(term: Any) -> Any:
    """One byte that says a number."""
    return z3.Unit(octet(term))


def octets() -> Any:
    """What is known of `octet`: it can be read back, and the bytes that mean something else say no length."""
    x, of = z3.Int("x"), z3.Function("of_octet", z3.BitVecSort(8), INT)
    others = [octet(x) != byte for constant in (hashing._NO_PARENT, hashing._EXTRA) for byte in constant]
    return z3.ForAll([x], z3.Implies(is_length(x), z3.And(of(octet(x)) == x, *others)), patterns=[octet(x)])


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

"""Z3 terms that behave like the Python values they stand for, or raise.

`if` on a symbolic truth value forks the execution. What would need a concrete value (`hash`, `int`, an index
into a real list, iteration) raises: Z3 terms hash by syntax, so that a real dict would silently miss equal ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import z3

from kvproofs.errors import Unsupported

INT = z3.IntSort()
BOOL = z3.BoolSort()
KEY = z3.DeclareSort("Key")
SEQ = z3.DeclareSort("SeqId")
EXTRA = z3.DeclareSort("Extra")
PARTS = z3.DeclareSort("Parts")
BYTES = z3.SeqSort(z3.BitVecSort(8))

NOTHING = z3.Const("nothing_beside", EXTRA)
"""The empty one: it depends on its tokens alone."""

SIZE = z3.Int("block_size")
"""One block size for the whole proof: the only number by which programs may multiply or divide."""

times = z3.Function("times", INT, INT)  # k -> k * SIZE
div = z3.Function("div", INT, INT)  # n -> n // SIZE
mod = z3.Function("mod", INT, INT)  # n -> n % SIZE


class Run(Protocol):
    """What terms need of the executor while a program runs."""

    def fork(self, condition: Any) -> bool: ...

    def require(self, claim: Any, label: str) -> None: ...


_running: list[Run | None] = []


def running() -> Run:
    """The execution going on. Outside of one, no symbolic value may be asked for its truth."""
    run = _running[-1] if _running else None
    if run is None:
        raise Unsupported("the truth of a symbolic value was asked for outside of an execution")
    return run


@contextmanager
def apart() -> Iterator[None]:
    """Texts of the specification are evaluated apart from the execution going on: they raise no goals."""
    _running.append(None)
    try:
        yield
    finally:
        _running.pop()


def require(claim: Any, label: str) -> None:
    """Raise a goal, if a program is running: texts of the specification are total and raise none."""
    run = _running[-1] if _running else None
    if run is not None:
        run.require(claim, label)


class Symbol:
    """Base of all symbolic values."""

    def __init__(self, term: Any) -> None:
        self.term = term

    def _concrete(self, *_: Any) -> NoReturn:
        raise Unsupported(f"a concrete value was asked for: {type(self).__name__}")

    __hash__ = _concrete
    __index__ = __int__ = __float__ = __iter__ = __len__ = _concrete

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Bool(Symbol):
    """A truth value; asking for it forks the execution."""

    def __bool__(self) -> bool:
        return running().fork(self.term)

    def __eq__(self, other: object) -> Any:
        self._concrete()

    __hash__ = Symbol._concrete


class _Comparable(Symbol):
    def __bool__(self) -> bool:
        raise Unsupported("the truth of a value that is no truth value")

    def __eq__(self, other: object) -> Any:
        if other is None:
            return False
        if type(other) in _OPAQUE and type(other) is not type(self):
            raise Unsupported("values of different kinds are compared")
        return Bool(self.term == lift(other))

    def __ne__(self, other: object) -> Any:
        if other is None:
            return True
        return Bool(self.term != lift(other))

    __hash__ = Symbol._concrete


class KeyTerm(_Comparable):
    """A key of the hash strategy: never None."""


class OptionalKey(Symbol):
    """A key, or None: a parent. It is given to a hash strategy, and nothing else can be done with it."""


class SeqTerm(_Comparable):
    """A sequence id."""


class ExtraTerm(_Comparable):
    """What a sequence depends on beside its tokens."""

    def __bool__(self) -> bool:
        return running().fork(self.term != NOTHING)


class PartsTerm(Symbol):
    """The extra keys of a block. They are given to a hash strategy, and nothing else can be done with them."""


_OPAQUE = (KeyTerm, SeqTerm, ExtraTerm)


class Int(_Comparable):
    """An integer of any size."""

    def __bool__(self) -> bool:
        return running().fork(self.term != 0)

    def __lt__(self, other: Any) -> Any:
        return Bool(self.term < number(other))

    def __le__(self, other: Any) -> Any:
        return Bool(self.term <= number(other))

    def __gt__(self, other: Any) -> Any:
        return Bool(self.term > number(other))

    def __ge__(self, other: Any) -> Any:
        return Bool(self.term >= number(other))

    def __add__(self, other: Any) -> Any:
        return Int(self.term + number(other))

    def __radd__(self, other: Any) -> Any:
        return Int(number(other) + self.term)

    def __sub__(self, other: Any) -> Any:
        return Int(self.term - number(other))

    def __rsub__(self, other: Any) -> Any:
        return Int(number(other) - self.term)

    def __neg__(self) -> Any:
        return Int(-self.term)

    def __mul__(self, other: Any) -> Any:
        return Int(_product(self.term, number(other)))

    def __rmul__(self, other: Any) -> Any:
        return Int(_product(number(other), self.term))

    def __floordiv__(self, other: Any) -> Any:
        _divisor(other)
        return Int(div(self.term))

    def __mod__(self, other: Any) -> Any:
        _divisor(other)
        return Int(mod(self.term))


class Argument(Int):
    """What a caller gave where an integer belongs: it may be a bool, of another subclass, or no integer at all.

    is_plain: its type is int itself.
    """

    def __init__(self, value: Any, is_int: Any, is_bool: Any, is_plain: Any = None) -> None:
        super().__init__(value)
        self.is_int, self.is_bool, self.is_plain = is_int, is_bool, is_plain

    def facts(self) -> Any:
        """What is of type int is an integer, and no bool."""
        return z3.Implies(self.is_plain, z3.And(self.is_int, z3.Not(self.is_bool)))

    def has_type(self, kind: Any) -> Bool:
        """type(self) is kind"""
        if kind is int and self.is_plain is not None:
            return Bool(self.is_plain)
        raise Unsupported("the type of a value is asked for")

    def instance_of(self, kind: Any) -> Bool:
        """isinstance(self, kind)"""
        if kind is int:
            return Bool(self.is_int)
        if kind is bool:
            return Bool(z3.And(self.is_int, self.is_bool))
        raise Unsupported("isinstance of another kind")

    def is_token(self) -> Any:
        """It is a token id: an integer in 0 .. 2**32 - 1."""
        return z3.And(self.is_int, z3.Not(self.is_bool), 0 <= self.term, self.term < 2**32)


def _product(left: Any, right: Any) -> Any:
    if z3.is_int_value(left) or z3.is_int_value(right):
        return left * right
    for known, other in ((right, left), (left, right)):
        if known.eq(SIZE):
            return times(other)
    raise Unsupported("a product of two unknowns, neither of them the block size")


def _divisor(divisor: Any) -> None:
    term = number(divisor)
    require(term >= 1, "divisor >= 1")
    if not term.eq(SIZE):
        raise Unsupported("a divisor that is not the block size")


def number(value: Any) -> Any:
    """The Z3 term of an integer."""
    if isinstance(value, Int):
        return value.term
    if isinstance(value, z3.ArithRef):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return z3.IntVal(value)
    if value is None:
        raise TypeError("None where an integer belongs")  # as Python does, whatever the operator
    raise Unsupported(f"an integer was expected, not {type(value).__name__}")


def lift(value: Any) -> Any:
    """The Z3 term of any value."""
    if isinstance(value, Symbol):
        return value.term
    if isinstance(value, z3.ExprRef):
        return value
    if isinstance(value, bool):
        return z3.BoolVal(value)
    if isinstance(value, int):
        return z3.IntVal(value)
    if isinstance(value, bytes):
        units = [z3.Unit(z3.BitVecVal(byte, 8)) for byte in value]
        return z3.Concat(*units) if len(units) > 1 else units[0] if units else z3.Empty(BYTES)
    raise Unsupported(f"no symbolic form of {type(value).__name__}")


def wrap(term: Any) -> Any:
    """The value that behaves like the Z3 term."""
    kinds = {INT: Int, KEY: KeyTerm, SEQ: SeqTerm, BOOL: Bool, EXTRA: ExtraTerm}
    for sort, kind in kinds.items():
        if term.sort() == sort:
            return kind(term)
    raise Unsupported(f"a term of sort {term.sort()}")

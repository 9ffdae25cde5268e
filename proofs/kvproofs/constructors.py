"""The containers that a program makes itself: an empty dict, `[x] * n`, a deque, an ordered dict."""

from __future__ import annotations

import builtins
from typing import Any

import z3

from kvproofs.containers import Array, Counters, Deque, Dict, List, Optionals, OrderedKeys, Records, Rows
from kvproofs.errors import Unsupported
from kvproofs.executor import executing
from kvproofs.loops import Range
from kvproofs.terms import BOOL, EXTRA, INT, KEY, SEQ, Symbol, number

_EMPTY = z3.BoolVal(False)


LISTS: dict[str, tuple[Any, type[List]]] = {"table": (INT, List), "tokens": (INT, Array), "hashes": (KEY, List)}
VALUES = {"cached": INT, "extra": EXTRA, "next_slot": INT, "end": INT}
"""The fields of a `Sequence`: those that are lists, with their items, and the others, with their sorts."""


def empty_dict(annotation: str) -> Dict | Records:
    """An empty dict. Its annotation says only which sorts the terms have that it may hold later."""
    new = executing().fresh
    if annotation == "dict[Key, int]":
        return Dict(z3.K(KEY, _EMPTY), new(z3.ArraySort(KEY, INT), "values"))
    if annotation == "dict[Hashable, Sequence]":
        none, lengths = z3.K(SEQ, _EMPTY), z3.ArraySort(SEQ, INT)
        lists = {
            name: Rows(none, new(z3.ArraySort(SEQ, z3.ArraySort(INT, item)), "rows"), new(lengths, "lengths"), kind)
            for name, (item, kind) in LISTS.items()
        }
        values = {name: Dict(none, new(z3.ArraySort(SEQ, sort), "values")) for name, sort in VALUES.items()}
        return Records(lists | values)
    raise Unsupported(f"an empty dict of unknown kind: {annotation}")


def repeated(item: Any, count: Any) -> Any:
    """`[item] * count`: a list of numbers, or of optional keys."""
    if not isinstance(count, Symbol):
        raise Unsupported("a list repeated a known number of times")
    length = _at_least_0(number(count))
    if item is None:
        return Optionals(z3.K(INT, _EMPTY), executing().fresh(z3.ArraySort(INT, KEY), "values"), length)
    if isinstance(item, Symbol) or not isinstance(item, int):
        raise Unsupported("repeated is neither a number nor None")
    return Counters(z3.K(INT, z3.IntVal(item)), length, length if item > 0 else z3.IntVal(0))


def deque(items: Any) -> Deque:
    """`deque(range(...))`: the stamp of a number is the number itself."""
    if isinstance(items, builtins.range) or not isinstance(items, Range):
        raise Unsupported("a deque of anything but a symbolic range")
    run, b = executing(), z3.Int("b")
    first, last = items.first, items.first + items.count
    member, stamp = run.fresh(z3.ArraySort(INT, BOOL), "member"), run.fresh(z3.ArraySort(INT, INT), "stamp")
    inside = z3.And(first <= b, b < last)
    run.assume(z3.ForAll([b], member[b] == inside, patterns=[member[b]]))
    run.assume(z3.ForAll([b], stamp[b] == b, patterns=[stamp[b]]))
    return Deque(member, stamp, first, last, items.count)


def ordered_dict() -> OrderedKeys:
    """`OrderedDict()`."""
    zero = z3.IntVal(0)
    return OrderedKeys(z3.K(INT, _EMPTY), executing().fresh(z3.ArraySort(INT, INT), "stamp"), zero, zero, zero)


def _at_least_0(term: Any) -> Any:
    return z3.If(term > 0, term, z3.IntVal(0))

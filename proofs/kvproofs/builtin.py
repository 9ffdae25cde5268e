"""The built-in functions as symbolic programs see them: on ordinary values they are the ordinary ones."""

from __future__ import annotations

import builtins
from typing import Any

import z3

from kvproofs import theory
from kvproofs.constructors import empty_dict, repeated
from kvproofs.containers import List, Record
from kvproofs.errors import Unsupported
from kvproofs.executor import executing
from kvproofs.loops import Range, Reversed, Strides, enter_loop
from kvproofs.terms import INT, KEY, Bool, Int, KeyTerm, OptionalKey, SeqTerm, Symbol, number


def _len(value: Any) -> Any:
    """Of a symbol its `size`: a term, or a number that knows more."""
    own = getattr(value, "size", None) if isinstance(value, Symbol) else None
    size = own() if own else builtins.len(value)
    return size if isinstance(size, Symbol | int) else Int(size)


def _range(*bounds: Any) -> Any:
    """One or two bounds, or from 0 by blocks."""
    if not any(isinstance(bound, Symbol) for bound in bounds):
        return builtins.range(*bounds)
    if len(bounds) > 2:
        if bounds[0] != 0:
            raise Unsupported("a range with a step that does not begin at 0")
        return Strides(*map(number, bounds[1:]))
    *first, last = map(number, bounds)
    return Range(first[0] if first else z3.IntVal(0), last)


def _reversed(value: Any) -> Any:
    return Reversed(value) if isinstance(value, List) else builtins.reversed(value)


def _min(*values: Any) -> Any:
    if not any(isinstance(value, Symbol) for value in values):
        return builtins.min(*values)
    least, *others = map(number, values)
    for other in others:
        least = z3.If(least <= other, least, other)
    return Int(least)


def _copy(value: Any) -> Any:
    """A list of the items of a list, or of what knows itself what `list` makes of it."""
    if hasattr(type(value), "listed"):
        return value.listed()
    if isinstance(value, List):
        array, start, length = value.snapshot()
        return List(array, length, start)
    raise Unsupported(f"a copy of {type(value).__name__}")


class _Distinct(Symbol):
    """The set of the items of a list: how many they are."""

    def size(self) -> Any:
        return self.term


def _set_of(value: Any) -> Any:
    if not isinstance(value, List):
        raise Unsupported(f"a set of {type(value).__name__}")
    array, start, length = value.snapshot()
    i, j = z3.Ints("i j")
    here, there = array[start + i], array[start + j]
    repeats = z3.Exists([i, j], z3.And(0 <= i, i < j, j < length, here == there))
    run = executing()
    count = run.fresh(INT, "distinct")
    run.assume(z3.And(count <= length, (count != length) == repeats))
    return _Distinct(count)


def _map(function: Any, items: Any) -> Any:
    """`map(type, items)` of what knows the types of its items."""
    if function is type and hasattr(type(items), "types"):
        return items.types()
    raise Unsupported("map")


def _memoryview(value: Any) -> Any:
    if hasattr(type(value), "view"):
        return value.view()
    raise Unsupported(f"a memoryview of {type(value).__name__}")


def _has_type(value: Any, kind: Any) -> Any:
    """type(value) is kind"""
    if hasattr(type(value), "has_type"):
        return value.has_type(kind)
    raise Unsupported(f"the type of {type(value).__name__}")


def _isinstance(value: Any, kind: Any) -> Any:
    kind = builtins.list if kind is _copy else kind
    if hasattr(type(value), "instance_of"):
        return value.instance_of(kind)
    if isinstance(value, Int | KeyTerm | SeqTerm | Bool):
        return kind is int and isinstance(value, Int)
    if isinstance(value, Symbol):
        raise Unsupported("isinstance of a container")
    return builtins.isinstance(value, kind)


def _list(*parts: tuple[bool, Any]) -> List:
    """A list display: `parts` are its items, and whether each is starred."""
    made = List(None, z3.IntVal(0))
    for number_, (starred, part) in enumerate(parts):
        if not starred:
            made.append(part)
        elif number_ == 0 and isinstance(part, List):
            made.array, made.start, made.length = part.snapshot()
        else:
            raise Unsupported("a starred item that is not the first")
    return made


def _typed(annotation: str, value: Any) -> Any:
    """An empty list whose annotation says of what."""
    if isinstance(value, List) and value.array is None:
        sort = {"list[int]": INT, "list[Key]": KEY}.get(annotation)
        if sort is not None:
            value.array = z3.Const(f"empty_{sort}", z3.ArraySort(INT, sort))
    return value


def _no_key() -> OptionalKey:
    """None, where a name says that it holds a key."""
    return OptionalKey(theory.NO_KEY)


def _set(value: Any, owner: Any, name: str) -> None:
    """owner.name = value, where the owner is not self."""
    if not isinstance(owner, Record):
        raise Unsupported("an attribute of something else than self or a record is assigned")
    owner.set(name, value)


def _unsupported(what: str) -> None:
    raise Unsupported(what)


NAMES: dict[str, Any] = {
    "len": _len,
    "range": _range,
    "reversed": _reversed,
    "min": _min,
    "list": _copy,
    "set": _set_of,
    "map": _map,
    "memoryview": _memoryview,
    "isinstance": _isinstance,
    "_list_": _list,
    "_typed_": _typed,
    "_no_key_": _no_key,
    "_has_type_": _has_type,
    "_dict_": empty_dict,
    "_set_": _set,
    "_repeated_": repeated,
    "_join_": lambda *_: _unsupported("join"),
    "_enter_loop_": enter_loop,
    "_unsupported_": _unsupported,
    **{
        name: lambda *_, name=name: _unsupported(name)
        for name in (
            "sorted",
            "sum",
            "filter",
            "tuple",
            "zip",
            "enumerate",
            "iter",
            "next",
            "max",
            "any",
            "all",
            "dict",
            "abs",
            "hash",
            "id",
        )
    },
}

"""Symbolic containers: lists, a list of optionals, dicts, a deque and an ordered dict of unknown size.

Each models the operations that it has exactly, and raises `Unsupported` for all others. Every index raises a
goal. Lists inside a dict are rows of it: a list that is stored becomes the row, so that in-place changes are
seen through both; what would need two names for one list in two places is not supported.
"""

from __future__ import annotations

from typing import Any, NoReturn

import z3

from kvblocks.arithmetic import MAX_TOKEN_ID, TOKEN_BYTES
from kvproofs.errors import Unsupported
from kvproofs.executor import executing
from kvproofs.terms import BOOL, INT, Argument, Bool, Int, Symbol, lift, number, require, wrap


class Modelled(Symbol):
    """Base of the containers: what a model does not define is not supported."""

    fields: tuple[str, ...] = ()

    def __init__(self) -> None:
        executing().register(self)

    def parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.fields}

    def replace(self, parts: dict[str, Any]) -> None:
        for name, term in parts.items():
            setattr(self, name, term)

    def __getattr__(self, name: str) -> NoReturn:
        raise Unsupported(f"{type(self).__name__}.{name}")

    def __contains__(self, item: Any) -> bool:
        raise Unsupported(f"in {type(self).__name__}")

    def __eq__(self, other: object) -> bool:
        raise Unsupported(f"{type(self).__name__} is compared")

    __hash__ = Symbol._concrete

    def __bool__(self) -> bool:
        return executing().fork(self.size() > 0)

    def size(self) -> Any:
        raise Unsupported(f"len of {type(self).__name__}")


class List(Modelled):
    """A list: `start` is where in the array its item 0 lies (slices share the array of their list).

    `where` is a ghost: for each integer the index at which it was appended last, if it was.
    """

    fields = ("array", "start", "length", "where")

    def __init__(self, array: Any, length: Any, start: Any = None, *, home: tuple[Rows, Any] | None = None) -> None:
        super().__init__()
        self._home = home
        self._generation = home[0].generation if home else 0
        if home is None:
            self.array, self.length = array, length
            self.start = z3.IntVal(0) if start is None else start
            self.where = executing().fresh(z3.ArraySort(INT, INT), "where")

    def parts(self) -> dict[str, Any]:
        return {} if self._home else super().parts()  # a row is part of its dict

    def snapshot(self) -> tuple[Any, Any, Any]:
        """Array, start and length as they are now."""
        if self._home is None:
            return self.array, self.start, self.length
        rows, key = self._home
        if self._generation != rows.generation:
            raise Unsupported("a list is used after the dict that held it was changed")
        return rows.arrays[key], z3.IntVal(0), rows.lengths[key]

    def size(self) -> Any:
        return self.snapshot()[2]

    def __getitem__(self, index: Any) -> Any:
        array, start, length = self.snapshot()
        if isinstance(index, slice):
            return self._slice(index)
        if isinstance(index, int) and index < 0:
            position = length + index
        else:
            position = number(index)
        require(z3.And(0 <= position, position < length), "index in range")
        return wrap(array[z3.simplify(start + position)])

    def _slice(self, index: slice) -> List:
        array, start, length = self.snapshot()
        if index.step is not None:
            raise Unsupported("a slice with a step")
        first = z3.IntVal(0) if index.start is None else number(index.start)
        last = length if index.stop is None else number(index.stop)
        require(z3.And(0 <= first, first <= last, last <= length), "slice in range")
        return type(self)(array, z3.simplify(last - first), z3.simplify(start + first))

    def append(self, item: Any) -> None:
        array, start, length = self.snapshot()
        if array is None:
            array = executing().fresh(z3.ArraySort(INT, lift(item).sort()), "new")
        if self._home is None and isinstance(item, Int):
            self.where = z3.Store(self.where, item.term, length)
        self._store(z3.Store(array, z3.simplify(start + length), lift(item)), z3.simplify(length + 1))

    def _store(self, array: Any, length: Any) -> None:
        if self._home is None:
            self.array, self.length = array, length
        else:
            rows, key = self._home
            rows.arrays = z3.Store(rows.arrays, key, array)
            rows.lengths = z3.Store(rows.lengths, key, length)

    def move_into(self, rows: Rows, key: Any) -> tuple[Any, Any]:
        """From now on this list is the row of a dict; what it held goes there."""
        if self._home is not None:
            raise Unsupported("one list is stored in two places")
        require(self.start == 0, "no slice is stored")
        held = self.array, self.length
        self._home, self._generation = (rows, key), rows.generation
        return held

    @property
    def is_private(self) -> bool:
        """No dict holds this very list."""
        return self._home is None


class Array(List):
    """An `array` of token ids: what it is given must be one, or it raises."""

    def append(self, item: Any) -> None:
        value = number(item)
        is_int = item.is_int if isinstance(item, Argument) else z3.BoolVal(True)
        require(z3.And(is_int, 0 <= value, value <= MAX_TOKEN_ID), "an array is given a token id")
        super().append(Int(value))

    def tobytes(self) -> Packed:
        return Packed(*self.snapshot())


class Packed(Symbol):
    """The bytes of token ids: those of an array from `start` on. What they are made of, they can be read back to."""

    def __init__(self, array: Any, start: Any, length: Any) -> None:
        self.array, self.start, self.length = array, start, length

    def size(self) -> Any:
        return TOKEN_BYTES * self.length

    def __getitem__(self, index: slice) -> Packed:
        if not isinstance(index, slice) or index.step is not None:
            raise Unsupported("bytes of tokens are cut in no other way")
        first, last = (z3.simplify(number(bound) / TOKEN_BYTES) for bound in (index.start, index.stop))
        whole = z3.And(TOKEN_BYTES * first == number(index.start), TOKEN_BYTES * last == number(index.stop))
        require(z3.And(whole, 0 <= first, first <= last, last <= self.length), "whole tokens, in range")
        return Packed(self.array, z3.simplify(self.start + first), z3.simplify(last - first))


class Counters(Modelled):
    """A list of integers of fixed length that also knows how many of them are positive."""

    fields = ("array", "positive")

    def __init__(self, array: Any, length: Any, positive: Any) -> None:
        super().__init__()
        self.array, self.length, self.positive = array, length, positive

    def size(self) -> Any:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        position = number(index)
        require(z3.And(0 <= position, position < self.length), "index in range")
        return Int(self.array[position])

    def __setitem__(self, index: Any, value: Any) -> None:
        position, new = number(index), number(value)
        require(z3.And(0 <= position, position < self.length), "index in range")
        gained = z3.If(new > 0, z3.IntVal(1), z3.IntVal(0)) - z3.If(
            self.array[position] > 0, z3.IntVal(1), z3.IntVal(0)
        )
        self.positive = z3.simplify(self.positive + gained)
        self.array = z3.Store(self.array, position, new)


class Optionals(Modelled):
    """A list of fixed length whose items are keys or None."""

    fields = ("has", "values")

    def __init__(self, has: Any, values: Any, length: Any) -> None:
        super().__init__()
        self.has, self.values, self.length = has, values, length

    def size(self) -> Any:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        position = number(index)
        require(z3.And(0 <= position, position < self.length), "index in range")
        return wrap(self.values[position]) if Bool(self.has[position]) else None

    def __setitem__(self, index: Any, value: Any) -> None:
        position = number(index)
        require(z3.And(0 <= position, position < self.length), "index in range")
        self.has = z3.Store(self.has, position, value is not None)
        if value is not None:
            self.values = z3.Store(self.values, position, lift(value))


class Dict(Modelled):
    """A dict whose values are single terms. None is no key of it."""

    fields = ("has", "values")

    def __init__(self, has: Any, values: Any) -> None:
        super().__init__()
        self.has, self.values = has, values

    def __contains__(self, key: Any) -> bool:
        return key is not None and bool(Bool(self.has[lift(key)]))

    def get(self, key: Any, default: Any = None) -> Any:
        return wrap(self.values[lift(key)]) if key in self else default

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            raise KeyError("no such key")
        return wrap(self.values[lift(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is None:
            raise Unsupported("None as a key")
        self.has = z3.Store(self.has, lift(key), True)
        self.values = z3.Store(self.values, lift(key), lift(value))

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError("no such key")
        self.has = z3.Store(self.has, lift(key), False)

    def setdefault(self, key: Any, value: Any) -> Any:
        if key not in self:
            self[key] = value
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        if default and key not in self:
            return default[0]
        value = self[key]
        del self[key]
        return value


class Rows(Modelled):
    """A dict whose values are lists, or all of them arrays. No two of them are the same object."""

    fields = ("has", "arrays", "lengths")

    def __init__(self, has: Any, arrays: Any, lengths: Any, kind: type[List] = List) -> None:
        super().__init__()
        self.has, self.arrays, self.lengths, self.kind = has, arrays, lengths, kind
        self.generation = 0

    def replace(self, parts: dict[str, Any]) -> None:
        """A loop that makes the rows unknown may have stored other lists: those taken out before are stale."""
        super().replace(parts)
        self.generation += 1

    def __contains__(self, key: Any) -> bool:
        return bool(Bool(self.has[lift(key)]))

    def __getitem__(self, key: Any) -> List:
        if key not in self:
            raise KeyError("no such key")
        return self.kind(None, None, home=(self, lift(key)))

    def get(self, key: Any) -> List | None:
        if key not in self:
            return None
        return self[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) is not self.kind:
            raise Unsupported(f"what is stored is no {self.kind.__name__}")
        self.generation += 1
        array, length = value.move_into(self, lift(key))
        self.has = z3.Store(self.has, lift(key), True)
        if array is not None:
            self.arrays = z3.Store(self.arrays, lift(key), array)
        self.lengths = z3.Store(self.lengths, lift(key), length)

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError("no such key")
        self.generation += 1
        self.has = z3.Store(self.has, lift(key), False)


class Records(Modelled):
    """A dict whose values are records of one class: a column for each of its fields, all of them with the same keys.

    No two of its keys have the same record.
    """

    def __init__(self, columns: dict[str, Rows | Dict]) -> None:
        super().__init__()
        self.columns = columns

    @property
    def generation(self) -> int:
        """It changes with every record that is stored or deleted, or may have been, in a loop."""
        return sum(column.generation for column in self.columns.values() if isinstance(column, Rows))

    def __contains__(self, key: Any) -> bool:
        return all(key in column for column in self.columns.values())

    def get(self, key: Any) -> Record | None:
        return Record(self, lift(key)) if key in self else None

    def __getitem__(self, key: Any) -> Record:
        if key not in self:
            raise KeyError("no such key")
        return Record(self, lift(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        """A record that the program has made: its class says what fields it has."""
        if set(getattr(type(value), "__slots__", ())) != set(self.columns):
            raise Unsupported(f"{type(value).__name__} has other fields than these records")
        for name, column in self.columns.items():
            column[key] = getattr(value, name)

    def __delitem__(self, key: Any) -> None:
        for column in self.columns.values():
            del column[key]


class Record(Symbol):
    """What a dict of records holds under a key: it is read and changed there."""

    def __init__(self, records: Records, key: Any) -> None:
        vars(self).update(_records=records, _key=key, _generation=records.generation)

    def _column(self, name: str) -> Rows | Dict:
        records = self._records
        if self._generation != records.generation:
            raise Unsupported("a record is used after the dict that held it was changed")
        if name not in records.columns:
            raise Unsupported(f"a record has no {name}")
        column: Rows | Dict = records.columns[name]
        return column

    def __getattr__(self, name: str) -> Any:
        return self._column(name)[wrap(self._key)]

    def set(self, name: str, value: Any) -> None:
        """record.name = value. After a list is replaced, no record that was taken before is known any more."""
        self._column(name)[wrap(self._key)] = value


class Ordered(Modelled):
    """Distinct integers in an order: a deque without repetitions, or the keys of an ordered dict.

    member   which are in it
    stamp    their order: all stamps are in low .. high - 1, and no two are equal
    count    how many there are
    """

    fields = ("member", "stamp", "low", "high", "count")

    def __init__(self, member: Any, stamp: Any, low: Any, high: Any, count: Any) -> None:
        super().__init__()
        self.member, self.stamp, self.low, self.high, self.count = member, stamp, low, high, count

    def known(self) -> None:
        """Assume what is true of every such container, whatever the program did to it."""
        b, c = z3.Ints("b c")
        low, stamp, high = self.low, self.stamp, self.high
        order = {
            "stamps lie between low and high": z3.ForAll(
                [b], z3.Implies(self.member[b], z3.And(low <= stamp[b], stamp[b] < high))
            ),
            "no two stamps are equal": z3.ForAll(
                [b, c],
                z3.Implies(z3.And(self.member[b], self.member[c], stamp[b] == stamp[c]), b == c),
                patterns=[z3.MultiPattern(stamp[b], stamp[c])],
            ),
        }
        executing().assume_axioms("pool", {**order, **self._counts()})

    def _counts(self) -> dict[str, Any]:
        b = z3.Int("b")
        return {
            "no count is negative": self.count >= 0,
            "what has a member has a count": z3.ForAll(
                [b], z3.Implies(self.member[b], self.count >= 1), patterns=[self.member[b]]
            ),
            "what has a count has a member": z3.Implies(self.count > 0, self.member[executing().fresh(INT, "some")]),
        }

    def size(self) -> Any:
        return self.count

    def __contains__(self, item: Any) -> bool:
        return bool(Bool(self.member[number(item)]))

    def _insert_last(self, item: Any) -> None:
        self.member = z3.Store(self.member, item, True)
        self.stamp = z3.Store(self.stamp, item, self.high)
        self.high, self.count = z3.simplify(self.high + 1), z3.simplify(self.count + 1)

    def _insert_first(self, item: Any) -> None:
        self.low = z3.simplify(self.low - 1)
        self.member = z3.Store(self.member, item, True)
        self.stamp = z3.Store(self.stamp, item, self.low)
        self.count = z3.simplify(self.count + 1)

    def _remove(self, item: Any) -> None:
        self.member = z3.Store(self.member, item, False)
        self.count = z3.simplify(self.count - 1)
        executing().assume_axioms("pool", self._counts())

    def _remove_extreme(self, *, last: bool) -> Any:
        """Take out the member with the greatest or the least stamp; there is one."""
        run = executing()
        item, b = run.fresh(INT, "end"), z3.Int("b")
        rank = self.stamp[b] <= self.stamp[item] if last else self.stamp[item] <= self.stamp[b]
        run.assume(self.member[item])
        run.assume(z3.ForAll([b], z3.Implies(self.member[b], rank), patterns=[self.member[b]]))
        self._remove(item)
        return Int(item)


class Deque(Ordered):
    """A deque. That nothing is appended twice is a goal."""

    def append(self, item: Any) -> None:
        require(z3.Not(self.member[number(item)]), "nothing is listed twice")
        self._insert_last(number(item))

    def appendleft(self, item: Any) -> None:
        require(z3.Not(self.member[number(item)]), "nothing is listed twice")
        self._insert_first(number(item))

    def popleft(self) -> Any:
        if not self:
            raise IndexError("pop from an empty deque")
        return self._remove_extreme(last=False)

    def pop(self) -> Any:
        if not self:
            raise IndexError("pop from an empty deque")
        return self._remove_extreme(last=True)


class OrderedKeys(Ordered):
    """An OrderedDict whose values are None."""

    def __setitem__(self, key: Any, value: None) -> None:
        if value is not None:
            raise Unsupported("a value in an ordered dict")
        if key not in self:  # a key that is there keeps its place
            self._insert_last(number(key))

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError("no such key")
        self._remove(number(key))

    def popitem(self, last: bool = True) -> tuple[Any, None]:
        if not self:
            raise KeyError("the dict is empty")
        return self._remove_extreme(last=last), None

    def move_to_end(self, key: Any, last: bool = True) -> None:
        del self[key]
        if last:
            self._insert_last(number(key))
        else:
            self._insert_first(number(key))


__all__ = [
    "BOOL",
    "Counters",
    "Deque",
    "Dict",
    "List",
    "Modelled",
    "Optionals",
    "Ordered",
    "OrderedKeys",
    "Record",
    "Records",
    "Rows",
]

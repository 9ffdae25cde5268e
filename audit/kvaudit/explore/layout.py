"""Where a class keeps what it knows of a live sequence: in dicts, one a structure, or in one record a sequence.

Either way a state has for each sequence its `Values`: table, tokens, hashes, cached count, and then the rest of the
record. The rest is no state of its own: the class of the record makes it of the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Protocol

from kvaudit.api import ApiTarget
from kvaudit.protocol import Allocate, Pool

PER_SEQUENCE = ("tables", "tokens", "hashes", "cached")
"""The structures of `observe()` that have something for each sequence: lists, and a number."""

EXTRA = "extra"
"""What sequences depend on beside their tokens, for a class that keeps it: in a search (), nothing, for each."""

Values = tuple[Any, ...]
"""Of one sequence: its table, tokens, hashes and cached count, and behind them the rest of its record."""


_PLAIN = (int, str, bytes, float, bool, type(None))


class Unfit(Exception):
    """The target's state cannot be had in full: it can be searched only by playing programs. The message says why."""


class Layout(Protocol):
    """Brings the values of all sequences into the attributes of a manager, and back."""

    def write(self, sequences: Mapping[Hashable, Values], attributes: dict[str, Any]) -> None:
        """Make a manager hold copies of these. O(state)."""
        ...

    def read(self, attributes: dict[str, Any]) -> dict[Hashable, Values] | None:
        """The manager's own; None if two structures are not of the same sequences. Raises Unfit if there is more."""
        ...

    def made(self, values: Values) -> Values:
        """The same with a rest that is made anew. Raises Unfit if it cannot be."""
        ...

    def differs(self, values: Values) -> str:
        """How the rest is not what is made of the others, in words; empty if it is. Raises Unfit as `made`."""
        ...


def joined(
    tables: Mapping[Any, Any], tokens: Mapping[Any, Any], hashes: Mapping[Any, Any], cached: Mapping[Any, Any]
) -> dict[Hashable, Values] | None:
    """The values of each sequence; None if the four are not of the same ones."""
    if not tables.keys() == tokens.keys() == hashes.keys() == cached.keys():
        return None
    return {seq: (table, tokens[seq], hashes[seq], cached[seq]) for seq, table in tables.items()}


class Dicts:
    """A dict for each structure; there is no rest. `initial`: what a fresh manager has. Raises Unfit for others."""

    def __init__(self, declared: Mapping[str, str], initial: Mapping[str, Any]) -> None:
        self._names = tuple(declared[name] for name in PER_SEQUENCE)
        self._extra = declared.get(EXTRA)
        if not all(isinstance(initial[name], dict) for name in self._names):
            raise Unfit("its attributes are no plain containers")

    def write(self, sequences: Mapping[Hashable, Values], attributes: dict[str, Any]) -> None:
        """Make a manager hold copies of these. O(state)."""
        tables, tokens, hashes, cached = self._names
        attributes[tables] = {seq: values[0][:] for seq, values in sequences.items()}
        attributes[tokens] = {seq: values[1][:] for seq, values in sequences.items()}
        attributes[hashes] = {seq: values[2][:] for seq, values in sequences.items()}
        attributes[cached] = {seq: values[3] for seq, values in sequences.items()}
        if self._extra is not None:
            attributes[self._extra] = dict.fromkeys(sequences, ())

    def read(self, attributes: dict[str, Any]) -> dict[Hashable, Values] | None:
        """The manager's own; None if two structures are not of the same sequences. Raises Unfit if there is more."""
        tables, tokens, hashes, cached = self._names
        if self._extra is not None and attributes[self._extra] != dict.fromkeys(attributes[tables], ()):
            raise Unfit(f"its attribute {self._extra} is not (), nothing, of each live sequence")
        return joined(attributes[tables], attributes[tokens], attributes[hashes], attributes[cached])

    def made(self, values: Values) -> Values:
        """The same: there is no rest."""
        return values

    def differs(self, values: Values) -> str:
        """Nothing: there is no rest."""
        return ""


class Records:
    """A dict of records. `sample`: one of them, as the class makes them on a pool of that block size.

    Raises Unfit if its class does not take each declared field by its name, or takes more than those and block_size.
    """

    def __init__(self, declared: Mapping[str, str], attribute: str, sample: Any, block_size: int) -> None:
        self._attribute = attribute
        self._class = cls = type(sample)
        fields = {name: path.partition(".")[2] for name, path in declared.items() if name in (*PER_SEQUENCE, EXTRA)}
        own = tuple(fields[name] for name in PER_SEQUENCE)
        self._rest = tuple(name for name in _fields(sample) if name not in own)
        for name in (*own, *self._rest):
            if not hasattr(sample, name):
                raise Unfit(f"its {cls.__name__} has no field {name}")
        self._values = attrgetter(*own, *self._rest)
        self._size = len(vars(sample)) if hasattr(sample, "__dict__") else None
        others = {fields[EXTRA]: (), "block_size": block_size} if EXTRA in fields else {"block_size": block_size}
        self._others = tuple(others.values())
        self._make, taken = _constructor(cls, (*own, *others))
        self._taken = itemgetter(*taken)

    def write(self, sequences: Mapping[Hashable, Values], attributes: dict[str, Any]) -> None:
        """Make a manager hold copies of these. O(state)."""
        make, taken, others = self._make, self._taken, self._others
        attributes[self._attribute] = {
            seq: make(*taken((values[0][:], values[1][:], values[2][:], values[3], *others)))
            for seq, values in sequences.items()
        }

    def read(self, attributes: dict[str, Any]) -> dict[Hashable, Values] | None:
        """The manager's own. Raises Unfit if there is more."""
        records, cls, values_of = attributes[self._attribute], self._class, self._values
        try:
            sequences = {seq: values_of(record) for seq, record in records.items() if type(record) is cls}
        except AttributeError as error:
            raise Unfit(f"of a record in its {self._attribute} a field is missing: {error}") from None
        if len(sequences) != len(records):
            raise Unfit(f"not every record in its {self._attribute} is a {cls.__name__}")
        if self._size is not None and any(len(vars(record)) != self._size for record in records.values()):
            raise Unfit(f"a {cls.__name__} has got a field after it was made")
        return sequences

    def made(self, values: Values) -> Values:
        """The same with a rest that is made anew. Raises Unfit if it cannot be."""
        table, tokens, hashes, cached = values[:4]
        try:
            return self._values(self._make(*self._taken((table[:], tokens[:], hashes[:], cached, *self._others))))
        except Exception as error:
            raise Unfit(f"no {self._class.__name__} can be made of its declared fields: {error!r}") from None

    def differs(self, values: Values) -> str:
        """How the rest is not what is made of the others, in words; empty if it is. Raises Unfit as `made`."""
        made = self.made(values)
        for name, is_there, due in zip(self._rest, values[4:], made[4:], strict=True):
            if not (_is_plain(is_there) and _is_plain(due)):
                raise Unfit(f"the {name} of a {self._class.__name__} is no plain value, and its STATE does not name it")
            if is_there != due or type(is_there) is not type(due):
                return (
                    f"a {self._class.__name__} has the {name} {is_there!r}, and {due!r} follows from its other fields"
                )
        return "" if made == values else f"a {self._class.__name__} does not keep the fields that it is made of"


def layout_of(declared: Mapping[str, str], target: ApiTarget, pool: Pool) -> Layout:
    """How a class with that STATE keeps its sequences. Where that is in records, a pool is opened to see what they are.

    Raises Unfit if it cannot be restored so.
    """
    attribute = _attribute_of_records(declared)
    manager = opened(target, pool)
    if attribute is None:
        return Dicts(declared, vars(manager))
    target.run([Allocate("a", (0,))])
    records = getattr(manager, attribute)
    if not isinstance(records, dict) or not records:
        raise Unfit(f"its {attribute} holds no record when a sequence is live")
    return Records(declared, attribute, next(iter(records.values())), pool.block_size)


def opened(target: ApiTarget, pool: Pool) -> Any:
    """A fresh manager. Raises Unfit if there is none."""
    failed = target.open(pool)
    if failed is not None:
        raise Unfit(f"its constructor raised {failed.error}")
    return target.manager


def _attribute_of_records(declared: Mapping[str, str]) -> str | None:
    """The attribute that holds a record for each sequence; None if there are dicts. Raises Unfit for half of each."""
    paths = [path for name, path in declared.items() if name in (*PER_SEQUENCE, EXTRA)]
    attributes = {path.rpartition(".")[0] for path in paths}
    if len(attributes) > 1 or any(path.count(".") > 1 for path in paths):
        names = ", ".join(sorted(paths))
        raise Unfit(f"its STATE names neither an attribute each nor fields of one record a sequence: {names}")
    return attributes.pop() or None


def _fields(sample: Any) -> list[str]:
    """What a record holds: in slots, in its dict, as a named tuple, or as a class of C has it."""
    slots = [
        name
        for cls in type(sample).__mro__
        for name, value in vars(cls).items()
        if inspect.ismemberdescriptor(value) or (inspect.isgetsetdescriptor(value) and not name.startswith("__"))
    ]
    named = getattr(type(sample), "_fields", ()) if isinstance(sample, tuple) else ()
    return [*dict.fromkeys([*slots, *named, *getattr(sample, "__dict__", ())])]


def _is_plain(value: Any) -> bool:
    """Equal means the same, of whatever it is made: no list or dict, no number of another library."""
    return type(value) in _PLAIN or (type(value) is tuple and all(map(_is_plain, value)))


def _constructor(cls: type[Any], fields: Sequence[str]) -> tuple[Callable[..., Any], list[int]]:
    """Makes a record; and which of the fields it is to be given, in order. A block_size need not be taken.

    Called by position where that can be, since a call by name takes half as long again.
    """
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        raise Unfit(f"its {cls.__name__} does not say what it is made of") from None
    names = [each.name for each in parameters if each.default is each.empty or each.name in fields]
    more = [name for name in names if name not in fields]
    fewer = [name for name in fields if name not in names and name != "block_size"]
    if more or fewer:
        what = f"needs {more[0]}, which its STATE does not name" if more else f"does not take {fewer[0]}"
        raise Unfit(f"the constructor of its {cls.__name__} {what}")
    taken = [fields.index(name) for name in names]
    first = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD][: len(names)]
    return cls if first == names else lambda *values: cls(**dict(zip(names, values, strict=True))), taken

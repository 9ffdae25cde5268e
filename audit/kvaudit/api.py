"""A target in this process: any class with the seed's API, driven through its public methods.

The class needs no base class and no adapter: a constructor `(num_blocks, block_size, enable_prefix_cache)`,
`allocate`, `append_slot`, `free`, `num_free_blocks` (property or method) and `num_cached_tokens`. What else it
offers (`slot`, `can_allocate`, `block_table`, `observe`) is checked too.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from kvaudit.errors import TargetError
from kvaudit.in_process import MOST, InProcessTarget, is_named, plain
from kvaudit.protocol import (
    EXTRAS,
    MANAGER,
    NOTHING,
    Allocate,
    Append,
    Call,
    CanAllocate,
    Free,
    LevelName,
    Observe,
    Observed,
    Outcome,
    Raised,
    Refused,
    Returned,
    Scribble,
    Slot,
    State,
)
from kvaudit.time_limit import Hang

_DONE = Returned()

REQUIRED = ("allocate", "append_slot", "free", "num_free_blocks", "num_cached_tokens")
OPTIONAL = ("slot", "can_allocate", "block_table", "observe")


class ApiTarget(InProcessTarget):
    """Executes operations on instances of a class with the seed's API."""

    driven_at: ClassVar[LevelName] = MANAGER
    required = REQUIRED
    optional = OPTIONAL

    def __init__(self, make: Callable[..., Any], **named: Any) -> None:
        super().__init__(make, **named)
        self.capabilities |= _taken(getattr(make, "allocate"))  # noqa: B009

    def _handlers(self) -> Mapping[type[Any], Callable[[Any], Outcome]]:
        return {
            Allocate: self._allocate,
            Append: self._append,
            Free: self._free,
            Slot: self._slot,
            CanAllocate: self._can_allocate,
            Observe: self._observe,
            Scribble: self._scribble,
            Call: self._raw_call,
        }

    def _forget(self) -> None:
        self._live: list[str] = []
        self._lists: list[list[Any]] = []  # those that the last operation took and returned

    def misuse(self, call: Call) -> Outcome:
        """As `execute`, but of an exception only its class is said: a search makes millions of such calls."""
        try:
            return self._raw_call(call)
        except (TargetError, Hang, KeyboardInterrupt):
            raise
        except BaseException as error:
            if self._refuses(type(error)):
                return Refused()
            return Raised(type(error).__name__, named=is_named(error, call.args))

    def adopt(self, manager: Any, live: Iterable[str]) -> None:
        """Go on with this manager in place of the open one; `live` are the ids of its live sequences."""
        self._manager, self._live, self._lists = manager, list(live), []

    def _allocate(self, operation: Allocate) -> Outcome:
        tokens = list(operation.tokens)
        self._lists.append(tokens)
        if operation.extra is NOTHING:
            table = self._manager.allocate(operation.seq, tokens)
        else:
            table = self._manager.allocate(operation.seq, tokens, **operation.extra.named())
        self._live.append(operation.seq)
        if isinstance(table, list):
            self._lists.append(table)
        return Returned(plain(table))

    def _append(self, operation: Append) -> Outcome:
        return Returned(plain(self._manager.append_slot(operation.seq, operation.token)))

    def _free(self, operation: Free) -> Outcome:
        self._manager.free(operation.seq)
        self._live.remove(operation.seq)
        return _DONE

    def _slot(self, operation: Slot) -> Outcome:
        return Returned(plain(self._manager.slot(operation.seq, operation.pos)))

    def _can_allocate(self, operation: CanAllocate) -> Outcome:
        return Returned(plain(self._manager.can_allocate(operation.num_tokens)))

    def _observe(self, _: Observe) -> Outcome:
        manager, offers, live = self._manager, self.capabilities, self._live
        given: dict[str, Any] | None = None
        if "block_table" in offers:
            block_table = manager.block_table
            given = {seq: block_table(seq) for seq in live}
            self._lists += [table for table in given.values() if isinstance(table, list)]
        free = manager.num_free_blocks
        num_cached_tokens = manager.num_cached_tokens
        tables, cached = _plain_records(given, {seq: num_cached_tokens(seq) for seq in live})
        return Observed(
            num_free_blocks=plain(free() if callable(free) else free),
            tables=tables,
            cached=cached,
            state=as_state(manager.observe()) if "observe" in offers else None,
        )

    def _scribble(self, _: Scribble) -> Outcome:
        for items in self._lists:
            items[:] = [7] * (len(items) + 1)
        self._lists.clear()
        return _DONE

    def _raw_call(self, call: Call) -> Outcome:
        args = list(call.args)
        if call.fail_at is not None:
            args[-1] = _failing(args[-1], call.fail_at)
        method = getattr(self._manager, call.method)
        result = method(*args, **(call.named or {})) if callable(method) else method
        return Returned(plain(result))


def _taken(allocate: Any) -> frozenset[str]:
    """What of EXTRAS a method has arguments for."""
    try:
        return frozenset(EXTRAS).intersection(inspect.signature(allocate).parameters)
    except (TypeError, ValueError):  # of a builtin nobody knows
        return frozenset()


_Natural = Annotated[int, msgspec.Meta(ge=0, le=MOST)]


class _Records(msgspec.Struct, frozen=True, array_like=True):
    """What is read of the live sequences, where it is as it should be."""

    tables: dict[Any, tuple[_Natural, ...]] | None
    cached: dict[Any, _Natural]


def _plain_records(tables: dict[str, Any] | None, cached: dict[str, Any]) -> tuple[Any, Any]:
    """Copies, each value made `plain`, but of a list a tuple."""
    try:
        records = msgspec.convert((tables, cached), _Records)  # several times as fast as to look at each number here
    except Exception:  # whatever strange values raise
        tables = None if tables is None else {seq: _plain_table(table) for seq, table in tables.items()}
        return tables, {seq: plain(count) for seq, count in cached.items()}
    return records.tables, records.cached


def _plain_table(value: Any) -> Any:
    copied = plain(value)
    return tuple(copied) if type(copied) is list else copied


def as_state(observation: Any) -> State:
    """The result of `observe()`, a mapping or an object with the seed's names, as a State.

    Raises TargetError if it is neither or holds nonsense.
    """
    given: Sequence[Any]
    try:
        given = _all_attributes(observation)  # the common case, and the fastest
    except AttributeError:
        if isinstance(observation, Mapping):
            given = [observation.get(name) for name in _NAMES]
        else:
            given = [getattr(observation, name, None) for name in _NAMES]
    try:
        seen: Any = msgspec.convert(given, _Structures)  # the common case; it copies and looks at each number in C
        state = State(*msgspec.structs.astuple(seen))
    except Exception:  # whatever strange values raise
        state = State(*_copies(given))
    if state == _NOTHING_SEEN:
        raise TargetError(
            f"observe() gives {observation!r:.80}, in which none of {', '.join(_NAMES)} is found. "
            "Run with --black-box to audit without it."
        )
    return state


_NOTHING_SEEN = State()

_Numbers = tuple[int, ...] | None
_NumbersOfEach = dict[Any, tuple[int, ...]] | None


class _Structures(msgspec.Struct, frozen=True, array_like=True):
    """The structures of an observation, in the order of `_NAMES`, where they are as they should be."""

    free: _Numbers
    evictable: _Numbers
    ref: _Numbers
    block_hash: tuple[Any, ...] | None
    hash_to_block: dict[Any, int] | None
    tables: _NumbersOfEach
    tokens: _NumbersOfEach
    hashes: dict[Any, tuple[Any, ...]] | None
    cached: dict[Any, int] | None


def _copies(given: Sequence[Any]) -> list[Any]:
    """The structures of an observation copied, with what else stands for a number as one. Raises TargetError."""
    values: list[Any] = []
    try:
        for value, copied in zip(given, _COPIES, strict=True):
            values.append(None if value is None else copied(value))
    except (TypeError, AttributeError, ValueError):
        at = len(values)
        raise TargetError(
            f"observe() gives {given[at]!r:.80} for {_NAMES[at]!r}: it is to be a mapping, or an object with "
            f"attributes, of {', '.join(_NAMES)}. Leave out what cannot be seen, or run with --black-box."
        ) from None
    return values


def _numbers(value: Any) -> tuple[Any, ...]:
    """A copy, in which integers of other libraries are integers."""
    numbers = tuple(value)
    for number in numbers:
        if type(number) is not int:
            return tuple(_number(item) for item in numbers)
    return numbers


def _number(value: Any) -> Any:
    try:
        return value if type(value) is int else operator.index(value)
    except TypeError:
        return value  # said to be no number where it is looked at


def _number_of_each(value: Any) -> dict[Any, Any]:
    return {key: number if type(number) is int else _number(number) for key, number in value.items()}


def _numbers_of_each(value: Any) -> dict[Any, tuple[Any, ...]]:
    copies = {}
    for seq, items in value.items():
        numbers = tuple(items)
        for number in numbers:
            if type(number) is not int:
                numbers = tuple(_number(item) for item in numbers)
                break
        copies[seq] = numbers
    return copies


def _keys_of_each(value: Any) -> dict[Any, tuple[Any, ...]]:
    return {seq: tuple(items) for seq, items in value.items()}


_COPIED: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("free", _numbers),
    ("evictable", _numbers),
    ("ref", _numbers),
    ("block_hash", tuple),
    ("hash_to_block", _number_of_each),
    ("tables", _numbers_of_each),
    ("tokens", _numbers_of_each),
    ("hashes", _keys_of_each),
    ("cached", _number_of_each),
)
"""The structures of an observation, each with how it is copied: it may be the manager's own."""

_NAMES, _COPIES = zip(*_COPIED, strict=True)
_all_attributes = operator.attrgetter(*_NAMES)


def _failing(items: Sequence[Any], at: int) -> Iterator[Any]:
    for i, item in enumerate(items):
        if i == at:
            raise ValueError("the caller's token ids cannot be iterated to the end")
        yield item


def encode_line(message: msgspec.Struct) -> bytes:
    """A message as one line of JSON. What JSON cannot hold (an engine's own objects) is written as its repr."""
    return msgspec.json.encode(message, enc_hook=repr) + b"\n"

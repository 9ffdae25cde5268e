"""A target in this process: any class with the seed's API, driven through its public methods.

The class needs no base class and no adapter: a constructor `(num_blocks, block_size, enable_prefix_cache)`,
`allocate`, `append_slot`, `free`, `num_free_blocks` (property or method) and `num_cached_tokens`. What else it
offers (`slot`, `can_allocate`, `block_table`, `observe`) is checked too.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from kvaudit.errors import TargetError
from kvaudit.printable import printable
from kvaudit.protocol import (
    EXTRAS,
    HANG,
    NOTHING,
    Allocate,
    Append,
    Call,
    CanAllocate,
    Failed,
    Free,
    Observe,
    Observed,
    Operation,
    Outcome,
    Pool,
    Raised,
    Refused,
    Returned,
    Scribble,
    Slot,
    State,
)
from kvaudit.refusals import REFUSALS
from kvaudit.time_limit import Hang, TimeLimit

_DONE = Returned()

REQUIRED = ("allocate", "append_slot", "free", "num_free_blocks", "num_cached_tokens")
OPTIONAL = ("slot", "can_allocate", "block_table", "observe")

_NAMED = (ValueError, TypeError, OverflowError)
"""Builtin exceptions that say what was wrong with an argument; any other builtin is an accident, see `_is_named`."""


class ApiTarget:
    """Executes operations on instances of `manager`, a class with the seed's API.

    refusals: names of exception classes that mean "out of blocks", bases included.
    timeout: seconds that one program may take.
    """

    def __init__(
        self,
        manager: Callable[[int, int, bool], Any],
        *,
        name: str,
        version: str = "",
        profile: str = "seed",
        stubs: Sequence[str] = (),
        notes: Sequence[str] = (),
        refusals: frozenset[str] = REFUSALS,
        timeout: float = 10.0,
    ) -> None:
        self.name = name
        self.version = version
        self.profile = profile
        self.stubs = tuple(stubs)
        self.notes = tuple(notes)
        missing = [method for method in REQUIRED if not hasattr(manager, method)]
        if missing:
            raise TargetError(
                f"{name} lacks {', '.join(missing)} (looked for on the class). A target offers "
                f"{', '.join(REQUIRED)}, and if it can {', '.join(OPTIONAL)}; "
                "for another API write a small class with these methods around it."
            )
        asynchronous = [method for method in (*REQUIRED, *OPTIONAL) if _is_async(getattr(manager, method, None))]
        if asynchronous:
            raise TargetError(
                f"{name} has coroutines for {', '.join(asynchronous)}, and is called outside of an event loop: write a "
                "small class around it whose methods run them to their ends."
            )
        self.capabilities = frozenset(REQUIRED) | {method for method in OPTIONAL if hasattr(manager, method)}
        self.capabilities |= _taken(getattr(manager, "allocate"))  # noqa: B009
        self._make = manager
        self._refusals = refusals
        self._is_refusal: dict[type[BaseException], bool] = {}
        self._timeout = timeout
        self._manager: Any = None
        self._limit = TimeLimit(timeout)
        self._handlers: dict[type[Any], Callable[[Any], Outcome]] = {
            Allocate: self._allocate,
            Append: self._append,
            Free: self._free,
            Slot: self._slot,
            CanAllocate: self._can_allocate,
            Observe: self._observe,
            Scribble: self._scribble,
            Call: self._raw_call,
        }
        self._live: list[str] = []
        self._lists: list[list[Any]] = []  # those that the last operation took and returned

    def open(self, pool: Pool) -> Failed | None:
        """Make a fresh manager; None if that went well. An exception of its constructor is answered as Failed."""
        self._live, self._lists = [], []
        self._limit.arm()
        try:
            with self._limit:
                self._manager = self._make(pool.num_blocks, pool.block_size, pool.enable_prefix_cache)
        except Hang:
            return Failed(HANG, f"the constructor did not return within {self._timeout:g} s", named=False)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Failed(type(error).__name__, _said(error), _is_named(error))
        return None

    def run(self, program: Sequence[Operation]) -> list[Outcome]:
        """Execute the operations to the end, and answer one outcome for each. A hang ends the program early."""
        outcomes: list[Outcome] = []
        try:
            with self._limit:
                self._execute(program, outcomes)
        except Hang:
            outcomes.append(Raised(HANG, f"no answer within {self._timeout:g} s", named=False))
        return outcomes

    def execute(self, operation: Operation) -> Outcome:
        """Execute one operation, however long it takes."""
        outcomes: list[Outcome] = []
        self._execute((operation,), outcomes)
        return outcomes[0]

    def misuse(self, call: Call) -> Outcome:
        """As `execute`, but of an exception only its class is said: a search makes millions of such calls."""
        try:
            return self._raw_call(call)
        except (TargetError, Hang, KeyboardInterrupt):
            raise
        except BaseException as error:
            if self._refuses(type(error)):
                return Refused()
            return Raised(type(error).__name__, named=_is_named(error, call.args))

    def close(self) -> None:
        """Forget the manager."""
        self._limit.disarm()
        self._manager = None

    @property
    def manager(self) -> Any:
        """The manager of the open pool."""
        return self._manager

    @property
    def time_limit(self) -> AbstractContextManager[None]:
        """Raises Hang in a block that takes longer than one program may."""
        self._limit.arm()
        return self._limit

    def adopt(self, manager: Any, live: Iterable[str]) -> None:
        """Go on with this manager in place of the open one; `live` are the ids of its live sequences."""
        self._manager, self._live, self._lists = manager, list(live), []

    def failure(self, error: BaseException, args: Sequence[Any] = ()) -> Refused | Raised:
        """The outcome of a call that ended in an exception; `args`: those of a misuse, one of which is wrong."""
        kind = type(error)
        if self._refuses(kind):
            return Refused(kind.__name__)
        return Raised(kind.__name__, _said(error), _is_named(error, args), _where(error))

    def _refuses(self, kind: type[BaseException]) -> bool:
        if kind not in self._is_refusal:
            self._is_refusal[kind] = any(cls.__name__ in self._refusals for cls in kind.__mro__)
        return self._is_refusal[kind]

    def _execute(self, program: Sequence[Operation], outcomes: list[Outcome]) -> None:
        handlers = self._handlers
        for operation in program:
            try:
                outcomes.append(handlers[type(operation)](operation))
            except (TargetError, Hang, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit() included
                outcomes.append(self.failure(error, operation.args if isinstance(operation, Call) else ()))

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
        return Returned(_plain(table))

    def _append(self, operation: Append) -> Outcome:
        return Returned(_plain(self._manager.append_slot(operation.seq, operation.token)))

    def _free(self, operation: Free) -> Outcome:
        self._manager.free(operation.seq)
        self._live.remove(operation.seq)
        return _DONE

    def _slot(self, operation: Slot) -> Outcome:
        return Returned(_plain(self._manager.slot(operation.seq, operation.pos)))

    def _can_allocate(self, operation: CanAllocate) -> Outcome:
        return Returned(_plain(self._manager.can_allocate(operation.num_tokens)))

    def _observe(self, _: Observe) -> Outcome:
        manager, offers = self._manager, self.capabilities
        tables: dict[str, Any] | None = None
        if "block_table" in offers:
            tables = {}
            block_table, lists = manager.block_table, self._lists
            for seq in self._live:
                table = block_table(seq)
                if isinstance(table, list):
                    lists.append(table)
                tables[seq] = _plain_table(table)
        free = manager.num_free_blocks
        num_cached_tokens = manager.num_cached_tokens
        return Observed(
            num_free_blocks=_plain(free() if callable(free) else free),
            tables=tables,
            cached={
                seq: count if type(count := num_cached_tokens(seq)) is int and 0 <= count <= _MOST else _plain(count)
                for seq in self._live
            },
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
        return Returned(_plain(result))


def _is_async(method: Any) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _taken(allocate: Any) -> frozenset[str]:
    """What of EXTRAS a method has arguments for."""
    try:
        return frozenset(EXTRAS).intersection(inspect.signature(allocate).parameters)
    except (TypeError, ValueError):  # of a builtin nobody knows
        return frozenset()


def _plain(value: Any) -> Any:
    """An answer as what JSON can hold, so that it is the same here and from a child process.

    Integers of other libraries become integers, lists are copied, anything strange becomes its repr.
    """
    kind = type(value)
    if kind is int:
        return value if _LEAST <= value <= _MOST else repr(value)
    if value is None or kind in (bool, str) or (kind is float and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)):
        return [item if type(item) is int and _LEAST <= item <= _MOST else _plain(item) for item in value]
    try:
        return _plain(operator.index(value))
    except TypeError:
        pass
    if hasattr(value, "tolist"):  # an array, or a number of one: numpy's and torch's booleans have no index
        return _plain(value.tolist())
    return printable(repr(value))


def _plain_table(value: Any) -> Any:
    """`_plain`, but of a list a tuple."""
    if type(value) is list:
        for number in value:
            if type(number) is not int or not 0 <= number <= _MOST:
                break
        else:
            return tuple(value)
    plain = _plain(value)
    return tuple(plain) if type(plain) is list else plain


def _said(error: BaseException) -> str:
    """The message of an exception, whatever it is made of."""
    try:
        return printable(str(error))
    except Exception:
        return "its message cannot be shown"


_LEAST, _MOST = -(2**63), 2**63 - 1


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
    values: list[Any] = []
    add = values.append
    try:
        for value, copied in zip(given, _COPIES, strict=True):
            add(None if value is None else copied(value))
    except (TypeError, AttributeError, ValueError):
        at = len(values)
        raise TargetError(
            f"observe() gives {given[at]!r:.80} for {_NAMES[at]!r}: it is to be a mapping, or an object with "
            f"attributes, of {', '.join(_NAMES)}. Leave out what cannot be seen, or run with --black-box."
        ) from None
    state = State(*values)
    if state == _NOTHING_SEEN:
        raise TargetError(
            f"observe() gives {observation!r:.80}, in which none of {', '.join(_NAMES)} is found. "
            "Run with --black-box to audit without it."
        )
    return state


_NOTHING_SEEN = State()


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


def _where(error: BaseException) -> str:
    """The line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} in {code.co_name}"


def _is_named(error: BaseException, args: Sequence[Any] = ()) -> bool:
    """Whether an exception says what was wrong. A builtin LookupError does so if it speaks of an argument of the call.

    `KeyError: 'a'` is about the unknown id 'a'; `list index out of range` is where the call happened to stumble.
    """
    if type(error).__module__ != "builtins":
        return True
    if isinstance(error, LookupError):
        said = _said(error)
        return any(repr(arg) in said for arg in args)
    return isinstance(error, _NAMED)


def encode_line(message: msgspec.Struct) -> bytes:
    """A message as one line of JSON. What JSON cannot hold (an engine's own objects) is written as its repr."""
    return msgspec.json.encode(message, enc_hook=repr) + b"\n"

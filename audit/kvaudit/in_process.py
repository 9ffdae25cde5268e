"""A target in this process: a class that is driven through its public methods, whatever its level.

`kvaudit.api` drives block managers so, and `kvaudit.scheduling.api` schedulers.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from kvaudit.errors import TargetError
from kvaudit.printable import printable
from kvaudit.protocol import (
    DEFAULT_PROFILES,
    HANG,
    Call,
    Failed,
    LevelName,
    Operation,
    Outcome,
    Pool,
    Raised,
    Refused,
    Setting,
)
from kvaudit.refusals import REFUSALS
from kvaudit.time_limit import Hang, TimeLimit

_NAMED = (ValueError, TypeError, OverflowError)
"""Builtin exceptions that say what was wrong with an argument; any other builtin is an accident, see `is_named`."""


class InProcessTarget:
    """Executes operations on instances of a class. Raises TargetError if the class lacks a required method.

    refusals: names of exception classes that mean "out of blocks", bases included. timeout: seconds that one program
    may take. The others: see `protocol.Started`.
    """

    driven_at: ClassVar[LevelName]
    required: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        make: Callable[..., Any],
        *,
        name: str,
        version: str = "",
        profile: str = "",
        stubs: Sequence[str] = (),
        notes: Sequence[str] = (),
        refusals: frozenset[str] = REFUSALS,
        timeout: float = 10.0,
    ) -> None:
        self.name = name
        self.version = version
        self.level: LevelName = self.driven_at
        self.profile = profile or DEFAULT_PROFILES[self.level]
        self.stubs = tuple(stubs)
        self.notes = tuple(notes)
        self._check(make)
        self.capabilities: frozenset[str] = frozenset(self.required) | {
            method for method in self.optional if hasattr(make, method)
        }
        self.settings: Mapping[str, tuple[Setting, ...]] = {}
        self._make = make
        self._refusals = refusals
        self._is_refusal: dict[type[BaseException], bool] = {}
        self._timeout = timeout
        self._manager: Any = None
        self._limit = TimeLimit(timeout)
        self._by_kind = self._handlers()
        self._forget()

    def _check(self, make: Callable[..., Any]) -> None:
        missing = [method for method in self.required if not hasattr(make, method)]
        if missing:
            raise TargetError(
                f"{self.name} lacks {', '.join(missing)} (looked for on the class). A target offers "
                f"{', '.join(self.required)}, and if it can {', '.join(self.optional)}; "
                "for another API write a small class with these methods around it."
            )
        asynchronous = [method for method in (*self.required, *self.optional) if _is_async(getattr(make, method, None))]
        if asynchronous:
            raise TargetError(
                f"{self.name} has coroutines for {', '.join(asynchronous)}, and is called outside of an event loop: "
                "write a small class around it whose methods run them to their ends."
            )

    def _handlers(self) -> Mapping[type[Any], Callable[[Any], Outcome]]:
        """Who executes an operation of each kind."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Forget what belongs to the pool before."""

    def open(self, pool: Pool) -> Failed | None:
        """Make a fresh manager; None if that went well. An exception of its constructor is answered as Failed."""
        self._forget()
        self._limit.arm()
        try:
            with self._limit:
                self._manager = self._make(
                    pool.num_blocks, pool.block_size, pool.enable_prefix_cache, **pool.configuration
                )
        except Hang:
            return Failed(HANG, f"the constructor did not return within {self._timeout:g} s", named=False)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Failed(type(error).__name__, said(error), is_named(error))
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

    def failure(self, error: BaseException, args: Sequence[Any] = ()) -> Refused | Raised:
        """The outcome of a call that ended in an exception; `args`: those of a misuse, one of which is wrong."""
        kind = type(error)
        if self._refuses(kind):
            return Refused(kind.__name__)
        return Raised(kind.__name__, said(error), is_named(error, args), where(error))

    def _refuses(self, kind: type[BaseException]) -> bool:
        if kind not in self._is_refusal:
            self._is_refusal[kind] = any(cls.__name__ in self._refusals for cls in kind.__mro__)
        return self._is_refusal[kind]

    def _execute(self, program: Sequence[Operation], outcomes: list[Outcome]) -> None:
        handlers = self._by_kind
        for operation in program:
            try:
                outcomes.append(handlers[type(operation)](operation))
            except (TargetError, Hang, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit() included
                outcomes.append(self.failure(error, operation.args if isinstance(operation, Call) else ()))


def _is_async(method: Any) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def plain(value: Any) -> Any:
    """An answer as what JSON can hold, so that it is the same here and from a child process.

    Integers of other libraries become integers, lists are copied, anything strange becomes its repr.
    """
    kind = type(value)
    if kind is int:
        return value if LEAST <= value <= MOST else repr(value)
    if value is None or kind in (bool, str) or (kind is float and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)):
        return [item if type(item) is int and LEAST <= item <= MOST else plain(item) for item in value]
    try:
        return plain(operator.index(value))
    except TypeError:
        pass
    if hasattr(value, "tolist"):  # an array, or a number of one: numpy's and torch's booleans have no index
        return plain(value.tolist())
    return printable(repr(value))


def said(error: BaseException) -> str:
    """The message of an exception, whatever it is made of."""
    try:
        return printable(str(error))
    except Exception:
        return "its message cannot be shown"


LEAST, MOST = -(2**63), 2**63 - 1


def where(error: BaseException) -> str:
    """The line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} in {code.co_name}"


def is_named(error: BaseException, args: Sequence[Any] = ()) -> bool:
    """Whether an exception says what was wrong. A builtin LookupError does so if it speaks of an argument of the call.

    `KeyError: 'a'` is about the unknown id 'a'; `list index out of range` is where the call happened to stumble.
    """
    if type(error).__module__ != "builtins":
        return True
    if isinstance(error, LookupError):
        message = said(error)
        return any(repr(arg) in message for arg in args)
    return isinstance(error, _NAMED)

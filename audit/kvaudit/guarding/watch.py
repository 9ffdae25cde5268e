"""What a guard knows of its manager, and what it does when something is wrong."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec

from kvaudit import words
from kvaudit.api import ApiTarget
from kvaudit.breach import Breach, gravest
from kvaudit.errors import TargetError
from kvaudit.guarding.batches import Batch, followed
from kvaudit.guarding.full import look
from kvaudit.guarding.lockstep import Lockstep, is_legal, owners
from kvaudit.guarding.log import Appended, Call, dump
from kvaudit.guarding.reads import due, in_order, number, numbers
from kvaudit.guarding.violation import ContractViolation, ContractWarning
from kvaudit.profiles import PROFILES
from kvaudit.protocol import Allocate, Mutation, Outcome, Pool, Refused, Returned
from kvaudit.refusals import REFUSALS
from kvaudit.rulings import wrong_free_count
from kvaudit.targets import name_of_class
from kvaudit.trace import FORMAT, TraceHeader
from kvspec.live import snapshot

_SHOWN = 120
"""Characters of a call in a message."""

Level = Literal["warn", "strict"]


P = ParamSpec("P")


def _out_of_the_way(
    check: Callable[Concatenate[Watch, P], None],
) -> Callable[Concatenate[Watch, P], None]:
    """What breaks down (on nonsense that is observed, an id that cannot be shown, a bug) takes no server along."""

    @functools.wraps(check)
    def checked(self: Watch, /, *args: P.args, **named: P.kwargs) -> None:
        try:
            check(self, *args, **named)
        except (ContractViolation, ContractWarning):
            raise
        except Exception as broken:
            self.step_aside()
            if self.level == "strict":
                raise
            said = str(broken) if isinstance(broken, TargetError) else f"{type(broken).__name__}: {broken}"
            _warn(ContractWarning(f"nothing is checked any more: {said}"))

    return checked


class Watch:
    """What a guard knows, and what it does when something is wrong."""

    def __init__(
        self,
        manager: Any,
        level: Level,
        pool: Pool,
        profile: str,
        every: int,
        folder: Path | None,
        refusals: tuple[str, ...],
        observes: bool,
    ) -> None:
        self.manager = manager
        self.every = every
        self.is_bystander = False
        self.log: list[Appended | Call] = []
        self.lockstep = Lockstep(pool, PROFILES[profile].variants)
        self.level = level
        self._refusals = refusals
        self._profile = profile
        self._folder = folder
        self._name = name_of_class(type(manager))
        self._target = ApiTarget(type(manager), name=self._name, refusals=REFUSALS.union(refusals))
        self._target.capabilities -= frozenset() if observes else {"observe"}
        self._start = self.lockstep.start
        self.num_free_blocks = counter(manager)

    # --- operations ------------------------------------------------------------------------------------------

    @_out_of_the_way
    def returned(self, operation: Mutation, value: Any) -> None:
        """An operation completed."""
        if self.is_bystander:
            return
        is_live, is_allocate = operation.seq in self.lockstep.tails, isinstance(operation, Allocate)
        misuse = "a live id" if is_allocate and is_live else "an unknown id" if not is_allocate and not is_live else ""
        if isinstance(operation, Allocate) and not operation.tokens:
            misuse = "an empty prompt"
        if misuse:
            self._violated([Breach("O10", f"{misuse} gets through")], words.call(operation))
            return
        cached = answered(self.manager.num_cached_tokens, operation.seq) if is_allocate else None
        self._judge(operation, Returned(value), cached)

    @_out_of_the_way
    def miscounts(self, operation: Mutation, value: Any) -> None:
        """An append was right, and the ledger has followed it, but `num_free_blocks` is wrong."""
        free = self.num_free_blocks()
        self.log.append(Call(operation, Returned(value), None, free))
        breaches = wrong_free_count(operation, False, self.lockstep.num_free_blocks, free)
        self._violated(breaches, words.call(operation))

    @_out_of_the_way
    def raised(self, operation: Mutation, error: BaseException) -> None:
        """An operation ended in an exception, which goes on to the caller."""
        if self.is_bystander:
            return
        if not isinstance(error, Exception):  # Ctrl-C, say: nobody knows how far it came
            self.is_bystander = True
            self.lockstep.tails.clear()
        elif is_legal(self.lockstep.ledger.sequences, operation):
            self._judge(operation, self._target.failure(error), None, error)

    def batch(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """append_slots or extend, held to the appends that it stands for."""
        return followed(name, method, self.batch_raised, self.batch_returned)

    @_out_of_the_way
    def batch_returned(self, batch: Batch, slots: Any) -> None:
        """All of it is done: between two of its appends the manager was not to be seen."""
        if self.is_bystander:
            return
        appends = batch.appends(slots)
        if len(appends) < len(batch.tokens):
            self._violated([batch.no_answer(slots)], batch.name)
        unknown = [operation for operation, _ in appends if operation.seq not in self.lockstep.tails]
        if unknown and not self.is_bystander:
            self._violated([Breach("O10", "an unknown id gets through")], words.call(unknown[0]))
        for nth, (operation, outcome) in enumerate(appends, start=1):
            if not self.is_bystander:
                self._judge(operation, outcome, None, counts=nth == len(appends))

    @_out_of_the_way
    def batch_raised(self, batch: Batch, error: BaseException) -> None:
        """It is refused or misused as a whole, and the exception goes on to the caller."""
        if self.is_bystander:
            return
        if not isinstance(error, Exception):  # Ctrl-C, say: nobody knows how far it came
            self.step_aside()
            return
        free, due = self.num_free_blocks(), self.lockstep.num_free_blocks
        if free != due:
            what = f"{batch.name} was not done, and num_free_blocks is to be {due}, not {free}"
            self._violated([Breach("O1", what)], batch.name, error)

    def _judge(
        self, operation: Mutation, outcome: Outcome, cached: Any, error: Exception | None = None, *, counts: bool = True
    ) -> None:
        free = self.num_free_blocks() if counts else None
        self.log.append(Call(operation, outcome, cached, free))
        breaches = self.lockstep.judge(operation, outcome, cached, free)
        if breaches:
            self._violated(breaches, words.call(operation), error)
        elif len(self.log) >= self.every:
            self.full_check(f"the full check after {words.clipped(words.call(operation), _SHOWN)}", error)

    # --- reads -----------------------------------------------------------------------------------------------

    def read(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, with its answer checked."""

        def checked(*args: Any, **named: Any) -> Any:
            answer = method(*args, **named)
            if not self.is_bystander:
                self.read_gave(name, in_order(method, args, named), answer)
            return answer

        return checked

    @_out_of_the_way
    def read_gave(self, name: str, args: Sequence[Any], answer: Any) -> None:
        """Hold the answer of a read to the ledger."""
        expected = due(self.lockstep, name, args)
        if expected is None or (answer if name == "can_allocate" else numbers(answer)) == expected.answer:
            return
        call = name if name == "num_free_blocks" else f"{name}({', '.join(map(repr, args))})"
        what = f"{call} is to be {words.short(expected.answer)}, not {words.short(answer)}"
        self._violated([Breach(expected.obligation, what, expected.blocks)], call)

    # --- what comes of it ------------------------------------------------------------------------------------

    @_out_of_the_way
    def full_check(self, when: str, error: Exception | None = None) -> None:
        """Compare everything that the manager shows, and begin a new log. O(pool + tokens)."""
        if self.is_bystander:
            return
        breaches = self.look()
        if breaches:
            if len(self.log) == 1 and isinstance(self.log[0], Call) and isinstance(self.log[0].outcome, Refused):
                breaches = [breach._replace(obligation="O1") for breach in breaches]
            self._violated(breaches, when, error)
            return
        self._start = snapshot(self.lockstep.ledger)
        self.log.clear()

    def look(self) -> list[Breach]:
        """What is wrong with what can be seen. Raises TargetError if that is nonsense."""
        self.lockstep.settle()
        return look(self._target, self.manager, snapshot(self.lockstep.ledger), self.lockstep.variants)

    def _violated(self, breaches: list[Breach], call: str, error: Exception | None = None) -> None:
        main, lockstep = gravest(tuple(breaches)), self.lockstep
        path, reason = None, ""
        if self._folder is not None:
            try:
                header = TraceHeader(
                    FORMAT, lockstep.pool, self._name, self._profile, main.obligation, refusals=self._refusals
                )
                path = dump(self._folder, header, self._start, self.log)
            except (OSError, TypeError) as failed:  # no room, or ids and tokens that JSON cannot hold
                reason = str(failed)
        held = owners(lockstep.ledger, main.blocks)
        violation = ContractViolation(breaches, words.clipped(call, _SHOWN), held, path, reason)
        self.step_aside()
        if self.level == "strict":
            raise violation from error
        _warn(ContractWarning(str(violation), violation))

    def step_aside(self) -> None:
        """From here on the manager is on its own; the way of an append sees it by the tails."""
        self.is_bystander = True
        self.lockstep.tails.clear()
        self.log.clear()


def _warn(warning: ContractWarning) -> None:
    """Warn at the line that called the guard, however deep in it this is."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(__package__):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(warning, stacklevel=depth)


def counter(manager: Any) -> Callable[[], Any]:
    """How `num_free_blocks` is read, a property or a method."""
    if callable(manager.num_free_blocks):
        return lambda: answered(manager.num_free_blocks)

    def count() -> Any:
        try:
            return manager.num_free_blocks
        except Exception as error:
            return f"an exception: {error!r}"

    return count


def answered(read: Callable[..., Any], *args: Any) -> Any:
    """The answer of a read of the guard's own: an exception of it is to be judged, not to reach the caller."""
    try:
        return number(read(*args))
    except Exception as error:
        return f"an exception: {error!r}"

"""A target in a child process that speaks the protocol over its standard input and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kvaudit.answers import Malformed, check_outcomes, read_answer
from kvaudit.child import Child, shown
from kvaudit.errors import TargetError, UsageError
from kvaudit.printable import one_line, plain
from kvaudit.profiles import adopt, brought
from kvaudit.protocol import (
    DEFAULT_PROFILES,
    MANAGER,
    SCHEDULER,
    VERSION,
    Answer,
    Failed,
    LevelName,
    Open,
    Operation,
    Outcome,
    Pool,
    Question,
    Ran,
    Run,
    Setting,
    Start,
    Started,
    Stop,
)

_REQUIRED: dict[LevelName, tuple[str, ...]] = {
    MANAGER: ("allocate", "append_slot", "free", "num_cached_tokens"),
    SCHEDULER: ("submit", "step", "cancel"),
}
"""A caller who is not told what is cached would compute it again, into blocks that others read. Without num_free_blocks
a program can be audited, but the audit is inconclusive."""

_OTHERS: dict[LevelName, frozenset[str]] = {
    MANAGER: frozenset(_REQUIRED[SCHEDULER]),
    SCHEDULER: frozenset({*_REQUIRED[MANAGER], "slot", "can_allocate", "block_table"}),
}
"""What belongs to the other level."""

_MOST_SAID = 2_000
"""Characters of the message of a failure."""

Tap = Callable[[Question, bytes, bytes], None]
"""Hears every exchange: the question, its line and the line of the answer (empty after `stop`)."""


class ProcessTarget:
    """Runs `command` and speaks the protocol with it.

    timeout: seconds that one answer may take; start_timeout: seconds until the first one. label: the target's
    name in messages. hidden: capabilities that are not to be used. tap: hears what is said.
    Raises TargetError if the program does not start, or breaks the protocol.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout: float = 10.0,
        start_timeout: float = 60.0,
        label: str = "",
        hidden: frozenset[str] = frozenset(),
        tap: Tap | None = None,
        level: LevelName | None = None,
    ) -> None:
        self._label = label or " ".join(command)
        self._timeout = timeout
        self._tap = tap
        self._closed = False
        self._offers: frozenset[str] = frozenset()
        self._child = Child(command, self._label)
        try:
            started = self._start(start_timeout)
            self.level: LevelName = self._level_of(started, level)
            self.profile = self._profile(started) or DEFAULT_PROFILES[self.level]
        except BaseException:
            self.close()
            raise
        self.name = one_line(started.name)
        self.version = one_line(started.version)
        given = {} if started.settings is msgspec.UNSET else started.settings
        self.settings: Mapping[str, tuple[Setting, ...]] = {
            name: tuple(values) for name, values in given.items() if values
        }
        self.stubs = tuple(map(one_line, started.stubs))
        self.notes = tuple(map(one_line, started.notes))
        self._offers = frozenset(started.capabilities) - _OTHERS[self.level]
        self.capabilities = self._offers - hidden

    def _start(self, timeout: float) -> Started:
        started = self._ask(Start(), timeout)
        if isinstance(started, Failed):
            if started.error in ("TargetError", "UsageError"):  # from a child of ours: it names itself
                raise TargetError(started.message)
            raise TargetError(f"{self._label} could not be started: {started.message or started.error}")
        assert isinstance(started, Started)
        if started.protocol != VERSION:
            raise TargetError(f"{self._label} speaks protocol {started.protocol}, this kvaudit speaks {VERSION}")
        return started

    def _level_of(self, started: Started, wanted: LevelName | None) -> LevelName:
        """The level that was asked for, or else that of what it offers; manager where both. Raises TargetError."""
        lacking = {name: [m for m in _REQUIRED[name] if m not in started.capabilities] for name in _REQUIRED}
        level = wanted or (SCHEDULER if lacking[MANAGER] and not lacking[SCHEDULER] else MANAGER)
        if lacking[level]:
            raise TargetError(f"{self._label} lacks {', '.join(lacking[level])}: nothing can be audited without")
        return level

    def _profile(self, started: Started) -> str:
        if isinstance(started.profile, str):
            return started.profile
        try:
            return adopt(brought(started.profile))
        except UsageError as error:
            raise TargetError(f"{self._label} brings a profile of its own: {error}") from None

    def open(self, pool: Pool) -> Failed | None:
        """Make a fresh manager; None if that went well."""
        answer = self._ask(Open(pool), self._timeout)
        return answer if isinstance(answer, Failed) else None

    def run(self, program: Sequence[Operation]) -> list[Outcome]:
        """Execute the operations and return their outcomes; fewer than asked for only if the last one is a hang."""
        answer = self._ask(Run(list(program)), self._timeout)
        if isinstance(answer, Failed):
            raise TargetError(f"{self._label}: {answer.message or answer.error}")
        assert isinstance(answer, Ran)
        return answer.outcomes

    def stop(self) -> str:
        """Ask the target to stop. What is wrong with how it did; empty if nothing is. To be followed by `close`."""
        line = _line(Stop())
        wrong = self._child.stop(line)
        if self._tap is not None:
            self._tap(Stop(), line, b"")
        return wrong

    def last_words(self) -> list[str]:
        """The last lines that it wrote to its standard error."""
        return self._child.last_words()

    def close(self) -> None:
        """Ask the target to stop, then end it and its children. Safe to call twice."""
        if not self._closed:
            self._closed = True
            try:
                self._child.stop(_line(Stop()))
            finally:
                self._child.end()

    def _ask(self, question: Question, timeout: float) -> Answer:
        asked = _line(question)
        line = b""
        try:
            line = self._child.exchange(asked, timeout, type(question).__name__.lower())
        finally:
            if self._tap is not None:
                self._tap(question, asked, line)
        try:
            answer = read_answer(line, question)
            if isinstance(question, Run) and isinstance(answer, Ran):
                check_outcomes(question.program, answer.outcomes, self._offers)
        except Malformed as wrong:
            raise self._child.broken(
                str(wrong), f"asked:    {shown(asked.rstrip())}", f"answered: {shown(line)}"
            ) from None
        if isinstance(answer, Failed):  # for people, on a terminal
            return Failed(one_line(answer.error), plain(answer.message[:_MOST_SAID]))
        return answer


def _line(question: Question) -> bytes:
    return msgspec.json.encode(question) + b"\n"

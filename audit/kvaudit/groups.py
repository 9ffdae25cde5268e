"""Failures in groups: those of one obligation whose programs, made small, have one shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from kvaudit.breach import SEVERITY
from kvaudit.errors import UsageError
from kvaudit.findings import Failure
from kvaudit.programs import extra_of, names_of, prompt_of
from kvaudit.protocol import AnyMutation
from kvaudit.scenario import Scenario
from kvaudit.trace import TraceLine, read_lines

F = TypeVar("F")

_SHAPES_PER_OBLIGATION = 3
_REPEATS_BEFORE_MUTED = 3


def shape_of(program: Iterable[AnyMutation]) -> str:
    """The program with its sequences renamed in the order in which they appear; of tokens only how many there are,
    and of what else a sequence depends on only the kinds.

    Which tokens are left over when a program is made small is a matter of chance.
    """
    seqs: dict[str, str] = {}
    parts: list[str] = []
    for operation in program:
        names = [seqs.setdefault(seq, f"s{len(seqs)}") for seq in names_of(operation)]
        length = [str(len(prompt_of(operation)))] if prompt_of(operation) else []
        parts.append(" ".join([type(operation).__name__, *names, *length, *extra_of(operation).named()]))
    return "; ".join(parts)


class Key(msgspec.Struct, frozen=True):
    """What the failures of a group have in common."""

    obligation: str
    shape: str


def key_of(failure: Failure) -> Key:
    """The group of a failure."""
    return Key(failure.finding.obligation, shape_of(failure.program))


class Known(msgspec.Struct, frozen=True):
    """A failure that was known before the audit, from its saved trace."""

    key: Key
    trace: str
    scenario: Scenario
    lines: list[TraceLine]


def read_known(folder: Path, target: str) -> list[Known]:
    """The failures of that target that are saved in a folder, one for each group.

    Raises UsageError if there is no such folder, or a trace in it cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"--known {folder}: there is no such folder; it is to hold failures as a run saves them")
    found: dict[Key, Known] = {}
    for path in filter(Path.is_file, sorted(folder.glob("*/trace.jsonl"))):  # a pipe would not end
        header, lines = read_lines(path)
        if header.target == target and header.obligation:
            program = tuple(line.operation for line in lines)
            key = Key(header.obligation, shape_of(program))
            found.setdefault(key, Known(key, str(path), Scenario(header.pool, program), lines))
    return list(found.values())


@dataclass
class _OfObligation:
    """What is remembered of one obligation's failures."""

    groups: set[Key] = field(default_factory=set)
    repeats: int = 0  # failures in a row that were of a group that is there
    uncounted: int = 0  # failures that are in no group: they were not made small, or are of too many shapes

    @property
    def is_full(self) -> bool:
        return len(self.groups) >= _SHAPES_PER_OBLIGATION


@dataclass
class Groups(Generic[F]):
    """The failures of an audit, or whatever else is told apart so. known: the groups that were known before, each with
    its trace.

    Of each obligation three shapes are told apart, known ones included. So an obligation of which three are known
    brings no news, and what it breaks costs no time.
    """

    known: dict[Key, str] = field(default_factory=dict)
    failures: dict[Key, F] = field(default_factory=dict)
    counts: Counter[Key] = field(default_factory=Counter)
    _obligations: dict[str, _OfObligation] = field(default_factory=dict)

    def is_muted(self, obligation: str) -> bool:
        """Whether no further failure of the obligation is to be made small: that takes its time, and says little."""
        of = self._of(obligation)
        return of.is_full or of.repeats >= _REPEATS_BEFORE_MUTED

    def pass_over(self, obligation: str, times: int = 1) -> None:
        """Count failures that were not made small."""
        self._of(obligation).uncounted += times

    def add(self, key: Key, failure: F, times: int = 1) -> bool:
        """Put failures that were made small into their group; True if it is a group that was not there."""
        of = self._of(key.obligation)
        if key not in of.groups and key not in self.known and of.is_full:
            of.uncounted += times
            return False
        of.repeats = of.repeats + times if key in of.groups else 0
        of.groups.add(key)
        self.failures.setdefault(key, failure)
        self.counts[key] += times
        return self.counts[key] == times

    def expect(self, keys: Iterable[Key]) -> None:
        """Groups that others have found: they count among the shapes."""
        for key in keys:
            self._of(key.obligation).groups.add(key)

    @property
    def in_order(self) -> list[Key]:
        """The groups, the gravest obligation first."""
        return sorted(self.failures, key=lambda key: SEVERITY.index(key.obligation))

    @property
    def uncounted(self) -> dict[str, int]:
        """How many failures of each obligation are in no group."""
        return {name: of.uncounted for name, of in self._obligations.items() if of.uncounted}

    def _of(self, obligation: str) -> _OfObligation:
        return self._obligations.setdefault(obligation, _OfObligation())

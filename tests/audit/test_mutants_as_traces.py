"""The trace of every planted bug: shrunk, played again, checked without the target, and made anonymous."""

from __future__ import annotations

import io
import statistics
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from audit.auditing import target_of
from kvaudit.anonymise import Names
from kvaudit.check import check_trace
from kvaudit.checked import Checked
from kvaudit.levels import goals_of, play
from kvaudit.minimise import Small, minimise
from kvaudit.profiles import SEED
from kvaudit.protocol import MANAGER
from kvaudit.replay import replay
from kvaudit.report import CONFORMS, VIOLATION
from kvaudit.scenario import Scenario
from kvaudit.trace import FORMAT, TraceHeader, TraceLine, TraceReader, features_of, write_trace
from kvaudit.vectors.make import vector_of
from kvaudit.vectors.programs import PROGRAMS
from kvblocks import BlockManager
from mutants import MUTANTS, Mutant

LEGAL = [mutant for mutant in MUTANTS if not mutant.misuse]
each = pytest.mark.parametrize("mutant", LEGAL, ids=lambda mutant: mutant.cls.__name__)

VALUES_COUNT = {"TruncatesTokenIds", "LoraIsUntagged", "LoraRunsTogether", "ImageHashIsCutShort"}
"""Bugs in the value of a token id, a name or a hash: under other names the same program does not show them."""


@cache
def failing(mutant: Mutant) -> Scenario:
    """The first of the known programs that fails on it."""
    played = [Scenario(p.scenario.pool, tuple(step.operation for step in vector_of(*p).steps)) for p in PROGRAMS]
    target = target_of(mutant.cls, black_box=True)
    witnesses = [goal.witness for goal in goals_of(SEED, target.capabilities)]
    return next(s for s in [*played, *witnesses] if play(target, s, SEED).breaches)


@cache
def shrunk(mutant: Mutant) -> Small:
    """What `kvaudit shrink` makes of it."""
    program = failing(mutant).program
    header = TraceHeader(FORMAT, failing(mutant).pool, "x:y", "seed", features=features_of(MANAGER, program))
    return minimise(
        target_of(mutant.cls, black_box=True), SEED, header, failing(mutant), lambda plays, operations: None
    )


def replayed(
    cls: type[BlockManager], header: TraceHeader, lines: list[TraceLine], *, black_box: bool = True
) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=200)
    code = replay(target_of(cls, black_box=black_box), header, lines, SEED, console)
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def checked(tmp_path: Path, header: TraceHeader, lines: list[TraceLine]) -> Checked:
    write_trace(tmp_path / "trace.jsonl", header, lines)
    with TraceReader(tmp_path / "trace.jsonl") as reader:
        return check_trace(reader, SEED, lambda operations, done: None)


@each
def test_is_small_and_replay_tells_it_from_the_right_manager(mutant: Mutant) -> None:
    small = shrunk(mutant)
    assert len(small.lines) <= 12
    code, told = replayed(mutant.cls, small.header, small.lines)
    assert code == VIOLATION
    assert f"still failing: {small.header.obligation} is violated" in told
    code, told = replayed(BlockManager, small.header, small.lines, black_box=False)
    assert code == CONFORMS
    assert f"fixed: {small.header.obligation} is no longer violated" in told


def test_half_of_them_are_very_small() -> None:
    assert statistics.median(len(shrunk(mutant).lines) for mutant in LEGAL) <= 6


@each
def test_a_check_of_the_trace_says_the_same(mutant: Mutant, tmp_path: Path) -> None:
    """What shows in the answers themselves is found in the trace alone, at the same line and under the same name."""
    small = shrunk(mutant)
    result = checked(tmp_path, small.header, small.lines)
    if result.departure is None:
        assert not any(line.differs for line in small.lines)
    else:
        assert result.departure.step == len(small.lines)
        assert small.header.obligation in (result.departure.obligation, "O11")  # what reads do is not told from a trace
        assert small.lines[-1].differs


@each
def test_under_other_names_it_is_the_same_failure(mutant: Mutant, tmp_path: Path) -> None:
    small = shrunk(mutant)
    names = Names()
    header, lines = names.header(small.header), [names.line(line) for line in small.lines]
    before, after = (checked(tmp_path, small.header, ls).departure for ls in (small.lines, lines))
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert (before.line, before.obligation, before.also) == (after.line, after.obligation, after.also)
    code, told = replayed(mutant.cls, header, lines)
    if mutant.cls.__name__ not in VALUES_COUNT:
        assert code == VIOLATION
        assert f"still failing: {header.obligation} is violated" in told

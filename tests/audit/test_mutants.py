"""Every planted bug is found from outside, called by a true name, made small, and pictured where it is.

A check that none can fail is no check.
"""

from __future__ import annotations

import inspect
import runpy
import sys
import unittest
from pathlib import Path

import pytest

from audit.auditing import audit, audited, row, target_of
from audit.picturing import check_picture
from kvaudit.breach import gravest
from kvaudit.levels import play
from kvaudit.profiles import SEED
from kvaudit.report import HOLDS, TRUSTING, VIOLATED, VIOLATION
from kvaudit.targets import TargetSpec
from kvaudit.trace import read_trace
from mutants import MUTANTS, Mutant

LEGAL = [mutant for mutant in MUTANTS if not mutant.misuse]
MISUSE = [mutant for mutant in MUTANTS if mutant.misuse]
BUDGET = 20_000


def each(mutants: list[Mutant]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mutant", mutants, ids=lambda mutant: mutant.cls.__name__)


@each(LEGAL)
def test_is_killed_as_a_black_box(mutant: Mutant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])  # the folder of a target is put before the others
    spec = TargetSpec(f"{inspect.getfile(mutant.cls)}:{mutant.cls.__name__}", black_box=True)
    report = audited(spec, max_steps=BUDGET, stop_at_first=True, failures=tmp_path)
    assert report.exit_code == VIOLATION
    [finding] = report.findings
    assert {finding.obligation, *finding.also} & set(mutant.names)
    assert row(report, finding.obligation).verdict == VIOLATED

    assert 1 <= len(finding.steps) <= 12
    assert finding.trace is not None
    header, scenario = read_trace(Path(finding.trace))
    assert len(scenario.program) == len(finding.steps)
    again = play(target_of(mutant.cls, black_box=True), scenario, SEED)
    assert len(again.played) == len(scenario.program)
    assert header.obligation == finding.obligation == gravest(again.breaches).obligation

    test = runpy.run_path(str(Path(finding.trace).with_name("test_repro.py")))
    [repro] = [value for name, value in test.items() if name.startswith("test_")]
    with pytest.raises(AssertionError, match=rf"(?m)^  {finding.obligation}[:,] "):
        repro()
    try:
        repro("kvblocks")
    except unittest.SkipTest as skipped:  # it would skip this test, too
        raise AssertionError(f"it neither passes nor fails: {skipped}") from None
    check_picture(finding)


@each(LEGAL)
def test_is_killed_with_observe(mutant: Mutant) -> None:
    report = audit(target_of(mutant.cls), max_steps=BUDGET, stop_at_first=True)
    assert report.exit_code == VIOLATION
    [finding] = report.findings  # under a name of its own, maybe: what was registered wrong is seen before it is hit
    check_picture(finding)


@each(MISUSE)
def test_misuse_counts_only_where_asked_for(mutant: Mutant) -> None:
    for misuse in (False, True):
        report = audit(target_of(mutant.cls, black_box=True), max_steps=600, misuse=misuse)
        assert (report.exit_code == VIOLATION) is misuse
        assert not report.findings
        assert row(report, "O10").verdict == (VIOLATED if misuse else TRUSTING)
        assert not [r for r in report.rows if r.verdict == VIOLATED and r.obligation != "O10"]
        assert row(report, "O10").detail


def test_what_is_not_planted_is_not_found() -> None:
    manager = MUTANTS[0].cls.__mro__[1]
    report = audit(target_of(manager, black_box=True), max_steps=600, misuse=True)
    assert not report.findings
    assert row(report, "O10").verdict == HOLDS
    assert row(report, "O10").form.startswith("strict")

"""What an audit reports: on the terminal, as JSON, and as a line that really reproduces it."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path

import msgspec
import pytest

from audit.auditing import MINIATURES, audit, audited, kvaudit, row, target_of
from kvaudit.machine import STEPS_PER_EXAMPLE
from kvaudit.protocol import Allocate, Free, Pool
from kvaudit.report import CONFORMS, INCONCLUSIVE, VIOLATED, VIOLATION, Begun, Ended, Event, Finding, Found, Report
from kvaudit.scenario import Scenario
from kvaudit.targets import TargetSpec
from kvaudit.trace import FORMAT, TraceHeader, lines_of, write_trace
from kvspec.obligations import OBLIGATIONS
from mutants import capacity, identity, pool

BROKEN = f"{inspect.getfile(pool)}:{pool.EvictsNewest.__name__}"
DISEASED = f"{MINIATURES}:RefusesFree"


def decoded(path: Path) -> Report:
    return msgspec.json.decode(path.read_bytes(), type=Report)


def test_json_is_a_report(tmp_path: Path) -> None:
    said = kvaudit("run", BROKEN, "--max-steps", "300", "--json", "report.json", "--seed", "4", cwd=tmp_path)
    report = decoded(tmp_path / "report.json")
    assert said.code == report.exit_code == VIOLATION
    assert (report.header.target, report.header.seed, report.header.max_steps) == (BROKEN, 4, 300)
    assert [found.obligation for found in report.rows] == list(OBLIGATIONS)
    assert row(report, "O6").verdict == VIOLATED
    assert not report.cut_short
    for finding in report.findings:
        check_finding(finding)
        assert finding.obligation in OBLIGATIONS
        assert finding.trace is not None
        assert (tmp_path / finding.trace).is_file()


def check_finding(finding: Finding) -> None:
    assert finding.symptom == OBLIGATIONS[finding.obligation].symptom
    assert finding.id.startswith(f"{finding.obligation}-")
    assert finding.details
    assert finding.num_blocks >= 1
    assert finding.count >= 1
    assert all(step.call and step.expected and step.got for step in finding.steps)
    assert not any(step.broken for step in finding.steps[:-1])
    assert finding.steps[-1].broken[0] == finding.obligation


def test_json_on_standard_output_is_all_that_is_there(tmp_path: Path) -> None:
    said = kvaudit("run", "kvblocks", "--max-steps", "100", "--json", "-", cwd=tmp_path)
    report = msgspec.json.decode(said.out, type=Report)
    assert said.code == report.exit_code == INCONCLUSIVE
    assert "kvblocks: inconclusive" in said.err


def test_the_terminal_says_what_a_user_would_see(tmp_path: Path) -> None:
    said = kvaudit("run", BROKEN, "--max-steps", "300", cwd=tmp_path)
    assert "O6 is violated" in said.all
    assert OBLIGATIONS["O6"].symptom in said.all
    assert "is evicted though block" in said.all
    assert "reproduce: kvaudit replay .kvaudit/failures/O6-" in said.all
    assert f"{BROKEN}: violated: O6" in said.all


@pytest.mark.parametrize("flags", ["", "--black-box", "--isolate", "--profile strict", "--timeout 3", "--refusal Busy"])
def test_the_line_to_reproduce_it_reproduces_it(flags: str, tmp_path: Path) -> None:
    said = kvaudit("run", DISEASED, "--max-steps", "60", "-x", "--json", "r.json", *shlex.split(flags), cwd=tmp_path)
    assert said.code == VIOLATION
    [finding] = decoded(tmp_path / "r.json").findings
    command, *arguments = shlex.split(finding.reproduce)
    assert command == "kvaudit"
    assert set(shlex.split(flags)) <= set(arguments)
    again = kvaudit(*arguments, cwd=tmp_path)
    assert again.code == VIOLATION
    assert f"{finding.obligation} is violated" in again.out


def test_where_nothing_can_be_saved_a_seed_reproduces_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    options = ("--failures", "taken", "--max-steps", "60", "--seed", "3", "-x", "--json", "r.json")
    assert kvaudit("run", DISEASED, *options, cwd=tmp_path).code == VIOLATION
    [finding] = decoded(tmp_path / "r.json").findings
    assert finding.trace is None
    arguments = shlex.split(finding.reproduce)[1:]
    assert arguments[:2] == ["run", DISEASED]
    assert kvaudit(*arguments, "--failures", "none", cwd=tmp_path).code == VIOLATION


def save(folder: Path, target: str, scenario: Scenario) -> None:
    write_trace(folder / "trace.jsonl", TraceHeader(FORMAT, scenario.pool, target, "seed", "O6"), lines_of(scenario))


def test_saved_failures_are_replayed_first(tmp_path: Path) -> None:
    two = Scenario(Pool(2, 1), (Allocate("x", (41, 42)), Free("x"), Allocate("y", (43,))))
    save(tmp_path / "ours", "x:y", two)
    save(tmp_path / "of another target", "a:b", Scenario(Pool(2, 1), (Allocate("z", (1,)),)))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "trace.jsonl").write_text("no trace\n")

    report = audit(target_of(pool.EvictsNewest), failures=tmp_path, stop_at_first=True)
    assert (report.executions, report.steps) == (1, 3)
    assert report.findings[0].obligation == "O6"

    good = audit(target_of(pool.EvictsNewest.__mro__[1]), failures=tmp_path, max_steps=3)
    assert good.executions == 1
    assert not good.findings


def test_a_stale_failure_does_no_harm(tmp_path: Path) -> None:
    save(tmp_path / "fixed", "kvblocks", Scenario(Pool(2, 1), (Allocate("x", (1, 2)), Free("x"), Allocate("y", (3,)))))
    report = audited(TargetSpec("kvblocks"), failures=tmp_path, max_steps=2_000)
    assert (report.exit_code, report.findings) == (CONFORMS, [])


def test_it_goes_on_after_a_finding_unless_told_otherwise() -> None:
    class Two(pool.EvictsNewest, capacity.CanAllocateRoundsDown):
        """One bug does not hide the other."""

    events: list[Event] = []
    report = audit(target_of(Two), max_steps=800, events=events)
    assert {"O6", "O3"} <= {finding.obligation for finding in report.findings}
    assert len([event for event in events if isinstance(event, Found)]) == len(report.findings)
    assert isinstance(events[0], Begun)
    assert events[-1] == Ended(report)

    first = audit(target_of(Two), max_steps=800, stop_at_first=True)
    assert len(first.findings) == 1
    assert first.steps < report.steps


def test_one_bug_is_reported_in_few_shapes() -> None:
    report = audit(target_of(identity.IgnoresTokenOrder), max_steps=600)
    shapes = [(f.obligation, tuple(step.call.split("(")[0] for step in f.steps)) for f in report.findings]
    assert len(shapes) == len(set(shapes))
    for name in OBLIGATIONS:
        assert sum(finding.obligation == name for finding in report.findings) <= 3


@pytest.mark.parametrize("max_steps", [1, 50, 500])
def test_the_budget_is_kept(max_steps: int) -> None:
    report = audited(TargetSpec("kvblocks"), max_steps=max_steps)
    assert max_steps <= report.steps <= max_steps + STEPS_PER_EXAMPLE


def test_a_limit_in_time_is_one_too() -> None:
    report = audited(TargetSpec("kvblocks"), max_steps=None, max_time_s=0.0)
    assert (report.steps, report.exit_code) == (0, INCONCLUSIVE)

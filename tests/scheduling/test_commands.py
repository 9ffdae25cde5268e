"""The command line at scheduler level: run, replay, shrink, anonymise, a program over the protocol, and mistakes."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import small_scheduler
from audit.auditing import ROOT, audit, kvaudit
from kvaudit.errors import TargetError
from kvaudit.profiles import SCHEDULER_RULES
from kvaudit.protocol import SCHEDULER, Pool, Submit
from kvaudit.scenario import Scenario
from kvaudit.scheduling.api import SchedulerTarget
from kvaudit.scheduling.execution import SchedulerExecution
from kvaudit.trace import FORMAT, TraceHeader, lines_of, write_trace
from scheduling import miniatures

SMALL = f"{inspect.getfile(small_scheduler)}:Scheduler"
BROKEN = f"""
import sys
sys.path.append({str(ROOT / "examples" / "python")!r})
from small_scheduler import Scheduler

class Leaky(Scheduler):
    def cancel(self, seq_id):
        for request in [request for request in self.running if request.seq == seq_id]:
            self.running.remove(request)
        super().cancel(seq_id)
"""


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    (tmp_path / "leaky.py").write_text(BROKEN, encoding="utf-8")
    return tmp_path


def test_a_failure_is_shown_saved_played_again_and_fixed(leaky: Path) -> None:
    said = kvaudit("run", "leaky.py:Leaky", "-x", "--json", "report.json", "--report", "pages", cwd=leaky)
    assert said.code == 1
    assert "level scheduler" in said.all and "max_num_seqs: 1, 2, 3" in said.all
    assert "I4 is violated" in said.all and "submit('a'" in said.all and "cancel('a')" in said.all
    report = json.loads((leaky / "report.json").read_text())
    assert report["header"]["level"] == "scheduler"
    assert report["header"]["drawn"]["max_num_seqs"] == [1, 2, 3]
    assert "submit(" in (leaky / "pages" / "report.html").read_text()
    [trace] = leaky.glob(".kvaudit/failures/*/trace.jsonl")
    lines = list(map(json.loads, trace.read_text().splitlines()))
    assert lines[0]["features"] == ["scheduler"]
    assert {line["operation"]["op"] for line in lines[1:]} == {"submit", "step", "cancel"}
    assert any("work" in line["came"] for line in lines[1:])

    name = str(trace.relative_to(leaky))
    assert "still failing: I4" in kvaudit("replay", name, cwd=leaky).all
    shrunk = kvaudit("shrink", name, "-o", "small.jsonl", cwd=leaky)
    assert shrunk.code == 0 and "I4 in" in shrunk.all
    renamed = kvaudit("anonymise", name, "-o", "names.jsonl", cwd=leaky)
    assert renamed.code == 0 and "still failing: I4" in kvaudit("replay", "names.jsonl", cwd=leaky).all
    (leaky / "leaky.py").write_text(BROKEN.partition("    def")[0] + "    pass\n", encoding="utf-8")
    assert "fixed: I4 is no longer violated" in kvaudit("replay", name, cwd=leaky).all
    checked = kvaudit("check", name, cwd=leaky)
    assert checked.code == 2 and "the trace of a scheduler" in checked.all


def test_a_request_that_is_submitted_twice_is_not_called_fixed(leaky: Path) -> None:
    pool = Pool(4, 1)
    header = TraceHeader(FORMAT, pool, "leaky.py:Leaky", "scheduler", "I4", features=(SCHEDULER,))
    write_trace(leaky / "t.jsonl", header, lines_of(Scenario(pool, (Submit("a", (1,), 1), Submit("a", (1,), 1)))))
    said = kvaudit("replay", "t.jsonl", cwd=leaky)
    assert said.code == 3 and "cannot be told: 1 operation of 2 could not be made here" in said.all


def test_a_program_over_the_protocol(tmp_path: Path) -> None:
    code = f"import sys; sys.path[:0] = {[str(ROOT / 'tests'), str(ROOT / 'examples' / 'python')]!r}; " + (
        "from scheduling.miniatures import serve; serve()"
    )
    program = f"cmd:{shlex.join([sys.executable, '-c', code])}"
    said = kvaudit("run", program, "--max-steps", "1500", "--json", "report.json", cwd=tmp_path)
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert said.code in (0, 3) and not report["findings"]
    assert report["header"]["profile"] == "scheduler"
    assert report["header"]["drawn"]["max_num_batched_tokens"] == [3, 2, 5, 16]
    assert all(goal["count"] for goal in report["goals"] if goal["id"] != "cancelled between chunks")


def test_in_a_child_process_it_is_the_same(tmp_path: Path) -> None:
    reports = []
    for flags in ((), ("--isolate",)):
        kvaudit("run", SMALL, *flags, "--max-steps", "600", "--json", "report.json", cwd=tmp_path)
        reports.append(json.loads((tmp_path / "report.json").read_text()))
    for report in reports:
        del report["seconds"]
    assert reports[0] == reports[1]


def test_in_several_processes_what_is_found_is_the_same(leaky: Path) -> None:
    findings = []
    for number in ("1", "2"):
        options = ("--engine", "swarm", "--max-steps", "3000", "--failures", f"f{number}", "--json", "report.json")
        assert kvaudit("run", "leaky.py:Leaky", "-j", number, *options, cwd=leaky).code == 1
        report = json.loads((leaky / "report.json").read_text())
        findings.append([finding["id"] for finding in report["findings"]])
    assert findings[0] == findings[1] and findings[0]


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["explore", SMALL, "--blocks", "2", "--block-size", "1"], "there is no search of schedulers"),
        (["smoke", SMALL], "is a scheduler"),
        (["run", SMALL, "--profile", "seed"], "the profile seed is for targets at manager level"),
        (["run", "kvblocks", "--profile", "scheduler"], "the profile scheduler is for targets at scheduler level"),
        (["run", SMALL, "--level", "manager"], "lacks allocate, append_slot, free"),
        (["run", "kvblocks", "--level", "scheduler"], "lacks submit, step, cancel"),
        (["run", "kvblocks", "--level", "scheduler", "--isolate"], "lacks submit, step, cancel"),
    ],
)
def test_mistakes_are_told(arguments: list[str], fragment: str, tmp_path: Path) -> None:
    said = kvaudit(*arguments, cwd=tmp_path)
    assert said.code == 2
    assert fragment in said.all


BAD_TRACES = {
    "an operation of the other level": ('{"op":"free","seq":"a"}', "free is no operation at scheduler level"),
    "nobody": ('{"op":"cancel","seq":"a"}', "'a' was never submitted"),
    "no token": ('{"op":"submit","seq":"a","tokens":[],"max_new_tokens":1}', "a prompt has at least one token"),
    "nothing wanted": ('{"op":"submit","seq":"a","tokens":[1],"max_new_tokens":0}', "at least one new token"),
    "no name": ('{"op":"step","token":1,"cancel":[""]}', "at least one character"),
    "cancelled twice": ('{"op":"step","token":1,"cancel":["a","a"]}', "cancels a request once at most"),
    "longer than the pool": (
        '{"op":"submit","seq":"a","tokens":[1],"max_new_tokens":1000000}',
        "1000001 tokens, new ones included, are more than the 2 of the pool",
    ),
    "no token id": ('{"op":"step","token":-1}', "-1 is no token id"),
}


@pytest.mark.parametrize("name", BAD_TRACES)
def test_a_trace_that_is_none_is_told(name: str, tmp_path: Path) -> None:
    operation, fragment = BAD_TRACES[name]
    header = '{"format":"kvaudit-trace/1","pool":{"num_blocks":2,"block_size":1},"target":"x:y","profile":"scheduler"'
    line = f'{{"step":1,"operation":{operation}}}'
    (tmp_path / "t.jsonl").write_text(f'{header},"features":["scheduler"]}}\n{line}\n', encoding="utf-8")
    said = kvaudit("replay", "t.jsonl", cwd=tmp_path)
    assert said.code == 2 and fragment in said.all


def test_a_saved_failure_without_operations_is_not_fixed(tmp_path: Path) -> None:
    header = '{"format":"kvaudit-trace/1","pool":{"num_blocks":2,"block_size":1},"target":"x:y","profile":"seed"'
    (tmp_path / "t.jsonl").write_text(f'{header},"obligation":"K1","steps":0}}\n', encoding="utf-8")
    said = kvaudit("replay", "t.jsonl", "--target", "kvblocks", cwd=tmp_path)
    assert said.code == 2 and "has no operation" in said.all


NONSENSE: dict[str, Any] = {
    "nothing": lambda answer: None,
    "a number": lambda answer: 5,
    "a list": lambda answer: answer["passes"],
    "no passes": lambda answer: {"finished": answer["finished"]},
    "a word for a number": lambda answer: {
        **answer,
        "passes": [[{**i, "end": "x"} for i in p] for p in answer["passes"]],
    },
    "an object": lambda answer: object(),
    "computed and copied": lambda answer: {
        **answer,
        "passes": [[{**i, "source": 0, "target": 1, "tokens": 1} for i in p] for p in answer["passes"]],
    },
    "no end of passes": lambda answer: {**answer, "passes": [[]] * 5_000},
    "half a character": lambda answer: {
        **answer,
        "passes": [[{**i, "seq": "\ud800"} for i in p] for p in answer["passes"]],
    },
    "itself": lambda answer: _within_itself(),
}


def _within_itself() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_breaks_o2(name: str) -> None:
    target = SchedulerTarget(miniatures.answering(NONSENSE[name]), name="strange")
    report = audit(target, profile="scheduler", max_steps=300, stop_at_first=True)
    [finding] = report.findings
    assert finding.obligation == "O2"
    assert len(finding.steps) <= 2


def test_what_it_shows_may_be_nonsense_too(tmp_path: Path) -> None:
    target = SchedulerTarget(miniatures.FreeIsNested, name="nested")
    report = audit(target, profile="scheduler", max_steps=300, stop_at_first=True)
    assert report.findings and report.findings[0].steps
    with pytest.raises(TargetError, match="num_free_blocks is None"):
        audit(SchedulerTarget(miniatures.CountsNothing, name="x"), profile="scheduler", max_steps=300)


def test_a_hang_breaks_o2_and_ends_the_audit() -> None:
    target = SchedulerTarget(miniatures.HangsInStep, name="hangs", timeout=0.05)
    report = audit(target, profile="scheduler", max_steps=300)
    [finding] = report.findings
    assert (finding.obligation, finding.steps[-1].got) == ("O2", "no answer")
    assert report.cut_short == "ended because the target hangs"


def test_settings_that_are_none_are_told() -> None:
    for cls, fragment in (
        (miniatures.SettingsAreNoMapping, "is to be a mapping"),
        (miniatures.SettingWithoutValues, "is to be a tuple of numbers"),
        (miniatures.SettingWithoutEnd, "more than 64 bits"),
    ):
        with pytest.raises(TargetError, match=fragment):
            SchedulerTarget(cls, name=cls.__name__)
    target = SchedulerTarget(miniatures.TakesNoSettings, name="x")
    with pytest.raises(TargetError, match="max_num_seqs=1"):
        SchedulerExecution(target, Pool(2, 2, settings={"max_num_seqs": 1}), SCHEDULER_RULES)

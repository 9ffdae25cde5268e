"""What continuous integration reads: JUnit XML, SARIF, the summary of a job, and the action that asks for them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema import ValidationError
from junitparser import Error, Failure, JUnitXml, Skipped

from audit.auditing import MINIATURES, ROOT, audit, environment_with_mark, kvaudit, target_of
from audit.sarif_format import check_sarif
from kvaudit.ci.junit import junit
from kvaudit.ci.sarif import sarif
from kvaudit.ci.summary import summary
from kvaudit.outcomes import outcome_of
from kvaudit.report import INCONCLUSIVE, NOT_REACHED, VIOLATED, Report
from kvblocks import BlockManager
from kvspec.obligations import OBLIGATIONS
from mutants.misuse import FreesTwice
from mutants.pool import KeepsMappingOnEviction

POOL = ROOT / "tests" / "mutants" / "pool.py"


@pytest.fixture(scope="module")
def conforming() -> Report:
    return audit(target_of(BlockManager), max_steps=600)


@pytest.fixture(scope="module")
def violated(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """With two findings at least, one of them with a second obligation at the same step."""
    folder = tmp_path_factory.mktemp("failures")
    return audit(target_of(KeepsMappingOnEviction), max_steps=600, failures=folder, misuse=True)


@pytest.fixture(scope="module")
def inconclusive() -> Report:
    return audit(target_of(BlockManager), max_steps=20)


@pytest.fixture(scope="module")
def misused() -> Report:
    return audit(target_of(FreesTwice), max_steps=600, misuse=True)


@pytest.fixture
def every(conforming: Report, violated: Report, inconclusive: Report, misused: Report) -> list[Report]:
    return [conforming, violated, inconclusive, misused]


# --- JUnit -----------------------------------------------------------------------------------------------------


def test_junit_has_a_case_for_each_obligation_with_its_outcome(every: list[Report]) -> None:
    kinds: dict[type[Any], str] = {Failure: "failed", Error: "inconclusive", Skipped: "skipped"}
    for report in every:
        read = JUnitXml.fromstring(junit(report))
        [suite] = read
        assert suite.name == report.header.target
        assert [case.name.partition(":")[0] for case in suite] == list(OBLIGATIONS)
        for case, row in zip(suite, report.rows, strict=True):
            outcome = outcome_of(row, report)
            assert [kinds[type(result)] for result in case.result] == [outcome.kind] * (outcome.kind != "passed")
        counts = (suite.tests, suite.failures, suite.errors, suite.skipped)
        suite.update_statistics()  # type: ignore[no-untyped-call]
        assert counts == (suite.tests, suite.failures, suite.errors, suite.skipped)
        assert bool(suite.failures or suite.errors) == bool(report.exit_code)


def test_junit_shows_the_steps_of_a_failure(violated: Report) -> None:
    [suite] = JUnitXml.fromstring(junit(violated))
    told = next(case.result[0] for case in suite if case.name.startswith("I3:"))
    assert told.message == "✗ I3 is violated (at the same step: O6)"
    assert isinstance(told.text, str)
    assert "allocate('a', [1])" in told.text and "test_repro" not in told.text and "kept in " in told.text


def test_junit_says_what_xml_cannot(conforming: Report) -> None:
    header = msgspec.structs.replace(conforming.header, target="a\x00b\x1b[31m<&>\ud800")
    [suite] = JUnitXml.fromstring(junit(msgspec.structs.replace(conforming, header=header)))
    assert suite.name == "a\\u0000b\\u001b[31m<&>\\ud800"


# --- SARIF -----------------------------------------------------------------------------------------------------


def log_of(report: Report) -> Any:
    return json.loads(msgspec.json.encode(sarif(report)))


def test_sarif_is_what_the_format_asks_for(every: list[Report], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for report in every:
        text = f"{POOL}:KeepsMappingOnEviction"
        check_sarif(log_of(msgspec.structs.replace(report, header=msgspec.structs.replace(report.header, target=text))))


def test_there_is_a_rule_for_each_obligation_and_a_result_for_each_violation(
    every: list[Report], violated: Report
) -> None:
    for report in every:
        [run] = log_of(report)["runs"]
        assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(OBLIGATIONS)
        broken = {row.obligation for row in report.rows if row.verdict == VIOLATED}
        assert {result["ruleId"] for result in run["results"]} == broken
        assert run["invocations"][0]["exitCode"] == report.exit_code
        told = "toolExecutionNotifications" in run["invocations"][0]
        assert told == (report.exit_code == INCONCLUSIVE)
    [run] = log_of(violated)["runs"]
    prints = [result["partialFingerprints"]["finding/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)
    assert {finding.id for finding in violated.findings} <= set(prints)


@pytest.mark.parametrize(
    ("target", "uri", "line"),
    [
        ("tests/mutants/pool.py:KeepsMappingOnEviction", "tests/mutants/pool.py", "class KeepsMappingOnEviction"),
        ("mutants.pool:EvictsNewest", "tests/mutants/pool.py", "class EvictsNewest"),
        ("tests/mutants/pool.py:Nothing", "tests/mutants/pool.py", ""),
        ("json:JSONDecoder", None, ""),
        ("no.such.module:Class", None, ""),
        ("README.md.py:Class", None, ""),
        ("cmd:./harness:x", None, ""),
        ("vllm==0.33.0", None, ""),
    ],
)
def test_a_result_stands_at_the_class_or_at_the_trace(
    target: str, uri: str | None, line: str, violated: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    report = msgspec.structs.replace(violated, header=msgspec.structs.replace(violated.header, target=target))
    log = log_of(report)
    check_sarif(log)
    for result in log["runs"][0]["results"]:
        place = result["locations"][0]["physicalLocation"]
        if uri is None:
            assert place["artifactLocation"]["uri"].endswith("/trace.jsonl")
        else:
            assert place["artifactLocation"]["uri"] == uri
            shown = POOL.read_text(encoding="utf-8").splitlines()[place["region"]["startLine"] - 1]
            assert line in shown


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run["results"][0].update(level="fatal"),
        lambda run: run["results"][0].update(ruleid="I3"),
        lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0),
        lambda run: run["results"][0].update(ruleIndex=0),
        lambda run: run["results"][0].update(locations=[]),
        lambda run: run.pop("tool"),
    ],
)
def test_what_is_no_sarif_is_found_out(spoil: Any, violated: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    header = msgspec.structs.replace(violated.header, target="tests/mutants/pool.py:KeepsMappingOnEviction")
    log = log_of(msgspec.structs.replace(violated, header=header))
    check_sarif(log)
    spoil(log["runs"][0])
    with pytest.raises((ValidationError, AssertionError)):
        check_sarif(log)


# --- the summary of a job --------------------------------------------------------------------------------------


def test_the_summary_tells_what_a_reader_needs(every: list[Report], violated: Report) -> None:
    for report in every:
        text = summary(report)
        assert text.startswith("## ") and text.endswith("\n")
        assert f"seed {report.header.seed}" in text
        for row in report.rows:
            assert f"\n| {row.obligation} | {row.verdict}" in text
    text = summary(violated)
    assert text.startswith("## ✗ x:y: violated: ")
    assert "\n### I3 is violated (at the same step: O6)\n\nIn production: " in text
    assert "\n| 3 | <code>allocate('a', &#91;1&#93;)</code> | " in text


def test_every_row_of_a_table_has_its_cells(every: list[Report]) -> None:
    for report in every:
        for table in re.findall(r"(?:^\|.*\n)+", summary(report), re.MULTILINE):
            assert len({line.count("|") for line in table.splitlines()}) == 1, table
            assert table.splitlines()[1].startswith("|-")


def test_nothing_of_the_targets_is_taken_for_markdown(violated: Report) -> None:
    evil = "a | b\n\n# <script>alert(1)</script> **x** `y` [l](http://e) ![i](u) _e_ ~~s~~ &lt;"
    step = msgspec.structs.replace(violated.findings[0].steps[0], call=evil, got=evil, expected=evil)
    finding = msgspec.structs.replace(violated.findings[0], steps=[step], details=[evil], reproduce=evil)
    header = msgspec.structs.replace(violated.header, target=evil)
    text = summary(msgspec.structs.replace(violated, findings=[finding], header=header))
    plain = summary(violated)
    for mark in ("<script", "**", "`", "[", "](", "![", "~~", "&lt;", "\n# "):
        assert text.count(mark) == plain.count(mark) == 0, mark
    assert text.count("&#124;") == 6


# --- the command line ------------------------------------------------------------------------------------------


def test_the_options_write_the_files(tmp_path: Path) -> None:
    (tmp_path / "s.md").write_text("what was there\n")
    files = ("--junit", "j.xml", "--summary", "s.md", "--sarif", "s.sarif")
    for _ in range(2):
        assert kvaudit("run", f"{POOL}:KeepsMappingOnEviction", "-x", *files, cwd=tmp_path).code == 1
    text = (tmp_path / "s.md").read_text(encoding="utf-8")
    assert text.startswith("what was there\n## ✗ ") and text.count("\n## ✗ ") == 2
    [suite] = JUnitXml.fromfile(str(tmp_path / "j.xml"))
    assert suite.failures == 2
    check_sarif(json.loads((tmp_path / "s.sarif").read_text(encoding="utf-8")))


def test_standard_output_is_the_file_alone(tmp_path: Path) -> None:
    said = kvaudit("run", "kvblocks", "--max-steps", "600", "--sarif", "-", cwd=tmp_path)
    assert said.code == 0 and "kvblocks: conforms" in said.err
    assert json.loads(said.out)["runs"][0]["results"] == []


@pytest.mark.parametrize("option", ["--junit", "--summary", "--sarif"])
def test_a_file_that_cannot_be_written_is_said_before_the_audit(option: str, tmp_path: Path) -> None:
    said = kvaudit("run", "kvblocks", option, "no/such/folder", cwd=tmp_path)
    assert said.code == 2 and f"{option} no/such/folder: No such file or directory" in said.all
    assert "target" not in said.out


# --- the action ------------------------------------------------------------------------------------------------

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def run_action(folder: Path, target: str, args: str) -> tuple[int, Path]:
    """The step that audits, as a runner runs it: its exit code, and the file of outputs."""
    step = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "audit")
    environment = environment_with_mark()
    environment |= {"KVAUDIT_TARGET": target, "KVAUDIT_ARGS": args}
    environment |= {name: str(folder / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    assert set(step["env"]) == {"KVAUDIT_TARGET", "KVAUDIT_ARGS"}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, folder / "GITHUB_OUTPUT"


@pytest.mark.parametrize(
    ("target", "args", "code"),
    [
        ("kvblocks", "--max-steps 600\n--seed 3", 0),
        (f"{POOL}:KeepsMappingOnEviction", "-x", 1),
        (f"{MINIATURES}:Lacking", "", 2),
        ("kvblocks", "--max-steps 20", 3),
        ("$(touch ran); `touch ran`", "$(touch ran) ; touch ran", 2),
    ],
)
def test_the_action_audits(target: str, args: str, code: int, tmp_path: Path) -> None:
    found, outputs = run_action(tmp_path, target, args)
    assert (found, outputs.read_text()) == (code, f"exit-code={code}\n")
    assert not (tmp_path / "ran").exists()
    if code != 2:
        names = {path.name for path in (tmp_path / ".kvaudit").iterdir()} - {"failures"}
        assert names == {"kvaudit.json", "junit.xml", "kvaudit.sarif", "report.html"}
        assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8").startswith("## ")


def test_no_input_of_the_action_is_put_into_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "run" not in step or step["shell"] == "bash"
    whole = json.dumps(ACTION["runs"])
    assert set(re.findall(r"inputs\.([\w-]+)", whole)) == set(ACTION["inputs"])


def test_what_was_not_reached_is_an_error_of_junit(inconclusive: Report) -> None:
    assert NOT_REACHED in {row.verdict for row in inconclusive.rows}
    [suite] = JUnitXml.fromstring(junit(inconclusive))
    assert suite.errors and not suite.failures

"""The pytest front end, as a project uses it: in a session of its own, with a test module of three lines."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from audit.auditing import MINIATURES, ROOT, audit, environment_with_mark, left, row, target_of
from kvaudit.outcomes import outcome_of
from kvaudit.pytest import conformance, decide
from kvaudit.report import HOLDS, INCONCLUSIVE, NOT_OBSERVABLE, NOT_REACHED, TRUSTING, VIOLATED, VIOLATION, Report, Row
from kvblocks import BlockManager
from kvspec.obligations import OBLIGATIONS

MUTANTS = ROOT / "tests" / "mutants"
THREE_LINES = "from blocks import {name}\nfrom kvaudit.pytest import conformance\ntest_blocks = conformance({name})\n"


def project(folder: Path, source: Path, name: str, test: str = THREE_LINES) -> Path:
    """A project with a block manager and its test."""
    (folder / "blocks.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_blocks.py").write_text(test.format(name=name), encoding="utf-8")
    return folder


def session(folder: Path, *arguments: str) -> tuple[int, str]:
    """`pytest ARGUMENTS` there: its exit code, and what it shows."""
    environment = environment_with_mark()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert not left(environment)
    assert "Traceback" not in done.stdout + done.stderr and "INTERNALERROR" not in done.stdout
    return done.returncode, done.stdout


def test_a_right_manager_passes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from kvblocks import BlockManager\nfrom kvaudit.pytest import conformance\n"
        "test_named = conformance('kvblocks', steps=600, misuse=True)\n"
        "test_class = conformance(BlockManager, profile='strict', steps=600)\n"
    )
    code, shown = session(tmp_path)
    assert code == 0
    assert f"{2 * len(OBLIGATIONS)} passed" in shown
    assert re.search(r"\nkvblocks: conforms \(21 of 21 obligations hold; 60\d steps in .*\), seed 0\n", shown)
    assert re.search(r"\nkvblocks.manager:BlockManager: conforms ", shown)


def test_a_class_of_tests_may_have_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from kvaudit.pytest import conformance\nclass TestBlocks:\n    test_it = conformance('kvblocks', steps=600)\n"
    )
    code, shown = session(tmp_path, "-k", "I1 or K1")
    assert code == 0 and "2 passed" in shown


def test_a_wrong_one_fails_with_the_trace_and_keeps_it(tmp_path: Path) -> None:
    project(tmp_path, MUTANTS / "pool.py", "KeepsMappingOnEviction")
    code, shown = session(tmp_path, "--kvaudit-steps", "1500", "--kvaudit-seed", "7")
    assert code == 1
    assert "test_blocks[I3]" in shown and "✗ I3 is violated (at the same step: O6)" in shown
    assert "allocate('a', [1])" in shown and "after step" in shown  # the trace, and the picture
    assert "O6 is violated: " in shown and "(see I3-" in shown
    assert "blocks.py:KeepsMappingOnEviction: violated: " in shown and ", seed 7\n" in shown
    assert "All traceback entries" not in shown and "audit/kvaudit/runner.py" not in shown
    kept = next(tmp_path.glob(".kvaudit/failures/I3-*"))
    assert f"kept in .kvaudit/failures/{kept.name}" in shown
    assert sorted(path.name for path in kept.iterdir()) == ["report.html", "test_repro.py", "trace.jsonl"]
    assert session(tmp_path, str(kept / "test_repro.py"))[0] == 1


def test_the_options_come_before_the_arguments(tmp_path: Path) -> None:
    test = THREE_LINES.replace("({name})", "({name}, profile='seed', seed=3, steps=9, failures='here')")
    project(tmp_path, MUTANTS / "pool.py", "EvictsNewest", test)
    given = ("--kvaudit-profile", "strict", "--kvaudit-seed", "5", "--kvaudit-steps", "700", "--kvaudit-failures", "it")
    assert session(tmp_path, "test_blocks.py", *given)[0] == 1
    assert [path.name for path in tmp_path.glob("*/*/report.html")]
    assert not (tmp_path / "here").exists() and (tmp_path / "it").is_dir()
    code, shown = session(tmp_path, "test_blocks.py", "-p", "no:kvaudit")  # without the plugin, the arguments are left
    assert code == 1 and "not met: " in shown
    code, shown = session(tmp_path, "test_blocks.py", "--kvaudit-allow-inconclusive")
    assert code == 0 and "inconclusive: K1 is not reached: not met: " in shown
    code, shown = session(tmp_path, "test_blocks.py", "--kvaudit-profile", "nonsense")
    assert code == 1 and "no profile 'nonsense': there are seed" in shown and "20 skipped" in shown


def test_what_the_target_does_not_offer_is_skipped_with_its_reason(tmp_path: Path) -> None:
    test = THREE_LINES.replace("({name})", "({name}, black_box=True)")
    code, shown = session(project(tmp_path, MINIATURES, "Good", test), "--kvaudit-steps", "1500")
    assert code == 0
    assert "I2 is not observable: the target offers no observe()" in shown


def test_a_target_that_does_not_start_is_said_once(tmp_path: Path) -> None:
    code, shown = session(project(tmp_path, MINIATURES, "Lacking"))
    assert code == 1
    assert "lacks " in shown and "1 failed, 20 skipped" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("Blocks, profile='nonsense'", "no profile 'nonsense': there are seed"),
        ("(lambda: Blocks)()()", "conformance() takes a class, or the name of a target, not"),
        ("made()", "made.<locals>.Inner is made inside a function"),
    ],
)
def test_a_mistake_in_the_arguments_ends_the_collection(arguments: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from kvaudit.pytest import conformance\n\nclass Blocks: ...\n\ndef made() -> type:\n    class Inner: ...\n"
        f"    return Inner\n\ntest_it = conformance({arguments})\n"
    )
    code, shown = session(tmp_path)
    assert code == 2
    assert says in shown and "conformance(" not in shown.replace(says, "")


def test_ctrl_c_ends_the_session(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from kvaudit.pytest import conformance\nprint('it begins', flush=True)\n"
        "test_it = conformance('kvblocks', steps=10_000_000)\n"
    )
    environment = environment_with_mark()
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "it begins" in line:
                break
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        try:
            shown = process.communicate(timeout=20)[0]
        finally:
            process.kill()
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in shown and "Traceback" not in shown
    assert not left(environment)


def test_the_plugin_costs_nothing_where_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_it(pytestconfig):\n    assert pytestconfig.pluginmanager.hasplugin('kvaudit')\n"
        "    assert '_kvaudit_pytest' in sys.modules\n"
        "    mine = {'kvaudit', 'kvspec', 'msgspec', 'rich', 'typer', 'hypothesis.stateful'} & set(sys.modules)\n"
        "    assert not mine, mine\n"
    )
    code, shown = session(tmp_path)
    assert code == 0, shown
    assert "kvaudit ===" not in shown


# --- from a verdict to an outcome ----------------------------------------------------------------------------


def outcome(report: Report, name: str, *, lenient: bool = False) -> tuple[str, str]:
    """What becomes of the test of that obligation, and what it says."""
    try:
        decide(outcome_of(row(report, name), report), lenient=lenient)
    except pytest.skip.Exception as skipped:
        return "skipped", str(skipped)
    except pytest.fail.Exception as failed:
        return "failed", str(failed)
    return "passed", ""


@pytest.fixture(scope="module")
def conforming() -> Report:
    return audit(target_of(BlockManager), max_steps=300)


def changed(report: Report, name: str, **fields: Any) -> Report:
    """The report with one row changed."""
    rows: list[Row] = [msgspec.structs.replace(row, **fields) if row.obligation == name else row for row in report.rows]
    return msgspec.structs.replace(report, rows=rows)


@pytest.mark.parametrize(
    ("verdict", "strict", "lenient"),
    [
        (HOLDS, "passed", "passed"),
        (VIOLATED, "failed", "failed"),
        (NOT_OBSERVABLE, "skipped", "skipped"),
        (TRUSTING, "skipped", "skipped"),
        (NOT_REACHED, "failed", "skipped"),
        ("a verdict of a later version", "failed", "skipped"),
    ],
)
def test_each_verdict_has_its_outcome(verdict: str, strict: str, lenient: str, conforming: Report) -> None:
    report = changed(conforming, "O5", verdict=verdict, detail="why")
    assert outcome(report, "O5")[0] == strict
    assert outcome(report, "O5", lenient=True)[0] == lenient


def test_what_is_not_reached_because_of_a_violation_is_skipped(conforming: Report) -> None:
    report = changed(conforming, "O5", verdict=NOT_REACHED, detail="not met: evicted")
    report = msgspec.structs.replace(report, exit_code=VIOLATION, cut_short="ended because the target hangs")
    told = "inconclusive: O5 is not reached: not met: evicted; ended because the target hangs"
    assert outcome(report, "O5") == ("skipped", told)


def test_no_test_passes_without_what_every_verdict_needs(conforming: Report) -> None:
    few = [name for name in conforming.header.capabilities if name != "num_cached_tokens"]
    header = msgspec.structs.replace(conforming.header, capabilities=few)
    report = msgspec.structs.replace(conforming, header=header, exit_code=INCONCLUSIVE)
    state, told = outcome(report, "K1")
    assert state == "failed" and "the target offers no num_cached_tokens" in told
    assert outcome(report, "K2")[0] == "passed"


def test_a_class_is_named_as_the_command_line_names_it() -> None:
    with pytest.raises(pytest.Collector.CollectError, match="takes a class, or the name of a target"):
        conformance(7)  # type: ignore[arg-type]

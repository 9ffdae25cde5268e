"""--known DIR: what is known does not set the exit code, what is new does, and what is fixed is told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from audit.auditing import ROOT, Said, kvaudit
from kvaudit.groups import Groups, shape_of
from kvaudit.protocol import Allocate, Append, Free
from kvaudit.report import CONFORMS, FAILING, FIXED, INCONCLUSIVE, UNTOLD, USAGE, VIOLATED, VIOLATION, Report

ONE_BUG = """
from mutants.pool import EvictsBeforeFreeList

class Blocks(EvictsBeforeFreeList):
    pass
"""
ANOTHER = """
from mutants.capacity import RefusedIdStaysLive

class Blocks(RefusedIdStaysLive):
    pass
"""
BOTH = """
from mutants.pool import EvictsBeforeFreeList
from mutants.capacity import RefusedIdStaysLive

class Blocks(EvictsBeforeFreeList, RefusedIdStaysLive):
    pass
"""
FIXED_NOW = """
from kvblocks import BlockManager as Blocks
"""
STEPS = ("--max-steps", "4000", "--engine", "swarm", "--seed", "3")


def run(code: str, folder: Path, *flags: str) -> tuple[Said, Report]:
    """`kvaudit run` on a file with that code: what was said, and the report."""
    path = f"import sys\nsys.path.append({str(ROOT / 'tests')!r})\n"
    (folder / "blocks.py").write_text(path + code, encoding="utf-8")
    said = kvaudit("run", "blocks.py:Blocks", *STEPS, "--json", "r.json", *flags, cwd=folder)
    return said, msgspec.json.decode((folder / "r.json").read_bytes(), type=Report)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the failures of one bug are known."""
    folder = tmp_path_factory.mktemp("known")
    said, report = run(ONE_BUG, folder, "--failures", "known")
    assert said.code == VIOLATION
    assert [finding.obligation for finding in report.findings] == ["O6"]
    return folder


@pytest.mark.parametrize("flags", [(), ("-j", "2")], ids=["here", "-j 2"])
def test_what_is_known_is_no_news(folder: Path, flags: tuple[str, ...]) -> None:
    said, report = run(ONE_BUG, folder, "--known", "known", "--failures", "new", *flags)
    assert said.code == CONFORMS == report.exit_code
    assert report.verdict == "nothing new"
    assert [known.state for known in report.known] == [FAILING]
    [finding] = report.findings
    assert finding.known and finding.count > 1
    assert finding.trace == report.known[0].trace
    assert "O6 is violated, as is known" in said.all
    assert "violated, known" in said.all
    assert "nothing new; violated as is known: O6" in said.all
    assert not list(folder.glob("new/*"))


def test_what_is_new_counts(folder: Path) -> None:
    said, report = run(BOTH, folder, "--known", "known", "--failures", "new2")
    assert said.code == VIOLATION
    assert {finding.obligation: finding.known for finding in report.findings} == {"O1": False, "O6": True}
    violated = {row.obligation: row.known for row in report.rows if row.verdict == VIOLATED}
    assert violated == {"I5": False, "O1": False, "O6": True}
    assert "violated: I5, O1; violated as is known: O6" in said.all
    assert {path.name[:2] for path in folder.glob("new2/*")} == {"O1"}


def test_another_bug_is_not_taken_for_a_known_one(folder: Path) -> None:
    said, report = run(ANOTHER, folder, "--known", "known", "-x", "--failures", "new3")
    assert said.code == VIOLATION
    assert [known.state for known in report.known] == [FIXED]
    assert not any(row.known for row in report.rows)


def test_what_is_known_does_not_stop_the_run(folder: Path) -> None:
    said, report = run(ONE_BUG, folder, "--known", "known", "-x")
    assert said.code == CONFORMS
    assert report.cut_short == ""


def test_a_known_failure_that_is_fixed_gets_a_word(folder: Path) -> None:
    said, report = run(FIXED_NOW, folder, "--known", "known")
    [known] = report.known
    assert said.code == CONFORMS and report.verdict == "conforms"
    assert known.state == FIXED
    assert f"no longer fails, take it away: {known.trace} (O6)" in said.all


def test_what_cannot_be_seen_is_not_said_to_be_fixed(folder: Path) -> None:
    said, report = run(FIXED_NOW, folder, "--known", "known", "--black-box")
    assert [known.state for known in report.known] in ([UNTOLD], [FIXED])
    trace = msgspec.json.decode((folder / report.known[0].trace).read_bytes().splitlines()[-1])
    assert (report.known[0].state == FIXED) == (trace["expected"] != trace["came"])
    assert said.code in (CONFORMS, INCONCLUSIVE)


def test_the_files_for_ci_say_it(folder: Path) -> None:
    flags = ("--junit", "j.xml", "--sarif", "s.json", "--summary", "s.md", "--report", "page")
    run(ONE_BUG, folder, "--known", "known", *flags)
    assert 'failures="0"' in (folder / "j.xml").read_text()
    assert {
        result["level"] for result in msgspec.json.decode((folder / "s.json").read_bytes())["runs"][0]["results"]
    } == {"note"}
    assert "nothing new" in (folder / "s.md").read_text()
    assert "as is known" in (folder / "page/report.html").read_text()


def test_a_folder_that_is_not_there_and_a_trace_that_is_none(tmp_path: Path) -> None:
    said = kvaudit("run", "kvblocks", "--known", "nowhere", cwd=tmp_path)
    assert said.code == USAGE
    assert "--known nowhere: there is no such folder" in said.all
    (tmp_path / "known/x").mkdir(parents=True)
    (tmp_path / "known/x/trace.jsonl").write_text("{}")
    said = kvaudit("run", "kvblocks", "--known", "known", cwd=tmp_path)
    assert said.code == USAGE
    assert "known/x/trace.jsonl" in said.all


def test_a_shape_knows_no_names() -> None:
    one = shape_of([Allocate("x", (7, 8, 7)), Append("x", 9), Free("x")])
    assert one == shape_of([Allocate("q", (0, 1, 0)), Append("q", 2), Free("q")])
    assert one != shape_of([Allocate("q", (0, 1)), Append("q", 2), Free("q")])
    assert one != shape_of([Allocate("q", (0, 1, 1)), Append("q", 2), Free("p")])
    assert one != shape_of([Allocate("q", (0, 1, 0)), Append("q", 2)])
    assert not Groups().is_muted("K1")

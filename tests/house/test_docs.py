"""The documentation says what is so: pages are current, links lead somewhere, examples do what they are said to do."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from audit.auditing import environment_with_mark
from house.harness_page import follow, is_shown
from kvaudit.profiles import SEED
from kvaudit.report import CONFORMS, VIOLATION, Report
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted([*REPOSITORY.glob("*.md"), *DOCS.glob("*.md"), REPOSITORY / "examples" / "README.md"])


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks_of(page: str, language: str) -> list[str]:
    """The code blocks of a page in that language."""
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_generated_pages_are_current() -> None:
    for name, text in generator().pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, "run: python docs/generate.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        if not link.startswith("https://"):
            assert (page.parent / link).exists(), link
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert {*re.findall(r"\]\(#([^)]+)\)", text)} <= anchors


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.parent == DOCS and f"({page.name})" not in index] == ["index.md"]


@pytest.mark.parametrize("page", ["README.md", "docs/proofs.md", "docs/size.md", "docs/extra-keys.md"])
def test_what_python_says_in_a_page_is_true(page: str) -> None:
    failed, attempted = doctest.testfile(str(REPOSITORY / page), module_relative=False)
    assert attempted and not failed


# --- the quickstart ------------------------------------------------------------------------------------------


def audited(code: str, folder: Path) -> Report:
    (folder / "blocks.py").write_text(code, encoding="utf-8")
    target = TargetSpec(f"{folder / 'blocks.py'}:Blocks").start()
    return Audit(target, TargetSpec("blocks.py:Blocks"), SEED, Options(max_steps=2_000), lambda event: None).run()


def test_the_quickstart_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])  # the folder of a target is put before the others
    code, first_fix, fix, observe, _ = blocks_of("quickstart.md", "python")

    def with_take(method: str) -> str:
        return re.sub(r"    def _take.*?\n(?=\n    def )", lambda _: method, code, flags=re.DOTALL)

    found = audited(code, tmp_path)
    assert found.exit_code == VIOLATION
    assert "K1" in {finding.obligation for finding in found.findings}
    found = audited(with_take(first_fix), tmp_path)
    assert found.exit_code == VIOLATION
    assert {"O4", "O2"} <= {finding.obligation for finding in found.findings}
    assert audited(with_take(fix), tmp_path).exit_code == CONFORMS
    found = audited(f"{with_take(fix)}\n{observe}", tmp_path)
    assert found.exit_code == CONFORMS
    assert [row.obligation for row in found.rows if row.verdict == "not observable"] == ["O3"]
    found = audited(f"{code}\n{observe}", tmp_path)
    assert "I3" in {finding.obligation for finding in found.findings}


# --- the protocol, and a harness -----------------------------------------------------------------------------


def test_a_harness_grows_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    page = (DOCS / "harness.md").read_text(encoding="utf-8")
    manager, *_ = blocks_of("quickstart.md", "python")

    def run(command: str) -> str:
        _, *arguments = shlex.split(command)
        words = [sys.executable, "-m", "kvaudit", *arguments]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment_with_mark(), capture_output=True, text=True, timeout=60
        )
        assert done.stderr == ""
        return done.stdout

    ran, program = follow(page, manager, tmp_path, run)
    assert len(ran) == page.count("$ kvaudit smoke ") >= 12
    for command, shown, printed in ran:
        assert is_shown(shown, printed), f"{command} prints\n{printed}"
    whole = blocks_of("harness.md", "python")[-1]
    assert ast.dump(ast.parse(program)) == ast.dump(ast.parse(whole))


def test_a_page_that_shows_something_else_is_found_out() -> None:
    assert is_shown("[...]\nb\n[...]\nd", "a\nb\nc\nd")
    assert is_shown("a[...]d", "a\nb\nc\nd")
    assert not is_shown("[...]\nb\n[...]\ne", "a\nb\nc\nd")
    assert not is_shown("b\nc\nd", "a\nb\nc\nd")


def test_the_audit_finds_what_the_page_says(tmp_path: Path) -> None:
    manager, *_ = blocks_of("quickstart.md", "python")
    (tmp_path / "blocks.py").write_text(manager, encoding="utf-8")
    (tmp_path / "harness.py").write_text(blocks_of("harness.md", "python")[-1], encoding="utf-8")
    report = audited_program(tmp_path / "harness.py")
    assert report.exit_code == VIOLATION
    assert "K1" in {finding.obligation for finding in report.findings}


def test_the_exchange_is_what_kvblocks_says() -> None:
    exchange = next(block for block in blocks_of("protocol.md", "") if block.startswith("> "))
    lines = exchange.splitlines()
    asked = "".join(f"{line[2:]}\n" for line in lines if line.startswith("> "))
    command = [sys.executable, "-m", "kvaudit.serve", "kvblocks"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=60, check=True)
    expected = [json.loads(line[2:]) for line in lines if line.startswith("< ")]
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected


def test_the_program_conforms(tmp_path: Path) -> None:
    code, _, fix, *_ = blocks_of("quickstart.md", "python")
    fixed = re.sub(r"    def _take.*?\n(?=\n    def )", lambda _: fix, code, flags=re.DOTALL)
    (tmp_path / "blocks.py").write_text(fixed, encoding="utf-8")
    program = blocks_of("harness.md", "python")[-1]
    (tmp_path / "harness.py").write_text(program, encoding="utf-8")
    assert audited_program(tmp_path / "harness.py").exit_code == CONFORMS


def audited_program(path: Path) -> Report:
    spec = TargetSpec(f"cmd:{shlex.join([sys.executable, str(path)])}")
    target = spec.start()
    try:
        return Audit(target, spec, SEED, Options(max_steps=1_000), lambda event: None).run()
    finally:
        target.close()

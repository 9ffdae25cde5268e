"""`test_repro.py` beside a saved trace runs by itself: with Python and with pytest, and wherever it is run from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import pytest

from audit.auditing import ROOT, environment_with_mark, kvaudit
from kvaudit.reproduce import audited

MUTANTS = {
    "pool.py:KeepsMappingOnEviction": (),
    "identity.py:TruncatesTokenIds": ("--black-box",),
    "records.py:KeepsCallersList": (),
    "capacity.py:RefusesLastBlock": ("--isolate",),
}


def saved(folder: Path, target: str, *options: str) -> Path:
    """The test that an audit of the target leaves."""
    assert kvaudit("run", target, "-x", *options, cwd=folder).code == 1
    [test] = folder.glob(".kvaudit/failures/*/test_repro.py")
    return test


def run(*command: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment_with_mark(), capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mutant", MUTANTS)
def test_fails_on_what_is_wrong_and_passes_on_what_is_right(mutant: str, tmp_path: Path) -> None:
    test = saved(tmp_path, f"{ROOT / 'tests' / 'mutants' / mutant}", *MUTANTS[mutant])
    obligation = test.parent.name.partition("-")[0]
    code, said = run(str(test), cwd=test.parent)
    assert code == 1 and re.search(rf"\n  {obligation}[:,] ", said)
    code, said = run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(test), cwd=tmp_path)
    assert code == 1 and re.search(rf"  {obligation}[:,] ", said) and "1 failed" in said
    assert "_apply" not in said  # the failure is shown at the call, not inside of kvaudit
    code, said = run(str(test), "kvblocks", cwd=test.parent)
    assert (code, said) == (0, f"passed: {obligation} is not violated here\n")


def test_passes_when_the_target_is_put_right(tmp_path: Path) -> None:
    faulty = (ROOT / "tests" / "mutants" / "capacity.py").read_text(encoding="utf-8")
    (tmp_path / "blocks.py").write_text(faulty, encoding="utf-8")
    test = saved(tmp_path, "blocks.py:RefusesLastBlock")
    assert 'TARGET = "blocks.py:RefusesLastBlock"' in test.read_text(encoding="utf-8")
    assert run(str(test), cwd=test.parent)[0] == 1
    right = "from kvblocks import BlockManager as RefusesLastBlock\n__all__ = ['RefusesLastBlock']\n"
    (tmp_path / "blocks.py").write_text(right, encoding="utf-8")
    assert run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(test), cwd=test.parent)[0] == 0


def test_what_does_not_show_from_outside_is_skipped_there() -> None:
    pool = audited("kvblocks", num_blocks=1, block_size=1, black_box=True, hidden="I3")
    with pytest.raises(unittest.SkipTest, match=r"without observe\(\) a violation of I3 may not show"), pool as manager:
        manager.allocate("a", [0])
        manager.free("b")  # was never allocated: left out
        manager.append_slot("a", 1)  # refused, as it should be
        manager.free("a")
    with audited("kvblocks", num_blocks=1, block_size=1, hidden="I3"):
        pass


def test_a_file_name_full_of_quotes_makes_a_program_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s "here" \\n'
    folder.mkdir()
    (folder / "blocks.py").write_text((ROOT / "tests" / "mutants" / "capacity.py").read_text(encoding="utf-8"))
    test = saved(tmp_path, f"{folder.name}/blocks.py:RefusesLastBlock")
    assert run(str(test), cwd=tmp_path)[0] == 1


def test_is_formatted_as_formatters_would(tmp_path: Path) -> None:
    test = saved(tmp_path, f"{ROOT / 'tests' / 'mutants' / 'pool.py'}:KeepsMappingOnEviction")
    code, said = run("-m", "ruff", "format", "--isolated", "--diff", "--line-length", "120", str(test), cwd=tmp_path)
    assert code == 0, said
    code, said = run(
        "-m", "ruff", "check", "--isolated", "--select", "E,F,I", "--line-length", "120", str(test), cwd=tmp_path
    )
    assert code == 0, said


def test_several_are_collected_as_the_page_says(tmp_path: Path) -> None:
    test = saved(tmp_path, f"{ROOT / 'tests' / 'mutants' / 'pool.py'}:KeepsMappingOnEviction")
    shutil.copytree(test.parent, test.parent.with_name("another"))
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    code, said = run(*command, "--import-mode=importlib", ".kvaudit/failures", cwd=tmp_path)
    assert code == 1 and "2 failed" in said
    assert run(*command, cwd=tmp_path)[0] == pytest.ExitCode.NO_TESTS_COLLECTED

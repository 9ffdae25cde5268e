"""`kvaudit explore` on the command line: what it says, its exit codes, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from audit.auditing import environment_with_mark, kvaudit
from kvaudit.explore.report import Explored

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = ROOT / "tests" / "mutants"
SECOND = ROOT / "tests" / "second" / "manager.py"


def test_says_exhaustive_of_kvblocks(tmp_path: Path) -> None:
    said = kvaudit("explore", "kvblocks", "--blocks", "2", "--block-size", "2", "--json", "r.json", cwd=tmp_path)
    assert said.code == 0
    assert said.all.count("exhaustive") == 3
    assert "kvblocks: conforms (2 pools, exhaustive;" in said.all
    assert "sequence ids are used by equality only (tested on sampled transitions)" in said.all
    assert "misuse strict" in said.all
    report = msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=Explored)
    assert [pool.states for pool in report.pools] == [92, 19]


def test_says_bounded_of_what_cannot_be_restored(tmp_path: Path) -> None:
    sizes = ("--blocks", "2", "--block-size", "1", "--depth", "3")
    for target in (f"{SECOND}:SecondManager", f"{MUTANTS / 'misuse.py'}:FreesTwice"):
        said = kvaudit("explore", target, *sizes, cwd=tmp_path)
        assert said.code == 0
        assert "bounded search:" in said.all
        assert "0 exhaustive" in said.all
        assert "nothing found in programs of up to 3 operations; longer ones were not tried" in said.all
        assert "conforms" not in said.all
    assert "trusting: free with the id of no live sequence is accepted" in said.all


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_counterexample_is_saved_and_replayed(tmp_path: Path, processes: str) -> None:
    target = f"{MUTANTS / 'pool.py'}:KeepsMappingOnEviction"
    said = kvaudit("explore", target, "--blocks", "2", "--block-size", "1", "-j", processes, cwd=tmp_path)
    assert said.code == 1
    assert "I3 is violated" in said.all
    [trace] = (tmp_path / ".kvaudit" / "failures").rglob("trace.jsonl")
    assert kvaudit("replay", str(trace), cwd=tmp_path).code == 1


def test_a_wrong_read_is_a_counterexample(tmp_path: Path) -> None:
    target = f"{MUTANTS / 'capacity.py'}:CanAllocateRoundsDown"
    said = kvaudit("explore", target, "--blocks", "1", "--block-size", "2", cwd=tmp_path)
    assert said.code == 1
    assert "O3 is violated" in said.all


def test_another_process_is_searched_too(tmp_path: Path) -> None:
    sizes = ("--blocks", "1", "--block-size", "1", "--depth", "2", "--isolate")
    for processes in ("1", "2"):
        said = kvaudit("explore", f"{SECOND}:SecondManager", *sizes, "-j", processes, cwd=tmp_path)
        assert said.code == 0
        assert "runs in another process" in said.all


def test_symmetries_can_be_switched_off(tmp_path: Path) -> None:
    sizes = ("--blocks", "2", "--block-size", "1")
    said = kvaudit("explore", "kvblocks", *sizes, "--without", "tokens", cwd=tmp_path)
    assert said.code == 0
    assert "prompts are made of 3 token ids only" in said.all
    assert kvaudit("explore", "kvblocks", *sizes, "--without", "names", cwd=tmp_path).code == 2


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_says_how_far_it_got(tmp_path: Path, processes: str) -> None:
    command = [sys.executable, "-m", "kvaudit", "explore", "kvblocks", "--blocks", "4", "--block-size", "3"]
    process = subprocess.Popen(
        [*command, "-j", processes],
        cwd=tmp_path,
        env=environment_with_mark(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 3, out + err
    said = " ".join(out.split())
    assert "not exhaustive, interrupted;" in said
    assert "kvblocks: inconclusive: interrupted; 1 of 2 pools not begun" in said
    assert not err

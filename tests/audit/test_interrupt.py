"""Ctrl-C ends an audit with what was found so far; neither it nor another signal leaves anything running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from audit.auditing import MINIATURES, environment_with_mark, left


def interrupted(*arguments: str, cwd: Path, after: str) -> tuple[int, str, str]:
    """Run `kvaudit ARGUMENTS`, interrupt it once a line with `after` has come, and check that nothing is left."""
    environment = {**environment_with_mark(), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "kvaudit", *arguments]
    command += ["--max-time", "60"] if arguments[0] == "run" else []
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=cwd, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if after in line:
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            rest, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert not left(environment)
    assert "Traceback" not in errors
    return process.returncode, " ".join((seen + rest).split()), errors


@pytest.mark.parametrize("flags", [(), ("--isolate",)], ids=["in process", "isolated"])
def test_what_was_found_so_far_is_shown(flags: tuple[str, ...], tmp_path: Path) -> None:
    code, shown, errors = interrupted("run", "kvblocks", *flags, cwd=tmp_path, after="assumed")
    assert (code, errors) == (3, "")
    assert "kvblocks: inconclusive: interrupted" in shown
    assert "obligations hold" in shown


@pytest.mark.parametrize("flags", [(), ("--isolate",)], ids=["in process", "isolated"])
def test_what_was_violated_counts(flags: tuple[str, ...], tmp_path: Path) -> None:
    name = f"{MINIATURES}:RefusesEverything"
    code, shown, errors = interrupted("run", name, *flags, cwd=tmp_path, after="reproduce")
    assert (code, errors) == (1, "")
    assert "RefusesEverything: violated: O2" in shown


def test_a_call_that_hangs_is_interrupted(tmp_path: Path) -> None:
    name = f"{MINIATURES}:HangsInConstructor"
    code, shown, _ = interrupted("run", name, "--timeout", "50", cwd=tmp_path, after="assumed")
    assert code == 3
    assert "interrupted" in shown


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [("check", 3, "inconclusive: interrupted"), ("anonymise", 130, "interrupted: nothing was written")],
)
def test_a_trace_whose_next_line_does_not_come(command: str, code: int, says: str, tmp_path: Path) -> None:
    """A trace may be a pipe into which a server still writes."""
    os.mkfifo(tmp_path / "trace.jsonl")
    arguments = [sys.executable, "-m", "kvaudit", command, "trace.jsonl"]
    pipe, environment = subprocess.PIPE, environment_with_mark()
    with (
        subprocess.Popen(arguments, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True) as process,
        (tmp_path / "trace.jsonl").open("w") as file,
    ):
        file.write('{"format":"kvaudit-trace/1","pool":{"num_blocks":3,"block_size":1},"target":"","profile":"seed"}\n')
        for step in range(1, 2_000):
            operation = '{"op":"allocate","seq":"a","tokens":[1]}' if step % 2 else '{"op":"free","seq":"a"}'
            file.write(f'{{"step":{step},"operation":{operation},"came":{{"outcome":"completed"}}}}\n')
        file.flush()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            out, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert not left(environment)
    assert "Traceback" not in errors
    assert process.returncode == code
    assert says in " ".join((out + errors).split())
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"]


SILENT = """
import json, time
offers = ["allocate", "append_slot", "free", "num_cached_tokens"]
input(); print(json.dumps({"type": "started", "name": "x", "capabilities": offers}), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "arguments",
    [("smoke", f"cmd:{sys.executable} harness.py"), ("run", f"{MINIATURES}:HangsInConstructor", "--isolate")],
    ids=["a program", "a class"],
)
def test_what_was_started_is_ended_by_what_ends_us(
    arguments: tuple[str, ...], signum: signal.Signals, tmp_path: Path
) -> None:
    """As `timeout`, a CI that cancels a job, or a terminal that is closed."""
    (tmp_path / "harness.py").write_text(SILENT, encoding="utf-8")
    environment = {**environment_with_mark(), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "kvaudit", *arguments, "--timeout", "50"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert len(left(environment)) == 2
        process.send_signal(signum)
        process.communicate(timeout=20)
    assert process.returncode == -signum
    deadline = time.monotonic() + 5  # a process that was killed takes a moment to be gone
    while left(environment) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left(environment)


def test_a_harness_that_is_silent_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "harness.py").write_text(SILENT, encoding="utf-8")
    code, _, errors = interrupted("smoke", f"cmd:{sys.executable} harness.py", cwd=tmp_path, after="started")
    assert code == 130
    assert errors == "error: interrupted\n"

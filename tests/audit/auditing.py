"""What the tests of the auditor share: one audit in this process, or the real command line in another one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kvaudit.api import ApiTarget
from kvaudit.profiles import PROFILES
from kvaudit.report import Event, Report, Row
from kvaudit.runner import Audit, Options
from kvaudit.targets import Target, TargetSpec

ROOT = Path(__file__).parent.parent.parent
MINIATURES = Path(__file__).parent / "miniatures.py"


def target_of(cls: Any, *, black_box: bool = False) -> ApiTarget:
    """A class as a target in this process."""
    target = ApiTarget(cls, name=cls.__name__)
    target.capabilities -= frozenset({"observe"} if black_box else ())
    return target


def audit(
    target: Target, *, profile: str = "seed", events: list[Event] | None = None, text: str = "x:y", **options: Any
) -> Report:
    """One audit of a started target, quietly; `text` is what the command line would have called it."""
    emit = events.append if events is not None else lambda event: None
    return Audit(target, TargetSpec(text), PROFILES[profile], Options(**options), emit).run()


def audited(spec: TargetSpec, *, profile: str | None = None, **options: Any) -> Report:
    """One audit, from the name of a target to the end."""
    target = spec.start()
    try:
        return Audit(target, spec, PROFILES[profile or target.profile], Options(**options), lambda event: None).run()
    finally:
        target.close()


def row(report: Report, obligation: str) -> Row:
    """The row of that obligation."""
    return next(row for row in report.rows if row.obligation == obligation)


def same(report: Report) -> Report:
    """The report without what differs from run to run."""
    return msgspec.structs.replace(report, seconds=0.0, date="")


class Said(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        """Both streams, with what was wrapped to the width of the terminal on one line."""
        return " ".join((self.out + self.err).split())


def kvaudit(*arguments: str, cwd: Path, timeout: float = 60.0) -> Said:
    """Run `kvaudit ARGUMENTS` in its own process, and check what is never to happen."""
    environment = environment_with_mark()
    run = subprocess.run(
        [sys.executable, "-m", "kvaudit", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    assert not left(environment)
    said = Said(run.returncode, run.stdout, run.stderr)
    assert "Traceback" not in said.all, said.all
    assert "bug of kvaudit" not in said.all, said.all
    return said


def environment_with_mark() -> dict[str, str]:
    """The environment of a command: a wide terminal, nothing of the tests' own, and a mark that children inherit."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KVAUDIT", "PYTHON"))}
    return {**clean, "COLUMNS": "200", "NO_COLOR": "1", MARK: uuid.uuid4().hex}


MARK = "TEST_OF_KVAUDIT"


def left(environment: dict[str, str]) -> list[str]:
    """The processes that still run in that environment; none can be found where there is no /proc."""
    mark = f"{MARK}={environment[MARK]}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ends while we look
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().decode())
    return found

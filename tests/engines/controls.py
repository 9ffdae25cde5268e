"""What the tests of the engines share: one audit of an engine that is at hand, or a reason to skip."""

from __future__ import annotations

import functools
import importlib.util
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvaudit.engines.fetch import cached, packages
from kvaudit.profiles import PROFILES
from kvaudit.protocol import MANAGER, LevelName
from kvaudit.report import Finding, Report
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec


def has_torch() -> bool:
    """Installed, or brought by a fetch."""
    return importlib.util.find_spec("torch") is not None or (packages() / "torch").is_dir()


needs_torch = pytest.mark.skipif(
    not has_torch(),
    reason="torch is neither installed nor fetched; run: kvaudit fetch sglang==0.5.23",
)


@functools.cache
def audited(
    text: str,
    source: str | None = None,
    black_box: bool = False,
    settings: tuple[str, ...] = (),
    level: LevelName = MANAGER,
    max_steps: int = 1_000,
) -> Report:
    """A short audit of an engine: all witnesses, then generated programs."""
    if source is None:
        fetched(text, level)
    spec = TargetSpec(text, source, black_box=black_box, settings=settings, level=level)
    target = spec.start()
    try:
        return Audit(target, spec, PROFILES[target.profile], Options(max_steps=max_steps), lambda event: None).run()
    finally:
        target.close()


def fetched(text: str, level: LevelName = MANAGER) -> Path:
    """The folder of an engine in the cache."""
    folder = cached(*text.split("=="), level=level)
    if folder is None:
        pytest.skip(f"not in the cache; run: kvaudit fetch {text}")
    return folder


@functools.cache
def checkout(variable: str, revision: str, folder: Path) -> str:
    """The files of a revision of the clone that an environment variable names."""
    clone = os.environ.get(variable)
    if not clone:
        pytest.skip(f"it is on no package index; {variable}=DIR names a git clone of it")
    archive = subprocess.run(["git", "-C", clone, "archive", revision], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder / revision, filter="data")
    return str(folder / revision)


def changed(text: str, folder: Path, file: str, old: str, new: str, level: LevelName = MANAGER) -> str:
    """A copy of a fetched engine with one bug planted."""
    shutil.copytree(fetched(text, level), folder, dirs_exist_ok=True)
    source = (folder / file).read_text()
    assert source.count(old) == 1
    (folder / file).write_text(source.replace(old, new))
    return str(folder)


def violated(report: Report) -> set[str]:
    """The obligations that are violated."""
    return {row.obligation for row in report.rows if row.verdict == "violated"}


def is_clean(report: Report) -> bool:
    """No finding, and no situation that was never met: else the message says which."""
    told = [f"{row.obligation}: {row.detail}" for row in report.rows if row.verdict == "violated"]
    assert report.exit_code == 0, [*told, *report.reasons, *(goal.id for goal in report.goals if not goal.count)]
    return True


def smallest(report: Report, obligation: str) -> Sequence[str]:
    """The operations of the smallest finding of an obligation."""
    found: list[Finding] = [finding for finding in report.findings if finding.obligation == obligation]
    assert found, [finding.id for finding in report.findings]
    return [step.call for step in min(found, key=lambda finding: len(finding.steps)).steps]

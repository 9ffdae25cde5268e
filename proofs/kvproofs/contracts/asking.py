"""Asks CrossHair, and reads what it says: silence is no confirmation.

A process of its own for each question, since CrossHair replaces built-in functions. Files are given as paths: of a
package name CrossHair checks nothing, and reports success.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

IS_CONFIRMED, IS_REFUTED, IS_OPEN = "confirmed", "refuted", "not confirmed"


@dataclass(frozen=True)
class Verdict:
    """What CrossHair says of a contract or of a pair; `detail` is the counterexample, or what it says instead."""

    name: str
    verdict: str
    detail: str = ""


def check(file: Path, seconds: float, *, only: str = "", first_on_path: Path | None = None) -> list[Verdict]:
    """The verdict on every contract of a file, or on one. `first_on_path`: packages there hide the installed ones.

    seconds: of processor time, for each condition. Raises RuntimeError if CrossHair cannot do it.
    """
    contracts = {name: posts for name, posts in _contracts(file) if only in ("", name)}
    target = f"{file}:{_line_of(file, only)}" if only else str(file)
    said = _crosshair("check", "--report_all", *_limits(seconds), target, first_on_path=first_on_path)
    confirmed = {int(line) for line in re.findall(r":(\d+): info: Confirmed over all paths\.$", said, re.MULTILINE)}
    refuted = {name: text for text, name in re.findall(r":\d+: error: (.*when calling (\w+)\(.*)$", said, re.MULTILINE)}
    return [
        Verdict(name, IS_REFUTED, refuted[name])
        if name in refuted
        else Verdict(name, IS_CONFIRMED if posts and posts <= confirmed else IS_OPEN)
        for name, posts in contracts.items()
    ]


def compare(pair: str, one: str, other: str, seconds: float, *, first_on_path: Path | None = None) -> Verdict:
    """Whether two functions do the same for all arguments. Confirmed: every path was followed, and none differs."""
    said = _crosshair("diffbehavior", *_limits(seconds), one, other, first_on_path=first_on_path)
    if said.startswith("Given: "):
        return Verdict(pair, IS_REFUTED, " ".join(said.split()))
    exhausted = said.startswith("No differences found.") and "All paths exhausted" in said
    return Verdict(pair, IS_CONFIRMED if exhausted else IS_OPEN, "" if exhausted else said.strip())


def _crosshair(*arguments: str, first_on_path: Path | None) -> str:
    """What CrossHair prints. It runs where no file has the name of a package."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(first_on_path or folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "crosshair", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1) or (done.returncode and not done.stdout):  # 1 is also how Python itself fails
        raise RuntimeError(f"crosshair {' '.join(arguments)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _limits(seconds: float) -> tuple[str, str]:
    return "--per_condition_timeout", str(seconds)


def _contracts(file: Path) -> Iterator[tuple[str, set[int]]]:
    """Every function of a file that has a contract, and the lines of its postconditions."""
    lines = file.read_text(encoding="utf-8").splitlines()
    for node in _functions(file):
        docstring = node.body[0]
        if ast.get_docstring(node) is not None:
            within = range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1)
            posts = {number for number in within if lines[number - 1].strip().startswith("post:")}
            if posts:
                yield node.name, posts


def _functions(file: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef))


def _line_of(file: Path, function: str) -> int:
    return next(node.lineno for node in _functions(file) if node.name == function)

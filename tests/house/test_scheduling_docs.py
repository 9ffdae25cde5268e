"""docs/scheduling.md says what is so."""

from __future__ import annotations

import ast
import re

from audit.auditing import ROOT, audit
from house.harness_page import is_shown
from kvaudit.outcomes import as_text
from kvaudit.scheduling.api import OPTIONAL, REQUIRED, SchedulerTarget
from kvaudit.scheduling.duties import DUTIES
from kvaudit.scheduling.oracle import IDLE_STEPS
from kvaudit.scheduling.work import Copied, read_work
from kvaudit.terminal import finding_shown
from scheduling.planted import ResumesAtTheOldPosition

PAGE = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_class_has_what_a_scheduler_has() -> None:
    [cls] = [node for node in ast.parse(CODE[0]).body if isinstance(node, ast.ClassDef)]
    methods = {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}
    assert methods == {"__init__", *REQUIRED}
    assert all(f"`{name}" in PAGE for name in OPTIONAL)


def test_the_answer_is_work() -> None:
    work = read_work(ast.literal_eval(CODE[1]))
    assert isinstance(work.passes[0][0], Copied) and work.finished == ("b",)


def test_every_duty_is_told() -> None:
    section = PAGE.partition("## What is checked")[2].partition("\n## ")[0]
    assert set(re.findall(r"\b[IOK]\d+\b", section)) == set(DUTIES)
    assert f"{IDLE_STEPS} steps in a row" in section


def test_the_failure_is_shown_as_it_is() -> None:
    shown = re.findall(r"```\n(✗.*?)```", PAGE, re.DOTALL)[0]
    target = SchedulerTarget(ResumesAtTheOldPosition, name="resumes")
    [finding] = audit(target, profile=target.profile, max_steps=500, stop_at_first=True).findings
    assert is_shown(f"{shown.rstrip()}[...]", as_text(finding_shown(finding), width=100))

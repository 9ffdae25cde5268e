"""Engines at scheduler level: what is clean, and bugs that are planted into their sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.controls import audited, changed, is_clean, smallest
from kvaudit.protocol import SCHEDULER
from kvaudit.report import Report

VLLM = "vllm==0.33.0"
_SCHEDULER = "vllm/v1/core/sched/scheduler.py"


def test_the_scheduler_of_vllm_is_clean() -> None:
    report = audited(VLLM, level=SCHEDULER)
    assert is_clean(report)
    assert (report.header.level, report.header.profile) == (SCHEDULER, "vllm-scheduler")
    assert {"async_scheduling", "watermark", "policy"} <= set(report.header.drawn)


def with_bug(folder: Path, file: str, old: str, new: str) -> Report:
    return audited("vllm", changed(VLLM, folder, file, old, new, SCHEDULER), level=SCHEDULER)


@pytest.mark.parametrize(
    ("file", "old", "new", "obligation"),
    [
        pytest.param(
            _SCHEDULER,
            "        request.num_computed_tokens = 0\n        if request.spec_token_ids:\n",
            "        if request.spec_token_ids:\n",
            "K1",
            id="whoever is preempted goes on where it was",
        ),
        pytest.param(
            _SCHEDULER,
            "        if not delay_free_blocks:\n            self._free_blocks(request)\n",
            "        if not delay_free_blocks and request.num_output_tokens:\n            self._free_blocks(request)\n",
            "I4",
            id="an abort before the first token gives nothing back",
        ),
        pytest.param(
            "vllm/v1/core/kv_cache_manager.py",
            "            max_cache_hit_length = request.num_tokens - 1\n        computed_blocks, num_new",
            "            max_cache_hit_length = request.num_tokens\n        computed_blocks, num_new",
            "O2",
            id="a prompt that is cached to its end leaves nothing to compute",
        ),
    ],
)
def test_a_bug_in_vllm_is_found(file: str, old: str, new: str, obligation: str, tmp_path: Path) -> None:
    assert len(smallest(with_bug(tmp_path, file, old, new), obligation)) <= 8

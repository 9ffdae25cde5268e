"""Engines at scheduler level: what is clean, and bugs that are planted into their sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.controls import audited, changed, is_clean, needs_torch, smallest
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


# --- engines in which something was found (docs/trophies.md): mended, they are clean ------------------------


Change = tuple[str, str, str]
"""A file, what stands there, and what is to."""

_ADMISSION = "lmdeploy/pytorch/paging/prefill_scheduler.py"
_LIFECYCLE = "lmdeploy/pytorch/paging/block_trie/kv_lifecycle.py"
_JOB = "exllamav3/generator/job.py"
MENDED: dict[str, list[Change]] = {
    "lmdeploy==0.18.0": [
        (
            _ADMISSION,
            "        if not self.load_coordinator.lookup_enabled:\n            return False\n        seq = self.seq\n"
            "        return seq.num_blocks > int(seq.num_history_ids) // seq.block_size\n",
            "        seq = self.seq\n        cursor = seq.prefix_cache.trie_cursor\n"
            "        return seq.num_blocks > (cursor.prefix_len if cursor else 0) // seq.block_size\n",
        ),
    ],
    "exllamav3==1.6.5": [
        (
            _JOB,
            "                    self.cached_pages += 1\n",
            "                    self.cached_pages += 1\n"
            "                    if local_idx + 1 < len(seq.allocated_pages):\n"
            "                        seq.allocated_pages[local_idx + 1].prev_hash = page.phash\n",
        ),
        (
            _JOB,
            "        if new_hash in self.pagetable.referenced_pages:\n",
            "        other = self.pagetable.referenced_pages.get(new_hash)\n"
            "        if other is not None and other.kv_position < PAGE_SIZE:\n"
            "            pass\n"
            "        elif other is not None:\n",
        ),
    ],
}


def mended(text: str, folder: Path, *bugs: Change) -> Report:
    """An audit of an engine in which what was found is mended, and a bug may be planted."""
    (file, old, new), *others = [*MENDED[text], *bugs]
    source = changed(text, folder, file, old, new, SCHEDULER)
    for file, old, new in others:
        code = (folder / file).read_text()
        assert code.count(old) == 1
        (folder / file).write_text(code.replace(old, new))
    return audited(text.partition("==")[0], source, level=SCHEDULER, max_steps=3_000)


@needs_torch
@pytest.mark.parametrize("text", MENDED)
def test_an_engine_is_clean_once_what_was_found_is_mended(text: str, tmp_path: Path) -> None:
    assert is_clean(mended(text, tmp_path))


@needs_torch
@pytest.mark.parametrize(
    ("text", "bug", "obligation"),
    [
        pytest.param(
            "lmdeploy==0.18.0",
            (_LIFECYCLE, "        if len(ref_blocks) > 0:\n", "        if len(ref_blocks) > 1:\n"),
            "I8",
            id="the trie does not count itself as a holder",
        ),
        pytest.param(
            "exllamav3==1.6.5",
            (
                "exllamav3/generator/pagetable.py",
                "        self.can_revert = False\n        self.kv_position = 0\n",
                "        self.can_revert = False\n",
            ),
            "K1",
            id="a page that is taken for other content stays complete",
        ),
    ],
)
def test_a_bug_in_a_mended_engine_is_found(text: str, bug: Change, obligation: str, tmp_path: Path) -> None:
    assert len(smallest(mended(text, tmp_path, bug), obligation)) <= 8

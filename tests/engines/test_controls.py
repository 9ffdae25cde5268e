"""Known-good versions come out clean at manager level, known-bad ones are found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engines.controls import audited, changed, checkout, is_clean, needs_torch, smallest, violated

VLLM = {
    "0.8.5": "vllm-one-queue",
    "0.9.2": "vllm-one-queue",
    "0.10.2": "vllm-one-queue",
    "0.11.2": "vllm-one-queue",
    "0.14.1": "vllm-one-queue",
    "0.18.1": "vllm-one-queue",
    "0.23.0": "vllm-one-queue",
    "0.28.0": "vllm",
    "0.33.0": "vllm",
}


@pytest.mark.parametrize("version", VLLM)
def test_vllm_is_clean(version: str) -> None:
    report = audited(f"vllm=={version}")
    assert is_clean(report)
    assert report.header.profile == VLLM[version]


NANO_VLLM = "KVAUDIT_NANO_VLLM"


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkouts")


def test_nano_vllm_is_clean(checkouts: Path) -> None:
    source = checkout(NANO_VLLM, "bb823b3", checkouts)
    assert is_clean(audited("nano-vllm", source))
    assert is_clean(audited("nano-vllm", source, black_box=True))


@pytest.mark.parametrize("revision", ["df99418", "82f5ca2", "8d63a98"])
def test_a_stale_mapping_of_nano_vllm_is_found(revision: str, checkouts: Path) -> None:
    source = checkout(NANO_VLLM, revision, checkouts)
    assert len(smallest(audited("nano-vllm", source), "I3")) <= 8
    assert len(smallest(audited("nano-vllm", source, black_box=True), "K1")) <= 8


def test_a_hash_that_nano_vllm_drops_is_found(checkouts: Path) -> None:
    source = checkout(NANO_VLLM, "f64d821", checkouts)
    assert len(smallest(audited("nano-vllm", source), "I7")) <= 8
    assert len(smallest(audited("nano-vllm", source, black_box=True), "K1")) <= 8


@needs_torch
@pytest.mark.parametrize(
    ("tree", "policy"), [("unified", "lru"), ("unified", "tlru"), ("radix", "lru"), ("radix", "slru")]
)
def test_sglang_is_clean(tree: str, policy: str) -> None:
    assert is_clean(audited("sglang==0.5.23", settings=(f"tree={tree}", f"policy={policy}")))


@needs_torch
@pytest.mark.parametrize(("tree", "file"), [("unified", "unified_radix_cache.py"), ("radix", "radix_cache.py")])
def test_a_row_of_sglang_that_is_not_rewritten_is_found(tree: str, file: str, tmp_path: Path) -> None:
    source = changed("sglang==0.5.23", tmp_path, f"sglang/srt/mem_cache/{file}", _REWRITE, "(lambda *_: None)(")
    assert len(smallest(audited("sglang", source, settings=(f"tree={tree}",)), "I8")) <= 8


_REWRITE = "self.req_to_token_pool.write("


TRANSFORMERS = "transformers/generation/continuous_batching"
ALLOCATOR = f"{TRANSFORMERS}/cache_allocators/cache_allocator.py"
FORKS = ("forks=on",)


@needs_torch
@pytest.mark.parametrize("settings", [(), FORKS])
def test_transformers_is_clean(settings: tuple[str, ...]) -> None:
    assert is_clean(audited("transformers==5.24.0", settings=settings))


@needs_torch
def test_a_duplicate_that_transformers_does_not_give_back_is_found(tmp_path: Path) -> None:
    gives_back, leaks = "if self.ledger.release(block_id):", "if self.ledger.release(block_id) and False:"
    source = changed("transformers==5.24.0", tmp_path, ALLOCATOR, gives_back, leaks)
    assert len(smallest(audited("transformers", source), "I8")) <= 8


@needs_torch
@pytest.mark.parametrize(
    ("old", "new", "obligation"),
    [
        ("for block_id in shared_blocks:\n            self.ledger.acquire(block_id)\n        fresh", "fresh", "I4"),
        ("num_shared = self.count", "num_shared = (past_length > 0) + self.count", "K2"),
        ("return blocks_to_copy, fresh_blocks", "return fresh_blocks, blocks_to_copy", "O2"),
    ],
    ids=["shared and not counted", "partial block shared", "copied the wrong way"],
)
def test_a_fork_of_transformers_that_is_wrong_is_found(old: str, new: str, obligation: str, tmp_path: Path) -> None:
    source = changed("transformers==5.24.0", tmp_path, ALLOCATOR, old, new)
    assert len(smallest(audited("transformers", source, settings=FORKS), obligation)) <= 8


@needs_torch
def test_the_last_block_of_a_cached_prompt_that_older_transformers_compute_again_is_found() -> None:
    report = audited("transformers==5.5.0")
    assert len(smallest(report, "K2")) <= 8
    assert len(smallest(report, "I5")) <= 8


@needs_torch
def test_older_transformers_are_clean_once_a_token_is_left_to_compute(tmp_path: Path) -> None:
    """As 5.24.0 has it. A fork for which there is no room raises, as a comment at its call says."""
    whole, mended = "range(len(prompt_ids) // self.block_size)", "range((len(prompt_ids) - 1) // self.block_size)"
    source = changed("transformers==5.5.0", tmp_path, f"{TRANSFORMERS}/cache.py", whole, mended)
    assert is_clean(audited("transformers", source))
    assert violated(audited("transformers", source, settings=FORKS)) == {"O2"}


MINI_SGLANG = "KVAUDIT_MINI_SGLANG"
CACHE = Path("python/minisgl/scheduler/cache.py")


@needs_torch
def test_a_row_of_mini_sglang_that_names_freed_pages_is_found(checkouts: Path) -> None:
    source = checkout(MINI_SGLANG, "20fcd7f", checkouts)
    assert len(smallest(audited("mini-sglang", source), "I8")) <= 8


@needs_torch
def test_mini_sglang_is_clean_once_the_row_names_the_pages_of_the_tree(checkouts: Path, tmp_path: Path) -> None:
    shutil.copytree(checkout(MINI_SGLANG, "20fcd7f", checkouts), tmp_path, dirs_exist_ok=True)
    text = (tmp_path / CACHE).read_text()
    row, lock = "self.page_table[req.table_idx, : req.cached_len]", "self.lock(new_handle)\n"
    assert text.count(row) == text.count(lock) == 1
    copied = f"""\
{lock}            if new_handle.cached_len:
                self.page_table[req.table_idx, : new_handle.cached_len] = new_handle.get_matched_indices()
"""
    (tmp_path / CACHE).write_text(text.replace(row, f"{row}.clone()").replace(lock, copied))
    assert is_clean(audited("mini-sglang", str(tmp_path)))


@needs_torch
def test_lmdeploy_gives_up_what_is_cached_for_a_prompt_that_it_refuses() -> None:
    report = audited("lmdeploy==0.18.0")
    assert len(smallest(report, "O1")) <= 8
    assert len(smallest(report, "K2")) <= 8  # and writes equal KV into a block that others read
    assert violated(report) == {"I8", "K2", "O1"}


def test_vllm_mlx_serves_a_block_under_another_prefix() -> None:
    """It knows blocks by their own tokens (paged_cache.py:873), whatever stands before them."""
    assert len(smallest(audited("vllm-mlx==0.6.0"), "K1")) <= 8

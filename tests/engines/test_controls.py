"""Known-good versions come out clean at manager level, known-bad ones are found."""

from __future__ import annotations

import pytest

from engines.controls import audited, is_clean

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

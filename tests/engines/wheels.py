"""A package index that is a folder of tiny wheels."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

KEPT = {"vllm/envs.py": b"A = 1\n", "vllm/v1/core/block_pool.py": b"B = 2\n", "vllm/v1/request.py": b"C = 3\n"}
KEPT["vllm/v1/core/sched/scheduler.py"] = b"D = 4\n"
LEFT = {
    "vllm/__init__.py": b"raise RuntimeError\n",
    "vllm/v1/worker/gpu_model_runner.py": b"\n",
    "vllm/_C.abi3.so": b"\0",
}


def make_wheel(
    folder: Path,
    version: str,
    tag: str = "py3-none-any",
    spoil: str = "",
    *,
    package: str = "vllm",
    kept: Mapping[str, bytes] = KEPT,
) -> Path:
    """Write a tiny wheel; `spoil` names a file whose content is not what the wheel's list says."""
    info = f"{package}-{version}.dist-info"
    files = dict(kept) | (LEFT if package == "vllm" else {})
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    wheel = folder / f"{package}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, b"other" if path == spoil else data)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return wheel


def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is the only index, and an empty cache."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("KVAUDIT_CACHE", str(tmp_path / "cache"))
    return folder

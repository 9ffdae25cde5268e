"""Fetching, from a folder of tiny wheels instead of a network: the real pip, and each way to fail."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import kvaudit
from engines.wheels import KEPT, make_wheel, offline
from kvaudit.engines import fetch as module
from kvaudit.engines import pip
from kvaudit.engines.fetch import cached, fetch
from kvaudit.engines.pip import FetchError
from kvaudit.errors import UsageError
from kvaudit.protocol import SCHEDULER
from kvaudit.targets import TargetSpec


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return offline(tmp_path, monkeypatch)


def engines(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "engines" / "vllm"


def test_fetch_keeps_what_matters_and_deletes_the_wheel(wheels: Path, tmp_path: Path) -> None:
    make_wheel(wheels, "7.0.1")
    assert cached("vllm", "7.0.1") is None
    root = fetch("vllm", "7.0.1")
    assert root == engines(tmp_path) / "7.0.1" == cached("vllm", "7.0.1")
    files = {str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()}
    assert files == {*KEPT, "vllm-7.0.1.dist-info/METADATA", "manifest.json"}
    manifest = json.loads((root / "manifest.json").read_text())
    assert (manifest["name"], manifest["version"]) == ("vllm", "7.0.1")
    data = KEPT["vllm/envs.py"]
    assert manifest["files"]["vllm/envs.py"] == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert [f.name for f in engines(tmp_path).iterdir()] == ["7.0.1"]


def test_a_second_call_is_instant_and_a_damaged_file_is_fetched_again(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(wheels, "7.0.1")
    root = fetch("vllm", "7.0.1", cache=tmp_path / "elsewhere")
    assert root.is_relative_to(tmp_path / "elsewhere")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_download", lambda *_: pytest.fail("downloaded again"))
        assert fetch("vllm", "7.0.1", cache=tmp_path / "elsewhere") == root
    (root / "vllm/envs.py").write_bytes(b"A = 9\n")
    assert cached("vllm", "7.0.1", cache=tmp_path / "elsewhere") is None
    assert fetch("vllm", "7.0.1", cache=tmp_path / "elsewhere") == root
    assert (root / "vllm/envs.py").read_bytes() == KEPT["vllm/envs.py"]
    (root / "vllm/v1/request.py").unlink()
    assert cached("vllm", "7.0.1", cache=tmp_path / "elsewhere") is None


def test_what_another_adapter_has_fetched_is_fetched_again(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(wheels, "7.0.1")
    fetch("vllm", "7.0.1")
    recipe = dataclasses.replace(module.RECIPES["vllm"], texts=("vllm/__init__.py",))
    monkeypatch.setitem(module.RECIPES, "vllm", recipe)
    assert cached("vllm", "7.0.1") is None
    assert (fetch("vllm", "7.0.1") / "vllm/__init__.py").is_file()


def test_what_was_fetched_for_block_managers_alone_still_serves_them(
    wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(wheels, "9.9.9")
    with monkeypatch.context() as before:
        before.setattr(module, "SCHEDULER_FILES", {})
        root = fetch("vllm", "9.9.9")
        assert not (root / "vllm/v1/core/sched").exists()
    assert cached("vllm", "9.9.9") == root
    assert cached("vllm", "9.9.9", level=SCHEDULER) is None
    with pytest.raises(UsageError, match=r"vllm==9.9.9 at scheduler level has not been fetched: kvaudit fetch"):
        TargetSpec("vllm==9.9.9", level=SCHEDULER).start()
    assert fetch("vllm", "9.9.9") == cached("vllm", "9.9.9", level=SCHEDULER) == root
    assert (root / "vllm/v1/core/sched/scheduler.py").is_file()


def test_what_an_engine_needs_for_real_is_brought_once(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(wheels, "7.0.1")
    (wheels / "toytensor-1.0-py3-none-any.whl").write_bytes(toy_wheel("toytensor"))
    recipe = dataclasses.replace(module.RECIPES["vllm"], needs=("toytensor", "json"))
    monkeypatch.setitem(module.RECIPES, "vllm", recipe)
    fetch("vllm", "7.0.1")
    assert (module.packages() / "toytensor" / "__init__.py").is_file()
    assert module.packages().is_relative_to(tmp_path / "cache")
    monkeypatch.setattr(module, "run_pip", lambda *_: pytest.fail("installed again"))
    fetch("vllm", "7.0.1")


def test_what_an_engine_needs_and_nobody_has_is_named(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(wheels, "7.0.1")
    recipe = dataclasses.replace(module.RECIPES["vllm"], needs=("toytensor",))
    monkeypatch.setitem(module.RECIPES, "vllm", recipe)
    with pytest.raises(FetchError, match="no wheel of toytensor"):
        fetch("vllm", "7.0.1")


def toy_wheel(name: str) -> bytes:
    """A package of one empty module."""
    info, data = f"{name}-1.0.dist-info", io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        listed = (f"{name}/__init__.py", f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD")
        archive.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in listed))
    return data.getvalue()


def test_a_version_that_does_not_exist_names_those_that_do(wheels: Path, tmp_path: Path) -> None:
    make_wheel(wheels, "7.0.1")
    make_wheel(wheels, "7.0.2")
    with pytest.raises(FetchError, match=r"no wheel of vllm==9\.9; the newest are: 7\.0\.2, 7\.0\.1"):
        fetch("vllm", "9.9")
    assert list(engines(tmp_path).iterdir()) == []


def test_a_wheel_for_another_platform_serves_as_well(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(wheels, "7.0.1", "cp38-abi3-manylinux1_x86_64")
    real = pip.run_pip

    def on_a_mac(arguments: tuple[str, ...], *rest: object) -> tuple[int, str]:
        elsewhere = any(argument.startswith("--platform") for argument in arguments)
        return real(arguments if elsewhere else (*arguments, "--platform=macosx_12_0_arm64"), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "run_pip", on_a_mac)
    assert (fetch("vllm", "7.0.1") / "vllm/envs.py").is_file()


def test_an_index_without_the_package(wheels: Path) -> None:
    with pytest.raises(FetchError, match=r"no wheel of vllm, neither for this platform"):
        fetch("vllm", "7.0.1")


def test_no_network_is_told_apart_from_no_version(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    start = time.monotonic()
    with pytest.raises(FetchError, match=r"cannot reach the package index .*: Connection refused"):
        fetch("vllm", "7.0.1")
    assert time.monotonic() - start < 30


def test_a_wheel_that_is_not_what_its_list_says(wheels: Path, tmp_path: Path) -> None:
    make_wheel(wheels, "7.0.1", spoil="vllm/envs.py")
    with pytest.raises(FetchError, match=r"vllm/envs.py in .* is not what the wheel's list says"):
        fetch("vllm", "7.0.1")
    assert list(engines(tmp_path).iterdir()) == []


def test_a_broken_zip(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "7.0.1")
    wheel.write_bytes(wheel.read_bytes()[:-200])
    with pytest.raises(FetchError, match="is damaged"):
        module._extract(wheel, tmp_path / "out", module.RECIPES["vllm"])


def test_a_wheel_without_the_files_that_matter(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-7.0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/other.py", "")
    with pytest.raises(FetchError, match="holds no file of vllm that is needed"):
        module._extract(wheel, tmp_path / "out", module.RECIPES["vllm"])


def test_names_and_versions_are_checked_before_anything_happens(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"unknown engine 'vlm'; known: .*vllm"):
        fetch("vlm", "1.0", cache=tmp_path)
    for version in ("../1.0", "", "latest", "1.0 --help", "1/2"):
        with pytest.raises(FetchError, match="is not a version"):
            fetch("vllm", version, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match=r"cannot write to .*set KVAUDIT_CACHE"):
        fetch("vllm", "7.0.1", cache=tmp_path / "file")


def test_an_interpreter_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_pip = tmp_path / "python"
    no_pip.write_text("#!/bin/sh\necho 'No module named pip' >&2; exit 1\n")
    no_pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(no_pip))
    with pytest.raises(FetchError, match=r"has no pip .*ensurepip"):
        fetch("vllm", "7.0.1", cache=tmp_path)


@pytest.mark.parametrize(
    ("code", "output", "message"),
    [
        (-9, "", "ended by signal 9"),
        (1, "ERROR: Could not install: [Errno 28] No space left on device: '/x'", "no space left"),
        (1, "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "is damaged"),
        (1, "WARNING: Retrying after connection broken by 'X'\nERROR: (from versions: none)", "cannot reach"),
        (2, "Downloading vllm-1.whl (336.4 MB)\nERROR: Exception:\nReadTimeoutError: Read timed out.", "was lost"),
        (2, "ERROR: Exception:\nTraceback\nKeyError: 'x'", r"exit code 2\): KeyError: 'x'"),
        (2, "", "it said nothing"),
    ],
)
def test_what_pip_says_in_plain_words(tmp_path: Path, code: int, output: str, message: str) -> None:
    with pytest.raises(FetchError, match=message):
        raise pip.problem("vllm==1", code, output, tmp_path) or AssertionError("no problem seen")


def test_progress_is_read_from_pip_or_else_from_the_file(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    lines = ["Collecting vllm\n", "  Downloading vllm-1-py3-none-any.whl (336.4 MB)\n"]
    (tmp_path / "part.whl").write_bytes(b"x" * 1000)
    meter = pip._Meter(lines, tmp_path, lambda done, total: seen.append((done, total)))
    meter.update()
    lines.append("Progress 5000 of 336361138\n")
    meter.update()
    meter.update()
    assert seen == [(1000, 336_400_000), (5000, 336_361_138)]


def test_ctrl_c_leaves_nothing_behind(wheels: Path, tmp_path: Path) -> None:
    script = (
        "from kvaudit.engines import fetch as f; f._download = lambda *_: f.time.sleep(60); f.fetch('vllm', '7.0.1')"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(kvaudit.__path__[0]).parent), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not (engines(tmp_path).is_dir() and list(engines(tmp_path).iterdir())):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert list(engines(tmp_path).iterdir()) == []


def test_what_a_killed_process_left_is_removed(wheels: Path, tmp_path: Path) -> None:
    make_wheel(wheels, "7.0.1")
    left = engines(tmp_path) / ".7.0.1-dead"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    fetch("vllm", "7.0.1")
    assert not left.exists()

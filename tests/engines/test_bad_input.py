"""What each adapter says of an engine that it cannot drive: what is wrong, and what to do."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engines.controls import changed, checkout, fetched, has_torch
from engines.wheels import make_wheel, offline
from kvaudit.engines import fetch as module
from kvaudit.engines.lite import Recipe
from kvaudit.engines.pip import FetchError
from kvaudit.errors import TargetError, UsageError
from kvaudit.targets import ENGINES, TargetSpec


def recipe(engine: str) -> Recipe:
    found: Recipe = importlib.import_module(f"kvaudit.engines.{engine.replace('-', '_')}").RECIPE
    return found


def told(spec: TargetSpec) -> str:
    """What is said instead of a start."""
    with pytest.raises((UsageError, TargetError)) as raised:
        spec.start().close()
    return str(raised.value)


def needs_its_packages(engine: str) -> None:
    if "torch" in recipe(engine).needs and not has_torch():
        pytest.skip("without torch that is what is said")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_that_is_none(engine: str, tmp_path: Path) -> None:
    needs_its_packages(engine)
    (tmp_path / "file").write_text("")
    (tmp_path / "another").mkdir()
    for name in ("nothing", "file"):
        assert f"there is no folder {tmp_path / name}; --source" in told(TargetSpec(engine, str(tmp_path / name)))
    package = recipe(engine).package
    assert f"another holds no folder {package}/; --source" in told(TargetSpec(engine, str(tmp_path / "another")))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_without_the_files_that_matter(engine: str, tmp_path: Path) -> None:
    needs_its_packages(engine)
    (tmp_path / recipe(engine).package).mkdir()
    said = told(TargetSpec(engine, str(tmp_path)))
    assert said.startswith(f"{engine} could not be loaded: ") and str(tmp_path) in said
    assert "not a version that this adapter knows. docs/engines.md names the versions that were tried" in said


@pytest.mark.parametrize("engine", sorted(module.RECIPES))
def test_an_engine_that_is_neither_installed_nor_fetched(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec(recipe(engine).package) is None:
        assert "is not installed" in told(TargetSpec(engine)) and "name a version" in told(TargetSpec(engine))
    assert f"kvaudit fetch {engine}==0.0.1" in told(TargetSpec(f"{engine}==0.0.1"))


@pytest.mark.parametrize("engine", [name for name in ENGINES if recipe(name).needs])
def test_what_an_engine_needs_is_named(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child that has none of it: everything but the packages of the cache is as here."""
    monkeypatch.setenv("KVAUDIT_CACHE", str(tmp_path))
    missing = [name for name in recipe(engine).needs if importlib.util.find_spec(name) is None]
    if not missing:
        pytest.skip("all that it needs is installed here")
    (tmp_path / recipe(engine).package).mkdir()
    assert f"it needs {' and '.join(missing)}: {sys.executable} -m pip install" in told(
        TargetSpec(engine, str(tmp_path))
    )


def test_a_fetched_engine_without_what_it_needs_says_how_to_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched("vllm==0.33.0")
    monkeypatch.setattr(module, "lacking", lambda needs: ["torch"])
    assert told(TargetSpec("vllm==0.33.0")) == "vllm==0.33.0 needs torch, too: kvaudit fetch vllm==0.33.0"


# --- an API that has changed: a method that the adapter calls has another name --------------------------------

RENAMED = {
    "vllm==0.33.0": ("vllm/v1/core/kv_cache_manager.py", "def allocate_slots("),
    "sglang==0.5.23": ("sglang/srt/mem_cache/unified_radix_cache.py", "    def match_prefix("),
    "transformers==5.24.0": ("transformers/generation/continuous_batching/cache.py", "def mark_complete_blocks("),
    "transformers==5.5.0": ("transformers/generation/continuous_batching/cache.py", "def fork_request("),
    "lmdeploy==0.18.0": ("lmdeploy/pytorch/paging/scheduler.py", "def schedule_running("),
    "vllm-mlx==0.6.0": ("vllm_mlx/prefix_cache.py", "    def release_cache("),
}
CHECKOUTS = {
    "nano-vllm": ("KVAUDIT_NANO_VLLM", "bb823b3", "nanovllm/engine/block_manager.py", "def may_append("),
    "mini-sglang": ("KVAUDIT_MINI_SGLANG", "20fcd7f", "python/minisgl/scheduler/cache.py", "def match_req("),
}


@pytest.mark.parametrize("text", RENAMED)
def test_a_method_that_has_another_name(text: str, tmp_path: Path) -> None:
    engine, (file, old) = text.partition("==")[0], RENAMED[text]
    needs_its_packages(engine)
    source = changed(text, tmp_path, file, old, old.replace("def ", "def new_"))
    is_said(engine, source, old)


@pytest.mark.parametrize("engine", CHECKOUTS)
def test_a_method_of_a_checkout_that_has_another_name(engine: str, tmp_path: Path) -> None:
    needs_its_packages(engine)
    variable, revision, file, old = CHECKOUTS[engine]
    source = Path(checkout(variable, revision, tmp_path))
    text = (source / file).read_text()
    assert text.count(old) == 1
    (source / file).write_text(text.replace(old, old.replace("def ", "def new_")))
    is_said(engine, str(source), old)


def is_said(engine: str, source: str, old: str) -> None:
    said = told(TargetSpec(engine, source))
    assert old.strip().removeprefix("def ").removesuffix("(") in said
    assert "not a version that this adapter knows" in said or f"adapter and {engine} do not fit" in said.lower()
    assert "docs/engines.md names the versions that were tried" in said


# --- fetching; what does not depend on the engine is in test_fetch.py -----------------------------------------


@pytest.mark.parametrize("engine", sorted(module.RECIPES))
def test_a_wheel_that_will_not_do(engine: str, tmp_path: Path) -> None:
    package, out = recipe(engine).package, tmp_path / "out"
    wanted = recipe(engine).real[0].replace("*", "base")
    other = make_wheel(tmp_path, "7.0.1", package=package, kept={f"{package}/other.py": b""})
    with pytest.raises(FetchError, match=f"holds no file of {package} that is needed; use another version"):
        module._extract(other, out, recipe(engine))
    spoilt = make_wheel(tmp_path, "7.0.2", package=package, kept={wanted: b"A = 1\n"}, spoil=wanted)
    with pytest.raises(FetchError, match=f"{wanted} in .* is not what the wheel's list says; try again"):
        module._extract(spoilt, out, recipe(engine))
    spoilt.write_bytes(spoilt.read_bytes()[:-100])
    with pytest.raises(FetchError, match=r"is damaged .*; try again"):
        module._extract(spoilt, out, recipe(engine))


def on_a_small_disk(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run it where that folder is on a disk of 1 MB, if the kernel lets anyone make one."""
    mount = f'mount -t tmpfs -o size=1m none "{folder}" && "$0" "$@"'
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, *command]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = offline(tmp_path, monkeypatch)
    (tmp_path / "cache").mkdir()
    make_wheel(wheels, "7.0.1", kept={"vllm/envs.py": os.urandom(2**21)})
    if shutil.which("unshare") is None or on_a_small_disk(tmp_path / "cache", "true").returncode != 0:
        pytest.skip("no file system can be mounted here")
    done = on_a_small_disk(tmp_path / "cache", sys.executable, "-m", "kvaudit", "fetch", "vllm==7.0.1")
    assert done.returncode == 4
    said = " ".join(done.stderr.split())
    assert "error: no space left on the disk of" in said and "set KVAUDIT_CACHE to a folder on another disk" in said

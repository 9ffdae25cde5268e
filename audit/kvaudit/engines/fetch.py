"""Bring the few files of an engine that matter onto this machine, once, and check them at each use.

The wheel (hundreds of MB) is downloaded with pip, so that the user's index, proxy and certificates apply; of
it, about 1 MB of Python files is kept and the rest is deleted. The cache is `$KVAUDIT_CACHE`, or the user's
cache folder.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

import platformdirs

from kvaudit.engines import exllamav3, lmdeploy, sglang, transformers, vllm, vllm_mlx
from kvaudit.engines.lite import Recipe
from kvaudit.engines.pip import FetchError, Progress, no_space, problem, reason, run_pip, versions_in
from kvaudit.protocol import SCHEDULER, LevelName

RECIPES: dict[str, Recipe] = {
    "vllm": vllm.RECIPE,
    "sglang": sglang.RECIPE,
    "transformers": transformers.RECIPE,
    "vllm-mlx": vllm_mlx.RECIPE,
    "lmdeploy": lmdeploy.RECIPE,
    "exllamav3": exllamav3.RECIPE,
}

SCHEDULER_FILES: dict[str, tuple[str, ...]] = {"vllm": vllm.SCHEDULER_FILES, "lmdeploy": lmdeploy.SCHEDULER_FILES}
"""What is needed beside a recipe at scheduler level."""

_MANIFEST = "manifest.json"
# Kept beside the code: what it is and whose it is.
_ABOUT = Recipe("", ("*.dist-info/METADATA", "*.dist-info/LICENSE*", "*.dist-info/licenses/LICENSE*"))
# Only Python files are kept, so a wheel for another platform or Python serves as well when there is none for
# this one.
_ELSEWHERE = (
    *("--python-version", "3.12", "--implementation", "cp", "--abi", "abi3", "--abi", "none"),
    *(f"--platform=manylinux_2_{minor}_x86_64" for minor in (35, 31, 28)),
    *("--platform=manylinux2014_x86_64", "--platform=manylinux1_x86_64"),
)
_STALE_S = 24 * 3600.0


def cached(name: str, version: str, *, cache: Path | None = None, level: LevelName | None = None) -> Path | None:
    """Give the folder of a fetched engine if it is there, whole and undamaged, else None; takes milliseconds.

    level: what is needed to drive it there is to be among it.
    """
    root = _root(name, version, cache)
    try:
        manifest = json.loads((root / _MANIFEST).read_bytes())
        files: dict[str, dict[str, object]] = manifest["files"]
        needed = _wanted(_recipe(name, level))
        if not set(needed) <= set(manifest.get("wanted", [])):
            return None  # by an adapter that needed other files
        for path, expected in files.items():
            data = (root / path).read_bytes()
            if len(data) != expected["size"] or hashlib.sha256(data).hexdigest() != expected["sha256"]:
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return root


def fetch(name: str, version: str, *, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """Give the folder holding the engine's files, ready for `lite.install`; downloads it unless it is cached.

    `cache` replaces the cache folder. `progress` is called in this thread with bytes done and, where known,
    in all. Raises `FetchError`. Interrupted, even by Ctrl-C (which is passed on), it leaves nothing behind.
    """
    root = _root(name, version, cache)
    if cached(name, version, cache=cache, level=SCHEDULER) is None:
        _bring_engine(name, version, root, progress)
    _bring_packages(RECIPES[name].needs, cache, progress)
    return root


def _recipe(name: str, level: LevelName | None) -> Recipe:
    """What is needed at a level; fetched is what is needed at both."""
    recipe = RECIPES[name]
    return replace(recipe, real=recipe.real + SCHEDULER_FILES.get(name, ())) if level == SCHEDULER else recipe


def _wanted(recipe: Recipe) -> list[str]:
    return [*recipe.real, *recipe.texts]


def fetched(cache: Path | None = None) -> list[tuple[str, str]]:
    """The engines that are in the cache, whole and undamaged: name and version."""
    folders = sorted(folder for name in RECIPES for folder in (_folder(cache) / name).glob("*") if folder.is_dir())
    versions = [(folder.parent.name, folder.name) for folder in folders if folder.name[:1].isdigit()]
    return [(name, version) for name, version in versions if cached(name, version, cache=cache) is not None]


def _bring_engine(name: str, version: str, root: Path, progress: Progress | None) -> None:
    with _cache_errors(root), _workshop(root) as temporary:
        wheel = _download(f"{name}=={version}", temporary, progress)
        files = temporary / "files"
        recipe = _recipe(name, SCHEDULER)
        extracted = _extract(wheel, files, recipe)
        manifest = {"name": name, "version": version, "wanted": _wanted(recipe), "files": extracted}
        (files / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        _install(files, root, temporary)


def _bring_packages(needs: Sequence[str], cache: Path | None, progress: Progress | None) -> None:
    """Install what is needed for real and neither installed here nor brought before."""
    folder = packages(cache)
    missing = lacking(needs, cache)
    if not missing:
        return
    with _cache_errors(folder), _workshop(folder) as temporary:
        target = temporary / "packages"
        code, output = run_pip(("install", *missing, "--target", str(target)), temporary, progress)
        if code != 0:
            what = " and ".join(missing)
            raise problem(what, code, output, temporary) or FetchError(f"the package index has no wheel of {what}")
        folder.mkdir(exist_ok=True)
        for item in target.iterdir():
            if not (folder / item.name).exists():
                os.rename(item, folder / item.name)


def lacking(needs: Sequence[str], cache: Path | None = None) -> list[str]:
    """Of these packages, those that are neither installed here nor in the folder of `packages`."""
    folder = packages(cache)
    return [name for name in needs if importlib.util.find_spec(name) is None and not (folder / name).exists()]


def packages(cache: Path | None = None) -> Path:
    """The folder with what engines need for real and this environment lacks (torch); for this version of Python."""
    return _folder(cache) / f"packages-cp{sys.version_info.major}{sys.version_info.minor}"


def _root(name: str, version: str, cache: Path | None) -> Path:
    if name not in RECIPES:
        known = ", ".join(sorted(RECIPES))
        raise FetchError(f"unknown engine {name!r}; known: {known}; others come from a checkout (run --source DIR)")
    if not re.fullmatch(r"[0-9][0-9A-Za-z.+!_-]*", version):  # it becomes a folder and part of a command line
        raise FetchError(f"{version!r} is not a version; say for example {name}==0.33.0")
    return _folder(cache) / name / version


def _folder(cache: Path | None) -> Path:
    if cache is None:
        chosen = os.environ.get("KVAUDIT_CACHE")
        cache = Path(chosen) if chosen else platformdirs.user_cache_path("kvaudit")
    return cache / "engines"


@contextmanager
def _cache_errors(root: Path) -> Iterator[None]:
    """Turn what the file system refuses into advice."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_space(root) from error
        raise FetchError(
            f"cannot write to {root}: {error.strerror or error}; set KVAUDIT_CACHE to a folder that is yours"
        ) from error


@contextmanager
def _workshop(root: Path) -> Iterator[Path]:
    """Give a temporary folder beside `root`, so that moving it in place is one rename; gone afterwards."""
    root.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{root.name}-"
    for left in root.parent.glob(f"{prefix}*"):  # by a process that was killed
        if time.time() - left.stat().st_mtime > _STALE_S:
            shutil.rmtree(left, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=root.parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _download(requirement: str, temporary: Path, progress: Progress | None) -> Path:
    """Let pip download one wheel; raises `FetchError` with pip's reason in plain words."""
    outputs: list[str] = []
    for where in ((), _ELSEWHERE):
        target = temporary / f"wheel{len(outputs)}"
        arguments = ("download", requirement, "--dest", str(target), "--no-deps", *where)
        code, output = run_pip(arguments, temporary, progress)
        wheels = sorted(target.glob("*.whl"))
        if code == 0 and wheels:
            return wheels[0]
        outputs.append(output)
        why = problem(requirement, code, output, temporary)
        if why is not None:
            raise why
    raise _not_found(requirement, outputs)


def _not_found(requirement: str, outputs: list[str]) -> FetchError:
    name, _, version = requirement.partition("==")
    versions = [v for output in outputs for v in versions_in(output)]
    if version in versions:
        return FetchError(f"{requirement} has no wheel that pip could download: {reason(outputs[-1])}")
    if versions:
        newest = ", ".join(dict.fromkeys(reversed(versions[-8:])))
        return FetchError(f"the package index has no wheel of {requirement}; the newest are: {newest}")
    return FetchError(
        f"the package index has no wheel of {name}, neither for this platform and Python "
        f"{sys.version_info.major}.{sys.version_info.minor} nor for Linux on x86-64; check `pip config list`, "
        "or use --source with a checkout"
    )


def _extract(wheel: Path, target: Path, recipe: Recipe) -> dict[str, dict[str, object]]:
    """Unpack what the recipe wants, checked against the wheel's own list; give the manifest's entries."""
    manifest: dict[str, dict[str, object]] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            recorded = _recorded(archive)
            for info in archive.infolist():
                path = info.filename
                if info.is_dir() or not (recipe.wants(path) or path in recipe.texts or _ABOUT.wants(path)):
                    continue
                data = archive.read(info)  # checks the CRC
                digest = hashlib.sha256(data).digest()
                if recorded.get(path, digest) != digest or ".." in PurePosixPath(path).parts:
                    raise FetchError(f"{path} in {wheel.name} is not what the wheel's list says; try again")
                file = target / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                manifest[path] = {"size": len(data), "sha256": digest.hex()}
    except (zipfile.BadZipFile, EOFError) as error:
        raise FetchError(f"the download {wheel.name} is damaged ({error}); try again") from error
    if not any(recipe.wants(path) for path in manifest):
        raise FetchError(f"{wheel.name} holds no file of {recipe.package} that is needed; use another version")
    return manifest


def _recorded(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """The SHA-256 of each file by the wheel's RECORD; empty if it has none."""
    recorded = {}
    for name in archive.namelist():
        if re.fullmatch(r"[^/]+\.dist-info/RECORD", name):
            for line in archive.read(name).decode("utf-8", "replace").splitlines():
                path, _, rest = line.partition(",sha256=")
                code = rest.partition(",")[0]
                if code:
                    recorded[path] = base64.urlsafe_b64decode(code + "=" * (-len(code) % 4))
    return recorded


def _install(files: Path, root: Path, temporary: Path) -> Path:
    """Move the finished folder in place, in one step; a damaged older one goes first."""
    if root.exists():
        os.replace(root, temporary / "damaged")
    try:
        os.rename(files, root)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        # Another process was faster; what it put there is as good as ours.
    return root

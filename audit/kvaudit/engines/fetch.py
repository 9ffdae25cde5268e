"""Bring the few files of an engine that matter onto this machine, once, and check them at each use.

The wheel (hundreds of MB) is downloaded with pip, so that the user's index, proxy and certificates apply; of
it, about 1 MB of Python files is kept and the rest is deleted. The cache is `$KVAUDIT_CACHE`, or the user's
cache folder.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TypeAlias

import platformdirs

from kvaudit.engines import vllm
from kvaudit.engines.lite import Recipe

Progress: TypeAlias = Callable[[int, int | None], None]

RECIPES: dict[str, Recipe] = {"vllm": vllm.RECIPE}

_MANIFEST = "manifest.json"
# Kept beside the code: what it is and whose it is.
_ABOUT = Recipe("", ("*.dist-info/METADATA", "*.dist-info/LICENSE*", "*.dist-info/licenses/LICENSE*"))
# pip waits for minutes by default; an index that is there answers at once.
_PATIENCE = ("--retries", "1", "--timeout", "15")
# Only Python files are kept, so a wheel for another platform or Python serves as well when there is none for
# this one.
_ELSEWHERE = (
    *("--python-version", "3.12", "--implementation", "cp", "--abi", "abi3", "--abi", "none"),
    *(f"--platform=manylinux_2_{minor}_x86_64" for minor in (35, 31, 28)),
    *("--platform=manylinux2014_x86_64", "--platform=manylinux1_x86_64"),
)
_STALE_S = 24 * 3600.0


class FetchError(Exception):
    """The engine could not be fetched; the message says what happened and what to do about it."""


def cached(name: str, version: str, *, cache: Path | None = None) -> Path | None:
    """Give the folder of a fetched engine if it is there and undamaged, else None; takes milliseconds."""
    root = _root(name, version, cache)
    try:
        files: dict[str, dict[str, object]] = json.loads((root / _MANIFEST).read_bytes())["files"]
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
    found = cached(name, version, cache=cache)
    if found is not None:
        return found
    with _cache_errors(root), _workshop(root) as temporary:
        wheel = _download(f"{name}=={version}", temporary, progress)
        files = temporary / "files"
        manifest = {"name": name, "version": version, "files": _extract(wheel, files, RECIPES[name])}
        (files / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        return _install(files, root, temporary)


def packages(cache: Path | None = None) -> Path:
    """The folder with what engines need for real and this environment lacks (torch); for this version of Python."""
    return _folder(cache) / f"packages-cp{sys.version_info.major}{sys.version_info.minor}"


def _root(name: str, version: str, cache: Path | None) -> Path:
    if name not in RECIPES:
        raise FetchError(f"unknown engine {name!r}; known: {', '.join(sorted(RECIPES))}")
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
            raise _no_space(root) from error
        raise FetchError(
            f"cannot write to {root}: {error.strerror or error}; set KVAUDIT_CACHE to a folder that is yours"
        ) from error


def _no_space(root: Path) -> FetchError:
    return FetchError(
        f"no space left on the disk of {root}: 1 GB is needed for a moment, 1 MB afterwards; "
        "make room, or set KVAUDIT_CACHE to a folder on another disk"
    )


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
    reports = _pip_reports_bytes()
    outputs: list[str] = []
    for where in ((), _ELSEWHERE):
        target = temporary / f"wheel{len(outputs)}"
        code, output = _run_pip(requirement, where, target, temporary, reports, progress)
        wheels = sorted(target.glob("*.whl"))
        if code == 0 and wheels:
            return wheels[0]
        outputs.append(output)
        problem = _problem(requirement, code, output, temporary)
        if problem is not None:
            raise problem
    raise _not_found(requirement, outputs)


def _pip_reports_bytes() -> bool:
    """Say whether this interpreter's pip can print its progress for a program to read (24.1 and later)."""
    command = [sys.executable, "-m", "pip", "--version"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise FetchError(
            f"{sys.executable} has no pip ({asked.stderr.strip()}); run `{sys.executable} -m ensurepip`, "
            f"or in a uv environment `uv pip install pip`"
        )
    found = re.match(r"pip (\d+)(?:\.(\d+))?", asked.stdout)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (24, 1)


def _run_pip(
    requirement: str, where: tuple[str, ...], target: Path, temporary: Path, reports: bool, progress: Progress | None
) -> tuple[int, str]:
    """Run one `pip download`; give its exit code and output. Stopped with us, whatever the reason."""
    scratch = temporary / "scratch"
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", requirement, "--dest", str(target), "--no-deps"]
    # No cache: pip would keep hundreds of MB of which we need one.
    command += ["--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    command += [*_PATIENCE, "--progress-bar", "raw" if reports else "off", *where]
    # pip's scratch folder is ours: on the disk that was chosen, measurable while it grows, and removed with
    # the rest.
    settings = {"TMPDIR": str(scratch), "TEMP": str(scratch), "PIP_QUIET": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    settings |= {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        env=os.environ | settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    assert process.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=_collect, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        meter = _Meter(lines, scratch, progress)
        while reader.is_alive():
            reader.join(0.1)
            meter.update()
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    meter.update()
    return code, "".join(line for line in lines if not line.startswith("Progress "))


def _collect(stream: IO[str], lines: list[str]) -> None:
    with stream:
        lines.extend(iter(stream.readline, ""))


class _Meter:
    """Turns what pip prints, or else the size of the file that grows, into calls of `progress`."""

    _UNITS = {"bytes": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}

    def __init__(self, lines: list[str], scratch: Path, progress: Progress | None) -> None:
        self._lines, self._scratch, self._progress = lines, scratch, progress
        self._read = 0
        self._reported = self._measures = False
        self._now: tuple[int, int | None] = (0, None)

    def update(self) -> None:
        if self._progress is None:
            return
        before = self._now
        while self._read < len(self._lines):
            self._understand(self._lines[self._read])
            self._read += 1
        if self._measures and not self._reported:
            self._now = (max(self._now[0], self._size()), self._now[1])
        if self._now != before:
            self._progress(*self._now)

    def _understand(self, line: str) -> None:
        if found := re.match(r"Progress (\d+) of (\d+)", line):
            self._now, self._reported = (int(found[1]), int(found[2]) or None), True
        elif found := re.search(r"Downloading .*\.whl.* \(([\d.]+) (bytes|kB|MB|GB)\)", line):
            self._now, self._measures = (0, int(float(found[1]) * self._UNITS[found[2]])), True

    def _size(self) -> int:
        try:
            return max((f.stat().st_size for f in self._scratch.rglob("*") if f.is_file()), default=0)
        except OSError:  # pip moved it away between the two calls
            return 0


_NO_NETWORK = re.compile(
    r"[Cc]onnection broken|IncompleteRead|ProtocolError|Could not fetch URL|NewConnectionError"
    r"|Failed to establish a new connection"
    r"|NameResolutionError|ConnectTimeout|ReadTimeout|Read timed out|ProxyError|SSLError|Max retries exceeded"
    r"|Connection (?:refused|reset|aborted)|Temporary failure in name resolution|Network is unreachable"
)


def _problem(requirement: str, code: int, output: str, temporary: Path) -> FetchError | None:
    """Explain a failure of pip that no other kind of wheel would cure, or None."""
    if code < 0:
        return FetchError(f"pip was ended by signal {-code} while downloading {requirement}; try again")
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return _no_space(temporary.parent)
    # pip reports an index that it cannot reach as one that has no versions: the warnings before tell.
    if _NO_NETWORK.search(output) and not _versions(output):
        why = _network_reason(output)
        if re.search(r"Downloading .*\.whl", output):
            return FetchError(f"the connection was lost while downloading {requirement}: {why}; try again")
        return FetchError(
            f"cannot reach the package index to download {requirement}: {why}. Check the network and pip's own "
            "settings (`pip config list`, HTTPS_PROXY), or use --source with a checkout"
        )
    if "DO NOT MATCH THE HASHES" in output or "BadZipFile" in output or "has an invalid wheel" in output:
        return FetchError(f"the download of {requirement} is damaged: {_reason(output)}; try again")
    if "Could not find a version" in output or "No matching distribution" in output:
        return None
    return FetchError(f"pip could not download {requirement} (exit code {code}): {_reason(output)}")


def _not_found(requirement: str, outputs: list[str]) -> FetchError:
    name, _, version = requirement.partition("==")
    versions = [v for output in outputs for v in _versions(output)]
    if version in versions:
        return FetchError(f"{requirement} has no wheel that pip could download: {_reason(outputs[-1])}")
    if versions:
        newest = ", ".join(dict.fromkeys(reversed(versions[-8:])))
        return FetchError(f"the package index has no wheel of {requirement}; the newest are: {newest}")
    return FetchError(
        f"the package index has no wheel of {name}, neither for this platform and Python "
        f"{sys.version_info.major}.{sys.version_info.minor} nor for Linux on x86-64; check `pip config list`, "
        "or use --source with a checkout"
    )


def _versions(output: str) -> list[str]:
    """The versions that pip says exist, oldest first."""
    found = re.search(r"\(from versions: ([^)]*)\)", output)
    return [] if found is None or found[1] == "none" else found[1].split(", ")


def _reason(output: str) -> str:
    """The line of pip's output that says most: its first error, or the end of a traceback."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"]
    return (errors or lines[-1:] or ["it said nothing"])[0][:400]


def _network_reason(output: str) -> str:
    line = next(line for line in output.splitlines() if _NO_NETWORK.search(line))
    system = re.search(r"\[Errno -?\d+\] ([^')\"]+)", line)
    return (system[1] if system else line).strip()[:200]


def _extract(wheel: Path, target: Path, recipe: Recipe) -> dict[str, dict[str, object]]:
    """Unpack what the recipe wants, checked against the wheel's own list; give the manifest's entries."""
    manifest: dict[str, dict[str, object]] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            recorded = _recorded(archive)
            for info in archive.infolist():
                path = info.filename
                if info.is_dir() or not (recipe.wants(path) or _ABOUT.wants(path)):
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

"""Runs pip, so that the user's index, proxy and certificates apply, and says in plain words why it failed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TypeAlias

Progress: TypeAlias = Callable[[int, int | None], None]

# pip waits for minutes by default; an index that is there answers at once.
_PATIENCE = ("--retries", "1", "--timeout", "15")


class FetchError(Exception):
    """The engine could not be fetched; the message says what happened and what to do about it."""


def run_pip(arguments: Sequence[str], temporary: Path, progress: Progress | None) -> tuple[int, str]:
    """Run pip for wheels only; give its exit code and output. Stopped with us, whatever the reason."""
    reports = _pip_reports_bytes()
    scratch = temporary / "scratch"
    scratch.mkdir(exist_ok=True)
    # No cache: pip would keep hundreds of MB of which we need one.
    command = [sys.executable, "-m", "pip", *arguments, "--only-binary=:all:", "--no-cache-dir", "--no-input"]
    command += ["--disable-pip-version-check", *_PATIENCE, "--progress-bar", "raw" if reports else "off"]
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


def problem(requirement: str, code: int, output: str, temporary: Path) -> FetchError | None:
    """Explain a failure of pip that no other kind of wheel would cure, or None."""
    if code < 0:
        return FetchError(f"pip was ended by signal {-code} while downloading {requirement}; try again")
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return no_space(temporary.parent)
    # pip reports an index that it cannot reach as one that has no versions: the warnings before tell.
    if _NO_NETWORK.search(output) and not versions_in(output):
        why = _network_reason(output)
        if re.search(r"Downloading .*\.whl", output):
            return FetchError(f"the connection was lost while downloading {requirement}: {why}; try again")
        return FetchError(
            f"cannot reach the package index to download {requirement}: {why}. Check the network and pip's own "
            "settings (`pip config list`, HTTPS_PROXY), or use --source with a checkout"
        )
    if "DO NOT MATCH THE HASHES" in output or "BadZipFile" in output or "has an invalid wheel" in output:
        return FetchError(f"the download of {requirement} is damaged: {reason(output)}; try again")
    if "Could not find a version" in output or "No matching distribution" in output:
        return None
    return FetchError(f"pip could not download {requirement} (exit code {code}): {reason(output)}")


def versions_in(output: str) -> list[str]:
    """The versions that pip says exist, oldest first."""
    found = re.search(r"\(from versions: ([^)]*)\)", output)
    return [] if found is None or found[1] == "none" else found[1].split(", ")


def reason(output: str) -> str:
    """The line of pip's output that says most: its first error, or the end of a traceback."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"]
    return (errors or lines[-1:] or ["it said nothing"])[0][:400]


def _network_reason(output: str) -> str:
    line = next(line for line in output.splitlines() if _NO_NETWORK.search(line))
    system = re.search(r"\[Errno -?\d+\] ([^')\"]+)", line)
    return (system[1] if system else line).strip()[:200]


def no_space(root: Path) -> FetchError:
    return FetchError(
        f"no space left on the disk of {root}: 1 GB is needed for a moment, 1 MB afterwards, and what torch takes; "
        "make room, or set KVAUDIT_CACHE to a folder on another disk"
    )

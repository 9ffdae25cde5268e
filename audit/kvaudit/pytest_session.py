"""What an audit has to know of the session of pytest that it runs in: its terminal, and the workers of pytest-xdist."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvaudit.plain_console import PlainConsole
from kvaudit.report import Event, Progress, Report
from kvaudit.terminal import advance, progress_bar

_DRAWN_EVERY_S = 0.2


class Made(msgspec.Struct, frozen=True):
    """What became of an audit: its report; or, if the target did not start, why."""

    report: Report | None = None
    failed: str = ""


def made_once(request: pytest.FixtureRequest, key: object, make: Callable[[], Made]) -> tuple[Made, bool]:
    """What `make` returns, and whether it was made here.

    Under pytest-xdist cases of one module are played in several processes. The first that asks makes the audit, and
    the others wait for it and read what it has written, so that it is made once and failures are kept by one alone.
    key: what tells this audit from the others of the session.
    """
    worker = getattr(request.config, "workerinput", None)
    if worker is None:
        return make(), True
    from filelock import FileLock

    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    folder: Path = request.getfixturevalue("tmp_path_factory").getbasetemp().parent
    path = folder / f"kvaudit-{worker['testrunuid']}-{digest}.json"
    with FileLock(f"{path}.lock"):
        if path.exists():
            return msgspec.json.decode(path.read_bytes(), type=Made), False
        made = make()
        path.write_bytes(msgspec.json.encode(made))
    return made, True


@contextlib.contextmanager
def progress_shown(config: pytest.Config, target: str) -> Iterator[Callable[[Event], None]]:
    """Takes the events of an audit, and shows on the terminal of the session how far it is.

    A test's output is captured; the capture is lifted for the moment in which the bar is drawn, and no longer, so that
    what the target prints stays where pytest puts it. Nothing is shown where there is no terminal, where output is
    not captured (`-s`), or in a worker of pytest-xdist, which shares its terminal with others.
    """
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if reporter is None or capture is None or hasattr(config, "workerinput") or not capture.is_globally_capturing():
        yield lambda event: None
        return
    lifted = capture.global_and_fixture_disabled
    with lifted():
        bar = progress_bar(PlainConsole(file=sys.__stderr__), auto_refresh=False)
        if not bar.disable:
            reporter.ensure_newline()  # the bar takes the whole line
    task, drawn_at = bar.add_task("starting", total=None, done=""), 0.0

    def show(event: Event) -> None:
        nonlocal drawn_at
        now = time.monotonic()
        if bar.disable or not isinstance(event, Progress) or now - drawn_at < _DRAWN_EVERY_S:
            return
        with lifted():
            bar.start()
            advance(bar, task, event, f"kvaudit: {target}, {event.phase}")
            bar.refresh()
        drawn_at = now

    try:
        yield show
    finally:
        with lifted():
            bar.stop()

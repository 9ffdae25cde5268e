"""The pytest plugin: the options `--kvaudit-*`, and a line for each audit at the end of the session.

It stands outside of the package kvaudit, and imports nothing of it: pytest loads it in every session of an environment
in which kvaudit is installed. The tests themselves come from `kvaudit.pytest`.
"""

from __future__ import annotations

from typing import Any

import pytest

TOLD = pytest.StashKey[list[str]]()
"""The last line of every audit of the session."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options come before the arguments of `conformance`."""
    group = parser.getgroup("kvaudit", "kvaudit: block managers held to the specification (docs/pytest.md)")
    group.addoption("--kvaudit-steps", type=int, metavar="N", help="The budget of an audit in steps.")
    group.addoption("--kvaudit-seed", type=int, metavar="N", help="Another seed, other examples.")
    group.addoption("--kvaudit-profile", metavar="NAME", help="seed, strict, or an engine's.")
    group.addoption("--kvaudit-failures", metavar="DIR", help="Where failures are kept, and replayed from.")
    group.addoption(
        "--kvaudit-allow-inconclusive",
        action="store_true",
        help="Skip what an audit did not reach or cannot see at all, instead of failing.",
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of pytest-xdist: hand the lines to the session that has the terminal."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["kvaudit"] = session.config.stash.get(TOLD, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the session that has the terminal: take the lines of a worker. One that has crashed has none."""
    told = getattr(node, "workeroutput", {}).get("kvaudit", [])
    node.config.stash.setdefault(TOLD, []).extend(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was audited, with which budget and seed, also where all went well."""
    told = config.stash.get(TOLD, [])
    if told:
        terminalreporter.section("kvaudit")
        for line in told:
            terminalreporter.write_line(line)

"""What was measured of the checks, as it is written to a file and read again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.results import Spread


class Rates(msgspec.Struct, frozen=True):
    """One driver. unit: what is counted. per_second: by what was left out, a second of CPU time.

    shares: where its time goes with all checks, of 1.
    """

    unit: str
    per_second: dict[str, Spread]
    shares: dict[str, float]


class Kill(msgspec.Struct, frozen=True):
    """A planted bug. ms: CPU time of the swarm driver until it is found, None if it was not. steps: how many."""

    mutant: str
    ms: Spread | None
    steps: float


class Checks(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-bench-checks/1"):
    """One run. drivers: by name. kills: of each planted bug, by how it is looked at."""

    machine: str
    rounds: int
    drivers: dict[str, Rates]
    kills: dict[str, list[Kill]]


def read(path: Path) -> Checks:
    """Read a file of results. Raises OSError, and msgspec's error for what is none."""
    return msgspec.json.decode(path.read_bytes(), type=Checks)


def write(path: Path, checks: Checks) -> None:
    """Write them. Raises OSError."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(checks), indent=1) + b"\n")

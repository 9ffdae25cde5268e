"""A scenario: what reproduces a behaviour."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.protocol import Pool, Program


@dataclass(frozen=True)
class Scenario:
    """A pool and a program for it."""

    pool: Pool
    program: Program

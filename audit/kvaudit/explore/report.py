"""What a search found out, as typed values: what the terminal shows and what `--json` writes."""

from __future__ import annotations

import msgspec

from kvaudit.report import CONFORMS, VERDICTS, Finding
from kvaudit.words import count

EXHAUSTIVE, BOUNDED = "exhaustive", "bounded"


class PoolSearched(msgspec.Struct, frozen=True):
    """The search of one pool.

    kind: `exhaustive` or `bounded`; why: what a bounded search lacks. ended: why there is more than was searched
    (empty if there is not). symmetries: the names that were taken to make no difference; renamed: the transitions
    on which that was tested. waiting: states reached whose operations were not tried.
    """

    num_blocks: int
    block_size: int
    enable_prefix_cache: bool
    kind: str
    why: str
    ended: str
    symmetries: list[str]
    notes: list[str]
    states: int
    transitions: int
    refused: int
    reads: int
    misuses: int
    renamed: int
    depth: int
    waiting: int
    seconds: float


class Explored(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-exploration/1"):
    """Everything that was searched for one target."""

    target: str
    version: str
    profile: str
    kvaudit: str
    spec: int
    assumptions: list[str]
    pools: list[PoolSearched]
    findings: list[Finding]
    misuse: str
    seconds: float
    interrupted: bool
    reasons: list[str]
    exit_code: int

    @property
    def verdict(self) -> str:
        """In words. "conforms" is said of an exhaustive search only: of another one, how far it went."""
        ended = [pool.depth for pool in self.pools if pool.kind != EXHAUSTIVE or pool.ended]
        if self.exit_code == CONFORMS and ended:
            return f"nothing found in programs of up to {count(min(ended), 'operation')}; longer ones were not tried"
        return VERDICTS[self.exit_code]

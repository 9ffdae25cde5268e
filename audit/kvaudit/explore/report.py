"""What a search found out, as typed values: what the terminal shows and what `--json` writes."""

from __future__ import annotations

import msgspec

from kvaudit.report import Finding

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

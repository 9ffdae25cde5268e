"""The result of a comparison, as typed values."""

from __future__ import annotations

import msgspec

SAME, DIFFERENT, USAGE, INCONCLUSIVE = 0, 1, 2, 3
"""Exit codes."""

VERDICTS = {SAME: "no difference", DIFFERENT: "different", INCONCLUSIVE: "inconclusive"}


class Side(msgspec.Struct, frozen=True):
    """One of the two targets. flags: the options that say the same on a command line."""

    target: str
    version: str
    profile: str
    capabilities: list[str]
    flags: list[str] = []

    @property
    def name(self) -> str:
        """The target with its version and its options."""
        version = [self.version] if self.version and self.version not in self.target else []
        return " ".join([self.target, *version, *self.flags])


class StepOfBoth(msgspec.Struct, frozen=True):
    """One operation, and what came of it on either side, in words."""

    call: str
    a: str
    b: str


class Found(msgspec.Struct, frozen=True):
    """One way in which the two differ, made small. repeats: whether it came again on fresh pools. replay: the
    commands that play its trace on either."""

    id: str
    kind: str
    detail: str
    num_blocks: int
    block_size: int
    enable_prefix_cache: bool
    steps: list[StepOfBoth]
    count: int
    repeats: bool
    trace: str | None
    replay: list[str]


class Diff(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-diff/1"):
    """Everything that a comparison found out.

    compared: the kinds of difference that could be seen; not_compared: the others, each with the reason. met: how
    often each situation was met without which "no difference" says little. muted: the kinds that came so often that
    they were no longer looked for.
    """

    a: Side
    b: Side
    strict: bool
    compared: list[str]
    not_compared: dict[str, str]
    seed: int
    max_steps: int | None
    max_time_s: float | None
    found: list[Found]
    muted: list[str]
    met: dict[str, int]
    steps: int
    executions: int
    seconds: float
    cut_short: str
    reasons: list[str]
    exit_code: int
    date: str
    kvaudit: str

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        return VERDICTS[self.exit_code]

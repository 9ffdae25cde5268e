"""The result of an audit, as typed values: what the terminal shows, what `--json` writes, what CI reads."""

from __future__ import annotations

import msgspec

from kvaudit.protocol import MANAGER, LevelName, Pool, Setting

HOLDS = "holds"
VIOLATED = "violated"
BY_DESIGN = "differs by design"
NOT_OBSERVABLE = "not observable"
NOT_REACHED = "not reached"
TRUSTING = "trusting"

FAILING, FIXED, UNTOLD = "failing", "fixed", "cannot be told"
"""What became of a known failure."""

CONFORMS, VIOLATION, USAGE, INCONCLUSIVE = 0, 1, 2, 3
"""Exit codes."""

NOTHING_NEW = "nothing new"
"""The verdict where all that is violated was known; the exit code is that of CONFORMS."""

VERDICTS = {CONFORMS: "conforms", VIOLATION: "violated", INCONCLUSIVE: "inconclusive"}


class Header(msgspec.Struct, frozen=True):
    """What was audited, and how.

    engine: who made the examples. workers: who ran them, if it was not one process. level: what was driven. settings:
    of an engine, NAME=VALUE each. source: the checkout that it was taken from. drawn: of a scheduler, the values among
    which each setting was drawn.
    """

    target: str
    version: str
    profile: str
    variants: dict[str, str]
    seed: int
    max_steps: int | None
    max_time_s: float | None
    assumptions: list[str]
    notes: list[str]
    capabilities: list[str]
    stubs: list[str]
    kvaudit: str
    spec: int
    engine: str = "both"
    workers: str = ""
    level: LevelName = MANAGER
    settings: list[str] = []
    source: str | None = None
    drawn: dict[str, list[Setting]] = {}


class PoolShown(msgspec.Struct, frozen=True):
    """The pool after a step; None stands for what could not be seen.

    free: head first. evictable: oldest first. ref and content: an entry a block, content the prefix whose KV it is
    registered to hold. tables: the blocks of each live sequence. hits: for each prefix that can be hit, the block.
    """

    free: list[int] | None = None
    evictable: list[int] | None = None
    ref: list[int] | None = None
    content: list[str | None] | None = None
    tables: dict[str, list[int]] | None = None
    hits: dict[str, int] | None = None


class StepShown(msgspec.Struct, frozen=True):
    """One operation of a finding: the call, what was expected, what came, and the pool after it.

    due: the pool as the specification has it (None if it is too large to show). Only where something is broken:
    seen, what the target showed of its own, and blocks, those that the gravest breach is about.
    """

    call: str
    expected: str
    got: str
    broken: list[str]
    due: PoolShown | None = None
    seen: PoolShown | None = None
    blocks: list[int] = []


class Finding(msgspec.Struct, frozen=True):
    """One way in which the target broke an obligation, made small.

    story: what happened, which obligation that breaks, and what production would see; a sentence each. known: a
    failure of that obligation and shape was known before, and `trace` is that one. settings: of a scheduler.
    """

    id: str
    obligation: str
    also: list[str]
    symptom: str
    details: list[str]
    num_blocks: int
    block_size: int
    enable_prefix_cache: bool
    steps: list[StepShown]
    count: int
    trace: str | None
    reproduce: str
    story: list[str] = []
    known: bool = False
    settings: dict[str, Setting] = {}

    @property
    def pool(self) -> Pool:
        """The pool on which it was found."""
        chosen = self.settings or msgspec.UNSET
        return Pool(self.num_blocks, self.block_size, self.enable_prefix_cache, chosen)


class Row(msgspec.Struct, frozen=True):
    """The verdict on one obligation.

    form: in which form or variant it was checked, if not in full. known: it is violated, and only as is known.
    """

    obligation: str
    title: str
    statement: str
    verdict: str
    form: str
    detail: str
    known: bool = False


class KnownFailure(msgspec.Struct, frozen=True):
    """A failure that was known before, and what became of it: `failing`, `fixed`, or `cannot be told`."""

    trace: str
    obligation: str
    state: str


class GoalCount(msgspec.Struct, frozen=True):
    """How often a reach goal was met."""

    id: str
    statement: str
    count: int


class Report(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-report/2"):
    """Everything that an audit found out.

    more: further failures of an obligation, which were not made small. cut_short: why the audit ended before its
    budget, if it did. reasons: why it is inconclusive, if it is. known: the failures that were known before. date: of
    its end, as YYYY-MM-DD in UTC.
    """

    header: Header
    rows: list[Row]
    goals: list[GoalCount]
    findings: list[Finding]
    more: dict[str, int]
    steps: int
    executions: int
    seconds: float
    cut_short: str
    reasons: list[str]
    exit_code: int
    date: str
    known: list[KnownFailure] = []

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if self.exit_code == CONFORMS and any(row.verdict == VIOLATED for row in self.rows):
            return NOTHING_NEW
        return VERDICTS[self.exit_code]


# --- events ------------------------------------------------------------------------------------------------


class Begun(msgspec.Struct, frozen=True, tag_field="event", tag="begun"):
    """The target has started."""

    header: Header


class Progress(msgspec.Struct, frozen=True, tag_field="event", tag="progress"):
    """So many steps are done, that fraction of the budget; `phase` says what is going on."""

    phase: str
    steps: int
    seconds: float
    fraction: float
    found: int


class Found(msgspec.Struct, frozen=True, tag_field="event", tag="found"):
    """A new finding, already made small."""

    finding: Finding


class Ended(msgspec.Struct, frozen=True, tag_field="event", tag="ended"):
    """The audit is over."""

    report: Report


Event = Begun | Progress | Found | Ended

"""A difference as it is told and kept: in words side by side, and as a trace that either target can play."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvaudit import words
from kvaudit.diffing.compared import Difference, Shown
from kvaudit.diffing.pair import Pair
from kvaudit.diffing.report import Found, Side, StepOfBoth
from kvaudit.protocol import Allocate, Mutation, Raised, Returned
from kvaudit.targets import Target, TargetSpec
from kvaudit.trace import FORMAT, Origin, TraceHeader, keep_trace, lines_of


@dataclass(frozen=True)
class Party:
    """One of the two targets, started."""

    target: Target
    spec: TargetSpec

    @property
    def side(self) -> Side:
        """As the report has it."""
        target = self.target
        return Side(self.spec.text, target.version, target.profile, sorted(target.capabilities), self.spec.flags())


def kept(
    a: Party, b: Party, pair: Pair, difference: Difference, origin: Origin, repeats: bool, folder: Path | None
) -> Found:
    """The difference with which a pair ended, its program kept in a folder (None: nowhere)."""
    scenario = pair.scenario
    digest = hashlib.sha256(msgspec.json.encode((scenario.pool, scenario.program))).hexdigest()[:8]
    name, lines = f"{difference.kind}-{digest}", lines_of(scenario)
    refusals = tuple(dict.fromkeys((*a.spec.refusals, *b.spec.refusals)))
    header = TraceHeader(
        FORMAT, scenario.pool, a.spec.text, a.target.profile, "", len(lines), refusals=refusals, origin=origin
    )
    trace = keep_trace(folder, name, header, lines)
    return Found(
        id=name,
        kind=difference.kind,
        detail=difference.detail,
        num_blocks=scenario.pool.num_blocks,
        block_size=scenario.pool.block_size,
        enable_prefix_cache=scenario.pool.enable_prefix_cache,
        steps=[
            StepOfBoth(words.call(operation), _in_words(operation, one), _in_words(operation, other))
            for operation, one, other in pair.steps
        ],
        count=1,
        repeats=repeats,
        trace=str(trace) if trace is not None else None,
        replay=_replays(trace, a.spec, b) if trace is not None else [],
    )


def _replays(trace: Path, a: TargetSpec, b: Party) -> list[str]:
    """The commands that play a trace on either."""
    play = ["kvaudit", "replay", str(trace)]
    other = ["--target", b.spec.text, "--profile", b.target.profile]
    return [shlex.join([*play, *a.flags()]), shlex.join([*play, *other, *b.spec.flags()])]


def _in_words(operation: Mutation, shown: Shown) -> str:
    """What one target answered, and how many blocks are free then."""
    answer = shown.answer
    if isinstance(answer, Raised):
        return words.clipped(f"raised {answer.error}")
    free = f"; {words.short(shown.free)} free" if shown.free is not None else ""
    if not isinstance(answer, Returned):
        return f"refused{free}"
    told = "freed" if answer.value is None else words.short(answer.value)
    if isinstance(operation, Allocate) and shown.cached is not None:
        told += f", {words.short(shown.cached.get(operation.seq))} cached"
    return told + free

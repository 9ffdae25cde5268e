"""What a check of a recorded trace found out, as typed values: what the terminal shows and what `--json` writes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvaudit import words
from kvaudit.breach import SEVERITY, gravest
from kvaudit.findings import details
from kvaudit.oracle import Judgement
from kvaudit.report import CONFORMS, INCONCLUSIVE, VIOLATION
from kvaudit.trace import TraceHeader, TraceLine
from kvaudit.transcript import said
from kvspec.obligations import OBLIGATIONS

_SHOWN_BY: Mapping[str, tuple[str, ...]] = {
    "I1": ("num_free_blocks",),
    "I4": ("num_free_blocks",),
    "I5": ("num_cached_tokens",),
    "I8": ("num_free_blocks",),
    "O1": ("num_free_blocks",),
    "O2": (),
    "O4": ("num_cached_tokens",),
    "O5": ("table",),
    "O6": ("table",),
    "O7": ("table",),
    "O8": ("num_cached_tokens",),
    "O9": ("num_cached_tokens",),
    "K1": ("table", "num_cached_tokens"),
    "K2": ("table",),
}
"""The fields of an answer from which an obligation can be told; the others take `observe()` or reads."""

_RESTS_ON: Mapping[str, str] = {"O1": "refused", "O4": "hit", "O6": "evicted", "O7": "evicted", "K1": "hit"}
"""What has to have happened, or the obligation was not put to the test."""

_ESSENTIAL = ("K1", "O1", "I4")


class Departure(msgspec.Struct, frozen=True):
    """The first line that the specification does not allow."""

    line: int
    step: int
    call: str
    expected: str
    came: str
    obligation: str
    also: list[str]
    symptom: str
    details: list[str]


class Checked(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-check/1"):
    """A check of a trace.

    checked: the obligations to which it was held. not_observable, not_reached: those to which it was not, and why.
    met: how often what happened. recorded: how many answers gave each field.
    """

    trace: str
    target: str
    profile: str
    operations: int
    met: dict[str, int]
    recorded: dict[str, int]
    checked: list[str]
    not_observable: dict[str, str]
    not_reached: dict[str, str]
    departure: Departure | None
    reasons: list[str]
    seconds: float
    exit_code: int


def departure_of(line: TraceLine, judgement: Judgement, expected: str = "") -> Departure:
    """The departure of a line; `expected` is what the specification says of the operation unless it is given."""
    main = gravest(judgement.breaches).obligation
    return Departure(
        line=line.step + 1,
        step=line.step,
        call=words.clipped(words.call(line.operation)),
        expected=expected or words.expected(line.operation, judgement),
        came=said(line.came) if line.came is not None else "",
        obligation=main,
        also=sorted({breach.obligation for breach in judgement.breaches} - {main}, key=SEVERITY.index),
        symptom=OBLIGATIONS[main].symptom,
        details=[words.clipped(detail) for detail in details(judgement.breaches)],
    )


def checked(
    header: TraceHeader,
    trace: str,
    profile: str,
    met: Mapping[str, int],
    recorded: Mapping[str, int],
    departure: Departure | None,
    interrupted: bool,
    seconds: float,
) -> Checked:
    """The result. It is inconclusive if nothing departed and K1, O1 or I4 could not be seen at all."""
    operations = sum(met.get(name, 0) for name in ("allocate", "append", "free")) + (departure is not None)
    unseen = {name: _not_observable(name, recorded, operations, met.get("allocated", 0)) for name in OBLIGATIONS}
    unseen = {name: why for name, why in unseen.items() if why}
    unmet = {
        name: f"nothing was {what}" for name, what in _RESTS_ON.items() if not met.get(what) and name not in unseen
    }
    reasons = ["interrupted"] if interrupted else []
    reasons += [f"{name} is not observable: {unseen[name]}" for name in _ESSENTIAL if name in unseen]
    exit_code = VIOLATION if departure is not None else INCONCLUSIVE if reasons else CONFORMS
    return Checked(
        trace=trace,
        target=header.target,
        profile=profile,
        operations=operations,
        met=dict(met),
        recorded=dict(recorded),
        checked=[name for name in OBLIGATIONS if name not in unseen and name not in unmet],
        not_observable=unseen,
        not_reached=unmet,
        departure=departure,
        reasons=reasons,
        seconds=round(seconds, 3),
        exit_code=exit_code,
    )


def _not_observable(obligation: str, recorded: Mapping[str, int], operations: int, allocated: int) -> str:
    """Why an obligation cannot be told from a trace; empty if it can.

    A number of cached tokens that is not told is never told again; a free count or a table shows later what it is.
    """
    if obligation not in _SHOWN_BY:
        return "a trace holds operations only, no reads and no structures"
    missing = [name for name in _SHOWN_BY[obligation] if not recorded.get(name)]
    if missing:
        return f"no answer gives {' or '.join(missing)}"
    told = recorded.get("num_cached_tokens", 0)
    if "num_cached_tokens" in _SHOWN_BY[obligation] and told < allocated:
        return f"only {told:,} of {allocated:,} allocates give num_cached_tokens"
    return "" if operations else "there is no operation"

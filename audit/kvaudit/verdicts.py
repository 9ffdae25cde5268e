"""The verdict on each obligation, from what was seen and what was met."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kvaudit.excuses import Excuse
from kvaudit.levels import goals_of, level_of, methods, offered
from kvaudit.misuse import Accepted, in_words
from kvaudit.profiles import Profile
from kvaudit.report import BY_DESIGN, HOLDS, NOT_OBSERVABLE, NOT_REACHED, TRUSTING, VIOLATED, Row
from kvaudit.session import Tally
from kvaudit.words import count
from kvspec.obligations import OBLIGATIONS
from kvspec.variants import chosen


def rows(profile: Profile, capabilities: Collection[str], tally: Tally, misuse: Row) -> list[Row]:
    """A row for each obligation.

    capabilities: what the target offers. tally: what was seen, and which reach goals were met. misuse: the row of O10,
    see `misuse_row`.
    """
    duties = level_of(profile).duties
    return [
        misuse if name == "O10" and name in duties else _row(name, profile, offered(capabilities), tally)
        for name in OBLIGATIONS
    ]


def _row(name: str, profile: Profile, shown: set[str], tally: Tally) -> Row:
    obligation, duty = OBLIGATIONS[name], level_of(profile).duties.get(name)
    form = chosen(profile.variants, name)
    unseen = duty.needs - shown if duty is not None else frozenset()
    if duty is not None and unseen and duty.weaker:
        form.append(f"black box: {duty.weaker}")
    elif duty is not None and duty.form:
        form.append(duty.form)

    def row(verdict: str, detail: str = "") -> Row:
        return Row(name, obligation.title, obligation.statement, verdict, "; ".join(form), detail)

    if name in tally.seen:
        return row(VIOLATED, tally.seen[name])
    if by_design := _by_design(name, profile, tally):
        return row(BY_DESIGN, "; ".join(by_design))
    if duty is None:
        return row(NOT_OBSERVABLE, "the work of a scheduler does not show it")
    if unseen and not duty.weaker:
        return row(NOT_OBSERVABLE, f"the target offers no {', '.join(methods(unseen))}")
    if name == "O9" and not profile.limits.cache_switch:
        return row(NOT_OBSERVABLE, "its prefix cache cannot be switched off")
    missed = [goal.id for goal in goals_of(profile, shown) if name in goal.supports and not tally.goals[goal.id]]
    if missed:
        return row(NOT_REACHED, f"not met: {', '.join(missed)}")
    unmet = [excuse.reason for excuse in _unseen(profile, tally) if excuse.obligation == name]
    if unmet:
        return row(NOT_REACHED, f"not met, though excused: {'; '.join(unmet)}")
    return row(HOLDS)


def _by_design(name: str, profile: Profile, tally: Tally) -> list[str]:
    """What was seen of an obligation and is excused."""
    met = [(excuse, tally.excused.get(place)) for place, excuse in enumerate(profile.excuses)]
    return [
        f"{excuse.reason} ({excuse.source}); met {count(seen.times, 'time')}, first: {seen.first}"
        for excuse, seen in met
        if seen is not None and excuse.obligation == name
    ]


def stale(profile: Profile, tally: Tally) -> list[str]:
    """The excuses whose difference was never seen, though every reach goal was met: what they say is not so."""
    if not all(tally.goals.values()):
        return []
    return [
        f"stale excuse of {excuse.obligation}: what it is to excuse was not seen ({excuse.reason}, {excuse.source})"
        for excuse in _unseen(profile, tally)
    ]


def _unseen(profile: Profile, tally: Tally) -> list[Excuse]:
    return [excuse for place, excuse in enumerate(profile.excuses) if place not in tally.excused]


def misuse_row(result: tuple[int, Sequence[Accepted]] | None, *, adapted: bool, counts: bool) -> Row:
    """The row of O10. result: the kinds tried and those let through; counts: whether O10 counts for the exit code."""

    def row(verdict: str, form: str = "", detail: str = "") -> Row:
        return Row("O10", OBLIGATIONS["O10"].title, OBLIGATIONS["O10"].statement, verdict, form, detail)

    if adapted:
        return row(NOT_OBSERVABLE, detail="an adapter stands between the auditor and the engine")
    if result is None:
        return row(NOT_REACHED, detail="misuse was not tried")
    count, accepted = result
    if not count:
        return row(NOT_OBSERVABLE, detail="the target cannot make such calls")
    if not accepted:
        return row(HOLDS, f"strict: {count} kinds of misuse")
    listed = in_words(accepted)
    form = f"{len(accepted)} of {count} kinds of misuse get through"
    return row(VIOLATED if counts else TRUSTING, form, listed)


def inconclusive(profile: Profile, capabilities: Collection[str], met: Mapping[str, int]) -> list[str]:
    """Why an audit that found nothing proves little; empty if it does not."""
    reasons = [
        f"{name} is not observable: the target offers no {method}"
        for name, method in level_of(profile).essential.items()
        if method not in capabilities
    ]
    missed = sum(not count for count in met.values())
    return reasons + ([f"{missed} of {len(met)} reach goals never met"] if missed else [])

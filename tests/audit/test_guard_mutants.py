"""Every planted bug is caught by a guard: with a full check after each call, and without any."""

from __future__ import annotations

import re
from typing import Any

import pytest

from audit.auditing import target_of
from audit.guarding import KNOWN, NEVER, takes, violation
from kvaudit.guarding import ContractViolation, wrapper
from kvaudit.levels import play
from kvaudit.profiles import SEED
from kvblocks import BlockManager
from mutants import MUTANTS, Mutant

LEGAL = [mutant for mutant in MUTANTS if not mutant.misuse]
each = pytest.mark.parametrize("mutant", LEGAL, ids=lambda mutant: mutant.cls.__name__)

WAYS = {
    "a full check after each call": {"every": 1},
    "a full check without observe()": {"every": 1, "observe": False},
    "no full check": {"every": NEVER, "observe": False},
}


def found(mutant: Mutant, **options: Any) -> ContractViolation:
    violations = (violation(mutant.cls, scenario, **options) for scenario in KNOWN)
    return next(found for found in violations if found is not None)


@pytest.mark.parametrize("way", WAYS)
@each
def test_is_caught(mutant: Mutant, way: str) -> None:
    seen = found(mutant, **WAYS[way])
    names = {seen.obligation, *seen.also}
    if WAYS[way].get("observe", True):
        # Under a name of its own, maybe: what was registered wrong is seen before it is hit.
        plays = (play(target_of(mutant.cls), scenario, SEED) for scenario in KNOWN if takes(mutant.cls, scenario))
        names_of_audit = {breach.obligation for execution in plays for breach in execution.breaches}
        assert names & (names_of_audit | set(mutant.names))
    else:
        assert names & set(mutant.names)


@each
def test_ids_are_of_any_kind(mutant: Mutant) -> None:
    seen, usual = (found(mutant, every=NEVER, observe=False, id_of=kind) for kind in (lambda seq: (seq, 1), str))
    assert (seen.obligation, seen.also, seen.blocks) == (usual.obligation, usual.also, usual.blocks)


EARLIER = {
    "HashesPartialBlock",
    "DeletesMappingUnconditionally",
    "FreesInForwardOrder",
    "FilledBlockIsNotRegistered",
    "NewestMappingWins",
    "KeepsMappingOnEviction",
    "KeepsHashOnEviction",
    "DropsCacheWhenIdle",
    "RefusalFlushesCache",
    "RefusedIdStaysLive",
}
"""Some that the checks of the calls alone see only when the wrong state has consequences."""


@each
def test_a_full_check_sees_some_of_them_at_once(mutant: Mutant) -> None:
    if mutant.cls.__name__ in EARLIER:
        calls, whole = found(mutant, every=NEVER), found(mutant, every=1)
        assert "full check" in whole.call and "full check" not in calls.call
        assert whole.obligation != calls.obligation


@pytest.mark.parametrize("every", [1, 3, NEVER])
def test_what_is_not_planted_is_not_found(every: int) -> None:
    for scenario in KNOWN:
        assert violation(BlockManager, scenario, every=every) is None


def test_the_calls_are_checked_for_what_the_page_says() -> None:
    """The names in the docstring of the wrapper are those that the calls alone come to."""
    [table] = re.findall(r"called by these names:\n\n(.*?)\n\n", wrapper.__doc__ or "", re.DOTALL)
    said = set(re.findall(r"\b[IOK]\d+", table)) - {"O10"}
    seen = [found(mutant, every=NEVER) for mutant in LEGAL]
    assert {name for violation in seen for name in (violation.obligation, *violation.also)} == said

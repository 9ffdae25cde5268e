"""Hypotheses are needed: a few that show in cheap proofs. `python -m proofs.dropping` (in tests/) tries all."""

from __future__ import annotations

from functools import partial

import pytest

from kvproofs import sources
from kvproofs.operations import OPERATIONS
from proofs.dropping import HYPOTHESES, SPARE, Without, drop, first_open, follows


@pytest.mark.parametrize(
    ("hypothesis", "operation"),
    [("arithmetic: the block size is positive", "can_allocate"), ("N1", "num_cached_tokens"), ("O5", "slot")],
)
def test_without_a_hypothesis_a_goal_is_open(hypothesis: str, operation: str) -> None:
    assert first_open(hypothesis, operation) is not None


def test_what_is_not_needed_is_said() -> None:
    """The proof of `can_allocate` needs nothing of the memory."""
    (row,) = drop(["K1"], (("can_allocate", False),))
    assert not row.goal


def test_what_is_spare_follows_from_the_rest() -> None:
    assert [name for name in SPARE if not follows(name)] == []


def test_what_is_needed_does_not_follow() -> None:
    assert not follows("N4")


def test_every_hypothesis_has_a_name() -> None:
    made: list[Without] = []

    def executor(**settings: object) -> Without:
        made.append(Without(**settings))  # type: ignore[arg-type]
        return made[0]

    for _ in OPERATIONS["can_allocate"](sources.manager_class(), {"executor": partial(executor)}):
        pass
    assert set(HYPOTHESES) <= set(made[0].met)

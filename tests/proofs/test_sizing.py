"""The split of a card is proved of the text that ships, and of no wrong one: each is wrong on a small card."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import z3

from blocks.sizing_claims import NumBlocks, broken
from kvblocks import sizing as shipped
from kvblocks.sizing import Stage
from kvproofs import sizing
from kvproofs.executor import Executor
from kvproofs.proving import prove
from kvproofs.sizing_values import FACTS, STAGES, Whole, zipped
from kvproofs.theorems import DECLARED

BUGS = [
    ("// shares //", "//", "shares"),
    ("room * stage.share //", "usable * stage.share //", "fits"),
    ("rest = room\n", "rest = usable\n", "fits"),
    ("rest -= blocks * stage.block_bytes", "rest -= blocks", "fits"),
    ("rest -= more * stage.block_bytes", "pass", "fits"),
    ("stage.weights_bytes + stage.activation_bytes", "stage.weights_bytes", "fits"),
    ("more = rest // stage.block_bytes", "more = rest // stage.block_bytes + 1", "fits"),
    ("blocks + more", "blocks", "full"),
    ("more = rest //", "more = (rest - 1) //", "full"),
    ("room * stage.share // shares // stage.block_bytes", "0", "shares"),
    ("shares += stage.share", "shares += 1", "shares"),
    ("// shares // stage.block_bytes", "// (shares + 1) // stage.block_bytes", "shares"),
    ("if room < 0:", "if room < -1:", "refused"),
    ("if room < 0:", "if room <= 0:", "refused"),
]
"""What stands in the text, what is put in its place, and a claim that it breaks."""


def test_the_split_is_proved() -> None:
    found = prove("sizing")
    assert {t.name for t in found} == DECLARED["sizing"]
    assert [(t.name, t.open) for t in found if not t.proved] == []


@pytest.mark.parametrize(("old", "new", "claim"), BUGS)
def test_a_planted_bug_is_not_proved_and_breaks_a_claim_on_a_small_card(old: str, new: str, claim: str) -> None:
    assert sizing.SOURCE.count(old) == 1
    text = sizing.SOURCE.replace(old, new)
    assert any(not goal.proved for goal in sizing.shared(text, {"rlimit": 300_000, "stop_at_open": True}))
    assert any(claim in broken(real(text), usable, stages) for usable, stages in small_cards())


def test_the_text_that_ships_breaks_none_there() -> None:
    assert not any(broken(real(sizing.SOURCE), usable, stages) for usable, stages in small_cards())
    assert {claim for *_, claim in BUGS} == DECLARED["sizing"] - {"execution", "sums"}


def real(text: str) -> NumBlocks:
    names = dict(vars(shipped))
    exec(compile(text, "<num_blocks>", "exec"), names)
    found: NumBlocks = names["num_blocks"]
    return found


def small_cards() -> Iterator[tuple[int, list[Stage]]]:
    for usable, size, share in itertools.product(range(1, 9), (1, 2, 3), (1, 2)):
        yield usable, [Stage(2, 1, size, share)]
        for other in (1, 2, 3):
            yield usable, [Stage(1, 0, size, share), Stage(0, 1, other)]


def test_sums_are_proved_by_induction_only_where_a_later_stage_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FACTS, "one stage more", z3.BoolVal(True))
    assert [goal.proved for goal in sizing.sums()] == [True, False]


# --- the models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dividend", [-7, -6, -1, 0, 1, 6, 7])
@pytest.mark.parametrize("divisor", [1, 2, 3])
def test_a_quotient_is_pythons(dividend: int, divisor: int) -> None:
    executor = Executor(hypotheses=[])
    for _ in executor.paths(lambda: executor.prove("", "", equal(dividend, divisor))):
        pass
    assert [goal.proved for goal in executor.goals] == [True, True]


def equal(dividend: int, divisor: int) -> object:
    by_whole = Whole(z3.IntVal(dividend)) // Whole(z3.IntVal(divisor))
    return by_whole.term == dividend // divisor


def test_a_divisor_that_may_be_zero_is_a_goal() -> None:
    executor = Executor(hypotheses=[])
    for _ in executor.paths(lambda: Whole(z3.IntVal(1)) // Whole(z3.Int("any"))):
        pass
    assert [(goal.label, goal.proved) for goal in executor.goals] == [("divisor >= 1", False)]


def test_zip_of_anything_else_has_no_model() -> None:
    executor = Executor(hypotheses=[])
    for _ in executor.paths(lambda: zipped(STAGES, [1])):
        pass
    assert [goal.proved for goal in executor.goals] == [False]

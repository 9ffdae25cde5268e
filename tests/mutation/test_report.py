"""What is said of a campaign is checked, and every complaint can come up; the committed results are current."""

from __future__ import annotations

import msgspec
import pytest

from kvaudit.evidence import Cell
from kvspec.obligations import OBLIGATIONS
from mutants import MUTANTS
from mutation.evidence import evidence_of
from mutation.generator import UNCHANGED, generated
from mutation.planted import KIND as PLANTED
from mutation.planted import planted
from mutation.report import Campaign, Reasons, Result, Row, committed, complaints, digest_of_text, reasons, rows
from mutation.verdict import KILLED, SURVIVED, UNFINISHED, UNSUPPORTED, Mutant, Verdict

NONE = Reasons({}, {}, {})


def result(name: str, proof: str, search: str = KILLED, tests: str = KILLED, kind: str = "delete") -> Result:
    outcomes = {"proof": proof, "search": search, "tests": tests}
    return Result(name, kind, {killer: Verdict(outcome, "how", 0.1) for killer, outcome in outcomes.items()})


def said(*results: Result, why: Reasons = NONE) -> list[str]:
    return complaints(Campaign("", list(results)), why)


SEEN, ALIVE, HIDDEN = (
    result("seen", KILLED),
    result("alive", SURVIVED, SURVIVED, SURVIVED),
    result("hidden", KILLED, SURVIVED, SURVIVED),
)


def test_all_is_well() -> None:
    why = Reasons({"alive": "the same"}, {"hidden": "not to be seen"}, {})
    assert said(SEEN, ALIVE, HIDDEN, why=why) == []
    assert said(SEEN, result(UNCHANGED.id, SURVIVED, SURVIVED, SURVIVED, UNCHANGED.kind)) == []


@pytest.mark.parametrize(
    ("results", "why", "complaint"),
    [
        ([ALIVE], NONE, "nothing says why"),
        ([HIDDEN], NONE, "nothing says why"),
        ([SEEN], Reasons({"seen": ""}, {}, {}), "said to be equivalent"),
        ([SEEN], Reasons({}, {"seen": ""}, {}), "said to be killed by the proof alone"),
        ([ALIVE], Reasons({}, {"alive": ""}, {}), "said to be killed by the proof alone"),
        ([SEEN], Reasons({}, {}, {"seen": ""}), "said to be proved although it is wrong"),
        ([result("hole", SURVIVED)], NONE, "is wrong and yet proved"),
        ([SEEN], Reasons({"gone": ""}, {}, {}), "there is no such mutant"),
        ([SEEN, result("unsupported", UNSUPPORTED)], NONE, "less than 90%"),
        ([result(UNCHANGED.id, KILLED, SURVIVED, SURVIVED)], NONE, "what is right must survive"),
        ([result(UNCHANGED.id, UNFINISHED, SURVIVED, SURVIVED)], NONE, "what is right must survive"),
        ([result(UNCHANGED.id, SURVIVED, SURVIVED, KILLED)], NONE, "what is right must survive"),
    ],
)
def test_what_is_wrong_is_said(results: list[Result], why: Reasons, complaint: str) -> None:
    assert any(complaint in text for text in said(*results, why=why))


def test_the_table_counts_what_is_not_equivalent() -> None:
    campaign = Campaign("", [SEEN, ALIVE, HIDDEN, result("unsupported", UNSUPPORTED, tests=SURVIVED)])
    [row] = [row for row in rows(campaign, Reasons({"alive": ""}, {}, {})) if row.kind == "delete"]
    assert row == Row("delete", 4, 1, proof=2, search=2, tests=1, together=3)


def test_planted_bugs_are_evidence() -> None:
    bugs = [result(f"{PLANTED}:{mutant.cls.__name__}", UNSUPPORTED, kind=PLANTED) for mutant in MUTANTS]
    evidence = evidence_of(Campaign("", bugs))
    assert {*evidence.cells} | {*evidence.blanks} == {*OBLIGATIONS}
    assert evidence.cells["O3"] == Cell(True, {"bugs": 3, "by proof": 0, "by search": 3, "by tests": 3})
    alive = [*bugs[:-1], result(bugs[-1].id, UNSUPPORTED, SURVIVED, SURVIVED, kind=PLANTED)]
    assert not evidence_of(Campaign("", alive)).cells[MUTANTS[-1].names[0]].holds


def test_what_is_committed_is_current() -> None:
    campaign = committed()
    if campaign.text != digest_of_text():  # docs/mutation.md says so, too
        pytest.skip("kvblocks has changed since the last campaign: PYTHONPATH=tests python -m mutation -j 2")
    every: list[Mutant] = [*generated(), *planted(), UNCHANGED]
    assert [found.id for found in campaign.results] == [mutant.id for mutant in every]
    assert complaints(campaign, reasons()) == []
    assert msgspec.json.decode(msgspec.json.encode(campaign), type=Campaign) == campaign

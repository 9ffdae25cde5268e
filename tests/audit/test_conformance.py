"""Good managers pass, each under the rules that it claims to follow, and a run says the same when it is repeated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from audit.auditing import audit, audited, row, same, target_of
from kvaudit.api import ApiTarget
from kvaudit.protocol import Failed, Operation, Outcome, Pool
from kvaudit.report import CONFORMS, HOLDS, VIOLATED, VIOLATION
from kvaudit.targets import TargetSpec
from second.manager import LifoManager, SecondManager


@pytest.mark.parametrize("black_box", [False, True], ids=["observe", "black box"])
def test_kvblocks_is_strict(black_box: bool) -> None:
    report = audited(TargetSpec("kvblocks", black_box=black_box), max_steps=3_000, misuse=True)
    assert report.header.profile == "strict"
    assert ("observe" in report.header.capabilities) is not black_box
    assert not report.findings
    assert all(goal.count for goal in report.goals)
    assert report.exit_code == CONFORMS
    for found in report.rows:
        assert found.verdict == HOLDS or black_box, found
        if found.obligation in ("K1", "I4", "I8", "O1", "O2", "O6", "O10"):
            assert found.verdict == HOLDS
            assert found.form.startswith("black box") is (black_box and found.obligation in ("I4", "I8", "O1", "O6"))


def test_another_implementation_holds_under_seed() -> None:
    report = audit(target_of(SecondManager), max_steps=3_000, misuse=True)
    assert (report.exit_code, report.findings) == (CONFORMS, [])
    assert "observe" not in report.header.capabilities
    assert row(report, "I2").verdict == "not observable"


def test_another_implementation_even_is_strict() -> None:
    assert audit(target_of(SecondManager), profile="strict", max_steps=3_000).exit_code == CONFORMS


def test_the_order_of_the_free_list_counts_only_under_strict() -> None:
    assert audit(target_of(LifoManager), max_steps=3_000).exit_code == CONFORMS
    report = audit(target_of(LifoManager), profile="strict", max_steps=3_000)
    assert report.exit_code == VIOLATION
    assert [found.obligation for found in report.rows if found.verdict == VIOLATED] == ["O6"]
    assert "heads the free list" in row(report, "O6").detail


@pytest.mark.parametrize("cls", [SecondManager, LifoManager])
def test_the_same_seed_gives_the_same_report(cls: type[SecondManager]) -> None:
    one, two = (audit(target_of(cls), profile="strict", max_steps=2_000, seed=5) for _ in range(2))
    assert same(one) == same(two)


class Recorder(ApiTarget):
    """Keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(SecondManager, name="recorder")
        self.asked: list[Pool | Operation] = []

    def open(self, pool: Pool) -> Failed | None:
        self.asked.append(pool)
        return super().open(pool)

    def run(self, program: Sequence[Operation]) -> list[Outcome]:
        self.asked += program
        return super().run(program)


def asked(seed: int) -> list[Pool | Operation]:
    """What an audit with that seed does to a target."""
    recorder = Recorder()
    audit(recorder, max_steps=2_000, seed=seed)
    return recorder.asked


def test_another_seed_gives_other_steps() -> None:
    zero, one = asked(0), asked(1)
    assert zero == asked(0)
    assert zero != one
    witnesses = 200
    assert zero[:witnesses] == one[:witnesses]

"""What CrossHair says is read aright: nothing counts as confirmed that it does not confirm, and planted bugs show."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvproofs import crosshair
from kvproofs.contracts.asking import IS_CONFIRMED, IS_OPEN, IS_REFUTED, check, compare
from kvproofs.contracts.declared import CONFIRMED, PAIRS, UNDECIDED
from kvproofs.contracts.planted import BUGS, Bug
from kvspec.obligations import OBLIGATIONS

CONTRACTS = '''
def right(n: int) -> int:
    """
    post: __return__ > n
    post: __return__ == n + 1
    """
    return n + 1


def half_right(n: int) -> int:
    """
    post: __return__ > n
    post: __return__ == 2 * n
    """
    return n + 1


def fails(n: int) -> int:
    """
    post: True
    """
    return 7 // n


def contradictory(n: int) -> int:
    """
    pre: n > 0 and n < 0
    post: False
    """
    return n


def endless(n: int) -> int:
    """
    post: len(__return__) > 0
    """
    return str(n)


def no_contract(n: int) -> int:
    return n
'''


def test_verdicts(tmp_path: Path) -> None:
    file = tmp_path / "contracts_of_this_test.py"
    file.write_text(CONTRACTS, encoding="utf-8")
    verdicts = {verdict.name: verdict for verdict in check(file, 1)}
    assert {name: verdict.verdict for name, verdict in verdicts.items()} == {
        "right": IS_CONFIRMED,
        "half_right": IS_REFUTED,
        "fails": IS_REFUTED,
        "contradictory": IS_OPEN,
        "endless": IS_OPEN,
    }
    assert verdicts["fails"].detail.startswith("ZeroDivisionError") and "fails(0)" in verdicts["fails"].detail
    assert [verdict.name for verdict in check(file, 1, only="right")] == ["right"]


def test_what_cannot_be_imported_is_no_verdict(tmp_path: Path) -> None:
    file = tmp_path / "broken_file_of_this_test.py"
    file.write_text("import no_such_module\n" + CONTRACTS, encoding="utf-8")
    with pytest.raises(RuntimeError, match="no_such_module"):
        check(file, 1)
    with pytest.raises(RuntimeError, match="no_such_function"):
        compare("pair", "kvspec.operations.blocks_for", "kvspec.operations.no_such_function", 1)


def test_two_formulas_that_differ_outside_of_their_meaning_are_told_apart() -> None:
    verdict = compare("blocks_for", "kvspec.operations.blocks_for", "kvblocks.arithmetic.blocks_for", 5)
    assert verdict.verdict == IS_REFUTED
    assert "block_size=-" in verdict.detail


def test_every_contract_and_every_pair_falls_to_a_planted_bug() -> None:
    confirmed = [name for declared in CONFIRMED.values() for name in declared]
    names = {*confirmed, *UNDECIDED}
    assert len(names) == len(confirmed) + len(UNDECIDED)
    assert {name for bug in BUGS for name in bug.refuted} == names
    assert {pair for bug in BUGS for pair in bug.told_apart} == set(PAIRS)
    assert {name for declared in CONFIRMED.values() for named in declared.values() for name in named} <= {*OBLIGATIONS}


def test_a_bug_that_is_not_found_is_an_error() -> None:
    harmless = Bug("kvblocks.arithmetic", "does nothing", "token at least", "token or more", ("kvblocks_match_limit",))
    [row] = crosshair.bug_rows(harmless)
    assert row.found == IS_CONFIRMED and not row.is_well


def test_a_bug_must_stand_in_the_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not exactly one"):
        crosshair.plant(Bug("kvblocks.arithmetic", "", "no such text", "", ()), tmp_path)


@pytest.mark.parametrize("number", [0, 12])
def test_planted_bugs_are_found(number: int) -> None:
    assert all(row.is_well for row in crosshair.bug_rows(BUGS[number]))


def test_the_declared_contracts_are_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(row.is_well for row in crosshair.confirmed_rows("formulas"))
    declared = dict(CONFIRMED["formulas"])
    del declared["kvspec_slot"]
    monkeypatch.setitem(CONFIRMED, "formulas", declared | {"kvspec_tables": ("O5",)})
    wrong = {row.name: (row.due, row.found) for row in crosshair.confirmed_rows("formulas") if not row.is_well}
    assert wrong == {
        "formulas.kvspec_slot": ("declared", IS_CONFIRMED),
        "formulas.kvspec_tables": (IS_CONFIRMED, "missing"),
    }

"""The executor says no to what is wrong: programs that an unsound one would prove, and values that must raise."""

from __future__ import annotations

import pytest
import z3

from kvblocks import errors
from kvproofs import sources
from kvproofs.errors import Unsupported
from kvproofs.executor import Executor, Goal
from kvproofs.terms import Bool, Int, KeyTerm, SeqTerm, wrap
from proofs.controls import to_the_first_open


def open_goals(operation: str, *edits: tuple[str, str]) -> list[Goal]:
    """The first goal that does not close, if there is one."""
    return [goal for goal in to_the_first_open(operation, sources.variant(*edits)) if not goal.proved]


RELEASES = "        for block in reversed(blocks):\n"
LISTS = "                    self._free.append(block)\n"
SEQ = "        seq = self._sequences[seq_id]\n"
STORES = "            self._sequences[seq_id] = Sequence([block], seq.tokens[:], [], 0, seq.extra, self.block_size)\n"


@pytest.mark.parametrize("operation", ["free", "append"])
def test_the_shipped_text_is_proved(operation: str) -> None:
    """In the quick way of the controls, too: what they leave open is the bug's doing."""
    assert open_goals(operation) == []


def test_a_local_name_carried_round_a_loop_is_forgotten() -> None:
    """A counter that only the second iteration sees: an executor that keeps its first value proves everything."""
    counting = (
        "        count = 0\n"
        "        for block in reversed(blocks):\n"
        "            count += 1\n"
        "            if count == 2:\n"
        "                ref[block] = 5\n"
    )
    assert any(open_goals("free", (RELEASES, counting)))


def test_the_entry_of_a_loop_is_proved_on_every_path() -> None:
    """The first path to the loop is right, the second spoils the state before it."""
    spoiling = "        if len(self._free) == 3:\n            ref[blocks[0]] = 0\n" + RELEASES
    found = open_goals("free", (RELEASES, spoiling))
    assert any("holds at the entry" in goal.label for goal in found)


def test_an_index_out_of_range_is_a_goal() -> None:
    """`_take` looks one block further: in the last block of the pool that is an IndexError after a write."""
    ending = "        self._ref[block] = 1\n        return block\n"
    found = open_goals("append", (ending, ending.replace("return", "self._ref[block + 1]\n        return")))
    assert any(goal.label == "index in range" for goal in found)


def test_a_loop_that_changes_what_it_goes_over_is_not_supported() -> None:
    """Be it a list of its own, or the row of a dict: that one is stale as soon as the dict has changed."""
    copied = "        table = list(blocks)\n" + RELEASES.replace("blocks", "table")
    for changing, reason in (
        (copied + "            table.append(block)\n", "changes the list"),
        (RELEASES + "            blocks.append(block)\n", "used after the dict that held it was changed"),
    ):
        assert any(reason in goal.reason for goal in open_goals("free", (RELEASES, changing)))


def test_a_row_taken_before_a_loop_that_stores_another_is_stale() -> None:
    """In Python the name keeps the old list; a model that reads the dict again would see the new one."""
    edits = (
        ("self._release(self._live(seq_id).table)", "self._release(self._live(seq_id).table, seq_id)"),
        ("def _release(self, blocks: list[int])", "def _release(self, blocks: list[int], seq_id: Hashable)"),
        (RELEASES, SEQ + "        hashes = seq.hashes\n" + RELEASES + STORES),
        (LISTS, LISTS + "        hashes.append(self._block_hash[0])\n"),
    )
    assert any("used after the dict" in goal.reason for goal in open_goals("free", *edits))


def test_an_attribute_bound_in_a_loop_is_not_supported() -> None:
    binding = RELEASES + "            self.enable_prefix_cache = False\n"
    assert any("rebinds an attribute" in goal.reason for goal in open_goals("free", (RELEASES, binding)))


@pytest.mark.parametrize(
    "text", ["        while True:\n            pass\n", "        for _ in [b for b in ()]:\n            pass\n"]
)
def test_what_is_not_modelled_is_not_proved(text: str) -> None:
    assert any(open_goals("free", (RELEASES, text + RELEASES)))


@pytest.mark.parametrize("value", [Int(z3.Int("x")), KeyTerm(z3.Const("k", z3.DeclareSort("Key"))), Bool(z3.Bool("p"))])
@pytest.mark.parametrize(
    "ask", [hash, int, iter, lambda v: [0, 1][v], len, float], ids=["hash", "int", "iter", "index", "len", "float"]
)
def test_symbolic_values_have_no_concrete_form(value: object, ask: object) -> None:
    with pytest.raises(Unsupported):
        ask(value)  # type: ignore[operator]


def test_truth_outside_of_an_execution_is_not_supported() -> None:
    with pytest.raises(Unsupported):
        bool(Int(z3.Int("x")) == 1)


def test_every_outcome_of_every_condition_is_a_path() -> None:
    x = Int(z3.Int("x"))

    def sign() -> int:
        return 1 if x > 0 else -1 if x < 0 else 0

    executor = Executor([])
    seen = []
    for outcome in executor.paths(sign):
        assert executor.prove("", "the path", x.term > 0 if outcome.value == 1 else x.term <= 0)
        assert not executor.prove("", "not everything", z3.BoolVal(False))
        seen.append(outcome.value)
    assert sorted(seen) == [-1, 0, 1]


def test_unknown_is_not_proved() -> None:
    executor = Executor([], rlimit=1)
    n = z3.Ints("a b c")
    for _ in executor.paths(lambda: None):
        assert not executor.prove("", "hard", n[0] * n[0] * n[0] + n[1] * n[1] * n[1] != n[2] * n[2] * n[2] + 1)


def test_errors_of_the_program_are_its_outcome() -> None:
    def refuse() -> None:
        raise errors.OutOfBlocks("none")

    (outcome,) = Executor([]).paths(refuse)
    assert isinstance(outcome.error, errors.OutOfBlocks)


def test_terms_of_unknown_sorts_are_not_wrapped() -> None:
    with pytest.raises(Unsupported):
        wrap(z3.Real("r"))
    assert isinstance(wrap(z3.Const("q", z3.DeclareSort("SeqId"))), SeqTerm)


def test_a_solver_that_gives_up_by_raising_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object) -> None:
        raise z3.Z3Exception("reached max unfolding")

    monkeypatch.setattr(z3.Solver, "check", give_up)
    goals = list(open_goals("slot"))
    assert goals and goals[0].reason == "reached max unfolding"

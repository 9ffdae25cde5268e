"""A guard is a drop-in: it keeps the specification's ledger, tells what is wrong once, and is otherwise not there."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvaudit
from audit.guarding import KNOWN, NEVER, drive
from audit.test_check_agrees import KINDS, liar, program
from kvaudit import ContractViolation, ContractWarning, guard
from kvaudit.breach import Breach
from kvaudit.check import check_trace
from kvaudit.errors import TargetError, UsageError
from kvaudit.guarding import Guard, check_now
from kvaudit.guarding.lockstep import Lockstep
from kvaudit.profiles import SEED
from kvaudit.protocol import Allocate, Append, Free, Mutation, Outcome, Pool, Refused, Returned
from kvaudit.rulings import own_step
from kvaudit.trace import TraceReader
from kvblocks import BlockManager, InvalidArgument, OutOfBlocks, UnknownSequence
from kvspec.live import snapshot
from kvspec.operations import OutOfBlocks as Refusal
from kvspec.variants import SEED_VARIANTS
from mutants import MUTANTS, misuse, pool, records
from spec.walks import walk


def guarded(manager: Any, **options: Any) -> Any:
    return guard(manager, **{"level": "strict", "folder": None, **options})


# --- the ledger ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_ledger_is_that_of_the_specification(seed: int) -> None:
    """The ways that a guard cuts short lead where kvspec's operations lead."""
    draw = random.Random(seed)
    strides = list(walk(draw, 60))
    due = strides[0].before
    lockstep = Lockstep(Pool(due.num_blocks, due.block_size, due.enable_prefix_cache), SEED_VARIANTS)
    for stride in strides:
        seq = str(stride.seq_id)
        operation: Mutation = Free(seq)
        if stride.operation == "allocate":
            operation = Allocate(seq, stride.tokens)
        elif stride.operation == "append":
            operation = Append(seq, stride.tokens[0])
        outcome: Outcome = Refused()
        cached = None
        try:
            step = own_step(due, operation)
        except Refusal:
            pass
        else:
            due, outcome = step.after, Returned(list(step.result) if isinstance(step.result, tuple) else step.result)
            cached = due.sequences[seq].num_cached_tokens if isinstance(operation, Allocate) else None
        assert lockstep.judge(operation, outcome, cached, due.num_free_blocks) == []
        if draw.random() < 0.5:
            lockstep.settle()
    lockstep.settle()
    assert snapshot(lockstep.ledger) == due


@pytest.mark.parametrize("every", [1, 5, NEVER])
def test_nothing_is_said_of_a_right_manager_and_its_answers_pass_through(every: int) -> None:
    for scenario in [*map(program, range(20)), *KNOWN]:
        size = scenario.pool
        made = [BlockManager(size.num_blocks, size.block_size, size.enable_prefix_cache) for _ in range(2)]
        drive(guarded(made[0], every=every), scenario)
        drive(made[1], scenario)
        assert made[0].observe() == made[1].observe()


class Lenient(BlockManager):
    """Answers misuse of its reads."""

    def can_allocate(self, num_tokens: Any = 0) -> bool:
        return isinstance(num_tokens, int) and super().can_allocate(num_tokens)

    def slot(self, seq_id: Any, pos: Any) -> int:
        return super().slot(seq_id, pos) if isinstance(seq_id, int) and isinstance(pos, int) else -1


def test_misuse_of_reads_is_none_of_its_business() -> None:
    manager = guarded(Lenient(4, 2))
    manager.allocate(1, [1, 2, 3])
    assert [manager.can_allocate(wrong) for wrong in ("x", None, 1.5)] == [False] * 3
    assert manager.can_allocate() is True
    pairs: list[tuple[Any, Any]] = [(1, "x"), (1, 1.0), (1, None), ([], 0), ({}, 1)]
    assert [manager.slot(seq, pos) for seq, pos in pairs] == [-1] * 5
    check_now(manager)


def test_named_arguments_of_reads_come_in_any_order() -> None:
    manager = guarded(BlockManager(6, 2))
    manager.allocate(1, [5, 6, 7])
    manager.allocate(0, [1, 2, 3])
    assert manager.slot(pos=1, seq_id=0) == manager.slot(0, pos=1) == 5
    assert manager.slot(pos=0, seq_id=1) == 0
    with pytest.raises(ContractViolation, match=r"O5 is violated at slot\(1, 0\)"):
        wrong = guarded(records.SlotOffsetOffByOne(6, 2))
        wrong.allocate(1, [5, 6, 7])
        wrong.slot(pos=0, seq_id=1)


def test_a_method_that_is_replaced_is_replaced() -> None:
    manager = guarded(BlockManager(4, 2))
    manager.allocate("a", [1])
    manager.append_slot = lambda seq_id, token_id: 3
    with pytest.raises(ContractViolation, match="token 1 is to go to slot 1, not to slot 3"):
        manager.append_slot("a", 2)


def test_a_server_loads_no_front_end() -> None:
    """They cost memory and, at each collection of garbage, time."""
    code = "import sys, kvaudit; kvaudit.guard; print(sorted({'rich', 'typer', 'jinja2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class Nameless:
    """An id that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no name")


def test_a_check_that_breaks_down_does_not_take_the_server_along() -> None:
    class Wrong(BlockManager):
        def append_slot(self, seq_id: Any, token_id: int) -> int:
            return super().append_slot(seq_id, token_id) + 1

    seq = Nameless()
    manager = guarded(Wrong(4, 2), level="warn")
    manager.allocate(seq, [1])
    with pytest.warns(ContractWarning, match="nothing is checked any more: RuntimeError: no name"):
        assert manager.append_slot(seq, 2) == 2
    with warnings.catch_warnings(action="error"):  # it is a bystander by now
        manager.append_slot(seq, 3)
        manager.free(seq)
    manager = guarded(Wrong(4, 2))
    manager.allocate(seq, [1])
    with pytest.raises(RuntimeError, match="no name"):
        manager.append_slot(seq, 2)


def test_it_is_neither_copied_nor_pickled() -> None:
    manager = guarded(BlockManager(4, 2))
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a guard is neither copied nor pickled"):
            attempt(manager)


def test_a_dump_holds_integers_whatever_equals_them(tmp_path: Path) -> None:
    class Floats(BlockManager):
        def append_slot(self, seq_id: Any, token_id: int) -> Any:
            return float(super().append_slot(seq_id, token_id))

    manager = guarded(Floats(3, 4), folder=tmp_path)
    manager.allocate("a", [1])
    manager.append_slot("a", 2)
    with pytest.raises(ContractViolation) as found:
        for token in range(3):
            manager.append_slot("a", token)
    assert found.value.obligation == "O5" and found.value.dump is not None
    with TraceReader(found.value.dump) as reader:
        assert len(list(reader)) > 2


# --- what is wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observe", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_dump_is_a_trace_in_which_the_same_is_wrong(kind: str, observe: bool, tmp_path: Path) -> None:
    """Whether it begins with the fresh pool or in mid-life."""
    seen = starts = 0
    for seed in range(40):
        scenario, folder = program(seed), tmp_path / str(seed)
        manager = liar(kind, at=1 + seed % 9)(*pool_of(scenario.pool))
        try:
            run(guarded(manager, every=4, folder=folder, observe=observe and kind != "cached"), scenario)
        except ContractViolation as violation:
            assert violation.dump is not None
            with TraceReader(violation.dump) as reader:
                starts += reader.header.ledger is not None
                assert reader.header.obligation == violation.obligation
                departure = check_trace(reader, SEED, lambda operations, done: None).departure
            if "full check" not in violation.call:
                assert departure is not None and departure.step == reader.header.steps
                assert [departure.obligation, *departure.also] == [violation.obligation, *violation.also]
            seen += 1
    assert (seen == 0) is (kind == "nothing")
    assert bool(starts) is bool(seen)


def pool_of(pool: Pool) -> tuple[int, int, bool]:
    return pool.num_blocks, pool.block_size, pool.enable_prefix_cache


def run(manager: Any, scenario: Any) -> None:
    """The calls of a program that are legal where they stand, and no reads."""
    live: set[str] = set()
    for operation in scenario.program:
        try:
            if isinstance(operation, Allocate):
                if operation.seq not in live:
                    manager.allocate(operation.seq, list(operation.tokens))
                    live.add(operation.seq)
            elif operation.seq in live:
                if isinstance(operation, Append):
                    manager.append_slot(operation.seq, operation.token)
                else:
                    live.remove(operation.seq)
                    manager.free(operation.seq)
        except OutOfBlocks:
            pass


def corruptions() -> Iterator[tuple[str, Callable[[BlockManager], Any]]]:
    """The structure that is spoilt behind the guard's back: what a full check calls it, and how it is done."""
    yield "I4", lambda m: m._ref.__setitem__(0, 7)
    yield "I8", lambda m: m._free.popleft()
    yield "I8", lambda m: m._free.append(m._free[0])
    yield "O7", lambda m: m._evictable.move_to_end(next(iter(m._evictable)))
    yield "I7", lambda m: m._block_hash.__setitem__(0, None)
    yield "O6", lambda m: m._block_hash.__setitem__(next(iter(m._evictable)), None)
    yield "O8", lambda m: m._block_hash.__setitem__(m._free[0], b"?")
    yield "O6", lambda m: m._hash_to_block.popitem()
    yield "I3", lambda m: m._hash_to_block.__setitem__(b"?", m._free[0])
    yield "O5", lambda m: m._sequences["a"].table.reverse()
    yield "O5", lambda m: m._sequences["a"].tokens.append(7)
    yield "O8", lambda m: m._sequences["a"].hashes.pop()
    yield "O4", lambda m: setattr(m._sequences["a"], "cached", 2)
    yield "O7", lambda m: m._sequences.__setitem__("z", m._sequences["a"])


@pytest.mark.parametrize(("obligation", "spoil"), list(corruptions()))
def test_a_full_check_sees_each_structure(obligation: str, spoil: Callable[[BlockManager], Any]) -> None:
    manager = BlockManager(9, 2)
    front = guarded(manager)
    front.allocate("a", [1, 2, 3, 4, 5])
    front.allocate("b", [1, 2, 6, 7, 8, 9, 9])
    front.free("b")
    check_now(front)
    spoil(manager)
    with pytest.raises(ContractViolation) as raised:
        check_now(front)
    assert obligation in (raised.value.obligation, *raised.value.also)


def test_the_message_names_block_and_owner(tmp_path: Path) -> None:
    front = guarded(records.AppendReturnsSlotOfOldBlock(9, 2), folder=tmp_path)
    front.allocate("a", [1, 2])
    with pytest.raises(ContractViolation) as raised:
        front.append_slot("a", 3)
    violation = raised.value
    assert (violation.obligation, violation.blocks, violation.owners) == ("K1", (0,), ("a",))
    assert (
        str(violation).splitlines()[0].startswith("K1 is violated (at the same step: K2, I8) at append_slot('a', 3): ")
    )
    assert "block 0, held by 'a'" in str(violation)
    assert violation.symptom in str(violation)
    assert str(violation.dump) in str(violation)
    assert "does not hold" not in str(violation)


def test_warn_says_it_once_and_goes_on(tmp_path: Path) -> None:
    front, bare = guard(pool.KeepsMappingOnEviction(2, 1), folder=tmp_path), pool.KeepsMappingOnEviction(2, 1)
    with pytest.warns(ContractWarning, match="K1 is violated") as caught:
        assert [calls(front), calls(front)] == [calls(bare), calls(bare)]
    assert len(caught) == len(list(tmp_path.iterdir())) == 1
    warning = caught[0].message
    assert isinstance(warning, ContractWarning) and warning.violation is not None
    assert warning.violation.obligation == "K1"
    assert caught[0].filename == __file__


@pytest.mark.parametrize("call", [lambda m: m.append_slot("a", 3), lambda m: m.num_free_blocks, check_now])
def test_a_warning_is_at_the_line_of_the_caller(call: Callable[[Any], Any]) -> None:
    manager = BlockManager(9, 2)
    front = guard(manager, folder=None)
    front.allocate("a", [1, 2, 2])
    manager._free.clear()
    with pytest.warns(ContractWarning) as caught:
        call(front)
    assert caught[0].filename == __file__


def test_a_violation_can_be_sent_to_another_process() -> None:
    violation = ContractViolation([Breach("I8", "lost", (3,))], "free('a')", ["b"], Path("dump"))
    copy = pickle.loads(pickle.dumps(ContractWarning(str(violation), violation))).violation
    assert (str(copy), copy.owners, copy.dump) == (str(violation), ("b",), Path("dump"))


def calls(manager: Any) -> list[Any]:
    said = []
    for seq, prompt in (("a", [0]), ("b", [1, 0]), ("c", [0, 0])):
        said += [manager.allocate(seq, prompt), manager.slot(seq, 0), manager.num_free_blocks]
        manager.free(seq)
    return said


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.misuse], ids=lambda mutant: mutant.cls.__name__)
def test_misuse_that_gets_through_is_o10(mutant: Any) -> None:
    """Of reads and of the values of tokens nothing is said: they are not looked at."""

    def tried(call: Callable[[Any], Any]) -> str:
        front = guarded(mutant.cls(5, 2))
        front.allocate("a", [1, 2, 3])
        try:
            call(front)
        except ContractViolation as violation:
            return violation.obligation
        except Exception:
            return ""
        return ""

    caught = {
        tried(lambda m: m.allocate("a", [1])),
        tried(lambda m: m.allocate("b", [])),
        tried(lambda m: (m.free("a"), m.free("a"))),
        tried(lambda m: m.append_slot("nobody", 1)),
    }
    seen = mutant.cls in (misuse.ReallocatesLiveId, misuse.AcceptsEmptyPrompt, misuse.FreesTwice)
    assert caught == ({"", "O10"} if seen else {""})


# --- what is not there ---------------------------------------------------------------------------------------


def test_everything_else_is_the_managers_own() -> None:
    manager = BlockManager(5, 2)
    front = guarded(manager)
    assert front.num_blocks == 5
    assert front.observe() == manager.observe()
    front.note = "mine"
    assert manager.note == "mine"  # type: ignore[attr-defined]
    del front.note
    assert not hasattr(manager, "note") and not hasattr(front, "note")
    assert repr(front) == f"guard({manager!r})"
    assert front.allocate("a", iter([1, 2, 3])) == [0, 1]
    assert front.free("a") is None
    assert not hasattr(guarded(NoReads(3, 2)), "slot")


class NoReads:
    """The least that there is, with a method in place of the property."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._manager = BlockManager(num_blocks, block_size)
        self.num_blocks, self.block_size, self.enable_prefix_cache = num_blocks, block_size, True
        self.allocate, self.append_slot = self._manager.allocate, self._manager.append_slot
        self.free = self._manager.free

    allocate: Any = None
    append_slot: Any = None
    free: Any = None

    def num_free_blocks(self) -> int:
        return self._manager.num_free_blocks

    def num_cached_tokens(self, seq: Any) -> int:
        return self._manager.num_cached_tokens(seq)


def test_the_least_that_a_manager_offers_is_checked() -> None:
    front = guarded(NoReads(3, 2), every=1)
    front.allocate(("a", 1), (1, 2, 3))  # any id that can be hashed
    assert front.num_free_blocks() == 1
    front._manager._free.clear()
    with pytest.raises(ContractViolation, match="I8"):
        front.append_slot(("a", 1), 4)


def test_exceptions_pass_through() -> None:
    front = guarded(BlockManager(2, 2))
    front.allocate("a", [1, 2, 3])
    misuses: list[tuple[type[Exception], Callable[[], Any]]] = [
        (OutOfBlocks, lambda: front.allocate("b", [1])),
        (UnknownSequence, lambda: front.free("b")),
        (UnknownSequence, lambda: front.slot("b", 0)),
        (ValueError, lambda: front.allocate("b", [-1])),
        (ValueError, lambda: front.append_slot("a", -1)),
        (TypeError, lambda: front.append_slot([], 1)),
    ]
    for kind, call in misuses:
        with pytest.raises(kind) as raised:
            call()
        assert not isinstance(raised.value, ContractViolation)
    front.append_slot("a", 4)
    check_now(front)


def test_a_wrong_exception_is_the_cause() -> None:
    class Broken(BlockManager):
        def free(self, seq_id: Any) -> None:
            raise RuntimeError("broken")

    front = guarded(Broken(2, 2))
    front.allocate("a", [1])
    with pytest.raises(ContractViolation, match="O2 is violated") as raised:
        front.free("a")
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_after_an_interrupt_nothing_is_checked() -> None:
    class Interrupted(BlockManager):
        def append_slot(self, seq_id: Any, token_id: int) -> int:
            super().append_slot(seq_id, token_id)
            raise KeyboardInterrupt

    front = guarded(Interrupted(2, 2))
    front.allocate("a", [1])
    with pytest.raises(KeyboardInterrupt):
        front.append_slot("a", 2)
    front.free("a")
    assert front.num_free_blocks == 2


# --- mistakes of the user ------------------------------------------------------------------------------------


def test_mistakes_are_told() -> None:
    with pytest.raises(UsageError, match='"warn" or "strict"'):
        guard(BlockManager(2, 2), "loud")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least 1"):
        guard(BlockManager(2, 2), every=0)
    with pytest.raises(UsageError, match="no profile 'mine'"):
        guard(BlockManager(2, 2), profile="mine")
    with pytest.raises(TargetError, match="lacks allocate"):
        guard(object(), num_blocks=1, block_size=1, enable_prefix_cache=True)
    missing = "give what is missing, num_blocks=..., block_size=..., enable_prefix_cache=True"
    with pytest.raises(UsageError, match=f"object has no attribute num_blocks, block_size, .*{missing}"):
        guard(object())
    with pytest.raises(UsageError, match=r"refusals=\[OutOfBlocks\]"):
        guard(BlockManager(2, 2), refusals=OutOfBlocks)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="an exception class, or the name of one, not 3"):
        guard(BlockManager(2, 2), refusals=[3])  # type: ignore[list-item]
    used = BlockManager(2, 2)
    used.allocate("a", [1])
    with pytest.raises(UsageError, match="before its first operation"):
        guard(used)
    used.free("a")
    assert isinstance(guard(used), Guard)
    used.allocate("a", [1, 2])
    used.free("a")
    with pytest.raises(UsageError, match="before its first operation"):
        guard(used)


def test_nonsense_of_observe_is_no_violation() -> None:
    class Nonsense(BlockManager):
        def observe(self) -> Any:
            return {"ref": [0] * (self.num_blocks + len(self._sequences))}

    with pytest.raises(TargetError, match="observe"):
        front = guarded(Nonsense(2, 2))
        front.allocate("a", [1])
        check_now(front)
    front = guarded(Nonsense(2, 2), level="warn")
    front.allocate("a", [1])
    with pytest.warns(ContractWarning, match="nothing is checked any more: observe"):
        check_now(front)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_now(front)


def test_a_dump_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    front = guarded(pool.KeepsMappingOnEviction(2, 1), folder=tmp_path / "file")
    with pytest.raises(ContractViolation, match="could not be written") as raised:
        calls(front)
    assert raised.value.dump is None


def test_the_package_has_what_it_says() -> None:
    assert kvaudit.guard is guard
    with pytest.raises(AttributeError, match="no attribute 'gaurd'"):
        kvaudit.gaurd  # noqa: B018


# --- appends in one call -------------------------------------------------------------------------------------


def test_batches_are_the_appends_that_they_stand_for() -> None:
    manager = BlockManager(4, 2)
    watched = guarded(manager)
    watched.allocate("a", [1, 2, 3])
    watched.allocate("b", [5])
    assert watched.append_slots(iter(["b", "a"]), iter([6, 4])) == [5, 3]
    assert watched.extend(token_ids=[7], seq_id="a") == [6]
    assert watched.append_slot("a", 8) == 7
    with pytest.raises(OutOfBlocks):
        watched.append_slots(["a", "b"], [1, 1])
    with pytest.raises(OutOfBlocks):
        watched.extend("a", [1])
    with pytest.raises(InvalidArgument):
        watched.append_slots(["a", "a"], [1, 1])
    with pytest.raises(UnknownSequence):
        watched.extend("nobody", [1])
    check_now(watched)
    watched.free("a")
    assert watched.append_slots([], []) == []
    check_now(watched)


class ForgetsOne(BlockManager):
    """Of several tokens, the last is answered and not appended."""

    def append_slots(self, seq_ids: Any, token_ids: Any) -> list[int]:
        slots = super().append_slots(seq_ids[:-1], token_ids[:-1])
        return [*slots, slots[-1] + 1]


class AnswersOneShort(BlockManager):
    def extend(self, seq_id: Any, token_ids: Any) -> list[int]:
        return super().extend(seq_id, token_ids)[1:]


class TakesBeforeItRefuses(BlockManager):
    def extend(self, seq_id: Any, token_ids: Any) -> list[int]:
        try:
            return super().extend(seq_id, token_ids)
        except OutOfBlocks:
            self._take()
            raise


@pytest.mark.parametrize(
    ("cls", "obligation", "call"),
    [
        (ForgetsOne, "O5", lambda m: m.append_slots(["a", "b"], [1, 1])),
        (AnswersOneShort, "O5", lambda m: m.extend("a", [1, 2])),
        (TakesBeforeItRefuses, "O1", lambda m: m.extend("a", [1] * 20)),
    ],
)
def test_a_wrong_batch_is_seen(cls: Any, obligation: str, call: Callable[[Any], Any]) -> None:
    watched = guarded(cls(6, 2))
    watched.allocate("a", [1])
    watched.allocate("b", [2, 3, 4])
    with pytest.raises(ContractViolation) as caught:
        call(watched)
    assert caught.value.breaches[0].obligation == obligation


def test_a_bystander_hands_iterators_on(tmp_path: Path) -> None:
    """Also by a method that was taken off the guard before: what was read of them is not lost."""
    manager = ForgetsOne(6, 2)
    watched = guard(manager, "warn", folder=None)
    watched.allocate("a", [1])
    watched.allocate("b", [2, 3, 4])
    extend = watched.extend
    with pytest.warns(ContractWarning):
        watched.append_slots(["a", "b"], [1, 1])
    assert len(extend("b", iter([5, 6]))) == 2
    assert manager.observe().tokens["b"] == (2, 3, 4, 5, 6)

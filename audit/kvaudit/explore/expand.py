"""Tries everything at one state: on a target that is restored to it, or on one that is played there."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from kvaudit.api import ApiTarget
from kvaudit.breach import Breach
from kvaudit.explore.canonical import Symmetries, canonical
from kvaudit.explore.layout import Layout, Unfit
from kvaudit.explore.moves import moves, sequence_ids, trie_of_program
from kvaudit.explore.names import BLOCKS, MAPPINGS, SEQUENCES, TOKEN_IDS
from kvaudit.explore.probes import accepted, misuses, reads, wrong_read
from kvaudit.explore.subject import REFUSED, Done, Snapshot, Subject, Wrong, renamed
from kvaudit.manager_execution import ManagerExecution
from kvaudit.profiles import Profile
from kvaudit.protocol import Allocate, Append, Free, ManagerProgram, Mutation, Observe, Observed, Pool
from kvaudit.targets import Target
from kvaudit.time_limit import Hang
from kvspec.ledger import Ledger, empty_ledger
from kvspec.logic import Finite, LedgerView
from kvspec.obligations import broken_by_state

_ALL_RENAMED = 64
_RENAMED_EVERY = 4
"""Of the first so many states every transition is tried under other names, then of every fourth state a few."""


class Node(NamedTuple):
    """A state that was reached: how, and what brings the target there (a snapshot, or a program)."""

    number: int
    origin: int
    op: Mutation | None
    key: Hashable
    ledger: Ledger
    held: Any


class Failure(NamedTuple):
    """Something wrong at a state, or after one more operation. `misuse`: in words what was accepted."""

    at: int
    op: Mutation | None
    breach: Breach
    misuse: str = ""


class Asymmetry(NamedTuple):
    """A renaming after which the target does something else: which names, and how it shows."""

    names: str
    at: int
    op: Mutation
    detail: str
    ids: dict[str, str]


class Expansion(msgspec.Struct):
    """What came of trying everything at a state (or at several)."""

    new: list[Node] = []
    transitions: int = 0
    refused: int = 0
    reads: int = 0
    misuses: int = 0
    renamed: int = 0
    failure: Failure | None = None
    accepted: Failure | None = None
    asymmetry: Asymmetry | None = None
    unfit: str = ""

    def add(self, other: Expansion) -> None:
        """Add the counts, and keep what was found first."""
        self.transitions += other.transitions
        self.refused += other.refused
        self.reads += other.reads
        self.misuses += other.misuses
        self.renamed += other.renamed
        self.failure = self.failure or other.failure
        self.accepted = self.accepted or other.accepted
        self.asymmetry = self.asymmetry or other.asymmetry
        self.unfit = self.unfit or other.unfit

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to be searched for."""
        return bool(self.failure or self.asymmetry or self.unfit)


class Expander(Protocol):
    """Tries everything at a state. `known` are the forms that need not be reported as new."""

    known: set[Hashable]

    def root(self) -> Node:
        """The state of a fresh pool."""
        ...

    def expand(self, node: Node) -> Expansion:
        """Every operation, read and misuse at that state."""
        ...


class Restoring:
    """Expands the states of a target that can be restored to them. Raises Unfit if it cannot."""

    def __init__(self, target: ApiTarget, pool: Pool, profile: Profile, symmetries: Symmetries) -> None:
        self.known: set[Hashable] = set()
        self._target = target
        self._pool = pool
        self._profile = profile
        self._symmetries = symmetries
        self._ids = sequence_ids(pool.num_blocks)
        self._alphabet = None if symmetries.tokens else TOKEN_IDS[: pool.num_blocks + 1]
        self._subject = Subject(target, pool, profile.variants)
        self._tries_misuse = True

    def root(self) -> Node:
        """The state of a fresh pool."""
        ledger = empty_ledger(self._pool.num_blocks, self._pool.block_size, self._pool.enable_prefix_cache)
        return Node(0, -1, None, canonical(ledger, self._symmetries), ledger, self._subject.initial)

    def expand(self, node: Node) -> Expansion:
        """Every operation, read and misuse at that state, and some transitions under other names."""
        found = Expansion()
        op: Mutation | None = None
        broken = set(broken_by_state(Finite(node.ledger), LedgerView(node.ledger))) - {"K1"}
        if broken:
            raise AssertionError(f"the specification reaches a state that breaks {broken}: {node.ledger}")
        try:
            self._subject.learn(node.ledger, node.held)
            self._read(node, found)
            with self._target.time_limit:
                self._misuse(node, found)
                every = list(moves(node.ledger, self._new_ids(node.ledger), self._alphabet))
                for op in every:
                    if found.failure:
                        break
                    self._step(node, op, found)
                if not found.failure and (node.number < _ALL_RENAMED or node.number % _RENAMED_EVERY == 0):
                    self._rename(node, every, found)
        except Hang:
            found.failure = Failure(node.number, op, Breach("O2", "a legal call hangs"))
        except Unfit as unfit:
            found.unfit = str(unfit)
        except (TypeError, ValueError, AttributeError) as error:  # of containers that are not what STATE says
            found.unfit = f"what its STATE names cannot be compared ({error})"
        return found

    def _new_ids(self, ledger: Ledger) -> list[str]:
        ids = [seq for seq in self._ids if seq not in ledger.sequences]
        return ids[:1] if self._symmetries.sequences else ids

    def _step(self, node: Node, op: Mutation, found: Expansion) -> None:
        found.transitions += 1
        result = self._subject.step(node.ledger, node.held, op)
        if result is REFUSED:
            found.refused += 1
        elif isinstance(result, Done):
            key = canonical(result.ledger, self._symmetries)
            known = len(self.known)
            self.known.add(key)
            if len(self.known) > known:  # the key is new; it is long, and this hashes it once
                found.new.append(Node(-1, node.number, op, key, result.ledger, result.snapshot))
        elif isinstance(result, Wrong):
            found.failure = Failure(node.number, op, Breach("", result.detail))

    def _read(self, node: Node, found: Expansion) -> None:
        manager = self._subject.restore(node.held)
        self._target.adopt(manager, map(str, node.ledger.sequences))
        program = reads(node.ledger, self._target.capabilities)
        outcomes = self._target.run(program)
        found.reads += len(program) - 1
        breach = wrong_read(node.ledger, program, outcomes)
        if breach is None and self._subject.state(manager) != node.held:
            breach = Breach("O11", "reads change the state")
        first = outcomes[0]
        shown = first.state if isinstance(first, Observed) else None
        if breach is None and (shown is None or not self._subject.shows(node.ledger, shown)):
            raise Unfit("observe() shows something else than the attributes that its STATE names")
        if breach is not None:
            found.failure = Failure(node.number, None, breach)

    def _misuse(self, node: Node, found: Expansion) -> None:
        if not self._tries_misuse or found.failure:
            return
        manager = self._subject.restore(node.held)
        live = node.ledger.sequences
        self._target.adopt(manager, map(str, live))
        new = next(seq for seq in self._ids if seq not in live)
        kinds = list(misuses(node.ledger, (), new, self._target.capabilities))
        found.misuses += len(kinds)
        for what, call in kinds:
            how = accepted(self._target.misuse(call), self._subject.state(manager) == node.held)
            if how:
                self._tries_misuse = False
                breach = Breach("O10", f"{call.method}{call.args!r} {how}")
                found.accepted = Failure(node.number, None, breach, f"{what} {how}")
                break

    # --- does it commute with renaming? --------------------------------------------------------------------

    def _rename(self, node: Node, every: Sequence[Mutation], found: Expansion) -> None:
        """Transitions under other names and with all mappings reversed: one of each kind, of the first states all."""
        rng = random.Random(node.number)
        shuffled = list(range(self._pool.num_blocks))
        rng.shuffle(shuffled)
        blocks = shuffled if self._symmetries.blocks else sorted(shuffled)
        ids = {seq: f"{rng.randrange(10**6)}{seq}" if self._symmetries.sequences else seq for seq in self._ids}
        sample = every
        if node.number >= _ALL_RENAMED:
            kinds = [[op for op in every if type(op) is kind] for kind in (Allocate, Append, Free)]
            sample = [ops[rng.randrange(len(ops))] for ops in kinds if ops]
        other = _Names(blocks, ids)
        state = other.of(node, self._subject.layout)
        for op in sample:
            found.renamed += 1
            if self._differs(*state, other.op(op)) is not None:
                found.asymmetry = self._told_apart(node, op, found, other)
                break

    def _told_apart(self, node: Node, op: Mutation, found: Expansion, other: _Names) -> Asymmetry:
        """Which of the names it is that makes a difference."""
        blocks, ids = sorted(other.blocks), dict(zip(other.ids, other.ids, strict=True))
        for names, few in ((MAPPINGS, _Names(blocks, ids)), (SEQUENCES, _Names(blocks, other.ids))):
            found.renamed += 1
            wrong = self._differs(*few.of(node, self._subject.layout), few.op(op))
            if wrong is not None:
                return Asymmetry(names, node.number, few.op(op), wrong.detail, few.ids)
        found.renamed += 1
        wrong = self._differs(*other.of(node, self._subject.layout), other.op(op))
        return Asymmetry(BLOCKS, node.number, op, wrong.detail if wrong is not None else "", ids)

    def _differs(self, ledger: Ledger, snapshot: Snapshot, op: Mutation) -> Wrong | None:
        result = self._subject.step(ledger, snapshot, op)
        return result if isinstance(result, Wrong) else None


class _Names(NamedTuple):
    """Other names: for each block number, and for each sequence id."""

    blocks: Sequence[int]
    ids: dict[str, str]

    def of(self, node: Node, layout: Layout) -> tuple[Ledger, Snapshot]:
        """The state under these names. O(state)."""
        return renamed(node.ledger, node.held, self.blocks.__getitem__, self.ids.__getitem__, layout)

    def op(self, op: Mutation) -> Mutation:
        """The operation under these names."""
        return msgspec.structs.replace(op, seq=self.ids[op.seq])


class Playing:
    """Expands the programs of any target, each played on a fresh pool.

    What the target remembers is not known: no two programs are taken to lead to the same state, and what was refused
    or forgotten is built on as well. Up to names, every program has one node.
    """

    def __init__(
        self, target: Target, pool: Pool, profile: Profile, symmetries: Symmetries, tries_misuse: bool = True
    ) -> None:
        self.known: set[Hashable] = set()
        self._target = target
        self._pool = pool
        self._profile = profile
        self._symmetries = symmetries
        self._alphabet = None if symmetries.tokens else TOKEN_IDS[: pool.num_blocks + 1]
        self._tries_misuse = tries_misuse

    def root(self) -> Node:
        """The state of a fresh pool."""
        ledger = empty_ledger(self._pool.num_blocks, self._pool.block_size, self._pool.enable_prefix_cache)
        return Node(0, -1, None, (), ledger, ())

    def expand(self, node: Node) -> Expansion:
        """Every operation, read and misuse after that program."""
        found = Expansion()
        program: ManagerProgram = node.held
        used = dict.fromkeys(op.seq for op in program)
        ended = [seq for seq in used if seq not in node.ledger.sequences]
        self._probe(node, program, ended[:1], found)
        unused = sequence_ids(len(used))[-1]
        for op in moves(node.ledger, [*ended, unused], self._alphabet, trie_of_program(program)):
            if found.failure:
                break
            found.transitions += 1
            longer = (*program, op)
            execution = ManagerExecution(self._target, self._pool, self._profile).play(longer)
            if execution.breaches:
                found.failure = Failure(node.number, op, execution.breaches[0])
                break
            if execution.excused:
                continue  # by design; what comes behind it is not looked at
            found.refused += execution.played[-1].judgement.refused
            found.new.append(Node(-1, node.number, op, longer, execution.oracle.ledger, longer))
        return found

    def _probe(self, node: Node, program: ManagerProgram, ended: list[str], found: Expansion) -> None:
        asked = reads(node.ledger, self._target.capabilities)
        self._target.open(self._pool)
        outcomes = self._target.run([*program, *asked])[len(program) :]
        found.reads += len(asked) - 1
        breach = wrong_read(node.ledger, asked, outcomes)
        if breach is not None:
            found.failure = Failure(node.number, None, breach)
        elif self._tries_misuse:
            kinds = list(misuses(node.ledger, ended, "never", self._target.capabilities))
            found.misuses += len(kinds)
            self._target.open(self._pool)
            before = self._target.run([*program, Observe()])[-1]
            for what, call in kinds:
                outcome, after = (*self._target.run([call, Observe()]), before)[:2]
                how = accepted(outcome, after == before)
                if how:
                    self._tries_misuse = False
                    breach = Breach("O10", f"{call.method}{call.args!r} {how}")
                    found.accepted = Failure(node.number, None, breach, f"{what} {how}")
                    break

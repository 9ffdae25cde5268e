"""The oracle: holds every answer of a target to the specification.

It keeps the specification's ledger in lockstep with the target. Where the specification leaves a choice, the
choice is read off the target's answer, checked to be legal under the profile, and given to the specification,
whose effect is then what everything observable must equal. So one comparison decides all obligations at once;
only when it fails are the obligations evaluated one by one, to name those that are broken. Beside the ledger a
shadow memory follows nothing but the target's own answers (`kvaudit.caller`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kvaudit import words
from kvaudit.breach import SEVERITY, Breach
from kvaudit.caller import Caller, keep
from kvaudit.choices import block_list
from kvaudit.concerned import blocks_of_slots, differing, handled, room, table_of, unequal
from kvaudit.errors import UsageError
from kvaudit.observation import Agreed, Keys, agrees, as_ledger, check_sense
from kvaudit.profiles import Profile
from kvaudit.protocol import (
    Allocate,
    Append,
    CanAllocate,
    Free,
    Mutation,
    Observe,
    Observed,
    Operation,
    Outcome,
    Pool,
    Raised,
    Returned,
    Scribble,
    Slot,
    State,
)
from kvaudit.rulings import rule, wrong_free_count
from kvaudit.settled import settle
from kvspec import operations
from kvspec.ledger import Change, Ledger, empty_ledger
from kvspec.logic import Finite, LedgerView, Transition
from kvspec.obligations import broken_by_state, broken_by_step
from kvspec.operations import Step

_NO_CHANGE = Change()
_SCRIBBLE, _OBSERVE = Scribble(), Observe()


class Judgement(msgspec.Struct, frozen=True):
    """What one operation came to.

    answer: the target's. cached: the number of cached tokens that it gave for a new sequence. refused: the
    specification refused the operation. step: what it did, if it completed, and both agree on that. seen: where
    something is broken, what was read of the target, with identities for keys, and the tables that the caller has.
    num_free_blocks: as the target gave it afterwards. excused: what is broken by design, see `kvaudit.excuses`; then
    there are no breaches, and the two have parted all the same. excuses: those of the profile that say so, by place.
    """

    before: Ledger
    after: Ledger
    answer: Outcome
    cached: Any
    refused: bool
    step: Step | None
    breaches: tuple[Breach, ...]
    num_free_blocks: Any = None
    seen: Observed | None = None
    excused: tuple[Breach, ...] = ()
    excuses: tuple[int, ...] = ()

    @property
    def change(self) -> Change:
        """What the operation did."""
        return self.step.change if self.step is not None else _NO_CHANGE


class Oracle:
    """Judges a target on one fresh pool, one operation after the other.

    ask(operation) is the program to run on the target; judge(operation, outcomes) says what came of it. After a
    breach the two have parted, and the oracle is of no further use.
    """

    def __init__(self, pool: Pool, profile: Profile, capabilities: frozenset[str]) -> None:
        self.ledger = empty_ledger(pool.num_blocks, pool.block_size, pool.enable_prefix_cache)
        self._variants = profile.variants
        self._chooses = profile.chooses
        self._capabilities = capabilities
        if self._chooses and "observe" not in capabilities:
            raise UsageError(
                f"under the profile {profile.name} what is cached is read off observe(), which is not there: leave out "
                "--black-box, give the target an observe(), or choose another --profile"
            )
        self._caller = Caller(pool)
        self._keys = Keys()
        self._agreed: Agreed | None = None  # after the last operation
        self._program: list[Operation] = []
        self._turn = 0

    # --- what is asked -------------------------------------------------------------------------------------

    def ask(self, operation: Mutation) -> list[Operation]:
        """The operation, then what must change nothing (careless callers, reads), then everything that can be read."""
        self._turn += 1
        self._program = [operation, _SCRIBBLE, *self._probes(operation), _OBSERVE]
        return self._program

    def _probes(self, operation: Mutation) -> list[Operation]:
        """`slot` of one token and `can_allocate` of one length, others at every step."""
        probes: list[Operation] = []
        sequences = self.ledger.sequences
        if sequences and "slot" in self._capabilities:
            # Only sequences and tokens that are there whatever comes of the operation.
            sure = list(sequences)
            if type(operation) is Free:
                sure.remove(operation.seq)
            if sure:
                seq = sure[self._turn % len(sure)]
                probes.append(Slot(str(seq), self._turn % len(sequences[seq].tokens)))
        if "can_allocate" in self._capabilities:
            probes.append(CanAllocate(self._a_length()))
        return probes

    def _a_length(self) -> int:
        """Every length in turn, every other time one at the boundary of what is free."""
        size = self.ledger.block_size
        if self._turn % 2:
            return max(1, self.ledger.num_free_blocks * size + self._turn // 2 % 2)
        return 1 + self._turn // 2 % ((self.ledger.num_blocks + 1) * size)

    # --- what is said of the answers -----------------------------------------------------------------------

    def judge(self, operation: Mutation, outcomes: Sequence[Outcome]) -> Judgement:
        """Compare the outcomes of `ask(operation)` with the specification, and move on to the next state."""
        before, answer = self.ledger, outcomes[0]
        cached = None
        if isinstance(operation, Allocate) and isinstance(answer, Returned):
            cached = self._cached(outcomes[-1], operation.seq)
        refused, step, breaches = rule(before, operation, answer, cached, self._variants, self._caller)
        if step is not None:
            self.ledger = step.after
            keep(step.change.registered)
        if not isinstance(answer, Raised):
            step = self._look(operation, outcomes, before, refused, step, breaches)
        free = outcomes[-1].num_free_blocks if isinstance(outcomes[-1], Observed) else None
        seen = self._shown(outcomes[-1]) if breaches else None
        return Judgement(before, self.ledger, answer, cached, refused, step, tuple(breaches), free, seen)

    # --- what can be seen afterwards -----------------------------------------------------------------------

    def _look(
        self,
        op: Mutation,
        outcomes: Sequence[Outcome],
        before: Ledger,
        refused: bool,
        step: Step | None,
        breaches: list[Breach],
    ) -> Step | None:
        """Compare everything observable, the reads, and the memory. What is broken already is not looked at again.

        Returns the step, which is another one where the target has made choices that only show now.
        """
        seen = self._observed(outcomes[-1], breaches)
        if seen is not None and not breaches and self._chooses:
            self.ledger, step, wrong = settle(before, op, step, seen, self._keys)
            breaches += wrong
            for seq, record in self.ledger.sequences.items():
                self._caller.sees_table(str(seq), list(record.table))
        elif seen is not None and not breaches:
            self._compare(op, before, refused, step, seen, breaches)
            if seen.state is not None:
                self._compare_ledger(op, before, refused, step, seen.state, seen.num_free_blocks, breaches)
        if not breaches:
            self._reads(outcomes, breaches)
        breaches += self._caller.misreads()
        return step

    def _shown(self, outcome: Outcome) -> Observed:
        """What a picture can show of the target. What makes no sense is left out."""
        seen = self._observed(outcome, []) or Observed()
        state = self._keys.translated(seen.state) if seen.state is not None else None
        return msgspec.structs.replace(seen, tables=seen.tables or dict(self._caller.tables), state=state)

    def _observed(self, outcome: Outcome, breaches: list[Breach]) -> Observed | None:
        if isinstance(outcome, Observed):
            if outcome.state is not None and "observe" not in self._capabilities:
                return msgspec.structs.replace(outcome, state=None)
            return outcome
        breaches.append(Breach("O2", words.unexpected(outcome)))
        return None

    def _cached(self, outcome: Outcome, seq: str) -> Any:
        """The number of cached tokens that the target gives for a new sequence."""
        return outcome.cached.get(seq) if isinstance(outcome, Observed) and outcome.cached is not None else None

    def _compare(
        self,
        op: Mutation,
        before: Ledger,
        refused: bool,
        step: Step | None,
        seen: Observed,
        breaches: list[Breach],
    ) -> None:
        after = self.ledger
        free = seen.num_free_blocks
        due_free = after.num_free_blocks
        if "num_free_blocks" in self._capabilities and (type(free) is not int or free != due_free):
            for breach in wrong_free_count(op, refused, due_free, free):
                blocks = handled(op, before, step.change if step is not None else _NO_CHANGE)
                breaches.append(breach._replace(blocks=blocks))
        if seen.state is not None and seen.tables == seen.state.tables and seen.cached == seen.state.cached:
            return  # what follows is then told by the comparison of the structures
        for seq, record in after.sequences.items():
            due = record.table
            table = seen.tables.get(str(seq)) if seen.tables is not None else due
            if table != due and table != list(due):  # a tuple in this process, a list from another one
                what = f"the table of {seq!r} is to be {list(due)}, not {words.short(table)}"
                shown = block_list(table, after.num_blocks) or []
                wrong = unequal(due, shown, after.num_blocks) or due
                breaches.append(Breach("O1" if refused else "O5", what, wrong))
                self._caller.sees_table(str(seq), shown)
            count = record.num_cached_tokens
            cached = seen.cached.get(str(seq)) if seen.cached is not None else count
            if type(cached) is not int or cached != count:
                what = f"num_cached_tokens of {seq!r} is to be {count}, not {words.short(cached)}"
                breaches.append(Breach("O1" if refused else "O4", what, due))

    def _compare_ledger(
        self,
        op: Mutation,
        before: Ledger,
        refused: bool,
        step: Step | None,
        state: State,
        num_free_blocks: Any,
        breaches: list[Breach],
    ) -> None:
        if step is not None and step.change.registered:
            self._keys.learn(step.change, state, self.ledger)
        if self._agrees(state):
            return
        check_sense(state, self.ledger.num_blocks)
        observed = as_ledger(state, self.ledger, self._keys)
        logic = Finite(before, self.ledger, observed)
        x = Transition(
            LedgerView(before),
            LedgerView(observed, num_free_blocks=num_free_blocks),
            op.seq,
            op.tokens if isinstance(op, Allocate) else (op.token,) if isinstance(op, Append) else (),
            extra=op.extra.items if isinstance(op, Allocate) else (),
            refused=refused,
            result=step.result if step is not None else None,
            variants=self._variants,
        )
        kind = {Allocate: "allocate", Append: "append", Free: "free"}[type(op)]
        names = set(broken_by_step(kind, logic, x)) | set(broken_by_state(logic, x.after))
        names.discard("K1")  # the memory is looked at apart, through the target's own tables
        difference = words.ledgers_differ(self.ledger, observed)
        if not names:
            raise AssertionError(f"the ledgers differ and no obligation says so: {difference}")
        change = step.change if step is not None else _NO_CHANGE
        blocks = differing(self.ledger, observed) or handled(op, before, change)
        breaches += [Breach(name, difference, blocks) for name in SEVERITY if name in names]

    def _agrees(self, state: State) -> bool:
        """Whether the state is as is due; where nothing was to change, whether it is as it was."""
        ledger, agreed = self.ledger, self._agreed
        try:
            if agreed is not None and agreed[1] is ledger and agreed[0] == state:
                return True
            if not agrees(state, ledger, self._keys, self._variants, agreed):
                return False
        except (TypeError, ValueError):  # what cannot even be compared makes no sense
            return False
        self._agreed = state, ledger
        return True

    def _reads(self, outcomes: Sequence[Outcome], breaches: list[Breach]) -> None:
        for read, outcome in zip(self._program[2:-1], outcomes[2:-1], strict=True):
            if not isinstance(outcome, Returned):
                blocks = table_of(self.ledger, read.seq) if isinstance(read, Slot) else room(self.ledger)
                breaches.append(Breach("O2", words.unexpected(outcome), blocks))
                continue
            answer = outcome.value
            if type(read) is Slot:
                due = operations.slot(self.ledger, read.seq, read.pos)
                if type(answer) is not int or answer != due:
                    what = f"slot({read.seq!r}, {read.pos}) is to be {due}, not {words.short(answer)}"
                    blocks = blocks_of_slots(self.ledger.block_size, self.ledger.num_blocks, due, answer)
                    breaches.append(Breach("O5", what, blocks))
            elif type(read) is CanAllocate:
                fits = operations.can_allocate(self.ledger, read.num_tokens)
                if not isinstance(answer, int) or answer != fits:
                    free = words.count(self.ledger.num_free_blocks, "block")
                    what = f"can_allocate({read.num_tokens}) is to be {fits}, not {words.short(answer)}: {free} free"
                    breaches.append(Breach("O3", what, room(self.ledger)))

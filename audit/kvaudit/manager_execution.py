"""An execution at manager level: the specification beside a block manager, in lockstep."""

from __future__ import annotations

from typing import Any

import msgspec

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.errors import UsageError
from kvaudit.excuses import excused_by
from kvaudit.execution import Execution, Played
from kvaudit.observation import comparable
from kvaudit.oracle import Judgement, Oracle
from kvaudit.profiles import Profile
from kvaudit.protocol import Allocate, Free, Mutation, Observe, Operation, Outcome, Pool, is_hang
from kvaudit.report import StepShown
from kvaudit.steps_shown import step_shown
from kvaudit.targets import Target
from kvaudit.trace import TraceLine
from kvaudit.transcript import answers
from kvspec.extra import is_legal


class ManagerExecution(Execution[Mutation, Judgement]):
    """An execution of a block manager, whose caller is the auditor."""

    def __init__(self, target: Target, pool: Pool, profile: Profile) -> None:
        super().__init__(target, pool)
        self.oracle = Oracle(pool, profile, target.capabilities)
        self._excuses = profile.excuses
        self._asked: list[list[Operation]] = []

    @property
    def live(self) -> dict[Any, tuple[int, ...]]:
        """The tokens of each live sequence."""
        return {seq: record.tokens for seq, record in self.oracle.ledger.sequences.items()}

    def is_legal(self, operation: Mutation) -> bool:
        """Whether the caller may do this now: misuse has executions of its own. After an excused step nothing is."""
        if self.excused:
            return False
        is_live = operation.seq in self.oracle.ledger.sequences
        if isinstance(operation, Allocate):
            tokens = operation.tokens
            return not is_live and bool(tokens) and is_legal(operation.extra.items, len(tokens))
        return is_live

    def apply(self, operation: Mutation) -> Judgement:
        """Play one legal operation on the target and judge it.

        Raises UsageError if the target cannot be told what the sequence depends on beside its tokens.
        """
        if isinstance(operation, Allocate):
            check_offered(self.target, operation)
        asked = self.oracle.ask(operation)
        self._asked.append(asked)
        outcomes = self.target.run(asked)
        judgement = self.oracle.judge(operation, outcomes)
        self.hangs = is_hang(outcomes[-1])
        if judgement.breaches and not self.hangs:
            judgement = self._told_apart(operation, judgement, outcomes[-1])
            judgement = self._excused(operation, judgement)
        self.played.append(Played(operation, judgement))
        return judgement

    def _excused(self, operation: Mutation, judgement: Judgement) -> Judgement:
        """The judgement without its breaches, if each is by design."""
        excuses = excused_by(self._excuses, operation, judgement.breaches)
        if not excuses:
            return judgement
        return msgspec.structs.replace(judgement, breaches=(), excused=judgement.breaches, excuses=excuses)

    def _told_apart(self, operation: Mutation, judgement: Judgement, last: Outcome) -> Judgement:
        """Is it the operation that is wrong, or do reads and careless callers change what happens (O11)?

        The same operations are played once more on a fresh pool with nothing in between. Where that makes a
        difference, they are played as before, too: a target that does not repeat itself says nothing about reads.
        """
        noisy = comparable([*(played.judgement.answer for played in self.played), judgement.answer, last])
        self.target.open(self.pool)
        quiet = comparable(self.target.run([*self.scenario.program, operation, Observe()]))
        difference = next((pair for pair in zip(quiet, noisy, strict=False) if pair[0] != pair[1]), None)
        if difference is None:
            return judgement
        self.target.open(self.pool)
        repeated = [self.target.run(asked) for asked in self._asked]
        if comparable([*(outcomes[0] for outcomes in repeated), repeated[-1][-1]]) != noisy:
            self.repeats = False
            return judgement
        told = words.outcomes_differ(*difference)
        detail = f"without reads and overwritten lists in between, or with them: {told}"
        blocks = tuple(dict.fromkeys(b for breach in judgement.breaches for b in breach.blocks))
        return msgspec.structs.replace(judgement, breaches=(Breach("O11", detail, blocks),))

    def give_all_back(self) -> None:
        """Free every live sequence, and then fill the whole pool once: nothing may have leaked."""
        whole = self.pool.num_blocks * self.pool.block_size
        frees: list[Mutation] = [Free(str(seq)) for seq in self.oracle.ledger.sequences]
        for operation in [*frees, Allocate("all", (3,) * whole), Free("all")]:
            if self.breaches or self.excused:
                return
            self.apply(operation)

    def shown(self) -> list[StepShown]:
        """Each step in words, with the pool after it."""
        return list(map(step_shown, self.played))

    def transcript(self) -> list[TraceLine]:
        """The lines of its trace, each with what was expected and what came."""
        return [
            TraceLine(number, played.operation, *answers(played.operation, played.judgement))
            for number, played in enumerate(self.played, start=1)
        ]


def check_offered(target: Target, operation: Allocate) -> None:
    """Raises UsageError if the sequence depends on something that the target cannot be told."""
    missing = [name for name in operation.extra.named() if name not in target.capabilities]
    if missing:
        raise UsageError(
            f"{target.name} cannot be given the {' and '.join(missing)} of {operation.seq!r}: its allocate is to take "
            f"an argument of that name, or a program is to declare it in its capabilities"
        )

"""An execution at scheduler level."""

from __future__ import annotations

from kvaudit.execution import Execution, Played
from kvaudit.profiles import Profile
from kvaudit.protocol import Pool, Request, Step, Submit, is_hang
from kvaudit.report import StepShown
from kvaudit.scheduling.oracle import Judgement, Oracle
from kvaudit.scheduling.steps_shown import answer_of, step_shown
from kvaudit.targets import Target
from kvaudit.trace import TraceLine


class SchedulerExecution(Execution[Request, Judgement]):
    """An execution of a scheduler, whose server is the auditor."""

    def __init__(self, target: Target, pool: Pool, profile: Profile) -> None:
        super().__init__(target, pool)
        self.oracle = Oracle(pool)
        self._longest = profile.limits.longest(pool)

    @property
    def live(self) -> dict[str, list[int]]:
        """The tokens of each live request."""
        return {seq: request.tokens for seq, request in self.oracle.live.items()}

    def is_legal(self, operation: Request) -> bool:
        """Whether a server may do this now. A request is submitted only if the target is to take it."""
        live = self.oracle.live
        if isinstance(operation, Submit):
            length = len(operation.tokens) + operation.max_new_tokens
            is_request = bool(operation.tokens) and operation.max_new_tokens >= 1 and length <= self._longest
            return is_request and operation.seq not in live
        if isinstance(operation, Step):
            return len(set(operation.cancel)) == len(operation.cancel) and live.keys() >= set(operation.cancel)
        return operation.seq in live

    def apply(self, operation: Request) -> Judgement:
        """Play one legal operation on the target and judge it."""
        outcomes = self.target.run(self.oracle.ask(operation))
        judgement = self.oracle.judge(operation, outcomes)
        self.hangs = is_hang(outcomes[-1])
        self.played.append(Played(operation, judgement))
        return judgement

    def give_all_back(self) -> None:
        """Serve every request to its end, and then the longest that there can be: nothing may have leaked."""
        self._drain()
        whole = Submit("all", (3,) * (self._longest - 1), 1)
        if not self.breaches and self.is_legal(whole):
            self.apply(whole)
            self._drain()

    def _drain(self) -> None:
        """Ends, since the oracle says so if it does not."""
        while self.oracle.live and not self.breaches:
            self.apply(Step(3))

    def shown(self) -> list[StepShown]:
        """Each step in words, with the pool after it."""
        return [step_shown(played, self.pool) for played in self.played]

    def transcript(self) -> list[TraceLine]:
        """The lines of its trace, each with what came."""
        return [
            TraceLine(number, played.operation, came=answer_of(played.judgement))
            for number, played in enumerate(self.played, start=1)
        ]

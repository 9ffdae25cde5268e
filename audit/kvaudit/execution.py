"""One execution: a target and an oracle on one fresh pool, until the first breach or the end.

What is common to both levels: `manager_execution` drives a block manager, `scheduling.execution` a scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec

from kvaudit.breach import Breach
from kvaudit.errors import TargetError
from kvaudit.protocol import AnyMutation, Pool
from kvaudit.report import StepShown
from kvaudit.scenario import Scenario
from kvaudit.targets import Target
from kvaudit.trace import TraceLine

Op = TypeVar("Op", bound=AnyMutation)


class Judged(Protocol):
    """What is known of an operation at either level."""

    @property
    def breaches(self) -> tuple[Breach, ...]: ...

    @property
    def refused(self) -> bool: ...

    @property
    def excused(self) -> tuple[Breach, ...]: ...


J = TypeVar("J", bound=Judged)


class Played(msgspec.Struct, Generic[Op, J], frozen=True):
    """An operation and what came of it."""

    operation: Op
    judgement: J


class Execution(Generic[Op, J]):
    """Applies operations one by one. After a breach (see `breaches`), excused or not, nothing more can be applied."""

    def __init__(self, target: Target, pool: Pool) -> None:
        _open(target, pool)
        self.pool = pool
        self.target = target
        self.played: list[Played[Op, J]] = []
        self.repeats = True  # as far as is known
        self.hangs = False  # the last operation, or a read after it, did not return in time

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """What the last operation broke."""
        return self.played[-1].judgement.breaches if self.played else ()

    @property
    def excused(self) -> tuple[Breach, ...]:
        """What the last operation broke by design."""
        return self.played[-1].judgement.excused if self.played else ()

    @property
    def scenario(self) -> Scenario:
        """What has been played so far."""
        return Scenario(self.pool, tuple(played.operation for played in self.played))

    @property
    def live(self) -> Mapping[Any, Sequence[int]]:
        """The tokens of each live sequence."""
        raise NotImplementedError

    def is_legal(self, operation: Op) -> bool:
        """Whether the caller may do this now: misuse has executions of its own."""
        raise NotImplementedError

    def apply(self, operation: Op) -> J:
        """Play one legal operation on the target and judge it."""
        raise NotImplementedError

    def give_all_back(self) -> None:
        """End every live sequence, and then use the whole pool once: nothing may have leaked."""
        raise NotImplementedError

    def shown(self) -> list[StepShown]:
        """Each step in words, with the pool after it."""
        raise NotImplementedError

    def transcript(self) -> list[TraceLine]:
        """The lines of its trace, each with what was expected and what came."""
        raise NotImplementedError

    def play(self, program: Sequence[Op]) -> Self:
        """Play a program up to its first breach; operations that are not legal where they stand are left out."""
        for operation in program:
            if self.is_legal(operation) and self.apply(operation).breaches:
                break
        return self


def _open(target: Target, pool: Pool) -> None:
    failed = target.open(pool)
    if failed is None:
        return
    said = f"{failed.error}: {failed.message}" if failed.message else failed.error
    if failed.error == "TypeError":  # its constructor takes other arguments, most likely
        said += ". It is called with num_blocks, block_size and enable_prefix_cache, in this order"
    chosen = "".join(f", {name}={value!r}" for name, value in pool.configuration.items())
    raise TargetError(
        f"{target.name} could not make a pool of {pool.num_blocks} blocks of {pool.block_size} tokens "
        f"(prefix cache {'on' if pool.enable_prefix_cache else 'off'}{chosen}): {said}"
    )

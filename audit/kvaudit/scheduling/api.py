"""A scheduler in this process: any class with `submit`, `step` and `cancel`, driven as a server drives it.

A constructor `(num_blocks, block_size, enable_prefix_cache, **settings)`; what else it offers (`num_free_blocks`,
`observe`) is checked too. `SETTINGS` names its settings, each with the values among which a configuration is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from kvaudit.api import as_state
from kvaudit.errors import TargetError
from kvaudit.in_process import MOST, InProcessTarget, plain
from kvaudit.protocol import SCHEDULER, Cancel, LevelName, Observe, Observed, Outcome, Returned, Setting, Step, Submit

REQUIRED = ("submit", "step", "cancel")
OPTIONAL = ("num_free_blocks", "observe")

_DONE = Returned()


class SchedulerTarget(InProcessTarget):
    """Executes operations on instances of a class with the API of a scheduler."""

    driven_at: ClassVar[LevelName] = SCHEDULER
    required = REQUIRED
    optional = OPTIONAL

    def __init__(self, make: Callable[..., Any], **options: Any) -> None:
        super().__init__(make, **options)
        self.settings: Mapping[str, tuple[Setting, ...]] = _settings(self.name, getattr(make, "SETTINGS", {}))

    def _handlers(self) -> Mapping[type[Any], Callable[[Any], Outcome]]:
        return {Submit: self._submit, Step: self._step, Cancel: self._cancel, Observe: self._observe}

    def _submit(self, operation: Submit) -> Outcome:
        self._manager.submit(operation.seq, list(operation.tokens), operation.max_new_tokens)
        return _DONE

    def _step(self, operation: Step) -> Outcome:
        return Returned(_plain_work(self._manager.step(operation.token, operation.cancel)))

    def _cancel(self, operation: Cancel) -> Outcome:
        self._manager.cancel(operation.seq)
        return _DONE

    def _observe(self, _: Observe) -> Outcome:
        scheduler, offers = self._manager, self.capabilities
        free = getattr(scheduler, "num_free_blocks", None)
        free = plain(free() if callable(free) else free)
        if free is None and "num_free_blocks" in offers:
            raise TargetError(f"{self.name}: num_free_blocks is None; leave it out if it cannot be told")
        return Observed(
            num_free_blocks=free,
            state=as_state(scheduler.observe()) if "observe" in offers else None,
        )


def _plain_work(value: Any) -> Any:
    """`plain`, but mappings stay mappings."""
    if isinstance(value, Mapping):
        return {str(key): _plain_work(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_work(item) for item in value]
    if isinstance(value, str):  # a lone surrogate can be neither sent nor written
        return value.encode("utf-8", "backslashreplace").decode()
    return plain(value)


def _settings(name: str, given: Any) -> dict[str, tuple[Setting, ...]]:
    """The settings of a class. Raises TargetError if they are none."""
    if not isinstance(given, Mapping):
        raise TargetError(f"{name}.SETTINGS is to be a mapping of names to the values that each may have")
    settings = {}
    for setting, values in given.items():
        plain_values = isinstance(values, Sequence) and not isinstance(values, str)
        if not plain_values or not values or not all(isinstance(v, Setting) for v in values):
            raise TargetError(
                f"{name}.SETTINGS[{setting!r}] is to be a tuple of numbers, strings, booleans or None, "
                f"and of one value at least, not {values!r:.60}"
            )
        if any(isinstance(v, int) and abs(v) > MOST for v in values):
            raise TargetError(f"{name}.SETTINGS[{setting!r}] has a number of more than 64 bits")
        settings[str(setting)] = tuple(values)
    return settings

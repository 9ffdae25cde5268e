"""A saved failure as a program that reads like calls: what `test_repro.py` beside a trace imports."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET

from kvaudit import words
from kvaudit.errors import TargetError, UsageError
from kvaudit.execution import Execution
from kvaudit.findings import details
from kvaudit.levels import play, rules_for, unseen
from kvaudit.protocol import Allocate, AnyMutation, Append, Cancel, Extras, Free, LevelName, Pool, Setting, Step, Submit
from kvaudit.refusals import Refusals, refusal_names
from kvaudit.scenario import Scenario
from kvaudit.targets import DEFAULT_TIMEOUT_S, Target, TargetSpec
from kvspec.extra import Image, Lora


class Audited:
    """A target of which every answer is judged.

    Each call raises AssertionError, saying what is wrong, if the manager breaks an obligation at it. A refusal that is
    due is no error. A call that a caller may not make now (a right manager may have refused what came before) is left
    out.
    """

    def __init__(self, execution: Execution[Any, Any]) -> None:
        self._execution = execution

    def allocate(
        self,
        seq: str,
        tokens: Sequence[int],
        *,
        salt: str | None = None,
        lora: tuple[str, str] | None = None,
        images: Sequence[tuple[bytes, int, int]] = (),
    ) -> None:
        """A new sequence with these tokens. lora: id and version. images: each its content hash, start and length."""
        __tracebackhide__ = True  # a failure is shown at the call
        extra = Extras(salt, Lora(*lora) if lora else None, tuple(Image(*image) for image in images))
        self._apply(Allocate(seq, tuple(tokens), extra))

    def append_slot(self, seq: str, token: int) -> None:
        """One more token of a live sequence."""
        __tracebackhide__ = True
        self._apply(Append(seq, token))

    def free(self, seq: str) -> None:
        """The end of a live sequence."""
        __tracebackhide__ = True
        self._apply(Free(seq))

    def submit(self, seq: str, tokens: Sequence[int], max_new_tokens: int) -> None:
        """A request arrives at a scheduler."""
        __tracebackhide__ = True
        self._apply(Submit(seq, tuple(tokens), max_new_tokens))

    def step(self, token: int, cancel: Sequence[str] = ()) -> None:
        """A step of a scheduler, in which whoever samples gets that token, and some are cancelled meanwhile."""
        __tracebackhide__ = True
        self._apply(Step(token, tuple(cancel)))

    def cancel(self, seq: str) -> None:
        """A live request is given up, between two steps."""
        __tracebackhide__ = True
        self._apply(Cancel(seq))

    def _apply(self, operation: AnyMutation) -> None:
        __tracebackhide__ = True
        if not self._execution.is_legal(operation):
            return
        judgement = self._execution.apply(operation)
        if judgement.breaches:
            step = self._execution.shown()[-1]
            expected = f"expected: {step.expected}; came: {step.got}"
            raise AssertionError("\n  ".join([words.call(operation), expected, *details(judgement.breaches)]))


def _start(spec: TargetSpec, root: Path | str) -> Target:
    """Start the target from its folder. A test that was moved has another one: an error says so."""
    __tracebackhide__ = True
    try:
        with contextlib.chdir(root):
            return spec.start()
    except (UsageError, TargetError, OSError) as error:
        hint = f"{spec.text} was looked for from the folder {Path(root).resolve()}: is that ROOT, or `root=`, right?"
        raise UsageError(f"{error}\n{hint}") from None


@contextlib.contextmanager
def audited(
    target: str,
    *,
    num_blocks: int,
    block_size: int,
    enable_prefix_cache: bool = True,
    root: Path | str = ".",
    profile: str | None = None,
    source: str | None = None,
    settings: Sequence[str] = (),
    refusals: Refusals = (),
    isolate: bool = False,
    black_box: bool = False,
    timeout: float = DEFAULT_TIMEOUT_S,
    hidden: str = "",
    level: LevelName | None = None,
    configuration: Mapping[str, Setting] | None = None,
) -> Iterator[Audited]:
    """One fresh pool of a target, held to the specification; the options are those of `kvaudit run`.

    root: the folder from which the target is started. hidden: an obligation that cannot be judged from the answers
    alone: where nothing is found and the target does not offer what is needed to see it, unittest.SkipTest is raised,
    which pytest knows, too. configuration: the settings of a scheduler. Raises UsageError if the target does not start.
    """
    __tracebackhide__ = True
    spec = TargetSpec(target, source, refusal_names(refusals), isolate, black_box, timeout, tuple(settings), level)
    manager = _start(spec, root)
    try:
        chosen = dict(configuration) if configuration else UNSET
        rules = rules_for(manager, profile)
        yield Audited(play(manager, Scenario(Pool(num_blocks, block_size, enable_prefix_cache, chosen), ()), rules))
        missing = unseen(rules, hidden, manager.capabilities)
        if missing:
            raise unittest.SkipTest(f"without {', '.join(missing)} a violation of {hidden} may not show")
    finally:
        manager.close()

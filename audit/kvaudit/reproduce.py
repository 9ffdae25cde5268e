"""A saved failure as a program that reads like calls: what `test_repro.py` beside a trace imports."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvaudit import words
from kvaudit.errors import TargetError, UsageError
from kvaudit.execution import Execution
from kvaudit.findings import details, unseen
from kvaudit.protocol import Allocate, Append, Extras, Free, Mutation, Pool
from kvaudit.refusals import Refusals, refusal_names
from kvaudit.targets import DEFAULT_TIMEOUT_S, Target, TargetSpec, profile_named
from kvspec.extra import Image, Lora


class Audited:
    """A block manager of which every answer is judged.

    Each call raises AssertionError, saying what is wrong, if the manager breaks an obligation at it. A refusal that is
    due is no error. A call that a caller may not make now (a right manager may have refused what came before) is left
    out.
    """

    def __init__(self, execution: Execution) -> None:
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

    def _apply(self, operation: Mutation) -> None:
        __tracebackhide__ = True
        if not self._execution.is_legal(operation):
            return
        judgement = self._execution.apply(operation)
        if judgement.breaches:
            expected = f"expected: {words.expected(operation, judgement)}; came: {words.came(judgement)}"
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
) -> Iterator[Audited]:
    """One fresh pool of a target, held to the specification; the options are those of `kvaudit run`.

    root: the folder from which the target is started. hidden: an obligation that cannot be judged from the answers
    alone: where nothing is found and the target does not offer what is needed to see it, unittest.SkipTest is raised,
    which pytest knows, too. Raises UsageError if the target does not start.
    """
    __tracebackhide__ = True
    spec = TargetSpec(target, source, refusal_names(refusals), isolate, black_box, timeout, tuple(settings))
    manager = _start(spec, root)
    try:
        pool = Pool(num_blocks, block_size, enable_prefix_cache)
        yield Audited(Execution(manager, pool, profile_named(profile or manager.profile)))
        missing = unseen(hidden, manager.capabilities)
        if missing:
            raise unittest.SkipTest(f"without {', '.join(missing)} a violation of {hidden} may not show")
    finally:
        manager.close()

"""One test an obligation: `test_blocks = conformance(Blocks)` in a test module. See docs/pytest.md.

The options `--kvaudit-*` and the lines at the end of a session are those of the plugin `_kvaudit_pytest`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from _kvaudit_pytest import TOLD
from kvaudit.cli.options import FAILURES
from kvaudit.errors import TargetError, UsageError
from kvaudit.outcomes import Outcome, as_text, outcome_of
from kvaudit.report import Report
from kvaudit.runner import DEFAULT_MAX_STEPS, DEFAULT_SEED, INTERRUPTED, Audit, Options
from kvaudit.targets import DEFAULT_TIMEOUT_S, Target, TargetSpec, profile_named
from kvaudit.terminal import last_line
from kvspec.obligations import OBLIGATIONS


def conformance(
    target: type[Any] | str,
    *,
    profile: str | None = None,
    steps: int = DEFAULT_MAX_STEPS,
    seed: int = DEFAULT_SEED,
    misuse: bool = False,
    failures: Path | str = FAILURES,
    source: str | None = None,
    settings: Sequence[str] = (),
    refusals: Sequence[str] = (),
    isolate: bool = False,
    black_box: bool = False,
    timeout: float = DEFAULT_TIMEOUT_S,
) -> Callable[..., None]:
    """A test function with a case for each obligation; assign it to a name that pytest collects.

    target: a class, or the name of a target as on the command line. The other arguments are the options of
    `kvaudit run`; the options `--kvaudit-*` of pytest come before them. Cost: nothing at collection; one audit at the
    first case, whose report the others share. A mistake in the arguments ends the collection of the module.
    """
    try:
        if profile is not None:
            profile_named(profile)
        spec = TargetSpec(_name_of(target), source, tuple(refusals), isolate, black_box, timeout, tuple(settings))
    except UsageError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    cls = target if isinstance(target, type) and not isolate else None
    options = Options(seed=seed, max_steps=steps, misuse=misuse, failures=Path(failures))
    audit = _SharedAudit(spec, cls, profile, options)

    @pytest.mark.parametrize("obligation", list(OBLIGATIONS))
    def conforms(obligation: str, request: pytest.FixtureRequest) -> None:
        report = audit.report(request.config)
        row = next(row for row in report.rows if row.obligation == obligation)
        decide(outcome_of(row, report), lenient=_option(request.config, "allow_inconclusive", False))

    return staticmethod(conforms)  # so that a class of tests may have it, too


def decide(outcome: Outcome, *, lenient: bool) -> None:
    """Say it to pytest. lenient: skip what is inconclusive, instead of failing."""
    if outcome.kind == "failed" or (outcome.kind == "inconclusive" and not lenient):
        pytest.fail(outcome.told, pytrace=False)
    if outcome.kind != "passed":
        pytest.skip(outcome.told)


@dataclass
class _SharedAudit:
    """An audit that is made when its report is first asked for."""

    spec: TargetSpec
    cls: type[Any] | None
    profile: str | None
    options: Options
    _report: Report | None = None
    _failed: str = ""

    def report(self, config: pytest.Config) -> Report:
        """The report. If the target does not start, the test that asks first fails, and the others are skipped."""
        if self._failed:
            pytest.skip(f"no audit: {self._failed}")
        if self._report is None:
            try:
                self._report = self._audit(config)
            except (UsageError, TargetError) as error:
                self._failed = str(error).partition("\n")[0]
                pytest.fail(str(error), pytrace=False)
            if self._report.cut_short == INTERRUPTED:
                raise KeyboardInterrupt
            config.stash.setdefault(TOLD, []).append(
                f"{as_text(last_line(self._report))}, seed {self._report.header.seed}"
            )
        return self._report

    def _audit(self, config: pytest.Config) -> Report:
        options = replace(
            self.options,
            seed=_option(config, "seed", self.options.seed),
            max_steps=_option(config, "steps", self.options.max_steps),
            failures=Path(_option(config, "failures", self.options.failures)),
        )
        name = _option(config, "profile", self.profile)
        if name is not None:
            profile_named(name)
        target = self._start()
        try:
            rules = profile_named(name or target.profile)
            return Audit(target, self.spec, rules, options, lambda event: None).run()
        finally:
            target.close()

    def _start(self) -> Target:
        return self.spec.start() if self.cls is None else self.spec.start_class(self.cls)


def _option(config: pytest.Config, name: str, otherwise: Any) -> Any:
    """An option of the plugin, if it is given."""
    given = config.getoption(f"kvaudit_{name}", None)
    return otherwise if given is None else given


def _name_of(target: type[Any] | str) -> str:
    """What the command line calls the target, for traces and for what repeats a failure. Raises UsageError."""
    if isinstance(target, str):
        return target
    if not isinstance(target, type):
        raise UsageError(f"conformance() takes a class, or the name of a target, not {target!r:.60}")
    module, name = target.__module__, target.__qualname__
    if "<locals>" in name:
        raise UsageError(f"{name} is made inside a function: a failure can be repeated only of a class with a name")
    file = inspect.getsourcefile(sys.modules[module]) if module in sys.modules else None
    if file is not None and "." not in module and Path(file).resolve().is_relative_to(Path.cwd()):
        return f"{Path(file).resolve().relative_to(Path.cwd())}:{name}"
    return f"{module}:{name}"

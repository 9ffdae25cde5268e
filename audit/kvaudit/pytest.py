"""One test an obligation: `test_blocks = conformance(Blocks)` in a test module. See docs/pytest.md.

The options `--kvaudit-*` and the lines at the end of a session are those of the plugin `_kvaudit_pytest`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from _kvaudit_pytest import TOLD
from kvaudit.cli.options import FAILURES
from kvaudit.ending import INTERRUPTED
from kvaudit.errors import TargetError, UsageError
from kvaudit.levels import rules_for
from kvaudit.outcomes import Outcome, as_text, outcome_of
from kvaudit.pytest_session import Made, made_once, progress_shown
from kvaudit.refusals import Refusals, refusal_names
from kvaudit.report import Report
from kvaudit.runner import DEFAULT_MAX_STEPS, DEFAULT_SEED, Audit, Options
from kvaudit.targets import DEFAULT_TIMEOUT_S, Target, TargetSpec, name_of_class, profile_named
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
    refusals: Refusals = (),
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
        spec = TargetSpec(
            _name_of(target), source, refusal_names(refusals), isolate, black_box, timeout, tuple(settings)
        )
    except UsageError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    cls = target if isinstance(target, type) and not isolate else None
    options = Options(seed=seed, max_steps=steps, misuse=misuse, failures=Path(failures))
    audit = _SharedAudit(spec, cls, profile, options)

    @pytest.mark.parametrize("obligation", list(OBLIGATIONS))
    def conforms(obligation: str, request: pytest.FixtureRequest) -> None:
        report = audit.report(request)
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
    """An audit that is made when its report is first asked for, once in a session."""

    spec: TargetSpec
    cls: type[Any] | None
    profile: str | None
    options: Options
    _made: Made | None = None

    def report(self, request: pytest.FixtureRequest) -> Report:
        """The report. If the target does not start, the test that asks first fails, and the others are skipped."""
        is_first = False
        if self._made is None:
            config = request.config
            options = self._options(config)
            profile = _option(config, "profile", self.profile)
            try:
                key = (self.spec, profile, options)
                self._made, is_first = made_once(request, key, lambda: self._make(config, profile, options))
            except Exception as error:  # a bug of kvaudit: it is shown once
                self._made = Made(failed=f"{type(error).__name__}: {error}")
                raise
            if is_first and self._made.report is not None:
                told = f"{as_text(last_line(self._made.report))}, seed {options.seed}"
                config.stash.setdefault(TOLD, []).append(told)
        if self._made.report is None:
            if is_first:
                pytest.fail(self._made.failed, pytrace=False)
            pytest.skip(f"no audit: {self._made.failed.splitlines()[0]}")
        return self._made.report

    def _options(self, config: pytest.Config) -> Options:
        return replace(
            self.options,
            seed=_option(config, "seed", self.options.seed),
            max_steps=_option(config, "steps", self.options.max_steps),
            failures=Path(_option(config, "failures", self.options.failures)),
        )

    def _make(self, config: pytest.Config, profile: str | None, options: Options) -> Made:
        """The audit. Raises KeyboardInterrupt after Ctrl-C: then there is nothing that others could read."""
        try:
            if profile is not None:
                profile_named(profile)
            target = self._start()
            try:
                rules = rules_for(target, profile)
                with progress_shown(config, self.spec.text) as show:
                    report = Audit(target, self.spec, rules, options, show).run()
            finally:
                target.close()
        except (UsageError, TargetError) as error:
            return Made(failed=str(error))
        if report.cut_short == INTERRUPTED:
            raise KeyboardInterrupt
        return Made(report)

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
    name = target.__qualname__
    if "<locals>" in name:
        raise UsageError(f"{name} is made inside a function: a failure can be repeated only of a class with a name")
    return name_of_class(target)

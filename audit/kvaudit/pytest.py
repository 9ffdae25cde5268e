"""One test an obligation: `test_blocks = conformance(Blocks)` in a test module. See docs/pytest.md.

The options `--kvaudit-*` and the lines at the end of a session are those of the plugin `_kvaudit_pytest`.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from _kvaudit_pytest import TOLD
from kvaudit.cli.options import FAILURES
from kvaudit.errors import TargetError, UsageError
from kvaudit.report import HOLDS, NOT_OBSERVABLE, TRUSTING, VIOLATED, VIOLATION, Report, Row
from kvaudit.runner import DEFAULT_MAX_STEPS, DEFAULT_SEED, INTERRUPTED, Audit, Options
from kvaudit.targets import DEFAULT_TIMEOUT_S, Target, TargetSpec, profile_named
from kvaudit.terminal import finding_shown, last_line
from kvaudit.verdicts import ESSENTIAL
from kvspec.obligations import OBLIGATIONS

_WIDTH = 100


def conformance(
    target: type[Any] | str,
    *,
    profile: str | None = None,
    steps: int = DEFAULT_MAX_STEPS,
    seed: int = DEFAULT_SEED,
    misuse: bool = False,
    failures: Path | str = FAILURES,
    source: str | None = None,
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
        spec = TargetSpec(_name_of(target), source, tuple(refusals), isolate, black_box, timeout)
    except UsageError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    cls = target if isinstance(target, type) and not isolate else None
    audit = _SharedAudit(spec, cls, profile, Options(seed, steps, None, False, misuse, Path(failures)))

    @pytest.mark.parametrize("obligation", list(OBLIGATIONS))
    def conforms(obligation: str, request: pytest.FixtureRequest) -> None:
        report = audit.report(request.config)
        row = next(row for row in report.rows if row.obligation == obligation)
        decide(row, report, lenient=_option(request.config, "allow_inconclusive", False))

    return conforms


def decide(row: Row, report: Report, *, lenient: bool) -> None:
    """Pass for what holds, fail for what is violated or inconclusive, and skip what cannot be seen.

    What is inconclusive is skipped where something is violated: that is why, and it fails. lenient: skip it anyway.
    """
    if row.verdict == VIOLATED:
        pytest.fail(_violation(row, report), pytrace=False)
    essential = ESSENTIAL.get(row.obligation)
    if essential is not None and essential not in report.header.capabilities:
        told = f"{row.obligation} is not observable: the target offers no {essential}, and no verdict counts without"
    elif row.verdict == HOLDS:
        return
    elif row.verdict in (NOT_OBSERVABLE, TRUSTING):
        pytest.skip(f"{row.obligation} is {row.verdict}: {row.form if row.verdict == TRUSTING else row.detail}")
    else:
        told = f"{row.obligation} is {row.verdict}: {'; '.join(filter(None, (row.detail, report.cut_short)))}"
    if lenient or report.exit_code == VIOLATION:
        pytest.skip(f"inconclusive: {told}")
    pytest.fail(f"inconclusive: {told}", pytrace=False)


def _violation(row: Row, report: Report) -> str:
    """The findings of that obligation with all their steps; or what was seen of it in another's."""
    own = [finding for finding in report.findings if finding.obligation == row.obligation]
    if not own:
        return f"{row.obligation} is violated: {row.title}\n{row.detail}"
    parts = [_text(finding_shown(finding)) for finding in own]
    kept = [f"kept in {Path(finding.trace).parent}" for finding in own if finding.trace is not None]
    return "\n".join([*parts, *kept])


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
            config.stash.setdefault(TOLD, []).append(_told(self._report))
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


def _told(report: Report) -> str:
    return f"{_text(last_line(report))}, seed {report.header.seed}"


def _text(shown: RenderableType) -> str:
    """What the terminal shows, as plain text."""
    file = io.StringIO()
    Console(file=file, width=_WIDTH, color_system=None).print(shown, soft_wrap=not hasattr(shown, "renderables"))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).rstrip()

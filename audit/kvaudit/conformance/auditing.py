"""Audits every engine that has been fetched, for the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvaudit.engines.fetch import fetched
from kvaudit.errors import TargetError, UsageError
from kvaudit.report import Event, Report
from kvaudit.runner import Audit, Options
from kvaudit.targets import TargetSpec, profile_named


def fetched_engines() -> list[TargetSpec]:
    """Every engine and version in the cache. Raises UsageError if there is none."""
    specs = [TargetSpec(f"{name}=={version}") for name, version in fetched()]
    if not specs:
        raise UsageError("no engine has been fetched: kvaudit fetch vllm==0.33.0 brings one")
    return specs


def audited(
    specs: Sequence[TargetSpec], options: Options, on_event: Callable[[TargetSpec, Event], None]
) -> Iterator[tuple[TargetSpec, Report | str]]:
    """The report of each target, or why it could not be started. No failure is saved."""
    for spec in specs:
        try:
            target = spec.start()
        except (TargetError, UsageError) as error:
            yield spec, str(error)
            continue
        try:
            yield spec, Audit(target, spec, profile_named(target.profile), options, _telling(spec, on_event)).run()
        finally:
            target.close()


def _telling(spec: TargetSpec, on_event: Callable[[TargetSpec, Event], None]) -> Callable[[Event], None]:
    return lambda event: on_event(spec, event)

"""Where the time goes: the own time of each function, by what its module is there for.

The profiler costs something at each call, so that small functions and their callers look several times as slow as they
are. How much that is in all, a run without it tells; it is taken off again, the same for each call. (To look at the
stack now and then would cost nothing, but Python lets itself be looked at only at some places.)
"""

from __future__ import annotations

import cProfile
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import CodeType

OTHER = "the rest: loops, counting, the budget"

PARTS: Mapping[str, tuple[str, ...]] = {
    "generating": (
        "hypothesis",
        "kvaudit.machine",
        "kvaudit.swarm",
        "kvaudit.workload",
        "kvaudit.workload_extras",
        "kvaudit.explore.moves",
    ),
    "the target": ("kvblocks",),
    "calling it, reading and copying what it shows": (
        "kvaudit.api",
        "kvaudit.in_process",
        "kvaudit.time_limit",
        "kvaudit.explore.subject:restore",
        "kvaudit.explore.subject:state",
    ),
    "the step of the specification": (
        "kvspec.operations",
        "kvspec.ledger",
        "kvspec.policy",
        "kvspec.identity",
        "kvspec.extra",
        "kvaudit.rulings",
        "kvaudit.choices",
    ),
    "comparing": (
        "kvaudit.oracle",
        "kvaudit.manager_execution",
        "kvaudit.observation",
        "kvaudit.explore.subject",
        "kvaudit.explore.probes",
    ),
    "the shadow memory": ("kvaudit.caller", "kvspec.memory"),
    "invariants": ("kvspec.logic", "kvspec.invariants", "kvspec.obligations", "kvspec.postconditions"),
    "reach goals": ("kvaudit.tracker",),
    "canonical forms": ("kvaudit.explore.canonical",),
}
"""Packages, modules, or functions of one, by what they are there for. What is not named here counts for its caller."""

_PART_OF = {name: part for part, names in PARTS.items() for name in names}


def shares(run: Callable[[], object]) -> dict[str, float]:
    """Of the time that `run` takes, which part each of PARTS has. Runs it twice."""
    began = time.perf_counter()
    run()
    plain = time.perf_counter() - began
    profile = cProfile.Profile(builtins=False)
    profile.runcall(run)
    seconds, calls = _by_part(profile)
    overhead = max(0.0, sum(seconds.values()) - plain) / sum(calls.values())
    left = {part: max(0.0, seconds[part] - overhead * calls[part]) for part in (*PARTS, OTHER) if part in seconds}
    return {part: round(own / sum(left.values()), 3) for part, own in left.items()}


def _by_part(profile: cProfile.Profile) -> tuple[dict[str, float], dict[str, float]]:
    """Of each part its own time, and half of the calls that it makes and that are made to it."""
    modules = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    seconds: dict[str, float] = defaultdict(float)
    calls: dict[str, float] = defaultdict(float)
    for entry in profile.getstats():
        part = _part(entry.code, modules)
        if part is not None:
            seconds[part] += entry.inlinetime
            calls[part] += entry.callcount / 2
        for called in entry.calls or ():
            calls[part or OTHER] += called.callcount / 2
            if _part(called.code, modules) is None:
                seconds[part or OTHER] += called.inlinetime
                calls[part or OTHER] += called.callcount / 2
    return seconds, calls


def _part(code: CodeType | str, modules: Mapping[str | None, str]) -> str | None:
    if isinstance(code, str):  # the profiler itself
        return None
    module = modules.get(code.co_filename, "")
    for name in (f"{module}:{code.co_name}", module, module.partition(".")[0]):
        if name in _PART_OF:
            return _PART_OF[name]
    return None

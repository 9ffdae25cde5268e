"""Where the time goes: the own time of each function, by what its module is there for.

The profiler hears of Python's functions only: what they call in C is their own time. It costs something at each call,
so that small functions look slower than they are; of whole modules that distorts little. (To look at the stack now and
then would cost nothing, but Python lets itself be looked at only at some places.)
"""

from __future__ import annotations

import cProfile
import sys
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
    """Of the time that `run` takes, which part each of PARTS has."""
    profile = cProfile.Profile(builtins=False)
    profile.runcall(run)
    modules = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    seconds: dict[str, float] = defaultdict(float)
    for entry in profile.getstats():
        part = _part(entry.code, modules)
        if part is not None:
            seconds[part] += entry.inlinetime
        for called in entry.calls or ():
            if _part(called.code, modules) is None:
                seconds[part or OTHER] += called.inlinetime
    return {part: round(seconds[part] / sum(seconds.values()), 3) for part in (*PARTS, OTHER) if part in seconds}


def _part(code: CodeType | str, modules: Mapping[str | None, str]) -> str | None:
    if isinstance(code, str):  # the profiler itself
        return None
    module = modules.get(code.co_filename, "")
    for name in (f"{module}:{code.co_name}", module, module.partition(".")[0]):
        if name in _PART_OF:
            return _PART_OF[name]
    return None

"""Explores a target: one pool after the other, to the first counterexample."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from kvaudit import __version__
from kvaudit.explore.job import Job, Tick
from kvaudit.explore.names import BLOCKS, SEQUENCES, TOKENS
from kvaudit.explore.pool import PoolSearch
from kvaudit.explore.report import EXHAUSTIVE, Explored, PoolSearched
from kvaudit.interrupt import Interrupt
from kvaudit.misuse import bad_pool, bad_pools
from kvaudit.protocol import Pool
from kvaudit.report import CONFORMS, INCONCLUSIVE, VIOLATION, Finding
from kvspec import SPEC_VERSION

ASSUMED = {
    BLOCKS: "block numbers are used as indices only",
    SEQUENCES: "sequence ids are used by equality only",
    TOKENS: "token ids are used by equality only, and only after equal prefixes",
}
"""What each symmetry assumes of a target."""


def pools(num_blocks: int, block_size: int, *, smaller: bool) -> list[Pool]:
    """The pool with the cache on and off; with `smaller` every smaller one before it."""
    sizes = [(num_blocks, block_size)]
    if smaller:
        sizes = [(blocks, size) for blocks in range(1, num_blocks + 1) for size in range(1, block_size + 1)]
    return [Pool(blocks, size, cache) for blocks, size in sizes for cache in (True, False)]


def explore(
    job: Job,
    every: Sequence[Pool],
    on_pool: Callable[[PoolSearched], None] = lambda pool: None,
    on_finding: Callable[[Finding], None] = lambda finding: None,
) -> Explored:
    """Search the pools in turn. Ctrl-C ends it early; the report then says how far it got."""
    began = time.monotonic()
    if job.options.max_time_s is not None:
        job = replace(job, deadline=began + job.options.max_time_s)
    searched: list[PoolSearched] = []
    findings: list[Finding] = []
    misuse, interrupted = "", False
    search: PoolSearch | None = None
    with Interrupt() as interrupt:
        job = replace(job, on_tick=_until(interrupt, job.on_tick))
        try:
            misuse = _bad_pools(job)
            for pool in every:
                search = PoolSearch(job, pool)
                search.run()
                searched.append(search.result())
                on_pool(searched[-1])
                misuse = misuse or search.misuse
                finding, search = search.finding, None
                if finding is not None:
                    findings.append(finding)
                    on_finding(finding)
                    break
                if job.deadline is not None and time.monotonic() > job.deadline:
                    break
        except KeyboardInterrupt:
            interrupted = True
            if search is not None:
                searched.append(search.result("interrupted"))
                on_pool(searched[-1])
    reasons = list(dict.fromkeys(pool.ended for pool in searched if pool.ended and pool.kind == EXHAUSTIVE))
    reasons += [pool.ended for pool in searched if pool.ended in ("interrupted", "the time is up") and not reasons]
    if not findings and len(searched) < len(every):
        reasons.append(f"{len(every) - len(searched)} of {len(every)} pools not begun")
    code = INCONCLUSIVE if reasons else CONFORMS
    return Explored(
        target=job.spec.text,
        version=job.target.version,
        profile=job.profile.name,
        kvaudit=__version__,
        spec=SPEC_VERSION,
        assumptions=_assumptions(job, searched),
        pools=searched,
        findings=findings,
        misuse=misuse,
        seconds=time.monotonic() - began,
        interrupted=interrupted,
        reasons=[] if findings else reasons,
        exit_code=VIOLATION if findings or (misuse and job.options.misuse) else code,
    )


def _until(interrupt: Interrupt, on_tick: Callable[[Tick], None]) -> Callable[[Tick], None]:
    """Raises KeyboardInterrupt at the next tick, where nothing swallows it."""

    def tick(progress: Tick) -> None:
        if interrupt.came:
            raise KeyboardInterrupt
        on_tick(progress)

    return tick


def _bad_pools(job: Job) -> str:
    for pool in () if job.spec.adapted else bad_pools(job.target):
        how = bad_pool(job.target, pool)
        if how:
            return f"a pool of {pool.num_blocks} blocks of {pool.block_size} tokens: {how}"
    return ""


def _assumptions(job: Job, searched: Sequence[PoolSearched]) -> list[str]:
    used = {name for pool in searched for name in pool.symmetries}
    assumed = [f"{ASSUMED[name]} (tested on sampled transitions)" for name in ASSUMED if name in used]
    if any(pool.kind == EXHAUSTIVE for pool in searched):
        assumed.append("there is no state outside of the manager's attributes, and its hash strategy is a function")
    return [*job.profile.assumptions, *assumed]

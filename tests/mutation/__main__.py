"""The mutation campaign: every small change of kvblocks against the proof, the search and the tests.

Exit status: 0 if all that is wrong is killed and the reasons for the rest are right, 1 if not, 3 if stopped early.
"""

from __future__ import annotations

import argparse
import signal
import sys

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvaudit.terminal import progress_bar
from mutation import by_proof
from mutation.campaign import ROOT, Cache, Pair, run
from mutation.generator import UNCHANGED, generated
from mutation.killers import KILLERS
from mutation.planted import planted
from mutation.report import RESULTS, Campaign, campaign_of, complaints, reasons, rows
from mutation.verdict import KILLED, Mutant, Verdict

OK, WRONG, STOPPED = 0, 1, 3


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either ends the processes that are running
    options = _options()
    console = Console()
    cache = Cache(ROOT / ".kvaudit" / "mutation.jsonl")
    every: list[Mutant] = [*generated(), *planted(), UNCHANGED]
    chosen = [mutant for mutant in every if not options.only or mutant.id.startswith(tuple(options.only))]
    pairs = [Pair(killer, mutant) for killer in options.killer or KILLERS for mutant in chosen]
    try:
        _run(console, cache, pairs, options.j)
    except KeyboardInterrupt:
        console.print("stopped; what is known is kept")
        return STOPPED
    for pair in pairs if options.only else ():
        _show(console, pair, cache.get(pair))
    if options.only or options.killer:
        return OK
    verdicts = {(pair.killer, pair.mutant.id): verdict for pair in pairs if (verdict := cache.get(pair)) is not None}
    campaign = campaign_of(every, verdicts)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(campaign)) + b"\n")
    return _report(console, campaign)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("-j", type=int, default=1, metavar="N", help="so many processes")
    parser.add_argument("--only", action="append", metavar="ID", help="mutants whose id begins so; may be repeated")
    parser.add_argument("--killer", choices=KILLERS, action="append", help="may be repeated")
    return parser.parse_args()


def _run(console: Console, cache: Cache, pairs: list[Pair], processes: int) -> None:
    """Run what is not known yet: the quick killers first, and last what has no mistake to be found."""
    todo = [pair for pair in pairs if cache.get(pair) is None]
    alive = {UNCHANGED.id, *reasons().equivalent, *reasons().proof_alone}
    for killers in (("search", "tests"), ("proof",)):
        now = [pair for pair in todo if pair.killer in killers]
        now.sort(key=lambda pair: (pair.mutant.id in alive, by_proof.cost(pair.mutant)))
        if not now:
            continue
        with progress_bar(console, auto_refresh=False) as bar:
            task = bar.add_task(" and ".join(killers), total=len(now), done="", start=True)
            if "proof" in killers:
                by_proof.warm()

            def on_verdict(pair: Pair, verdict: Verdict) -> None:
                cache.put(pair, verdict)
                bar.update(task, advance=1, done=f"{pair.mutant.id} {verdict.outcome}", refresh=True)  # noqa: B023
                if verdict.outcome != KILLED:
                    _show(console, pair, verdict)

            run(now, processes, on_verdict)


def _show(console: Console, pair: Pair, verdict: Verdict | None) -> None:
    if verdict is not None:
        says = f"{pair.mutant.id}: {pair.killer}: {verdict.outcome} ({verdict.seconds:.1f} s) {verdict.how}"
        console.print(escape(says), highlight=False, soft_wrap=True)


def _report(console: Console, campaign: Campaign) -> int:
    why = reasons()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("kind", "mutants", "equivalent", "proof", "search", "tests", "any"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for row in rows(campaign, why):
        table.add_row(*map(str, row))
    console.print(table)
    found = complaints(campaign, why)
    for complaint in found:
        console.print(escape(complaint), style="red", highlight=False, soft_wrap=True)
    total = rows(campaign, why)[-2]
    console.print(
        f"{total.together} of {total.mutants - total.equivalent} mutants killed, {total.proof} by the proof alone, "
        f"{total.equivalent} equivalent; {len(found)} complaints"
    )
    return WRONG if found else OK


if __name__ == "__main__":
    sys.exit(main())

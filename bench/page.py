"""docs/performance.md, from the results of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.contestants import KVBLOCKS
from bench.goals import markdown
from bench.playing import APPEND, FREE, PROMPT, REFUSAL
from bench.results import Cost, Measured, Reading, Results, Share
from bench.targets import verdicts

UNITS = {
    PROMPT: "a prompt block",
    APPEND: "an append",
    FREE: "a freed block",
    REFUSAL: "a block of a refused prompt",
}

_PAGE = """\
# Performance

kvblocks beside the block managers of serving engines, on the same workloads, each table in one run. This page is
written by `docs/generate.py` from [`performance.json`](performance.json), which `python -m bench --write docs` makes.

Each engine is called by its own methods as its scheduler calls them, request set-up and hashing included, and no
adapter in between: see [`bench/drivers`](../bench/drivers/__init__.py). SGLang gets the tokens of a step in one call,
as its scheduler does it; the others one by one. An engine does more than kvblocks: cache groups, sliding windows,
connectors, events, metrics. What is compared is what a caller pays for a pool of one kind of block.

In each of the {rounds} rounds every contestant plays the workload once, one after the other, beginning with another
one each time. A cost is processor time; shown are the median and in brackets the extremes of the rounds. A *ratio* is
to kvblocks in the same round: above 1 kvblocks is faster, below 1 the other one is. A goal is held to the quotient of
two medians, which is not quite the median of the ratios. *kvblocks, array* is given its prompts as arrays of integers.
*Bare* is no manager: the hash chain of each prompt in a loop, from a list, and nothing kept.

`./check.sh bench` fetches what can be fetched and runs it; `python -m bench --help`, in a clone with
`pip install -e '.[dev]'`, names the parts. Figures of `--quick` are for trying: fewer requests, other hit rates.
nano-vllm takes part where `--nano-vllm` names a checkout, the [compiled build](compiled.md) where there is a C
compiler, and recorded workloads where `--traces` names their folder.

Measured on {machine}.

| contestant | version | hash |
|---|---|---|
{entrants}
"""

_TRIED = """\
What was tried, to come nearer to the goals that are not met. Figures are of `python -m bench main memory --quick
--rounds 5` on the text changed so, beside 2.74 for a prompt block from a list, 4.37 with the builtin hash, 1.77 times
the bare hashing, 18.2 for an append and 1.73 for a freed block on the text as it is:

- *A prompt block.* SHA-256 is the largest part: with Python's hash, itself not for nothing, it is 0.43 us less. To
  begin and to end a digest takes `hashlib` longer than the 97 bytes of a block. The other implementation in the
  standard library (`_sha256`) is slower. Of packing, two thirds make sure that no token is a bool: `array` would take
  True for 1. Asking `set(map(type, tokens))`, `min` and `max`, or each token by itself is slower than counting the
  types. `_take` and `_register` written out in `allocate`: 2.76 and 1.69, not kept, as each would stand in two places.
  The same, and no look at bools: 3.27, 5.92 with the builtin hash, 1.41 times the bare hashing; not kept, as a bool
  among the tokens would then pass for one.
- *A refusal* hashes the whole prompt before it can say no: how many blocks are hits is not known before. Hashing up
  to the first miss only was not tried: the proof of `allocate` speaks of the chain and of the match as two steps.
- *An append.* One record a sequence, with the slot that comes next in it, took a third of its cost away. What is left
  is the call, one dict, one look at the token, and two fields, and for every 16th token a hash.
- *append_slots* is for the refusal of the whole, and slower than a loop of `append_slot`: in pure Python, to look at
  every pair before the first write costs nearly as much as the appends, which look again. It calls `append_slot`
  itself, so that what is proved of that carries over; a loop of its own over the records would save about a third.
- *A freed block* and *memory.* A linked list in two lists of numbers, in the place of the `OrderedDict` and written out
  where it is used: 1.68 for a freed block, so no gain, and 182 bytes a block. In two arrays, or with a method around
  it, it is slower than the `OrderedDict`; a plain dict finds its oldest in time proportional to the pool. Not kept yet:
  that such a list stays one, in the order of release, is not proved.
"""

_SWEEPS = {
    "pools": ("Size of the pool", "A prompt block, nothing shared, in a pool full of cached content.", PROMPT),
    "lengths": ("Length of the prompt", "A block of a prompt, nothing shared.", PROMPT),
    "live": ("Live sequences", "An append, one token for each of so many live sequences.", APPEND),
}


def page(results: Results) -> str:
    """The page as Markdown."""
    entrants = "\n".join(f"| {e.name} | {e.version or 'this one'} | {e.hash} |" for e in results.entrants)
    parts = [_PAGE.format(rounds=results.rounds, machine=results.machine, entrants=entrants).rstrip()]
    if results.absent:
        parts += ["", *(f"Not there: {name} ({why})." for name, why in results.absent.items())]
    parts += ["", "## What kvblocks is to reach", "", *_targets(results)]
    if results.shares:
        parts += [
            "",
            "## Where its time goes, and what was tried",
            "",
            *_shares(results.shares),
            "",
            *_TRIED.splitlines(),
        ]
    for measured in results.main:
        parts += ["", f"## ({measured.workload}) {measured.about}", "", _setting(measured), "", *_table(measured)]
    for field, (title, about, kind) in _SWEEPS.items():
        sweep: list[Measured] = getattr(results, field)
        if sweep:
            parts += [
                "",
                f"## {title}",
                "",
                about,
                "",
                f"![{title}](performance-{field}.png)",
                "",
                *_sweep(sweep, kind),
            ]
    if results.traces:
        parts += ["", "## Recorded workloads", "", *_traces(results.traces)]
    if results.bytes_per_block:
        parts += ["", "## Memory", "", *_memory(results)]
    if results.growth:
        parts += ["", "## A long run", "", *_growth(results.growth)]
    return "\n".join(parts) + "\n"


def _targets(results: Results) -> Iterator[str]:
    yield "On workload (a), but for the last three:"
    yield ""
    yield from markdown(verdicts(results))


def _shares(shares: Sequence[Share]) -> Iterator[str]:
    yield "Calls that differ in one thing, on prompts that share nothing, with blocks of 16 tokens:"
    yield ""
    yield "| | | us |"
    yield "|---|---|---|"
    for share in shares:
        yield f"| {share.operation} | {share.about} | {share.us:.3g} |"


def _setting(measured: Measured) -> str:
    return (
        f"{measured.num_blocks:,} blocks of {measured.block_size} tokens, {measured.requests:,} prompts of "
        f"{measured.prompt_tokens:,} tokens, {measured.live:,} live, first in, first out."
    )


def _table(measured: Measured) -> Iterator[str]:
    kinds = [kind for kind in UNITS if kind in measured.costs]
    yield "| | " + " | ".join(f"{UNITS[kind]}, us | ratio" for kind in kinds) + " | hits |"
    yield "|---" * (2 * len(kinds) + 2) + "|"
    names = list(dict.fromkeys(name for kind in kinds for name in measured.costs[kind]))
    for name in names:
        cells = [_cells(measured.costs[kind].get(name), is_ours=name == KVBLOCKS) for kind in kinds]
        rate = measured.hit_rates.get(name)
        yield f"| {name} | " + " | ".join(cells) + f" | {'' if rate is None else f'{rate:.1%}'} |"
    for name, why in measured.broken.items():
        yield f"| {name} | {why.splitlines()[0]:.80} |" + " |" * (2 * len(kinds))


def _cells(cost: Cost | None, *, is_ours: bool) -> str:
    if cost is None or cost.us.median < 0.02:  # the bare loop does nothing there
        return " | "
    us, ratio = cost.us, cost.ratio
    shown = f"{us.median:.3g} ({us.low:.3g}-{us.high:.3g})"
    return f"{shown} | " + ("1" if is_ours else f"{ratio.median:.3g} ({ratio.low:.3g}-{ratio.high:.3g})")


def _sweep(sweep: Sequence[Measured], kind: str) -> Iterator[str]:
    names = list(dict.fromkeys(name for measured in sweep for name in measured.costs.get(kind, {})))
    yield f"{UNITS[kind]}, us".capitalize() + ":"
    yield ""
    yield "| | " + " | ".join(measured.workload for measured in sweep) + " |"
    yield "|---" * (len(sweep) + 1) + "|"
    for name in names:
        if kind == APPEND and name.startswith("bare"):
            continue
        costs = [measured.costs.get(kind, {}).get(name) for measured in sweep]
        yield f"| {name} | " + " | ".join("" if cost is None else f"{cost.us.median:.3g}" for cost in costs) + " |"


def _traces(traces: Sequence[Measured]) -> Iterator[str]:
    yield "The beginnings of recorded workloads ([Simulation](simulate.md) says what they are), each block of hash ids"
    yield "as two tokens. Of outputs, each live request gets one token for each that arrives. Hit rates are of tokens;"
    yield "they differ where engines evict by other rules."
    for measured in traces:
        yield ""
        requests, blocks = f"{measured.requests:,} requests", f"{measured.num_blocks:,} blocks"
        yield f"**{measured.workload}**: {requests}, {blocks}, {measured.live} live."
        yield ""
        yield from _table(measured)


def _memory(results: Results) -> Iterator[str]:
    yield "What Python has allocated for a pool that is all cached, nothing live; tensors are not counted."
    yield ""
    yield "| | bytes a block |"
    yield "|---|---|"
    for name, number in results.bytes_per_block.items():
        yield f"| {name} | {number:,.0f} |"


def _growth(readings: Sequence[Reading]) -> Iterator[str]:
    yield "kvblocks alone in a process: allocate, append and free on a full pool of 8,192 blocks with the cache on. The"
    yield "memory of the process, and what Python has allocated in it, are read with nothing live."
    yield ""
    yield "| operations | MiB | objects |"
    yield "|---|---|---|"
    for one in readings:
        yield f"| {one.operations:,} | {one.rss / 2**20:.2f} | {one.objects:,} |"

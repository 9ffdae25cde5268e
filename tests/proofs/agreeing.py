"""One verdict of two evaluators: kvspec's clauses on real ledgers, and on Z3 terms that stand for the same ledgers.

The symbols of a symbolic state are fixed to the constants of a ledger; Z3 then refutes the clause or its negation.
The two must not both be open, and what is left must be the verdict of `kvspec.logic`. Ledgers are reachable ones, and
ones with one wrong entry, so that clauses are false as well.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvaudit.explore.moves import moves, sequence_ids
from kvaudit.protocol import Allocate, Extras
from kvaudit.rulings import own_step
from kvproofs.invariants import STRUCTURAL
from kvspec.extra import Image, Item, Lora, Salt
from kvspec.identity import Identity
from kvspec.ledger import Ledger, empty_ledger
from kvspec.memory import prefixes_of
from kvspec.operations import OutOfBlocks
from proofs.calls import Place, reached
from proofs.constants import Cells, Names, state_of, verdict_of_z3
from proofs.standard import Content
from proofs.verdicts import READINGS, Stride, Verdict, state_verdicts, step_verdicts
from spec.corruptions import corruptions


def cells_of(place: Place) -> dict[int, Identity]:
    """The memory as slots."""
    size = place.ledger.block_size
    return {b * size + offset: prefix_of(content) for (b, offset), content in place.memory.items()}


def prefix_of(content: Content) -> Identity:
    """The prefix that a content stands for."""
    tokens, parts = content
    return prefixes_of(tokens, extra=tuple(item for block in parts for item in items_of(block)))[-1]


def items_of(parts: Sequence[Any]) -> Iterator[Item]:
    """The typed values of the extra keys of a block."""
    at = 0
    while at < len(parts):
        kind, number = {"salt": (Salt, 1), "lora": (Lora, 2), "image": (Image, 3)}[parts[at]]
        yield kind(*parts[at + 1 : at + 1 + number])
        at += 1 + number


def _is_modelled(ledger: Ledger) -> bool:
    """A pool that lists a block twice has no symbolic form: that it does not is a goal of the proof."""
    return all(len(set(pool)) == len(pool) for pool in (ledger.free, ledger.evictable))


def spoiled_states(rng: random.Random, place: Place) -> Iterator[tuple[Ledger, Cells]]:
    """States with one wrong entry, in the ledger or in the memory."""
    ledger, cells = place.ledger, cells_of(place)
    outside = ledger.num_blocks
    yield from ((wrong, cells) for _, wrong in corruptions(rng, ledger) if _is_modelled(wrong))
    yield ledger._replace(free=(*ledger.free, outside)), cells
    for slot in list(cells)[:2]:
        yield ledger, {at: held for at, held in cells.items() if at != slot}
    yield ledger._replace(enable_prefix_cache=not ledger.enable_prefix_cache), cells


def strides(place: Place) -> Iterator[Stride]:
    """Every operation on a state, as the specification does it."""
    ledger = place.ledger
    spare = [seq for seq in sequence_ids(ledger.num_blocks) if seq not in ledger.sequences][:1]
    with_salt = [Allocate(seq, (0,) * (ledger.block_size + 1), Extras("x")) for seq in spare]
    for op in [*moves(ledger, spare), *with_salt]:
        try:
            step = own_step(ledger, op)
        except OutOfBlocks:
            yield Stride(op, ledger, ledger, True, None)
        else:
            yield Stride(op, ledger, step.after, False, step.result)


def spoiled_strides(rng: random.Random, stride: Stride) -> Iterator[Stride]:
    """The operation with one wrong entry in the state after it, with a wrong answer, and with the wrong refusal."""
    for _, wrong in corruptions(rng, stride.after):
        if _is_modelled(wrong):
            yield Stride(stride.op, stride.before, wrong, stride.refused, stride.result)
    if isinstance(stride.result, int):
        yield Stride(stride.op, stride.before, stride.after, False, stride.result + 1)
    elif stride.result:
        yield Stride(stride.op, stride.before, stride.after, False, stride.result[:-1])
    yield Stride(stride.op, stride.before, stride.after, not stride.refused, stride.result)


POOLS = ((1, 1, True), (2, 1, True), (2, 2, True), (3, 1, True), (2, 2, False))


def verdicts(seed: int, per_pool: int, pools: Iterable[tuple[int, int, bool]] = POOLS) -> Iterator[Verdict]:
    """Of some states and operations of each pool, right and wrong ones, drawn with the seed."""
    rng = random.Random(seed)
    yield none_as_a_key()
    for pool in pools:
        places = list(reached(*pool))
        for place in rng.sample(places, min(per_pool, len(places))):
            yield from state_verdicts(place.ledger, cells_of(place))
            wrong = list(spoiled_states(rng, place))
            for ledger, cells in rng.sample(wrong, min(4, len(wrong))):
                yield from state_verdicts(ledger, cells)
            for stride in _one_of_each(rng, strides(place)):
                yield from step_verdicts(stride)
                *spoiled, refusal = spoiled_strides(rng, stride)
                for other in [refusal, *rng.sample(spoiled, min(2, len(spoiled)))]:
                    yield from step_verdicts(other)


def _one_of_each(rng: random.Random, tried: Iterable[Stride]) -> list[Stride]:
    """One completed and one refused operation of each kind, where there is one."""
    kinds: dict[tuple[str, bool], list[Stride]] = {}
    for stride in tried:
        kinds.setdefault((stride.operation, stride.refused), []).append(stride)
    return [rng.choice(of_kind) for of_kind in kinds.values()]


def none_as_a_key() -> Verdict:
    """N4 of a state in which None is mapped: no `kvspec.identity.Identity`, so that only N4 speaks of it."""
    ledger = empty_ledger(1, 1)._replace(hash_to_block={None: 0})  # type: ignore[dict-item]
    names = Names()
    state, facts = state_of(ledger, {}, names)
    return Verdict("N4", READINGS["N4"](ledger, {}), verdict_of_z3(STRUCTURAL["N4"](state), [*facts, *names.facts(1)]))


ONE_VERDICT = {"N6": "a ledger has no field that follows from others"}
"""Clauses of which not both verdicts occur, and why."""


@dataclass(frozen=True)
class Tally:
    """How often each verdict of a clause was given by both evaluators, and how often they did not agree."""

    both_true: int
    both_false: int
    differ: int


def tally(found: Iterable[Verdict]) -> dict[str, Tally]:
    """By clause."""
    counts: Counter[tuple[str, str]] = Counter()
    names: dict[str, None] = {}
    for v in found:
        names[v.clause] = None
        counts[v.clause, "differ" if v.python != v.z3 else str(v.python)] += 1
    return {n: Tally(counts[n, "True"], counts[n, "False"], counts[n, "differ"]) for n in names}


def main(arguments: list[str]) -> int:
    """`python -m proofs.agreeing [--json FILE]`, in tests/."""
    rows = tally(verdicts(seed=1, per_pool=12))
    print(f"{'clause':<60} {'both true':>10} {'both false':>10} {'differ':>7}")
    for name, row in sorted(rows.items()):
        print(f"{name:<60} {row.both_true:>10} {row.both_false:>10} {row.differ:>7}")
    if arguments[:1] == ["--json"]:
        Path(arguments[1]).write_text(json.dumps({name: vars(row) for name, row in rows.items()}, indent=1) + "\n")
    one_sided = {name for name, row in rows.items() if not (row.both_true and row.both_false)}
    return 1 if any(row.differ for row in rows.values()) or one_sided - set(ONE_VERDICT) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

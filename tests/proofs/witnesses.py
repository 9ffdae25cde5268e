"""Every symbolic path of every operation is followed by a concrete call on a reachable state.

`python -m proofs.witnesses [--json FILE] [OPERATION...]`, in tests/, goes through the states of small pools and what a
caller may do there, or may not, until each path of the list is met. The exit status is 1 if a path is met by none
and `UNMET` does not say why, or if anything on a path is not as the proof says; see `following`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from kvaudit.protocol import Allocate, Append, Extras, Free
from kvspec import operations
from kvspec.extra import Image
from kvspec.ledger import Ledger
from proofs.calls import CALLED, Call, Place, calls, manager_at, played, reached
from proofs.paths import Decisions, listing
from proofs.replaying import follow, real_end

POOLS = (
    (1, 1, True),
    (2, 1, True),
    (1, 3, True),
    (2, 2, True),
    (2, 2, False),
    (1, 3, False),
    (2, 1, False),
    (3, 1, True),
    (3, 2, True),
)
"""Blocks, block size, cache."""

A_PARENT_IS_FORGOTTEN = (
    Allocate("a", (0,)), Allocate("b", (0,)), Append("b", 1), Allocate("c", (2,)),
    Free("a"), Allocate("d", (3,)), Free("d"), Free("c"),
)  # fmt: skip
"""On 4 blocks of one token: (0, 1) can be hit, (0) cannot. The pools above are too small for that."""

UNDER_A_SALT = (
    Allocate("a", (0,), Extras("x")), Append("a", 0), Free("a"), Allocate("b", (0, 0, 1), Extras("x")),
    Allocate("c", (0,), Extras(images=(Image(b"x", 0, 1),))),
)  # fmt: skip
"""On 3 blocks of two tokens: "b" depends on more than its tokens, and "c" as well, whose first block is not full."""

UNMET: dict[tuple[str, str], str] = {}
"""Paths, by operation and decisions, that no call follows, and why."""


@dataclass
class Witnesses:
    """What was found of one operation: for each path its end and the first call that follows it."""

    operation: str
    paths: dict[Decisions, str]
    found: dict[Decisions, tuple[tuple[int, int, bool], Place, Call]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    calls: int = 0
    facts: int = 0
    goals: int = 0

    @property
    def unmet(self) -> list[Decisions]:
        return [path for path in self.paths if path not in self.found]


def written(path: Decisions) -> str:
    """A path in a word: 1 where a condition was true."""
    return "".join("01"[decision] for decision in path)


def candidates(pools: tuple[tuple[int, int, bool], ...], operation: str) -> Iterator[tuple[Any, Place, Call]]:
    """Calls on reachable states, few of those that look alike: first where a parent is forgotten, then in each pool."""
    alike: Counter[Any] = Counter()
    every = ((pool, place) for pool in pools for place in reached(*pool))
    special = [((4, 1, True), played(4, 1, A_PARENT_IS_FORGOTTEN)), ((3, 2, True), played(3, 2, UNDER_A_SALT))]
    for pool, place in chain(special, every):
        for call in calls(place, operation):
            looks = _looks(place, call)
            alike[looks] += 1
            if alike[looks] <= 2:
                yield pool, place, call


def _looks(place: Place, call: Call) -> Any:
    """What distinguishes a call for a first selection: how it ends, what it does to the pool, where it begins."""
    end, _ = real_end(manager_at(place, call), call)
    record = place.ledger.sequences.get(call.seq)
    size = place.ledger.block_size
    return (
        place.ledger.enable_prefix_cache,
        size == 1,
        bool(place.ledger.free),
        type(call.argument),
        end,
        _changes(place.ledger, call) if end == "answer" else (),
        repr(call.argument) if end in ("InvalidArgument", "PositionOutOfRange") else "",
        (call.iteration_raises >= 0, min(call.strategy_raises, 1)),
        record is not None and (len(record.tokens) % size != 0, bool(record.chain)),
        len(call.prompt) > size,
        call.images_raise,
        call.beside(),
        record is not None and record.extra,
    )


def _changes(ledger: Ledger, call: Call) -> tuple[int, ...]:
    """How much of each kind a call changes: nothing, one, or more; and whether what is evicted can still be hit."""
    if call.operation == "allocate":
        change = operations.allocate(ledger, call.seq, call.argument, extra=call.typed()).change
    elif call.operation == "append":
        change = operations.append_slot(ledger, call.seq, call.argument).change
    elif call.operation == "free":
        change = operations.free(ledger, call.seq).change
    else:
        return ()
    can_be_hit = any(h in ledger.hash_to_block for _, h in change.evicted)
    return (can_be_hit, *(min(len(part), 2) for part in change))


def witnesses(operation: str, pools: tuple[tuple[int, int, bool], ...] = POOLS) -> Witnesses:
    """Go through the candidates until each path is met."""
    found = Witnesses(operation, dict(listing(operation).listed))
    for pool, place, call in candidates(pools, operation):
        if not found.unmet:
            break
        followed = follow(place, call, lambda path: path not in found.found)
        found.calls += 1
        found.facts += followed.facts
        found.goals += followed.claims
        found.wrong += [f"{pool} {place.ledger} {call}: {text}" for text in followed.wrong]
        for path, end in followed.paths.items():
            if found.paths.get(path) != end:
                found.wrong.append(f"{call}: follows {written(path)}, {end}, which is not in the list")
            found.found.setdefault(path, (pool, place, call))
    return found


def _dumped(found: Witnesses) -> dict[str, Any]:
    return {
        "operation": found.operation,
        "calls": found.calls,
        "facts": found.facts,
        "goals": found.goals,
        "wrong": found.wrong,
        "paths": [
            {"path": written(path), "end": end, "met_by": str(found.found[path][2]) if path in found.found else None}
            for path, end in found.paths.items()
        ],
    }


def main(arguments: list[str]) -> int:
    target = None
    if arguments[:1] == ["--json"]:
        target, arguments = Path(arguments[1]), arguments[2:]
    rows = []
    print(f"{'operation':<18} {'paths':>5} {'met':>5} {'calls':>6} {'facts':>7} {'goals':>6} {'wrong':>6}")
    status = 0
    for name in arguments or CALLED:
        found = witnesses(name)
        rows.append(_dumped(found))
        met = len(found.paths) - len(found.unmet)
        print(
            f"{name:<18} {len(found.paths):>5} {met:>5} {found.calls:>6} {found.facts:>7} {found.goals:>6} "
            f"{len(found.wrong):>6}",
            flush=True,
        )
        for path in found.unmet:
            reason = UNMET.get((name, written(path)), "NO REASON GIVEN")
            print(f"    not met: {written(path)} ({found.paths[path]}): {reason}")
            status |= reason == "NO REASON GIVEN"
        for text in found.wrong[:5]:
            print(f"    wrong: {text[:600]}")
        status |= bool(found.wrong)
    if target is not None:
        target.write_text(json.dumps(rows, indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

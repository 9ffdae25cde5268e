"""The exhaustive search of one pool with all comparisons, and the same search on nothing but the specification."""

from __future__ import annotations

from collections.abc import Hashable

from kvaudit.api import ApiTarget
from kvaudit.explore.canonical import Symmetries, canonical
from kvaudit.explore.expand import Expander, Expansion, Node, Restoring
from kvaudit.explore.moves import moves, sequence_ids
from kvaudit.explore.search import Limits, Search
from kvaudit.profiles import STRICT
from kvaudit.protocol import Pool
from kvaudit.rulings import own_step
from kvspec.ledger import empty_ledger
from kvspec.operations import OutOfBlocks

_SYMMETRIES = Symmetries()


def compared(target: ApiTarget, pool: Pool) -> Expansion:
    """Every transition of the target from every state, compared in full; every read and misuse; samples renamed."""
    return _searched(Restoring(target, pool, STRICT, _SYMMETRIES))


def alone(pool: Pool) -> Expansion:
    """The same states and transitions, of the specification alone."""
    return _searched(_Alone(pool))


def _searched(expander: Expander) -> Expansion:
    search = Search(lambda: expander, Limits())
    search.run(lambda: None)
    if search.found.is_over:
        raise RuntimeError(f"the target is to keep every obligation, and does not: {search.found}")
    return search.found


class _Alone:
    """Expands the states of the specification. There is no target."""

    def __init__(self, pool: Pool) -> None:
        self.known: set[Hashable] = set()
        self._pool = pool
        self._ids = sequence_ids(pool.num_blocks)

    def root(self) -> Node:
        ledger = empty_ledger(self._pool.num_blocks, self._pool.block_size, self._pool.enable_prefix_cache)
        return Node(0, -1, None, canonical(ledger, _SYMMETRIES), ledger, None)

    def expand(self, node: Node) -> Expansion:
        found = Expansion()
        new_ids = [seq for seq in self._ids if seq not in node.ledger.sequences][:1]
        for op in moves(node.ledger, new_ids):
            found.transitions += 1
            try:
                after = own_step(node.ledger, op).after
            except OutOfBlocks:
                found.refused += 1
                continue
            key = canonical(after, _SYMMETRIES)
            if key not in self.known:
                self.known.add(key)
                found.new.append(Node(-1, node.number, op, key, after, None))
        return found

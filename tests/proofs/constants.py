"""A symbolic state whose symbols are the constants of a ledger, and what Z3 then says of a claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import z3

from kvproofs import theory
from kvproofs.state import State
from kvproofs.terms import EXTRA, INT, KEY, NOTHING, SEQ, SIZE, div, mod, times
from kvspec.extra import Extra
from kvspec.identity import Identity, chain_from
from kvspec.ledger import Ledger
from kvspec.ledger import Sequence as Record
from kvspec.memory import prefixes_of

RLIMIT = 5_000_000
Cells = Mapping[int, Identity]
"""What each slot holds, where something was written: the prefix that ends with the token."""


def array(items: Mapping[Any, Any], domain: Any, default: Any) -> Any:
    made = z3.K(domain, default)
    for index, item in items.items():
        made = z3.Store(made, index, item)
    return made


def constant(value: int) -> Any:
    return z3.IntVal(value)


class Names:
    """A constant for each id, key and content that some ledgers speak of; no two of one kind are equal."""

    def __init__(self) -> None:
        self._sequences: dict[Any, Any] = {}
        self._keys: dict[Identity, Any] = {}
        self._extras: dict[Extra, Any] = {(): NOTHING}
        self._contents: dict[Identity | None, Any] = {None: z3.Const("nothing_written", theory.CONTENT)}

    def sequence(self, q: Any) -> Any:
        return self._sequences.setdefault(q, z3.Const(f"id_{len(self._sequences)}", SEQ))

    def key(self, h: Identity | None) -> Any:
        return theory.NO_KEY if h is None else self._keys.setdefault(h, z3.Const(f"key_{len(self._keys)}", KEY))

    def extra(self, extra: Extra) -> Any:
        return self._extras.setdefault(extra, z3.Const(f"extra_{len(self._extras)}", EXTRA))

    def content(self, prefix: Identity | None) -> Any:
        return self._contents.setdefault(prefix, z3.Const(f"content_{len(self._contents)}", theory.CONTENT))

    def facts(self, block_size: int) -> list[Any]:
        """They differ, and what the specification reads off tokens and keys is what it is."""
        n, k = z3.Int("n"), z3.Int("k")
        arithmetic = [
            block_size == SIZE,
            z3.ForAll([n], div(n) == n / block_size, patterns=[div(n)]),
            z3.ForAll([n], mod(n) == n % block_size, patterns=[mod(n)]),
            z3.ForAll([k], times(k) == k * block_size, patterns=[times(k)]),
        ]
        contents = [
            theory.content(key, offset) == self.content(cell_of(h, offset, block_size))
            for h, key in list(self._keys.items())
            for offset in range(block_size)
            if len(h.tokens) == block_size
        ]
        kinds = (
            list(self._sequences.values()),
            [theory.NO_KEY, *self._keys.values()],
            list(self._contents.values()),
            list(self._extras.values()),
        )
        return [*arithmetic, *contents, *(z3.Distinct(*kind) for kind in kinds if len(kind) > 1)]


def cell_of(h: Identity, offset: int, block_size: int) -> Identity:
    """The prefix that ends at that offset of the last block of h."""
    tokens = h.prefix()
    end = len(tokens) - block_size + offset + 1
    return prefixes_of(tokens[:end], extra=h.extra_of_all())[-1]


def tokens_array(tokens: Sequence[int]) -> Any:
    return array({constant(i): constant(t) for i, t in enumerate(tokens)}, INT, constant(-1))


def read_off(tokens: Sequence[int], array: Any, names: Names, block_size: int, extra: Extra = ()) -> Iterator[Any]:
    """What the prefixes and readings of these tokens are."""
    beside = names.extra(extra)
    yield theory.prefix(array, beside, constant(0)) == theory.NO_KEY
    for n, h in enumerate(chain_from(None, tuple(tokens), block_size, extra)):
        yield theory.prefix(array, beside, constant(n + 1)) == names.key(h)
    for i, node in enumerate(prefixes_of(tokens, extra=extra)):
        yield theory.reading(array, beside, constant(i)) == names.content(node)


def state_of(ledger: Ledger, cells: Cells, names: Names) -> tuple[State, list[Any]]:
    """The symbolic state whose symbols are the constants of the ledger, and what is known of its tokens."""
    facts: list[Any] = []
    records = {names.sequence(q): record for q, record in ledger.sequences.items()}
    for record in records.values():
        facts += read_off(record.tokens, tokens_array(record.tokens), names, ledger.block_size, record.extra)

    def pool(blocks: tuple[int, ...]) -> tuple[Any, Any, Any]:
        member = array({constant(b): z3.BoolVal(True) for b in blocks}, INT, z3.BoolVal(False))
        stamp = array({constant(b): constant(blocks.index(b)) for b in blocks}, INT, constant(0))
        return member, stamp, constant(len(blocks))

    def rows(default: Any, of: Callable[[Record], Sequence[Any]]) -> tuple[Any, Any, Any]:
        empty = z3.K(INT, default)
        arrays = {q: array({constant(i): v for i, v in enumerate(of(r))}, INT, default) for q, r in records.items()}
        lengths = {q: constant(len(of(r))) for q, r in records.items()}
        return live, array(arrays, SEQ, empty), array(lengths, SEQ, constant(0))

    live = array(dict.fromkeys(records, z3.BoolVal(True)), SEQ, z3.BoolVal(False))
    keyed = {constant(b): names.key(h) for b, h in enumerate(ledger.block_hash) if h is not None}
    mapped = {names.key(h): constant(b) for h, b in ledger.hash_to_block.items()}
    tables = rows(constant(-1), lambda r: [constant(b) for b in r.table])
    tokens = rows(constant(-1), lambda r: [constant(t) for t in r.tokens])
    hashes = rows(theory.NO_KEY, lambda r: [names.key(h) for h in r.chain])
    free, evictable = pool(ledger.free), pool(ledger.evictable)
    content = {constant(slot): names.content(prefix) for slot, prefix in cells.items()}
    memory = array(content, INT, names.content(None))

    def held(b: Any) -> Any:
        return z3.Sum(constant(0), *(z3.If(_holds(record, b), 1, 0) for record in records.values()))

    state = State(
        num_blocks=constant(ledger.num_blocks),
        cache_on=z3.BoolVal(ledger.enable_prefix_cache),
        num_free_blocks=constant(ledger.num_free_blocks),
        free_member=free[0], free_stamp=free[1], free_count=free[2],
        evictable_member=evictable[0], evictable_stamp=evictable[1], evictable_count=evictable[2],
        ref=array({constant(b): constant(n) for b, n in enumerate(ledger.ref)}, INT, constant(0)),
        ref_positive=constant(sum(n > 0 for n in ledger.ref)),
        hash_has=array(dict.fromkeys(keyed, z3.BoolVal(True)), INT, z3.BoolVal(False)),
        hash_key=array(keyed, INT, theory.NO_KEY),
        map_has=array(dict.fromkeys(mapped, z3.BoolVal(True)), KEY, z3.BoolVal(False)),
        map_block=array(mapped, KEY, constant(-1)),
        tables_has=tables[0], tables=tables[1], tables_len=tables[2],
        tokens_has=tokens[0], tokens=tokens[1], tokens_len=tokens[2],
        hashes_has=hashes[0], hashes=hashes[1], hashes_len=hashes[2],
        cached_has=live,
        cached=array({q: constant(r.num_cached_tokens) for q, r in records.items()}, SEQ, constant(0)),
        extra_has=live,
        extra=array({q: names.extra(r.extra) for q, r in records.items()}, SEQ, NOTHING),
        next_slot_has=live,
        next_slot=array({q: constant(next_slot(r, ledger.block_size)) for q, r in records.items()}, SEQ, constant(-1)),
        end_has=live,
        end=array({q: constant(end(r, ledger.block_size)) for q, r in records.items()}, SEQ, constant(-1)),
        held=held,
        place=lambda q, b: constant(-1),  # no clause of kvspec asks for it
        memory=lambda b, offset: memory[times(b) + offset],
    )  # fmt: skip
    return state, facts


def end(record: Record, size: int) -> int:
    """Where the slots of the last block end; of no table, as if block -1 were the last."""
    return (record.table[-1] if record.table else -1) * size + size


def next_slot(record: Record, size: int) -> int:
    """The slot after that of the last token."""
    return end(record, size) - size + (len(record.tokens) - 1) % size + 1


def _holds(record: Record, b: Any) -> Any:
    return z3.Or(*(b == block for block in record.table))


def verdict_of_z3(claim: Any, facts: Sequence[Any]) -> bool | None:
    """True if Z3 refutes the negation, False if it refutes the claim, None if it refutes neither."""
    for sign, answer in ((z3.Not(claim), True), (claim, False)):
        solver = z3.Solver()
        solver.set("rlimit", RLIMIT)
        solver.add(*facts, sign)
        if solver.check() == z3.unsat:
            return answer
    return None

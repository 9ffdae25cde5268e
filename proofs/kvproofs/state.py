"""A symbolic manager: any state that keeps the invariants, with ghosts for what the manager does not store."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import z3

from kvproofs import theory
from kvproofs.constructors import LISTS, VALUES
from kvproofs.containers import Counters, Deque, Dict, Optionals, OrderedKeys, Packed, Records, Rows
from kvproofs.errors import Unsupported
from kvproofs.executor import Executor, executing
from kvproofs.terms import (
    BOOL,
    INT,
    KEY,
    SEQ,
    SIZE,
    Bool,
    Int,
    KeyTerm,
    OptionalKey,
    PartsTerm,
    lift,
    number,
    require,
)

CELLS = z3.ArraySort(INT, z3.ArraySort(INT, theory.CONTENT))


@dataclass(frozen=True)
class State:
    """The terms of a state. The last three are ghosts.

    held      for each block, the number of live tables that contain it
    place     for each sequence and block, where in the table the block stands, if it does
    memory    for each block and offset, the K/V content there
    """

    num_blocks: Any
    cache_on: Any
    num_free_blocks: Any
    free_member: Any
    free_stamp: Any
    free_count: Any
    evictable_member: Any
    evictable_stamp: Any
    evictable_count: Any
    ref: Any
    ref_positive: Any
    hash_has: Any
    hash_key: Any
    map_has: Any
    map_block: Any
    tables_has: Any
    tables: Any
    tables_len: Any
    tokens_has: Any
    tokens: Any
    tokens_len: Any
    hashes_has: Any
    hashes: Any
    hashes_len: Any
    cached_has: Any
    cached: Any
    extra_has: Any
    extra: Any
    next_slot_has: Any
    next_slot: Any
    end_has: Any
    end: Any
    held: Any
    place: Any
    memory: Any

    def live(self, q: Any) -> Any:
        return self.tables_has[q]

    def holders(self, b: Any) -> Any:
        return self.held(b)

    def cell(self, b: Any, offset: Any) -> Any:
        return self.memory(b, offset)

    def contains(self, q: Any, b: Any) -> Any:
        """The table of live sequence q contains b: it stands at its `place`."""
        at = self.place(q, b)
        return z3.And(self.live(q), 0 <= at, at < self.tables_len[q], self.tables[q][at] == b)

    def with_ghosts(self, **ghosts: Any) -> State:
        return replace(self, **ghosts)


class StrategyError(Exception):
    """What a hash strategy may raise."""


def symbolic_hasher(parent: Any, tokens: Any, extra: Any) -> Any:
    """Any hash strategy: it may raise; else its key stands for parent, tokens and extra keys. See `theory`."""
    if not isinstance(extra, PartsTerm | tuple) or not isinstance(tokens, Packed):
        raise Unsupported("the hash strategy is called with something else than a parent, packed tokens and extra keys")
    require(tokens.length == SIZE, "only whole blocks are hashed")
    if executing().fork(executing().fresh(BOOL, "strategy_raises")):
        raise StrategyError
    before = theory.NO_KEY if parent is None else _key(parent)
    return KeyTerm(theory.key_of(before, theory.block_of(tokens.array, tokens.start), _parts(extra)))


def _parts(extra: Any) -> Any:
    if isinstance(extra, PartsTerm):
        return lift(extra)
    if extra != ():
        raise Unsupported("extra keys of the program's own")
    return theory.NO_PARTS


def parts_of_block(extra: Any, i: Any, block_size: Any) -> PartsTerm:
    """`kvblocks.extra.parts_of_block`, of which `extras` says what it is."""
    require(number(block_size) == SIZE, "the blocks have the size of the pool's")
    return PartsTerm(theory.parts(lift(extra), number(i)))


def _key(value: Any) -> Any:
    if not isinstance(value, KeyTerm | OptionalKey):
        raise Unsupported("a parent that is no key")
    return lift(value)


def _ordered(kind: Any, name: str) -> Any:
    made = kind(
        z3.Array(f"{name}_member", INT, BOOL),
        z3.Array(f"{name}_stamp", INT, INT),
        z3.Int(f"{name}_low"),
        z3.Int(f"{name}_high"),
        z3.Int(f"{name}_count"),
    )
    made.known()
    return made


def _sequences() -> Records:
    named = {name: "tables" if name == "table" else name for name in LISTS}
    has = {name: z3.Array(f"{named.get(name, name)}_has", SEQ, BOOL) for name in (*LISTS, *VALUES)}
    lists = {
        name: Rows(
            has[name],
            z3.Array(named[name], SEQ, z3.ArraySort(INT, item)),
            z3.Array(f"{named[name]}_len", SEQ, INT),
            kind,
        )
        for name, (item, kind) in LISTS.items()
    }
    return Records(lists | {name: Dict(has[name], z3.Array(name, SEQ, sort)) for name, sort in VALUES.items()})


def symbolic_manager(cls: Any) -> Any:
    """A manager of that class in an arbitrary state; nothing is assumed of it here but what containers are."""
    size = z3.Int("num_blocks")
    manager = object.__new__(cls)
    vars(manager).update(
        num_blocks=Int(size),
        block_size=Int(SIZE),
        enable_prefix_cache=Bool(z3.Bool("cache_on")),
        _hasher=symbolic_hasher,
        _free=_ordered(Deque, "free"),
        _evictable=_ordered(OrderedKeys, "evictable"),
        _ref=Counters(z3.Array("ref", INT, INT), size, z3.Int("ref_positive")),
        _block_hash=Optionals(z3.Array("hash_has", INT, BOOL), z3.Array("hash_key", INT, KEY), size),
        _hash_to_block=Dict(z3.Array("map_has", KEY, BOOL), z3.Array("map_block", KEY, INT)),
        _sequences=_sequences(),
    )
    executing().objects.append(manager)
    return manager


def _columns(columns: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, column in columns.items():
        name = "tables" if field == "table" else field
        found[f"{name}_has"] = column.has
        if isinstance(column, Rows):
            found |= {name: column.arrays, f"{name}_len": column.lengths}
        else:
            found[name] = column.values
    return found


def capture(m: Any) -> State:
    """The terms of a manager's state as it is now, with the ghosts of the state before."""
    return State(
        num_blocks=m.num_blocks.term,
        cache_on=lift(m.enable_prefix_cache),
        num_free_blocks=m.num_free_blocks.term,
        free_member=m._free.member,
        free_stamp=m._free.stamp,
        free_count=m._free.count,
        evictable_member=m._evictable.member,
        evictable_stamp=m._evictable.stamp,
        evictable_count=m._evictable.count,
        ref=m._ref.array,
        ref_positive=m._ref.positive,
        hash_has=m._block_hash.has,
        hash_key=m._block_hash.values,
        map_has=m._hash_to_block.has,
        map_block=m._hash_to_block.values,
        **_columns(m._sequences.columns),
        held=z3.Function("held", INT, INT),
        place=z3.Function("place", SEQ, INT, INT),
        memory=z3.Function("memory", INT, INT, theory.CONTENT),
    )


def unknown_state(name: str) -> State:
    """A state of which nothing is known, apart from any execution."""
    (start,) = Executor(hypotheses=[]).paths(lambda: symbolic_manager(_Nobody))
    model, ghosts = capture(start.value), ("held", "place", "memory")
    terms = {f.name: getattr(model, f.name) for f in fields(State) if f.name not in ghosts}
    return replace(
        model,
        **{key: z3.Const(f"{name}_{key}", term.sort()) for key, term in terms.items()},
        held=z3.Function(f"{name}_held", INT, INT),
        place=z3.Function(f"{name}_place", SEQ, INT, INT),
        memory=z3.Function(f"{name}_memory", INT, INT, theory.CONTENT),
    )


class _Nobody:
    """A class without methods: for the attributes of a manager."""

    num_free_blocks = Int(z3.Int("nobodys_num_free_blocks"))


def ghost_definitions(s: State) -> list[Any]:
    """`place` finds what a table contains, once (I7); `held` counts tables. The facts on counting are lemmas."""
    q, r = z3.Consts("q r", SEQ)
    i, j = z3.Ints("i j")
    at_i, at_j = s.tables[q][i], s.tables[r][j]
    in_q = z3.And(s.live(q), 0 <= i, i < s.tables_len[q])
    in_r = z3.And(s.live(r), 0 <= j, j < s.tables_len[r])
    two = z3.MultiPattern(at_i, at_j)
    return [
        z3.ForAll([q, i], z3.Implies(in_q, z3.And(s.place(q, at_i) == i, s.held(at_i) >= 1)), patterns=[at_i]),
        z3.ForAll(
            [q, r, i, j], z3.Implies(z3.And(in_q, in_r, q != r, at_i == at_j), s.held(at_i) >= 2), patterns=[two]
        ),
    ]

"""The standard structure: what the symbols of the proofs stand for, of one concrete state and one call.

A key is the tuple of the blocks of its prefix, each with its extra keys, a block the tuple of its tokens, a content the
tokens and the extra keys of the prefix that it was computed from. What a sequence depends on beside its tokens is what
kvblocks makes of it. So the axioms of `theory` are statements about tuples and integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kvblocks.extra import Extra, Part, parts_of_block
from kvblocks.manager import Observation
from kvproofs.state import State
from proofs.evaluating import Array, Model

NOWHERE = "an id that no sequence has"
Key = tuple[tuple[tuple[int, ...], tuple[Part, ...]], ...]
Content = tuple[Any, ...]
Memory = Mapping[tuple[int, int], Content]
"""For each block and offset the content there, where something was written."""


def chain(tokens: Iterable[int], size: int, extra: Extra = ()) -> list[Key]:
    """The keys of the full blocks of `tokens`."""
    listed = list(tokens)
    blocks = [
        (tuple(listed[i * size : (i + 1) * size]), parts_of_block(extra, i, size)) for i in range(len(listed) // size)
    ]
    return [tuple(blocks[: n + 1]) for n in range(len(blocks))]


def content_of(tokens: Sequence[int], extra: Extra, pos: int, size: int) -> Content:
    """What the memory holds of token `pos`: the tokens up to it, and the extra keys of their blocks."""
    return tuple(tokens[: pos + 1]), tuple(parts_of_block(extra, i, size) for i in range(pos // size + 1))


def array(items: Iterable[Any], default: Any) -> Array:
    """The array of a list."""
    return Array(default, dict(enumerate(items)))


def _rows(name: str, rows: Mapping[Any, tuple[Any, ...]], default: Any) -> dict[str, Any]:
    return {
        f"{name}_has": Array(False, dict.fromkeys(rows, True)),
        name: Array(Array(default), {q: array(items, default) for q, items in rows.items()}),
        f"{name}_len": Array(0, {q: len(items) for q, items in rows.items()}),
    }


def _pool(name: str, blocks: tuple[int, ...]) -> dict[str, Any]:
    return {
        f"{name}_member": Array(False, dict.fromkeys(blocks, True)),
        f"{name}_stamp": Array(0, {b: at for at, b in enumerate(blocks)}),
        f"{name}_low": 0,
        f"{name}_high": len(blocks),
        f"{name}_count": len(blocks),
    }


def state_constants(seen: Observation, num_blocks: int, size: int, cache_on: bool) -> dict[str, Any]:
    """The constants of `state.symbolic_manager`, for a state that was observed."""
    ends = {q: (table[-1] if table else -1) * size + size for q, table in seen.tables.items()}
    return {
        "num_blocks": num_blocks,
        "cache_on": cache_on,
        **_pool("free", seen.free),
        **_pool("evictable", seen.evictable),
        "ref": array(seen.ref, 0),
        "ref_positive": sum(count > 0 for count in seen.ref),
        "hash_has": array([key is not None for key in seen.block_hash], False),
        "hash_key": array([key or () for key in seen.block_hash], ()),
        "map_has": Array(False, dict.fromkeys(seen.hash_to_block, True)),
        "map_block": Array(-1, seen.hash_to_block),
        **_rows("tables", seen.tables, -1),
        **_rows("tokens", seen.tokens, -1),
        **_rows("hashes", seen.hashes, ()),
        "cached_has": Array(False, dict.fromkeys(seen.cached, True)),
        "cached": Array(0, seen.cached),
        "extra_has": Array(False, dict.fromkeys(seen.extra, True)),
        "extra": Array((), seen.extra),
        "next_slot_has": Array(False, dict.fromkeys(seen.tables, True)),
        "next_slot": Array(-1, {q: end - size + (len(seen.tokens[q]) - 1) % size + 1 for q, end in ends.items()}),
        "end_has": Array(False, dict.fromkeys(seen.tables, True)),
        "end": Array(-1, ends),
    }


def _flat(key: Key) -> tuple[int, ...]:
    return tuple(token for block, _ in key for token in block)


def structure(size: int) -> dict[str, Callable[..., Any]]:
    """What the function symbols of `terms` and `theory` mean with blocks of that size."""

    def block_of(tokens: Array, start: int) -> tuple[int, ...]:
        return tuple(tokens[start + offset] for offset in range(size))

    def differ(a: Array, i: int, b: Array, j: int) -> int:
        return next((o for o in range(size) if a[i + o] != b[j + o]), 0)

    def content(key: Key, offset: int) -> Content:
        if not key or not 0 <= offset < size:
            return ("nothing", key, offset)
        return _flat(key)[: (len(key) - 1) * size + offset + 1], tuple(parts for _, parts in key)

    def prefix(tokens: Array, extra: Extra, k: int) -> Key:
        return tuple((block_of(tokens, n * size), parts_of_block(extra, n, size)) for n in range(k))

    def reading(tokens: Array, extra: Extra, i: int) -> Content:
        return content_of([tokens[n] for n in range(i + 1)], extra, i, size)

    return {
        "times": lambda k: k * size,
        "div": lambda n: n // size,
        "mod": lambda n: n % size,
        "about": lambda _: True,
        "about_key": lambda _: True,
        "block_of_tokens": block_of,
        "parts": lambda extra, i: parts_of_block(extra, i, size),
        "key_of": lambda parent, block, parts: (*parent, (block, parts)),
        "parent_of": lambda key: key[:-1],
        "tokens_of": lambda key: key[-1][0] if key else (),
        "parts_of": lambda key: key[-1][1] if key else (),
        "depth": len,
        "prefix": prefix,
        "reading": reading,
        "content": content,
        "differ": differ,
    }


def ghosts(seen: Observation, memory: Memory) -> dict[str, Callable[..., Any]]:
    """The ghosts of `state.State`, as they are defined."""

    def place(q: Any, b: int) -> int:
        table = seen.tables.get(q, ())
        return table.index(b) if b in table else -1

    return {
        "held": lambda b: sum(b in table for table in seen.tables.values()),
        "place": place,
        "memory": lambda b, offset: memory.get((b, offset), ("nothing", b, offset)),
    }


def domains(
    seen: Observation, num_blocks: int, size: int, text: tuple[int, ...], extra: Extra, seq_id: Any
) -> dict[str, Any]:
    """What quantifiers go through: all that the state and the call speak of, and something else of each sort.

    text: the tokens of the sequence that is called, as they are after the call. extra: what it depends on beside them.
    """
    texts = [*seen.tokens.values(), text]
    extras: list[Extra] = list(dict.fromkeys([(), ((0, ("another",)),), extra, *seen.extra.values()]))
    under = [*zip(seen.tokens.values(), seen.extra.values(), strict=True), (text, extra)]
    another: Key = (((-1,) * size, ("another",)),)
    keys: dict[Any, None] = dict.fromkeys([(), another, *seen.block_hash, *seen.hash_to_block])
    for found in (*seen.hashes.values(), *(chain(text, size, beside) for text, beside in under)):
        keys.update(dict.fromkeys(found))
    keys.pop(None, None)
    arrays = dict.fromkeys(array(text, -1) for text in texts)
    furthest = max([num_blocks, *map(len, texts)])
    return {
        "Int": range(-1, furthest + 2),
        "SeqId": list(dict.fromkeys([*seen.tables, *seen.tokens, *seen.hashes, *seen.cached, seq_id, NOWHERE])),
        "Key": list(keys),
        "BlockOfTokens": list(dict.fromkeys(key[-1][0] for key in keys if key)),
        "Parts": list(dict.fromkeys([(), *(key[-1][1] for key in keys if key)])),
        "Extra": extras,
        "Array(Int, Int)": list(arrays),
    }


def observed(m: Model, s: State) -> Observation:
    """The state that symbolic terms describe under a model, in the form in which the real manager shows its own."""
    window, ids, keys = m.domains["Int"], m.domains["SeqId"], m.domains["Key"]

    def pool(member: Any, stamp: Any, count: Any) -> tuple[int, ...]:
        inside, order = m(member), m(stamp)
        listed = tuple(sorted((b for b in window if inside[b]), key=lambda b: order[b]))
        if len(listed) != m(count):
            raise ValueError(f"the count of {listed} is {m(count)}")
        return listed

    def rows(has: Any, arrays: Any, lengths: Any) -> dict[Any, tuple[Any, ...]]:
        live, items, counts = m(has), m(arrays), m(lengths)
        return {q: tuple(items[q][i] for i in range(counts[q])) for q in ids if live[q]}

    ref, has, key = m(s.ref), m(s.hash_has), m(s.hash_key)
    mapped, block, has_count, cached = m(s.map_has), m(s.map_block), m(s.cached_has), m(s.cached)
    has_extra, extra = m(s.extra_has), m(s.extra)
    blocks = range(m(s.num_blocks))
    return Observation(
        free=pool(s.free_member, s.free_stamp, s.free_count),
        evictable=pool(s.evictable_member, s.evictable_stamp, s.evictable_count),
        ref=tuple(ref[b] for b in blocks),
        block_hash=tuple(key[b] if has[b] else None for b in blocks),
        hash_to_block={k: block[k] for k in keys if mapped[k]},
        tables=rows(s.tables_has, s.tables, s.tables_len),
        tokens=rows(s.tokens_has, s.tokens, s.tokens_len),
        hashes=rows(s.hashes_has, s.hashes, s.hashes_len),
        cached={q: cached[q] for q in ids if has_count[q]},
        extra={q: extra[q] for q in ids if has_extra[q]},
    )

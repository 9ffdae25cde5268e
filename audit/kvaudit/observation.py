"""Compares what can be seen of a target's own structures with the specification's ledger."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from typing import Any

import msgspec

from kvaudit.errors import TargetError
from kvaudit.protocol import Observed, Outcome, Raised, State
from kvspec.extra import Salt
from kvspec.identity import Identity, identity
from kvspec.ledger import Change, Ledger, Sequence
from kvspec.variants import Variants

_UNKNOWN = object()
"""Stands for the key of an identity that has never been seen with one: equals nothing."""

_NO_KEY = identity(None, (), (Salt("no key"),))
"""Stands for None where a key is due: equals no identity."""


class _KeyOf(dict[Identity | None, Any]):
    def __missing__(self, h: Identity | None) -> Any:
        return _UNKNOWN


class Keys:
    """What a target's opaque keys mean: each stands for one identity, and each identity has one key."""

    def __init__(self) -> None:
        self._identity_of: dict[Any, Identity] = {}
        self._key_of = _KeyOf({None: None})

    def learn(self, change: Change, state: State, due: Ledger) -> None:
        """A key that appears where an identity was registered stands for that identity from then on."""
        for block, h in change.registered:
            self._stands_for(_key_of_block(block, h, state, due), h)

    def learn_table(self, table: Iterable[int], chain: Iterable[Identity], state: State) -> None:
        """A key that appears on a block of a table stands for the content that the block has there."""
        hashes = state.block_hash or ()
        for block, h in zip(table, chain, strict=False):
            if 0 <= block < len(hashes):
                self._stands_for(hashes[block], h)

    def _stands_for(self, key: Any, h: Identity) -> None:
        if key is not None and key not in self._identity_of and h not in self._key_of:
            self._identity_of[key] = h
            self._key_of[h] = key

    def of(self, h: Identity | None) -> Any:
        """The key of an identity."""
        return self._key_of[h]

    def of_all(self, identities: Iterable[Identity | None]) -> tuple[Any, ...]:
        """The key of each identity."""
        return tuple(map(self._key_of.__getitem__, identities))

    def meaning(self, key: Any) -> Identity | None:
        """The identity of a key; a key that nobody registered stands for one that equals no other."""
        if key is None:
            return None
        known = self._identity_of.get(key)
        return known if known is not None else identity(None, (), (Salt(f"unknown key {key}"),))

    def translated(self, state: State) -> State | None:
        """The state with identities in place of keys, without `hashes`; None if its values make no sense."""
        try:
            check_types(state)
        except TargetError:
            return None
        hashes, mapping = state.block_hash, state.hash_to_block
        return msgspec.structs.replace(
            state,
            block_hash=None if hashes is None else tuple(map(self.meaning, hashes)),
            hash_to_block=None if mapping is None else {self.meaning(key): b for key, b in mapping.items()},
            hashes=None,
        )


def _key_of_block(block: int, h: Identity, state: State, due: Ledger) -> Any:
    """The key under which a block was registered, from whichever structure can be seen."""
    if state.block_hash is not None:
        key = state.block_hash[block] if block < len(state.block_hash) else None
        _check_key(key, "block_hash")
        return key
    for seq, record in due.sequences.items():
        shown = (state.hashes or {}).get(str(seq), ())
        if h in record.chain and record.chain.index(h) < len(shown):
            key = shown[record.chain.index(h)]
            _check_key(key, "hashes")
            return key
    return next((key for key, mapped in (state.hash_to_block or {}).items() if mapped == block), None)


Agreed = tuple[State, Ledger]
"""What was seen and what was due, when these were compared and agreed."""


def agrees(state: State, due: Ledger, keys: Keys, variants: Variants, before: Agreed | None = None) -> bool:
    """Whether everything that can be seen is as the ledger has it, as far as the variants lay it down.

    before: of the same pool, after an earlier operation.
    """
    return (
        _is_free_list(state.free, due, variants)
        and (state.evictable is None or state.evictable == due.evictable)
        and (state.ref is None or state.ref == due.ref)
        and ((before is not None and _is_as_it_was(state, due, before)) or _are_keyed(state, due, keys, variants))
        and _are_records(state, due, keys)
    )


def _is_as_it_was(state: State, due: Ledger, before: Agreed) -> bool:
    """Whether neither side has changed what carries keys: then they agree again, and no key need be looked up."""
    seen, was = before
    return (
        state.block_hash == seen.block_hash
        and due.block_hash == was.block_hash
        and state.hash_to_block == seen.hash_to_block
        and due.hash_to_block == was.hash_to_block
    )


def _are_keyed(state: State, due: Ledger, keys: Keys, variants: Variants) -> bool:
    is_hash = state.block_hash is None or state.block_hash == keys.of_all(due.block_hash)
    return is_hash and _is_mapping(state, due, keys, variants)


def _is_free_list(free: tuple[int, ...] | None, due: Ledger, variants: Variants) -> bool:
    if free is None or free == due.free:
        return True
    return variants.free_list == "any order" and sorted(free) == sorted(due.free)


def _is_mapping(state: State, due: Ledger, keys: Keys, variants: Variants) -> bool:
    if state.hash_to_block is None:
        return True
    seen = state.hash_to_block
    if seen == dict(zip(keys.of_all(due.hash_to_block), due.hash_to_block.values(), strict=True)):
        return True
    if variants.duplicates != "keep all" or len(seen) != len(due.hash_to_block):
        return False
    for h, block in due.hash_to_block.items():
        mapped = seen.get(keys.of(h), -1)
        is_copy = 0 <= mapped < due.num_blocks and due.block_hash[mapped] is h
        if mapped != block and not is_copy:
            return False
    return True


def _are_records(state: State, due: Ledger, keys: Keys) -> bool:
    tables, tokens, cached, hashes = state.tables, state.tokens, state.cached, state.hashes
    records = due.sequences
    for seen in (tables, tokens, cached, hashes):
        if seen is not None and seen.keys() != records.keys():
            return False
    for seq, record in records.items():
        name: Any = seq
        if (
            (tables is not None and tables[name] != record.table)
            or (tokens is not None and tokens[name] != record.tokens)
            or (cached is not None and cached[name] != record.num_cached_tokens)
            or (hashes is not None and hashes[name] != keys.of_all(record.chain))
        ):
            return False
    return True


def check_sense(state: State, num_blocks: int) -> None:
    """Raises TargetError if it cannot be the state of any such pool: a broken observe() is no broken manager."""
    check_types(state)
    for name, listed in (("ref", state.ref), ("block_hash", state.block_hash)):
        if listed is not None and len(listed) != num_blocks:
            raise TargetError(f"observe() gives {len(listed)} entries in {name!r}, where {num_blocks} blocks are")


def check_types(state: State) -> None:
    """Raises TargetError if numbers are no integers, or keys not hashable."""
    numbers = {
        "free": state.free,
        "evictable": state.evictable,
        "ref": state.ref,
        "hash_to_block": (state.hash_to_block or {}).values(),
        "tables": [block for table in (state.tables or {}).values() for block in table],
        "tokens": [token for tokens in (state.tokens or {}).values() for token in tokens],
        "cached": (state.cached or {}).values(),
    }
    for name, values in numbers.items():
        for value in values or ():
            if type(value) is not int:
                raise TargetError(f"observe() gives {_short(value)} in {name!r}, where a number is due")
    keys = {"block_hash": state.block_hash, "hashes": [key for chain in (state.hashes or {}).values() for key in chain]}
    for name, found in keys.items():
        for key in found or ():
            _check_key(key, name)


def _check_key(key: Any, name: str) -> None:
    try:
        hash(key)
    except TypeError:
        raise TargetError(f"observe() gives {_short(key)} as a key in {name!r}: keys are to be hashable") from None


def _short(thing: Any) -> str:
    return f"{thing!r:.80}"


def as_ledger(state: State, due: Ledger, keys: Keys) -> Ledger:
    """What was seen as a ledger, so that obligations can be evaluated on it; what cannot be seen is as is due."""
    mapping = due.hash_to_block
    if state.hash_to_block is not None:
        mapping = {keys.meaning(key) or _NO_KEY: b for key, b in state.hash_to_block.items()}
    return due._replace(
        free=due.free if state.free is None else state.free,
        evictable=due.evictable if state.evictable is None else state.evictable,
        ref=due.ref if state.ref is None else state.ref,
        block_hash=due.block_hash if state.block_hash is None else tuple(map(keys.meaning, state.block_hash)),
        hash_to_block=mapping,
        sequences=_records(state, due, keys),
    )


def _records(state: State, due: Ledger, keys: Keys) -> dict[Any, Sequence]:
    """Live is who has every record that can be seen, and who has any though he is not to have one."""
    given: tuple[dict[Any, Any] | None, ...] = (state.tables, state.tokens, state.hashes, state.cached)
    seen = [records for records in given if records is not None]
    names: list[Any] = [name for name in due.sequences if all(name in records for records in seen)]
    names += dict.fromkeys(name for records in seen for name in records if name not in due.sequences)
    found = {}
    for name in names:
        record = due.sequences.get(name, Sequence((), (), (), 0))
        chain = record.chain
        if state.hashes is not None:
            chain = tuple(keys.meaning(key) or _NO_KEY for key in state.hashes.get(name, ()))
        found[name] = Sequence(
            (state.tables or {}).get(name, record.table),
            (state.tokens or {}).get(name, record.tokens),
            chain,
            (state.cached or {}).get(name, record.num_cached_tokens),
            record.extra,
        )
    return found


def comparable(outcomes: Items[Outcome]) -> list[Outcome]:
    """Outcomes as they can be compared with those of another run on another pool.

    Keys may differ from run to run (a hash with a salt): they are numbered as they appear. So may the wording of
    exceptions: only their class counts.
    """
    numbers: dict[Any, int] = {}

    def number(key: Any) -> Any:
        return None if key is None else numbers.setdefault(key, len(numbers))

    def plain(outcome: Outcome) -> Outcome:
        if isinstance(outcome, Raised):
            return Raised(outcome.error)
        if not isinstance(outcome, Observed) or outcome.state is None:
            return outcome
        state, keyed = outcome.state, dict[str, Any]()
        check_types(state)
        if state.block_hash is not None:
            keyed["block_hash"] = tuple(map(number, state.block_hash))
        if state.hashes is not None:
            keyed["hashes"] = {seq: tuple(map(number, chain)) for seq, chain in state.hashes.items()}
        if state.hash_to_block is not None:
            keyed["hash_to_block"] = {number(key): block for key, block in state.hash_to_block.items()}
        return msgspec.structs.replace(outcome, state=msgspec.structs.replace(state, **keyed))

    return [plain(outcome) for outcome in outcomes]

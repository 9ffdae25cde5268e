"""Concrete states and calls: every state that a small pool can reach, and what a caller may do there, or may not."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kvaudit.explore.canonical import Symmetries, canonical
from kvaudit.explore.moves import moves, sequence_ids
from kvaudit.protocol import Allocate, Append, Extras, Free, Mutation
from kvaudit.rulings import own_step
from kvblocks import BlockManager, InvalidArgument
from kvblocks.arithmetic import TOKEN
from kvblocks.extra import Extra, check_extra
from kvblocks.manager import Observation, Sequence
from kvproofs.state import StrategyError
from kvspec.extra import Extra as TypedExtra
from kvspec.extra import Image, extra_of
from kvspec.identity import Identity
from kvspec.ledger import Ledger, empty_ledger
from kvspec.ledger import Sequence as Record
from kvspec.operations import OutOfBlocks
from proofs.standard import Key, Memory, chain, content_of

Named = tuple[tuple[str, Any], ...]
"""Keyword arguments."""


class IterationError(Exception):
    """What iterating the caller's tokens raises."""


@dataclass(frozen=True)
class Place:
    """A state that was reached: its ledger, and the memory as the caller has written it."""

    ledger: Ledger
    memory: Memory


def reached(num_blocks: int, block_size: int, cache: bool) -> Iterator[Place]:
    """Every state of a pool, up to names, breadth first, as the specification reaches it."""
    everything_alike = Symmetries()
    start = Place(empty_ledger(num_blocks, block_size, cache), {})
    known = {canonical(start.ledger, everything_alike)}
    level = [start]
    while level:
        following: list[Place] = []
        for place in level:
            yield place
            spare = [seq for seq in sequence_ids(num_blocks) if seq not in place.ledger.sequences][:1]
            for op in moves(place.ledger, spare):
                try:
                    after = own_step(place.ledger, op).after
                except OutOfBlocks:
                    continue
                form = canonical(after, everything_alike)
                if form not in known:
                    known.add(form)
                    following.append(Place(after, _written(place.memory, after, op)))
        level = following


def played(num_blocks: int, block_size: int, program: Iterable[Mutation]) -> Place:
    """The state after a program that is never refused."""
    place = Place(empty_ledger(num_blocks, block_size), {})
    for op in program:
        after = own_step(place.ledger, op).after
        place = Place(after, _written(place.memory, after, op))
    return place


def _written(memory: Memory, after: Ledger, op: Mutation) -> Memory:
    """What the memory holds once the caller has computed what was not cached."""
    if isinstance(op, Free):
        return memory
    record, size = after.sequences[op.seq], after.block_size
    first = record.num_cached_tokens if isinstance(op, Allocate) else len(record.tokens) - 1
    return {
        **memory,
        **{
            (record.table[pos // size], pos % size): content_of(record.tokens, _extra_of(record), pos, size)
            for pos in range(first, len(record.tokens))
        },
    }


def _extra_of(record: Record) -> Extra:
    """What kvblocks makes of what a sequence depends on beside its tokens."""
    given = Extras.of(record.extra).named()
    return check_extra(given.get("salt"), given.get("lora"), given.get("images", ()), len(record.tokens))


CALLED = ("allocate", "append", "free", "slot", "can_allocate", "num_cached_tokens", "block_table")
"""The operations and reads: what is called on a state."""


@dataclass(frozen=True)
class Call:
    """One call: a method, the id of the sequence, and its argument: a prompt, a token, a position or a number.

    iteration_raises, strategy_raises: at which item, or at which block, the caller's prompt or strategy raises.
    extra: what allocate is given beside the prompt. images_raise: 0 if iterating over its images raises.
    """

    operation: str
    seq: str = ""
    argument: Any = None
    iteration_raises: int = -1
    strategy_raises: int = -1
    extra: Named = ()
    images_raise: int = -1

    @property
    def prompt(self) -> tuple[Any, ...]:
        """What is given to allocate."""
        return tuple(self.argument) if self.operation == "allocate" else ()

    def on(self, manager: Any) -> Any:
        """Make the call. Raises what the manager, the caller's prompt or the caller's strategy raises."""
        if self.operation == "allocate":
            given = dict(self.extra) | ({"images": self._images()} if self.images_raise == 0 else {})
            return manager.allocate(self.seq, self._tokens(), **given)
        if self.operation == "append":
            return manager.append_slot(self.seq, self.argument)
        if self.operation == "can_allocate":
            return manager.can_allocate(self.argument)
        if self.operation == "slot":
            return manager.slot(self.seq, self.argument)
        return getattr(manager, self.operation)(self.seq)

    @staticmethod
    def _images() -> Iterator[Any]:
        yield (b"x", 0, 1)
        raise IterationError

    def beside(self) -> Extra | None:
        """What kvblocks makes of the extra; None if it refuses it."""
        given: dict[str, Any] = {"salt": None, "lora": None, "images": (), **dict(self.extra)}
        try:
            return check_extra(**given, num_tokens=len(self.prompt))
        except InvalidArgument:
            return None

    def typed(self) -> TypedExtra:
        """The extra as the specification has it, where it is one."""
        given = dict(self.extra)
        return extra_of(given.get("salt"), images=[Image(*image) for image in given.get("images", ())])

    def _tokens(self) -> Iterator[Any]:
        for at, token in enumerate(self.argument):
            if at == self.iteration_raises:
                raise IterationError
            yield token

    def hasher(self) -> Any:
        """A hash strategy whose keys are the prefixes themselves."""
        calls = iter(range(1 << 30))

        def structural(parent: Key | None, tokens: bytes, extra: tuple[Any, ...]) -> Key:
            if next(calls) == self.strategy_raises:
                raise StrategyError
            return (*(parent or ()), (tuple(array(TOKEN, tokens)), extra))

        return structural


def calls(place: Place, operation_name: str) -> Iterator[Call]:
    """Every call of an operation on a state: what the search tries there, the misuses, and what may raise."""
    ledger = place.ledger
    spare = next(seq for seq in sequence_ids(ledger.num_blocks) if seq not in ledger.sequences)
    ids = [spare, *map(str, ledger.sequences)]
    if operation_name == "can_allocate":
        yield from (Call("can_allocate", argument=n) for n in (0, 1, ledger.num_blocks * ledger.block_size + 1, -1))
        yield from (Call("can_allocate", argument=bad) for bad in (True, "1"))
    elif operation_name == "slot":
        yield from (Call("slot", seq, at) for seq in ids for at in (0, 1, -1, ledger.num_blocks * ledger.block_size))
    elif operation_name in ("num_cached_tokens", "block_table", "free"):
        yield from (Call(operation_name, seq) for seq in ids)
    else:
        yield from _writes(ledger, operation_name, spare)


class Token(int):
    """An integer of a type of its own."""


_NO_TOKENS: tuple[Any, ...] = (True, "1", -1, 2**32, Token(-1), Token(2**32))


_EXTRAS: tuple[Named, ...] = ((("salt", "x"),), (("images", ((b"x", 0, 1),)),), (("salt", ""),))
"""What a call depends on beside its tokens; the last one is no extra."""


def _writes(ledger: Ledger, operation_name: str, spare: str) -> Iterator[Call]:
    live = list(map(str, ledger.sequences))
    for op in moves(ledger, [spare]):
        if operation_name == "append" and isinstance(op, Append):
            for token in (op.token, Token(op.token)):
                yield Call("append", op.seq, token)
                yield Call("append", op.seq, token, strategy_raises=0)
        elif operation_name == "allocate" and isinstance(op, Allocate):
            yield Call("allocate", op.seq, op.tokens)
            yield from (
                Call("allocate", op.seq, op.tokens, strategy_raises=n)
                for n in range(len(op.tokens) // ledger.block_size)
            )
            yield from (Call("allocate", op.seq, op.tokens, extra=extra) for extra in _EXTRAS if len(op.tokens) <= 3)
            if len(op.tokens) <= 2:
                yield Call("allocate", op.seq, op.tokens, images_raise=0)
                yield Call("allocate", op.seq, op.tokens, iteration_raises=len(op.tokens) - 1)
                yield from (Call("allocate", op.seq, (*op.tokens[:-1], bad)) for bad in _NO_TOKENS)
    if operation_name == "append":
        yield from (Call("append", seq, token) for seq in (spare, *live[:1]) for token in _NO_TOKENS)
        yield Call("append", spare, 0)
    else:
        yield Call("allocate", spare, ())
        yield from (Call("allocate", seq, (0,)) for seq in live[:1])


def keys_of(h: Identity | None) -> Key | None:
    """The structural key of an identity."""
    if h is None:
        return None
    size, extra = len(h.tokens), h.extra_of_all()
    return chain(h.prefix(), size, _extra_of(Record((), h.prefix(), (), 0, extra)))[-1]


def shown(ledger: Ledger) -> Observation:
    """The ledger as kvblocks would show it, with structural keys."""
    records: dict[Hashable, Any] = dict(ledger.sequences)
    return Observation(
        free=ledger.free,
        evictable=ledger.evictable,
        ref=ledger.ref,
        block_hash=tuple(map(keys_of, ledger.block_hash)),
        hash_to_block={keys_of(h): b for h, b in ledger.hash_to_block.items()},
        tables={seq: record.table for seq, record in records.items()},
        tokens={seq: record.tokens for seq, record in records.items()},
        hashes={seq: tuple(map(keys_of, record.chain)) for seq, record in records.items()},
        cached={seq: record.num_cached_tokens for seq, record in records.items()},
        extra={seq: _extra_of(record) for seq, record in records.items()},
    )


def manager_at(place: Place, call: Call) -> BlockManager:
    """kvblocks' manager in that state; its hash strategy is that of the call."""
    ledger, seen = place.ledger, shown(place.ledger)
    made = BlockManager(ledger.num_blocks, ledger.block_size, ledger.enable_prefix_cache, hasher=call.hasher())
    state = {
        "free": deque(seen.free),
        "evictable": OrderedDict.fromkeys(seen.evictable),
        "ref": list(seen.ref),
        "block_hash": list(seen.block_hash),
        "hash_to_block": dict(seen.hash_to_block),
    }
    for name, where in BlockManager.STATE.items():
        if "." not in where:
            setattr(made, where, state[name])
    made._sequences = {
        q: Sequence(
            list(seen.tables[q]),
            array(TOKEN, seen.tokens[q]),
            list(seen.hashes[q]),
            seen.cached[q],
            seen.extra[q],
            ledger.block_size,
        )
        for q in seen.tables
    }
    return made

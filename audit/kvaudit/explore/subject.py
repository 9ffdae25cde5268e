"""A target whose whole state is known: put into any state that it has been in, and compared in full after each step.

A class says which attributes make up its state: `STATE` maps each structure of `observe()` to the attribute that
holds it, or to the field of a record (see `layout`). This is believed only as far as it is seen: every other attribute
must stay what the constructor made it, every other field of a record must follow from those declared, no two records
may be one object, and `observe()` must show the same as the attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_, itemgetter
from typing import Any, NamedTuple

from kvaudit import words
from kvaudit.api import ApiTarget
from kvaudit.choices import Appended, Illegal, ReadOff, block_list
from kvaudit.explore.layout import EXTRA, PER_SEQUENCE, Layout, Unfit, joined, layout_of, opened
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool, Refused, State
from kvaudit.rulings import own_step
from kvspec import operations
from kvspec.identity import Identity
from kvspec.ledger import Change, Ledger, Sequence
from kvspec.operations import OutOfBlocks, Step
from kvspec.variants import Variants

OF_THE_POOL = ("free", "evictable", "ref", "block_hash", "hash_to_block")
"""The structures of the seed that are containers of plain values, whatever is live."""

_CONSTANT = (int, str, bytes, float, bool, type(None), type)
_NO_CHANGE = Change()

Snapshot = tuple[Any, ...]
"""The containers OF_THE_POOL, and the values of each sequence (see `layout`). Never changed in place."""


class Wrong(NamedTuple):
    """A step that is not what the specification says, and how."""

    detail: str


class Done(NamedTuple):
    """A step that completed, as the specification says: the state after it."""

    ledger: Ledger
    snapshot: Snapshot


REFUSED = "refused"
"""A step that was refused, as the specification says."""

Result = Wrong | Done | str


class Subject:
    """One pool of a target, in any of its states.

    Raises Unfit, here and later, where the declaration is missing or turns out not to be the whole state.
    """

    def __init__(self, target: ApiTarget, pool: Pool, variants: Variants) -> None:
        if "observe" not in target.capabilities:
            raise Unfit("its state cannot be seen: it offers no observe()")
        if (variants.duplicates, variants.take_from, variants.cache) != ("keep old", "free first", "as the seed"):
            raise Unfit("its profile leaves choices open that are not read off a restored state")
        manager = opened(target, pool)
        declared = _declared(manager)
        if any(getattr(cls, "__slots__", ()) for cls in type(manager).__mro__):
            raise Unfit("it has __slots__")
        if not hasattr(manager, "__dict__"):
            raise Unfit("it has no __dict__, as a compiled class has none")
        self._target = target
        self._variants = variants
        self._class = type(manager)
        self._attributes = tuple(declared[name] for name in OF_THE_POOL)
        attributes = vars(manager)
        kept = (declared[name].partition(".")[0] for name in declared if name not in OF_THE_POOL)
        self._own = {*self._attributes, *kept}
        missing = sorted(self._own - set(attributes))
        if missing:
            raise Unfit(f"it has no attribute {missing[0]}, which its STATE names")
        self._constants = {name: value for name, value in attributes.items() if name not in self._own}
        for name, value in self._constants.items():
            if not isinstance(value, _CONSTANT) and not callable(value):
                raise Unfit(f"its attribute {name} may change, and its STATE does not name it")
        self._size = len(attributes)
        self._containers = itemgetter(*self._attributes)
        self.layout = layout_of(declared, target, pool)
        self.initial: Snapshot = (*self._containers(attributes), self.layout.read(attributes))
        if not all(hasattr(value, "copy") for value in self.initial):
            raise Unfit("its attributes are no plain containers")
        self._key_of: dict[Identity | None, Any] = {None: None}
        self._identity_of: dict[Any, Identity | None] = {None: None}

    # --- states --------------------------------------------------------------------------------------------

    def restore(self, snapshot: Snapshot) -> Any:
        """A manager of its own in that state. O(state)."""
        manager: Any = object.__new__(self._class)
        attributes = manager.__dict__
        attributes.update(self._constants)
        free, evictable, ref, block_hash, mapping = self._attributes
        attributes[free] = snapshot[0].copy()
        attributes[evictable] = snapshot[1].copy()
        attributes[ref] = snapshot[2].copy()
        attributes[block_hash] = snapshot[3].copy()
        attributes[mapping] = snapshot[4].copy()
        self.layout.write(snapshot[5], attributes)
        return manager

    def state(self, manager: Any) -> Snapshot:
        """The manager's own containers. Raises Unfit if it has more state than it declares."""
        attributes = manager.__dict__
        if len(attributes) != self._size:
            new = sorted(set(attributes) - {*self._own, *self._constants})
            raise Unfit(f"it has got an attribute {', '.join(new)}, which its STATE does not name")
        if not all(map(is_, map(attributes.get, self._constants), self._constants.values())):
            changed = [name for name, value in self._constants.items() if attributes.get(name) is not value]
            raise Unfit(f"its attribute {changed[0]} changes, and its STATE does not name it")
        return (*self._containers(attributes), self.layout.read(attributes))

    def learn(self, ledger: Ledger, snapshot: Snapshot) -> None:
        """What the keys of a state mean that another process has found."""
        for b, h in enumerate(ledger.block_hash):
            if h is not None and h not in self._key_of:
                self._key_of[h] = snapshot[3][b]
                self._identity_of[snapshot[3][b]] = h

    def shows(self, ledger: Ledger, state: State) -> bool:
        """Whether `observe()` shows the ledger."""
        structures = (state.free, state.evictable, state.ref, state.block_hash, state.hash_to_block)
        sequences = joined(state.tables or {}, state.tokens or {}, state.hashes or {}, state.cached or {})
        return not any(s is None for s in structures) and self._is((*structures, sequences), ledger)

    # --- steps ---------------------------------------------------------------------------------------------

    def step(self, ledger: Ledger, snapshot: Snapshot, op: Mutation) -> Result:
        """Execute one operation on both, and compare all that there is."""
        manager = self.restore(snapshot)
        tokens: list[int] = []
        try:
            if type(op) is Allocate:
                tokens += op.tokens
                answer = manager.allocate(op.seq, tokens)
            elif type(op) is Append:
                answer = manager.append_slot(op.seq, op.token)
            else:
                assert type(op) is Free
                answer = manager.free(op.seq)
        except Exception as error:
            outcome = self._target.failure(error)
            if not isinstance(outcome, Refused):
                return Wrong(words.unexpected(outcome))
            return self._refused(manager, ledger, snapshot, op)
        if type(op) is Allocate:
            answer = self._scribbled(tokens, answer)
        try:
            step = self._due(manager, ledger, op, answer)
        except OutOfBlocks as refusal:
            return Wrong(f"completed, though {refusal}")
        except Illegal as illegal:
            return Wrong(illegal.breaches[0].detail)
        if step.result != answer or type(step.result) is not type(answer):
            return Wrong(f"{words.call(op)} is to return {step.result}, not {words.short(answer)}")
        after = self.state(manager)
        known = self._learned(step.change, after)
        if not known or manager.num_free_blocks != step.after.num_free_blocks or not self._is(after, step.after):
            return Wrong("the state after it, or what a key stands for, is another one")
        before = snapshot[5]
        for seq, values in after[5].items():
            if before.get(seq) != values and (stale := self.layout.differs(values)):
                return Wrong(stale)
        ledger = step.after
        if self._variants.free_list != "fifo":
            ledger = ledger._replace(free=tuple(after[0]))  # its own order, which is not laid down
        if type(op) is Allocate:
            self._look_for_aliases(after)
        return Done(ledger, after)

    def _refused(self, manager: Any, ledger: Ledger, snapshot: Snapshot, op: Mutation) -> Result:
        try:
            own_step(ledger, op)
        except OutOfBlocks:
            pass
        else:
            return Wrong("refused, though it fits")
        unchanged = self.state(manager) == snapshot and manager.num_free_blocks == ledger.num_free_blocks
        return REFUSED if unchanged else Wrong("refused, but the state has changed")

    @staticmethod
    def _scribbled(tokens: list[int], answer: Any) -> Any:
        """A copy of the answer, once a careless caller has overwritten the lists that he gave and got."""
        tokens[:] = [7] * (len(tokens) + 1)
        if type(answer) is not list:
            return answer
        table = tuple(answer)
        answer[:] = [7] * (len(answer) + 1)
        return table

    def _due(self, manager: Any, ledger: Ledger, op: Mutation, answer: Any) -> Step:
        """What the specification does, on the target's choices where it leaves any."""
        step = own_step(ledger, op)
        if step.result == answer or self._variants.free_list == "fifo":
            return step
        if type(op) is Allocate:
            table = block_list(answer, ledger.num_blocks)
            if table is not None:
                cached = manager.num_cached_tokens(op.seq)
                policy = ReadOff(op, table, cached, self._variants)
                return operations.allocate(ledger, op.seq, op.tokens, policy, op.extra.items)
        elif type(op) is Append and type(answer) is int and 0 <= answer < ledger.num_blocks * ledger.block_size:
            block = answer // ledger.block_size
            return operations.append_slot(ledger, op.seq, op.token, Appended(block, self._variants))
        return step

    def _learned(self, change: Change, after: Snapshot) -> bool:
        """Note the keys of new identities; False if a key stands for two identities, or for none."""
        for block, h in change.registered:
            if h not in self._key_of:
                key = after[3][block]
                if key in self._identity_of:
                    return False
                self._key_of[h] = key
                self._identity_of[key] = h
        return True

    def _is(self, snapshot: Snapshot, ledger: Ledger) -> bool:
        """Whether the containers hold exactly what the ledger says."""
        free, evictable, ref, block_hash, mapping, sequences = snapshot
        key_of = self._key_of
        if tuple(free) != ledger.free and (self._variants.free_list == "fifo" or sorted(free) != sorted(ledger.free)):
            return False
        if (
            tuple(evictable) != ledger.evictable
            or tuple(ref) != ledger.ref
            or len(mapping) != len(ledger.hash_to_block)
            or list(block_hash) != [key_of.get(h, self) for h in ledger.block_hash]
        ):
            return False
        for h, b in ledger.hash_to_block.items():
            if mapping.get(key_of.get(h, self)) != b:
                return False
        if sequences is None or len(sequences) != len(ledger.sequences):
            return False
        for seq, record in ledger.sequences.items():
            values = sequences.get(seq)
            if values is None:
                return False
            table, tokens, hashes, cached = values[:4]
            if (
                tuple(table) != record.table
                or tuple(tokens) != record.tokens
                or cached != record.num_cached_tokens
                or list(hashes) != [key_of.get(h, self) for h in record.chain]
            ):
                return False
        return True

    @staticmethod
    def _look_for_aliases(snapshot: Snapshot) -> None:
        """A list in two places would be two lists in a restored state; one record under two ids has its lists twice."""
        lists = [id(items) for values in snapshot[5].values() for items in values[:3]]
        if len(set(lists)) != len(lists):
            raise Unfit("two of its records are one list, which a restored state would not show")


def _declared(manager: Any) -> Mapping[str, str]:
    declared = getattr(type(manager), "STATE", None)
    names = (*OF_THE_POOL, *PER_SEQUENCE)
    if (
        not isinstance(declared, Mapping)
        or set(declared) - {EXTRA} != set(names)
        or not all(isinstance(path, str) for path in declared.values())
    ):
        raise Unfit(f"its class does not declare its whole state: STATE, a mapping of {', '.join(names)}")
    return declared


# --- renaming ----------------------------------------------------------------------------------------------


def renamed(
    ledger: Ledger, snapshot: Snapshot, block: Callable[[int], int], seq: Callable[[Any], Any], layout: Layout
) -> tuple[Ledger, Snapshot]:
    """The same state under other names, and with every mapping in reverse order. O(state)."""
    old = {block(b): b for b in range(ledger.num_blocks)}
    blocks = [old[b] for b in range(ledger.num_blocks)]
    new_ledger = ledger._replace(
        free=tuple(map(block, ledger.free)),
        evictable=tuple(map(block, ledger.evictable)),
        ref=tuple(ledger.ref[b] for b in blocks),
        block_hash=tuple(ledger.block_hash[b] for b in blocks),
        hash_to_block={h: block(b) for h, b in reversed(list(ledger.hash_to_block.items()))},
        sequences={
            seq(name): Sequence(tuple(map(block, record.table)), *record[1:])
            for name, record in reversed(list(ledger.sequences.items()))
        },
    )
    free, evictable, ref, block_hash, mapping, sequences = snapshot
    new_snapshot = (
        _like(free, map(block, free)),
        _like(evictable, map(block, evictable)),
        _like(ref, (ref[b] for b in blocks)),
        _like(block_hash, (block_hash[b] for b in blocks)),
        {key: block(b) for key, b in reversed(mapping.items())},
        {
            seq(name): layout.made((list(map(block, values[0])), *values[1:]))
            for name, values in reversed(sequences.items())
        },
    )
    return new_ledger, new_snapshot


def _like(container: Any, items: Any) -> Any:
    """A container of the same kind; of a mapping the items are the keys."""
    if isinstance(container, dict):
        return type(container)(zip(items, container.values(), strict=True))
    return type(container)(items)

"""kvblocks with its sequences kept in other ways: in dicts, and in records of other classes."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvblocks import BlockManager, Key
from kvblocks.extra import Extra
from kvblocks.manager import Sequence

FIELDS = ("table", "tokens", "hashes", "cached", "extra")


class InDicts(BlockManager):
    """A dict for each structure, as docs/explore.md shows; a record is made when it is looked for."""

    STATE = {
        **{name: path for name, path in BlockManager.STATE.items() if "." not in path},
        **dict(zip(("tables", *FIELDS[1:]), (f"_{field}" for field in FIELDS), strict=True)),
    }

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        for field in FIELDS:
            setattr(self, f"_{field}", {})
        super().__init__(num_blocks, block_size, enable_prefix_cache)

    @property
    def _sequences(self) -> Any:
        return _Made(self, {field: getattr(self, f"_{field}") for field in FIELDS})

    @_sequences.setter
    def _sequences(self, _: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        pass


class _Made(MutableMapping[Hashable, Sequence]):
    """Records made of dicts."""

    def __init__(self, manager: BlockManager, dicts: dict[str, dict[Hashable, Any]]) -> None:
        self._manager = manager
        self._dicts = dicts

    def __getitem__(self, seq_id: Hashable) -> Sequence:
        fields = {field: kept[seq_id] for field, kept in self._dicts.items()}
        return Sequence(**fields, block_size=self._manager.block_size)

    def __setitem__(self, seq_id: Hashable, record: Sequence) -> None:
        for field, kept in self._dicts.items():
            kept[seq_id] = getattr(record, field)

    def __delitem__(self, seq_id: Hashable) -> None:
        for kept in self._dicts.values():
            del kept[seq_id]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._dicts["table"])

    def __len__(self) -> int:
        return len(self._dicts["table"])


class Keeps(BlockManager):
    """Keeps records of another class, made of the same."""

    record: ClassVar[Any] = Sequence
    more: ClassVar[dict[str, Any]] = {}

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        table = super().allocate(seq_id, token_ids, **extra)
        fields = {field: getattr(self._sequences[seq_id], field) for field in FIELDS}
        self._sequences[seq_id] = self.record(**fields, block_size=self.block_size, **self.more)
        return table


@dataclass(kw_only=True)
class ByName:
    """A record without slots that takes its fields by name alone."""

    table: list[int]
    tokens: array[int]
    hashes: list[Key]
    cached: int
    extra: Extra
    block_size: int

    def __post_init__(self) -> None:
        made = Sequence(self.table, self.tokens, self.hashes, self.cached, self.extra, self.block_size)
        self.end, self.next_slot = made.end, made.next_slot


class KeepsByName(Keeps):
    """Its records are a dataclass."""

    record = ByName


class Counted(Sequence):
    """A record that counts, too: what does not follow from its other fields."""

    __slots__ = ("appends",)

    def __init__(
        self, table: list[int], tokens: array[int], hashes: list[Key], cached: int, extra: Extra, block_size: int
    ) -> None:
        super().__init__(table, tokens, hashes, cached, extra, block_size)
        self.appends = 0


class CountsInRecords(Keeps):
    """Has state in its records that it does not declare."""

    record = Counted

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        slot = super().append_slot(seq_id, token_id)
        seq: Any = self._sequences[seq_id]
        seq.appends += 1
        return slot


class NotesInRecords(KeepsByName):
    """The same in a field that is not there when the record is made."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        slot = super().append_slot(seq_id, token_id)
        seq: Any = self._sequences[seq_id]
        seq.last = token_id
        return slot


class Owned(ByName):
    """A record that is made of more than is declared."""

    def __init__(self, owner: str, **fields: Any) -> None:
        super().__init__(**fields)
        self.owner = owner


class KeepsOwned(Keeps):
    """Its records say whose they are."""

    record = Owned
    more = {"owner": "me"}


class DeclaresHalf(BlockManager):
    """Declares a dict, and fields of a record."""

    STATE = {**BlockManager.STATE, "cached": "_counts"}

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        super().__init__(num_blocks, block_size, enable_prefix_cache)
        self._counts: dict[Hashable, int] = {}


class DeclaresWhatIsNotThere(BlockManager):
    """Declares a field that its records do not have."""

    STATE = {**BlockManager.STATE, "tokens": "_sequences.texts"}


class Mixes(BlockManager):
    """Keeps records of two classes."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        table = super().allocate(seq_id, token_ids, **extra)
        fields: dict[str, Any] = {field: getattr(self._sequences[seq_id], field) for field in FIELDS}
        if len(self._sequences) > 1:
            self._sequences[seq_id] = Counted(**fields, block_size=self.block_size)
        return table


@dataclass(kw_only=True)
class WithList(ByName):
    """A record with a list of its own: equal lists may still be told apart."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.notes: list[int] = []


class KeepsLists(Keeps):
    """Has a container in its records that it does not declare."""

    record = WithList


class Exchanged(BlockManager):
    """Declares two of its fields for each other."""

    STATE = {**BlockManager.STATE, "tokens": BlockManager.STATE["cached"], "cached": BlockManager.STATE["tokens"]}


class Named(NamedTuple):
    """A record with a field that need not be given."""

    table: list[int]
    tokens: list[int]
    hashes: list[Key]
    cached: int
    appends: int = 0

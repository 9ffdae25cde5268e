"""The wrapper: a block manager as it is, each call of which is held to the specification.

Checked at each call, in time that does not grow with the pool, and called by these names:

    allocate      O2 O4 O5 O6 O9 I5 I8 K1 K2    the answer, num_cached_tokens, and which blocks are hit and taken
    append_slot   O2 O5 O6 O9 I8 K1 K2          the slot, and at the edge of a block which one is taken
    free          O2
    all three     I1 I4 I8, O1 of a refusal     num_free_blocks
    misuse        O10                           of an unknown id, a live id or an empty prompt, where it gets through
    reads         O3 O4 O5 I8                   what the caller asks: can_allocate, num_cached_tokens, slot, block_table

`append_slots` and `extend`, where the manager has them, are held to the appends that they stand for, with the count
after the last; not done, they are to have left it.

Every so many operations, at the full check: everything that `observe()`, `block_table` and the counts show is compared
with the ledger that is due, so that the others (I2 I3 I6 I7 O7 O8 O11) are seen as well, named after the structure that
differs. Between two full checks, and where there is no `observe()`, they show when a wrong state has consequences.

Not seen: misuse in the values of tokens or by reads, and whatever is neither answered nor observed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from kvaudit.errors import UsageError
from kvaudit.guarding.batches import BATCHES
from kvaudit.guarding.pool import pool_of
from kvaudit.guarding.reads import READS, extras, number, numbers
from kvaudit.guarding.watch import Level, Watch
from kvaudit.profiles import PROFILES
from kvaudit.protocol import Allocate, Append, Free
from kvaudit.refusals import Refusals, refusal_names


def guard(
    manager: Any,
    level: Level = "warn",
    *,
    every: int = 10_000,
    profile: str = "seed",
    folder: str | Path | None = ".kvaudit/guard",
    refusals: Refusals = (),
    observe: bool = True,
    num_blocks: int | None = None,
    block_size: int | None = None,
    enable_prefix_cache: bool | None = None,
) -> Guard:
    """Wrap a manager with the seed's API that has not served yet; use the result in its place, from one thread.

    What the manager returns and raises passes through. At the first broken contract "warn" issues a ContractWarning and
    "strict" raises a ContractViolation; then the guard is a bystander: after a wrong step nothing can be compared.

    every: operations between two full checks. profile: the rules to which the manager is held. folder: where the last
    operations are dumped if something is wrong, None for nowhere. refusals: exception classes, or their names, that
    mean "out of blocks", beside OutOfBlocks. observe: whether observe() is asked, if there is one. num_blocks,
    block_size, enable_prefix_cache: those of the pool; attributes of the manager unless given.

    Raises UsageError for what is none of these, TargetError for a manager without the API. Memory: the ledger, and the
    operations since the last full check.
    """
    if level not in ("warn", "strict"):
        raise UsageError(f'a guard has the level "warn" or "strict", not {level!r}')
    if every < 1:
        raise UsageError(f"every is the number of operations between two full checks, at least 1, not {every!r}")
    if profile not in PROFILES:
        raise UsageError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    if PROFILES[profile].chooses:
        raise UsageError(f"a guard follows no manager that chooses what it caches, as under the profile {profile}")
    pool = pool_of(manager, num_blocks, block_size, enable_prefix_cache)
    path = Path(folder) if folder is not None else None
    watch = Watch(manager, level, pool, profile, every, path, refusal_names(refusals), observe)
    used = watch.look()
    if used:
        raise UsageError(f"a guard is put around a manager before its first operation, and here {used[0].detail}")
    return Guard(watch)


def check_now(guarded: Guard) -> None:
    """A full check at once. O(pool + tokens)."""
    watch: Watch = getattr(guarded, "_Guard__watch")  # noqa: B009
    watch.full_check("a full check")


class Guard:
    """A manager behind a guard. What is no operation or read of the API of the seed is the manager's own."""

    __slots__ = ("__append", "__every", "__lockstep", "__log", "__manager", "__tails", "__watch")

    # Names with two underscores, since all others are the manager's.
    def __init__(self, watch: Watch) -> None:
        put = object.__setattr__
        put(self, "_Guard__watch", watch)
        put(self, "_Guard__append", watch.manager.append_slot)
        put(self, "_Guard__manager", watch.manager)
        put(self, "_Guard__lockstep", watch.lockstep)
        put(self, "_Guard__tails", watch.lockstep.tails)
        put(self, "_Guard__log", watch.log)
        put(self, "_Guard__every", watch.every)

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> Any:
        """As the manager's. An iterator of tokens is read to its end before the manager is asked."""
        watch: Watch = self.__watch
        given = token_ids if isinstance(token_ids, (list, tuple)) else list(token_ids)
        if watch.is_bystander:
            return watch.manager.allocate(seq_id, given, **extra)
        operation = Allocate(seq_id, tuple(given), extras(extra))  # type: ignore[arg-type]
        try:
            table = watch.manager.allocate(seq_id, given, **extra)
        except BaseException as error:
            watch.raised(operation, error)
            raise
        watch.returned(operation, numbers(table))
        return table

    def append_slot(self, seq_id: Hashable, token_id: int) -> Any:
        """As the manager's. Inside a block an append is to change nothing but the tokens: little is to be done."""
        try:
            slot = self.__append(seq_id, token_id)
        except BaseException as error:
            self.__watch.raised(Append(seq_id, token_id), error)  # type: ignore[arg-type]
            raise
        tail = self.__tails.get(seq_id)
        if tail is not None:
            if slot == tail.next != tail.edge:
                tail.next = slot + 1
                tail.tokens.append(token_id)
            elif not self.__lockstep.append(seq_id, token_id, number(slot)):
                tail = None
        try:
            counts = self.__manager.num_free_blocks == self.__lockstep.num_free_blocks
        except Exception:  # of the property; if it is a method, it only is not equal
            counts = False
        if tail is None:
            self.__watch.returned(Append(seq_id, token_id), number(slot))  # type: ignore[arg-type]
        elif not counts and self.__watch.num_free_blocks() != self.__lockstep.num_free_blocks:
            self.__watch.miscounts(Append(seq_id, token_id), number(slot))  # type: ignore[arg-type]
        else:
            self.__log.append((seq_id, token_id, slot))
            if len(self.__log) >= self.__every:
                self.__watch.full_check("the periodic full check")
        return slot

    def free(self, seq_id: Hashable) -> Any:
        """As the manager's."""
        watch: Watch = self.__watch
        try:
            answer = watch.manager.free(seq_id)
        except BaseException as error:
            watch.raised(Free(seq_id), error)  # type: ignore[arg-type]
            raise
        watch.returned(Free(seq_id), None)  # type: ignore[arg-type]
        return answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_Guard__"):  # not made yet, as in a copy
            raise AttributeError(name)
        watch: Watch = self.__watch
        value = getattr(watch.manager, name)
        if watch.is_bystander:
            return value
        if name in BATCHES:
            return watch.batch(name, value)
        if name not in READS:
            return value
        if callable(value):
            return watch.read(name, value)
        watch.read_gave(name, (), value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__watch.manager, name, value)
        if name == "append_slot":
            object.__setattr__(self, "_Guard__append", value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__watch.manager, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a guard is neither copied nor pickled: put one around the manager where it is used")

    def __repr__(self) -> str:
        return f"guard({self.__watch.manager!r})"

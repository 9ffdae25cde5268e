"""A recorder: a block manager as it is, whose calls and answers are written down as a trace for `kvaudit check`."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from kvaudit.api import ApiTarget
from kvaudit.errors import UsageError
from kvaudit.guarding.batches import BATCHES, Batch, followed
from kvaudit.guarding.lockstep import is_legal
from kvaudit.guarding.log import Call, line_of
from kvaudit.guarding.pool import pool_of
from kvaudit.guarding.reads import extras, number, numbers
from kvaudit.guarding.watch import answered, counter
from kvaudit.profiles import PROFILES
from kvaudit.protocol import EXTRAS, Allocate, Append, Free, Mutation, Outcome, Returned
from kvaudit.refusals import REFUSALS, Refusals, refusal_names
from kvaudit.targets import name_of_class
from kvaudit.trace import EXTRA, FORMAT, TraceHeader


def record(
    manager: Any,
    path: str | Path,
    *,
    profile: str = "seed",
    refusals: Refusals = (),
    num_blocks: int | None = None,
    block_size: int | None = None,
    enable_prefix_cache: bool | None = None,
) -> Recorder:
    """Wrap a manager with the seed's API that has not served yet; use the result in its place, from one thread.

    Every call of allocate, append_slot and free is written to the file at once, with its answer and the counts after
    it; what the manager returns and raises passes through. The other arguments are those of `guard`.

    Raises UsageError for what is none of these, for a file that cannot be written, and for a manager in use; and
    TargetError for a manager without the API. Cost: one line, written with one system call, an operation.
    """
    if profile not in PROFILES:
        raise UsageError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    pool = pool_of(manager, num_blocks, block_size, enable_prefix_cache)
    names = refusal_names(refusals)
    target = ApiTarget(type(manager), name=name_of_class(type(manager)), refusals=REFUSALS.union(names))
    free = counter(manager)()
    if free != pool.num_blocks:
        raise UsageError(
            "a recorder is put around a manager before its first operation, and here "
            f"{free} of {pool.num_blocks} blocks are free"
        )
    features = (EXTRA,) if target.capabilities.intersection(EXTRAS) else ()
    header = TraceHeader(FORMAT, pool, target.name, profile, features=features, refusals=names)
    return Recorder(manager, target, Path(path), header)


class Recorder:
    """A manager whose calls are written down. `close`, or the end of a `with`, ends the recording, not the manager."""

    def __init__(self, manager: Any, target: ApiTarget, path: Path, header: TraceHeader) -> None:
        self._manager = manager
        self._target = target
        self._num_blocks = header.pool.num_blocks
        self._num_free_blocks = counter(manager)
        self._step = 0
        self._live: set[Hashable] = set()
        self._encoder = msgspec.json.Encoder()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        self._write(header)

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> Any:
        """As the manager's. An iterator of tokens is read to its end before the manager is asked."""
        given = token_ids if isinstance(token_ids, (list, tuple)) else list(token_ids)
        operation = Allocate(seq_id, tuple(given), extras(extra))  # type: ignore[arg-type]
        try:
            table = self._manager.allocate(seq_id, given, **extra)
        except BaseException as error:
            self._failed(operation, error)
            raise
        self._live.add(seq_id)
        self._keep(operation, Returned(numbers(table)), answered(self._manager.num_cached_tokens, seq_id))
        return table

    def append_slot(self, seq_id: Hashable, token_id: int) -> Any:
        """As the manager's."""
        operation = Append(seq_id, token_id)  # type: ignore[arg-type]
        try:
            slot = self._manager.append_slot(seq_id, token_id)
        except BaseException as error:
            self._failed(operation, error)
            raise
        self._keep(operation, Returned(number(slot)))
        return slot

    def free(self, seq_id: Hashable) -> Any:
        """As the manager's."""
        operation = Free(seq_id)  # type: ignore[arg-type]
        try:
            answer = self._manager.free(seq_id)
        except BaseException as error:
            self._failed(operation, error)
            raise
        self._live.discard(seq_id)
        self._keep(operation, Returned())
        return answer

    def close(self) -> None:
        """End the recording; calls go to the manager all the same."""
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # not made yet, as in a copy
            raise AttributeError(name)
        value = getattr(self._manager, name)
        return followed(name, value, self._batch_raised, self._batch_returned) if name in BATCHES else value

    def _batch_raised(self, _: Batch, error: BaseException) -> None:
        if not isinstance(error, Exception):  # else it was refused or misused as a whole, which is no step
            self.close()

    def _batch_returned(self, batch: Batch, slots: Any) -> None:
        """append_slots or extend, written down as the appends that it stands for."""
        appends = batch.appends(slots)
        if len(appends) < len(batch.tokens):
            self.close()
            what = batch.no_answer(slots).detail
            warnings.warn(f"nothing is recorded any more: {what}", RuntimeWarning, stacklevel=3)
        for nth, (operation, outcome) in enumerate(appends, start=1):
            self._keep(operation, outcome, counts=nth == len(appends))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _failed(self, operation: Mutation, error: BaseException) -> None:
        if isinstance(error, Exception):
            if is_legal(self._live, operation):  # a mistake that was refused is no step: nothing has happened
                self._keep(operation, self._target.failure(error))
        else:  # Ctrl-C, say: nobody knows how far it came, so nothing that follows could be checked
            self.close()

    def _keep(self, operation: Mutation, outcome: Outcome, cached: Any = None, *, counts: bool = True) -> None:
        if self._file.closed:
            return
        self._step += 1
        call = Call(operation, outcome, cached, self._num_free_blocks() if counts else None)
        self._write(line_of(self._step, call, self._num_blocks))

    def _write(self, line: msgspec.Struct) -> None:
        """One line. Where it cannot be written the recording ends: a server is not to end for want of a trace."""
        try:
            self._file.write(self._encoder.encode(line) + b"\n")
        except (OSError, TypeError) as error:  # no room, or ids and tokens that JSON cannot hold
            self.close()
            warnings.warn(f"nothing is recorded any more: {error}", RuntimeWarning, stacklevel=4)

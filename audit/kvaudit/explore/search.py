"""Breadth-first search over every operation sequence on one pool, level by level, in one process or in several."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kvaudit.collecting import rarely_collecting
from kvaudit.errors import TargetError
from kvaudit.explore.expand import Expander, Expansion, Node
from kvaudit.protocol import ManagerProgram, Mutation

_CHUNK = 16


class Limits(NamedTuple):
    """Where a search ends although there is more."""

    depth: int | None = None
    deadline: float | None = None


class Search:
    """The states of one pool, level by level. `states` and `depth` say how far it is, whatever ended it."""

    def __init__(self, make: Callable[[], Expander], limits: Limits, processes: int = 1) -> None:
        self._make = make
        self._limits = limits
        self._processes = processes
        self.found = Expansion()
        self.depth = 0
        self.states = 1
        self.is_complete = False
        self.waiting = 1
        self._origins: list[tuple[int, Mutation | None]] = []

    def run(self, on_progress: Callable[[], None]) -> None:
        """Search until everything is known, something is wrong, or a limit is reached."""
        expander = self._make()
        root = expander.root()
        known = expander.known
        known.add(root.key)
        level = [root]
        self._origins = [(-1, None)]
        with rarely_collecting(), _Workers(self._make, expander, self._processes) as expand:
            while level and self.depth != self._limits.depth:
                following: list[Node] = []
                for expansion in expand(level):
                    self.found.add(expansion)
                    for node in expansion.new:
                        if self._processes > 1:
                            if node.key in known:
                                continue
                            known.add(node.key)
                        following.append(node._replace(number=len(self._origins)))
                        self._origins.append((node.origin, node.op))
                    self.states = len(self._origins)
                    self.waiting = len(following)
                    on_progress()
                    if self.found.is_over or self._is_late():
                        return
                level = following
                self.depth += 1
                gc.freeze()  # what is known stays: it need not be looked through again and again
        self.is_complete = not level

    def program_to(self, number: int) -> ManagerProgram:
        """The operations that led to a state, the fewest that do."""
        program: list[Mutation] = []
        while number > 0:
            number, op = self._origins[number]
            assert op is not None
            program.append(op)
        return tuple(reversed(program))

    def _is_late(self) -> bool:
        return self._limits.deadline is not None and time.monotonic() > self._limits.deadline


class _Workers:
    """Expands levels, in this process or in several; the answers come in the order of the states."""

    def __init__(self, make: Callable[[], Expander], expander: Expander, processes: int) -> None:
        self._expander = expander
        self._pool = None
        if processes > 1:
            context = multiprocessing.get_context("fork")
            self._pool = context.Pool(processes, _begin_worker, (make,))

    def __enter__(self) -> Callable[[list[Node]], Iterator[Expansion]]:
        return self._expand

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()

    def _expand(self, level: list[Node]) -> Iterator[Expansion]:
        if self._pool is None:
            yield from map(self._expander.expand, level)
            return
        chunks = (level[start : start + _CHUNK] for start in range(0, len(level), _CHUNK))
        for pickled in self._pool.imap(_expand_chunk, chunks):
            expansion = pickle.loads(pickled)
            assert isinstance(expansion, Expansion)
            yield expansion


_worker: list[Expander] = []


def _begin_worker(make: Callable[[], Expander]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process to handle
    _worker[:] = [make()]


def _expand_chunk(nodes: Iterable[Node]) -> bytes:
    total = Expansion()
    gc.freeze()
    for node in nodes:
        expansion = _worker[0].expand(node)
        total.add(expansion)
        total.new += expansion.new
        if total.is_over:
            break
    try:
        return pickle.dumps(total)
    except Exception as error:
        raise TargetError(f"its state cannot be sent from process to process: search without -j ({error})") from None

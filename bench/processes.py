"""A process for each contestant: an engine is loaded once, with stubs that must not touch anything else."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from bench.contestants import Absent, Contestant
from bench.drivers import Driver
from bench.growth import reading
from bench.memory import bytes_per_block
from bench.playing import Played, play
from bench.results import Reading
from bench.workloads import Workload

T = TypeVar("T")


class Broken(Exception):
    """A contestant that fails on a workload; the message is its own."""


@dataclass
class Running:
    """A contestant that has been started."""

    contestant: Contestant
    version: str
    hash: str
    _pipe: Connection
    _process: BaseProcess

    def play(self, workload: Workload) -> Played:
        """Play it once. Raises Broken."""
        return self._ask(partial(play, workload=workload))

    def bytes_per_block(self) -> float:
        """The memory of a pool that is all cached. Raises Broken."""
        return self._ask(bytes_per_block)

    def reading(self, number: int, workload: Workload) -> Reading:
        """The memory of the process when the workload was played once more. Raises Broken."""
        return self._ask(partial(reading, number=number, workload=workload))

    def _ask(self, work: Callable[[Driver], T]) -> T:
        """What the work on its driver gives, over there."""
        self._pipe.send(work)
        answer = _received(self._pipe, self.contestant.name)
        if isinstance(answer, str):
            raise Broken(answer)
        given: T = answer
        return given

    def end(self) -> None:
        self._pipe.close()
        self._process.kill()  # it has nothing to lose, and may be busy for minutes
        self._process.join()


@contextlib.contextmanager
def started(
    contestants: Sequence[Contestant], folders: Mapping[str, Path | None]
) -> Iterator[tuple[list[Running], dict[str, str]]]:
    """Those that can take part, and of the others by name why not. All of them are ended on leaving."""
    running: list[Running] = []
    absent: dict[str, str] = {}
    try:
        for contestant in contestants:
            try:
                running.append(_start(contestant, contestant.root(folders)))
            except Absent as why:
                absent[contestant.name] = str(why)
        yield running, absent
    finally:
        for one in running:
            one.end()


def _start(contestant: Contestant, root: Path | None) -> Running:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, contestant, root), daemon=True)
    with _without_ctrl_c():
        process.start()
    theirs.close()
    answer = _received(ours, contestant.name)
    if isinstance(answer, str):
        process.join()
        raise Absent(answer)
    version, hasher = answer
    return Running(contestant, version, hasher, ours, process)


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """What is started here never sees Ctrl-C, not even while it loads: it is the parent's, who ends it."""
    resource_tracker.ensure_running()  # multiprocessing unblocks the signal as it starts this helper of its own
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _received(pipe: Connection, name: str) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        raise Broken(f"the process of {name} has ended") from None


def _serve(pipe: Connection, contestant: Contestant, root: Path | None) -> None:
    """The child: load, then do the work that comes until nobody sends any more."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)
    try:
        driver = contestant.make(root)
    except Exception as error:
        pipe.send(str(error) or type(error).__name__)
        return
    pipe.send((driver.version, driver.hash))
    while True:
        try:
            work = pipe.recv()
        except EOFError:
            return
        answer: Any
        try:
            answer = work(driver)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        try:
            pipe.send(answer)
        except OSError:
            return  # nobody waits for it any more

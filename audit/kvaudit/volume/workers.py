"""Who runs shards: processes of this machine, or a Dask cluster. Both are an executor of `concurrent.futures`."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, Self, TypeVar

from kvaudit.errors import TargetError, UsageError
from kvaudit.termination import end_all_groups
from kvaudit.words import count

T = TypeVar("T")

_GRACE_S = 0.5
"""Less than after which Ctrl-C becomes an exception (`kvaudit.interrupt`)."""

_CONNECT_S = 10.0


class Workers(Protocol):
    """An executor whose workers may die. Use as a context manager: on leaving, what they still do is ended."""

    @property
    def name(self) -> str:
        """Who they are, for the report."""
        ...

    @property
    def slots(self) -> int:
        """How many shards they are to be given at a time."""
        ...

    def submit(self, task: Callable[..., T], *args: Any) -> Future[T]:
        """Have a task done. Raises BrokenExecutor, as its future does, if workers have died: see `renew`."""
        ...

    def renew(self) -> None:
        """Take new workers in place of those that have died. What was submitted is lost."""

    def explained(self, error: BaseException) -> BaseException:
        """What a task ended with, as it is to be told."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class LocalPool(Workers):
    """So many processes of this machine. They end with the one that started them, however that ends."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._context = multiprocessing.get_context("spawn")  # a fork would copy threads and open files
        self._executor: Executor | None = None
        self._lifeline: Connection | None = None
        self._started: set[BaseProcess] = set()

    @property
    def name(self) -> str:
        return count(self._processes, "process")

    @property
    def slots(self) -> int:
        return self._processes + 1  # one that waits, so that nobody does

    def submit(self, task: Callable[..., T], *args: Any) -> Future[T]:
        assert self._executor is not None
        before = set(multiprocessing.active_children())
        with _ctrl_c_later():
            future = self._executor.submit(task, *args)
        self._started |= set(multiprocessing.active_children()) - before
        return future

    def renew(self) -> None:
        self._end()
        self._begin()

    def explained(self, error: BaseException) -> BaseException:
        return error

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _begin(self) -> None:
        theirs, self._lifeline = self._context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(self._processes, self._context, _begin_worker, (theirs,))

    def _end(self) -> None:
        """End the processes, and the targets that they have started, at once."""
        assert self._executor is not None and self._lifeline is not None
        self._lifeline.close()
        ends = time.monotonic() + _GRACE_S
        for process in self._started:
            process.join(max(0.0, ends - time.monotonic()))
            process.kill()
        self._started.clear()
        self._executor.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Processes that are started meanwhile never hear of Ctrl-C, which is for the first one to handle."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(lifeline: Connection) -> None:
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (the target's own prints are kept away, to the end of the process)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    """Nothing is ever sent: the other end is closed, or its process has ended."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    end_all_groups()
    os._exit(0)


class Cluster(Workers):
    """The workers of a Dask cluster, which may come and go: the scheduler gives a dead one's tasks to others."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Any = None
        self._executor: Any = None

    @property
    def name(self) -> str:
        return f"the Dask cluster at {self._address}"

    @property
    def slots(self) -> int:
        threads: dict[str, int] = self._client.nthreads()
        return max(1, 2 * sum(threads.values()))

    def submit(self, task: Callable[..., T], *args: Any) -> Future[T]:
        future: Future[T] = self._executor.submit(task, *args)
        return future

    def renew(self) -> None:
        pass

    def explained(self, error: BaseException) -> BaseException:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return TargetError(f"workers of {self.name} have died over one part of the audit: {error}")
        if isinstance(error, (ModuleNotFoundError, AttributeError)):
            return UsageError(f"{self.name} cannot run an audit: its scheduler and its workers need kvaudit ({error})")
        return TargetError(f"{self.name} lost a part of the audit: {type(error).__name__}: {error}")

    def __enter__(self) -> Self:
        try:
            import distributed
        except ImportError:
            raise UsageError("--cluster needs Dask: pip install 'kvaudit[cluster]'") from None
        try:
            connect: Any = distributed.Client
            self._client = connect(self._address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--cluster {self._address}: no scheduler answers there ({error}). An address is such as "
                "tcp://HOST:8786; `dask scheduler` prints its own"
            ) from None
        if not self._client.nthreads():
            self._client.close()
            raise UsageError(f"--cluster {self._address} has no workers: start some with `dask worker {self._address}`")
        self._executor = self._client.get_executor(pure=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()

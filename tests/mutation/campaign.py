"""Runs mutants against killers, each pair in a process of its own, and keeps what came out."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import multiprocessing
import platform
import resource
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import msgspec

from mutation.killers import KILLERS
from mutation.verdict import UNFINISHED, UNSUPPORTED, Mutant, Verdict

ROOT = Path(__file__).parents[2]
LIMIT_S = 900
"""What one pair may take, in processor time."""

_READS = {
    "proof": ("spec", "impl", "proofs", "tests/mutation/by_proof.py"),
    "search": ("spec", "impl", "audit", "tests/mutation/running.py", "tests/mutation/by_search.py"),
    "tests": ("spec", "impl", "audit", "tests/mutation/running.py", "tests/mutation/by_tests.py"),
}
"""The programs on which a verdict depends, besides the mutant's; not on their layout or comments."""

_USES: dict[str, tuple[str, ...]] = {"proof": ("z3-solver",), "search": (), "tests": ("hypothesis",)}


class Pair(NamedTuple):
    killer: str
    mutant: Mutant


class _Kept(msgspec.Struct):
    killer: str
    mutant: str
    key: str
    verdict: Verdict


class Cache:
    """Verdicts by what they depend on, in a file to which each is added as it comes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Verdict] = {}
        self._sources = {killer: _digest_of_sources(_READS[killer], _USES[killer]) for killer in _READS}
        if file.exists():
            for line in file.read_bytes().splitlines():
                with contextlib.suppress(msgspec.DecodeError):  # a run that was stopped may leave half a line
                    kept = msgspec.json.decode(line, type=_Kept)
                    self._known[kept.key] = kept.verdict

    def get(self, pair: Pair) -> Verdict | None:
        return self._known.get(self._key(pair))

    def put(self, pair: Pair, verdict: Verdict) -> None:
        key = self._key(pair)
        self._known[key] = verdict
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(_Kept(pair.killer, pair.mutant.id, key, verdict)) + b"\n")

    def _key(self, pair: Pair) -> str:
        mutant = pair.mutant
        return _digest([pair.killer, self._sources[pair.killer], mutant.id, *mutant.functions, mutant.diff])


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.cache
def _digest_of_sources(reads: tuple[str, ...], uses: tuple[str, ...]) -> str:
    files = [ROOT / name for name in reads]
    texts = [file for path in files for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    versions = [platform.python_version(), *map(version, uses)]
    return _digest([*versions, *(ast.dump(ast.parse(text.read_bytes())) for text in texts)])


def run(pairs: Sequence[Pair], processes: int, on_verdict: Callable[[Pair, Verdict], None]) -> None:
    """Run the pairs, so many at a time. Ctrl-C ends what is running."""
    context = multiprocessing.get_context("fork")
    waiting = iter(pairs)
    running: dict[Connection, tuple[Pair, BaseProcess]] = {}
    try:
        while True:
            for pair in _up_to(processes - len(running), waiting):
                here, there = context.Pipe(duplex=False)
                process: BaseProcess = context.Process(target=_in_child, args=(pair, there))
                process.start()
                there.close()
                running[here] = pair, process
            if not running:
                return
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                done, child = running.pop(ready)
                verdict = _received(ready)
                child.join()
                on_verdict(done, verdict or _without_verdict(child.exitcode))
    finally:
        for _, left in running.values():
            left.terminate()
            left.join()


def _up_to(count: int, items: Iterator[Pair]) -> Iterator[Pair]:
    for _, item in zip(range(count), items, strict=False):
        yield item


def _in_child(pair: Pair, parent: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process to handle
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 5))
    try:
        verdict = KILLERS[pair.killer](pair.mutant)
    except Exception as error:  # a bug of the killer, or a mutant that it cannot deal with: no kill
        verdict = Verdict(UNSUPPORTED, f"{type(error).__name__}: {error}", 0.0)
    parent.send_bytes(msgspec.json.encode(verdict))


def _received(connection: Connection) -> Verdict | None:
    try:
        return msgspec.json.decode(connection.recv_bytes(), type=Verdict)
    except EOFError:
        return None
    finally:
        connection.close()


def _without_verdict(exitcode: int | None) -> Verdict:
    how = f"more than {LIMIT_S} s" if exitcode == -signal.SIGXCPU else f"broke down (exit code {exitcode})"
    return Verdict(UNFINISHED, how, 0.0)

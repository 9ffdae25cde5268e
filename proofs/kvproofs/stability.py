"""Whether the verdicts depend on the solver's seed or on its version: the whole proof again for each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import kvblocks
import kvproofs
import kvspec

Verdicts = dict[str, str]


class Trial(NamedTuple):
    """One whole proof: by which interpreter, with which seed."""

    python: str
    seed: int

    def __str__(self) -> str:
        return f"{self.python}, seed {self.seed}"


def trials(seeds: int, pythons: Iterable[str]) -> Iterator[Trial]:
    """Each of the interpreters, with the seeds 0 .. seeds - 1. This interpreter comes first."""
    for python in (sys.executable, *pythons):
        for seed in range(seeds):
            yield Trial(python, seed)


def run(trial: Trial) -> tuple[str, Verdicts]:
    """The version of Z3 and the verdict of each theorem. Another interpreter needs nothing but z3-solver.

    Raises RuntimeError if it gives no verdicts.
    """
    rooms = [str(Path(package.__path__[0]).parent) for package in (kvproofs, kvspec, kvblocks)]
    command = [trial.python, "-m", "kvproofs", "--verdicts", "--seed", str(trial.seed)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(rooms)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
        return found["z3"], found["verdicts"]
    except (ValueError, KeyError):
        raise RuntimeError(f"{trial}: {done.stderr.strip() or done.stdout.strip()}") from None


def unstable(first: Verdicts, other: Verdicts) -> list[str]:
    """The theorems whose verdicts are not the same, each with both verdicts."""
    names = sorted(first.keys() | other.keys())
    pairs = [(name, first.get(name, "missing"), other.get(name, "missing")) for name in names]
    return [f"{name}: {one}, then {two}" for name, one, two in pairs if one != two]


def compare(seeds: int, pythons: Iterable[str]) -> int:
    """Print a line a trial; 1 if a verdict differs from that of the first trial or is open, else 0."""
    first: Verdicts | None = None
    wrong = 0
    for trial in trials(seeds, pythons):
        version, found = run(trial)
        first = found if first is None else first
        differ = unstable(first, found)
        still_open = sum(verdict == "OPEN" for verdict in found.values())
        wrong += bool(differ) or bool(still_open)
        print(f"z3 {version}, seed {trial.seed}: {len(found) - still_open} theorems, {still_open} open", flush=True)
        print("".join(f"  {line}\n" for line in differ), end="", flush=True)
    return 1 if wrong else 0

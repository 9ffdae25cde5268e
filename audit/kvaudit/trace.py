"""Traces: a scenario as JSON lines, a header and then an operation a line. A trace is what reproduces a finding."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvaudit.errors import UsageError
from kvaudit.execution import Scenario
from kvaudit.protocol import Allocate, Append, Free, Mutation, Pool

FORMAT = "kvaudit-trace/1"
MAX_SLOTS = 2**24


class TraceHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a trace."""

    format: str
    pool: Pool
    target: str
    profile: str
    obligation: str = ""


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    step: int
    operation: Mutation


_header = msgspec.json.Decoder(TraceHeader)
_line = msgspec.json.Decoder(_Line)


def write_trace(path: Path, header: TraceHeader, scenario: Scenario) -> None:
    """Write a trace, parents made as needed. Raises OSError."""
    lines = [msgspec.json.encode(header)]
    lines += [msgspec.json.encode(_Line(number, op)) for number, op in enumerate(scenario.program, start=1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(lines) + b"\n")


def keep_trace(folder: Path | None, name: str, header: TraceHeader, scenario: Scenario) -> Path | None:
    """Write the trace of a finding under its name. None if there is no folder, or it cannot be written.

    The finding is shown all the same.
    """
    if folder is None:
        return None
    path = folder / name / "trace.jsonl"
    try:
        write_trace(path, header, scenario)
    except OSError:
        return None
    return path


def read_trace(path: Path) -> tuple[TraceHeader, Scenario]:
    """Read a trace. Raises UsageError naming the line that is wrong."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if not lines:
        raise UsageError(f"{path} is empty; a trace starts with a header")
    try:
        header = _header.decode(lines[0])
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}, line 1 is no header of a trace: {error}") from None
    if header.format != FORMAT:
        raise UsageError(f"{path} has the format {header.format!r}; this version reads {FORMAT!r}")
    if header.pool.num_blocks < 1 or header.pool.block_size < 1:
        raise UsageError(f"{path}, line 1: a pool has at least one block of at least one token")
    if header.pool.num_blocks * header.pool.block_size > MAX_SLOTS:
        raise UsageError(f"{path}, line 1: a pool of more than {MAX_SLOTS:,} slots cannot be played")
    program: list[Mutation] = []
    live: set[str] = set()
    for number, text in enumerate(lines[1:], start=2):
        try:
            line = _line.decode(text)
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}, line {number} is no operation: {error}") from None
        if line.step != number - 1:
            raise UsageError(f"{path}, line {number}: step {number - 1} was due, this is step {line.step}")
        _check(line.operation, live, f"{path}, line {number}")
        program.append(line.operation)
    return header, Scenario(header.pool, tuple(program))


def _check(operation: Mutation, seen: set[str], where: str) -> None:
    """What no caller may do is refused here. (Whether an id is still live depends on refusals, hence on the target.)"""
    if not operation.seq:
        raise UsageError(f"{where}: the id of a sequence has at least one character")
    if isinstance(operation, Allocate):
        if not operation.tokens:
            raise UsageError(f"{where}: a prompt has at least one token")
        seen.add(operation.seq)
    elif operation.seq not in seen:
        raise UsageError(f"{where}: {operation.seq!r} was never allocated")
    tokens = operation.tokens if isinstance(operation, Allocate) else ()
    for token in (*tokens, *((operation.token,) if isinstance(operation, Append) else ())):
        if not 0 <= token < 2**32:
            raise UsageError(f"{where}: {token} is no token id: they are integers in 0 .. 2^32-1")
    assert isinstance(operation, (Allocate, Append, Free))

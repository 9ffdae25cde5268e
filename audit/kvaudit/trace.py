"""Traces: JSON lines, a header and then an operation a line, with what was expected and what came.

A trace that a run has saved reproduces a finding; one that somebody recorded tells what a running system did.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, TypeVar

import msgspec

from kvaudit.errors import UsageError
from kvaudit.programs import extra_of, names_of
from kvaudit.protocol import (
    MANAGER,
    SCHEDULER,
    Allocate,
    AnyMutation,
    Cancel,
    LevelName,
    Mutation,
    Pool,
    Request,
    Step,
    Submit,
)
from kvaudit.saved_ledger import SavedLedger, ledger_of
from kvaudit.scenario import Scenario
from kvaudit.scheduling.work import Work
from kvaudit.trace_sense import check_line
from kvspec.ledger import Ledger, empty_ledger
from kvspec.obligations import OBLIGATIONS

FORMAT = "kvaudit-trace/1"
EXTRA = "extra"
"""The feature of a trace in which sequences depend on more than their tokens: on a salt, a LoRA, images."""

FEATURES = frozenset({SCHEDULER, EXTRA})
"""What a trace may need beyond this format, by name. A reader that does not know a feature refuses the trace."""

MAX_SLOTS = 2**24
MAX_LINE_BYTES = 2**26


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a program comes from: who made it, and under which seed of a run."""

    engine: Literal["witness", "hypothesis", "swarm", "exhaustive"]
    seed: int | None = None


class TraceHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The first line of a trace.

    target, profile: who was asked, and the rules to which it was held. refusals: names of its exceptions that are
    refusals, beside OutOfBlocks. obligation: the one that a saved failure
    violates. steps: how many operations follow, where that is known. features: see FEATURES. ledger: the state before
    the first operation, where that is not the fresh pool. origin: where the program of a saved failure comes from.
    """

    format: str
    pool: Pool
    target: str
    profile: str
    obligation: str = ""
    steps: int | None = None
    features: tuple[str, ...] = ()
    ledger: SavedLedger | None = None
    refusals: tuple[str, ...] = ()
    origin: Origin | None = None

    @property
    def level(self) -> LevelName:
        """The level of its operations."""
        return SCHEDULER if SCHEDULER in self.features else MANAGER

    @property
    def start(self) -> Ledger:
        """The ledger before the first operation. Raises UsageError if the saved one makes no sense."""
        pool = self.pool
        if self.ledger is not None:
            return ledger_of(pool, self.ledger)
        return empty_ledger(pool.num_blocks, pool.block_size, pool.enable_prefix_cache)


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an operation was answered, or was to be answered; None where that is not known.

    table: of an allocate. slot: of an append. num_cached_tokens: of the new sequence. num_free_blocks: after the
    operation. error: the class of an exception. other: an answer that is neither table nor slot, in words. work: of a
    step of a scheduler.
    """

    outcome: Literal["completed", "refused", "raised"]
    table: tuple[int, ...] | None = None
    slot: int | None = None
    num_cached_tokens: int | None = None
    num_free_blocks: int | None = None
    error: str = ""
    other: str = ""
    work: Work | None = None


RECORDED = ("table", "slot", "num_cached_tokens", "num_free_blocks")
"""The fields of an answer of which None says that they are not known."""


class TraceLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An operation. `expected` would have been right; where the profile leaves a choice, more may be."""

    step: int
    operation: AnyMutation
    expected: Answer | None = None
    came: Answer | None = None

    @property
    def mutation(self) -> Mutation:
        """The operation, which is one of a block manager's."""
        assert isinstance(self.operation, Mutation)
        return self.operation

    @property
    def differs(self) -> bool:
        """Whether it is known that another answer came than was expected; how a refusal is called does not count."""
        due, came = self.expected, self.came
        if due is None or came is None:
            return False
        both = ((getattr(due, name), getattr(came, name)) for name in RECORDED)
        return (
            came.outcome != due.outcome
            or came.other != due.other
            or any(one != other for one, other in both if one is not None and other is not None)
        )


def features_of(level: LevelName, program: Iterable[AnyMutation] = ()) -> tuple[str, ...]:
    """What a reader has to know of a trace of these operations, at that level."""
    scheduler = (SCHEDULER,) if level == SCHEDULER else ()
    return (*scheduler, EXTRA) if any(extra_of(operation).items for operation in program) else scheduler


class _Format(msgspec.Struct):
    format: str


_format = msgspec.json.Decoder(_Format)
_header = msgspec.json.Decoder(TraceHeader)
_line = msgspec.json.Decoder(TraceLine)
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NOT_PLAIN = (
    (b"\x1f\x8b", ". It is compressed: gunzip it first"),
    (b"\xef\xbb\xbf", ". It begins with a byte order mark: save it without one"),
    (b"\xff\xfe", ". It is UTF-16: save it as UTF-8"),
)
"""How a file begins that holds a trace in another form, and what to do."""

T = TypeVar("T")


# --- writing -----------------------------------------------------------------------------------------------


def lines_of(scenario: Scenario) -> list[TraceLine]:
    """The lines of a program of which nobody says what comes of it."""
    return [TraceLine(number, operation) for number, operation in enumerate(scenario.program, start=1)]


def write_trace(path: Path, header: TraceHeader, lines: Iterable[TraceLine]) -> None:
    """Write a trace, parents made as needed; the whole of it or nothing, if it is to be a file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # a pipe or a device is written to, and stays what it is
        return _write_lines(path, header, lines)
    path = path.resolve()  # a link stays a link
    part = path.with_name(f"{path.name}.part")
    try:
        _write_lines(part, header, lines)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_lines(path: Path, header: TraceHeader, lines: Iterable[TraceLine]) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for struct in itertools.chain((header,), lines):
            file.write(encoder.encode(struct) + b"\n")


def keep_trace(folder: Path | None, name: str, header: TraceHeader, lines: Iterable[TraceLine]) -> Path | None:
    """Write the trace of a finding under its name. None if there is no folder, or it cannot be written.

    The finding is shown all the same. What another target has left under that name stays.
    """
    if folder is None:
        return None
    path, number = folder / name / "trace.jsonl", 1
    while _is_anothers(path, header.target):
        number += 1
        path = folder / f"{name}-{number}" / "trace.jsonl"
    try:
        write_trace(path, header, lines)
    except OSError:
        return None
    return path


def _is_anothers(path: Path, target: str) -> bool:
    """Whether there is a trace of another target, or what is none."""
    try:
        with TraceReader(path) as reader:
            return reader.header.target != target
    except UsageError:
        return path.is_file()


# --- reading -----------------------------------------------------------------------------------------------


class TraceReader:
    """A trace, read line by line: use as a context manager, and iterate over it once.

    Raises UsageError, naming the line, for what is no trace. `line` is the number of the line read last, `done` the
    part of the file that has been read. Memory: one line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 0
        try:
            self._size = path.stat().st_size
            self._file: IO[bytes] = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        try:
            self.header = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> TraceReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    @property
    def done(self) -> float:
        """From 0 to 1."""
        return min(1.0, self._file.tell() / self._size) if self._size else 1.0

    @property
    def where(self) -> str:
        """The line read last, for a message."""
        return f"{self.path}, line {self.line}"

    def __iter__(self) -> Iterator[TraceLine]:
        while text := self._next():
            line = self._decode(_line, text, "is no operation")
            due = self.line - 1
            if line.step != due:
                twice = line.step < due
                hint = "is a line doubled, or out of order?" if twice else "is a line missing, or out of order?"
                raise UsageError(f"{self.where}: step {due} was due, this is step {line.step}: {hint}")
            if self.header.steps is not None and due > self.header.steps:
                raise UsageError(f"{self.where}: the header promises no more than {self.header.steps} operations")
            if isinstance(line.operation, Request) != (self.header.level == SCHEDULER):
                kind = type(line.operation).__name__.lower()
                raise UsageError(f"{self.where}: {kind} is no operation at {self.header.level} level: see `features`")
            check_line(line.operation, (line.expected, line.came), self.where)
            if EXTRA not in self.header.features and extra_of(line.operation).items:
                raise UsageError(f'{self.where} has an extra, for which the header is to list "{EXTRA}" in features')
            yield line
        steps = self.line - 1
        if self.header.steps is not None and steps < self.header.steps:
            raise UsageError(
                f"{self.where} is the last one, after {steps} operations: the header promises {self.header.steps}. "
                "Was the file cut off?"
            )

    def _next(self) -> bytes:
        """The next line; empty at the end."""
        try:
            text = self._file.readline(MAX_LINE_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from None
        if text:
            self.line += 1
        if len(text) > MAX_LINE_BYTES:
            raise UsageError(f"{self.where} is longer than {MAX_LINE_BYTES:,} bytes")
        return text

    def _read_header(self) -> TraceHeader:
        text = self._next()
        if not text:
            raise UsageError(f"{self.path} is empty; a trace starts with a header")
        found = self._decode(_format, text, "is no header of a trace").format
        if found != FORMAT:
            raise UsageError(f"{self.path} has the format {found!r}; this version reads {FORMAT!r}")
        header = self._decode(_header, text, "is no header of a trace")
        pool = header.pool
        if pool.num_blocks < 1 or pool.block_size < 1:
            raise UsageError(f"{self.where}: a pool has at least one block of at least one token")
        if pool.num_blocks * pool.block_size > MAX_SLOTS:
            raise UsageError(f"{self.where}: a pool of more than {MAX_SLOTS:,} slots cannot be played")
        if header.steps is not None and header.steps < 0:
            raise UsageError(f"{self.where}: {header.steps} is no number of operations")
        if header.obligation and header.obligation not in OBLIGATIONS:
            raise UsageError(f"{self.where}: this version knows no obligation {header.obligation!r}")
        unknown = sorted(set(header.features) - FEATURES)
        if unknown:
            needs = ", ".join(map(repr, unknown))
            raise UsageError(f"{self.where}: the trace needs {needs}, which this version does not know")
        return header

    def _decode(self, decoder: msgspec.json.Decoder[T], text: bytes, problem: str) -> T:
        try:
            return decoder.decode(text)
        except _BAD as error:
            hint = ". Was the file cut off?" if not text.endswith(b"\n") else ""
            hint = next((said for begin, said in _NOT_PLAIN if self.line == 1 and text.startswith(begin)), hint)
            why = error if text.strip() else "it is empty"
            raise UsageError(f"{self.where} {problem}: {why}{hint}") from None


def read_trace(path: Path) -> tuple[TraceHeader, Scenario]:
    """Read the program of a trace, to be played. Raises UsageError naming the line that is wrong."""
    header, lines = read_lines(path)
    return header, Scenario(header.pool, tuple(line.operation for line in lines))


def read_lines(path: Path) -> tuple[TraceHeader, list[TraceLine]]:
    """Read a whole trace that starts on a fresh pool. Raises UsageError naming the line that is wrong."""
    with TraceReader(path) as reader:
        if reader.header.ledger is not None:
            raise UsageError(
                f"{path} starts from a ledger in mid-life, and no target can be put there: it can only be checked, "
                f"with kvaudit check {path}"
            )
        seen: set[str] = set()
        lines = []
        for line in reader:
            operation = line.operation
            if isinstance(operation, (Allocate, Submit)):
                seen.add(operation.seq)
            for seq in names_of(operation):  # whether it is still live depends on refusals, hence on the target
                if seq not in seen:
                    verb = "submitted" if isinstance(operation, (Step, Cancel)) else "allocated"
                    raise UsageError(f"{reader.where}: {seq!r} was never {verb}")
            if isinstance(operation, Submit):
                _check_fits(operation, reader.header.pool, reader.where)
            lines.append(line)
        if reader.header.obligation and not lines:
            raise UsageError(f"{path} has no operation, so there is nothing to play that could violate anything")
        return reader.header, lines


def _check_fits(operation: Submit, pool: Pool, where: str) -> None:
    length, slots = len(operation.tokens) + operation.max_new_tokens, pool.num_blocks * pool.block_size
    if length > slots:  # nobody submits it
        raise UsageError(f"{where}: {length} tokens, new ones included, are more than the {slots} of the pool")

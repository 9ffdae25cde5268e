"""A target in a child process that speaks the protocol over its standard input and output."""

from __future__ import annotations

import collections
import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence

import msgspec

from kvaudit.errors import TargetError
from kvaudit.protocol import (
    VERSION,
    Answer,
    Failed,
    Open,
    Opened,
    Operation,
    Outcome,
    Pool,
    Question,
    Ran,
    Run,
    Start,
    Started,
    Stop,
    is_hang,
)

_MAX_LINE_BYTES = 64 * 2**20
_STDERR_LINES = 20
_GRACE_S = 2.0

_REQUIRED = ("allocate", "append_slot", "free")
"""Without the reads of `kvaudit.api.REQUIRED` a program can be audited, but the audit is inconclusive."""

_decoder = msgspec.json.Decoder(Answer)


class ProcessTarget:
    """Runs `command` and speaks the protocol with it.

    timeout: seconds that one answer may take; start_timeout: seconds until the first one. label: the target's
    name in messages. hidden: capabilities that are not to be used.
    Raises TargetError if the program does not start, or breaks the protocol.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout: float = 10.0,
        start_timeout: float = 60.0,
        label: str = "",
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self._label = label or " ".join(command)
        self._timeout = timeout
        self._buffer = bytearray()
        self._asked = ""
        self._stderr: collections.deque[str] = collections.deque(maxlen=_STDERR_LINES)
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that its children go with it, and Ctrl-C is ours to handle
            )
        except OSError as error:
            raise TargetError(f"{self._label} could not be started: {error.strerror or error}") from None
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._listener = threading.Thread(target=self._keep_stderr, daemon=True)
        self._listener.start()
        try:
            started = self._ask(Start(), start_timeout)
            if isinstance(started, Failed):
                if started.error in ("TargetError", "UsageError"):  # from a child of ours: it names itself
                    raise TargetError(started.message)
                raise TargetError(f"{self._label} could not be started: {started.message or started.error}")
            if not isinstance(started, Started):
                raise self._broken(f"answered start with {type(started).__name__.lower()}")
            if started.protocol != VERSION:
                raise TargetError(f"{self._label} speaks protocol {started.protocol}, this kvaudit speaks {VERSION}")
            lacking = [name for name in _REQUIRED if name not in started.capabilities]
            if lacking:
                raise TargetError(f"{self._label} lacks {', '.join(lacking)}: nothing can be audited without")
        except BaseException:
            self.close()
            raise
        self.name = started.name
        self.version = started.version
        self.profile = started.profile
        self.stubs = tuple(started.stubs)
        self.notes = tuple(started.notes)
        self.capabilities = frozenset(started.capabilities) - hidden

    def open(self, pool: Pool) -> Failed | None:
        """Make a fresh manager; None if that went well."""
        answer = self._ask(Open(pool), self._timeout)
        if isinstance(answer, Failed):
            return answer
        if not isinstance(answer, Opened):
            raise self._broken(f"answered open with {type(answer).__name__.lower()}")
        return None

    def run(self, program: Sequence[Operation]) -> list[Outcome]:
        """Execute the operations and return their outcomes; fewer than asked for only if the last one is a hang."""
        answer = self._ask(Run(list(program)), self._timeout)
        if isinstance(answer, Failed):
            raise TargetError(f"{self._label}: {answer.message or answer.error}")
        if not isinstance(answer, Ran):
            raise self._broken(f"answered run with {type(answer).__name__.lower()}")
        outcomes = answer.outcomes
        if len(outcomes) != len(program) and not (outcomes and is_hang(outcomes[-1])):
            raise self._broken(f"answered {len(program)} operations with {len(outcomes)} outcomes")
        return outcomes

    def close(self) -> None:
        """Ask the target to stop, then end it and its children. Safe to call twice."""
        process = self._process
        if process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                assert process.stdin is not None
                process.stdin.write(msgspec.json.encode(Stop()) + b"\n")
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._listener.join(_GRACE_S)
        self._selector.close()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _ask(self, question: Question, timeout: float) -> Answer:
        assert self._process.stdin is not None
        self._asked = type(question).__name__.lower()
        with contextlib.suppress(OSError):  # it has ended: perhaps not without a word
            self._process.stdin.write(msgspec.json.encode(question) + b"\n")
            self._process.stdin.flush()
        line = self._read_line(timeout)
        try:
            return _decoder.decode(line)
        except msgspec.MsgspecError as error:
            shown = line[:200].decode(errors="replace")
            raise self._broken(f"sent a line that is no answer ({error}): {shown}") from None

    def _read_line(self, timeout: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        searched = 0
        while True:
            end = self._buffer.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return line
            searched = len(self._buffer)
            if searched > _MAX_LINE_BYTES:
                raise self._broken(f"sent more than {_MAX_LINE_BYTES >> 20} MiB without an end of line")
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise self._broken(f"gave no answer to {self._asked!r} within {timeout:g} s")
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise self._broken(f"ended where an answer to {self._asked!r} was due")
            self._buffer += chunk

    def _keep_stderr(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            self._stderr.append(raw[:500].decode(errors="replace").rstrip())

    def _broken(self, what: str) -> TargetError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(0.2)
            what += f" (exit status {code})" if code >= 0 else f" (killed by {signal.Signals(-code).name})"
            self._listener.join(_GRACE_S)
        said = "\n".join(f"    {line}" for line in self._stderr)
        return TargetError(f"{self._label} {what}" + (f"\n  its stderr ends:\n{said}" if said else ""))

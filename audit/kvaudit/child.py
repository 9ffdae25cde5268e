"""A child process with which lines are exchanged, within limits of time and of size.

Nothing here blocks: while a question is written, an answer is awaited or an end is waited for, both streams of the
child are read. So neither a child that does not listen nor one that does not stop talking holds up its parent.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

from kvaudit.errors import BrokenProtocol, TargetError
from kvaudit.printable import without_controls
from kvaudit.termination import end_group, ends_with_us

_MAX_LINE_BYTES = 64 * 2**20
_CHUNK_BYTES = 1 << 16
_STDERR_BYTES = 16 * 2**10
_STDERR_LINES = 20
_GRACE_S = 2.0
_SHOWN = 500
"""Characters of a line that a message shows."""


class Child:
    """Runs `command` in a process group of its own, so that its children go with it, and Ctrl-C is ours to handle.

    label: its name in messages. Raises TargetError if it cannot be started.
    """

    def __init__(self, command: Sequence[str], label: str) -> None:
        self._label = label
        self._buffer = bytearray()  # of standard output, what has not been read as a line
        self._stderr = bytearray()
        self._unsent = memoryview(b"")
        self._talks = True  # standard output is open
        self._has_answered = False
        try:
            self._process = subprocess.Popen(
                list(command),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise TargetError(f"{label} could not be started: {_reason(command[0], error)}") from None
        ends_with_us(self._process.pid)
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._stdin, self._stdout, self._stderr_fd = (stream.fileno() for stream in streams if stream is not None)
        self._selector = selectors.DefaultSelector()
        for fd in (self._stdin, self._stdout, self._stderr_fd):
            os.set_blocking(fd, False)
        for fd in (self._stdout, self._stderr_fd):
            self._selector.register(fd, selectors.EVENT_READ)

    def exchange(self, line: bytes, timeout: float, asked: str) -> bytes:
        """Send a line and return the next one, without its end. `asked` names the question in messages.

        Raises BrokenProtocol if there is no answer within `timeout` seconds, or something else than one line.
        """
        self._pump(0)
        if self._buffer and self._has_answered:  # what it says before the first question is taken for an answer
            raise self.broken(f"said more than the one line that was due, before {asked!r}: {shown(self._buffer)}")
        self._send(line)
        deadline = time.monotonic() + timeout
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > _MAX_LINE_BYTES:
                raise self.broken(f"sent more than {_MAX_LINE_BYTES >> 20} MiB without an end of line")
            if not self._talks:
                half = f", after half a line: {shown(self._buffer)}" if self._buffer else ""
                raise self.broken(f"{self._how_it_ended()} where an answer to {asked!r} was due{half}")
            left = deadline - time.monotonic()
            if left <= 0:
                hint = f", only {searched:,} bytes without an end of line" if searched else ""
                if not (searched or self._has_answered):
                    hint = ": is its standard output flushed after each line?"
                raise self.broken(f"gave no answer to {asked!r} within {timeout:g} s{hint}")
            self._pump(left)
        self._has_answered = True
        answer = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if self._unsent:
            raise self.broken(f"answered before it had read {asked!r} to its end: {shown(answer)}")
        return answer

    def stop(self, line: bytes) -> str:
        """Send the last line and give the child a moment to end. What is wrong with how it ended; empty if nothing."""
        if not self._unsent:  # else it does not listen
            self._send(line)
        if self._unsent:
            self._selector.unregister(self._stdin)
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._stdin, self._unsent = -1, memoryview(b"")  # the number may be another file's by now
        if not self._ended_within(_GRACE_S):
            return f"does not end within {_GRACE_S:g} s of 'stop'"
        if self._buffer:
            return f"answers 'stop', to which no answer is due: {shown(self._buffer)}"
        code = self._process.returncode
        return f"ends with {_status(code)} after 'stop'" if code else ""

    def end(self) -> None:
        """End it and its children, whatever they do. Safe to call twice."""
        end_group(self._process.pid)
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def broken(self, what: str, *lines: str) -> BrokenProtocol:
        """An error that says what it did, with its exit status and the end of its standard error."""
        if self._ended_within(0.2):
            what += f" ({_status(self._process.returncode)})"
        return BrokenProtocol(self._label, what, lines, self.last_words())

    def last_words(self) -> list[str]:
        """The last lines of its standard error."""
        lines = bytes(self._stderr).decode(errors="replace").splitlines()[-_STDERR_LINES:]
        return [without_controls(line[:_SHOWN].rstrip()) for line in lines]

    def _how_it_ended(self) -> str:
        return "ended" if self._ended_within(1.0) else "closed its standard output"

    def _ended_within(self, seconds: float) -> bool:
        """Whether it ends in that time; what it still has to say is listened to."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._pump(min(left, 0.01))
        for _ in range(_MAX_LINE_BYTES // _CHUNK_BYTES):  # its children may talk for ever
            if not self._pump(0):
                break
        return True

    def _send(self, line: bytes) -> None:
        self._unsent = memoryview(line)
        self._write()
        if self._unsent:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._stdin, self._unsent) :]
        except BlockingIOError:
            pass
        except (OSError, ValueError):  # it has ended: perhaps not without a word
            self._unsent = memoryview(b"")

    def _pump(self, timeout: float) -> int:
        """Wait until something can be read or written, and do it. How many streams were ready."""
        if not self._selector.get_map():
            time.sleep(timeout)
            return 0
        ready = self._selector.select(timeout)
        for key, _ in ready:
            if key.fd == self._stdin:
                self._write()
                if not self._unsent:
                    self._selector.unregister(self._stdin)
                continue
            chunk = os.read(key.fd, _CHUNK_BYTES)
            if not chunk:
                self._selector.unregister(key.fd)
                self._talks = self._talks and key.fd != self._stdout
            elif key.fd == self._stdout:
                if len(self._buffer) <= _MAX_LINE_BYTES:  # what is too long already is not kept
                    self._buffer += chunk
            else:
                self._stderr += chunk
                del self._stderr[:-_STDERR_BYTES]
        return len(ready)


def shown(line: bytes | bytearray) -> str:
    """A line of a child's as a message shows it."""
    text = bytes(line[: 4 * _SHOWN]).decode(errors="backslashreplace")
    text = without_controls(text.rstrip("\r\n"))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(line):,} bytes)"


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _reason(program: str, error: OSError) -> str:
    """Why a program does not start, and what to do."""
    said = error.strerror or str(error)
    if isinstance(error, FileNotFoundError) and os.path.isfile(program):
        return f"{said}. The file is here: write ./{program}" if os.sep not in program else f"{said}: its interpreter?"
    if isinstance(error, PermissionError) and os.path.isfile(program):
        return f"{said}. Is it executable? chmod +x {program}"
    if "Exec format error" in said:
        return f"{said}. A script begins with #! and its interpreter, or is started as INTERPRETER {program}"
    return said

"""The child's side of the protocol: `python -m kvaudit.serve TARGET` serves a Python class or an engine.

Standard output carries the protocol and nothing else: whatever the target prints goes to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, BinaryIO

import msgspec

from kvaudit.api import encode_line
from kvaudit.errors import TargetError, UsageError
from kvaudit.in_process import InProcessTarget
from kvaudit.observation import check_types
from kvaudit.profiles import PROFILES, SHIPPED
from kvaudit.protocol import Failed, Observed, Open, Opened, Outcome, Question, Ran, Run, Start, Started, Stop
from kvaudit.targets import load_in_process

_decoder = msgspec.json.Decoder(Question)


def main() -> None:
    """Answer every line of standard input until `stop` or the end of the input."""
    parser = argparse.ArgumentParser(prog="python -m kvaudit.serve")
    parser.add_argument("target")
    parser.add_argument("--source")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--refusal", action="append", default=[])
    parser.add_argument("--level", choices=["manager", "scheduler"])
    parser.add_argument("--timeout", type=float, default=10.0)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    first = sys.stdin.buffer.readline()
    if not first or not isinstance(_decoder.decode(first), Start):
        return
    try:
        target = load_in_process(
            options.target,
            source=options.source,
            refusals=frozenset(options.refusal),
            timeout=options.timeout,
            settings=dict(setting.split("=", 1) for setting in options.settings),
            level=options.level,
        )
    except (TargetError, UsageError) as error:
        _send(answers, Failed(type(error).__name__, str(error)))
        return
    started = Started(
        name=target.name,
        capabilities=sorted(target.capabilities),
        version=target.version,
        profile=target.profile if target.profile in SHIPPED else msgspec.to_builtins(PROFILES[target.profile]),
        stubs=list(target.stubs),
        notes=list(target.notes),
        settings={name: list(values) for name, values in target.settings.items()} or msgspec.UNSET,
    )
    _send(answers, started)
    for line in sys.stdin.buffer:
        question = _decoder.decode(line)
        if isinstance(question, Stop):
            return
        _send(answers, _answer(target, question))


def _answer(target: InProcessTarget, question: Any) -> msgspec.Struct:
    if isinstance(question, Open):
        return target.open(question.pool) or Opened()
    if not isinstance(question, Run):
        return Failed("ProtocolError", f"{type(question).__name__.lower()} is asked once, at the beginning")
    try:
        return Ran([_on_the_wire(outcome) for outcome in target.run(question.program)])
    except TargetError as error:
        return Failed(type(error).__name__, str(error))


def _on_the_wire(outcome: Outcome) -> Outcome:
    """Keys of any kind become strings, which is all that a key needs to be."""
    if not isinstance(outcome, Observed) or outcome.state is None:
        return outcome
    state = outcome.state
    check_types(state)  # here the message can still say what it is about
    keyed: dict[str, Any] = {}
    if state.block_hash is not None:
        keyed["block_hash"] = tuple(map(_plain, state.block_hash))
    if state.hash_to_block is not None:
        keyed["hash_to_block"] = {_plain(key): block for key, block in state.hash_to_block.items()}
    if state.hashes is not None:
        keyed["hashes"] = {seq: tuple(map(_plain, keys)) for seq, keys in state.hashes.items()}
    return msgspec.structs.replace(outcome, state=msgspec.structs.replace(state, **keyed))


def _plain(key: Any) -> str | None:
    return key if key is None or type(key) is str else repr(key)


def _send(stream: BinaryIO, message: msgspec.Struct) -> None:
    try:
        line = encode_line(message)
    except (OverflowError, ValueError, TypeError) as error:
        line = encode_line(Failed(type(error).__name__, f"its answer cannot be sent: {error}"))
    stream.write(line)
    stream.flush()


if __name__ == "__main__":
    main()

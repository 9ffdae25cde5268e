"""Reads recorded workloads. The format is told by what is in the file; what does not fit is told with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from kvaudit.errors import UsageError
from kvaudit.simulate.workload import MOST_TOKENS, Numbers, Request, Workload, hashed_request

Length = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
Positive = Annotated[int, Meta(ge=1)]
Token = Annotated[int, Meta(ge=0, le=2**32 - 1)]

MOONCAKE_BLOCK_SIZE = 512
"""Mooncake's traces do not say it: https://github.com/kvcache-ai/Mooncake."""


class HashedLine(msgspec.Struct, frozen=True):
    """A line of a Mooncake trace; the time is in milliseconds."""

    hash_ids: tuple[int, ...]
    input_length: Positive
    output_length: Length = 0
    timestamp: float = 0.0


class TokenLine(msgspec.Struct, frozen=True):
    """A line with the tokens themselves. Without output_tokens, output_length says how many there were."""

    tokens: Annotated[tuple[Token, ...], Meta(min_length=1)]
    output_tokens: tuple[Token, ...] = ()
    output_length: Length | None = None
    timestamp: float = 0.0


class Turn(msgspec.Struct, frozen=True, rename={"input_length": "in", "output_length": "out", "at_s": "t"}):
    """A request of a conversation; its ids may leave out a last block that is not full. Times are in seconds."""

    hash_ids: tuple[int, ...]
    input_length: Positive
    output_length: Length = 0
    at_s: float = 0.0


class Conversation(msgspec.Struct, frozen=True):
    """A file of an agentic trace. Unless its ids are `global`, they mean nothing outside of it."""

    block_size: Positive
    requests: tuple[Turn, ...]
    hash_id_scope: str = "local"


FORMATS = (
    "lines with hash_ids and input_length (Mooncake), lines with tokens, or JSON with block_size and requests "
    "(conversations; a folder of such files, too)"
)

_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the decoder raises for what is no JSON, is of another shape, or is nested too deep."""

T = TypeVar("T")


def read_workload(path: Path, block_size: int | None) -> Workload:
    """The workload of a file or folder. block_size: of the pool, if it is not that of the trace.

    Raises UsageError for what is no trace, or is recorded in blocks that cannot be put together to the size asked for.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path} has no *.json file; a folder is to have conversations in it")
    texts = [(file, _read(file)) for file in files]
    if path.is_dir() or _is_one_value(texts[0][1]):
        conversations = [(file.name, _decoded(text, Conversation, f"{file}")) for file, text in texts]
        workload = _of_conversations(conversations, block_size)
    else:
        workload = _of_lines(path, texts[0][1], block_size)
    if not workload.requests:
        raise UsageError(f"{path} has no requests; known are {FORMATS}")
    return workload


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None


def _is_one_value(text: bytes) -> bool:
    """One JSON object over the whole file, which has requests."""
    try:
        value = msgspec.json.decode(text)
    except _BAD:
        return False
    return isinstance(value, dict) and "requests" in value


def _decoded(text: bytes, kind: type[T], place: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except _BAD as error:
        raise UsageError(f"{place}: {error}; known are {FORMATS}") from None


# --- conversations --------------------------------------------------------------------------------------------


def _of_conversations(conversations: Sequence[tuple[str, Conversation]], block_size: int | None) -> Workload:
    """As though all had begun at once: each request at its own time."""
    numbers, size = Numbers(), _size_of_all(conversations)
    asked = block_size or size
    found = []
    for name, conversation in conversations:
        scope = "" if conversation.hash_id_scope == "global" else name
        for i, turn in enumerate(conversation.requests, start=1):
            ids = _joined(turn.hash_ids, turn.input_length, size, asked, f"{name}, request {i}")
            lengths = turn.input_length, turn.output_length
            found.append(hashed_request(numbers, [(scope, h) for h in ids], lengths, asked, turn.at_s))
    found.sort(key=lambda request: request.arrival_s)
    return Workload(f"{len(conversations)} conversations", found, asked, 2, True)


def _size_of_all(conversations: Sequence[tuple[str, Conversation]]) -> int:
    first, one = conversations[0]
    for name, other in conversations:
        if other.block_size != one.block_size:
            raise UsageError(
                f"{first} has blocks of {one.block_size} tokens, {name} of {other.block_size}: simulate them apart"
            )
    return one.block_size


# --- lines ----------------------------------------------------------------------------------------------------


def _of_lines(path: Path, text: bytes, block_size: int | None) -> Workload:
    lines = [(f"{path}, line {i}", line) for i, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not lines:
        raise UsageError(f"{path} is empty; known are {FORMATS}")
    first: Any = _decoded(lines[0][1], dict, lines[0][0])
    if "tokens" in first:
        requests, size, played = list(_of_tokens(lines)), block_size or 16, block_size or 16
    elif "hash_ids" in first:
        size, played = block_size or MOONCAKE_BLOCK_SIZE, 2
        requests = list(_of_hashes(lines, size))
    else:
        raise UsageError(f"{lines[0][0]} has neither hash_ids nor tokens; known are {FORMATS}")
    requests.sort(key=lambda request: request.arrival_s)
    kind = "token ids" if "tokens" in first else "hash ids"
    return Workload(kind, requests, size, played, "timestamp" in first)


def _of_hashes(lines: Sequence[tuple[str, bytes]], size: int) -> Iterator[Request]:
    numbers, decoder = Numbers(), msgspec.json.Decoder(HashedLine)
    for place, text in lines:
        line = _line(decoder, text, place)
        ids = _joined(line.hash_ids, line.input_length, MOONCAKE_BLOCK_SIZE, size, place)
        lengths = line.input_length, line.output_length
        yield hashed_request(numbers, ids, lengths, size, line.timestamp / 1000)


def _of_tokens(lines: Sequence[tuple[str, bytes]]) -> Iterator[Request]:
    """What was generated and is not known is played as tokens that no prompt has, if any token is left."""
    decoder = msgspec.json.Decoder(TokenLine)
    for place, text in lines:
        line = _line(decoder, text, place)
        output: Sequence[int] = line.output_tokens
        if line.output_length is not None and not output:
            output = [2**32 - 1] * line.output_length
        elif line.output_length not in (None, len(output)):
            raise UsageError(
                f"{place}: output_length is {line.output_length}, and there are {len(output)} output_tokens"
            )
        yield Request(list(line.tokens), output, line.timestamp / 1000, len(output))


def _line(decoder: msgspec.json.Decoder[T], text: bytes, place: str) -> T:
    try:
        return decoder.decode(text)
    except _BAD as error:
        raise UsageError(f"{place}: {error}") from None


def _joined(ids: Sequence[int], num_tokens: int, size: int, asked: int, place: str) -> Sequence[int]:
    """The ids of blocks of the size asked for. An id stands for the prefix up to it: of those joined, the last."""
    full, with_rest = num_tokens // size, -(-num_tokens // size)
    if len(ids) not in (full, with_rest):
        raise UsageError(
            f"{place}: {num_tokens} tokens are {with_rest} blocks of {size}, and there are {len(ids)} hash ids"
        )
    if asked == size:
        return ids
    if asked % size != 0:
        raise UsageError(f"the trace is in blocks of {size} tokens: --block-size {asked} is no multiple of that")
    times = asked // size
    last = [*ids[times - 1 :: times]][: num_tokens // asked]
    return [*last, ids[-1]] if num_tokens % asked and len(ids) == with_rest else last

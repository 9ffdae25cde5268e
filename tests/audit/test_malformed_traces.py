"""What is no trace is refused with the file, the line and the reason: by kind, and whatever bytes are changed."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.auditing import kvaudit, target_of
from kvaudit.check import Checker, check_trace
from kvaudit.errors import UsageError
from kvaudit.levels import play
from kvaudit.profiles import PROFILES, STRICT
from kvaudit.protocol import Allocate, Append, Free, Pool
from kvaudit.report import CONFORMS
from kvaudit.saved_ledger import saved_ledger
from kvaudit.scenario import Scenario
from kvaudit.trace import FORMAT, TraceHeader, TraceReader, read_lines, write_trace
from kvblocks import BlockManager

PROGRAM = (Allocate("a", (7, 2**32 - 1, 5)), Append("a", 6), Allocate("b", (1, 2, 3, 4, 5)), Free("a"))
Edit = Callable[[list[bytes]], bytes]


def _good() -> tuple[bytes, bytes]:
    """A whole trace, and its second half from the ledger in between."""
    execution = play(target_of(BlockManager), Scenario(Pool(3, 2), PROGRAM), STRICT)
    lines = execution.transcript()
    between = saved_ledger(execution.played[2].judgement.before)
    rest = [msgspec.structs.replace(line, step=line.step - 2) for line in lines[2:]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        write_trace(path, TraceHeader(FORMAT, Pool(3, 2), "kvblocks", "strict", steps=4), lines)
        whole = path.read_bytes()
        write_trace(path, TraceHeader(FORMAT, Pool(3, 2), "kvblocks", "strict", steps=2, ledger=between), rest)
        return whole, path.read_bytes()


WHOLE, MIDLIFE = _good()


OFF = {
    "format": FORMAT,
    "pool": {"num_blocks": 2, "block_size": 2, "enable_prefix_cache": False},
    "target": "",
    "profile": "seed",
}
LEDGER_OFF = {"sequences": {"a": {"table": [0, 1], "tokens": [1, 2, 3], "num_cached_tokens": 2}}}
SHARED = {"free": [1], "sequences": {"a": {"table": [0], "tokens": [1]}, "b": {"table": [0], "tokens": [2]}}}


def _all(text: bytes) -> Edit:
    return lambda lines: text


def _line(number: int, text: bytes) -> Edit:
    """That line is another one."""
    return lambda lines: b"".join([*lines[: number - 1], text + b"\n" if text else b"", *lines[number:]])


def _swap(number: int, old: str, new: str) -> Edit:
    """That line says something else."""

    def edit(lines: list[bytes]) -> bytes:
        assert old.encode() in lines[number - 1], lines[number - 1]
        changed = lines[number - 1].replace(old.encode(), new.encode(), 1)
        return b"".join([*lines[: number - 1], changed, *lines[number:]])

    return edit


def _order(*numbers: int) -> Edit:
    """Those lines, in that order."""
    return lambda lines: b"".join(lines[number - 1] for number in numbers)


MALFORMED: list[tuple[str, Edit, str]] = [
    # the file
    ("an empty file", _all(b""), "is empty; a trace starts with a header"),
    ("an empty line", _all(b"\n"), "line 1 is no header of a trace: it is empty"),
    ("bytes that are no text", _all(b"\xff\xfe\x00\n"), "line 1 is no header"),
    ("a compressed file", lambda lines: gzip.compress(b"".join(lines)), "It is compressed: gunzip it first"),
    ("a byte order mark", lambda lines: b"".join([b"\xef\xbb\xbf", *lines]), "begins with a byte order mark: save it"),
    ("UTF-16", lambda lines: b"".join(lines).decode().encode("utf-16"), "It is UTF-16: save it as UTF-8"),
    ("a table of values", _all(b"step,op,seq\n1,allocate,a\n"), "line 1 is no header"),
    ("text that is no UTF-8", _line(2, b'{"step":1,"operation":{"op":"free","seq":"\xff"}}'), "line 2 is no operation"),
    # the header
    ("no header", _order(2, 3, 4, 5), "line 1 is no header of a trace: Object missing required field `format`"),
    ("two headers", _order(1, 1, 2, 3, 4, 5), "line 2 is no operation: Object contains unknown field `format`"),
    ("a header that is no JSON", _line(1, b"not JSON"), "line 1 is no header of a trace: JSON is malformed"),
    ("a header that is a list", _line(1, b"[]"), "line 1 is no header of a trace: Expected `object`"),
    ("a header that is null", _line(1, b"null"), "line 1 is no header of a trace: Expected `object`"),
    (
        "a header without a pool",
        _line(1, b'{"format":"kvaudit-trace/1","target":"t","profile":"seed"}'),
        "field `pool`",
    ),
    ("a header that is nested deeply", _line(1, b"[" * 100_000), "line 1 is no header"),
    (
        "another version",
        _swap(1, "kvaudit-trace/1", "kvaudit-trace/2"),
        "has the format 'kvaudit-trace/2'; this version",
    ),
    ("another format", _swap(1, "kvaudit-trace/1", "kvaudit-report/1"), "has the format 'kvaudit-report/1'"),
    ("a field that is unknown", _swap(1, '"target"', '"when":"noon","target"'), "unknown field `when`"),
    (
        "a feature that is unknown",
        _swap(1, '"target"', '"features":["pins"],"target"'),
        "needs 'pins', which this version",
    ),
    (
        "an obligation that is unknown",
        _swap(1, '"target"', '"obligation":"Z9","target"'),
        "line 1: this version knows no obligation 'Z9'",
    ),
    ("no block", _swap(1, '"num_blocks":3', '"num_blocks":0'), "at least one block of at least one token"),
    ("a negative size", _swap(1, '"block_size":2', '"block_size":-2'), "at least one block of at least one token"),
    ("a size in words", _swap(1, '"num_blocks":3', '"num_blocks":"3"'), "Expected `int`, got `str`"),
    ("a size that is no integer", _swap(1, '"block_size":2', '"block_size":2.5'), "Expected `int`, got `float`"),
    ("a pool that is too large", _swap(1, '"num_blocks":3', '"num_blocks":99999999999'), "cannot be played"),
    ("a negative number of steps", _swap(1, '"steps":4', '"steps":-4'), "-4 is no number of operations"),
    # truncated, reordered, doubled
    ("a header that is cut off", lambda lines: lines[0][:40], "truncated. Was the file cut off?"),
    (
        "a line that is cut off",
        lambda lines: b"".join(lines)[:-20],
        "line 5 is no operation: Input data was truncated. Was",
    ),
    ("a line that is missing at the end", _order(1, 2, 3, 4), "line 4 is the last one, after 3 operations: the header"),
    (
        "a line too many",
        lambda lines: b"".join([*lines, lines[4].replace(b'"step":4', b'"step":5')]),
        "promises no more",
    ),
    (
        "a line that is missing in between",
        _order(1, 2, 4, 5),
        "line 3: step 2 was due, this is step 3: is a line missing",
    ),
    ("a line that is doubled", _order(1, 2, 2, 3, 4, 5), "line 3: step 2 was due, this is step 1: is a line doubled"),
    ("lines that are reordered", _order(1, 2, 4, 3, 5), "line 3: step 2 was due, this is step 3"),
    ("an empty line in between", _line(3, b" "), "line 3 is no operation: it is empty"),
    ("an empty line at the end", lambda lines: b"".join([*lines, b"\n"]), "line 6 is no operation: it is empty"),
    ("two lines in one", lambda lines: b"".join(lines).replace(b"}\n{", b"}{", 2), "line 1 is no header"),
    (
        "a step that is no number",
        _swap(3, '"step":2', '"step":"two"'),
        "line 3 is no operation: Expected `int`, got `str`",
    ),
    # operations
    ("no operation", _line(2, b'{"step":1}'), "line 2 is no operation: Object missing required field `operation`"),
    ("an operation that is unknown", _swap(2, '"op":"allocate"', '"op":"fork"'), "Invalid value 'fork'"),
    ("a read", _swap(2, '"op":"allocate"', '"op":"observe"'), "Invalid value 'observe'"),
    ("an operation without a kind", _swap(2, '"op":"allocate",', ""), "missing required field `op`"),
    (
        "an operation without an id",
        _swap(5, ',"seq":"a"', ""),
        "line 5 is no operation: Object missing required field `seq`",
    ),
    (
        "an id that is empty",
        _swap(2, '"seq":"a"', '"seq":""'),
        "line 2: the id of a sequence has at least one character",
    ),
    ("an id that is a number", _swap(2, '"seq":"a"', '"seq":17'), "Expected `str`, got `int`"),
    ("an empty prompt", _swap(2, "[7,4294967295,5]", "[]"), "line 2: a prompt has at least one token"),
    ("a token that is negative", _swap(2, "4294967295", "-1"), "line 2: -1 is no token id"),
    (
        "a token that is too large",
        _swap(2, "4294967295", "4294967296"),
        "4294967296 is no token id: they are integers in 0",
    ),
    ("a token that is enormous", _swap(3, '"token":6', '"token":1' + "0" * 40), "line 3"),
    (
        "half a character in an id",
        _swap(2, '"seq":"a"', r'"seq":"\ud800"'),
        "unexpected end of escaped utf-16 surrogate",
    ),
    ("a token that is no number", _swap(3, '"token":6', '"token":NaN'), "line 3 is no operation: JSON is malformed"),
    ("a token that is no integer", _swap(3, '"token":6', '"token":6.5'), "Expected `int`, got `float`"),
    ("a token in words", _swap(3, '"token":6', '"token":"six"'), "Expected `int`, got `str`"),
    ("an append without a token", _swap(3, ',"token":6', ""), "missing required field `token`"),
    ("an append to nobody", _swap(3, '"seq":"a"', '"seq":"c"'), "line 3: 'c' "),
    ("a free of nobody", _swap(5, '"seq":"a"', '"seq":"c"'), "line 5: 'c' "),
    # answers
    (
        "an outcome that is unknown",
        _swap(2, '"outcome":"completed"', '"outcome":"maybe"'),
        "Invalid enum value 'maybe'",
    ),
    ("an answer without an outcome", _swap(2, '"outcome":"completed",', ""), "missing required field `outcome`"),
    ("an answer with an unknown field", _swap(5, '"num_free_blocks"', '"free_blocks"'), "unknown field `free_blocks`"),
    ("a slot of an allocate", _swap(2, '"table":[0,1]', '"slot":3'), "line 2: the answer to allocate has no slot"),
    ("a table of an append", _swap(3, '"slot":3', '"table":[1]'), "line 3: the answer to append has no table"),
    (
        "a table of a refusal",
        _swap(2, '"outcome":"completed"', '"outcome":"refused"'),
        "allocate that was refused has no table",
    ),
    ("a table in words", _swap(2, '"table":[0,1]', '"table":["0","1"]'), "Expected `int`, got `str`"),
]

MALFORMED_LEDGERS: list[tuple[str, Edit, str]] = [
    ("a block in no place", _swap(1, '"free":[2]', '"free":[]'), "block 2 is to be in one place"),
    ("a block in two places", _swap(1, '"free":[2]', '"free":[2,2]'), "block 2 is to be in one place"),
    ("a block that is held and free", _swap(1, '"table":[0,1]', '"table":[0,2]'), "does not carry the content"),
    ("a block that is none", _swap(1, '"free":[2]', '"free":[3]'), "free names block 3, which is none"),
    ("a free block with content", _swap(1, '"free":[2]', '"evictable":[2]'), "block 2 does not belong in evictable"),
    ("a table that is too short", _swap(1, '"table":[0,1]', '"table":[0]'), "need a table of 2 blocks"),
    ("a block twice in a table", _swap(1, '"table":[0,1]', '"table":[0,0]'), "stands twice in the table"),
    ("a parent that comes later", _swap(1, '"parent":0', '"parent":1'), "content 1 stands before its parent"),
    (
        "a content of the wrong size",
        _swap(1, '"tokens":[7,4294967295]', '"tokens":[7]'),
        "content 0 has 1 tokens, not 2",
    ),
    ("a content of no block", _swap(1, '"blocks":[1]', '"blocks":[9]'), "content 1: block 9 is none"),
    ("a mapping to another block", _swap(1, '"mapped":1', '"mapped":2'), "is mapped to block 2, which has another"),
    (
        "tokens that the contents do not have",
        _swap(1, "[7,4294967295,5,6]", "[7,4294967295,5,8]"),
        "does not carry the content",
    ),
    (
        "a cached count that cannot be",
        _swap(1, '"tokens":[7,4294967295,5,6]', '"num_cached_tokens":4,"tokens":[7,4294967295,5,6]'),
        "cannot have been cached",
    ),
    (
        "a count that was cached with the prefix cache off",
        lambda lines: json.dumps(OFF | {"ledger": LEDGER_OFF}).encode(),
        "tokens of 'a' were cached, though the prefix cache is off",
    ),
    (
        "a partial block in two tables",
        lambda lines: json.dumps(OFF | {"ledger": SHARED}).encode(),
        "block 0 is in two tables, and has no content that they could share",
    ),
    ("a content of no tokens", _swap(1, '"tokens":[7,4294967295]', '"tokens":[7,-1]'), "content 0 has tokens beyond 0"),
    (
        "contents with the prefix cache off",
        _swap(1, '"enable_prefix_cache":true', '"enable_prefix_cache":false'),
        "is off",
    ),
]


def read(path: Path) -> None:
    read_lines(path)


def check(path: Path) -> None:
    with TraceReader(path) as reader:
        check_trace(reader, STRICT, lambda operations, done: None)


def test_a_ledger_that_no_engine_comes_to(tmp_path: Path) -> None:
    """Under vLLM's rules each copy of a content can be hit; under the seed's one may be left that cannot."""
    text = MIDLIFE.replace(b',"mapped":1', b"")
    (tmp_path / "t.jsonl").write_bytes(text)
    check(tmp_path / "t.jsonl")
    said = "no block is hit for the content of block 1, and under the profile vllm"
    with TraceReader(tmp_path / "t.jsonl") as reader, pytest.raises(UsageError, match=said):
        Checker(reader.header, PROFILES["vllm"])


def test_there_are_enough_of_them() -> None:
    assert len({kind for kind, _, _ in MALFORMED}) == len(MALFORMED) >= 50


@pytest.mark.parametrize("reads", [read, check])
def test_the_good_one_is_good(reads: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_bytes(WHOLE)
    reads(tmp_path / "trace.jsonl")
    (tmp_path / "trace.jsonl").write_bytes(MIDLIFE)
    check(tmp_path / "trace.jsonl")


def refused(reads: Callable[[Path], None], text: bytes, fragment: str, folder: Path) -> None:
    path = folder / "bad.jsonl"
    path.write_bytes(text)
    with pytest.raises(UsageError) as error:
        reads(path)
    assert fragment in str(error.value)
    assert str(path) in str(error.value) or "the ledger in the header" in str(error.value)
    assert len(str(error.value)) < 400 + len(str(path))


@pytest.mark.parametrize("reads", [read, check])
@pytest.mark.parametrize(("kind", "edit", "fragment"), MALFORMED, ids=[kind for kind, _, _ in MALFORMED])
def test_is_refused(reads: Callable[[Path], None], kind: str, edit: Edit, fragment: str, tmp_path: Path) -> None:
    refused(reads, edit(WHOLE.splitlines(keepends=True)), fragment, tmp_path)


@pytest.mark.parametrize(
    ("kind", "edit", "fragment"), MALFORMED_LEDGERS, ids=[kind for kind, _, _ in MALFORMED_LEDGERS]
)
def test_a_ledger_that_makes_no_sense(kind: str, edit: Edit, fragment: str, tmp_path: Path) -> None:
    refused(check, edit(MIDLIFE.splitlines(keepends=True)), fragment, tmp_path)


@pytest.mark.parametrize("reads", [read, check])
def test_there_is_no_such_file(reads: Callable[[Path], None], tmp_path: Path) -> None:
    endless = "line 1 is longer than 67,108,864 bytes"
    for path, why in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "Is a directory"),
        (Path("/dev/null"), "is empty; a trace starts with a header"),
        (Path("/dev/zero"), endless),
    ):
        with pytest.raises(UsageError, match=why):
            reads(path)


def test_a_ledger_in_mid_life_cannot_be_played(tmp_path: Path) -> None:
    refused(read, MIDLIFE, "it can only be checked, with kvaudit check", tmp_path)


@given(st.data())
def test_whatever_bytes_are_changed(data: st.DataObject) -> None:
    """Each reader either reads it to its end or says where it is wrong; nothing else."""
    text = bytearray(data.draw(st.sampled_from([WHOLE, MIDLIFE])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        piece = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"0", b"-", b'"', b"\n", b"]", b"}", b"9" * 30, b"null"])
        )
        text[at : at + data.draw(st.integers(0, 3))] = piece
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bad.jsonl"
        path.write_bytes(text)
        for reads in (read, check):
            try:
                reads(path)
            except UsageError as error:
                assert str(error)


def test_the_command_line_says_it(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(WHOLE[:-20])
    for command in ("replay", "shrink", "check", "anonymise"):
        said = kvaudit(command, "bad.jsonl", cwd=tmp_path)
        assert said.code == 2
        assert "bad.jsonl, line 5 is no operation" in said.err
        assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]
    (tmp_path / "bad.jsonl").write_bytes(WHOLE)
    assert kvaudit("check", "bad.jsonl", cwd=tmp_path).code == CONFORMS
    assert json.loads(WHOLE.splitlines()[0])["steps"] == len(PROGRAM)

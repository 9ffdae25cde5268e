"""Reads what a target answers on the wire, and says what is wrong with it: the field, the value, what was due."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from kvaudit.protocol import (
    Answer,
    Call,
    Failed,
    Observe,
    Observed,
    Open,
    Opened,
    Operation,
    Outcome,
    Question,
    Raised,
    Ran,
    Refused,
    Returned,
    Run,
    Scribble,
    Start,
    Started,
    Unsupported,
    is_hang,
)

_decoder: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)

_DUE: dict[type[Any], tuple[type[Any], ...]] = {
    Start: (Started, Failed),
    Open: (Opened, Failed),
    Run: (Ran, Failed),
}
_ENDS = (Returned, Refused, Raised)
_OUTCOMES: dict[type[Any], tuple[type[Any], ...]] = {
    Observe: (Observed, Raised),
    Scribble: (Returned,),
    Call: (*_ENDS, Unsupported),
}
"""What an operation may come to; the others to one of _ENDS."""

_SHOWN_AS = {
    "num_free_blocks": "num_free_blocks",
    "num_cached_tokens": "cached",
    "block_table": "tables",
    "observe": "state",
}
"""The field of `observed` in which a capability shows. One that is offered and not given would never be checked."""


class Malformed(Exception):
    """An answer that is none. The message says what is wrong with it."""


def read_answer(line: bytes, question: Question) -> Answer:
    """The answer of a line. Raises Malformed if it is none, or not one to this question."""
    try:
        answer: Answer = _decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(_what_is_wrong(line, question, error)) from None
    due = _DUE[type(question)]
    if type(answer) not in due:
        raise Malformed(f"answered {_name(type(question))} with {_name(type(answer))}, due is {_names(due)}")
    return answer


def check_outcomes(program: Sequence[Operation], outcomes: Sequence[Outcome], capabilities: frozenset[str]) -> None:
    """Raises Malformed unless each operation has an outcome that it may have, with all that the target offers."""
    if len(outcomes) != len(program) and not (outcomes and is_hang(outcomes[-1])):
        raise Malformed(f"answered {len(program)} operations with {len(outcomes)} outcomes")
    for i, (operation, outcome) in enumerate(zip(program, outcomes, strict=False)):
        due = _OUTCOMES.get(type(operation), _ENDS)
        if not isinstance(outcome, due) and not is_hang(outcome):
            what = f"outcomes[{i}]: {_op(operation)} came to {_name(type(outcome))}, due is {_names(due)}"
            raise Malformed(f"sent an answer that cannot be: {what}")
        if isinstance(outcome, Observed):
            for capability, field in _SHOWN_AS.items():
                if capability in capabilities and getattr(outcome, field) is None:
                    raise Malformed(
                        f"sent an answer that cannot be: outcomes[{i}].{field} is missing or null, "
                        f"though 'started' offers {capability!r} in its capabilities"
                    )


def unknown_fields(line: bytes) -> list[str]:
    """The fields of a valid answer that the protocol does not know, and so are not read: misspelt, perhaps."""
    return _unknown(msgspec.json.decode(line), _decoder.decode(line), "")


def _unknown(raw: Any, known: Any, path: str) -> list[str]:
    found = []
    if isinstance(known, msgspec.Struct) and isinstance(raw, dict):
        tag = known.__struct_config__.tag_field
        for name, value in raw.items():
            at = f"{path}.{name}" if path else name
            if name in known.__struct_fields__:
                found += _unknown(value, getattr(known, name), at)
            elif name != tag:
                found.append(at)
    elif isinstance(known, list) and isinstance(raw, list):
        for i, (value, item) in enumerate(zip(raw, known, strict=True)):
            found += _unknown(value, item, f"{path}[{i}]")
    return found


def _what_is_wrong(line: bytes, question: Question, error: Exception) -> str:
    if not line.strip():
        return "sent an empty line: one line is due for each line, and nothing else"
    try:
        raw = msgspec.json.decode(line)
    except RecursionError:
        return "sent a line that is no answer: its JSON is nested too deeply"
    except msgspec.MsgspecError as malformed:
        return (
            f"sent a line that is no answer: {malformed}. Standard output carries the protocol and nothing else; "
            "what is for people goes to standard error"
        )
    due = _names(_DUE[type(question)])
    if not isinstance(raw, dict):
        return f"sent a line that is no answer: an object with the type {due} is due, not {_short(raw)}"
    if raw.get("type") not in {_name(kind) for kinds in _DUE.values() for kind in kinds}:
        got = _short(raw["type"]) if "type" in raw else "no such field"
        return f"sent a line that is no answer: type: expected {due}, got {got}"
    said, _, path = str(error).partition(" - at `")
    field, value = _find(raw, path.rstrip("`"), str(error))
    if field.endswith(".outcome"):
        said = f"expected {_names((*_ENDS, Observed, Unsupported))}"
    got = "" if value is None and "missing" in said else f", the value is {_short(value)}"
    return f"sent a line that is no answer: {field + ': ' if field else ''}{said}{got}"


def _find(raw: Any, path: str, error: str) -> tuple[str, Any]:
    """The field of a path such as `$.outcomes[0].tables[...]`, and its value."""
    field, value = "", raw
    for index, any_key, name in re.findall(r"\[(\d+)\]|\[(\.\.\.)\]|\.([^.\[]+)", path):
        if index:
            field, value = f"{field}[{index}]", value[int(index)]
        elif any_key:
            key = _key_at_fault(raw, value, error)
            field, value = f"{field}[{_short(key)}]", value[key]
        else:
            field, value = f"{field}.{name}" if field else name, value[name]
    return field, value


def _key_at_fault(raw: Any, mapping: dict[str, Any], error: str) -> str:
    """The key of the entry that alone gives the same error: the decoder does not say which it is."""
    whole = dict(mapping)
    try:
        for key, value in whole.items():
            mapping.clear()
            mapping[key] = value
            try:
                msgspec.convert(raw, Answer)
            except msgspec.ValidationError as alone:
                if str(alone) == error:
                    return key
    finally:
        mapping.clear()
        mapping.update(whole)
    return next(iter(whole))


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode(errors="replace")
    return text if len(text) <= 80 else text[:77] + "..."


def _name(kind: type[Any]) -> str:
    """What a message or an outcome is called on the wire."""
    return str(kind.__struct_config__.tag)


def _op(operation: Operation) -> str:
    return _name(type(operation))


def _names(kinds: Sequence[type[Any]]) -> str:
    *first, last = (_name(kind) for kind in kinds)
    return f"{', '.join(first)} or {last}" if first else last

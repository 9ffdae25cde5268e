"""What SARIF 2.1.0 asks of the part of it that is written: names, types, what is required, and the allowed words.

Written from the format's own schema, with every name that is not used left out; a name that is not in the format, or
is misspelt, is refused.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft7Validator


def _thing(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def _list(items: dict[str, Any], *, unique: bool = False) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": unique}


_TEXT = {"type": "string"}
_MESSAGE = _thing(("text",), text={"type": "string", "minLength": 1})
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_URI = {"type": "string", "pattern": r"^([a-z][a-z0-9+.-]*:|[^:?#]*$)[^\s<>\"{}|\\^`]*$"}
_PLACE = _thing(
    ("artifactLocation",),
    artifactLocation=_thing(uri=_URI),
    region=_thing(startLine={"type": "integer", "minimum": 1}),
)
_LOCATION = _thing(physicalLocation=_PLACE, message=_MESSAGE)
_RULE = _thing(
    ("id",),
    id=_TEXT,
    name=_TEXT,
    shortDescription=_MESSAGE,
    fullDescription=_MESSAGE,
    help=_MESSAGE,
)
_RESULT = _thing(
    ("message",),
    ruleId=_TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level=_LEVEL,
    message=_MESSAGE,
    locations=_list(_LOCATION),
    relatedLocations=_list(_LOCATION, unique=True),
    partialFingerprints={"type": "object", "additionalProperties": _TEXT},
)
_DRIVER = _thing(
    ("name",),
    name=_TEXT,
    semanticVersion={"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
    rules=_list(_RULE, unique=True),
)
_INVOCATION = _thing(
    ("executionSuccessful",),
    executionSuccessful={"type": "boolean"},
    exitCode={"type": "integer"},
    toolExecutionNotifications=_list(_thing(("message",), level=_LEVEL, message=_MESSAGE)),
)
_RUN = _thing(
    ("tool",),
    tool=_thing(("driver",), driver=_DRIVER),
    invocations=_list(_INVOCATION),
    results=_list(_RESULT),
)
_LOG = _thing(("version", "runs"), version={"enum": ["2.1.0"]}, runs=_list(_RUN), **{"$schema": {"type": "string"}})

VALIDATOR = Draft7Validator(_LOG)


def check_sarif(log: Any) -> None:
    """Raises jsonschema's ValidationError, or AssertionError where a result names a rule that it does not point at."""
    VALIDATOR.validate(log)
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert len(set(rules)) == len(rules)
        for result in run["results"]:
            assert rules[result["ruleIndex"]] == result["ruleId"]
            assert result["locations"], "code scanning leaves out what stands nowhere"

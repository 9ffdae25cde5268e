"""SARIF 2.1.0: a rule for each obligation, a result for each violation. Only the part of the format that is used."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from urllib.parse import quote

import msgspec

from kvaudit.report import INCONCLUSIVE, VIOLATED, Finding, Report, Row
from kvaudit.words import count
from kvspec.obligations import OBLIGATIONS, Obligation

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Names as in the format; what is not given is left out."""


class Message(_Part, frozen=True):
    text: str


class ArtifactLocation(_Part, frozen=True):
    uri: str


class Region(_Part, frozen=True):
    start_line: int


class PhysicalLocation(_Part, frozen=True):
    artifact_location: ArtifactLocation
    region: Region | None = None


class Location(_Part, frozen=True):
    physical_location: PhysicalLocation
    message: Message | None = None


class Rule(_Part, frozen=True):
    id: str
    name: str
    short_description: Message
    full_description: Message
    help: Message


class Result(_Part, frozen=True):
    rule_id: str
    rule_index: int
    level: str
    message: Message
    locations: list[Location]
    related_locations: list[Location] = []
    partial_fingerprints: dict[str, str] = {}


class Driver(_Part, frozen=True):
    name: str
    semantic_version: str
    rules: list[Rule]


class Tool(_Part, frozen=True):
    driver: Driver


class Notification(_Part, frozen=True):
    level: str
    message: Message


class Invocation(_Part, frozen=True):
    execution_successful: bool
    exit_code: int
    tool_execution_notifications: list[Notification] = []


class Run(_Part, frozen=True):
    tool: Tool
    invocations: list[Invocation]
    results: list[Result]


class Log(_Part, frozen=True):
    schema: str = msgspec.field(name="$schema")
    version: str
    runs: list[Run]


def sarif(report: Report) -> Log:
    """The log of one audit.

    A result stands at the class that was audited, if its file is below the current folder, else at the saved trace:
    code scanning shows nothing that stands nowhere.
    """
    here = _place_of(report.header.target)
    results = [result for row in report.rows if row.verdict == VIOLATED for result in _results(row, report, here)]
    reasons = report.reasons if report.exit_code == INCONCLUSIVE else []
    invocation = Invocation(
        execution_successful=True,
        exit_code=report.exit_code,
        tool_execution_notifications=[Notification("warning", Message(f"inconclusive: {why}")) for why in reasons],
    )
    tool = Tool(Driver("kvaudit", report.header.kvaudit, list(map(_rule, OBLIGATIONS.values()))))
    return Log(schema=SCHEMA, version="2.1.0", runs=[Run(tool, [invocation], results)])


def _rule(obligation: Obligation) -> Rule:
    words = [word for word in obligation.title.replace("-", " ").split() if word.isalnum()]
    return Rule(
        id=obligation.id,
        name="".join(word[0].upper() + word[1:] for word in words),
        short_description=Message(f"{obligation.title}."),
        full_description=Message(f"{obligation.statement}."),
        help=Message(f"If it is broken: {obligation.symptom}."),
    )


def _results(row: Row, report: Report, here: PhysicalLocation | None) -> list[Result]:
    """A result for each finding of that obligation; or one that says what was seen of it."""
    index = list(OBLIGATIONS).index(row.obligation)
    own = [finding for finding in report.findings if finding.obligation == row.obligation]
    if not own:
        message = Message(_literal(f"{row.obligation} is violated: {row.title}. {row.detail}"))
        told = {"finding/v1": f"{report.header.target} {row.obligation}"}
        traces = [_trace(finding) for finding in report.findings if row.obligation in finding.also]
        return [
            Result(row.obligation, index, _level(row.known), message, _first(here, traces), partial_fingerprints=told)
        ]
    results = []
    for finding in own:
        kept = _trace(finding)
        message, places = Message(_literal(_said(finding, row))), _first(here, [kept])
        told = {"finding/v1": finding.id}
        results.append(
            Result(row.obligation, index, _level(finding.known), message, places, [kept] if kept else [], told)
        )
    return results


def _level(is_known: bool) -> str:
    return "note" if is_known else "error"


def _said(finding: Finding, row: Row) -> str:
    """What is violated, what production sees, and the program."""
    cache = "on" if finding.enable_prefix_cache else "off"
    size = f"{count(finding.num_blocks, 'block')} of {count(finding.block_size, 'token')}"
    steps = [f"{number}. {step.call}: {step.got}" for number, step in enumerate(finding.steps, start=1)]
    first = f"{row.obligation} is violated: {row.title}. In production: {finding.symptom}."
    return "\n".join([first, f"A pool of {size}, prefix cache {cache}:", *steps, *finding.details, finding.reproduce])


def _literal(text: str) -> str:
    """The text with nothing in it that the format takes for a place to fill in, such as {0}."""
    return re.sub(r"\{(\d+)\}", r"{{\1}}", text)


def _trace(finding: Finding) -> Location | None:
    if finding.trace is None:
        return None
    path = Path(finding.trace)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return Location(PhysicalLocation(ArtifactLocation(uri)), Message("the trace that repeats it"))


def _first(here: PhysicalLocation | None, traces: list[Location | None]) -> list[Location]:
    """Where a result stands."""
    if here is not None:
        return [Location(here)]
    return [Location(trace.physical_location) for trace in traces if trace is not None][:1]


def _place_of(target: str) -> PhysicalLocation | None:
    """The file and line of the class of a target, if they can be found below the current folder."""
    module, colon, name = target.rpartition(":")
    if not colon or target.startswith("cmd:"):
        return None
    path = Path(module) if module.endswith(".py") else _file_of(module)
    try:
        shown = path.resolve().relative_to(Path.cwd()) if path is not None else None
        tree = ast.parse(shown.read_bytes()) if shown is not None else None
    except (OSError, ValueError, SyntaxError):
        return None
    if shown is None or tree is None:
        return None
    last = name.rpartition(".")[2]
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == last]
    return PhysicalLocation(ArtifactLocation(quote(shown.as_posix())), Region(lines[0]) if lines else Region(1))


def _file_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None

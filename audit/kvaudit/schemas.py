"""The JSON Schema of every format that is written or read, made from the types themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from kvaudit import protocol
from kvaudit.checked import Checked
from kvaudit.conformance.entries import Conformance
from kvaudit.diffing.report import Diff
from kvaudit.errors import UsageError
from kvaudit.evidence import Evidence, Matrix
from kvaudit.explore.report import Explored
from kvaudit.report import Report
from kvaudit.simulate.report import Simulated
from kvaudit.sizing.report import CardSize
from kvaudit.smoke import Smoke
from kvaudit.trace import TraceHeader, TraceLine
from kvaudit.vectors.format import Vector

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

FORMATS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "trace": ("one line of a trace: the first is a header, the others are operations", (TraceHeader, TraceLine)),
    "vector": ("one conformance vector, as kvaudit export vectors writes it", (Vector,)),
    "report": ("what kvaudit run --json writes", (Report,)),
    "exploration": ("what kvaudit explore --json writes", (Explored,)),
    "smoke": ("what kvaudit smoke --json writes", (Smoke,)),
    "check": ("what kvaudit check --json writes", (Checked,)),
    "size": ("what kvaudit size --json writes", (CardSize,)),
    "simulation": ("what kvaudit simulate --json writes", (Simulated,)),
    "evidence": ("what one kind of check says of each obligation, as kvaudit matrix reads it", (Evidence,)),
    "conformance": ("what kvaudit table --json writes", (Conformance,)),
    "diff": ("what kvaudit diff --json writes", (Diff,)),
    "matrix": ("what kvaudit matrix --json writes", (Matrix,)),
}
"""Each format with what it is and the types of which a value is one. The protocol has a schema of its own."""

NAMES = (*FORMATS, "protocol")


def schema(name: str) -> dict[str, Any]:
    """The schema of a format. Raises UsageError if there is none of that name."""
    if name == "protocol":
        return protocol.schema()
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r}: there are {', '.join(NAMES)}")
    about, types = FORMATS[name]
    found, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    any_of = found[0] if len(found) == 1 else {"anyOf": list(found)}
    return {"$schema": _DIALECT, "title": f"kvaudit: {about}", **any_of, "$defs": definitions}

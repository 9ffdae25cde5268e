"""JUnit XML: a test suite for an audit, a test case for an obligation. What is inconclusive is an error."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as Xml

from kvaudit.outcomes import outcome_of
from kvaudit.report import Report

_TAGS = {"failed": "failure", "inconclusive": "error", "skipped": "skipped"}


def junit(report: Report) -> bytes:
    """The file."""
    header = report.header
    outcomes = [(row, outcome_of(row, report)) for row in report.rows]
    kinds = Counter(outcome.kind for _, outcome in outcomes)
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(kinds["failed"]),
        "errors": str(kinds["inconclusive"]),
        "skipped": str(kinds["skipped"]),
        "time": f"{report.seconds:.3f}",
    }
    root = Xml.Element("testsuites", {"name": "kvaudit", **counts})
    suite = Xml.SubElement(root, "testsuite", {"name": _fit(header.target), **counts})
    properties = Xml.SubElement(suite, "properties")
    for name in ("target", "version", "profile", "seed", "max_steps", "max_time_s", "kvaudit", "spec"):
        value = getattr(header, name)
        if value not in (None, ""):
            Xml.SubElement(properties, "property", {"name": name, "value": _fit(str(value))})
    for row, outcome in outcomes:
        name = f"{row.obligation}: {row.title}"
        case = Xml.SubElement(suite, "testcase", {"classname": _fit(header.target), "name": name, "time": "0"})
        if outcome.kind != "passed":
            first, _, rest = _fit(outcome.told).partition("\n")
            told = Xml.SubElement(case, _TAGS[outcome.kind], {"message": first, "type": row.verdict})
            told.text = rest or None
    Xml.indent(root)
    text: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _fit(text: str) -> str:
    """The text without what XML has not, not even as a reference."""
    unfit = r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    return re.sub(unfit, lambda found: f"\\u{ord(found[0]):04x}", text)

"""The conformance table: from reports, as a terminal, as Markdown and as a page; and kept as data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from audit.auditing import audited, kvaudit
from audit.picturing import tags
from kvaudit.conformance.auditing import audited as audited_all
from kvaudit.conformance.entries import Conformance, Entry, entry_of, read_table
from kvaudit.conformance.page import page
from kvaudit.conformance.shown import legend, markdown, verdict_of
from kvaudit.engines.fetch import fetched
from kvaudit.report import BY_DESIGN, HOLDS, VIOLATED, Report
from kvaudit.runner import Options
from kvaudit.targets import TargetSpec
from kvspec.obligations import OBLIGATIONS
from mutants import pool

BROKEN = f"{pool.__file__}:{pool.EvictsNewest.__name__}"


def entry(target: str, **changed: Any) -> Entry:
    whole = Entry(
        target=target,
        version=target.partition("==")[2],
        level="manager",
        profile="seed",
        verdict="conforms",
        date="2026-01-02",
        steps=20_000,
        seed=0,
        kvaudit="0.1.0",
        spec=1,
        cells=dict.fromkeys(OBLIGATIONS, HOLDS),
    )
    return msgspec.structs.replace(whole, **changed)


MIXED = entry(
    "b==2.0",
    level="scheduler",
    verdict="violated",
    cells={name: HOLDS for name in OBLIGATIONS if name != "O3"} | {"O6": BY_DESIGN, "K2": VIOLATED},
    notes={"O6": "newest <first>", "K2": "block 0 is written"},
    settings=["tree=radix"],
)
TABLE = Conformance([entry("a==1.10"), entry("a==1.9"), MIXED])


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    kvaudit("run", BROKEN, "--max-steps", "300", "-x", "--json", "broken.json", cwd=folder)
    kvaudit("run", "kvblocks", "--max-steps", "50", "--json", "good.json", cwd=folder)
    return folder


def test_reports_become_a_table(reports: Path) -> None:
    said = kvaudit("table", "broken.json", "good.json", "--json", "table.json", cwd=reports)
    assert said.code == 0
    table = msgspec.json.decode((reports / "table.json").read_bytes(), type=Conformance)
    assert [found.target for found in table.entries] == [BROKEN, "kvblocks"]
    assert table.entries[0].cells["O6"] == VIOLATED
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", table.entries[0].date)
    assert "is older" in table.entries[0].notes["O6"]
    assert all(list(found.cells) == list(OBLIGATIONS) for found in table.entries)
    [line] = [line for line in said.out.splitlines() if line.startswith("kvblocks")]
    assert line.split()[:3] == ["kvblocks", "manager", "✓"]
    again = kvaudit("table", "table.json", cwd=reports)
    assert again.out == said.out


def test_a_later_report_on_the_same_replaces_the_earlier(reports: Path, tmp_path: Path) -> None:
    old = entry("kvblocks", date="2020-01-01")
    (tmp_path / "old.json").write_bytes(msgspec.json.encode(Conformance([old, entry("z==1")])))
    table = read_table([tmp_path / "old.json", reports / "good.json"])
    assert [found.target for found in table.entries] == ["kvblocks", "z==1"]
    assert table.entries[0].date > "2020-01-01"


def test_what_differs_by_level_or_settings_is_another_row(tmp_path: Path) -> None:
    rows = [entry("b==2.0"), MIXED, msgspec.structs.replace(MIXED, settings=[])]
    assert len(read_table([], rows).entries) == 3


def test_the_newest_version_comes_first() -> None:
    rows = [entry(f"a=={version}") for version in ("1.9", "1.10", "0.33.0")]
    assert [found.version for found in read_table([], rows).entries] == ["1.10", "1.9", "0.33.0"]


def test_the_markdown_says_what_is_so() -> None:
    lines = list(markdown(TABLE))
    assert lines[2].startswith("| a 1.10 | manager | `seed` | conforms | ✓ |")
    cells = [cell.strip() for cell in lines[4].strip("|").split("|")]
    assert cells[:4] == ["b 2.0 tree=radix", "scheduler", "`seed`", "violated: K2; by design: O6"]
    signs = dict(zip(OBLIGATIONS, cells[4:], strict=False))
    assert (signs["O3"], signs["O6"], signs["K2"], signs["K1"]) == ("", "≠", "✗", "✓")
    assert lines[-1] == "✓ holds, ✗ violated, ≠ differs by design, blank does not apply at that level."
    assert {line.count("|") for line in lines[:5]} == {len(OBLIGATIONS) + 7}


def test_a_name_made_by_hand_stays_in_its_cell() -> None:
    lines = list(markdown(Conformance([entry("a\n| b", profile="x|y", date="to\nday")])))
    assert len(lines) == 5
    assert lines[2].startswith("| a \\| b | manager | `x\\|y` |") and lines[2].endswith(" to day |")


def test_a_date_made_by_hand_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(msgspec.json.encode(Conformance([entry("a", date=":smile:")])))
    assert ":smile:" in kvaudit("table", "x.json", cwd=tmp_path).out


def test_the_page_is_whole_and_loads_nothing() -> None:
    html = page(TABLE)
    assert [tag for tag in tags(html) if tag.name in ("script", "img", "link") or "src" in tag.attributes] == []
    classes = [tag.classes for tag in tags(html) if tag.name == "td" and "sign" in tag.classes]
    assert len(classes) == 3 * len(OBLIGATIONS)
    assert [kind for _, kind in (cell for cell in classes if len(cell) > 1)].count("differs-by-design") == 1
    assert "newest &lt;first&gt;" in html
    assert '<span class="sr">does not apply</span>' in html
    assert verdict_of(MIXED) in html


def test_the_formats_and_the_file(reports: Path) -> None:
    assert kvaudit("table", "good.json", "--format", "html", "-o", "t.html", cwd=reports).out == ""
    assert (reports / "t.html").read_text(encoding="utf-8") == page(read_table([reports / "good.json"]))
    said = kvaudit("table", "good.json", "--format", "markdown", cwd=reports)
    assert said.out.splitlines() == list(markdown(read_table([reports / "good.json"])))


def test_a_target_that_does_not_start_is_told() -> None:
    specs = [TargetSpec("nothing:There"), TargetSpec("kvblocks")]
    events: list[str] = []
    found = dict(audited_all(specs, Options(max_steps=50), lambda spec, event: events.append(spec.text)))
    assert "could not be imported" in str(found[specs[0]])
    report = found[specs[1]]
    assert isinstance(report, Report) and report.steps >= 50
    assert set(events) == {"kvblocks"}


def test_without_an_engine_there_is_nothing_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vllm" / "0.33.0").mkdir(parents=True)  # not whole
    assert fetched(tmp_path) == []


def test_an_entry_keeps_what_a_table_needs() -> None:
    made = entry_of(audited(TargetSpec("kvblocks"), max_steps=50))
    assert (made.name, made.level, made.profile, made.spec) == ("kvblocks", "manager", "strict", 1)
    assert legend(Conformance([made]))["✓"] == HOLDS


WRONG = {
    "no JSON": (b"{", "is no report that this version knows"),
    "another format": (b'{"format": "kvaudit-report/1"}', "is no report that this version knows"),
    "nested too deep": (b'{"x":' + b"[" * 100_000, "is no report that this version knows"),
    "no such obligation": (Conformance([entry("a", cells={"Z9": HOLDS})]), "there is no obligation Z9"),
    "no such verdict": (Conformance([entry("a", cells={"K1": "fine"})]), "there is no verdict 'fine'"),
    "no such level": (Conformance([entry("a", level="kernel")]), "there is no level 'kernel'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_table_is_refused(name: str, tmp_path: Path) -> None:
    content, told = WRONG[name]
    (tmp_path / "x.json").write_bytes(content if isinstance(content, bytes) else msgspec.json.encode(content))
    said = kvaudit("table", "x.json", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert told in said.all


def test_mistakes_are_told(tmp_path: Path) -> None:
    assert "a table of what?" in kvaudit("table", cwd=tmp_path).all
    assert "missing.json cannot be read" in kvaudit("table", "missing.json", cwd=tmp_path).all
    assert "are for --run" in kvaudit("table", "x.json", "--max-steps", "5", cwd=tmp_path).all
    assert "--output no/where.html" in kvaudit("table", "--run", "-o", "no/where.html", cwd=tmp_path).all

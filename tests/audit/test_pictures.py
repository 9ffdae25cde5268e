"""The pool over time: what a grid holds, what the terminal draws, and what the page says without a browser."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from audit.auditing import Said, audit, kvaudit, target_of
from audit.picturing import check_picture, outlined, tags
from kvaudit.explore.report import Explored
from kvaudit.pictures import page as pages
from kvaudit.pictures.grid import Cell, grid_of
from kvaudit.pictures.page import page
from kvaudit.pictures.terminal import picture
from kvaudit.report import VIOLATION, Finding, PoolShown, Report, StepShown
from kvaudit.terminal import finding_shown
from mutants import pool as pool_bugs
from mutants import records

STYLE = Path(pages.__file__).parent / "templates" / "report.css"
BROKEN = f"{pool_bugs.__file__}:KeepsMappingOnEviction"


def pool(**changed: object) -> PoolShown:
    """Three blocks: 0 shared by a and b, 1 cached and idle, 2 free."""
    whole = PoolShown(
        free=[2],
        evictable=[1],
        ref=[2, 0, 0],
        content=["<7>", "<8>", None],
        tables={"a": [0], "b": [0]},
        hits={"<7>": 0, "<8>": 1},
    )
    return msgspec.structs.replace(whole, **changed)


def finding(*steps: StepShown, num_blocks: int = 3) -> Finding:
    names = ["I4"], "blocks leak", ["I4: ref is to be 1, not 2"]
    return Finding(
        "I4-1", "I4", [], names[1], names[2], num_blocks, 1, True, list(steps), 1, None, "kvaudit", ["x"] * 3
    )


def step(
    due: PoolShown | None, seen: PoolShown | None = None, blocks: tuple[int, ...] = (), call: str = "f"
) -> StepShown:
    return StepShown(call, "e", "g", ["I4"] if blocks else [], due, seen, list(blocks))


def cells(shown: PoolShown, blocks: tuple[int, ...] = ()) -> list[Cell]:
    grid = grid_of(finding(step(pool(), shown, blocks)))
    assert grid is not None
    return list(grid.columns[-1].cells)


# --- the grid ------------------------------------------------------------------------------------------------


def test_a_block_is_held_idle_or_free() -> None:
    shared, idle, free = cells(pool())
    assert (shared.kind, shared.owners, shared.ref, shared.content) == ("held", ("a", "b"), 2, "<7>")
    assert (idle.kind, idle.owners, idle.content) == ("idle", (), "<8>")
    assert (free.kind, free.content, free.odd) == ("free", None, "")
    assert shared.says == "held by a and b, 2 references, content <7>"
    assert idle.says == "idle, cached, 0 references, content <8>"


@pytest.mark.parametrize(
    ("shown", "block", "kind", "odd"),
    [
        (pool(ref=[1, 0, 0]), 0, "held", "1 reference, held 2 times"),
        (pool(evictable=[1, 0]), 0, "held", "held and in the LRU order"),
        (pool(free=[2, 1]), 1, "idle", "in the LRU order and in the free list"),
        (pool(free=[2, 2]), 2, "free", "in the free list twice"),
        (pool(free=[]), 2, "lost", ""),
        (pool(free=[], ref=[2, 0, 1]), 2, "lost", "1 reference, held 0 times"),
    ],
)
def test_what_cannot_be_is_said(shown: PoolShown, block: int, kind: str, odd: str) -> None:
    cell = cells(shown)[block]
    assert (cell.kind, cell.odd) == (kind, odd)


def test_what_is_not_shown_is_not_guessed() -> None:
    held, other, _ = cells(PoolShown(tables={"a": [0]}))
    assert (held.kind, held.ref, held.content) == ("held", None, None)
    assert other.kind == "unknown"


def test_only_the_last_column_is_outlined() -> None:
    grid = grid_of(finding(step(pool()), step(pool(), pool(ref=[1, 0, 0]), (0,))))
    assert grid is not None
    assert [(column.label, column.cells[0].violated) for column in grid.columns] == [
        ("1", False),
        ("2 due", False),
        ("2 came", True),
    ]


def test_of_a_large_pool_only_what_is_used_has_a_row() -> None:
    content: list[str | None] = [None] * 100
    shown = PoolShown(list(range(2, 100)), [1], [1] + [0] * 99, content, {"long name": [0]}, {})
    grid = grid_of(finding(step(shown, shown, (70,)), num_blocks=100))
    assert grid is not None
    assert (grid.blocks, grid.hidden, grid.marks) == (
        (0, 1, 70),
        "97 blocks that stay free have no row",
        {"long name": "a"},
    )


def test_without_pools_there_is_no_picture() -> None:
    bare = finding(step(None, None, (0,)))
    assert grid_of(bare) is None
    assert picture(bare) is None
    assert "<code>f</code>" in page(bare)


def test_an_outline_in_the_wrong_place_would_be_found() -> None:
    report = audit(target_of(pool_bugs.LeaksSharedBlock), max_steps=2_000, stop_at_first=True)
    [found] = report.findings
    check_picture(found)
    last = found.steps[-1]
    others = [block for block in range(found.num_blocks) if block not in last.blocks]
    for blocks in ([], others):
        moved = msgspec.structs.replace(found, steps=[*found.steps[:-1], msgspec.structs.replace(last, blocks=blocks)])
        with pytest.raises(AssertionError):
            check_picture(moved)


# --- the terminal --------------------------------------------------------------------------------------------


def drawn(shown: Finding, width: int = 100) -> str:
    console = Console(width=width, no_color=True, force_terminal=False)
    with console.capture() as captured:
        console.print(finding_shown(shown))
    return captured.get()


def test_the_terminal_draws_it_without_colour() -> None:
    lines = [
        line.split() for line in drawn(finding(step(pool()), step(pool(), pool(ref=[1, 0, 0]), (0,)))).splitlines()
    ]
    assert ["block", "0", "ab2", "ab2", "[ab1!]"] in lines
    assert ["block", "1", "░0", "░0", "░0"] in lines
    assert ["block", "2", "·", "·", "·"] in lines
    assert ["free", "list", "2", "2", "2"] in lines
    assert ["LRU", "order", "1", "1", "1"] in lines


def test_the_terminal_keeps_the_last_steps_of_a_long_program() -> None:
    text = drawn(finding(*[step(pool())] * 40, step(pool(), pool(), (0,))))
    assert "41 came" in text
    assert re.search(r"the first \d+ steps are left out", " ".join(text.split()))
    assert max(map(len, text.splitlines())) <= 100


# --- the page ------------------------------------------------------------------------------------------------


def test_names_are_text_and_nothing_comes_from_elsewhere() -> None:
    evil = "<script>alert(1)</script>"
    shown = pool(tables={evil: [0]}, hits={evil: 0}, content=[evil, None, None])
    html = page(finding(step(shown, shown, (0,), call=f"allocate('{evil}', [0])")))
    assert evil not in html
    assert "&lt;script&gt;alert" in html
    assert "default-src 'none'" in unescape(html)
    assert html.startswith("<!doctype html>")
    assert [tag.name for tag in tags(html) if {"src", "href"} & set(tag.attributes)] == []
    assert "url(" not in html


def test_a_screen_reader_gets_a_table_with_words() -> None:
    html = page(finding(step(pool()), step(pool(), pool(), (0,))))
    found = tags(html)
    boxes = [tag for tag in found if tag.name == "td" and "data-block" in tag.attributes]
    assert len(boxes) == len([tag for tag in found if "sr" in tag.classes]) == 9
    assert all("scope" in tag.attributes for tag in found if tag.name == "th")
    assert "held by a and b, 2 references, content &lt;7&gt;, violated" in html
    assert len([tag for tag in found if tag.name == "caption"]) == 1
    ids = [tag.attributes["id"] for tag in found if "id" in tag.attributes]
    assert len(ids) == len(set(ids))


def test_the_page_of_a_report_has_every_verdict_and_goal() -> None:
    report = audit(target_of(pool_bugs.KeepsMappingOnEviction), max_steps=300)
    html = page(report)
    for row in report.rows:
        assert f'<th scope="row">{row.obligation}</th>' in html
    for goal in report.goals:
        assert f'<th scope="row">{goal.id}</th>' in html
    assert len(outlined(html)) == sum(len(found.steps[-1].blocks) for found in report.findings)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    """The contrast ratio of WCAG 2."""
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_have_contrast(scheme: str) -> None:
    light, _, dark = STYLE.read_text(encoding="utf-8").partition("prefers-color-scheme: dark")
    text = light if scheme == "light" else dark[: dark.index("* {")]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", text))
    surfaces = [colours[name] for name in ("paper", "shade", "now")]
    for name in ("ink", "soft", "good", "bad", "warn", "focus"):
        assert min(contrast(colours[name], surface) for surface in surfaces) >= 4.5, name
    for number in range(8):
        assert contrast(colours["ink"], colours[f"c{number}"]) >= 7
        assert contrast(colours["bad"], colours[f"c{number}"]) >= 3


# --- the command line ----------------------------------------------------------------------------------------


def test_run_writes_the_page(tmp_path: Path) -> None:
    said = kvaudit("run", BROKEN, "--max-steps", "300", "--report", "new/folder", cwd=tmp_path)
    assert said.code == VIOLATION
    assert "the report is in new/folder/report.html" in said.all
    assert outlined((tmp_path / "new/folder/report.html").read_text(encoding="utf-8"))


def test_explore_writes_the_page(tmp_path: Path) -> None:
    sizes = ("--blocks", "2", "--block-size", "1")
    said = kvaudit("explore", BROKEN, *sizes, "--report", "out", cwd=tmp_path)
    assert said.code == VIOLATION
    html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "Pools searched" in html
    assert outlined(html)


def test_replay_draws_what_still_fails(tmp_path: Path) -> None:
    kvaudit("run", BROKEN, "--max-steps", "300", "-x", "--json", "r.json", cwd=tmp_path)
    [found] = msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=Report).findings
    assert found.trace is not None
    said = kvaudit("replay", found.trace, "--report", "out", cwd=tmp_path)
    assert said.code == VIOLATION
    assert "after step 1" in said.all
    html = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert outlined(html) == outlined(page(found))

    said = kvaudit("replay", found.trace, "--target", "kvblocks", "--report", "none", cwd=tmp_path)
    assert said.code == 0
    assert "no report is written" in said.all


def test_a_wrong_read_has_its_block(tmp_path: Path) -> None:
    target = f"{records.__file__}:SlotOffsetOffByOne"
    sizes = ("--blocks", "1", "--block-size", "2")
    said = kvaudit("explore", target, *sizes, "--report", "out", "--json", "e.json", cwd=tmp_path)
    assert said.code == VIOLATION
    [found] = msgspec.json.decode((tmp_path / "e.json").read_bytes(), type=Explored).findings
    check_picture(found)


@pytest.mark.parametrize("command", [("run",), ("explore", "--blocks", "1", "--block-size", "1")])
def test_a_wrong_folder_is_told_before_the_work_begins(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    name, *sizes = command
    said: Said = kvaudit(name, "kvblocks", *sizes, "--report", "taken", cwd=tmp_path)
    assert said.code == 2
    assert "--report taken:" in said.err
    assert "kvblocks" not in said.out

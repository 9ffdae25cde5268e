"""What the tests of pictures share: a page taken apart, and what is to be true of the picture of any finding."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import NamedTuple

from kvaudit.pictures.page import page
from kvaudit.report import Finding, PoolShown


class Tag(NamedTuple):
    """An opening tag."""

    name: str
    attributes: dict[str, str]

    @property
    def classes(self) -> list[str]:
        """Its classes."""
        return self.attributes.get("class", "").split()


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tag] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Tag(tag, {name: value or "" for name, value in attrs}))


def tags(html: str) -> list[Tag]:
    """Every opening tag of a page."""
    parser = _Tags()
    parser.feed(html)
    return parser.found


def outlined(html: str) -> set[tuple[int, int, str]]:
    """The cells that are outlined: block, step, and whether it is what was due or what came."""
    cells = [tag.attributes for tag in tags(html) if tag.name == "td" and "violated" in tag.classes]
    return {(int(cell["data-block"]), int(cell["data-step"]), cell["data-view"]) for cell in cells}


def check_picture(finding: Finding) -> None:
    """The page outlines, at the last step only, the blocks that the breach is about, and these are the right ones."""
    last = finding.steps[-1]
    view = "came" if last.seen is not None else "due"
    assert last.blocks
    assert outlined(page(finding)) == {(block, len(finding.steps), view) for block in last.blocks}

    main = [line for line in finding.details if finding.obligation in line.partition(":")[0].split(", ")]
    named = {int(number) for line in main for number in re.findall(r"\bblock (\d+)", line)}
    assert named <= set(last.blocks)
    if last.due is not None and last.seen is not None:
        wrong = differing(last.due, last.seen, finding.num_blocks)
        assert not wrong or wrong & set(last.blocks)


def differing(due: PoolShown, seen: PoolShown, num_blocks: int) -> set[int]:
    """The blocks that are not as they are due, where all can be seen."""
    if seen.free is None or seen.evictable is None or seen.ref is None:
        return set()
    return {b for b in range(num_blocks) if _place(due, b) != _place(seen, b)}


def _place(pool: PoolShown, block: int) -> object:
    assert pool.ref is not None and pool.tables is not None
    holders = [seq for seq, table in pool.tables.items() if block in table]
    return pool.ref[block], block in (pool.evictable or ()), block in (pool.free or ()), holders

"""What the tests of the search share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvaudit.api import ApiTarget
from kvaudit.explore.canonical import Symmetries
from kvaudit.explore.expand import Restoring
from kvaudit.explore.exploration import explore, pools
from kvaudit.explore.job import Job, Options
from kvaudit.explore.report import Explored
from kvaudit.explore.search import Limits, Search
from kvaudit.profiles import PROFILES, STRICT
from kvaudit.protocol import Pool
from kvaudit.targets import TargetSpec


def target_of(cls: Any, *, black_box: bool = False) -> ApiTarget:
    """A class as a target in this process."""
    target = ApiTarget(cls, name=cls.__name__)
    target.capabilities -= frozenset({"observe"} if black_box else ())
    return target


def explored(
    cls: Any,
    blocks: int,
    size: int,
    *,
    profile: str = "strict",
    smaller: bool = False,
    every: Sequence[Pool] | None = None,
    black_box: bool = False,
    **options: Any,
) -> Explored:
    """The search of a class on a pool (or on `every` one given), quietly."""
    target = target_of(cls, black_box=black_box)
    job = Job(target, TargetSpec("x:y", black_box=black_box), PROFILES[profile], Options(**options))
    return explore(job, every or pools(blocks, size, smaller=smaller))


def searched(cls: Any, blocks: int, size: int, symmetries: Symmetries) -> Search:
    """One search of restored states, up to exactly these symmetries."""
    target = target_of(cls)
    search = Search(lambda: Restoring(target, Pool(blocks, size), STRICT, symmetries), Limits())
    search.run(lambda: None)
    return search

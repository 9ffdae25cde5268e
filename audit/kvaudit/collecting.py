"""The collector of cycles, which finds next to nothing in what a search or an audit makes, and looks all the time."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_COLLECT_AFTER = 50_000
"""Of so many containers more than before the collector looks for cycles."""


@contextlib.contextmanager
def rarely_collecting() -> Iterator[None]:
    """What is there already is not looked through again; a target's own garbage may wait."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()

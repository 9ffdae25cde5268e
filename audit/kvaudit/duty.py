"""A duty: in which form a level holds its targets to an obligation."""

from __future__ import annotations

from typing import NamedTuple


class Duty(NamedTuple):
    """An obligation at one level.

    form: what is looked at, if that is not the statement. needs: what must be observable to check it in full:
    methods of the target, or "ledger". weaker: the form that is checked without that; empty if there is none.
    """

    form: str = ""
    needs: frozenset[str] = frozenset()
    weaker: str = ""

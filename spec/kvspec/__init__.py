"""kvspec: what a paged KV-cache block manager with a prefix cache owes to those who use it.

Read in this order: `ledger` (what there is), `operations` (what happens), `obligations` (what must hold, the
clauses of which are in `invariants` and `postconditions`), `memory` (why it matters).
"""

SPEC_VERSION = 1
"""Version of the set of obligations: a new one comes with a new version, so that it turns nobody's CI red."""

__all__ = ["SPEC_VERSION"]

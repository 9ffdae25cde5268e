"""The three that try to kill a mutant, each alone: the proof, the exhaustive search, and the tests."""

from __future__ import annotations

from collections.abc import Callable

from mutation.by_proof import by_proof
from mutation.by_search import by_search
from mutation.by_tests import by_tests
from mutation.verdict import Mutant, Verdict

KILLERS: dict[str, Callable[[Mutant], Verdict]] = {"proof": by_proof, "search": by_search, "tests": by_tests}

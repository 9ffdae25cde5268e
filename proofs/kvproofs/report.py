"""The result as text."""

from __future__ import annotations

from collections.abc import Iterable

from kvproofs.theorems import Theorem

TRUSTED = (
    "Z3, and CPython's semantics of what the executor does not rewrite",
    "the executor: forking, the rewriting of loops and list displays, the rule for loops (executor, loops, rewriting)",
    "the models of list, array, dict, deque, OrderedDict and of the built-in functions (containers, builtin, "
    "terms, sizing_values); "
    "each is compared with the real one by tests",
    "induction: over iterations, blocks of a chain, holders, live sequences, parts of an encoding, items of an extra, "
    "stages of a card",
    "counting: a finite set is empty exactly if its count is 0; insertion and removal change the count by one",
    "what theory.py defines (prefixes, readings, contents) and the ghosts of state.py; lemmas prove the rest",
    "(C) of the hash strategy: SHA-256 has no collision in use; with (E), a key determines its parent, its tokens and "
    "its extra keys",
    "the reading of a view: backend.py says of a state what kvspec's own view says",
    "bytes: what struct.pack, join, + and array.tobytes do; UTF-8 and decimal digits tell values apart (encode)",
    "a buffer: a memoryview of unsigned 32-bit integers holds token ids, and array copies them",
    "kvblocks.extra: check_extra says the same of the same arguments, and parts_of_block has the form of the lemmas",
    "that no two lists in the containers of a manager are one object",
    "that the caller writes each token that it is given before its next call (K1)",
)


def table(theorems: Iterable[Theorem]) -> str:
    """A row a theorem; under one that is not proved, the goals that are open."""
    lines = [f"{'operation':<18} {'theorem':<10} {'goals':>5} {'seconds':>8}  verdict"]
    for t in theorems:
        lines.append(f"{t.operation:<18} {t.name:<10} {t.goals:>5} {t.seconds:>8.1f}  {t.verdict}")
        lines += [f"{'':>19}open: {label}" for label in t.open[:8]]
    return "\n".join(lines)


def trusted_base() -> str:
    """What is taken for true without a proof."""
    return "\ntrusted:\n" + "\n".join(f"- {item}" for item in TRUSTED) + "\n"

"""What the proofs take from elsewhere, proved on its own: arithmetic, identities, and counting holders.

Each lemma is one question to Z3, or the two of an induction. The axioms of `theory` on arithmetic are proved of the
real product, quotient and remainder, and those on prefixes from their definition: the very formulas, not others like
them. What `state` says of holders is proved of sums.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import z3

from kvproofs import extras, theory
from kvproofs.clauses import clauses
from kvproofs.executor import RLIMIT, Goal
from kvproofs.formulas import counted, one, recounted
from kvproofs.state import ghost_definitions, unknown_state
from kvproofs.terms import EXTRA, INT, KEY, PARTS, SEQ, SIZE, div, mod, times

_BLOCK = z3.DeclareSort("LemmaBlock")


Question = tuple[str, list[Any], Any]


def _arithmetic() -> Iterator[Question]:
    """Each axiom of `theory.ARITHMETIC`, read with the real product, quotient and remainder."""
    n = z3.Var(0, INT)
    for name, axiom in theory.ARITHMETIC.items():
        real = z3.substitute_funs(axiom, (times, n * SIZE), (div, n / SIZE), (mod, n % SIZE))
        for clause in clauses(real):
            yield name, [SIZE >= 1, *clause.premises], clause.conclusion
    s, b, o, p, d = z3.Ints("s b o p d")
    yield (
        "slot is injective: b * s + o determines b and o",
        [s >= 1, 0 <= o, o < s, 0 <= p, p < s, d >= 1, d * s >= s],
        b * s + o != b * s + d * s + p,
    )
    yield "d >= 1: d * s >= s", [s >= 1, d >= 1], d * s >= s


_DEFINED = (
    "equal tokens are one block",
    "the empty prefix",
    "a prefix is the one before and one block",
)


def _prefixes() -> Iterator[Question]:
    """What `theory` says of prefixes beyond their definition, by induction over the blocks."""
    a, b = z3.Consts("a b", theory.TOKENS)
    x = z3.Const("x", EXTRA)
    k, length, i = z3.Ints("k length i")
    defined = (theory.IDENTITY[name] for name in _DEFINED)
    known = [*theory.ARITHMETIC.values(), *theory.FREE_KEYS.values(), *defined, k >= 0]
    depth = theory.IDENTITY["the depth of a prefix is its number of blocks"]
    agree = theory.agreement(a, b, x, length)[0]
    equal = z3.ForAll([i], z3.Implies(z3.And(0 <= i, i < length), a[i] == b[i]))
    for name, formula, values, premises in (
        ("the depth of a prefix", depth, (a, x), []),
        ("equal tokens, equal prefix", agree, (), [equal]),
    ):
        yield f"{name}: no block", [*known, *premises], _at(formula, *values, z3.IntVal(0))
        yield f"{name}: one block more", [*known, *premises, _at(formula, *values, k)], _at(formula, *values, k + 1)


def _at(formula: Any, *values: Any) -> Any:
    """What a quantified formula says of these values."""
    return z3.substitute_vars(formula.body(), *reversed(values))


def _identities() -> Iterator[Question]:
    key = z3.Function("lemma_key", KEY, _BLOCK, PARTS, KEY)
    none = z3.Const("lemma_none", KEY)
    h, g = z3.Consts("h g", KEY)
    t, u = z3.Consts("t u", _BLOCK)
    m, n = z3.Consts("m n", PARTS)
    free = [
        z3.ForAll([h, t, m, g, u, n], z3.Implies(key(h, t, m) == key(g, u, n), z3.And(h == g, t == u, m == n)),
                  patterns=[z3.MultiPattern(key(h, t, m), key(g, u, n))]),
        z3.ForAll([h, t, m], key(h, t, m) != none, patterns=[key(h, t, m)]),
    ]  # fmt: skip
    first, second = z3.Array("first", INT, _BLOCK), z3.Array("second", INT, _BLOCK)
    beside, other = z3.Array("beside_first", INT, PARTS), z3.Array("beside_second", INT, PARTS)
    p, q = z3.Function("p", INT, KEY), z3.Function("q", INT, KEY)
    i, j, k = z3.Ints("i j k")

    def step(chain: Any, blocks: Any, parts: Any, at: Any) -> Any:
        return chain(at + 1) == key(chain(at), blocks[at], parts[at])

    def equal_below(count: Any) -> Any:
        same = z3.And(first[k] == second[k], beside[k] == other[k])
        return z3.ForAll([k], z3.Implies(z3.And(0 <= k, k < count), same))

    later = step(q, second, other, j - 1)
    yield "equal identity, equal prefix: no block", [*free, p(0) == none, j >= 1, later], p(0) != q(j)
    hypothesis = z3.ForAll([j], z3.Implies(z3.And(j >= 0, p(i) == q(j)), z3.And(i == j, equal_below(i))))
    steps = [step(p, first, beside, i), step(q, second, other, j)]
    yield (
        "equal identity, equal prefix: one block more",
        [*free, i >= 0, j >= 0, *steps, hypothesis, p(i + 1) == q(j + 1)],
        z3.And(i + 1 == j + 1, equal_below(i + 1)),
    )
    depth = z3.Function("lemma_depth", KEY, INT)
    yield "keys of one chain are distinct", [depth(p(i)) == i, depth(p(j)) == j, i < j], p(i) != p(j)


def _counting() -> Iterator[Question]:
    """held(n, b) counts the holders below n whose table contains b; how many holders there are is left open."""
    had, has = z3.Function("had", INT, INT, z3.BoolSort()), z3.Function("has", INT, INT, z3.BoolSort())
    before, after = z3.Function("before", INT, INT, INT), z3.Function("after", INT, INT, INT)
    n, b, x, y = z3.Ints("n b x y")

    unfold = [
        before(n + 1, b) == before(n, b) + one(had(n, b)),
        after(n + 1, b) == after(n, b) + one(has(n, b)),
        n >= 0,
    ]

    def changed(count: Any) -> Any:
        counts = z3.And(0 <= x, x < count)
        return after(count, b) == recounted(before(count, b), z3.And(counts, had(x, b)), z3.And(counts, has(x, b)))

    others = [z3.Implies(n != x, has(n, b) == had(n, b)), x >= 0]
    empty = [before(0, b) == 0, after(0, b) == 0]
    yield "one table changes, so does the count: no holder", empty, changed(z3.IntVal(0))
    yield "one table changes, so does the count: one holder more", [*unfold, *others, changed(n)], changed(n + 1)

    def inside(who: Any, count: Any) -> Any:
        return z3.And(0 <= who, who < count, had(who, b))

    def facts(count: Any) -> Any:
        this, that = inside(x, count), inside(y, count)
        return z3.And(
            counted(before(count, b), this, that, x != y),
            counted(before(count, b), that, this, x != y),
        )

    yield "a count is as great as what it counts: no holder", empty, facts(z3.IntVal(0))
    yield "a count is as great as what it counts: one holder more", [*unfold, facts(n)], facts(n + 1)
    none = z3.ForAll([x], z3.Implies(z3.And(0 <= x, x < n + 1), z3.Not(had(x, b))))
    yield (
        "no table, no holder (the end of I4): one holder more",
        [*unfold, none, before(n, b) == 0],
        before(n + 1, b) == 0,
    )
    positive, ref = z3.Function("positive", INT, INT), z3.Array("lemma_ref", INT, INT)
    zero = [positive(n + 1) == positive(n) + one(ref[n] > 0), ref[n] == 0, positive(n) == 0]
    yield "no reference, none counted (the end of I4): one block more", zero, positive(n + 1) == 0


def _holders() -> Iterator[Question]:
    """What `state` says of its ghosts follows from what is proved of counts, if `place` finds each block of a table."""
    s = unknown_state("any")
    q, r = z3.Consts("q r", SEQ)
    b, i = z3.Ints("b i")
    at = s.tables[q][i]
    inside = z3.And(s.live(q), 0 <= i, i < s.tables_len[q])
    finds = z3.ForAll([q, i], z3.Implies(inside, s.place(q, at) == i), patterns=[at])
    counts = counted(s.held(b), s.contains(q, b), s.contains(r, b), q != r)
    for definition in ghost_definitions(s):
        for clause in clauses(definition):
            known = [finds, z3.ForAll([q, r, b], counts), *clause.premises]
            yield "the ghosts of a state count its tables", known, clause.conclusion


def lemma(family: str, label: str, hypotheses: list[Any], claim: Any) -> Goal:
    """One question to Z3."""
    solver = z3.Solver()
    solver.set("rlimit", RLIMIT)
    solver.add(*hypotheses, z3.Not(claim))
    started = time.perf_counter()
    verdict = solver.check()
    reason = "" if verdict == z3.unsat else "refuted" if verdict == z3.sat else solver.reason_unknown()
    return Goal(family, label, verdict == z3.unsat, reason, time.perf_counter() - started)


def lemmas() -> Iterator[Goal]:
    """Every lemma, as a goal."""
    for family in (_arithmetic, _prefixes, _identities, _counting, _holders, _extras):
        for label, hypotheses, claim in family():
            yield lemma(family.__name__[1:], label, hypotheses, claim)


def _extras() -> Iterator[Question]:
    """That the extra keys of all blocks determine what a sequence depends on beside its tokens."""
    return extras.questions()

"""What the proofs take from elsewhere, proved on its own: arithmetic, identities, and counting holders.

Each lemma is one question to Z3, or the two of an induction. Facts that `theory` and `state` state as axioms are
proved here of the real product, quotient and remainder, of chains, and of sums.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import z3

from kvproofs.executor import RLIMIT, Goal
from kvproofs.formulas import one
from kvproofs.terms import INT, KEY

_BLOCK = z3.DeclareSort("LemmaBlock")


def _arithmetic() -> Iterator[tuple[str, list[Any], Any]]:
    s, n, m, j, k, q, r, q2, r2 = z3.Ints("s n m j k q r q2 r2")
    euclid = [s >= 1, n == q * s + r, 0 <= r, r < s]
    yield "n // s and n % s exist, for every n", [s >= 1], n == (n / s) * s + n % s
    yield "0 <= n % s < s", [s >= 1], z3.And(0 <= n % s, n % s < s)
    yield "j < k: j * s + s <= k * s", [s >= 1, k == j + 1 + m, m >= 0, m * s >= 0], j * s + s <= k * s
    yield "m >= 0: m * s >= 0", [s >= 1, m >= 0], m * s >= 0
    yield "(j + 1) * s == j * s + s", [], (j + 1) * s == j * s + s
    other = [n + 1 == q2 * s + r2, 0 <= r2, r2 < s]
    near = [z3.Or(q2 <= q - 1, q2 == q, q2 == q + 1, q2 >= q + 2)]
    steps = [
        z3.Implies(q2 <= q - 1, q2 * s + s <= q * s),
        z3.Implies(q2 >= q + 2, q * s + s + s <= q2 * s),
        z3.Implies(q2 == q + 1, q2 * s == q * s + s),
    ]
    yield (
        "one more is the next offset or the next block",
        [*euclid, *other, *near, *steps],
        z3.Or(z3.And(r + 1 == s, q2 == q + 1, r2 == 0), z3.And(r + 1 < s, q2 == q, r2 == r + 1)),
    )
    up = [n + s - 1 == q2 * s + r2, 0 <= r2, r2 < s]
    yield "rounding up", [*euclid, *up, *near, *steps], q2 == z3.If(r == 0, q, q + 1)
    b, c, o, p, d = z3.Ints("b c o p d")
    yield (
        "slot is injective: b * s + o determines b and o",
        [s >= 1, 0 <= o, o < s, 0 <= p, p < s, c == b + d, d >= 1, d * s >= s],
        b * s + o != b * s + d * s + p,
    )
    yield "d >= 1: d * s >= s", [s >= 1, d >= 1], d * s >= s


def _identities() -> Iterator[tuple[str, list[Any], Any]]:
    key = z3.Function("lemma_key", KEY, _BLOCK, KEY)
    none = z3.Const("lemma_none", KEY)
    h, g = z3.Consts("h g", KEY)
    t, u = z3.Consts("t u", _BLOCK)
    free = [
        z3.ForAll([h, t, g, u], z3.Implies(key(h, t) == key(g, u), z3.And(h == g, t == u)),
                  patterns=[z3.MultiPattern(key(h, t), key(g, u))]),
        z3.ForAll([h, t], key(h, t) != none, patterns=[key(h, t)]),
    ]  # fmt: skip
    first, second = z3.Array("first", INT, _BLOCK), z3.Array("second", INT, _BLOCK)
    p, q = z3.Function("p", INT, KEY), z3.Function("q", INT, KEY)
    i, j, k = z3.Ints("i j k")

    def step(chain: Any, blocks: Any, at: Any) -> Any:
        return chain(at + 1) == key(chain(at), blocks[at])

    def equal_below(count: Any) -> Any:
        return z3.ForAll([k], z3.Implies(z3.And(0 <= k, k < count), first[k] == second[k]))

    yield "equal identity, equal prefix: no block", [*free, p(0) == none, j >= 1, step(q, second, j - 1)], p(0) != q(j)
    hypothesis = z3.ForAll([j], z3.Implies(z3.And(j >= 0, p(i) == q(j)), z3.And(i == j, equal_below(i))))
    yield (
        "equal identity, equal prefix: one block more",
        [*free, i >= 0, j >= 0, step(p, first, i), step(q, second, j), hypothesis, p(i + 1) == q(j + 1)],
        z3.And(i + 1 == j + 1, equal_below(i + 1)),
    )
    depth = z3.Function("lemma_depth", KEY, INT)
    deeper = [depth(none) == 0, z3.ForAll([h, t], depth(key(h, t)) == depth(h) + 1, patterns=[key(h, t)])]
    yield "the depth of a prefix: no block", [*deeper, p(0) == none], depth(p(0)) == 0
    yield (
        "the depth of a prefix: one block more",
        [*deeper, step(p, first, i), depth(p(i)) == i],
        depth(p(i + 1)) == i + 1,
    )
    yield "keys of one chain are distinct", [depth(p(i)) == i, depth(p(j)) == j, i < j], p(i) != p(j)
    same = [z3.ForAll([k], z3.Implies(z3.And(0 <= k, k < i + 1), first[k] == second[k])), i >= 0]
    yield (
        "equal tokens below, equal prefix: one block more",
        [*same, p(i) == q(i), step(p, first, i), step(q, second, i)],
        p(i + 1) == q(i + 1),
    )


def _counting() -> Iterator[tuple[str, list[Any], Any]]:
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
        difference = z3.If(z3.And(0 <= x, x < count), one(has(x, b)) - one(had(x, b)), z3.IntVal(0))
        return after(count, b) == before(count, b) + difference

    others = [z3.Implies(n != x, has(n, b) == had(n, b)), x >= 0]
    empty = [before(0, b) == 0, after(0, b) == 0]
    yield "one table changes, so does the count: no holder", empty, changed(z3.IntVal(0))
    yield "one table changes, so does the count: one holder more", [*unfold, *others, changed(n)], changed(n + 1)

    def inside(who: Any, count: Any) -> Any:
        return z3.And(0 <= who, who < count, had(who, b))

    def facts(count: Any) -> Any:
        return z3.And(
            before(count, b) >= 0,
            z3.Implies(inside(x, count), before(count, b) >= 1),
            z3.Implies(inside(y, count), before(count, b) >= 1),
            z3.Implies(z3.And(inside(x, count), inside(y, count), x != y), before(count, b) >= 2),
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
    free, size, held = z3.Ints("free size held")
    yield "all freed, all back (the end of I4)", [free + held == size, held == 0], free == size


def lemmas() -> Iterator[Goal]:
    """Every lemma, as a goal."""
    for family in (_arithmetic, _identities, _counting):
        for label, hypotheses, claim in family():
            solver = z3.Solver()
            solver.set("rlimit", RLIMIT)
            solver.add(*hypotheses, z3.Not(claim))
            started = time.perf_counter()
            verdict = solver.check()
            reason = "" if verdict == z3.unsat else "refuted" if verdict == z3.sat else solver.reason_unknown()
            yield Goal(family.__name__[1:], label, verdict == z3.unsat, reason, time.perf_counter() - started)

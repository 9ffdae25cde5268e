"""No two inputs share an encoding: each part says where it ends; the rest is induction over tokens and extra keys.

It is proved of `encoding.is_encoding`, of which it is proved that the text of `encode` returns it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import z3

from kvproofs.encoding import Input, encodable, is_encoding, item
from kvproofs.encoding_values import TEXT, Extra, concat_from, digits, in_range, le32, octets, utf8, words
from kvproofs.executor import Goal
from kvproofs.formulas import between
from kvproofs.lemmas import lemma
from kvproofs.terms import BYTES, INT


def injective() -> Iterator[Goal]:
    """Every step, as a goal."""
    for label, hypotheses, claim in _steps():
        yield lemma("E", label, hypotheses, claim)


def _steps() -> Iterator[tuple[str, list[Any], Any]]:
    """Each claim with what it follows from."""
    one, other = (Input.of(name, z3.Bool(f"{name}_has_parent")) for name in ("one", "other"))
    first, second = z3.Array("first", INT, BYTES), z3.Array("second", INT, BYTES)
    rest, more = z3.Consts("rest more", BYTES)
    t, text_of = z3.Const("t", TEXT), z3.Function("text_of", BYTES, TEXT)
    number_of = z3.Function("number_of", BYTES, INT)
    n, m = one.extras.count, other.extras.count
    k, j, x = z3.Ints("k j x")
    of32 = z3.Function("of32", BYTES, INT)
    four = [
        z3.ForAll([x], z3.Length(le32(x)) == 4, patterns=[le32(x)]),
        z3.ForAll([x], z3.Implies(in_range(x), of32(le32(x)) == x), patterns=[le32(x)]),
    ]
    a, b = z3.Array("tokens_of_one", INT, INT), z3.Array("tokens_of_other", INT, INT)

    equal_parents = z3.And(one.has_parent == other.has_parent, z3.Implies(one.has_parent, one.parent == other.parent))
    equal_blocks = z3.And(equal_parents, one.tokens == other.tokens)

    def longer(t: Any, count: Any) -> Any:
        return words(t, count + 1) == z3.Concat(words(t, count), le32(t[count]))

    yield "words: 4 bytes each: none", [words(a, 0) == z3.Empty(BYTES)], z3.Length(words(a, 0)) == 0
    four_each = z3.Length(words(a, k)) == 4 * k, z3.Length(words(b, k)) == 4 * k
    yield (
        "words: 4 bytes each: one more",
        [*four, longer(a, k), four_each[0]],
        z3.Length(words(a, k + 1)) == 4 * (k + 1),
    )
    same_below = between(j, 0, k, a[j] == b[j])
    yield (
        "words: equal bytes, equal tokens: one more",
        [
            *four, k >= 0, longer(a, k), longer(b, k), *four_each, words(a, k + 1) == words(b, k + 1),
            in_range(a[k]), in_range(b[k]), z3.Implies(words(a, k) == words(b, k), same_below),
        ],
        between(j, 0, k + 1, a[j] == b[j]),
    )  # fmt: skip
    fit = [octets(), one.fits(), other.fits()]
    yield "equal blocks, equal parents and tokens", [*fit, one.block() == other.block()], equal_blocks
    yield (
        "with extra keys, and without: never equal",
        [*fit],
        z3.Concat(one.head(), rest) != other.block(),
    )
    yes, no = one.extra(k), other.extra(k)
    unique = [
        z3.ForAll([t], text_of(utf8(t)) == t, patterns=[utf8(t)]),
        z3.ForAll([x], number_of(digits(x)) == x, patterns=[digits(x)]),
    ]
    yield (
        "an extra key says where it ends",
        [*four, *unique, encodable(yes), encodable(no), z3.Concat(item(yes), rest) == z3.Concat(item(no), more)],
        z3.And(same(yes, no), rest == more),
    )

    def unfolded(parts: Any, at: Any, count: Any) -> Any:
        """What joining is: part `at`, then the rest; at the end nothing."""
        step = z3.Concat(parts[at], concat_from(parts, at + 1, count))
        return concat_from(parts, at, count) == z3.If(at < count, step, z3.Empty(BYTES))

    def rests_are_equal(at: Any) -> Any:
        return concat_from(first, at, n + 2) == concat_from(second, at, m + 2)

    encodings = [*is_encoding(first, one, n).values(), *is_encoding(second, other, m).values()]

    def opened(at: Any) -> list[Any]:
        return [unfolded(first, at, n + 2), unfolded(second, at, m + 2), rests_are_equal(at)]

    start = z3.IntVal(0)
    yield (
        "equal encodings, as many extra keys",
        [*four, *encodings, *opened(start), n >= 1, m >= 1],
        z3.And(n == m, rests_are_equal(z3.IntVal(1))),
    )
    at = k + 1
    yield (
        "equal rests: one extra key more, and equal",
        [*four, *unique, *encodings, *opened(at), 0 <= k, k < n, n == m],
        z3.And(same(yes, no), rests_are_equal(at + 1)),
    )
    last = [first[n + 1] == one.block(), second[m + 1] == other.block()]
    ends = [concat_from(first, n + 2, n + 2) == z3.Empty(BYTES), concat_from(second, m + 2, m + 2) == z3.Empty(BYTES)]
    yield (
        "and in the end equal blocks",
        [*fit, *last, *ends, *opened(n + 1), n == m, n >= 1],
        equal_blocks,
    )


def same(x: Extra, y: Extra) -> Any:
    """Two extra keys of one kind and one value."""
    return z3.And(
        x.is_bytes == y.is_bytes,
        x.is_str == y.is_str,
        x.is_int == y.is_int,
        z3.Implies(x.is_bytes, x.data == y.data),
        z3.Implies(x.is_str, x.text == y.text),
        z3.Implies(x.is_int, x.number == y.number),
    )

"""What is known of the few symbols that the proofs use beside plain integers and arrays. See `lemmas`.

Arithmetic by the block size is kept linear: `times`, `div` and `mod` are functions of one argument, and the
facts below are all that is said of them. Identities are free: a key is built from its parent, its tokens and its extra
keys and from nothing else. (That is (E) and (C) of the hash strategy: the encoding determines them, and the digest of
different encodings differs.)

parts(x, k)       the extra keys of block k of a sequence that depends on x beside its tokens
prefix(a, x, k)   the key of the first k blocks of the token array a under x; prefix(a, x, 0) is `NO_KEY`
reading(a, x, i)  the K/V content of token i of a under x: it stands for the whole prefix a[0 .. i]
content(h, o)     the K/V content at offset o of the last block of the prefix that h stands for
"""

from __future__ import annotations

from typing import Any

import z3

from kvproofs.terms import EXTRA, INT, KEY, NOTHING, PARTS, SIZE, div, mod, times

about = z3.Function("about", INT, z3.BoolSort())  # true of every block: says which one a goal speaks of
about_key = z3.Function("about_key", KEY, z3.BoolSort())  # and which key

TOKENS = z3.ArraySort(INT, INT)
BLOCK = z3.DeclareSort("BlockOfTokens")
CONTENT = z3.DeclareSort("Content")

NO_KEY = z3.Const("no_key", KEY)
block_of = z3.Function("block_of_tokens", TOKENS, INT, BLOCK)  # SIZE tokens of an array from a start
NO_PARTS = z3.Const("no_parts", PARTS)
parts = z3.Function("parts", EXTRA, INT, PARTS)
key_of = z3.Function("key_of", KEY, BLOCK, PARTS, KEY)
parent_of = z3.Function("parent_of", KEY, KEY)
tokens_of = z3.Function("tokens_of", KEY, BLOCK)
parts_of = z3.Function("parts_of", KEY, PARTS)
depth = z3.Function("depth", KEY, INT)
prefix = z3.Function("prefix", TOKENS, EXTRA, INT, KEY)
reading = z3.Function("reading", TOKENS, EXTRA, INT, CONTENT)
content = z3.Function("content", KEY, INT, CONTENT)
differ = z3.Function("differ", TOKENS, INT, TOKENS, INT, INT)

_a, _b = z3.Consts("a b", TOKENS)
_h = z3.Const("h", KEY)
_t = z3.Const("t", BLOCK)
_p = z3.Const("p", PARTS)
_x = z3.Const("x", EXTRA)
_i, _j, _k, _m, _n = z3.Ints("i j k m n")


def _all(variables: list[Any], claim: Any, *pattern: Any) -> Any:
    patterns = [z3.MultiPattern(*pattern)] if len(pattern) > 1 else list(pattern)
    return z3.ForAll(variables, claim, patterns=patterns)


ARITHMETIC: dict[str, Any] = {
    "the block size is positive": SIZE >= 1,
    "0 * s == 0": times(0) == 0,
    "1 * s == s": times(1) == SIZE,
    "n == n // s * s + n % s (by div)": _all(
        [_n], z3.And(_n == times(div(_n)) + mod(_n), 0 <= mod(_n), mod(_n) < SIZE), div(_n)
    ),
    "n == n // s * s + n % s (by mod)": _all(
        [_n], z3.And(_n == times(div(_n)) + mod(_n), 0 <= mod(_n), mod(_n) < SIZE), mod(_n)
    ),
    "products grow by at least s": _all(
        [_j, _k], z3.Implies(_j < _k, times(_j) + SIZE <= times(_k)), times(_j), times(_k)
    ),
    "(k + 1) * s == k * s + s": _all(
        [_j, _k], z3.Implies(_k == _j + 1, times(_k) == times(_j) + SIZE), times(_j), times(_k)
    ),
    "one more: the next offset, or the next block": _all(
        [_m, _n],
        z3.Implies(
            _m == _n + 1,
            z3.Or(
                z3.And(mod(_n) + 1 == SIZE, div(_m) == div(_n) + 1, mod(_m) == 0),
                z3.And(mod(_n) + 1 < SIZE, div(_m) == div(_n), mod(_m) == mod(_n) + 1),
            ),
        ),
        div(_m),
        div(_n),
    ),
    "rounding up": _all(
        [_m, _n],
        z3.Implies(_m == _n + SIZE - 1, div(_m) == z3.If(mod(_n) == 0, div(_n), div(_n) + 1)),
        div(_m),
        div(_n),
    ),
}

FREE_KEYS: dict[str, Any] = {
    "a key determines its parent, its tokens and its extra keys": _all(
        [_h, _t, _p],
        z3.And(
            parent_of(key_of(_h, _t, _p)) == _h,
            tokens_of(key_of(_h, _t, _p)) == _t,
            parts_of(key_of(_h, _t, _p)) == _p,
            depth(key_of(_h, _t, _p)) == depth(_h) + 1,
            key_of(_h, _t, _p) != NO_KEY,
        ),
        key_of(_h, _t, _p),
    ),
    "the depth of no key": depth(NO_KEY) == 0,
}
"""That keys are free. The lemmas need it; the operations only what the lemmas prove from it."""

IDENTITY: dict[str, Any] = {
    "equal tokens are one block": _all(
        [_a, _i, _b, _j],
        z3.Or(
            block_of(_a, _i) == block_of(_b, _j),
            z3.And(
                0 <= differ(_a, _i, _b, _j),
                differ(_a, _i, _b, _j) < SIZE,
                _a[_i + differ(_a, _i, _b, _j)] != _b[_j + differ(_a, _i, _b, _j)],
            ),
        ),
        block_of(_a, _i),
        block_of(_b, _j),
    ),
    "nothing beside the tokens, no extra keys": _all([_k], parts(NOTHING, _k) == NO_PARTS, parts(NOTHING, _k)),
    "the empty prefix": _all([_a, _x], prefix(_a, _x, 0) == NO_KEY, prefix(_a, _x, 0)),
    "a prefix is the one before and one block": _all(
        [_a, _x, _j, _k],
        z3.Implies(
            z3.And(_j >= 0, _k == _j + 1),
            prefix(_a, _x, _k) == key_of(prefix(_a, _x, _j), block_of(_a, times(_j)), parts(_x, _j)),
        ),
        prefix(_a, _x, _j),
        prefix(_a, _x, _k),
    ),
    "the depth of a prefix is its number of blocks": _all(
        [_a, _x, _k],
        z3.Implies(_k >= 0, z3.And(depth(prefix(_a, _x, _k)) == _k, z3.Implies(_k >= 1, prefix(_a, _x, _k) != NO_KEY))),
        prefix(_a, _x, _k),
    ),
    "a key determines what each token of its block reads": _all(
        [_a, _x, _i],
        z3.Implies(_i >= 0, reading(_a, _x, _i) == content(prefix(_a, _x, div(_i) + 1), mod(_i))),
        reading(_a, _x, _i),
    ),
}


def agreement(a: Any, b: Any, x: Any, length: Any) -> list[Any]:
    """Arrays that agree below `length` have, under x, the same prefixes and readings there. The caller shows that they
    do."""
    k, i = z3.Ints("k i")
    return [
        z3.ForAll(
            [k],
            z3.Implies(z3.And(0 <= k, times(k) <= length), prefix(a, x, k) == prefix(b, x, k)),
            patterns=[prefix(a, x, k)],
        ),
        z3.ForAll(
            [i],
            z3.Implies(z3.And(0 <= i, i < length), reading(a, x, i) == reading(b, x, i)),
            patterns=[reading(a, x, i)],
        ),
    ]

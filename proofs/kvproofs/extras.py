"""The extra keys of the blocks of a sequence determine what it depends on beside its tokens. Lemmas.

They are about the form that `kvblocks.extra` gives: each item as the name of its kind and a fixed number of parts, in
the block in which it begins, in the order of their places. That the text of `check_extra` and `parts_of_block` gives
this form is tested, not proved. Two parts are equal where `hashing.encode` has one encoding for them, see `encoding`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import z3

from kvproofs import theory
from kvproofs.terms import BOOL, INT, div, times

PART = z3.DeclareSort("Part")
FLAT = z3.SeqSort(PART)
SALT, LORA, IMAGE = (z3.Const(f"the_word_{kind}", PART) for kind in ("salt", "lora", "image"))
number_of = z3.Function("number_of_part", PART, INT)

Question = tuple[str, list[Any], Any]


@dataclass(frozen=True)
class Item:
    """Something that a sequence depends on: a salt, else a LoRA, else an image."""

    is_salt: Any
    is_lora: Any
    parts: tuple[Any, Any, Any]

    @property
    def start(self) -> Any:
        """Where it begins: of an image its second part."""
        return z3.If(z3.Or(self.is_salt, self.is_lora), z3.IntVal(0), number_of(self.parts[1]))

    @property
    def block(self) -> Any:
        return div(self.start)


@dataclass(frozen=True)
class Given:
    """What one sequence depends on: any number of items."""

    name: str

    @property
    def count(self) -> Any:
        return z3.Int(f"{self.name}_num_items")

    def item(self, k: Any) -> Item:
        is_salt, is_lora = (z3.Array(f"{self.name}_is_{kind}", INT, BOOL)[k] for kind in ("salt", "lora"))
        one, two, three = (z3.Array(f"{self.name}_part_{n}", INT, PART)[k] for n in range(3))
        return Item(is_salt, is_lora, (one, two, three))

    def rest(self, i: Any, k: Any) -> Any:
        """The extra keys of block i, but for those of the first k items."""
        return z3.Function(f"{self.name}_rest", INT, INT, FLAT)(i, k)

    def unfolded(self, i: Any, k: Any) -> Any:
        """What `rest` is."""
        item, later = self.item(k), self.rest(i, k + 1)
        here = z3.If(item.block == i, z3.Concat(flat(item), later), later)
        return self.rest(i, k) == z3.If(k < self.count, here, z3.Empty(FLAT))

    def none_before(self, k: Any) -> Any:
        """In no block before that of item k is anything left."""
        i = z3.Int("i")
        before = z3.Or(k >= self.count, i < self.item(k).block)
        return z3.ForAll([i], z3.Implies(before, self.rest(i, k) == z3.Empty(FLAT)), patterns=[self.rest(i, k)])


def flat(item: Item) -> Any:
    """An item as the extra keys that stand for it."""
    one, two, three = map(z3.Unit, item.parts)
    salt = z3.Concat(z3.Unit(SALT), one)
    lora = z3.Concat(z3.Unit(LORA), one, two)
    image = z3.Concat(z3.Unit(IMAGE), one, two, three)
    return z3.If(item.is_salt, salt, z3.If(item.is_lora, lora, image))


def same(one: Item, other: Item) -> Any:
    """Two items of one kind and of the same parts."""
    first, second, third = (a == b for a, b in zip(one.parts, other.parts, strict=True))
    return z3.And(
        one.is_salt == other.is_salt,
        z3.Implies(z3.Not(one.is_salt), z3.And(one.is_lora == other.is_lora, second)),
        first,
        z3.Implies(z3.Not(z3.Or(one.is_salt, one.is_lora)), third),
    )


def questions() -> Iterator[Question]:
    """By induction over the items: equal extra keys in each block, the same item next, or none in both."""
    one, other = Given("one"), Given("other")
    i, j, k = z3.Ints("i j k")
    yes, no = one.item(k), other.item(k)
    rest, more = z3.Consts("rest more", FLAT)
    words = z3.Distinct(SALT, LORA, IMAGE)
    yield (
        "an item says where it ends",
        [words, z3.Concat(flat(yes), rest) == z3.Concat(flat(no), more)],
        z3.And(same(yes, no), rest == more),
    )
    arithmetic = list(theory.ARITHMETIC.values())
    start = yes.start
    yield (
        "an item begins in one block",
        arithmetic,
        z3.And(times(i) <= start, start < times(i + 1)) == (i == div(start)),
    )
    yield "what begins no earlier is in no earlier block", arithmetic, z3.Implies(j <= k, div(j) <= div(k))
    sorted_blocks = z3.Implies(k + 1 < one.count, yes.block <= one.item(k + 1).block)
    yield "nothing is left at the end", [_unfolded(one, one.count)], one.none_before(one.count)
    yield (
        "nothing is left before the next item",
        [_unfolded(one, k), sorted_blocks, one.none_before(k + 1)],
        one.none_before(k),
    )
    equal = z3.ForAll([i], one.rest(i, k) == other.rest(i, k), patterns=[one.rest(i, k)])
    both = [equal, *(fact for given in (one, other) for fact in (_unfolded(given, k), given.none_before(k)))]
    last = z3.And(k >= one.count, k >= other.count)
    next_is_alike = z3.And(k < one.count, k < other.count, yes.block == no.block)
    yield "equal extra keys: an item more in both, in one block, or none", both, z3.Or(last, next_is_alike)
    left, right = one.rest(yes.block, k + 1), other.rest(yes.block, k + 1)
    in_its_block = z3.Concat(flat(yes), left) == z3.Concat(flat(no), right)
    yield (
        "its block has it first",
        [*both, next_is_alike, one.rest(yes.block, k) == one.rest(yes.block, k)],
        in_its_block,
    )
    yield (
        "it is the same item, and so is what follows in its block",
        [words, in_its_block],
        z3.And(same(yes, no), left == right),
    )
    elsewhere = [*both, next_is_alike, i != yes.block]
    yield "other blocks are as they were", elsewhere, one.rest(i, k + 1) == other.rest(i, k + 1)


def _unfolded(given: Given, k: Any) -> Any:
    """What is left of each block, but for those of the first k items."""
    i = z3.Int("i")
    return z3.ForAll([i], given.unfolded(i, k), patterns=[given.rest(i, k)])

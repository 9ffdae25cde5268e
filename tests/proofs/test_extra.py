"""The proofs notice where a key forgets what a sequence depends on; and the lemmas on extra keys need what they say."""

from __future__ import annotations

from typing import Any

import pytest
import z3

from kvproofs import extras, sources
from kvproofs.lemmas import lemma
from proofs.controls import to_the_first_open

APPEND = "parts_of_block(seq.extra, len(seq.hashes), size)"
CHAIN = "parts_of_block(extra, len(hashes), self.block_size) if extra else ()"
CHECK = "check_extra(salt, lora, images, len(tokens))"


def last(operation: str, *edits: tuple[str, str]) -> Any:
    """The last goal of an operation of kvblocks with pieces of its text replaced, up to the first that is open."""
    return to_the_first_open(operation, sources.variant(*edits))[-1]


@pytest.mark.parametrize(
    "edit",
    [
        (APPEND, "()"),
        (APPEND, "parts_of_block(seq.extra, 0, size)"),
        (APPEND, "parts_of_block(seq.extra, len(seq.hashes) + 1, size)"),
    ],
    ids=["forgets it", "says of each block what the first adds", "is a block too far"],
)
def test_an_append_that_keys_otherwise_does_not_prove(edit: tuple[str, str]) -> None:
    assert not last("append", edit).proved


@pytest.mark.parametrize(
    "edit",
    [
        (CHAIN, "()"),
        (CHAIN, "parts_of_block(extra, 0, self.block_size)"),
        (CHECK, "check_extra(salt, None, images, len(tokens))"),
        (CHECK, "check_extra(salt, lora, images, len(tokens) + 1)"),
    ],
    ids=["forgets it", "says of each block what the first adds", "drops the LoRA", "holds images to another length"],
)
def test_an_allocate_that_keys_otherwise_does_not_prove(edit: tuple[str, str]) -> None:
    assert not last("allocate", edit).proved


def open_questions() -> set[str]:
    return {label for label, hypotheses, claim in extras.questions() if not lemma("", label, hypotheses, claim).proved}


def test_the_lemmas_are_proved() -> None:
    assert open_questions() == set()


def without_kinds(item: extras.Item) -> Any:
    """Nothing says of what kind it is: a LoRA without a version passes for a salt."""
    one, two, three = map(z3.Unit, item.parts)
    longer = z3.If(item.is_lora, z3.Concat(one, two), z3.Concat(one, two, three))
    return z3.If(item.is_salt, one, longer)


def test_without_the_kind_an_item_does_not_say_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "flat", without_kinds)
    assert "an item says where it ends" in open_questions()


def test_their_hypotheses_can_be_met() -> None:
    """Of two sequences that depend on one salt each: they are no contradiction, whatever the claim."""
    for label, hypotheses, _ in extras.questions():
        solver = z3.Solver()
        solver.set("timeout", 2_000)
        solver.add(*hypotheses)
        assert solver.check() != z3.unsat, label

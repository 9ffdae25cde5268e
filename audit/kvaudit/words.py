"""What was expected and what came, in words."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from kvaudit.printable import one_line, printable
from kvaudit.protocol import (
    Allocate,
    AnyMutation,
    Append,
    Cancel,
    Free,
    Mutation,
    Observed,
    Outcome,
    Pool,
    Raised,
    Refused,
    Returned,
    State,
    Submit,
    is_hang,
)
from kvspec.extra import hash_in_words
from kvspec.identity import Identity
from kvspec.ledger import Ledger
from kvspec.operations import available, blocks_for, full_chain, run_of_hits

if TYPE_CHECKING:
    from kvaudit.oracle import Judgement


def call(operation: AnyMutation) -> str:
    """The operation as a call."""
    if isinstance(operation, Allocate):
        named = "".join(f", {name}={_given(value)}" for name, value in operation.extra.named().items())
        return f"allocate({operation.seq!r}, {list(operation.tokens)}{named})"
    if isinstance(operation, Append):
        return f"append_slot({operation.seq!r}, {operation.token})"
    if isinstance(operation, Free):
        return f"free({operation.seq!r})"
    if isinstance(operation, Submit):
        return f"submit({operation.seq!r}, {list(operation.tokens)}, {operation.max_new_tokens})"
    if isinstance(operation, Cancel):
        return f"cancel({operation.seq!r})"
    return f"step({operation.token}{f', cancel={list(operation.cancel)}' if operation.cancel else ''})"


def _given(value: Any) -> str:
    """What a sequence is given beside its tokens. Hashes of images are not given whole, see `hash_in_words`."""
    if not isinstance(value, list):
        return repr(value)
    return f"[{', '.join(f'({hash_in_words(h)}, {start}, {length})' for h, start, length in value)}]"


def pool(of: Pool) -> str:
    """The pool, its cache, and the settings that are not left at their defaults."""
    size = f"{count(of.num_blocks, 'block')} of {count(of.block_size, 'token')}"
    chosen = "".join(f", {name}={value!r}" for name, value in of.configuration.items())
    return f"{size}, prefix cache {'on' if of.enable_prefix_cache else 'off'}{chosen}"


def expected(operation: Mutation, judgement: Judgement) -> str:
    """What the specification says of it."""
    before, size = judgement.before, judgement.before.block_size
    if isinstance(operation, Allocate):
        run = run_of_hits(before, full_chain(before, operation.tokens, operation.extra.items), len(operation.tokens))
        total = blocks_for(len(operation.tokens), size)
        if judgement.refused:
            hits = tuple(before.hash_to_block[h] for h in run)
            return f"refusal: needs {count(total - len(run), 'new block')}, {available(before, hits)} available"
        cached = f", {count(len(run) * size, 'token')} cached" if before.enable_prefix_cache else ""
        return f"{count(total, 'block')}{cached}"
    if isinstance(operation, Append):
        record = before.sequences[operation.seq]
        pos = len(record.tokens)
        if judgement.refused:
            return "refusal: needs a new block, none is available"
        if pos // size == len(record.table):
            return f"offset {pos % size} of a new block"
        return f"slot {record.table[-1] * size + pos % size}"
    return "freed"


def came(judgement: Judgement) -> str:
    """What the target answered."""
    answer = judgement.answer
    if isinstance(answer, Refused):
        return f"refused ({one_line(answer.error)})"
    if isinstance(answer, Raised):
        return "no answer" if is_hang(answer) else f"raised {one_line(answer.error)}"
    if value(answer) is None:
        return "freed" if judgement.cached is None else "None"
    cached = f", {short(judgement.cached)} cached" if judgement.cached is not None else ""
    return short(value(answer)) + cached


def unexpected(outcome: Outcome) -> str:
    """An outcome that a legal call has not: an exception that is no refusal, or a read that is refused."""
    if not isinstance(outcome, Raised):
        return f"a read was answered with {short(outcome)}"
    if is_hang(outcome):
        return f"a legal call hangs: {outcome.message}"
    said = one_line(f"{outcome.error}: {outcome.message}" if outcome.message else outcome.error)
    where = f" ({outcome.where})" if outcome.where else ""
    name = one_line(outcome.error)
    as_refusal = f"--refusal {name}, or refusals=[{name}] in Python"
    own = "" if hasattr(builtins, outcome.error) else f". Is it meant as a refusal? {as_refusal}"
    return f"a legal call raised {said}{where}{own}"


def ledgers_differ(due: Ledger, seen: Ledger) -> str:
    """The first difference of two ledgers; the order of the free list comes last, it often does not count."""
    if due.evictable != seen.evictable:
        return f"evictable is to be {list(due.evictable)}, not {list(seen.evictable)}"
    for block, (one, two) in enumerate(zip(due.ref, seen.ref, strict=True)):
        if one != two:
            return f"ref of block {block} is to be {one}, not {two}"
    for block, (h, other) in enumerate(zip(due.block_hash, seen.block_hash, strict=True)):
        if h is not other:
            return f"block {block} is to carry {_identity(h)}, not {_identity(other)}"
    for prefix in [*due.hash_to_block, *seen.hash_to_block]:
        mapped, shown = due.hash_to_block.get(prefix), seen.hash_to_block.get(prefix)
        if mapped != shown:
            return f"{_identity(prefix)} is to be mapped to {_block(mapped)}, not to {_block(shown)}"
    for seq in [*due.sequences, *(seq for seq in seen.sequences if seq not in due.sequences)]:
        if seq not in due.sequences or seq not in seen.sequences:
            return f"the records of {seq!r} are {'left' if seq in seen.sequences else 'gone'}"
        for name in ("table", "tokens", "chain", "num_cached_tokens"):
            first, second = (getattr(ledger.sequences[seq], name) for ledger in (due, seen))
            if first != second:
                return f"{name} of {seq!r} is to be {short(first)}, not {short(second)}"
    return f"the free list is to be {list(due.free)}, not {list(seen.free)}"


def _identity(h: Identity | None) -> str:
    """An identity; one that the specification knows nothing of comes from a key that was not due."""
    if h is None:
        return "no identity"
    return short(h) if h.is_known else "a new key"


def _block(block: int | None) -> str:
    return "nothing" if block is None else f"block {block}"


def outcomes_differ(one: Outcome, two: Outcome) -> str:
    """The first difference of two outcomes."""
    if isinstance(one, Observed) and isinstance(two, Observed):
        for name in ("num_free_blocks", "tables", "cached"):
            if getattr(one, name) != getattr(two, name):
                return f"{name} is {short(getattr(one, name))} or {short(getattr(two, name))}"
        for name in State.__struct_fields__:
            first, second = getattr(one.state, name, None), getattr(two.state, name, None)
            if first != second:
                return f"{name} is {short(first)} or {short(second)}"
    return f"the answer is {short(one)} or {short(two)}"


def value(outcome: Outcome) -> Any:
    """What a completed operation returned."""
    return outcome.value if isinstance(outcome, Returned) else None


def short(thing: Any) -> str:
    """A repr of bounded length."""
    try:
        text = printable(repr(thing))
    except Exception:
        text = f"<a {type(thing).__name__} that cannot be shown>"
    return text if len(text) <= 80 else text[:77] + "..."


def clipped(text: str, most: int = 240) -> str:
    """The beginning of a text that may have the tokens of a whole prompt in it, and how long it is."""
    return text if len(text) <= most else f"{text[: most - 40]}... ({len(text):,} characters)"


def count(number: int, what: str) -> str:
    """The number with the noun in the right form."""
    plural = "es" if what.endswith("s") else "s"
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}{plural}"

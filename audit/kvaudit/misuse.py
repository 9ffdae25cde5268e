"""Misuse (O10): calls that no caller should make, each tried in an execution of its own, which ends there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kvaudit.api import ApiTarget
from kvaudit.protocol import (
    MAX_TOKEN,
    Allocate,
    Append,
    Call,
    Extras,
    Failed,
    Free,
    Observe,
    Operation,
    Pool,
    Raised,
    Refused,
    Unsupported,
    is_hang,
)
from kvaudit.targets import Target
from kvspec.extra import Image

BAD_POOLS = (Pool(0, 2), Pool(-1, 2), Pool(4, 0), Pool(4, -1))
"""Pools that nobody can have."""

BOOLEAN_POOLS = (Pool(True, 2), Pool(4, True))
"""Others, which cannot be said in the protocol: there a size is a number."""

BAD_TOKENS = (-1, MAX_TOKEN + 1, 1.5, True, "x", None)
"""What is no token id. A bool is an int in Python: it gets past `isinstance`, and is equal to 0 or 1 as a key."""

BAD_NAMES = ("", 5, True)
BAD_LORAS = ("xy", ("x",), ("", "1"), ("x", ""), ("x", 1))
BAD_HASHES = (5, ((b"", 0, 1),), (("x", 0, 1),), ((b"x", 0),), ((b"x", True, 1),))
"""What is no salt, no LoRA and no list of images. A hash that is text is none: it would be taken for its bytes."""

BAD_PLACES = {
    "an image that ends after the prompt": ((1, 3),),
    "an image that begins before the prompt": ((-1, 2),),
    "an image of no tokens": ((1, 0),),
    "two images that overlap": ((0, 2), (1, 1)),
}
"""Where no image can be in a prompt of three tokens: start and length."""

_POOL = Pool(4, 2)
_SETUP: tuple[Operation, ...] = (
    Allocate("a", (0, 1, 2)),
    Allocate("b", (0, 1)),
    Free("b"),
    Append("a", 3),
    Append("a", 4),
)
"""A live sequence "a" whose third block is half full, an ended one "b", and one block that is cached and idle."""


VALUE = "{}"


@dataclass(frozen=True)
class Misuse:
    """A misuse: its kind in words, the call, and what is done before it.

    value: what stands at VALUE in the words: misuses of one kind are told together.
    """

    kind: str
    call: Call | Allocate | Pool
    setup: tuple[Operation, ...] = _SETUP
    value: str = ""


@dataclass(frozen=True)
class Accepted:
    """A misuse that was not refused cleanly, and how. kind and value: see Misuse."""

    kind: str
    how: str
    value: str = ""

    @property
    def what(self) -> str:
        """What was done wrong, in words."""
        return self.kind.replace(VALUE, self.value)


def in_words(accepted: Sequence[Accepted]) -> str:
    """A line for each way of getting through."""
    lines: dict[str, dict[str, list[str]]] = {}
    for misuse in accepted:
        lines.setdefault(misuse.how, {}).setdefault(misuse.kind, []).append(misuse.value)
    return "\n".join(
        f"{how}: {'; '.join(kind.replace(VALUE, ', '.join(values)) for kind, values in kinds.items())}"
        for how, kinds in lines.items()
    )


def bad_pools(target: Target) -> tuple[Pool, ...]:
    """The pools that nobody can have, as far as the target can be asked for them."""
    return BAD_POOLS + (BOOLEAN_POOLS if isinstance(target, ApiTarget) else ())


def _kinds(target: Target) -> Iterator[Misuse]:
    capabilities = target.capabilities
    for pool in bad_pools(target):
        yield Misuse(f"a pool of {pool.num_blocks} blocks of {pool.block_size} tokens", pool)
    yield Misuse("allocate with an id that is live", Call("allocate", ("a", (5, 6))))
    yield Misuse("allocate of an empty prompt", Call("allocate", ("c", ())))
    yield Misuse("allocate of tokens whose iteration fails", Call("allocate", ("c", (5, 6, 7)), fail_at=2))
    for token in BAD_TOKENS:
        value, append = repr(token), Call("append_slot", ("a", token))
        yield Misuse(f"allocate with the token id {VALUE}", Call("allocate", ("c", (5, token))), value=value)
        yield Misuse(f"append_slot with the token id {VALUE}", append, value=value)
        at_boundary = f"append_slot with the token id {VALUE}, where it would take a block"
        yield Misuse(at_boundary, append, _SETUP[:-1], value)
    for method, args in (("append_slot", (5,)), ("free", ()), ("num_cached_tokens", ())):
        for seq in ("b", "never"):
            yield Misuse(f"{method} with the id of no live sequence", Call(method, (seq, *args)))
    yield from _extras(capabilities)
    if "block_table" in capabilities:
        yield Misuse("block_table with the id of no live sequence", Call("block_table", ("b",)))
    if "slot" in capabilities:
        yield Misuse("slot with the id of no live sequence", Call("slot", ("b", 0)))
        for pos in (-1, 5, 6, 10**9):
            yield Misuse(f"slot of position {pos} of 5 tokens", Call("slot", ("a", pos)))
    if "can_allocate" in capabilities:
        yield Misuse("can_allocate of -1 tokens", Call("can_allocate", (-1,)))


def _extras(capabilities: frozenset[str]) -> Iterator[Misuse]:
    """What no sequence can depend on."""
    wrong = {"salt": BAD_NAMES, "lora": BAD_LORAS, "images": BAD_HASHES}
    for name, values in wrong.items():
        for value in values if name in capabilities else ():
            call = Call("allocate", ("c", (5, 6, 7)), named={name: value})
            yield Misuse(f"allocate with {name}={VALUE}", call, value=repr(value))
    for what, images in BAD_PLACES.items() if "images" in capabilities else ():
        given = Extras(images=tuple(Image(b"x", start, length) for start, length in images))
        yield Misuse(f"allocate with {what}", Allocate("c", (5, 6, 7), given))


def try_misuse(target: Target, on_try: Callable[[], None] = lambda: None) -> tuple[int, list[Accepted]]:
    """Try every kind of misuse. Returns how many were tried, and those that the target did not refuse cleanly."""
    accepted: list[Accepted] = []
    count = 0
    for misuse in _kinds(target):
        on_try()
        call = misuse.call
        how = bad_pool(target, call) if isinstance(call, Pool) else _bad_call(target, misuse.setup, call)
        if how is None:
            continue
        count += 1
        if how:
            accepted.append(Accepted(misuse.kind, how, misuse.value))
    return count, accepted


def bad_pool(target: Target, pool: Pool) -> str:
    """What is wrong with how a pool that nobody can have is answered; empty if nothing is."""
    failed = target.open(pool)
    if failed is None:
        return "accepted"
    return "" if failed.named else f"ends in {failed.error}"


def _bad_call(target: Target, setup: tuple[Operation, ...], call: Call | Allocate) -> str | None:
    """How a call was not refused cleanly; empty if it was, None if the target cannot make it."""
    failed: Failed | None = target.open(_POOL)
    if failed is not None:
        return f"the pool could not be made: {failed.error}"
    outcomes = target.run([*setup, Observe(), call, Observe()])
    if is_hang(outcomes[-1]):
        return "hangs"
    before, answer, after = outcomes[-3:]
    if isinstance(answer, Unsupported):
        return None
    if isinstance(answer, Raised):
        if not answer.named:
            return f"ends in {answer.error}"
        return "" if before == after else f"raises {answer.error}, but changes the state"
    if isinstance(answer, Refused):
        return "refused for want of blocks, which is not what is wrong"
    return "accepted" if before == after else "accepted, and changes the state"

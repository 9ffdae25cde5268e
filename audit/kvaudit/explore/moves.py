"""What can be done next: every operation that a caller may try on a state, up to renaming of tokens.

Tokens are drawn at each node of the prefix trie: those that follow there already, and one that does not. So the
alphabet has no bound, and no two moves differ only in how a new token is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kvaudit.protocol import Allocate, Append, Free, ManagerProgram, Mutation
from kvspec.identity import Identity
from kvspec.ledger import Ledger

Trie = dict[int, "Trie"]
"""The tokens that follow a prefix, each with those that follow it."""

Alphabet = tuple[int, ...]

NAMES = "abcdefghijklmnopqrstuvwxyz"

_prefixes: dict[Identity, tuple[int, ...]] = {}


def prefix_of(h: Identity) -> tuple[int, ...]:
    """`h.prefix()`, remembered: a search asks for the same few identities all the time."""
    known = _prefixes.get(h)
    if known is None:
        known = _prefixes[h] = h.prefix()
    return known


def sequence_ids(num_blocks: int) -> tuple[str, ...]:
    """An id for each sequence that can live at once (each owns a block that it took itself), and a spare one."""
    return tuple(NAMES[i % 26] * (1 + i // 26) for i in range(num_blocks + 1))


def trie(every: Iterable[tuple[int, ...]]) -> Trie:
    """The trie of these prefixes."""
    root: Trie = {}
    for tokens in every:
        node = root
        for token in tokens:
            node = node.setdefault(token, {})
    return root


def trie_of(ledger: Ledger) -> Trie:
    """Every prefix that the ledger speaks of: those of live sequences, and those of blocks that are cached."""
    known = [record.tokens for record in ledger.sequences.values()]
    known += [prefix_of(h) for b in ledger.evictable if (h := ledger.block_hash[b]) is not None]
    return trie(known)


def trie_of_program(program: ManagerProgram) -> Trie:
    """Every prefix that a program has spoken of, also those that are forgotten, or were refused."""
    texts: list[tuple[int, ...]] = []
    live: dict[str, tuple[int, ...]] = {}
    for op in program:
        if isinstance(op, Allocate):
            live[op.seq] = op.tokens
        elif isinstance(op, Append):
            live[op.seq] = (*live[op.seq], op.token)
        if not isinstance(op, Free):
            texts.append(live[op.seq])
    return trie(texts)


def next_tokens(node: Trie, alphabet: Alphabet | None) -> list[int]:
    """The tokens to try after a prefix: those of the alphabet, or without one the known ones and a new one."""
    if alphabet is not None:
        return list(alphabet)
    new = 0
    while new in node:
        new += 1
    return [*node, new]


def prompts(root: Trie, longest: int, alphabet: Alphabet | None) -> Iterator[tuple[int, ...]]:
    """Every prompt of 1 to `longest` tokens."""
    below: list[tuple[tuple[int, ...], Trie]] = [((), root)]
    while below:
        prefix, node = below.pop()
        for token in next_tokens(node, alphabet):
            prompt = (*prefix, token)
            yield prompt
            if len(prompt) < longest:
                below.append((prompt, node.get(token, {})))


def moves(
    ledger: Ledger, new_ids: Sequence[str], alphabet: Alphabet | None = None, known: Trie | None = None
) -> Iterator[Mutation]:
    """Every operation on a state; `new_ids` are those to allocate with, `known` the prefixes if not the ledger's.

    Prompts are up to one token longer than the pool holds: whatever is longer is refused for the same reason.
    """
    root = trie_of(ledger) if known is None else known
    for seq, record in ledger.sequences.items():
        yield Free(str(seq))
        node = root
        for token in record.tokens:
            node = node[token]
        for token in next_tokens(node, alphabet):
            yield Append(str(seq), token)
    if new_ids:
        for prompt in prompts(root, ledger.num_blocks * ledger.block_size + 1, alphabet):
            for seq in new_ids:
                yield Allocate(seq, prompt)

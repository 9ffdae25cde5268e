"""Hash strategies: how the identity of a full block is computed.

A strategy is a callable `(parent, tokens, extra) -> key`:

- `parent`: the key of the block before this one in the sequence, `None` for the first block;
- `tokens`: the block's token ids, packed: `block_size` unsigned integers of 32 bits in the byte order of the machine
  (`memoryview(tokens).cast("I")` reads them);
- `extra`: what else the KV depends on, a tuple of str, bytes or int (empty for plain text);
- `key`: hashable, not `None`; computing it does not call the manager. Equal keys are taken to mean equal KV, so
  the key must determine the whole prefix: two prefixes with one key share a block, and one reads the other's KV.
"""

import hashlib
import struct
from collections.abc import Callable, Hashable
from importlib.util import find_spec
from typing import Any

from kvblocks.errors import InvalidArgument

Key = Hashable
HashStrategy = Callable[[Any, bytes, tuple[Any, ...]], Key]

_EXTRA, _NO_PARENT = b"\xff", b"\xfe"
_LENGTH = tuple(bytes((size,)) for size in range(_NO_PARENT[0]))


def encode(parent: bytes | None, tokens: bytes, extra: tuple[Any, ...]) -> bytes:
    """Bytes from which parent, tokens and extra can be read back: no two inputs share an encoding.

    A byte says how long the parent is, or that there is none; then come the parent and the tokens. Extra keys stand
    before all that, each with its kind and its length, behind a byte that is no length of a parent.
    O(len(tokens) + size of extra). IndexError for a parent of more than 253 bytes: no digest is so long.
    """
    block = _NO_PARENT + tokens if parent is None else _LENGTH[len(parent)] + parent + tokens
    if not extra:
        return block
    parts = [_EXTRA + struct.pack("<I", len(extra))]
    for item in extra:
        if isinstance(item, bytes):
            tag, raw = b"b", item
        elif isinstance(item, str):
            tag, raw = b"s", item.encode("utf-8", "surrogatepass")
        elif isinstance(item, int) and not isinstance(item, bool):
            tag, raw = b"i", str(item).encode()
        else:
            raise InvalidArgument(f"extra keys are str, bytes or int, not {item!r}")
        parts.append(tag + struct.pack("<I", len(raw)) + raw)
    parts.append(block)
    return b"".join(parts)


def sha256(parent: Any, tokens: bytes, extra: tuple[Any, ...]) -> bytes:
    """SHA-256 of the block's encoding: 32 bytes. The default.

    A hash whose collisions can be made on purpose lets one tenant be served the KV of another:
    vLLM advisory GHSA-rm76-4mrf-v9r8.
    """
    return hashlib.sha256(encode(parent, tokens, extra)).digest()


def builtin(parent: Any, tokens: bytes, extra: tuple[Any, ...]) -> int:
    """Python's `hash((parent, tokens))`: the fastest, and **not safe between tenants**.

    It has 64 bits, so collisions can be found (and `hash(-1) == hash(-2)`), and it differs between processes.
    Use it where everybody who can send a prompt may read everybody's prompts.
    """
    return hash((parent, tokens, extra)) if extra else hash((parent, tokens))


def xxh3(parent: Any, tokens: bytes, extra: tuple[Any, ...]) -> bytes:
    """XXH3-128 of the block's encoding: 16 bytes. No accidental collisions, but not safe between tenants."""
    import xxhash

    return bytes(xxhash.xxh3_128_digest(encode(parent, tokens, extra)))


STRATEGIES: dict[str, HashStrategy] = {"sha256": sha256, "builtin": builtin, "xxh3": xxh3}


def strategy(hasher: str | HashStrategy | Any) -> HashStrategy:
    """The strategy of that name, or the given callable guarded against keys that could not be used.

    Raises InvalidArgument for an unknown name, for "xxh3" without the xxhash package, and for
    what is neither a name nor callable.
    """
    if callable(hasher):
        return _guarded(hasher)
    if not isinstance(hasher, str) or hasher not in STRATEGIES:
        raise InvalidArgument(f"hasher is one of {', '.join(STRATEGIES)} or a callable, not {hasher!r}")
    if hasher == "xxh3" and find_spec("xxhash") is None:
        raise InvalidArgument("hasher 'xxh3' needs the package xxhash: pip install xxhash")
    return STRATEGIES[hasher]


def _guarded(hasher: HashStrategy) -> HashStrategy:
    """An unusable key must raise here, before the manager's first write, and not while registering."""

    def checked(parent: Any, tokens: bytes, extra: tuple[Any, ...]) -> Key:
        key = hasher(parent, tokens, extra)
        if key is None:
            raise InvalidArgument("the hash strategy returned None, which stands for 'no identity'")
        hash(key)
        return key

    return checked

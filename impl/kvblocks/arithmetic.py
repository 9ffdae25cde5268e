"""The manager's pure arithmetic and argument checks. Nothing here touches state."""

from collections.abc import Iterable

from kvblocks.errors import InvalidArgument

MAX_TOKEN_ID = 2**32 - 1


def blocks_for(num_tokens: int, block_size: int) -> int:
    """How many blocks hold `num_tokens` tokens: their quotient rounded up."""
    return (num_tokens + block_size - 1) // block_size


def match_limit(num_tokens: int, block_size: int) -> int:
    """How many blocks of a prompt may be hits: one token at least is left to compute, for its logits."""
    return (num_tokens - 1) // block_size


def check_size(name: str, value: int, least: int = 1) -> int:
    """`value` if it is an integer >= least, else InvalidArgument."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgument(f"{name} must be an integer >= {least}, not {value!r}")
    return value


def check_token(token_id: int) -> int:
    """`token_id` if it is an integer in 0 .. 2**32 - 1, else InvalidArgument."""
    if not isinstance(token_id, int) or isinstance(token_id, bool) or not 0 <= token_id <= MAX_TOKEN_ID:
        raise InvalidArgument(f"a token id is an integer in 0 .. 2**32 - 1, not {token_id!r}")
    return token_id


def check_tokens(token_ids: Iterable[int]) -> list[int]:
    """The prompt as a list of our own: at least one token, each of them valid, else InvalidArgument. O(n)."""
    tokens = [check_token(token_id) for token_id in token_ids]
    if not tokens:
        raise InvalidArgument("a prompt has at least one token")
    return tokens

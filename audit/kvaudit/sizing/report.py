"""The result of `kvaudit size`."""

from __future__ import annotations

import msgspec


class LayerGroup(msgspec.Struct, frozen=True):
    """Layers that keep the same of a token. elements: the numbers of a token that one layer keeps on this card."""

    kind: str
    layers: int
    elements: int
    block_bytes: int


class StageSize(msgspec.Struct, frozen=True):
    """What a stage takes of the card, and what it gets."""

    config: str
    model_type: str
    dtype: str
    block_size: int
    tensor_parallel: int
    groups: list[LayerGroup]
    block_bytes: int
    weights_bytes: int
    activation_bytes: int
    share: int
    num_blocks: int
    num_tokens: int
    notes: list[str]


class CardSize(msgspec.Struct, frozen=True, tag_field="format", tag="kvaudit-size/1"):
    """What `kvaudit size --json` writes. left_bytes: what no block fits into any more."""

    memory_bytes: int
    utilization: str
    usable_bytes: int
    stages: list[StageSize]
    left_bytes: int

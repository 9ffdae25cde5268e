"""The split of a card: what its stages take, and how many blocks each gets.

The one place where kvaudit imports kvblocks: its arithmetic, which is proved, and no manager. What is audited stays
loaded by name.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import msgspec

from kvaudit.errors import UsageError
from kvaudit.quantities import bytes_shown
from kvaudit.sizing.config import Config, read_config
from kvaudit.sizing.layers import Heads, Latent, read_layers
from kvaudit.sizing.report import CardSize, LayerGroup, StageSize
from kvblocks import sizing
from kvblocks.errors import InvalidArgument

DTYPES = {
    "float32": 32,
    "bfloat16": 16,
    "float16": 16,
    "fp8": 8,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "int8": 8,
    "int4": 4,
}
"""The bits of a number; scales that a quantised cache keeps beside are not among them."""


class Asked(msgspec.Struct, frozen=True):
    """One stage as it was asked for. tensor_parallel: the cards that it is split among; all figures are of one.

    fields: NAME=VALUE, instead of what the config says. weights_bytes: None for the size of the files beside it.
    """

    config: Path
    fields: tuple[str, ...]
    weights_bytes: int | None
    activation_bytes: int = 0
    share: int = 1
    dtype: str = "auto"
    block_size: int = 16
    tensor_parallel: int = 1
    part: str | None = None


def size_card(memory_bytes: int, utilization: Fraction, asked: Sequence[Asked]) -> CardSize:
    """Split the card. Raises UsageError for a config that does not do, and where weights alone are too much."""
    without = [_stage(one) for one in asked]
    stages = [
        sizing.Stage(stage.weights_bytes, stage.activation_bytes, stage.block_bytes, stage.share) for stage in without
    ]
    usable = sizing.usable_bytes(memory_bytes, utilization)
    try:
        blocks = sizing.num_blocks(usable, stages)
    except InvalidArgument:
        fixed = sum(stage.weights_bytes + stage.activation_bytes for stage in stages)
        raise UsageError(
            f"weights and activations take {bytes_shown(fixed)}, and {bytes_shown(usable)} of the card may be used: "
            "a larger --memory, a higher --utilization or more cards (--tensor-parallel) would do"
        ) from None
    sized = [
        msgspec.structs.replace(stage, num_blocks=count, num_tokens=count * stage.block_size)
        for stage, count in zip(without, blocks, strict=True)
    ]
    used = sum(s.weights_bytes + s.activation_bytes + s.num_blocks * s.block_bytes for s in sized)
    return CardSize(memory_bytes, str(utilization), usable, sized, usable - used)


def _stage(asked: Asked) -> StageSize:
    """A stage before it has any blocks."""
    config, whole = read_config(asked.config, asked.part, asked.fields)
    layers = read_layers(config)
    dtype, bits = _dtype(asked.dtype, config, whole)
    notes = list(layers.notes)
    if bits < 16:
        notes.append(f"scales that are kept beside numbers of {bits} bits are not counted")
    if asked.activation_bytes == 0:
        notes.append("no activation peak is given (--activation), so none is counted")
    groups = []
    for entry, count in layers.groups.items():
        elements = _elements(entry, asked, config)
        block_bytes = count * sizing.layer_bytes(elements, bits, asked.block_size)
        groups.append(LayerGroup(_kind(entry), count, elements, block_bytes))
    return StageSize(
        config=config.place,
        model_type=config.text("model_type") or whole.text("model_type") or "?",
        dtype=dtype,
        block_size=asked.block_size,
        tensor_parallel=asked.tensor_parallel,
        groups=groups,
        block_bytes=sum(group.block_bytes for group in groups),
        weights_bytes=_weights(asked),
        activation_bytes=asked.activation_bytes,
        share=asked.share,
        num_blocks=0,
        num_tokens=0,
        notes=notes,
    )


def _elements(entry: Heads | Latent, asked: Asked, config: Config) -> int:
    if isinstance(entry, Latent):
        return sizing.latent_elements(entry.latent_size, entry.rope_size)
    try:
        heads = sizing.heads_of_rank(entry.num_kv_heads, asked.tensor_parallel)
    except InvalidArgument as error:
        raise UsageError(f"{config.place}: {error}; choose another --tensor-parallel") from None
    return sizing.attention_elements(heads, entry.key_size, entry.value_size)


def _kind(entry: Heads | Latent) -> str:
    if isinstance(entry, Latent):
        return f"latent of {entry.latent_size} and {entry.rope_size}"
    sizes = f"{entry.key_size}" if entry.key_size == entry.value_size else f"{entry.key_size} and {entry.value_size}"
    return f"{entry.num_kv_heads} KV heads of {sizes}"


def _dtype(name: str, config: Config, whole: Config) -> tuple[str, int]:
    """The type of the cache and its bits. `auto`: what the checkpoint says of its cache, else its own type."""
    if name == "auto":
        bits = _bits_of_scheme(whole)
        if bits is not None:
            return f"{bits} bits (kv_cache_scheme)", bits
        found = config.get("dtype", "torch_dtype") or whole.get("dtype", "torch_dtype")
        if not isinstance(found, str) or found not in DTYPES:
            raise UsageError(
                f"{config.place} has no dtype of which the size is known ({reprlib.repr(found)}): "
                f"give --kv-dtype, one of {', '.join(DTYPES)}"
            )
        name = found
    if name not in DTYPES:
        raise UsageError(f"--kv-dtype {name}: there are auto, {', '.join(DTYPES)}")
    return name, DTYPES[name]


def _bits_of_scheme(whole: Config) -> int | None:
    """The bits of a number of the cache, where the checkpoint says them."""
    if whole.get("kv_cache_scheme") is not None:
        raise UsageError(f"{whole.place}: kv_cache_scheme belongs into quantization_config; or give --kv-dtype")
    quantization = whole.part("quantization_config")
    scheme = quantization.part("kv_cache_scheme") if quantization is not None else None
    return scheme.whole("num_bits") if scheme is not None else None


def _weights(asked: Asked) -> int:
    """What was given, or this card's part of the safetensors files beside the config."""
    if asked.weights_bytes is not None:
        return asked.weights_bytes
    folder = asked.config if asked.config.is_dir() else asked.config.parent
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UsageError(
            f"how much the weights take is not known, as {folder} has no *.safetensors: give --weights, as in 16GB"
        )
    return -(-sum(file.stat().st_size for file in files) // asked.tensor_parallel)

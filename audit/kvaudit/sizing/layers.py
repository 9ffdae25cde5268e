"""What each layer of a model keeps of a token: read off its config, by kind of attention."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvaudit.errors import UsageError
from kvaudit.sizing.config import MOST, Config

_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention", "attention", "global", "local_sliding", "*"}
_WINDOWED = {"sliding_attention", "chunked_attention", "local_sliding"}
_NO_CACHE = {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "moe", "mlp", "M", "-", "E"}

_NOT_READ = (
    "attention_k_eq_v",
    "cross_attention_layers",
    "global_head_dim",
    "is_encoder_decoder",
    "linear_attn_config",
    "num_global_key_value_heads",
    "swa_head_dim",
    "swa_num_key_value_heads",
)
"""Fields that change what a layer keeps in a way that is not known here: better no figure than a wrong one."""


class Heads(NamedTuple):
    """Attention that keeps a key and a value for each KV head."""

    num_kv_heads: int
    key_size: int
    value_size: int


class Latent(NamedTuple):
    """Latent attention (MLA), which keeps one latent and one rotary key."""

    latent_size: int
    rope_size: int


class Layers(NamedTuple):
    """The layers that have a KV cache, by what they keep of a token; and what is to be known of the figure."""

    groups: dict[Heads | Latent, int]
    notes: list[str]


def read_layers(config: Config) -> Layers:
    """The layers of a config. Raises UsageError for what is missing, makes no sense, or is not known here."""
    for name in _NOT_READ:
        if config.get(name) not in (None, False):
            raise UsageError(
                f"{config.place} has {name}, which this version does not know how to count. "
                f"If it changes nothing of the KV cache, say --field {name}=null"
            )
    notes: list[str] = []
    kinds = _kinds(config)
    cached = [i for i, kind in enumerate(kinds) if kind in _ATTENTION]
    if len(cached) < len(kinds):
        notes.append(
            f"{len(kinds) - len(cached)} of {len(kinds)} layers have no KV cache; the states of such layers are no "
            "blocks, and are not counted"
        )
    shared = config.whole("num_kv_shared_layers", least=0)
    if shared:
        cached = [i for i in cached if i < len(kinds) - shared]
        notes.append(f"the last {shared} layers share the KV cache of earlier ones")
    notes += _notes(config, [kinds[i] for i in cached])
    groups: dict[Heads | Latent, int] = {}
    for entry in _entries(config, cached):
        groups[entry] = groups.get(entry, 0) + 1
    if not groups:
        raise UsageError(f"{config.place}: no layer has a KV cache, so there are no blocks")
    return Layers(groups, notes)


def _kinds(config: Config) -> list[str]:
    """What each layer is."""
    layers = config.layers()
    names = ("layer_types", "layers_block_type", "hybrid_override_pattern")
    kinds = config.get(*names)
    if kinds is not None:
        if not isinstance(kinds, list | str) or not all(isinstance(kind, str) for kind in kinds):
            # hybrid_override_pattern is a text of letters
            raise config.error("a list, with the kind of each layer", *names)
        if len(kinds) != layers:
            raise UsageError(f"{config.place}: there are {layers} layers, and kinds of {len(kinds)}")
        unknown = sorted(set(kinds) - _ATTENTION - _NO_CACHE)
        if unknown:
            raise UsageError(
                f"{config.place} has layers of the kind {unknown[0]!r}; it is not known here whether they have a "
                "KV cache. Leave the kinds out, and say how many have one: --field layer_types=null "
                "--field num_hidden_layers=N"
            )
        return list(kinds)
    every = config.whole("full_attention_interval")
    if every is not None:
        return ["attention" if i % every == every - 1 else "linear_attention" for i in range(layers)]
    period = config.whole("attn_layer_period")
    if period is not None:
        offset = config.whole("attn_layer_offset", least=0) or 0
        return ["attention" if i % period == offset else "mamba" for i in range(layers)]
    chosen = config.get("attn_layer_indices")
    if chosen is not None:
        if not isinstance(chosen, list):
            raise config.error("a list of the numbers of layers", "attn_layer_indices")
        return ["attention" if i in chosen else "mamba" for i in range(layers)]
    return ["attention"] * layers


def _entries(config: Config, layers: list[int]) -> Iterator[Heads | Latent]:
    """What each of these layers keeps."""
    rank = config.whole("kv_lora_rank")
    if rank is not None:
        yield from [Latent(rank, config.needed("qk_rope_head_dim"))] * len(layers)
        return
    key_size, value_size = _head_sizes(config)
    heads = _kv_heads(config)
    for i in layers:
        of_layer = heads[i % len(heads)]
        if of_layer:
            yield Heads(of_layer, key_size, value_size)


def _head_sizes(config: Config) -> tuple[int, int]:
    without_position = config.whole("qk_nope_head_dim")
    if without_position is not None:
        key_size = without_position + config.needed("qk_rope_head_dim")
        return key_size, config.needed("v_head_dim")
    size = config.whole("head_dim", "kv_channels", "attention_head_dim")
    if size is None:
        hidden, heads = config.needed("hidden_size", "n_embd", "d_model"), _num_heads(config)
        if hidden % heads != 0:
            raise UsageError(
                f"{config.place}: hidden_size {hidden} is no multiple of {heads} heads. Give --field head_dim=N"
            )
        size = hidden // heads
    return size, config.whole("v_head_dim") or size


def _num_heads(config: Config) -> int:
    return config.needed("num_attention_heads", "n_head", "n_heads", "num_heads")


def _kv_heads(config: Config) -> list[int]:
    """The KV heads of each layer, or of all, where the list has one item."""
    blocks = config.get("block_configs")
    if blocks is not None:
        if not isinstance(blocks, list) or not blocks:
            raise config.error("a list, with an item for each layer", "block_configs")
        return [_of_block(config, block) for block in blocks]
    newer = config.get("new_decoder_architecture", "num_kv_heads")
    if config.get("multi_query") is True and (newer is None or newer is False):
        return [1]
    names = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    found = config.get(*names)
    if isinstance(found, list):
        if len(found) != config.layers() or not all(type(heads) is int and 0 <= heads <= MOST for heads in found):
            raise UsageError(f"{config.place}: num_key_value_heads is to be an integer, or one for each layer")
        return found
    inner = config.part("attn_config")
    return [
        config.whole(*names) or (inner.whole("kv_n_heads") if inner is not None else None) or _num_heads(config)
    ]  # none of them is 0 where it is there


def _of_block(config: Config, block: Any) -> int:
    """The KV heads of a layer whose architecture was searched: attention may be missing from it."""
    try:
        attention = Config(f"{config.place}, block_configs", {**block["attention"]})
        in_group = attention.fields["n_heads_in_group"]
    except (KeyError, TypeError):
        raise UsageError(f"{config.place}: an item of block_configs has no attention.n_heads_in_group") from None
    return _num_heads(config) // in_group if attention.whole("n_heads_in_group", least=0) else 0


def _notes(config: Config, kinds: list[str]) -> Iterator[str]:
    window = config.get("sliding_window", "sliding_window_size", "attention_chunk_size")
    if window is not None and config.get("use_sliding_window") is not False:
        windowed = sum(kind in _WINDOWED for kind in kinds)
        which = f"{windowed} of {len(kinds)} layers look" if windowed else "layers look"
        yield (
            f"{which} back {reprlib.repr(window)} tokens only; they are counted in full, as with one block table for "
            "all layers. A manager that frees what is out of the window needs less for long prompts"
        )
    if config.get("index_head_dim") is not None:
        yield "the cache of the indexer (index_head_dim) is not counted"

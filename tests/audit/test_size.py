"""`kvaudit size`: what it reads off a config, how it splits a card, and what it says where it cannot."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from audit.auditing import kvaudit
from audit.model_configs import BYTES_A_TOKEN, DEEPSEEK_V3, GEMMA3_27B, LLAMA_8B, OMNI, QWEN3_NEXT_80B
from kvaudit.errors import UsageError
from kvaudit.quantities import bytes_of, bytes_shown, count_of, fraction_of
from kvaudit.sizing.card import Asked, size_card
from kvaudit.sizing.report import CardSize

GIB = 2**30


def saved(folder: Path, config: Any, name: str = "config.json") -> Path:
    (folder / name).write_text(json.dumps(config), encoding="utf-8")
    return folder / name


def sized(path: Path, **asked: Any) -> CardSize:
    fields, weights = asked.pop("fields", ()), asked.pop("weights_bytes", 0)
    return size_card(80 * GIB, Fraction(1), [Asked(path, fields, weights, **asked)])


@pytest.mark.parametrize(("config", "expected"), BYTES_A_TOKEN, ids=lambda value: str(value)[:40])
def test_bytes_of_a_token(config: dict[str, Any], expected: int, tmp_path: Path) -> None:
    (stage,) = sized(saved(tmp_path, config)).stages
    assert stage.block_bytes == 16 * expected
    assert stage.num_blocks == 80 * GIB // (16 * expected)
    assert stage.num_tokens == 16 * stage.num_blocks


@pytest.mark.parametrize(("cards", "heads"), [(1, 8), (4, 2), (8, 1), (16, 1)])
def test_heads_are_split_among_cards(cards: int, heads: int, tmp_path: Path) -> None:
    (stage,) = sized(saved(tmp_path, LLAMA_8B), tensor_parallel=cards).stages
    assert stage.block_bytes == 16 * 32 * 2 * heads * 128 * 2


def test_a_latent_is_on_every_card(tmp_path: Path) -> None:
    path = saved(tmp_path, DEEPSEEK_V3)
    assert sized(path, tensor_parallel=8).stages[0].block_bytes == sized(path).stages[0].block_bytes


def test_the_type_of_the_cache(tmp_path: Path) -> None:
    path = saved(tmp_path, LLAMA_8B)
    half, eighth = (sized(path, dtype=dtype).stages[0] for dtype in ("fp8", "int4"))
    assert (2 * half.block_bytes, 4 * eighth.block_bytes) == (2**21, 2**21)
    assert any("scales" in note for note in half.notes)
    scheme = {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}}
    (stage,) = sized(saved(tmp_path, LLAMA_8B | scheme)).stages
    assert (stage.block_bytes, stage.dtype) == (2**20, "8 bits (kv_cache_scheme)")


def test_what_is_to_be_known_is_said(tmp_path: Path) -> None:
    notes = sized(saved(tmp_path, GEMMA3_27B)).stages[0].notes
    assert any("52 of 62 layers look back 1024 tokens only; they are counted in full" in note for note in notes)
    notes = sized(saved(tmp_path, QWEN3_NEXT_80B)).stages[0].notes
    assert any("36 of 48 layers have no KV cache" in note for note in notes)


def test_weights_are_the_files_beside_the_config(tmp_path: Path) -> None:
    saved(tmp_path, LLAMA_8B)
    for name, size in (("model-00001-of-00002.safetensors", 1001), ("model-00002-of-00002.safetensors", 500)):
        (tmp_path / name).write_bytes(bytes(size))
    (stage,) = sized(tmp_path, weights_bytes=None, tensor_parallel=2).stages
    assert stage.weights_bytes == 751


def test_stages_share_a_card(tmp_path: Path) -> None:
    """The thinker and the talker of one model, one config with two parts."""
    path = saved(tmp_path, OMNI)
    said = kvaudit(
        *("size", str(path), str(path), "--memory", "80GiB", "--weights", "16GB", "--weights", "3GB"),
        *("--activation", "1GiB", "--share", "3", "--share", "1", "--json", "size.json"),
        *("--part", "thinker_config.text_config", "--part", "talker_config"),
        cwd=tmp_path,
    )
    assert said.code == 0
    card = msgspec.json.decode((tmp_path / "size.json").read_bytes(), type=CardSize)
    thinker, talker = card.stages
    assert (thinker.block_bytes, talker.block_bytes) == (16 * 28 * 2 * 4 * 128 * 2, 16 * 24 * 2 * 4 * 128 * 2)
    room = 72 * GIB - 19 * 10**9 - 2 * GIB
    assert thinker.num_blocks in (room * 3 // 4 // thinker.block_bytes, room * 3 // 4 // thinker.block_bytes + 1)
    assert talker.num_blocks in (room // 4 // talker.block_bytes, room // 4 // talker.block_bytes + 1)
    taken = sum(s.weights_bytes + s.activation_bytes + s.num_blocks * s.block_bytes for s in card.stages)
    assert taken + card.left_bytes == card.usable_bytes == 72 * GIB
    assert card.left_bytes < min(thinker.block_bytes, talker.block_bytes)
    assert f"{thinker.num_blocks:,} blocks of 16 tokens" in said.out


def test_json_on_standard_output_is_json(tmp_path: Path) -> None:
    saved(tmp_path, LLAMA_8B)
    said = kvaudit("size", ".", "--memory", "80GiB", "--weights", "16GB", "--json", "-", cwd=tmp_path)
    assert msgspec.json.decode(said.out.encode(), type=CardSize).stages[0].num_blocks == 29234


BROKEN = {
    "no layers": ({"hidden_size": 64}, "config.json has no num_hidden_layers"),
    "no heads": ({"num_hidden_layers": 2, "hidden_size": 64}, "has no num_attention_heads"),
    "no hidden size": (
        {"num_hidden_layers": 2, "num_attention_heads": 4},
        "has no hidden_size (nor n_embd, d_model): the model's code has a default for it that nobody can see here. "
        "Give it with --field hidden_size=N",
    ),
    "text": (LLAMA_8B | {"num_hidden_layers": "32"}, "num_hidden_layers is to be an integer >= 1, not '32'"),
    "no multiple": (LLAMA_8B | {"hidden_size": 4097}, "hidden_size 4097 is no multiple of 32 heads"),
    "no type": (LLAMA_8B | {"torch_dtype": None}, "no dtype of which the size is known (None): give --kv-dtype"),
    "a strange layer": (
        LLAMA_8B | {"num_hidden_layers": 1, "layer_types": ["resonant"]},
        "layers of the kind 'resonant'; it is not known here whether they have a KV cache",
    ),
    "too few kinds": (LLAMA_8B | {"layer_types": ["full_attention"]}, "there are 32 layers, and kinds of 1"),
    "heads of some layers": (LLAMA_8B | {"num_key_value_heads": [8]}, "an integer, or one for each layer"),
    "no attention": (LLAMA_8B | {"layer_types": ["mamba"] * 32}, "no layer has a KV cache"),
    "two sizes": (LLAMA_8B | {"global_head_dim": 512}, "has global_head_dim, which this version does not know"),
    "an encoder": (LLAMA_8B | {"is_encoder_decoder": True}, "has is_encoder_decoder, which"),
    "a list": ([1], "is to be a JSON object"),
    "no KV heads": (LLAMA_8B | {"num_key_value_heads": 0}, "num_key_value_heads is to be an integer >= 1, not 0"),
    "no KV heads of one query": (
        LLAMA_8B | {"num_key_value_heads": None, "multi_query": True, "num_kv_heads": 0},
        "json: num_kv_heads is to be an integer >= 1, not 0",
    ),
    "no inner KV heads": (
        {name: value for name, value in LLAMA_8B.items() if name != "num_key_value_heads"}
        | {"attn_config": {"kv_n_heads": 0}},
        "attn_config: kv_n_heads is to be an integer >= 1, not 0",
    ),
    "kinds in a number": (LLAMA_8B | {"layer_types": 5}, "layer_types is to be a list, with the kind of each layer"),
    "kinds in lists": (LLAMA_8B | {"layer_types": [[]] * 32}, "layer_types is to be a list, with the kind of each"),
    "layers in a number": (LLAMA_8B | {"attn_layer_indices": 5}, "attn_layer_indices is to be a list of the numbers"),
    "blocks in a number": (LLAMA_8B | {"block_configs": 5}, "block_configs is to be a list, with an item for each"),
    "a group below nothing": (
        LLAMA_8B | {"block_configs": [{"attention": {"n_heads_in_group": -1}}] * 32},
        "n_heads_in_group is to be an integer >= 0, not -1",
    ),
    "endless layers": (LLAMA_8B | {"num_hidden_layers": 10**30}, "num_hidden_layers is to be an integer <= 1,000,000"),
    "many layers": (LLAMA_8B | {"num_hidden_layers": 10**8}, "num_hidden_layers is to be an integer <= 1,000,000"),
    "endless size": (LLAMA_8B | {"hidden_size": 10**4000}, "hidden_size is to be an integer <= 1,000,000, not 1000"),
    "a listed type": (LLAMA_8B | {"torch_dtype": ["x"]}, "no dtype of which the size is known (['x'])"),
    "a listed name": (LLAMA_8B | {"model_type": ["x"]}, "json: model_type is to be a text, not ['x']"),
    "a listed part": (LLAMA_8B | {"text_config": [1]}, "json: text_config is to be a JSON object, not [1]"),
    "a misplaced scheme": (LLAMA_8B | {"kv_cache_scheme": 7}, "kv_cache_scheme belongs into quantization_config"),
    "a listed scheme": (
        LLAMA_8B | {"quantization_config": {"kv_cache_scheme": [1]}},
        "quantization_config: kv_cache_scheme is to be a JSON object, not [1]",
    ),
    "a scheme of no bits": (
        LLAMA_8B | {"quantization_config": {"kv_cache_scheme": {"num_bits": 0}}},
        "kv_cache_scheme: num_bits is to be an integer >= 1, not 0",
    ),
    "a searched block": (LLAMA_8B | {"block_configs": [{}]}, "block_configs has no attention.n_heads_in_group"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_config_that_does_not_do(name: str, tmp_path: Path) -> None:
    config, message = BROKEN[name]
    with pytest.raises(UsageError) as told:
        sized(saved(tmp_path, config))
    assert message in str(told.value)


def test_what_is_nested_too_deep_is_told(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / "deep.json").write_text(deep, encoding="utf-8")
    with pytest.raises(UsageError, match=r"deep\.json is nested too deep to be read"):
        sized(tmp_path / "deep.json")
    with pytest.raises(UsageError, match="it is to be NAME=VALUE"):
        sized(saved(tmp_path, LLAMA_8B), fields=(f"x={deep}",))


def test_a_terminal_obeys_no_config(tmp_path: Path) -> None:
    saved(tmp_path, LLAMA_8B | {"model_type": "\x1b[31m[red]:cat:", "sliding_window": "\x1b[2J"})
    said = kvaudit("size", ".", "--memory", "80GiB", "--weights", "16GB", cwd=tmp_path)
    assert said.code == 0
    assert "\x1b" not in said.all and r"1 \x1b[31m[red]:cat:" in said.out


def test_a_field_may_be_given(tmp_path: Path) -> None:
    path = saved(tmp_path, {"num_hidden_layers": 2, "num_attention_heads": 4, "torch_dtype": "float16"})
    (stage,) = sized(path, fields=("head_dim=64", "num_key_value_heads=1")).stages
    assert stage.block_bytes == 16 * 2 * 2 * 64 * 2


MISTAKES = [
    (("no/such", "--memory", "80GiB"), "no/such cannot be read: No such file or directory; name a config.json"),
    (("text.txt", "--memory", "80GiB"), "text.txt is no JSON"),
    ((".", "--memory", "80GX"), "--memory 80GX: say it as 80GiB"),
    ((".", "--memory", "80GiB"), "has no *.safetensors: give --weights"),
    ((".", "--memory", "0", "--weights", "1"), "--memory 0: a card has some"),
    ((".", "--memory", "10GiB", "--weights", "16GB"), "weights and activations take 14.90 GiB, and 9.00 GiB of the"),
    ((".", "--memory", "8GiB", "--weights", "1", "--utilization", "1.1"), "--utilization 1.1: say it as 0.9"),
    ((".", "--memory", "8GiB", "--weights", "1", "--weights", "2"), "--weights is given 2 times for 1 configs"),
    ((".", "--memory", "8GiB", "--weights", "1", "--kv-dtype", "fp7"), "--kv-dtype fp7: there are auto, float32"),
    ((".", "--memory", "8GiB", "--weights", "1", "--part", "x"), "--part x: "),
    ((".", "--memory", "8GiB", "--weights", "1", "--field", "x"), "--field x: it is to be NAME=VALUE"),
    ((".", "--memory", "8GiB", "--weights", "1", "--tensor-parallel", "3"), "8 KV heads cannot be split among 3 cards"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: str(value)[-30:])
def test_mistakes_are_told(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    saved(tmp_path, LLAMA_8B)
    (tmp_path / "text.txt").write_text("no JSON", encoding="utf-8")
    said = kvaudit("size", *arguments, cwd=tmp_path)
    assert said.code == 2
    assert message in said.all


def test_amounts_are_exact() -> None:
    assert bytes_of("", "80GiB") == bytes_of("", "80 gi") == 80 * GIB
    assert bytes_of("", "1.5GB") == bytes_of("", "1.5g") == bytes_of("", "1500000000") == 1_500_000_000
    assert (count_of("", "64k"), count_of("", "1.5m"), count_of("", "7")) == (64_000, 1_500_000, 7)
    assert fraction_of("", "0.9") == fraction_of("", "90%") == fraction_of("", "9/10") == Fraction(9, 10)
    assert bytes_of("", "100000000000000000000000000001KiB") == (10**29 + 1) * 1024
    assert [bytes_shown(n) for n in (0, 1023, 1024, 3 * GIB // 2)] == ["0 B", "1023 B", "1.00 KiB", "1.50 GiB"]
    assert bytes_shown(2**40 * 10**400) == f"{10**400:,}.00 TiB"
    for wrong in ("", "GiB", "1.5", "-1", "1e9", "9" * 5000):
        with pytest.raises(UsageError):
            bytes_of("--memory", wrong)
    for wrong in ("0", "x", "1/0", "101%"):
        with pytest.raises(UsageError):
            fraction_of("--utilization", wrong)

"""The fields of config.json files as models of these families have them, as far as they bear on the KV cache."""

from __future__ import annotations

from typing import Any

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}
QWEN3_4B = {
    "model_type": "qwen3",
    "head_dim": 128,
    "hidden_size": 2560,
    "max_window_layers": 36,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "sliding_window": None,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
}
MIXTRAL_8X7B = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "sliding_window": None,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "num_attention_heads": 128,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
}
GEMMA3_27B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "text_config": {
        "head_dim": 128,
        "hidden_size": 5376,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10 + ["sliding_attention"] * 2,
        "model_type": "gemma3_text",
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
    },
    "torch_dtype": "bfloat16",
    "vision_config": {"hidden_size": 1152, "num_attention_heads": 16, "num_hidden_layers": 27},
}
QWEN3_NEXT_80B = {
    "model_type": "qwen3_next",
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_hidden_layers": 48,
    "num_key_value_heads": 2,
    "dtype": "bfloat16",
}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "dtype": "float16"}
FALCON_7B = {
    "model_type": "falcon",
    "hidden_size": 4544,
    "multi_query": True,
    "new_decoder_architecture": False,
    "num_attention_heads": 71,
    "num_hidden_layers": 32,
    "torch_dtype": "bfloat16",
}
JAMBA = {
    "model_type": "jamba",
    "attn_layer_offset": 4,
    "attn_layer_period": 8,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}
NEMOTRON_H = {
    "model_type": "nemotron_h",
    "attention_head_dim": 128,
    "hidden_size": 4096,
    "hybrid_override_pattern": "M-M-M*-M",
    "num_attention_heads": 32,
    "num_hidden_layers": 8,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}
OPENELM = {
    "model_type": "openelm",
    "head_dim": 64,
    "num_kv_heads": [3, 3, 4],
    "num_transformer_layers": 3,
    "num_layers": 3,
    "torch_dtype": "float32",
}
SEARCHED = {
    "model_type": "nemotron-nas",
    "block_configs": [
        {"attention": {"n_heads_in_group": 8, "no_op": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True}},
        {"attention": {"n_heads_in_group": 16, "no_op": False}},
    ],
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_hidden_layers": 3,
    "num_key_value_heads": None,
    "torch_dtype": "bfloat16",
}
GEMMA3N = {
    "model_type": "gemma3n",
    "text_config": {
        "head_dim": 256,
        "hidden_size": 2048,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 6,
        "num_attention_heads": 8,
        "num_hidden_layers": 30,
        "num_key_value_heads": 2,
        "num_kv_shared_layers": 10,
        "sliding_window": 512,
    },
    "torch_dtype": "bfloat16",
}
OMNI = {
    "model_type": "qwen2_5_omni",
    "thinker_config": {
        "text_config": {
            "hidden_size": 3584,
            "num_attention_heads": 28,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
        },
    },
    "talker_config": {"hidden_size": 896, "head_dim": 128, "num_attention_heads": 12, "num_hidden_layers": 24,
                      "num_key_value_heads": 4},
    "torch_dtype": "bfloat16",
}  # fmt: skip

BYTES_A_TOKEN: list[tuple[dict[str, Any], int]] = [
    (LLAMA_8B, 32 * 2 * 8 * 128 * 2),
    (QWEN3_4B, 36 * 2 * 8 * 128 * 2),
    (MIXTRAL_8X7B, 32 * 2 * 8 * 128 * 2),
    (DEEPSEEK_V3, 61 * (512 + 64) * 2),
    (DEEPSEEK_V3 | {"kv_lora_rank": None}, 61 * 128 * (128 + 64 + 128) * 2),
    (GEMMA3_27B, 62 * 2 * 16 * 128 * 2),
    (QWEN3_NEXT_80B, 12 * 2 * 2 * 256 * 2),
    (GPT2, 12 * 2 * 12 * 64 * 2),
    (FALCON_7B, 32 * 2 * 1 * 64 * 2),
    (JAMBA, 4 * 2 * 8 * 128 * 2),
    (NEMOTRON_H, 1 * 2 * 8 * 128 * 2),
    (OPENELM, (3 + 3 + 4) * 2 * 64 * 4),
    (SEARCHED, (8 + 4) * 2 * 128 * 2),
    (GEMMA3N, 20 * 2 * 2 * 256 * 2),
    (OMNI, 28 * 2 * 4 * 128 * 2),
]
"""Each with what a token takes, by hand."""

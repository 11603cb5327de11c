"""Makes llm_models.json and llm_models.safetensors: tiny models of every architecture and the scores that transformers
computes with them.

The weights are not kept: they are a function of their names (see weights(), and llm_architectures_test.cpp). Kept are,
for each model, config.json, the names and shapes of the tensors of its folder, the tokens, their scores, and what the
same model is in GGUF: metadata under the keys, and tensors under the names, that the `gguf` package has for them.

    pip install torch transformers gguf numpy safetensors
    python make_llm_models.py
"""
import json
import re
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

here = Path(__file__).parent


def weights(name, shape):
    """Uniform numbers from a hash of the tensor's name and the element's place: around 1 for norms, else such that a
    product keeps the size of its input."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 & 0xFFFFFFFF
    places = np.arange(int(np.prod(shape)), dtype=np.uint64)
    x = (places * np.uint64(0x9E3779B1) + np.uint64(seed)) & np.uint64(0xFFFFFFFF)
    for multiplier in (0x85EBCA6B, 0xC2B2AE35):
        x ^= x >> np.uint64(16)
        x = (x * np.uint64(multiplier)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    unit = (x >> np.uint64(8)).astype(np.float64) / 2**23 - 1
    if name.endswith("norm.weight"):
        values = 1 + 0.25 * unit
    elif name.endswith("bias"):
        values = 0.25 * unit
    elif name.endswith("experts.gate_up_proj"):  # so that some are beyond the limit of GPT-OSS
        values = 2 * unit
    else:
        values = unit * np.sqrt(3 / shape[-1])
    return values.astype(np.float32).reshape(shape)


small = dict(vocab_size=96, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)


def rope(base=10000.0, kind=None, **parameters):
    """As config.json had it before transformers 5; that writes rope_parameters, which some models here keep."""
    scaling = {"rope_type": kind, **parameters} if kind else None
    return {"rope_theta": base, "rope_scaling": scaling}


experts = dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=32, decoder_sparse_step=1)
# Three quarters of 16 features are 6 pairs.
partial = dict(hidden_size=64, partial_rotary_factor=0.75)
short, long = [1.0, 1.05, 1.1, 1.2, 1.4, 1.6], [1.2, 1.6, 2.0, 3.5, 5.0, 6.0]

models = {
    "llama": dict(model_type="llama", tie_word_embeddings=True, attention_bias=True, mlp_bias=True, **rope()),
    "llama3": dict(model_type="llama", tie_word_embeddings=False, head_dim=16,
                   **rope(100.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                          original_max_position_embeddings=32)),
    "granite": dict(model_type="granite", tie_word_embeddings=True, embedding_multiplier=3.0, attention_multiplier=0.2,
                    residual_multiplier=0.4, logits_scaling=1.5, **rope()),
    "llama_linear": dict(model_type="llama", tie_word_embeddings=False, **rope(10000.0, "linear", factor=4.0)),
    "mistral": dict(model_type="mistral", tie_word_embeddings=False, sliding_window=6, num_key_value_heads=1, **rope()),
    # Every fourth layer has no rope.
    "smollm3": dict(model_type="smollm3", tie_word_embeddings=True, num_hidden_layers=4, **rope(5e6)),
    "qwen2": dict(model_type="qwen2", tie_word_embeddings=True, use_sliding_window=False, sliding_window=4, **rope(1e6)),
    "qwen2_yarn": dict(model_type="qwen2", tie_word_embeddings=False, use_sliding_window=True, sliding_window=5,
                       max_window_layers=1,
                       **rope(100.0, "yarn", factor=4.0, original_max_position_embeddings=16)),
    "qwen3": dict(model_type="qwen3", tie_word_embeddings=True, head_dim=16, **rope(1e6)),
    "gemma2": dict(model_type="gemma2", tie_word_embeddings=True, head_dim=16, sliding_window=5, num_hidden_layers=3,
                   attn_logit_softcapping=5.0, final_logit_softcapping=3.0, query_pre_attn_scalar=12,
                   hidden_activation="gelu_pytorch_tanh", **rope()),
    "gemma3": dict(model_type="gemma3_text", tie_word_embeddings=True, head_dim=16, sliding_window=5,
                   num_hidden_layers=3, query_pre_attn_scalar=20, hidden_activation="gelu_pytorch_tanh",
                   layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                   rope_local_base_freq=100.0, **rope(10000.0, "linear", factor=8.0)),
    "phi3": dict(model_type="phi3", tie_word_embeddings=False, sliding_window=7, num_key_value_heads=4, **rope()),
    "phi3_longrope_short": dict(model_type="phi3", tie_word_embeddings=True, **partial,
                                original_max_position_embeddings=32,
                                **rope(10000.0, "longrope", short_factor=short, long_factor=long)),
    "phi3_longrope_long": dict(model_type="phi3", tie_word_embeddings=True, **partial,
                               original_max_position_embeddings=16,
                               **rope(10000.0, "longrope", short_factor=short, long_factor=long)),
    # Norms only behind attention and feed-forward, and of all heads together.
    "olmo2": dict(model_type="olmo2", tie_word_embeddings=False, **rope(5e5)),
    "mixtral": dict(model_type="mixtral", tie_word_embeddings=False, num_local_experts=4, num_experts_per_tok=2,
                    sliding_window=None, **rope()),
    "qwen2_moe": dict(model_type="qwen2_moe", tie_word_embeddings=False, norm_topk_prob=False,
                      shared_expert_intermediate_size=40, **experts, **rope()),
    "qwen3_moe": dict(model_type="qwen3_moe", tie_word_embeddings=False, norm_topk_prob=True, head_dim=16, **experts,
                      **rope()),
    # Not every layer has experts; llama.cpp does not have this of Qwen.
    "qwen2_moe_mixed": dict(model_type="qwen2_moe", tie_word_embeddings=True, norm_topk_prob=True,
                            shared_expert_intermediate_size=40, mlp_only_layers=[1], **experts, **rope()),
    "gpt_oss": dict(model_type="gpt_oss", tie_word_embeddings=False, head_dim=16, sliding_window=5, num_hidden_layers=3,
                    num_local_experts=4, num_experts_per_tok=2, attention_bias=True,
                    **rope(100.0, "yarn", factor=4.0, original_max_position_embeddings=16, truncate=False)),
}
new_style = {"smollm3", "qwen3", "gemma3", "phi3_longrope_long"}  # these keep the rope_parameters of transformers 5


def gguf_architecture(config):
    kind = config.model_type
    return {"gpt_oss": "gpt-oss", "mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3"}.get(kind, kind.replace("_", ""))


def gguf_name(name, names):
    """Of the stacked tensor where it is one expert's; of both where it has the rows of two in turns."""
    fused = re.fullmatch(r"(.*\.mlp\.experts)\.(gate_up|down)_proj(_bias)?", name)
    if fused:
        gate, up = ((f"{names.get_name(f'{fused[1]}.{part}_proj')}.{'bias' if fused[3] else 'weight'}")
                    for part in (("down", "down") if fused[2] == "down" else ("gate", "up")))
        return {"gguf": gate} | ({"odd": up} if up != gate else {})
    if name.endswith(".sinks"):
        return {"gguf": names.get_name(name) + ".weight"}
    expert = re.search(r"\.experts\.(\d+)\.", name)
    stem, kind = re.sub(r"(\.experts)\.\d+", r"\1", name).rsplit(".", 1)
    found = names.get_name(stem)
    if not found:
        return {}
    return {"gguf": f"{found}.{kind}"} | ({"expert": int(expert.group(1))} if expert else {})


def gguf_metadata(config, architecture, frequencies):
    keys, llm, attention, scaling = gguf.Keys, gguf.Keys.LLM, gguf.Keys.Attention, gguf.Keys.Rope
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope_of = config.rope_parameters
    rope_of = rope_of.get("full_attention", rope_of)
    values = {
        llm.BLOCK_COUNT: config.num_hidden_layers, llm.EMBEDDING_LENGTH: config.hidden_size,
        llm.CONTEXT_LENGTH: config.max_position_embeddings, llm.FEED_FORWARD_LENGTH: config.intermediate_size,
        attention.HEAD_COUNT: config.num_attention_heads, attention.HEAD_COUNT_KV: config.num_key_value_heads,
        attention.KEY_LENGTH: head, attention.VALUE_LENGTH: head,
        attention.LAYERNORM_RMS_EPS: float(config.rms_norm_eps), scaling.FREQ_BASE: float(rope_of["rope_theta"]),
        scaling.DIMENSION_COUNT: int(head * rope_of.get("partial_rotary_factor", 1.0)),
    }
    if config.model_type in ("mistral", "phi3", "gemma2", "gemma3_text", "gpt_oss") and config.sliding_window:
        values[attention.SLIDING_WINDOW] = config.sliding_window
    if config.model_type.startswith("gemma"):
        values[attention.SCALE] = config.query_pre_attn_scalar**-0.5
    if config.model_type == "granite":
        values[attention.SCALE] = config.attention_multiplier
        values[llm.EMBEDDING_SCALE] = config.embedding_multiplier
        values[llm.RESIDUAL_SCALE] = config.residual_multiplier
        values[llm.LOGIT_SCALE] = config.logits_scaling
    if config.model_type == "gemma3_text":
        values[attention.SLIDING_WINDOW_PATTERN] = config.layer_types.index("full_attention") + 1
        values[scaling.FREQ_BASE_SWA] = config.rope_parameters["sliding_attention"]["rope_theta"]
    if config.model_type == "qwen2" and config.use_sliding_window:
        values[attention.SLIDING_WINDOW] = config.sliding_window
        values[attention.SLIDING_WINDOW_PATTERN] = [kind == "sliding_attention" for kind in config.layer_types]
    if config.model_type == "gemma2":
        values[llm.ATTN_LOGIT_SOFTCAPPING] = config.attn_logit_softcapping
        values[llm.FINAL_LOGIT_SOFTCAPPING] = config.final_logit_softcapping
    kind = rope_of["rope_type"]
    if kind in ("linear", "yarn"):
        values[scaling.SCALING_TYPE] = kind
        values[scaling.SCALING_FACTOR] = rope_of["factor"]
    if kind in ("yarn", "longrope"):
        values[scaling.SCALING_ORIG_CTX_LEN] = rope_of["original_max_position_embeddings"]
    if kind == "longrope":
        values[scaling.SCALING_ATTN_FACTOR] = frequencies[1]
    if config.model_type == "gpt_oss":
        values[llm.EXPERT_FEED_FORWARD_LENGTH] = config.intermediate_size
    if "moe" in config.model_type:
        values[llm.EXPERT_FEED_FORWARD_LENGTH] = config.moe_intermediate_size
    if config.model_type == "qwen2_moe":
        values[llm.EXPERT_SHARED_FEED_FORWARD_LENGTH] = config.shared_expert_intermediate_size
    count = getattr(config, "num_local_experts", getattr(config, "num_experts", None))
    if count:
        values[llm.EXPERT_COUNT] = count
        values[llm.EXPERT_USED_COUNT] = config.num_experts_per_tok
    return {keys.General.ARCHITECTURE: architecture} | {
        key.format(arch=architecture): value for key, value in values.items()}


def gguf_factors(config, frequencies):
    """What GGUF divides frequencies by, as tensors of their own."""
    rope_of = config.rope_parameters
    kind = rope_of.get("rope_type")
    if kind == "longrope":
        return {"rope_factors_short.weight": rope_of["short_factor"], "rope_factors_long.weight": rope_of["long_factor"]}
    if kind == "llama3":
        plain = rope_of["rope_theta"] ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
        return {"rope_freqs.weight": (plain / frequencies[0].double().numpy()).tolist()}
    return {}


def make(name, settings, folder):
    settings = small | settings
    if settings.get("rope_scaling", True) is None:
        del settings["rope_scaling"]
    (folder / "config.json").write_text(json.dumps(settings))
    config = AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    # Its names as a folder has them, then its weights as a folder has them.
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "np") as file:
        shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}
    save_file({key: weights(key, shape) for key, shape in shapes.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    if name in new_style:
        settings = json.loads((folder / "config.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for key, value in model.state_dict().items():  # nothing was left as it was made
        assert "lm_head" in key or key not in shapes or np.array_equal(value.numpy(), weights(key, shapes[key])), key
    tokens = (weights(name + ".tokens", [24]) * 48 + 48).astype(np.int64).clip(0, 95)
    with torch.no_grad():
        scores = model(torch.from_numpy(tokens)[None]).logits[0].numpy().astype(np.float32)

    kind = config.rope_parameters.get("rope_type")
    frequencies = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu")) if kind not in (None, "default") else None
    architecture = gguf_architecture(config)
    names = gguf.get_tensor_name_map(next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture),
                                     config.num_hidden_layers)
    tensors = [{"name": key, "shape": shape} | gguf_name(key, names) for key, shape in shapes.items()]
    entry = {"name": name, "config": settings, "tokens": tokens.tolist(), "tensors": tensors}
    if all("gguf" in tensor for tensor in tensors):
        entry["gguf"] = gguf_metadata(config, architecture, frequencies)
        entry["gguf_factors"] = gguf_factors(config, frequencies)
    return entry, scores


def main():
    entries, scores = [], {}
    for name, settings in models.items():
        with tempfile.TemporaryDirectory() as folder:
            entry, scores[name] = make(name, settings, Path(folder))
            entries.append(entry)
    text = ",\n".join(json.dumps(entry) for entry in entries)
    (here / "llm_models.json").write_text(f"[{text}]\n")
    save_file(scores, here / "llm_models.safetensors")


main()

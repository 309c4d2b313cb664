#!/usr/bin/env python3
"""Write a BF16 GLM-5 checkpoint as GGUF, so that llama.cpp runs the same weights (tools/compare_with_llama_cpp.py).

    python tools/to_gguf_for_comparison.py MODEL_DIR OUT.gguf

The weights are the checkpoint's, bit by bit: matrices stay BF16; norms, biases, the router and the weights of the index
heads become F32, as llama.cpp wants them. The MTP layer is left out. The vocabulary is a placeholder (prompts must be
token ids): use llama.cpp's own converter where text matters. Other formats are made from OUT with llama-quantize.

Needs numpy and gguf (PyPI).
"""
import json
import re
import sys
from pathlib import Path

import gguf
import numpy as np

F32 = re.compile(r"norm\.(weight|bias)$|ffn_gate_inp\.|indexer\.proj\.|exp_probs_b\.")

# Keys below glm-dsa. -> fields of config.json.
SETTINGS = {
    "context_length": "max_position_embeddings", "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size", "leading_dense_block_count": "first_k_dense_replace",
    "vocab_size": "vocab_size", "attention.head_count": "num_attention_heads", "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank", "attention.value_length": "kv_lora_rank",
    "attention.value_length_mla": "v_head_dim", "rope.dimension_count": "qk_rope_head_dim",
    "attention.indexer.head_count": "index_n_heads", "attention.indexer.key_length": "index_head_dim",
    "attention.indexer.top_k": "index_topk", "expert_count": "n_routed_experts",
    "expert_used_count": "num_experts_per_tok", "expert_shared_count": "n_shared_experts",
    "expert_feed_forward_length": "moe_intermediate_size", "expert_weights_norm": "norm_topk_prob",
    "expert_weights_scale": "routed_scaling_factor", "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}


def add_settings(writer: gguf.GGUFWriter, config: dict):
    values = {key: config[field] for key, field in SETTINGS.items()}
    values |= {"attention.head_count_kv": 1,  # of latent and rope dimensions: MLA, absorbed
               "attention.key_length": config["kv_lora_rank"] + config["qk_rope_head_dim"],
               "attention.key_length_mla": config["qk_nope_head_dim"] + config["qk_rope_head_dim"],
               "rope.freq_base": float((config.get("rope_parameters") or config)["rope_theta"]),
               "expert_gating_func": 2}  # sigmoid
    if "indexer_types" in config:
        values["attention.indexer.types"] = [kind == "full" for kind in config["indexer_types"]]
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
    for key, value in values.items():
        add[type(value)](f"glm-dsa.{key}", value)


def add_placeholder_vocabulary(writer: gguf.GGUFWriter, size: int):
    kind, others = gguf.TokenType, size - 259
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *map(str, range(others))])
    writer.add_token_scores([0.0] * size)
    writer.add_token_types([kind.UNKNOWN, kind.CONTROL, kind.CONTROL] + [kind.BYTE] * 256 + [kind.NORMAL] * others)
    writer.add_add_bos_token(False)


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """Every tensor of the folder, mapped: float32, or uint16 for BF16."""
    out = {}
    for file in sorted(folder.glob("*.safetensors")):
        data = np.memmap(file, np.uint8, "r")
        start = 8 + int(data[:8].view("<u8")[0])
        header = json.loads(data[8:start].tobytes())
        header.pop("__metadata__", None)
        for name, t in header.items():
            if t["dtype"] not in ("BF16", "F32"):
                sys.exit(f"{name} is {t['dtype']}: give a BF16 checkpoint, and make other formats with llama-quantize")
            begin, end = (start + at for at in t["data_offsets"])
            out[name] = data[begin:end].view("<u2" if t["dtype"] == "BF16" else "<f4").reshape(t["shape"])
    return out


def rearranged(tensors: dict, config: dict):
    """The tensors without the MTP layer, keys and values of kv_b_proj apart and the experts of a layer together."""
    layers, nope = range(config["num_hidden_layers"]), config["qk_nope_head_dim"]
    for name, array in tensors.items():
        layer = re.match(r"model\.layers\.(\d+)\.", name)
        if layer and int(layer[1]) not in layers or ".mlp.experts." in name:
            continue
        if name.endswith("kv_b_proj.weight"):  # a matrix a head; that of the keys transposed
            heads = array.reshape(-1, nope + config["v_head_dim"], config["kv_lora_rank"])
            yield name.replace("kv_b", "k_b"), heads[:, :nope].transpose(0, 2, 1)
            yield name.replace("kv_b", "v_b"), heads[:, nope:]
        else:
            yield name.replace("correction_bias", "correction.bias"), array
    for layer in layers[config["first_k_dense_replace"]:]:
        for p in ("gate_proj.weight", "up_proj.weight", "down_proj.weight"):
            experts = f"model.layers.{layer}.mlp.experts."
            yield experts + p, np.stack([tensors[f"{experts}{e}.{p}"] for e in range(config["n_routed_experts"])])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] != "glm_moe_dsa" or config.get("n_group", 1) != 1:
        sys.exit(f"{folder}: not a GLM-5 checkpoint (model_type glm_moe_dsa, one group of experts)")
    writer = gguf.GGUFWriter(sys.argv[2], "glm-dsa", use_temp_file=True)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    add_settings(writer, config)
    add_placeholder_vocabulary(writer, config["vocab_size"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GLM_DSA, config["num_hidden_layers"])
    for name, array in rearranged(read_tensors(folder), config):
        name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if array.dtype == np.uint16 and F32.search(name):
            array = (array.astype(np.uint32) << 16).view(np.float32)
        raw, bf16 = np.ascontiguousarray(array), gguf.GGMLQuantizationType.BF16
        writer.add_tensor(name, *((raw,) if raw.dtype == np.float32 else (raw.view(np.uint8), None, bf16)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file(progress=True)
    writer.close()


if __name__ == "__main__":
    main()

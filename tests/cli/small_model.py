"""A model for what holds whatever the weights are: a tenth of the bundled one's, made up, with its tokenizer."""
import json
import pathlib
import shutil

from program import output

SIZES = {"hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32, "q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 24,
         "qk_rope_head_dim": 16, "head_dim": 16, "qk_head_dim": 40, "v_head_dim": 32, "index_head_dim": 32, "index_topk": 64}


def make_small_model(tiny, where):
    """In the folder `where`, which does not exist; its path."""
    config = where.parent / f"{where.name}.json"
    config.write_text(json.dumps(json.loads((pathlib.Path(tiny) / "config.json").read_text()) | SIZES))
    output("synth", config, where)
    config.unlink()
    for file in pathlib.Path(tiny).iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            shutil.copy(file, where)
    return str(where)

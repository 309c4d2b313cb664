#!/usr/bin/env python3
"""Compares what `glint quantize` writes with the published formulas, written down here a second time in numpy.

    quantize_oracle.py build/release/glint

A small model is filled with Gaussian, Student-t and awkward weights (groups and tensors of zeros, outliers, ties, rows of
very different size) and quantised; every byte is compared with
  ModelOpt's NVFP4    weight_scale_2 = amax / (6 * 448); scale = e4m3(max(amax16 / (6 * weight_scale_2), 2^-9)), 1 for zeros;
                      code = nearest e2m1 of w / (scale * weight_scale_2), ties to even; gate and up share amax
  the block FP8 of DeepSeek-V3 and its converters: scale = amax / 448, code = nearest e4m3 of w / scale
and the searched scales with what they promise.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import oracle_venv

oracle_venv.enter("numpy==2.2.6")

import numpy as np  # noqa: E402

GLINT = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
F32 = np.float32

CONFIG = {  # dims of which some are no multiples of 128: kv_a has 72 rows, o_proj 96 columns
    "num_hidden_layers": 4, "first_k_dense_replace": 1, "hidden_size": 160, "intermediate_size": 272,
    "moe_intermediate_size": 144, "n_routed_experts": 8, "num_experts_per_tok": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "q_lora_rank": 144, "kv_lora_rank": 64, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8,
    "qk_head_dim": 32, "v_head_dim": 48, "index_n_heads": 2, "index_head_dim": 128, "index_topk": 16, "vocab_size": 320,
    "eos_token_id": [1, 2, 3], "pad_token_id": 1, "max_position_embeddings": 256,
}


def check(condition, what):
    if not condition:
        sys.exit(what)


def glint(*args):
    done = subprocess.run([GLINT, *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"{args}: exit {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout


# --- files ---------------------------------------------------------------------------------------------------------

def read_header(data):
    size = int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8:8 + size]))
    header.pop("__metadata__", None)
    return header, 8 + size


def read_model(folder):
    """name -> (dtype, array of raw numbers in the tensor's shape)"""
    kinds = {"BF16": np.uint16, "F32": F32, "U8": np.uint8, "F8_E4M3": np.uint8}
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        data = path.read_bytes()
        header, begin = read_header(data)
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            raw = np.frombuffer(data[begin + first:begin + last], kinds[entry["dtype"]])
            tensors[name] = (entry["dtype"], raw.reshape(entry["shape"]))
    return tensors


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(F32)


def to_bf16(values):
    bits = np.ascontiguousarray(values, F32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


# --- number formats, from their definitions ------------------------------------------------------------------------

def e4m3_table():
    codes = np.arange(0x7F)  # 0x7f is NaN
    exponent, mantissa = codes >> 3, codes & 7
    return np.where(exponent == 0, mantissa * 2.0 ** -9, (8 + mantissa) * 2.0 ** (exponent - 10.0))


E4M3 = e4m3_table()
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def nearest_code(table, magnitudes):
    """The code of the nearest number of the table, which is ascending; ties to the even code; larger ones saturate."""
    x = magnitudes.astype(np.float64)
    high = np.clip(np.searchsorted(table, x), 0, len(table) - 1)
    low = np.maximum(high - 1, 0)
    up, down = table[high] - x, x - table[low]
    tie = np.where(high % 2 == 0, high, low)
    return np.where(up < down, high, np.where(down < up, low, tie)).astype(np.uint8)


def encode_e4m3(values):
    return nearest_code(E4M3, np.abs(values)) | (np.signbit(values).astype(np.uint8) << 7)


def decode_e4m3(codes):
    values = np.where((codes & 0x7F) == 0x7F, np.nan, np.append(E4M3, 0)[codes & 0x7F])
    return np.where(codes & 0x80, -values, values).astype(F32)


def unpack(packed):
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)
    return np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7]).astype(F32)


def decode_nvfp4(packed, scales, scale_2):
    rows = packed.shape[0]
    values = unpack(packed).reshape(rows, -1, 16) * decode_e4m3(scales)[..., None] * F32(scale_2)
    return values.reshape(rows, -1)


# --- the quantisers' formulas --------------------------------------------------------------------------------------

def modelopt_nvfp4(weight, amax):
    scale_2 = F32(amax) / F32(6 * 448) if amax else F32(1)
    groups = weight.reshape(weight.shape[0], -1, 16)
    scale = np.abs(groups).max(axis=-1) / (F32(6) * scale_2)
    scale = np.where(scale == 0, F32(1), np.maximum(scale, F32(2.0 ** -9)))
    scale_codes = nearest_code(E4M3, scale)
    scaled = groups / (decode_e4m3(scale_codes) * scale_2)[..., None]
    codes = nearest_code(E2M1, np.abs(scaled)) | np.where(scaled < 0, 8, 0).astype(np.uint8)
    codes = codes.reshape(weight.shape)
    return codes[:, 1::2] << 4 | codes[:, 0::2], scale_codes, scale_2


def block_fp8(weight, ue8m0):
    rows, cols = weight.shape
    codes = np.zeros(weight.shape, np.uint8)
    scales = np.zeros((-(-rows // 128), -(-cols // 128)), F32)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            block = weight[i * 128:i * 128 + 128, j * 128:j * 128 + 128]
            amax = np.abs(block).max()
            scale = max(amax, F32(1e-12)) / F32(448) if amax else F32(1)
            if ue8m0:
                fraction, exponent = np.frexp(scale)
                scale = np.ldexp(F32(1), exponent - (fraction == 0.5))
            scales[i, j] = scale
            codes[i * 128:i * 128 + 128, j * 128:j * 128 + 128] = encode_e4m3(block / F32(scale))
    return codes, scales


# --- the model -----------------------------------------------------------------------------------------------------

def awkward(rng, shape):
    values = rng.standard_normal(shape) * np.exp(rng.standard_normal((shape[0], 1)) * 2)
    groups = values.reshape(-1, 16)
    kind = rng.integers(0, 6, len(groups))
    groups[kind == 0] = 0
    groups[kind == 1, 3] *= 200
    groups[kind == 2] = rng.integers(-12, 13, (np.sum(kind == 2), 16)) * 0.25
    groups[kind == 3] *= 1e-6
    return values


def make_model(work):
    config = json.loads((ROOT / "models/glm5-tiny/config.json").read_text()) | CONFIG
    (work / "config.json").write_text(json.dumps(config))
    glint("synth", work / "config.json", work / "bf16")
    path = work / "bf16/model.safetensors"
    data = bytearray(path.read_bytes())
    header, begin = read_header(data)
    rng = np.random.default_rng(5)
    kinds = {"1.": lambda shape: rng.standard_normal(shape) * 0.02, "2.": lambda shape: rng.standard_t(5, shape) * 0.02,
             "3.": lambda shape: awkward(rng, shape)}
    for name, entry in sorted(header.items()):
        if not name.startswith("model.layers.") or not name.endswith("proj.weight"):
            continue
        kind = kinds.get(name.removeprefix("model.layers.")[:2], kinds["1."])
        values = kind(entry["shape"])
        if name.endswith("experts.5.gate_proj.weight"):
            values = values * 10  # up is ten times smaller, and shares its scale
        if ".experts.6." in name:
            values = values * 0
        first, last = entry["data_offsets"]
        data[begin + first:begin + last] = to_bf16(values).tobytes()
    path.write_bytes(data)
    return {name: from_bf16(raw) for name, (dtype, raw) in read_model(work / "bf16").items() if dtype == "BF16"}


def linears(model):
    return sorted(name.removesuffix(".weight") for name, (dtype, _) in model.items() if dtype in ("U8", "F8_E4M3")
                  and name.endswith(".weight"))


def shared_amax(source, name):
    names = [name]
    for pair in ((".gate_proj", ".up_proj"), (".q_a_proj", ".kv_a_proj_with_mqa")):
        for one, other in (pair, pair[::-1]):
            if name.endswith(one):
                names.append(name.removesuffix(one) + other)
    return max(np.abs(source[each + ".weight"]).max() for each in names)


# --- what is compared ----------------------------------------------------------------------------------------------

def compare_absmax(work, source):
    glint("quantize", work / "bf16", work / "absmax", "--format", "nvfp4", "--scale", "absmax", "--no-power-of-two",
          "--scope", "all-linear", "--mtp", "convert")
    model = read_model(work / "absmax")
    names = linears(model)
    check(len(names) == 5 * 5 + 3 + 4 * (3 * 8 + 3), f"{len(names)} linear layers")  # 4 layers and the MTP layer
    for name in names:
        packed, scales, scale_2 = modelopt_nvfp4(source[name + ".weight"], shared_amax(source, name))
        check(np.array_equal(model[name + ".weight"][1], packed), f"{name}: codes")
        check(np.array_equal(model[name + ".weight_scale"][1], scales), f"{name}: scales")
        check(model[name + ".weight_scale_2"][1] == scale_2, f"{name}: weight_scale_2")
        check(model[name + ".input_scale"][1] == 1, f"{name}: input_scale")
    for name, (dtype, raw) in read_model(work / "bf16").items():
        if name.removesuffix(".weight") not in names:
            check(np.array_equal(model[name][1], raw), f"{name} is not copied as it is")
    return len(names)


def group_errors(source, model, name):
    was = source[name + ".weight"].astype(np.float64)
    is_ = decode_nvfp4(model[name + ".weight"][1], model[name + ".weight_scale"][1], model[name + ".weight_scale_2"][1])
    return np.square(was - is_).reshape(-1, 16).sum(axis=1), is_


def compare_search(work, source):
    models = {}
    for rule, flags in {"pow2": ["--scale", "absmax"], "search": [], "four": ["--scale", "four-over-six"],
                        "plain": ["--no-power-of-two"]}.items():
        glint("quantize", work / "bf16", work / rule, "--format", "nvfp4", *flags)
        models[rule] = read_model(work / rule)
    models["absmax"] = read_model(work / "absmax")
    gains = {}
    for name in linears(models["search"]):
        errors = {rule: group_errors(source, model, name) for rule, model in models.items()}
        # The kernel compares sums of f32; these are exact.
        check(np.all(errors["search"][0] <= errors["pow2"][0] * (1 + 1e-6)), f"{name}: search is worse in a group")
        check(np.all(errors["plain"][0] <= errors["absmax"][0] * (1 + 1e-6)), f"{name}: search is worse in a group")
        for rule in ("pow2", "search", "four"):
            values = errors[rule][1]
            check(np.array_equal(from_bf16(to_bf16(values)), values), f"{name}: {rule} has weights that are no BF16")
            mantissa = np.frexp(models[rule][name + ".weight_scale_2"][1])[0]
            check(mantissa == 0.5, f"{name}: weight_scale_2 is no power of two")
        kind = {"1": "gaussian", "2": "student-t"}.get(name.split(".")[2])
        if kind and ".experts.5." not in name and ".experts.6." not in name:
            sums = gains.setdefault(kind, {rule: 0.0 for rule in models})
            for rule in models:
                sums[rule] += errors[rule][0].sum()
    for kind, sums in gains.items():
        check(sums["search"] <= 0.8 * sums["absmax"], f"{kind}: search saves less than 20 %: {sums}")
        check(sums["four"] <= 0.9 * sums["absmax"], f"{kind}: four over six saves less than 10 %: {sums}")
    return {kind: {rule: f"{1 - sums[rule] / sums['absmax']:.1%}" for rule in ("search", "four")}
            for kind, sums in gains.items()}


def compare_fp8(work, source):
    count = 0
    for scale_fmt in ("fp32", "ue8m0"):
        out = work / f"fp8-{scale_fmt}"
        glint("quantize", work / "bf16", out, "--format", "fp8", "--scale-fmt", scale_fmt)
        model = read_model(out)
        for name in linears(model):
            codes, scales = block_fp8(source[name + ".weight"], scale_fmt == "ue8m0")
            check(np.array_equal(model[name + ".weight_scale_inv"][1], scales), f"{name}: {scale_fmt} scales")
            check(np.array_equal(model[name + ".weight"][1], codes), f"{name}: {scale_fmt} codes")
            count += 1
        back = work / f"back-{scale_fmt}"
        glint("quantize", out, back, "--format", "bf16")
        for name, (dtype, raw) in read_model(back).items():
            if name.removesuffix(".weight") in linears(model):
                scales = model[name + "_scale_inv"][1].repeat(128, 0).repeat(128, 1)[:raw.shape[0], :raw.shape[1]]
                expected = to_bf16(decode_e4m3(model[name][1]) * scales)
                check(np.array_equal(raw, expected), f"{name}: back from fp8")
            check(not name.endswith("_scale_inv"), f"{name} is left over")
    return count


def compare_layouts(work):
    glint("quantize", work / "bf16", work / "ct", "--format", "nvfp4", "--layout", "compressed-tensors", "--scale", "absmax")
    ours, theirs = read_model(work / "pow2"), read_model(work / "ct")
    names = linears(ours)
    for name in names:
        check(np.array_equal(ours[name + ".weight"][1], theirs[name + ".weight_packed"][1]), f"{name}: packed")
        check(np.array_equal(ours[name + ".weight_scale"][1], theirs[name + ".weight_scale"][1]), f"{name}: scales")
        for a, b in ((".weight_scale_2", ".weight_global_scale"), (".input_scale", ".input_global_scale")):
            check(F32(1) / ours[name + a][1] == theirs[name + b][1][0], f"{name}{b} is no inverse")
    glint("quantize", work / "ct", work / "back", "--format", "bf16")
    back = read_model(work / "back")
    for name in names:
        expected = decode_nvfp4(ours[name + ".weight"][1], ours[name + ".weight_scale"][1],
                                ours[name + ".weight_scale_2"][1])
        check(np.array_equal(from_bf16(back[name + ".weight"][1]), expected), f"{name}: back from nvfp4")
    check(set(back) == set(read_model(work / "bf16")), "names after the way back")
    return len(names)


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        source = make_model(work)
        print(f"absmax: {compare_absmax(work, source)} matrices, every byte is ModelOpt's")
        print(f"search: squared error less than that of absmax by {compare_search(work, source)}")
        print(f"fp8: {compare_fp8(work, source)} matrices, every byte is the formula's")
        print(f"layouts: {compare_layouts(work)} matrices, there and back")


main()

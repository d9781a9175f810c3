"""One step of TinyGPT with its KV cache as an ONNX graph: what onnxruntime-web runs beside the page's engine.

Written down from model.py, operator by operator. A token goes in and logits come out; each layer's keys and values of
the positions so far go in, and come out with the newest one's added, as any export of a decoder has it. Shapes: C
model width, H heads, D = C / H, V vocabulary, S positions in the cache; T is one.
"""

from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from tiny_gpt import GPTConfig


def decode_step(config: GPTConfig, tensors: dict[str, Tensor]) -> bytes:
    """The model in a file's ``tensors`` (tiny_gpt.weights writes them), its matrices as the file has them.

    Inputs ``token`` and ``position`` (1,), and for each layer ``keys.0`` and ``values.0`` (H, S, D); outputs
    ``logits`` (1, V) and the caches with a position more, ``new_keys.0`` and ``new_values.0`` (H, S + 1, D).
    A matrix in int8 is multiplied in int8, by a vector that the graph rounds to 8 bits.
    """
    C, H = config.n_embd, config.n_head
    D = C // H
    nodes, weights = [], {}

    def constant(name, array):
        weights.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def node(op, *inputs, outputs=1, **attributes):
        names = [f"{op}_{len(nodes)}_{i}" for i in range(outputs)]
        nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def parameter(name):
        return constant(name, tensors[name].float().numpy())

    def linear(x, name):
        matrix = tensors[f"{name}.weight"].t().contiguous()  # (in, out)
        if f"{name}.weight.scale" in tensors:
            whole, unit, zero = node("DynamicQuantizeLinear", x, outputs=3)
            sums = node("MatMulInteger", whole, constant(f"{name}.weight", matrix.numpy()), zero)
            scales = node("Mul", unit, parameter(f"{name}.weight.scale"))  # (out,)
            y = node("Mul", node("Cast", sums, to=TensorProto.FLOAT), scales)
        else:
            y = node("MatMul", x, constant(f"{name}.weight.T", matrix.float().numpy()))
        return node("Add", y, parameter(f"{name}.bias")) if f"{name}.bias" in tensors else y

    def layer_norm(x, name):
        bias = [parameter(f"{name}.bias")] if f"{name}.bias" in tensors else []
        return node("LayerNormalization", x, parameter(f"{name}.weight"), *bias, axis=-1, epsilon=1e-5)

    def whole_numbers(name, *values):
        weights.setdefault(name, helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    by_head, side_by_side = whole_numbers("(H, 1, D)", H, 1, D), whole_numbers("(1, C)", 1, C)
    root = constant("root", numpy_helper.to_array(helper.make_tensor("root", TensorProto.FLOAT, [], [D**0.5])))

    def attention(x, layer):
        q, k, v = node("Split", linear(x, f"blocks.{layer}.attn.qkv"), outputs=3, axis=1, num_outputs=3)  # (1, C) each
        q, k, v = (node("Reshape", each, by_head) for each in (q, k, v))  # (H, 1, D) each
        for name, newest in (("keys", k), ("values", v)):
            nodes.append(helper.make_node("Concat", [f"{name}.{layer}", newest], [f"new_{name}.{layer}"], axis=1))
        turned = node("Transpose", f"new_keys.{layer}", perm=[0, 2, 1])  # (H, D, S + 1)
        shares = node("Softmax", node("Div", node("MatMul", q, turned), root), axis=-1)  # (H, 1, S + 1)
        heads = node("MatMul", shares, f"new_values.{layer}")  # (H, 1, D)
        return linear(node("Reshape", heads, side_by_side), f"blocks.{layer}.attn.out_proj")  # (1, C)

    x = node("Add", *(node("Gather", parameter(f"{name}.weight"), at) for name, at in EMBEDDINGS.items()))  # (1, C)
    for layer in range(config.n_layer):
        x = node("Add", x, attention(layer_norm(x, f"blocks.{layer}.ln1"), layer))
        wide = node("Gelu", linear(layer_norm(x, f"blocks.{layer}.ln2"), f"blocks.{layer}.mlp.fc1"))  # (1, 4C)
        x = node("Add", x, linear(wide, f"blocks.{layer}.mlp.fc2"))
    head = constant("wte.weight.T", tensors["wte.weight"].float().t().contiguous().numpy())  # the tied matrix
    nodes.append(helper.make_node("MatMul", [layer_norm(x, "ln_f"), head], ["logits"]))

    def cache(prefix, length):
        names = [f"{prefix}{name}.{layer}" for layer in range(config.n_layer) for name in ("keys", "values")]
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [H, length, D]) for name in names]

    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in EMBEDDINGS.values()]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, config.vocab_size])
    graph = helper.make_graph(
        nodes, "TinyGPT", ids + cache("", "S"), [logits, *cache("new_", "S + 1")], list(weights.values())
    )
    opset = helper.make_opsetid("", 20)  # the first with GELU
    return helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()


EMBEDDINGS = {"wte": "token", "wpe": "position"}  # which table is asked which input

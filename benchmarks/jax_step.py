"""A training step of addition in JAX: the model of problem1/model.py with the same weights, compiled by XLA.

JAX is optional (benchmarks/README.md). It is imported when the step is made, never before.
"""

import importlib.util
import os
from collections.abc import Callable

from torch import Tensor

from problem1.model import Seq2SeqTransformer

INSTALLED = importlib.util.find_spec("jax") is not None
LEARNING_RATE = 1e-4  # this and the next three as torch.optim.AdamW has them in measure.training_step
DECAYS = 0.9, 0.999
EPSILON = 1e-8
WEIGHT_DECAY = 0.01
NORM_BOUND = 1.0


def make(model: Seq2SeqTransformer, inputs: tuple[Tensor, Tensor], labels: Tensor) -> Callable[[], dict]:
    """What measure.training_step is, from the weights of `model`; each call gives the weights after it."""
    os.environ["NPROC"] = "1"  # how many threads XLA may use: one, as everything here
    import jax
    from jax import numpy as jnp

    num_heads = model.encoder[0].attention.num_heads
    depth = {"encoder": len(model.encoder), "decoder": len(model.decoder)}
    table = jnp.array(model.position.table.numpy())
    source, target = (jnp.array(tokens.numpy()) for tokens in inputs)
    wanted = jnp.array(labels.numpy())

    def linear(weights: dict, name: str, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(weights: dict, name: str, x):
        centred = x - x.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
        return centred * scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attention(weights: dict, name: str, x, memory, causal: bool):
        def heads(part: str, tokens):
            """[B, T, d_model] -> [B, H, T, d_head]"""
            split = linear(weights, f"{name}.{part}", tokens).reshape(*tokens.shape[:2], num_heads, -1)
            return split.transpose(0, 2, 1, 3)

        queries, keys, values = heads("query", x), heads("key", memory), heads("value", memory)
        scores = queries @ keys.swapaxes(-1, -2) / keys.shape[-1] ** 0.5
        if causal:
            allowed = jnp.tril(jnp.ones(scores.shape[-2:], dtype=bool))
            scores = jnp.where(allowed, scores, -jnp.inf)
        mixed = (jax.nn.softmax(scores) @ values).transpose(0, 2, 1, 3)
        return linear(weights, f"{name}.output", mixed.reshape(x.shape))

    def feed_forward(weights: dict, layer: str, x):
        inner = linear(weights, f"{layer}.feed_forward.inner", norm(weights, f"{layer}.feed_forward_norm", x))
        return x + linear(weights, f"{layer}.feed_forward.outer", jax.nn.relu(inner))

    def embed(weights: dict, tokens):
        rows = weights["embedding.weight"]
        return rows[tokens] * rows.shape[1] ** 0.5 + table[: tokens.shape[1]]

    def logits(weights: dict):
        memory = embed(weights, source)
        for number in range(depth["encoder"]):
            layer = f"encoder.{number}"
            normed = norm(weights, f"{layer}.attention_norm", memory)
            memory = memory + attention(weights, f"{layer}.attention", normed, normed, causal=False)
            memory = feed_forward(weights, layer, memory)
        memory = norm(weights, "encoder_norm", memory)
        x = embed(weights, target)
        for number in range(depth["decoder"]):
            layer = f"decoder.{number}"
            normed = norm(weights, f"{layer}.self_norm", x)
            x = x + attention(weights, f"{layer}.self_attention", normed, normed, causal=True)
            normed = norm(weights, f"{layer}.cross_norm", x)
            x = x + attention(weights, f"{layer}.cross_attention", normed, memory, causal=False)
            x = feed_forward(weights, layer, x)
        return linear(weights, "output", norm(weights, "decoder_norm", x))

    def loss(weights: dict):
        logarithms = jax.nn.log_softmax(logits(weights))
        return -jnp.take_along_axis(logarithms, wanted[..., None], axis=-1).mean()

    @jax.jit
    def update(weights: dict, means: dict, squares: dict, count):
        gradients = jax.grad(loss)(weights)
        size = jnp.sqrt(sum(jnp.square(gradient).sum() for gradient in gradients.values()))
        factor = jnp.minimum(1.0, NORM_BOUND / (size + 1e-6))
        count = count + 1
        for name, gradient in gradients.items():
            gradient = gradient * factor
            means[name] = DECAYS[0] * means[name] + (1 - DECAYS[0]) * gradient
            squares[name] = DECAYS[1] * squares[name] + (1 - DECAYS[1]) * gradient**2
            mean = means[name] / (1 - DECAYS[0] ** count)
            deviation = jnp.sqrt(squares[name] / (1 - DECAYS[1] ** count))
            weights[name] = weights[name] * (1 - LEARNING_RATE * WEIGHT_DECAY)
            weights[name] = weights[name] - LEARNING_RATE * mean / (deviation + EPSILON)
        return weights, means, squares, count

    weights = {name: jnp.array(value.detach().numpy()) for name, value in model.state_dict().items()}
    zeros = {name: jnp.zeros_like(value) for name, value in weights.items()}
    state = [weights, zeros, dict(zeros), jnp.zeros(())]

    def step() -> dict:
        state[:] = jax.block_until_ready(update(*state))
        return state[0]

    return step

"""What the weights of cross-attention say of their own: where to look, and what of it reaches the logits directly.

Where: the query that a position of the decoder sends on average, and the keys that the source positions have on
average, make scores that know no sum. How much of the attention to each column do they predict? And if a head's pattern
is held at its mean over all sums, what goes wrong?

What: the logits are a sum of what each part of the decoder has added to the residual stream, scaled by the last layer
norm. So the logit difference between the right digit and the one that the opposite carry would give splits into the
shares of the parts.
"""

import torch
from torch import Tensor

from lab.statistics import proportion
from problem1.analysis.rows import digit_names
from problem1.attention import create_causal_mask
from problem1.dataset import Sums, carries, decoder_inputs

Residuals = dict[str, Tensor]  # {part: what it adds to the residual stream [N, T, d]}


@torch.no_grad()
def decode(model, sums: Sums, frozen: dict[int, Tensor] | None = None) -> tuple[Tensor, Residuals, dict]:
    """The logits, the parts of the residual stream, and each layer's cross-attention: {layer: {"queries": …, …}}.

    frozen: {layer: pattern [H, T, S] in place of its own}
    """
    memory = model.encode(sums.sources)
    inputs = decoder_inputs(sums.targets)
    x = model.embed(inputs)
    parts = {"embedding and position": x}
    seen = {}
    causal = create_causal_mask(inputs.shape[1])
    for number, layer in enumerate(model.decoder):
        normed = layer.self_norm(x)
        parts[f"D{number}.self"] = layer.self_attention(normed, normed, normed, causal)[0]
        x = x + parts[f"D{number}.self"]
        cross = layer.cross_attention
        Q = cross.split_heads(cross.query(layer.cross_norm(x)))
        K = cross.split_heads(cross.key(memory))
        V = cross.split_heads(cross.value(memory))
        pattern = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, dim=-1)
        seen[number] = {"queries": Q, "keys": K, "pattern": pattern}
        if frozen and number in frozen:
            pattern = frozen[number].expand_as(pattern)
        parts[f"D{number}.cross"] = cross.output(cross.combine_heads(pattern @ V))
        x = x + parts[f"D{number}.cross"]
        parts[f"D{number}.feed-forward"] = layer.feed_forward(layer.feed_forward_norm(x))
        x = x + parts[f"D{number}.feed-forward"]
    return model.output(model.decoder_norm(x)), parts, seen


def by_column(pattern: Tensor) -> Tensor:
    """[…, S] attention to source positions -> […, columns + 1]: both digits of each column together, then '+'"""
    columns = pattern.shape[-1] // 2
    plus = pattern[..., columns : columns + 1]
    return torch.cat([pattern[..., :columns] + pattern[..., columns + 1 :], plus], -1)


def where(seen: dict, names: list[str]) -> dict[str, dict]:
    """{head: {digit: the column most looked at, its mean attention, and the same from the mean query and mean keys}}"""
    found = {}
    for number, layer in seen.items():
        pattern = layer["pattern"]
        scores = layer["queries"].mean(0) @ layer["keys"].mean(0).transpose(-2, -1) / layer["keys"].shape[-1] ** 0.5
        predicted = by_column(scores.softmax(-1))
        together = by_column(pattern)
        for head in range(pattern.shape[1]):
            entry = {}
            for t, name in enumerate(names):
                column = int(together[:, head, t].mean(0).argmax())
                entry[name] = {
                    "column": [*names[1:], "+"][column],
                    "mean": together[:, head, t, column].mean().item(),
                    "from_means": predicted[head, t, column].item(),
                }
            found[f"D{number}.cross.{head}"] = entry
    return found


def direct(model, parts: Residuals, sums: Sums) -> dict[str, dict[str, float]]:
    """{digit: {part: its share of the logit difference between the right digit and that with the opposite carry}}

    The constant of the output layer and of the last layer norm counts as a part of its own.
    """
    total = sum(parts.values())
    norm = model.decoder_norm
    centered = total - total.mean(-1, keepdim=True)
    scale = (centered.pow(2).mean(-1, keepdim=True) + norm.eps).rsqrt()
    carry = torch.cat([carries(sums), torch.zeros(len(sums), 1, dtype=torch.bool)], 1).long()
    other = (sums.targets + 1 - 2 * carry) % 10
    readout = model.output.weight[sums.targets] - model.output.weight[other]  # [N, T, d]
    constant = (readout @ norm.bias) + model.output.bias[sums.targets] - model.output.bias[other]
    written = {
        name: ((part - part.mean(-1, keepdim=True)) * scale * norm.weight * readout).sum(-1)
        for name, part in parts.items()
    }
    written["constant"] = constant
    whole = sum(written.values())
    names = digit_names(sums.targets.shape[1])
    return {
        name: {part: (value[:, t].mean() / whole[:, t].mean()).item() for part, value in written.items()}
        for t, name in enumerate(names[:-1])  # the last digit needs no carry
    }


@torch.no_grad()
def measure(model, sums: Sums) -> dict:
    _, parts, seen = decode(model, sums)
    frozen = {number: layer["pattern"].mean(0) for number, layer in seen.items()}
    held = decode(model, sums, frozen)[0].argmax(-1) == sums.targets
    return {
        "where": where(seen, digit_names(sums.targets.shape[1])),
        "right_with_mean_patterns": proportion(held.all(1)),
        "direct": direct(model, parts, sums),
    }

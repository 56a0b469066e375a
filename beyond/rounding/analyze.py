"""Is every sum right on every machine? exhaustive.py ran them on one; this bound holds for all that compute in double.

    python beyond/rounding/analyze.py        # of the model that problem1/train.py made; three minutes

For each sum bounds.py bounds how far the logits of any float64 evaluation, in any order of summation, can be from
those computed here. Where every right logit leads by more, no such evaluation writes another digit. The weights and
the table of positions are taken as the float32 numbers they are. In float32 the same bound says nothing for a model
of this size: there the spread over threads, batches and libraries is measured.
"""

import contextlib
import copy
import math
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

import torch
from torch import Tensor
from tqdm import tqdm

from beyond.rounding.bounds import ASSUMPTIONS, UNITS, Ball, Folded, NotBounded, Rounding
from lab import device
from lab.fast import Fast
from lab.files import only_one
from lab.settings import parse, run, setting
from problem1.analysis.context import load_context
from problem1.analysis.exhaustive import EXHAUSTIVE_DIGITS
from problem1.attention import MultiHeadAttention, create_causal_mask
from problem1.dataset import Sums, decoder_inputs, every_pair, random_pairs
from problem1.model import Seq2SeqTransformer

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "problem1/results"
SAMPLE = 200  # sums whose float32 logits are measured: half with the thinnest margins, half spread over all
BATCH = 512


@torch.no_grad()
def bound(model: Seq2SeqTransformer, sums: Sums, rules: Rounding) -> tuple[Tensor, Tensor, Tensor]:
    """The margin of each sum, its radius, and the margin that rounding leaves at least: three of [N]"""
    margins, radii, reserves = [], [], []
    inputs = decoder_inputs(sums.targets)
    for start in tqdm(range(0, len(sums), BATCH), desc="bounding", unit="batch", leave=False, disable=None):
        rows = slice(start, start + BATCH)
        x, right = _hidden(model, sums.sources[rows], inputs[rows], rules), sums.targets[rows]
        above, radius = rules.differences(x, model.output, right.flatten())
        shape = (len(right), -1)
        for parts, values in ((margins, above), (reserves, above - radius)):
            parts.append(values.view(shape).amin(1))
        radii.append(radius.view(shape).amax(1))
    return torch.cat(margins), torch.cat(radii), torch.cat(reserves)


def _hidden(model: Seq2SeqTransformer, sources: Tensor, inputs: Tensor, rules: Rounding) -> Ball:
    """What stands before the output layer, all positions of all rows in one dimension."""
    scale = math.sqrt(model.embedding.embedding_dim)
    table = rules.exact(model.embedding.weight.double() * scale, 0 if math.log2(scale) % 1 == 0 else rules.gamma(3))
    positions = rules.exact(model.position.table)

    def embed(tokens: Tensor) -> Ball:
        return rules.add(table[tokens], positions[: tokens.shape[1]])

    def attend(x: Ball, queries: Ball, memory: Ball, attention: MultiHeadAttention, mask: Tensor) -> Ball:
        parts = (queries, attention.query), (memory, attention.key), (memory, attention.value)
        q, k, v = (rules.linear(part, linear, attention.num_heads) for part, linear in parts)
        return rules.add(x, rules.linear(rules.attention(q, k[:, None], v[:, None], mask), attention.output))

    x, every = embed(sources), torch.ones(1, sources.shape[1], dtype=torch.bool)
    for layer in model.encoder:
        normed = rules.layer_norm(x, layer.attention_norm)
        x = attend(x, normed, normed, layer.attention, every)
        x = rules.feed_forward(x, layer.feed_forward_norm, layer.feed_forward)
    memory, causal = rules.layer_norm(x, model.encoder_norm), create_causal_mask(inputs.shape[1])[0, 0] > 0
    inputs, row = inputs.unique(dim=0, return_inverse=True)
    x = embed(inputs)
    for layer in model.decoder:
        normed = rules.layer_norm(x, layer.self_norm)
        x = attend(x, normed, normed, layer.self_attention, causal)
        if layer is model.decoder[0]:  # up to here x depends on what the decoder reads alone, and few inputs differ
            x = x[row]
        x = attend(x, rules.layer_norm(x, layer.cross_norm), memory, layer.cross_attention, every)
        x = rules.feed_forward(x, layer.feed_forward_norm, layer.feed_forward)
    x = rules.layer_norm(x, model.decoder_norm)
    f = x.folded
    folded = Folded(f.gain, f.bias, f.scale.flatten(), f.mean.flatten(), f.loose.flatten())
    return Ball(x.middle.flatten(0, 1), x.norm.flatten(), folded)


@torch.no_grad()
def measure_float32(model: Seq2SeqTransformer, sums: Sums) -> dict[str, float]:
    """The largest distance of a float32 logit from that in float64, by way of computing."""
    inputs, before, ways = decoder_inputs(sums.targets), torch.get_num_threads(), {}
    exact = copy.deepcopy(model).double()(sums.sources, inputs)
    for library, functions in (("onednn", Fast()), ("torch", contextlib.nullcontext())):
        for threads, size in ((1, 1), (1, 32), (1, len(sums)), (2, len(sums))):
            torch.set_num_threads(threads)
            few = range(0, min(len(sums), 32 * size), size)  # 32 rows one by one are enough
            with functions:
                logits = torch.cat([model(sums.sources[i : i + size], inputs[i : i + size]) for i in few])
            name = f"{library}, threads: {threads}, rows at a time: {size}"
            ways[name] = float((logits.double() - exact[: len(logits)]).abs().max())
    torch.set_num_threads(before)
    return ways


def verify(model: Seq2SeqTransformer, num_digits: int) -> dict:
    exhaustive = num_digits <= EXHAUSTIVE_DIGITS
    sums = every_pair(num_digits) if exhaustive else random_pairs(num_digits, SAMPLE, seed=1)
    model = copy.deepcopy(model).cpu().eval()
    try:
        margin, radius, reserve = bound(model, sums, Rounding(UNITS["float64"]))
    except NotBounded as error:
        return {"holds": False, "reason": f"not bounded: {error}"}
    chosen = torch.cat([margin.argsort()[: SAMPLE // 2], torch.arange(0, len(sums), -(-2 * len(sums) // SAMPLE))])
    return {
        "holds": bool((reserve > 0).all()),
        "exhaustive": exhaustive,
        "pairs": len(sums),
        "smallest_margin": float(margin.min()),
        "smallest_reserve": float(reserve.min()),
        "largest_radius": float(radius.max()),
        "float32_measured_on": len(chosen),
        "float32_distance": measure_float32(model, sums[chosen]),
        "assumptions": ASSUMPTIONS,
    }


@dataclass(frozen=True)
class Settings:
    model_path: Path = setting(RESULTS / "best_model.pth", "a trained model of problem 1", metavar="FILE")
    data_dir: Path = setting(RESULTS.parent / "data", "folder of the rows it was trained on", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder for the numbers", metavar="DIR")


def main(settings: Settings) -> None:
    device.start("cpu")
    context = load_context(settings.model_path, settings.data_dir, settings.output_dir)
    with only_one(settings.output_dir, "an analysis"):
        results = context.write("rounding.json", verify(context.model, context.num_digits))
        print(findings(results))
        print(f"everything is in {settings.output_dir}")


def findings(results: dict) -> str:
    if not results["holds"]:
        return f"not shown for other machines: {results.get('reason', 'rounding can change some digit')}"
    distance = max(results["float32_distance"].values())
    return (
        f"{results['pairs']:,} sums right in every float64 evaluation: margins of {results['smallest_margin']:.2f} and "
        f"more, radii of {results['largest_radius']:.1g} at most\nfloat32, measured on "
        f"{results['float32_measured_on']:,} sums: logits within {distance:.1g} of float64"
    )


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))

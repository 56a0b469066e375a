"""Why sinusoidal codes might extrapolate, and why training on few positions does not make them.

The code of position p + k is the code of p turned by a rotation that is the same for every p. A head's score between
two positions is PE(p)ᵀ M PE(q) with M = W_qᵀ W_k. It depends on the distance alone exactly when M commutes with these
rotations: then M consists of 2 × 2 blocks aI + bJ on the diagonal, d_model free numbers out of d_model². So
sinusoidal codes *might* extrapolate. But training sees M only on the codes of the trained positions, and these
span few directions. Of the codes of later positions a growing share lies outside, where nothing was trained.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab import figures
from problem2.analysis.context import Context
from problem2.positional_encoding import SinusoidalPositionalEncoding, frequencies

QUESTION = "How much of a later position's sinusoidal code was ever trained?"
NEEDS = ("sinusoidal",)
FILES = ("sinusoidal_span.json", "sinusoidal_span.png", "sinusoidal_span.pdf")
ENERGY = 0.999  # the directions that hold this share of the trained codes' squared norm count as trained
POSITIONS = 256


def run(context: Context) -> dict:
    _, longest = context.trained_lengths
    numbers = measure(context.models["sinusoidal"].scheme.d_model, longest)
    draw(numbers, context.folder / "sinusoidal_span.png")
    return context.write("sinusoidal_span.json", numbers)


def findings(results: dict) -> str:
    *_, (last, outside) = results["mean_outside"].items()
    held = f"{results['directions']} of {results['d_model']} directions hold {results['energy']:.1%}"
    return f"{held} of the trained codes; {outside:.0%} of the codes of positions {last} lies outside them"


def trained_directions(codes: Tensor) -> Tensor:
    """[T, d] codes of the trained positions -> [k, d] the fewest orthonormal directions that hold ENERGY of them"""
    _, sizes, directions = torch.linalg.svd(codes, full_matrices=False)
    held = sizes.square().cumsum(0) / sizes.square().sum()
    return directions[: int((held < ENERGY).sum()) + 1]


def share_outside(codes: Tensor, directions: Tensor) -> Tensor:
    """[N, d] -> [N] share of each code's squared norm that lies outside the directions"""
    return 1 - (codes @ directions.T).square().sum(1) / codes.square().sum(1)


def measure(d_model: int, trained: int) -> dict:
    codes = SinusoidalPositionalEncoding(d_model).code(torch.arange(POSITIONS, dtype=torch.double))
    directions = trained_directions(codes[:trained])
    outside = share_outside(codes, directions)
    turned = trained * frequencies(d_model)
    mean_outside = {}
    for start in range(0, POSITIONS, trained):
        mean_outside[f"{start}–{start + trained - 1}"] = outside[start : start + trained].mean().item()
    return {
        "d_model": d_model,
        "trained_positions": trained,
        "directions": len(directions),
        "energy": ENERGY,
        "free_numbers": d_model,
        "all_numbers": d_model**2,
        "frequencies": d_model // 2,
        "frequencies_below_a_quarter_turn": int((turned < torch.pi / 2).sum()),
        "share_outside": [round(share, 4) for share in outside.tolist()],
        "mean_outside": mean_outside,
    }


def draw(numbers: dict, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(2.8, 2.1))
    trained = numbers["trained_positions"]
    axes.plot(range(POSITIONS), numbers["share_outside"], color=figures.COLOURS[0])
    axes.axvspan(0, trained - 1, color="#eeeeee", zorder=0)
    axes.text(trained + 2, 0.02, "← trained", color="#777777", fontsize=8)
    axes.set(xlim=(0, POSITIONS - 1), xlabel="position")
    axes.set(ylim=(0, 1), ylabel="share of the code\noutside the trained span")
    figure.suptitle("Most of a later code is untrained")
    figures.save(figure, path, vector=True)

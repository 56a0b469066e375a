"""Where the twelve heads of the places model look, and what the model loses without each.

A head's window has two to four places, so its whole pattern is one row of a small table.
"""

from pathlib import Path

import torch

from lab.figures import heatmap, plt, save
from lab.hooks import HeadHooks, zero
from problem1.text.dataset import PAD, Pairs, encode, written_before
from problem1.text.lengths import share

# What stands in the windows, in the order of the weights.
WINDOWS = {
    "encoder.0.self": ["itself", "other operand"],
    "decoder.0.self": ["one before", "last symbol"],
    "decoder.0.cross": ["a, place below", "b, place below", "a, own place", "b, own place"],
}


@torch.no_grad()
def study(model, pairs: Pairs) -> dict:
    """{"decoder.0.cross.head2": {"looks": {"a, own place": 0.5, …}, "exact_match_without": {…}}, …}"""
    columns, targets = encode(pairs, "places", "reversed")
    steps, written = targets != PAD, written_before(targets)

    def right(hooks: HeadHooks) -> int:
        predicted = model(columns, written, hooks).argmax(-1)
        hooks.check()
        return int(((predicted == targets) | ~steps).all(1).sum())

    hooks = HeadHooks()
    out = {"all_heads": share(right(hooks), len(pairs)), "heads": {}}
    for module, window in WINDOWS.items():
        pattern = hooks.patterns[module]
        if module == "encoder.0.self":  # [B·P, H, 2, 2]: each operand's digit looks at itself and at the other
            pattern = torch.stack([pattern[..., 0, :], pattern[..., 1, :].flip(-1)]).mean(0)
            pattern = pattern.unflatten(0, targets.shape).transpose(1, 2)
        for head in range(pattern.shape[1]):
            name = f"{module}.head{head}"
            looks = pattern[:, head][steps].mean(0).tolist()
            without = right(HeadHooks({name: zero}, record=False))
            out["heads"][name] = {
                "looks": dict(zip(window, looks, strict=True)),
                "exact_match_without": share(without, len(pairs)),
            }
    return out


def draw(numbers: dict, path: Path) -> None:
    """Three tables of mean attention, from heads.json; beside each head the exact match without it."""
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 4.2), width_ratios=[2, 2, 4])
    for axes, (module, window) in zip(panels, WINDOWS.items(), strict=True):
        heads = {name: head for name, head in numbers["heads"].items() if name.startswith(module)}
        values = [list(head["looks"].values()) for head in heads.values()]
        labels = [f"head{name[-1]}\n{head['exact_match_without']['share']:.1%} without" for name, head in heads.items()]
        image = heatmap(axes, values, labels, window, numbers=True)
        axes.set_xticks(range(len(window)), [text.replace(", ", ",\n").replace(" ", "\n", 1) for text in window])
        axes.set_title(module)
    figure.colorbar(image, ax=panels, label="mean attention", shrink=0.7)
    save(
        figure,
        path,
        "Mean attention over the test sums inside each head's window. Beside each head: exact match when it is set "
        f"to zero (with all heads: {numbers['all_heads']['share']:.1%}).",
    )

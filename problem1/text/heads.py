"""Where each head of the place-value model attends, and what the model loses without it (zero ablation).

A head's window has two or four slots, so its whole pattern is one row of a small table.
"""

from pathlib import Path

import torch

from lab.figures import WIDTH, heatmap, plt, save
from lab.hooks import HeadHooks, zero
from problem1.text.dataset import PAD, Pairs, decoder_inputs, encode
from problem1.text.lengths import share

# What stands in the windows, in the order of the weights, by module ("encoder.0.self" -> "encoder self").
WINDOWS = {
    "encoder self": ["itself", "other operand"],
    "decoder self": ["one before", "last symbol"],
    "decoder cross": ["a, position below", "b, position below", "a, own position", "b, own position"],
}


def window_of(module: str) -> list[str]:
    stack, _, kind = module.split(".")
    return WINDOWS[f"{stack} {kind}"]


@torch.no_grad()
def run(model, pairs: Pairs) -> dict:
    """{"heads": {"decoder.0.cross.head2": {"attention": {"a, own position": 0.5, …}, "exact_match_without": {…}}}}"""
    columns, targets = encode(pairs, "place_value", "reversed")
    steps, written = targets != PAD, decoder_inputs(targets)

    def right(hooks: HeadHooks) -> dict:
        predicted = model(columns, written, hooks).argmax(-1)
        hooks.check()
        return share(int(((predicted == targets) | ~steps).all(1).sum()), len(pairs))

    hooks = HeadHooks()
    out = {"sums": len(pairs), "all_heads": right(hooks), "heads": {}}
    for module, pattern in hooks.patterns.items():
        if module.startswith("encoder"):  # [B·P, H, 2, 2]: each operand's digit attends to itself and to the other
            pattern = torch.stack([pattern[..., 0, :], pattern[..., 1, :].flip(-1)], 2)
        attention = pattern.mean(2)[steps.flatten()].mean(0)  # [B·P, H, queries, window] -> [H, window]
        for head in range(len(attention)):
            name = f"{module}.head{head}"
            out["heads"][name] = {
                "attention": dict(zip(window_of(module), attention[head].tolist(), strict=True)),
                "exact_match_without": right(HeadHooks({name: zero}, record=False)),
            }
    return out


def draw(numbers: dict, path: Path) -> None:
    """One table of mean attention for each module; beside each head the exact match without it."""
    modules: dict[str, dict] = {}
    for name, head in numbers["heads"].items():
        modules.setdefault(name.rpartition(".")[0], {})[name] = head
    widths = [len(window_of(module)) for module in modules]
    figure, panels = plt.subplots(1, len(modules), figsize=(WIDTH, 2.2), width_ratios=widths)
    for axes, (module, heads) in zip(panels, modules.items(), strict=True):
        window = window_of(module)
        values = [list(head["attention"].values()) for head in heads.values()]
        shares = [head["exact_match_without"]["share"] for head in heads.values()]
        labels = [f"head{number}\n{without:.1%} without" for number, without in enumerate(shares)]
        heatmap(axes, values, labels, window, numbers=True)
        axes.set_aspect("auto")
        axes.set_xticks(range(len(window)), [text.replace(", ", ",\n").replace(" ", "\n", 1) for text in window])
        axes.set_title(module)
    save(
        figure,
        path,
        "Mean attention over the test sums inside each head's window. Beside each head: exact match when its output "
        f"is set to zero (with all heads: {numbers['all_heads']['share']:.1%}).",
    )

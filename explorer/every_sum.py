"""The page's engine on all sums of its three-digit model, once: explorer/every_sum.json (eight minutes).

    python explorer/every_sum.py

The same JavaScript as in the page, in V8 without a browser. The page tells the result, as long as the model is the
same.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import lab.installed

from tqdm import tqdm

from explorer import build
from lab.files import UserError, write_json
from lab.settings import run

OUTPUT = build.HERE / "every_sum.json"
MARGINS = """(a, low, high) => {  // of each sum with this first number, the smallest logit margin of its digits
  const pairs = Array.from({ length: high + 1 - low }, (_, k) => [a, low + k]);
  const { sources, targets } = model.tokens(pairs), logits = model.forced(sources, targets, null);
  const margin = (k) => Engine.margin(logits, k * model.vocabulary, model.vocabulary, targets[k]);
  return pairs.map((_, row) => Math.min(...Array.from({ length: model.T }, (_, k) => margin(row * model.T + k))));
}"""


def main(end: int | None = None) -> None:
    """`end`: only sums whose first number is below it."""
    try:
        from py_mini_racer import MiniRacer
    except ImportError:
        raise UserError("mini-racer is not installed: pip install -r requirements-dev.txt.") from None
    packed = build.addition_model()[0]
    digits = packed["settings"]["num_digits"]
    low, high = 10 ** (digits - 1), 10**digits - 1
    end = end or high + 1
    context, errors, smallest = MiniRacer(), 0, float("inf")
    for name in build.ENGINE:
        context.eval(build.source(f"{name}.js"))
    context.eval(f"const model = Engine.load({json.dumps(packed)}), margins = {MARGINS};")
    for a in tqdm(range(low, end), desc="first number", leave=False, disable=None):
        margins = json.loads(context.eval(f"JSON.stringify(margins({a}, {low}, {high}))"))
        errors, smallest = errors + sum(margin <= 0 for margin in margins), min(smallest, *margins)
    context.close()
    pairs = (end - low) * (high + 1 - low)
    found = {
        "pairs": pairs,
        "errors": errors,
        "smallest_margin": smallest,
        "weights": build.weights_digest(packed["tensors"]),
    }
    write_json(OUTPUT, found)
    print(f"{OUTPUT}: {pairs:,} sums, {errors:,} wrong, smallest logit margin {smallest:.3f}")


if __name__ == "__main__":
    run(main, __doc__)

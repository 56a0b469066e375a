"""The page's engine on all sums of its three-digit model, once: report/explorer/every_sum.json (eight minutes).

    python report/explorer/every_sum.py

The same JavaScript as in the page, in V8 without a browser. The page tells the result, as long as the model is the
same.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tqdm import tqdm

from lab.files import UserError, write_json
from lab.settings import parse, run, setting
from report.explorer import build

OUTPUT = build.HERE / "every_sum.json"
COUNT = """(model, from, to, low, high) => {
  let errors = 0, smallest = Infinity;
  for (let a = from; a < to; a++) {
    for (let b = low; b <= high; b += 25) {
      const pairs = Array.from({ length: Math.min(25, high + 1 - b) }, (_, k) => [a, b + k]);
      const { sources, targets } = model.tokens(pairs), logits = model.forced(sources, targets, null);
      for (let row = 0; row < pairs.length; row++) {
        let margin = Infinity;
        for (let k = row * model.T; k < (row + 1) * model.T; k++) {
          margin = Math.min(margin, Engine.margin(logits, k * model.vocabulary, model.vocabulary, targets[k]));
        }
        errors += margin <= 0;
        smallest = Math.min(smallest, margin);
      }
    }
  }
  return [errors, smallest];
}"""


@dataclass(frozen=True)
class Settings:
    first: int | None = setting(None, "only sums whose first number is below this one", minimum=1)


def main(settings: Settings) -> None:
    try:
        from py_mini_racer import MiniRacer
    except ImportError:
        raise UserError("mini-racer is not installed: pip install -r requirements-dev.txt.") from None
    packed = build.addition_model()[0]
    digits = packed["settings"]["num_digits"]
    low, high = 10 ** (digits - 1), 10**digits - 1
    end = min(settings.first or high + 1, high + 1)
    context, errors, smallest = MiniRacer(), 0, float("inf")
    for name in ("engine", "models"):
        context.eval(build.source(f"{name}.js"))
    context.eval(f"const model = Engine.load({json.dumps(packed)}), count = {COUNT};")
    for a in tqdm(range(low, end), desc="first number", leave=False, disable=None):
        wrong, margin = json.loads(context.eval(f"JSON.stringify(count(model, {a}, {a + 1}, {low}, {high}))"))
        errors, smallest = errors + wrong, min(smallest, margin)
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
    run(lambda: main(parse(Settings, __doc__)))

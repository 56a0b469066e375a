"""One training step and one evaluation pass of our models beside torch.nn's, and what share of the machine they use."""

from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import rivals
from benchmarks.timing import PEAK_SIZE, compare, interleaved, matrix_product, onednn_product, summary
from lab.fast import ONEDNN
from lab.hooks import HeadHooks
from problem1.dataset import VOCAB_SIZE, decoder_inputs, every_pair
from problem1.model import Seq2SeqTransformer
from problem1.train import PRECISIONS
from problem1.train import Settings as AdditionSettings
from problem2.dataset import draw
from problem2.model import SortingClassifier
from problem2.train import Settings as SortingSettings

aten = torch.ops.aten
ADDITION_BATCH, SORTING_BATCH = AdditionSettings.batch_size, SortingSettings.batch_size
EVALUATION_BATCH = 2048
LONG = 256  # a length at which problem 2 is asked, with fewer rows at a time
LONG_ROWS = 8


@contextmanager
def products_in(precision: str):
    """Matrix products as train.py's --precision has them."""
    torch.set_float32_matmul_precision(PRECISIONS[precision])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


def training_step(model: nn.Module, inputs: tuple, labels: torch.Tensor, precision: str = "float32"):
    """What both sides do in a step: forward, backward, bound on the gradient's norm, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        model.train()
        with products_in(precision):
            loss = F.cross_entropy(model(*inputs).flatten(0, -2), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def evaluation(model: nn.Module, inputs: tuple, hooks: bool = False, fused: bool = True):
    """One pass without gradients; `hooks`: our heads' weights are kept; `fused`: torch may take its fast path."""

    def run() -> None:
        model.eval()
        torch.backends.mha.set_fastpath_enabled(fused)
        with torch.no_grad():
            model(*inputs, hooks=HeadHooks()) if hooks else model(*inputs)
        torch.backends.mha.set_fastpath_enabled(True)

    return run


def same_outputs(ours: nn.Module, twin: nn.Module, inputs: tuple) -> float:
    """The largest difference; more than rounding would mean that different things are timed."""
    ours.eval(), twin.eval()
    with torch.no_grad():
        difference = (ours(*inputs) - twin(*inputs)).abs().max().item()
    if difference > 1e-4:
        raise RuntimeError(f"our model and torch's differ by {difference:g} with the same weights")
    return difference


def addition_rows(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sources, what the decoder reads, and targets of `count` sums spread over all pairs."""
    sums = every_pair(3)
    chosen = torch.linspace(0, len(sums) - 1, count).long()
    return sums.sources[chosen], decoder_inputs(sums.targets)[chosen], sums.targets[chosen]


class Sides:
    """Our model, its twin, and a twin that is asked for its weights, timed in turns."""

    def __init__(self, ours: nn.Module, make_twin, repetitions: int):
        self.ours, self.twin, self.asking = ours, make_twin(ours), make_twin(ours)
        self.kept, self.repetitions = rivals.Kept(self.asking), repetitions

    def forgetting(self, run):
        """`run`, with the weights of the last time dropped first."""

        def both() -> None:
            self.kept.weights.clear()
            run()

        return both

    def training(self, inputs: tuple, labels: torch.Tensor) -> dict:
        candidates = {
            "ours": training_step(self.ours, inputs, labels),
            "torch": training_step(self.twin, inputs, labels),
            "torch, with weights": self.forgetting(training_step(self.asking, inputs, labels)),
        }
        return compare(candidates, self.repetitions)

    def evaluation(self, inputs: tuple) -> dict:
        candidates = {
            "ours": evaluation(self.ours, inputs),
            "ours, weights kept": evaluation(self.ours, inputs, hooks=True),
            "torch": evaluation(self.twin, inputs),
            "torch, with weights": self.forgetting(evaluation(self.asking, inputs, fused=False)),
        }
        return compare(candidates, max(5, self.repetitions // 3))


def addition(repetitions: int) -> dict:
    """problem1's default sizes, a training step also of twice the rows."""
    torch.manual_seed(0)
    sides = Sides(Seq2SeqTransformer(VOCAB_SIZE), rivals.seq2seq_twin, repetitions)
    *inputs, labels = addition_rows(ADDITION_BATCH)
    *twice, more = addition_rows(2 * ADDITION_BATCH)
    *many, _ = addition_rows(EVALUATION_BATCH)
    return {
        "rival": "nn.Transformer",
        "largest_difference": same_outputs(sides.ours, sides.twin, tuple(inputs)),
        "training": sides.training(tuple(inputs), labels),
        "training_of_twice_the_rows": sides.training(tuple(twice), more),
        "evaluation": sides.evaluation(tuple(many)),
    }


def sorting(repetitions: int) -> dict:
    """problem2's default sizes: a training batch of lengths 8 to 16; evaluation in range and at length 256."""
    torch.manual_seed(0)
    sides = Sides(SortingClassifier(d_ff=128), rivals.classifier_twin, repetitions)
    rows = draw(EVALUATION_BATCH, 8, 16, torch.Generator().manual_seed(0))
    batch, labels = (rows.sequences[:SORTING_BATCH],), rows.labels[:SORTING_BATCH]
    long = (draw(LONG_ROWS, LONG, LONG, torch.Generator().manual_seed(0)).sequences,)
    return {
        "rival": "nn.TransformerEncoder",
        "largest_difference": max(same_outputs(sides.ours, sides.twin, inputs) for inputs in (batch, long)),
        "training": sides.training(batch, labels),
        "evaluation": sides.evaluation((rows.sequences,)),
        f"evaluation_at_{LONG}": sides.evaluation(long),
    }


# Every kind of matrix product in a step, and its like that writes into memory which is there already.
PRODUCTS = {aten.mm.default: aten.mm.out, aten.addmm.default: aten.addmm.out, aten.bmm.default: aten.bmm.out}


class Products(TorchDispatchMode):
    """Notes every matrix product of what runs under it, to be done again alone."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        if function in PRODUCTS:
            self.calls.append((PRODUCTS[function], args, torch.empty_like(result)))
        return result

    def again(self, precision: str):
        """All of them, one after the other: the least that a step of these products can take."""

        def run() -> None:
            with products_in(precision), torch.no_grad():
                for product, args, out in self.calls:
                    product(*args, out=out)

        return run


def share_of_peak(repetitions: int) -> dict:
    """Matrix operations a second of a training step over the machine's peak, measured in turns; bf16 and more rows.

    "float32" is what `a @ b` reaches; oneDNN may reach more (lab/linear.py), and is then the machine's real peak.
    "products_alone": what a step could reach that did nothing but its matrix products.
    """
    products = {"float32": matrix_product(), "bfloat16": matrix_product(dtype=torch.bfloat16)}
    if ONEDNN:
        products["float32, oneDNN"] = onednn_product()
    peaks = interleaved(products, repetitions)
    peak = {name: 2 * PEAK_SIZE**3 / min(seconds) for name, seconds in peaks.items()}
    candidates, alone, operations, rows = {}, {}, {}, {}
    for batch in (ADDITION_BATCH, 2 * ADDITION_BATCH, 16 * ADDITION_BATCH):
        *inputs, labels = addition_rows(batch)
        for name in PRECISIONS:
            torch.manual_seed(0)
            step = training_step(Seq2SeqTransformer(VOCAB_SIZE), inputs, labels, name)
            with FlopCounterMode(display=False) as counter:
                step()
            with Products() as products:
                step()
            key = f"{batch} rows, {name}"
            candidates[key], operations[key], rows[key] = step, counter.get_total_flops(), batch
            alone[key] = products.again(name)
    seconds = interleaved(candidates, max(5, repetitions // 3))
    seconds_alone = interleaved(alone, max(5, repetitions // 3))
    steps = {}
    for key, values in seconds.items():
        median = summary(values)["median_ms"] / 1e3
        steps[key] = summary(values) | {
            "matrix_operations": operations[key],
            "share_of_float32_peak": operations[key] / median / peak["float32"],
            "share_of_onednn_peak": operations[key] / median / peak["float32, oneDNN"] if ONEDNN else None,
            "rows_a_second": rows[key] / median,
            "products_alone": summary(seconds_alone[key]),
        }
        least = steps[key]["products_alone"]["median_ms"] / 1e3
        steps[key]["products_alone"]["share_of_float32_peak"] = operations[key] / least / peak["float32"]
    return {"peak_operations_a_second": peak, "product_size": PEAK_SIZE, "steps": steps}


GROUPS = {  # what PyTorch's operations are for people
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm"),
    "softmax and scaling": tuple(f"aten::{name}" for name in ("amax", "sub", "exp_", "div", "neg", "mul")),
    "copies (heads split and combined)": ("aten::copy_",),
    "ReLU": ("aten::clamp_min", "aten::threshold_backward"),
    "layer norms": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
}


def where_time_goes(steps: int = 20) -> dict[str, float]:
    """Shares of a training step of problem 1 by kind of operation, profiled."""
    *inputs, labels = addition_rows(ADDITION_BATCH)
    step = training_step(Seq2SeqTransformer(VOCAB_SIZE), inputs, labels)
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    spent = {entry.key: entry.self_cpu_time_total for entry in profiler.key_averages()}
    whole = sum(spent.values())
    shares = {name: sum(spent.get(key, 0) for key in keys) / whole for name, keys in GROUPS.items()}
    return shares | {"everything else": 1 - sum(shares.values())}


def measure(repetitions: int, threads: list[int]) -> dict:
    """{"1": {"addition", "sorting", "peak"}, "2": …} by number of threads."""
    before, out = torch.get_num_threads(), {}
    for count in threads:
        torch.set_num_threads(count)
        out[str(count)] = {
            "addition": addition(repetitions),
            "sorting": sorting(repetitions),
            "peak": share_of_peak(repetitions),
            "where_time_goes": where_time_goes(),
        }
    torch.set_num_threads(before)
    return out

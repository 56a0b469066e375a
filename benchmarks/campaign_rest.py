"""Determinism, numerics and memory: the same bits again, finite numbers at the edges, no growth with the epochs."""

import contextlib
import io
import json
import shutil
from pathlib import Path

import torch
from torch.func import functional_call

ROOT = Path(__file__).resolve().parents[1]
from benchmarks.campaign_common import Tally, differences, must_run, run
from benchmarks.campaign_kills import report_tree
from lab.training import Recipe, Task, train
from problem1 import attention as attention1
from problem1.dataset import decoder_inputs, encode, score
from problem1.model import Seq2SeqTransformer
from problem1.train import load_model
from problem2 import attention as attention2
from problem2.dataset import draw
from problem2.model import create_model
from problem2.train import load_trained

ATTENTIONS = (attention1.scaled_dot_product_attention, attention2.scaled_dot_product_attention)
GROWTH = 8.0  # MB that a process may grow by in 45 epochs: what the allocator keeps, not what a leak would take

# --- determinism -------------------------------------------------------------------------------------------------


def determinism(work: Path, epochs: int = 2, rows: int = 20_000) -> Tally:
    tally = Tally()
    if epochs:
        trained_twice(work, epochs, tally)
    digits, sorting = answers(rows)
    for threads in (1, 2):
        for batch in (2048, 333):
            said = answers(rows, threads, batch)
            tally.count("predictions compared", 2 * rows)
            same = torch.equal(said[0], digits) and torch.equal(said[1], sorting)
            tally.check(same, f"{threads} threads and batches of {batch} give other answers")
    stale_results(report_tree(work / "tree"), tally)
    return tally


def trained_twice(work: Path, epochs: int, tally: Tally) -> None:
    """A model of the usual size on the usual rows."""
    flags = ("--epochs", epochs, "--device", "cpu", "--data-dir", work / "rows")
    for name in ("one", "other"):
        must_run(["problem1/train.py", *flags, "--output-dir", work / name])
    tally.count("trainings compared")
    other = differences(work / "one", work / "other")
    tally.check(not other, f"two trainings with the same seed differ in {other}")


@torch.inference_mode()
def answers(rows: int, threads: int = 1, batch: int = 1000) -> tuple[torch.Tensor, torch.Tensor]:
    """What the committed models say: to random sums [rows, 4], to random sequences [rows]."""
    before, generator = torch.get_num_threads(), torch.Generator().manual_seed(1)
    torch.set_num_threads(threads)
    a, b = torch.randint(100, 1000, (2, rows), generator=generator)
    sums, sequences = encode(a, b, 3), draw(rows, 8, 64, generator).sequences
    adder, _, _ = load_model(ROOT / "problem1/results/best_model.pth")
    sorter = load_trained(ROOT / "problem2/results/window/best_model.pth")
    pairs = zip(sums.sources.split(batch), decoder_inputs(sums.targets).split(batch), strict=True)
    said = torch.cat([adder(*pair).argmax(-1) for pair in pairs])
    sorted_ = torch.cat([sorter(part).argmax(-1) for part in sequences.split(batch)])
    torch.set_num_threads(before)
    return said, sorted_


def stale_results(tree: Path, tally: Tally) -> None:
    """report/build.py knows a result that other code has made, by a change that does something, and by no other."""
    build, module, result = tree / "report/build.py", tree / "lab/heads.py", tree / "problem1/results/numbers.json"
    source, recorded = module.read_text(), result.read_text()
    other_digest = json.dumps({"errors": 0, "code": {"lab/heads.py": "0" * 16}})
    cases = [("as it was", module, source, 0), ("a comment", module, source + "\n# why\n", 0)]
    cases += [("a statement", module, source + "\nMORE = 1\n", 2), ("another digest", result, other_digest, 2)]
    for what, path, text, expected in cases:
        path.write_text(text)
        code, _, errors = run([build, "--output", tree / "report.pdf"])
        tally.count("staleness checks")
        fine = code == expected and ("out of date" in errors) == (expected == 2)
        tally.check(fine, f"{what}: the report ends with exit code {code}: {errors[-200:]}")
        module.write_text(source)
        result.write_text(recorded)


# --- numerics ----------------------------------------------------------------------------------------------------


def numerics(keys: int = 20_000) -> Tally:
    tally = Tally()
    torch.manual_seed(0)
    for attention in ATTENTIONS:
        name = attention.__module__
        for what, weights, output in extremes(attention, keys):
            tally.count("extreme inputs")
            sums = weights.sum(-1)
            fine = torch.isfinite(output).all() and torch.isfinite(weights).all()
            proper = ((sums - 1).abs().lt(1e-4) | (sums == 0)).all()
            tally.check(bool(fine and proper), f"{name}, {what}: not finite, or weights that do not sum to 1 or 0")
        q, k, v = (torch.randn(2, 3, 4, dtype=torch.double, requires_grad=True) for _ in range(3))
        for mask in (None, torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]])):
            tally.count("gradients checked")
            right = torch.autograd.gradcheck(lambda *x, m=mask, a=attention: a(*x, m), (q, k, v), raise_exception=False)
            tally.check(right, f"{name}: its gradients are not those of finite differences")
    for name, model, inputs in small_models():
        tally.count("gradients checked")
        tally.check(gradients_right(model, inputs), f"{name}: its gradients are not those of finite differences")
    return tally


def extremes(attention, keys: int):
    """(what it is, weights, output) for masks that allow nothing, long rows, and numbers at the ends of the range."""
    q, k, v = (torch.randn(2, 2, 6, 8) for _ in range(3))
    nothing = torch.ones(6, 6)
    nothing[2] = 0
    inputs = {"a row without keys": (q, k, v, nothing), "no keys at all": (q, k, v, torch.zeros(6, 6))}
    inputs["a long row"] = (q, torch.randn(2, 2, keys, 8), torch.randn(2, 2, keys, 8), None)
    for size in (1e4, -1e4):  # of the scores themselves
        target = torch.randn(2, 2, 6, 6).sign() * size
        inputs[f"logits of {size:g}"] = (torch.eye(6).expand(2, 2, 6, 6) * 6**0.5, target.mT, v, None)
        inputs[f"masked logits of {size:g}"] = (torch.eye(6).expand(2, 2, 6, 6) * 6**0.5, target.mT, v, nothing)
    for size in (1e-42, 1e-38, 1e15):
        inputs[f"numbers about {size:g}"] = (q * size, k * size, v * size, None)
    for what, (*three, mask) in inputs.items():
        output, weights = attention(*three, mask)
        yield what, weights, output


def small_models():
    tokens = torch.tensor([[1, 10, 2], [3, 10, 4]])
    model = Seq2SeqTransformer(13, 4, 2, 1, 1, 4, 0.0, 4)
    yield "the model of sums", model, (tokens, torch.tensor([[11, 0], [11, 1]]))
    for encoding in ("sinusoidal", "learned", "rope", "alibi", "window", "none"):
        model = create_model(encoding, d_model=4, num_heads=2, num_layers=1, d_ff=4, max_len=6)
        yield f"the model of sequences, {encoding}", model, (torch.tensor([[3, 50, 7], [1, 2, 100]]),)


def gradients_right(model, inputs) -> bool:
    """By finite differences in float64, for every parameter but the rows of tables that nothing here reads."""
    model = model.double().eval()
    names = [name for name, parameter in model.named_parameters() if parameter.numel() <= 40]
    values = [model.get_parameter(name).detach().clone().requires_grad_() for name in names]

    def call(*given):
        return functional_call(model, dict(zip(names, given, strict=True)), inputs)

    return torch.autograd.gradcheck(call, values, raise_exception=False)


# --- memory ------------------------------------------------------------------------------------------------------


def resident() -> float:
    """MB of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def memory(work: Path, epochs: int = 50) -> Tally:
    """A training of many epochs: what the process takes after the fifth, and after the last."""
    tally, taken = Tally(), []
    sums = encode(*torch.randint(100, 1000, (2, 512), generator=torch.Generator().manual_seed(0)), 3)
    rows, few = (sums.sources, sums.targets), (sums.sources[:64], sums.targets[:64])

    def counted(model, batch):
        if not model.training:
            taken.append(resident())
        return score(model, batch)

    torch.manual_seed(0)
    model = Seq2SeqTransformer(13, 16, 2, 1, 1, 16, 0.1, 8)
    with contextlib.redirect_stdout(io.StringIO()):
        train(model, Task("toy", rows, few, few, counted), Recipe(epochs, 64, 1e-3), {"seed": 1}, work, 1, False)
    shutil.rmtree(work)
    growth = taken[epochs - 1] - taken[4]
    tally.count("epochs", epochs)
    tally.count("growth, MB", round(growth, 2))
    tally.check(growth < GROWTH, f"{growth:.1f} MB more after epoch {epochs} than after epoch 5")
    return tally

"""The page's engine gives the numbers of the torch models in double: every logit, pattern and intervention."""

import base64
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beyond.any_length import checkpoint as text_trained
from beyond.any_length.dataset import decoder_inputs as text_inputs
from beyond.any_length.dataset import encode as encode_text
from beyond.schemes import runs
from explorer import build
from lab.hooks import Head, Hooks, head_names, replace, zero
from problem1 import checkpoint as addition_trained
from problem1.analysis.carry_pairs import all_groups
from problem1.analysis.rows import sums_of
from problem1.dataset import Sums, carries, decoder_inputs

mini_racer = pytest.importorskip("py_mini_racer", reason="mini-racer, which runs JavaScript, is not installed")
NEAR = 1e-9
operands = st.integers(100, 999)


@pytest.fixture(scope="module")
def javascript():
    context = mini_racer.MiniRacer()
    for name in (*build.ENGINE, "tools"):
        context.eval(build.source(f"{name}.js"))
    context.eval(
        """const models = {}, call = (body, input) => JSON.stringify(new Function("input", "m", body)(input, models));
        const list = (x, n = x.length) => Array.from(x.subarray(0, n));"""
    )

    def call(body: str, value: object = None):
        return json.loads(context.eval(f"call({json.dumps(body)}, {json.dumps(value)})"))

    call.add = lambda name, packed: context.eval(f"models[{json.dumps(name)}] = Engine.load({json.dumps(packed)}); 0")
    yield call
    context.close()


def decoded(tensor: dict) -> torch.Tensor:
    """One tensor of the page, decoded by other means than the engine's."""

    def numbers(key, dtype):
        return torch.from_numpy(np.frombuffer(base64.b64decode(tensor[key]), dtype).copy()).double()

    if "f32" in tensor:
        return numbers("f32", "<f4").reshape(tensor["shape"])
    return numbers("i8", "i1").reshape(tensor["shape"]) * numbers("scale", "<f4")[:, None]


@pytest.fixture(scope="module")
def models(javascript):
    """Every model of the page in torch, with the page's weights; in double precision, position codes too."""
    packed = {"digits": build.addition_model()[0], "text": build.text_model()}
    packed |= {name: build.sorting_model(name)[0] for name in build.IN_PAGE}
    rebuild = {"addition": addition_trained.build, "text": text_trained.build, "sorting": runs.build}
    torch.set_default_dtype(torch.float64)
    found = {}
    for name, content in packed.items():
        javascript.add(name, content)
        found[name] = rebuild[content["kind"]](content["settings"]).eval()
        found[name].load_state_dict({key: decoded(tensor) for key, tensor in content["tensors"].items()})
    yield found
    torch.set_default_dtype(torch.float32)


def close(found, expected: torch.Tensor) -> None:
    found = torch.tensor(found).reshape(expected.shape)
    assert (found - expected).abs().max() < NEAR * max(1.0, expected.abs().max().item())


@given(st.floats(-800, 0))
def test_exp(javascript, x):
    found = javascript("return Engine.exp(input)", x)
    assert found == pytest.approx(math.exp(x), rel=4.4e-16, abs=1e-320)  # two units in the last place


@given(st.floats(0, 5000))
def test_sine_and_cosine(javascript, x):
    assert javascript("return Engine.sinCos(input)", x) == pytest.approx([math.sin(x), math.cos(x)], abs=4e-16)


def kind_of_pair(a: int, b: int, c: int, d: int) -> tuple[int, int] | None:
    """(target, nines), by the conditions that carry_pairs.make_group draws by; else None."""
    pairs = sums_of([(a, b), (c, d)], 3)
    first, second = pairs.operands()
    changed = (first[0] != first[1]).nonzero().flatten().tolist()
    if b != d or len(changed) != 1:
        return None
    carry, source = carries(pairs), changed[0]
    for nines in range(source + 1):
        columns = range(source - nines, source + 1)
        nine = all(first[0, k] + second[0, k] == 9 for k in columns[:-1])
        if nine and (carry[0] != carry[1]).nonzero().flatten().tolist() == list(columns):
            return columns[0], nines
    return None


def numbers_of(sums: Sums) -> tuple[list[int], list[int]]:
    return tuple((digits @ torch.tensor([100, 10, 1])).tolist() for digits in sums.operands())


def carry_kind(javascript, *numbers: int) -> tuple[int, int] | None:
    found = javascript("return Tools.carryKind(input)", list(map(str, numbers)))
    return found and (found["target"], found["nines"])


def test_the_kind_of_the_pairs_that_the_analysis_draws(javascript):
    groups = all_groups(3, 40)
    assert len(groups) == 6
    for group in groups:
        clean, corrupted = group.clean_and_corrupted()
        for numbers in zip(*numbers_of(clean), *numbers_of(corrupted), strict=True):
            assert carry_kind(javascript, *numbers) == (group.target, group.nines) == kind_of_pair(*numbers)


@given(operands, operands, st.integers(0, 2), st.integers(0, 9), st.booleans())
@example(500, 500, 0, 5, False)
@example(123, 999, 0, 9, True)
def test_the_kind_of_any_pair(javascript, a, b, place, digit, second_too):
    """One digit of the first number changed, or another second number, too."""
    c = a + (digit - a // 10**place % 10) * 10**place
    d = 1099 - b if second_too else b
    if c >= 100 and 100 <= d <= 999:
        assert carry_kind(javascript, a, b, c, d) == kind_of_pair(a, b, c, d)


@given(
    st.lists(st.integers(0, 99), min_size=2, max_size=40), st.integers(0, 99), st.sampled_from(["swaps", "neighbours"])
)
def test_values_put_out_of_order(javascript, values, seed, disorder):
    values.sort()
    body = "return Tools.disordered(Tools.random(input.seed), input.values, input.disorder)"
    found = javascript(body, {"values": values, "seed": seed, "disorder": disorder})
    assert sorted(found) == values and (found != values or values[0] == values[-1])


RUN = """
const t = m.digits.tokens(input.pairs), hooks = new Engine.Hooks(input.interventions, true);
for (const change of Object.values(hooks.interventions)) change.value = change.value && Float64Array.from(change.value);
const logits = m.digits.forced(t.sources, t.targets, hooks);
const plain = (record) => Object.fromEntries(Object.entries(record).map(([k, v]) => [k, Array.from(v)]));
return {logits: Array.from(logits.subarray(0, t.targets.length * m.digits.vocabulary)), patterns: plain(hooks.patterns),
  outputs: plain(hooks.outputs), heads: m.digits.headNames};
"""


@settings(max_examples=20)
@given(st.data())
def test_addition_every_logit_pattern_and_output(javascript, models, data):
    """Under no intervention or several: zero, the same numbers for all sums (mean ablation), and another run's outputs
    at some positions (patching)."""
    model, pairs = models["digits"], data.draw(st.lists(st.tuples(operands, operands), min_size=1, max_size=3))
    heads = data.draw(st.lists(st.sampled_from(head_names(model)), max_size=6, unique=True))
    ours, theirs = {}, {}
    for head in heads:
        length = 7 if Head.parse(head).side == "encoder" else 4
        generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
        kind = data.draw(st.sampled_from(["zero", "mean", "patch"]))
        value = torch.randn(*((len(pairs),) if kind == "patch" else ()), length, 16, generator=generator)
        positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, unique=True))
        ours[head] = {"zero": zero, "mean": replace(value), "patch": replace(value, positions)}[kind]
        theirs[head] = {"value": None if kind == "zero" else value.flatten().tolist()}
        theirs[head]["positions"] = positions if kind == "patch" else None
    sums = sums_of(pairs, 3)
    with Hooks(model, ours) as hooks:
        expected = model(sums.sources, decoder_inputs(sums.targets))
    found = javascript(RUN, {"pairs": pairs, "interventions": theirs})
    close(found["logits"], expected)
    assert found["heads"] == head_names(model)
    for head in found["heads"]:
        close(found["patterns"][head], hooks.pattern(head))
        close(found["outputs"][head], hooks.output(head))


@settings(max_examples=10)
@given(operands, operands, st.sets(st.integers(0, 23)))
def test_greedy_answers_with_heads_off(javascript, models, a, b, off):
    """Decoding one digit at a time, whatever the model writes."""
    heads = [head_names(models["digits"])[number] for number in off]
    sums, written = sums_of([(a, b)], 3), [11]
    for _ in range(4):
        with Hooks(models["digits"], dict.fromkeys(heads, zero)):
            logits = models["digits"](sums.sources, torch.tensor([written]))
        written.append(int(logits[0, -1].argmax()))
    found = javascript(
        """const t = m.digits.tokens([input.pair]);
        const off = Object.fromEntries(input.heads.map((head) => [head, {value: null}]));
        return Array.from(m.digits.answer(t.sources, t.targets, new Engine.Hooks(off)).answers)""",
        {"pair": [a, b], "heads": heads},
    )
    assert found == written[1:]


numbers = st.integers(0, 10**12).map(str)


@given(numbers, numbers)
def test_text_every_step(javascript, models, a, b):
    columns, targets = encode_text([(a, b)])
    expected = models["text"](columns, text_inputs(targets))[0]
    steps = javascript(
        "return m.text.add(...input).map((s) => ({...s, logits: list(m.text.contextLogits(...s.context))}))", [a, b]
    )
    written = "".join(str(step["symbol"]) for step in steps[:-1])
    assert written[::-1] == str(int(a) + int(b)) and steps[-1]["symbol"] == 14
    for step, logits in zip(steps, expected, strict=False):
        close(step["logits"], logits)


def neighbours(pattern: torch.Tensor) -> torch.Tensor:
    """The mean weight of the key before, the key itself and the key after."""
    return torch.stack([pattern.diagonal(offset).mean() for offset in (-1, 0, 1)])


@settings(max_examples=6)
@given(st.lists(st.integers(0, 99), min_size=2, max_size=40), st.booleans())
@example([*range(100)] * 3, True)  # beyond tables and buckets
@example([*range(100)] * 6, True)  # beyond the span of random positions
def test_sorting_every_scheme(javascript, models, sequence, in_order):
    sequence = sorted(sequence) if in_order else sequence
    tokens = torch.tensor([sequence])
    for name in build.IN_PAGE:
        with Hooks(models[name]) as hooks:
            votes = models[name].votes(tokens)[0][0]
        found = javascript(
            "const r = m[input.name].run(input.tokens); return {...r, votes: list(r.votes)}",
            {"name": name, "tokens": sequence},
        )
        close(found["votes"], votes)
        close(found["logits"], models[name](tokens)[0])
        for head, weights in found["neighbours"].items():
            close(weights, neighbours(hooks.pattern(head)[0]))


def test_changed_position_codes(javascript, models, monkeypatch):
    """Squeezed waves and removed directions, against the same codes in torch."""
    model, T = models["course/sinusoidal"], 40
    tokens = torch.arange(T) * 2
    positions = torch.arange(T, dtype=torch.double)
    true, squeezed = model.scheme.code(positions), model.scheme.code(positions * 15 / (T - 1))
    some = true.clone()
    some[:, 2:8] = squeezed[:, 2:8]  # waves 1 to 3, a sine and a cosine each
    projection = build.projection_on_trained_codes(model.scheme, 16)
    assert torch.linalg.matrix_rank(projection) == 7
    changes = [({"squeezed": [1, 2, 3]}, some), ({"projection": projection.flatten().tolist()}, true @ projection)]
    for change, codes in changes:
        found = javascript(
            "return list(m['course/sinusoidal'].run(input.tokens, input.change).votes)",
            {"tokens": tokens.tolist(), "change": change},
        )
        monkeypatch.setattr(model.scheme, "forward", lambda x, positions, codes=codes: x + codes)
        close(found, model.votes(tokens[None])[0][0])

"""The theorem on the committed model: evaluations lie inside their radii, and faults in a certificate are refused."""

import copy
import json
import pickle
import zipfile
from functools import partial
from hashlib import sha256

import numpy as np
import pytest
import torch

from beyond.any_length import check_proof, proof
from beyond.any_length.checkpoint import MODEL, load_model
from beyond.any_length.float_bounds import bound
from beyond.any_length.local_contexts import every_local_context, right_symbols
from beyond.rounding.bounds import UNITS, Rounding
from lab.files import UserError
from tests.archives import DISTURBED

FEW = (0, 1, 9)


@pytest.fixture(scope="module")
def model():
    return load_model(MODEL)[0]


@pytest.fixture(scope="module")
def content():
    return check_proof.read_checkpoint(MODEL)


@pytest.fixture(scope="module")
def few(model, content):
    """The certificate of numbers with few digits."""
    found = proof.run(model, FEW, far=20, exp_step=4096)
    first, last = (int(torch.tensor(x).view(torch.int32)) for x in (2.0**-30, -float(found["exp"]["from"])))
    found["exp"]["values"] = last - first + 1  # as if every float32 had been tried
    return json.loads(json.dumps(found | {"config": {}, "versions": {}, "seed": 641, "model": content["settings"]}))


def test_the_committed_certificate_holds_and_none_is_refused_with_exit_code_1(script, tmp_path):
    """All 254,190 local contexts, both precisions, by a second implementation."""
    result = script("beyond/any_length/check_proof.py")
    assert result.returncode == 0 and result.stdout.endswith("The certificate holds.\n")
    assert result.stdout.count("254,190 contexts") == 3
    assert "wrong in 0 of 254,190 contexts; the thinnest margin is 11.33" in result.stdout
    result = script("beyond/any_length/check_proof.py", tmp_path)
    assert result.returncode == 1 and "refused" in result.stderr and "Traceback" not in result.stderr


def test_what_comes_next_is_what_the_sums_say():
    expected = every_local_context(FEW)
    symbols = right_symbols(torch.tensor(list(expected))).tolist()
    theirs = zip(symbols, expected.values(), strict=True)
    assert check_proof.enumerate_contexts(FEW) == dict(zip(expected, theirs, strict=True))
    assert all(check_proof.in_words(context) == str(context) for context in expected)


def in_another_order(model, seed: int):
    """The same function, with the hidden units of its feed-forward layers in another order."""
    model = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    for layer in (*model.encoder, *model.decoder):
        order = torch.randperm(layer.feed_forward.inner.out_features, generator=generator)
        for part in (layer.feed_forward.inner.weight, layer.feed_forward.inner.bias):
            part.data = part.data[order]
        layer.feed_forward.outer.weight.data = layer.feed_forward.outer.weight.data[:, order]
    return model


@pytest.mark.parametrize("precision", [*UNITS])
@torch.no_grad()
def test_evaluations_in_other_orders_and_libraries_lie_inside(model, content, precision):
    expected = every_local_context(FEW)
    contexts = torch.tensor(list(expected))
    found = bound(model, contexts, right_symbols(contexts), UNITS[precision])
    dtype = torch.float64 if precision == "float64" else torch.float32
    for seed in range(3):
        steps, _, logits = proof.run_on(in_another_order(model, seed).to(dtype), list(expected.values()))
        index, known = proof.find(steps, contexts)
        distance = (logits[known].double() - found.logits[index]).abs().amax(1)
        assert (distance <= found.logit_radius[index]).all() and distance.max() > 0
    bounds, right = check_proof.Bounds(content["model"], UNITS[precision]), right_symbols(contexts)
    for symbol in right.unique():
        rows, others = right == symbol, torch.arange(found.above.shape[1]) != symbol
        above, radius = bounds.model(contexts[rows].numpy(), int(symbol))
        theirs, reach = found.above[rows][:, others].numpy(), found.radius[rows][:, others].numpy()
        assert (np.abs(above - theirs) <= np.minimum(radius, reach)).all()


@pytest.mark.parametrize("reach", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("precision", [*UNITS])
@torch.no_grad()
def test_a_layer_lies_inside_what_check_proof_bounds(model, content, precision, reach):
    """Inputs moved by as much as their radius allows: through one product, and through the whole encoder layer."""
    bounds, generator = check_proof.Bounds(content["model"], UNITS[precision]), torch.Generator()
    dtype = torch.float64 if precision == "float64" else torch.float32
    middle, push = torch.randn(2, 400, 16, generator=generator.manual_seed(0))
    moved = (middle + push / push.norm(dim=1, keepdim=True) * reach * 0.999).to(dtype)
    layer, start = copy.deepcopy(model.encoder[0]).to(dtype), (middle.double().numpy(), np.full(400, reach))
    product = bounds.linear(start, None, "encoder.0.feed_forward.inner"), layer.feed_forward.inner(moved)
    window, name = np.arange(400).reshape(200, 2).repeat(2, 0), "encoder.0.attention"
    x = bounds.attention(start, name + "_norm", start, name + "_norm", window, window >= 0, name)
    whole = bounds.feed_forward(x, "encoder.0."), layer(moved.unflatten(0, (200, 2))).flatten(0, 1)
    for (expected, radius), computed in (product, whole):
        distance = np.linalg.norm(computed.double().numpy() - expected, axis=1)
        assert (distance <= radius).all() and distance.max() > radius.min() / 1000


def test_a_bound_that_leaves_something_out_is_noticed(model, monkeypatch):
    """Planted in the prover: a bias is forgotten, rounding is taken for smaller. Then evaluations lie outside."""
    run = partial(proof.run, model, digits=FEW, far=20, exp_step=4096)
    assert run()["proven"]
    linear = Rounding.linear

    def without_bias(self, x, module, heads=None):
        other = copy.deepcopy(module)
        other.bias.data.zero_()
        return linear(self, x, other, heads)

    monkeypatch.setattr(Rounding, "linear", without_bias)
    assert not run()["proven"]
    monkeypatch.setattr(Rounding, "linear", linear)
    monkeypatch.setitem(UNITS, "float32", 2.0**-50)
    assert not run()["proven_in_float32"]


def changed(value, path: str, new):
    """A copy of nested dicts with one entry changed: path "rounding.float32.holds"; `new` may be a function of the
    old value."""
    value, (first, _, rest) = dict(value), path.partition(".")
    value[first] = changed(value[first], rest, new) if rest else new(value[first]) if callable(new) else new
    return value


FALSE = {  # a statement, and what it must not be
    "proven": [False, "false", 1],
    "proven_in_float32": [False, "false"],
    "rounding.float64.holds": [False, "yes"],
    "rounding.float32.holds": [False],
    "rounding.float32.largest_radius": [lambda radius: radius / 2, 2.0, float("inf")],
    "rounding.float64.largest_radius": [lambda radius: radius / 2, 1e-3, "small"],
    "rounding.float32.smallest_reserve": [lambda reserve: reserve * 1.01, 1.0, -float("inf")],
    "rounding.float64.smallest_reserve": [lambda reserve: reserve * 1.01, 1.0],
    "rounding.float32.smallest_margin": [50, lambda margin: margin + 1e-6],
    "rounding.float64.smallest_margin": [50, lambda margin: margin - 1e-6],
    "smallest_margin": [50, lambda margin: margin + 0.01],
    "smallest_margin_at": [{"local_context": "here", "sum": "1 + 1"}],
    "smallest_margin_at.sum": ["1 + 1"],
    "margin_histogram.counts": [lambda counts: counts[::-1], lambda counts: [*counts[:-2], counts[-1]]],
    "margin_histogram.edges": [lambda edges: [edge + 1 for edge in edges]],
    "failures": [5, -1, False],
    "covered": [100],
    "sums": [7],
    "steps": [lambda steps: steps + 1],
    "longest_operand": [50],
    "local_contexts": [lambda number: number - 1],
    "steps_in_a_context_not_enumerated": [7],
    "locality.changed_from_outside": [3],
    "locality.changed_from_inside_least": [0],
    "measured.all_sums.share_of_radius": [2.0],
    "measured.all_sums.distance": [1.0],
    "measured.float64.precision": ["float32"],
    "exp.values": [1],
    "exp.from": [-1e9, -1, 0],
    "exp.largest_error_in_ulp.numpy": [-1, 4.5],
    "exp.largest_error_in_ulp": [{}],
    "argument": [[], lambda argument: argument[:-1]],
    "assumptions": [lambda assumptions: [*assumptions[:-1], "Nothing."]],
    "contexts_sha256": ["0" * 64],
    "weights_sha256": ["0" * 64],
    "model.num_heads": [4],
    "seed": [1],
}


@pytest.mark.parametrize("path", FALSE)
def test_a_false_statement_of_a_certificate_is_refused(few, content, path):
    for new in FALSE[path]:
        with pytest.raises(ValueError):
            check_proof.check(changed(few, path, new), content, FEW)


def test_a_certificate_is_for_all_digits_and_has_all_fields(few, content):
    assert [*check_proof.check(few, content, FEW)] == [*UNITS]
    with pytest.raises(ValueError, match="local contexts"):
        check_proof.check(few, content, (0, 1, 2, 9))  # fewer were proven than there are
    check_proof.check(few | {"fingerprint": None}, content, FEW)  # as earlier certificates have it
    for other in ({name: few[name] for name in few if name != "exp"}, few | {"checked by": "an expert"}):
        with pytest.raises(ValueError, match="field"):
            check_proof.check(other, content, FEW)


def test_weights_and_settings_of_other_models_are_refused(few, content):
    def refused(words: str, **changes) -> None:
        weights = {name: weight for name, weight in (content["model"] | changes).items() if weight is not None}
        digest = sha256(b"".join(name.encode() + weight.tobytes() for name, weight in sorted(weights.items())))
        with pytest.raises(ValueError, match=words):
            check_proof.check(few | {"weights_sha256": digest.hexdigest()}, content | {"model": weights}, FEW)

    bias, norm = content["model"]["output.bias"], content["model"]["encoder_norm.bias"]
    refused("other layers", **{"encoder.1.attention_norm.bias": norm})
    refused("other layers", **{"encoder_norm.bias": None})
    refused("other layers", **{"output.bias": bias.reshape(4, 4)})
    refused("not finite", **{"output.bias": bias * np.float32("nan")})
    for name, new in (("num_heads", 4), ("d_ff", 64)):
        settings = content["settings"] | {name: new}
        with pytest.raises(ValueError, match="other layers"):
            check_proof.check(few | {"model": settings}, content | {"settings": settings}, FEW)
    with pytest.raises(ValueError, match="other weights"):
        more = content["model"] | {"output.bias": bias + np.float32(1e-6)}
        check_proof.check(few, content | {"model": more}, FEW)


def test_a_wrong_weight_is_refused_even_with_its_own_digest(few, content):
    """What the margins were computed from decides, not a digest."""
    weights = dict(content["model"])
    weights["decoder.0.feed_forward.inner.weight"] = weights["decoder.0.feed_forward.inner.weight"] * np.float32(0.9)
    model = load_model(MODEL)[0]
    model.load_state_dict({name: torch.from_numpy(weight.copy()) for name, weight in weights.items()})
    with pytest.raises(ValueError, match=r"radius|reserve|margin"):
        check_proof.check(few | {"weights_sha256": proof.digest_of_weights(model)}, content | {"model": weights}, FEW)


@pytest.mark.parametrize(
    ("text", "words"),
    [('{"proven": true, "proven": false}', "twice"), ('{"margin": NaN}', "NaN"), ("[]", "no certificate")],
)
def test_a_certificate_that_two_readers_could_read_in_two_ways_is_refused(script, tmp_path, text, words):
    (tmp_path / "proof.json").write_text(text)
    result = script("beyond/any_length/check_proof.py", tmp_path)
    assert result.returncode == 1 and words in result.stderr and len(result.stderr.splitlines()) == 1


def test_the_checkpoint_is_read_without_torch_and_without_running_anything(tmp_path, content):
    weights, state = content["model"], torch.load(MODEL, weights_only=True)["model"]
    assert list(weights) == list(state)
    assert all(np.array_equal(weights[name], state[name].numpy()) for name in state)
    with zipfile.ZipFile(tmp_path / "bad.pth", "w") as archive:
        archive.writestr("bad/data.pkl", pickle.dumps({"model": print}))
    with pytest.raises(ValueError, match="wants"):
        check_proof.read_checkpoint(tmp_path / "bad.pth")


def test_a_tensor_that_torch_would_negate_is_refused(tmp_path):
    """Behind its numbers a tensor may carry bits that change them when torch loads it."""
    saved = torch.load(MODEL, weights_only=True)
    saved["model"]["output.bias"] = torch._neg_view(saved["model"]["output.bias"])
    torch.save(saved, tmp_path / "negated.pth")
    with pytest.raises(ValueError, match="more than its numbers"):
        check_proof.read_checkpoint(tmp_path / "negated.pth")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", DISTURBED)
def test_an_archive_that_torch_reads_in_another_way_is_refused(tmp_path, name):
    path = tmp_path / "best_model.pth"
    DISTURBED[name](MODEL, path)
    with pytest.raises((ValueError, zipfile.BadZipFile)):
        check_proof.read_checkpoint(path)
    with pytest.raises(UserError, match=r"best_model\.pth is damaged or not a PyTorch checkpoint"):
        load_model(path)

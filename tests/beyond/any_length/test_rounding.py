"""The theorem on the committed model: evaluations lie inside their radii, and faults in a certificate are refused."""

import copy
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

FEW = (0, 1, 9)


@pytest.fixture(scope="module")
def model():
    return load_model(MODEL)[0]


@pytest.fixture(scope="module")
def few(model):
    """The certificate of numbers with few digits."""
    contexts = torch.tensor(list(every_local_context(FEW)))
    found = proof.certify(model, contexts, exp_step=4096)[1]
    return found | {"proven": True, "proven_in_float32": True, "local_contexts": len(contexts)}


def test_the_committed_certificate_holds_and_none_is_refused_with_exit_code_1(script, tmp_path):
    """All 254,190 local contexts, both precisions, by a second implementation."""
    result = script("beyond/any_length/check_proof.py")
    assert result.returncode == 0 and result.stdout.endswith("The certificate holds.\n")
    assert result.stdout.count("254,190 contexts") == 2
    result = script("beyond/any_length/check_proof.py", tmp_path)
    assert result.returncode == 1 and "refused" in result.stderr and "Traceback" not in result.stderr


def test_what_comes_next_is_what_the_sums_say():
    expected = every_local_context(FEW)
    assert check_proof.enumerate_contexts(FEW) == dict(
        zip(expected, right_symbols(torch.tensor(list(expected))).tolist(), strict=True)
    )


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
def test_evaluations_in_other_orders_and_libraries_lie_inside(model, precision):
    expected = every_local_context(FEW)
    contexts = torch.tensor(list(expected))
    found = bound(model, contexts, right_symbols(contexts), UNITS[precision])
    dtype = torch.float64 if precision == "float64" else torch.float32
    for seed in range(3):
        steps, _, logits = proof.run_on(in_another_order(model, seed).to(dtype), list(expected.values()))
        index, known = proof.find(steps, contexts)
        distance = (logits[known].double() - found.logits[index]).abs().amax(1)
        assert (distance <= found.logit_radius[index]).all() and distance.max() > 0
    bounds, right = check_proof.Bounds(check_proof.read_weights(MODEL), UNITS[precision]), right_symbols(contexts)
    for symbol in right.unique():
        rows, others = right == symbol, torch.arange(found.above.shape[1]) != symbol
        above, radius = bounds.model(contexts[rows].numpy(), int(symbol))
        theirs, reach = found.above[rows][:, others].numpy(), found.radius[rows][:, others].numpy()
        assert (np.abs(above - theirs) <= np.minimum(radius, reach)).all()


@pytest.mark.parametrize("reach", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("precision", [*UNITS])
@torch.no_grad()
def test_a_layer_lies_inside_what_check_proof_bounds(model, precision, reach):
    """Inputs moved by as much as their radius allows: through one product, and through the whole encoder layer."""
    bounds, generator = check_proof.Bounds(check_proof.read_weights(MODEL), UNITS[precision]), torch.Generator()
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


def test_faults_in_a_certificate_are_refused(few):
    weights = check_proof.read_weights(MODEL)
    proven = check_proof.check(few, weights, FEW)

    def refused(words: str, weights=weights, digits=FEW, **changes) -> None:
        with pytest.raises(ValueError, match=words):
            check_proof.check(few | changes, weights, digits)

    def claim(precision: str, **changes) -> dict:
        return few["rounding"] | {precision: few["rounding"][precision] | changes}

    assert [*proven] == [*UNITS]
    for precision, (reserve, radius) in proven.items():
        refused("not proven", rounding=claim(precision, holds=False))
        refused("radius", rounding=claim(precision, largest_radius=radius * 0.999))
        refused("reserve", rounding=claim(precision, smallest_reserve=reserve * 1.001))
        own = claim(precision, largest_radius=radius, smallest_reserve=reserve)
        check_proof.check(few | {"rounding": own}, weights, FEW)
    refused("assumptions", assumptions=[*few["assumptions"][:-1], "Nothing."])
    refused("local contexts", local_contexts=few["local_contexts"] - 1)
    refused("local contexts", contexts_sha256="0" * 64)
    refused("local contexts", digits=(0, 1, 2, 9))  # fewer were proven than there are
    refused("fingerprint", fingerprint=few["fingerprint"] | {"sha256": "0" * 64})
    refused("fingerprint", fingerprint=few["fingerprint"] | {"grid": 2.0**-40})
    for changes in ({"largest_error_in_ulp": {"torch": 4.5, "numpy": 1}}, {"largest_error_in_ulp": {}}, {"from": -1}):
        refused("exp", exp=few["exp"] | changes)
    refused("other weights", weights | {"output.bias": weights["output.bias"] + np.float32(1e-6)})
    more = weights | {"encoder.1.attention_norm.bias": weights["encoder.0.attention_norm.bias"]}
    digest = sha256(b"".join(name.encode() + weight.tobytes() for name, weight in sorted(more.items()))).hexdigest()
    refused("layers", more, weights_sha256=digest)


def test_a_wrong_weight_is_refused_even_with_its_own_digest(few):
    """What the margins were computed from decides, not a digest."""
    weights = dict(check_proof.read_weights(MODEL))
    weights["decoder.0.feed_forward.inner.weight"] = weights["decoder.0.feed_forward.inner.weight"] * np.float32(0.9)
    model = load_model(MODEL)[0]
    model.load_state_dict({name: torch.from_numpy(weight.copy()) for name, weight in weights.items()})
    with pytest.raises(ValueError, match=r"stated|fingerprint"):
        check_proof.check(few | {"weights_sha256": proof.digest_of_weights(model)}, weights, FEW)


def test_the_checkpoint_is_read_without_torch_and_without_running_anything(tmp_path):
    weights, state = check_proof.read_weights(MODEL), torch.load(MODEL, weights_only=True)["model"]
    assert list(weights) == list(state)
    assert all(np.array_equal(weights[name], state[name].numpy()) for name in state)
    with zipfile.ZipFile(tmp_path / "bad.pth", "w") as archive:
        archive.writestr("bad/data.pkl", pickle.dumps({"model": print}))
    with pytest.raises(ValueError, match="wants"):
        check_proof.read_weights(tmp_path / "bad.pth")


def test_every_evaluation_has_the_fingerprint(model):
    contexts = torch.tensor(list(every_local_context(FEW)))
    found = bound(model, contexts, right_symbols(contexts), UNITS["float64"])
    stamp = proof.fingerprint(contexts, found)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        moved = found.above + found.radius * (2 * torch.rand(found.above.shape, generator=generator) - 1)
        finer = proof.fingerprint(contexts, found._replace(above=moved, radius=found.radius * 0))
        assert finer["grid"] <= stamp["grid"]
        margins = moved.amin(1)[proof.codes(contexts).argsort()]
        assert proof._sha256((margins / stamp["grid"] + 0.5).floor().int()) == stamp["sha256"]

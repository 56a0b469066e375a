"""Each scheme against the definition in its paper, and all of them against what every scheme owes."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from problem2.positional_encoding import (
    SCHEMES,
    LearnedPositionalEncoding,
    NoPositionalEncoding,
    SinusoidalPositionalEncoding,
    get_positional_encoding,
    t5_bucket,
    visualize_positional_encoding,
)

NAMES = list(SCHEMES)
LENGTHS = torch.tensor([3, 5])


def close(actual, expected, tolerance=1e-5):
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=1e-4)


def test_sinusoidal_is_the_papers_formula():
    table = visualize_positional_encoding(SinusoidalPositionalEncoding(16), max_len=50, d_model=16)
    for p in (0, 1, 7, 49):
        for i in range(8):
            angle = p / 10000 ** (2 * i / 16)
            assert math.isclose(table[p, 2 * i], math.sin(angle), abs_tol=2e-6)
            assert math.isclose(table[p, 2 * i + 1], math.cos(angle), abs_tol=2e-6)


def test_sinusoidal_of_any_width():
    assert SinusoidalPositionalEncoding(7)(torch.zeros(1, 10, 7)).shape == (1, 10, 7)


def test_learned_clamps_beyond_its_table():
    scheme = LearnedPositionalEncoding(8, max_len=4)
    added = scheme(torch.zeros(1, 6, 8))[0]
    assert torch.equal(added[:4], scheme.table) and torch.equal(added[4], added[3]) and torch.equal(added[5], added[3])


def test_none_adds_nothing():
    x = torch.randn(2, 5, 8)
    assert torch.equal(NoPositionalEncoding(8)(x), x)


def test_onehot_sets_one_dimension_and_wraps():
    added = get_positional_encoding("onehot", 8)(torch.zeros(1, 20, 8))[0]
    assert torch.equal(added[:8], torch.eye(8) * 2.0) and torch.equal(added[8:16], added[:8])


@given(st.integers(0, 300), st.integers(0, 300))
@settings(max_examples=40)
def test_rope_products_depend_on_the_distance_alone(i, j):
    """As the paper writes them, with complex numbers: Re(q k* e^{i (m - n) θ})."""
    rope = get_positional_encoding("rope", 16, num_heads=2)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 8, generator=generator)
    product = (rope.rotation(torch.tensor([i]))(q) * rope.rotation(torch.tensor([j]))(k)).sum()
    theta = 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    qc, kc = (torch.complex(x[0, 0, 0, 0::2], x[0, 0, 0, 1::2]) for x in (q, k))
    close(product, (qc * kc.conj() * torch.exp(1j * (i - j) * theta)).real.sum(), 1e-4)


@pytest.mark.parametrize("heads, exponent", [(8, 1), (16, 1 / 2)])
def test_alibi_slopes_are_the_papers(heads, exponent):
    bias = get_positional_encoding("alibi", 16, num_heads=heads).bias(torch.arange(2))
    close(bias[:, 0, 1], torch.tensor([-1 / 2 ** (exponent * h) for h in range(1, heads + 1)]))


def test_alibi_punishes_distance_in_one_direction_a_head():
    alibi = get_positional_encoding("alibi", 16, num_heads=4)
    bias, visible = alibi.bias(torch.arange(6)), alibi.visible(6)
    assert bias.shape == (4, 6, 6) and visible.shape == (4, 6, 6)
    assert bias[0, 5, 2] == -3 / 4 and bias[3, 1, 5] == -4 / 256
    assert visible[0, 5, 2] and not visible[0, 2, 5] and visible[1, 2, 5] and not visible[1, 5, 2]
    assert visible.diagonal(dim1=1, dim2=2).all()


def paper_t5_bucket(relative_position, num_buckets=32, max_distance=128):
    """The published code (mesh-tensorflow, bidirectional), number by number; n = -(key - query)."""
    ret, n = 0, -relative_position
    num_buckets //= 2
    if n < 0:
        ret += num_buckets
    n = abs(n)
    max_exact = num_buckets // 2
    if n < max_exact:
        return ret + n
    large = max_exact + int(
        np.float32(np.log(np.float32(n) / np.float32(max_exact)))
        / np.float32(math.log(max_distance / max_exact))
        * (num_buckets - max_exact)
    )
    return ret + min(large, num_buckets - 1)


def test_t5_buckets_are_the_papers():
    ahead = torch.arange(-300, 301)
    assert t5_bucket(ahead).tolist() == [paper_t5_bucket(int(a)) for a in ahead]
    assert set(t5_bucket(ahead).tolist()) == set(range(32)) - {16}  # distance 0 is at the query's own side


def test_t5_bias_is_the_table_at_key_minus_query():
    scheme = get_positional_encoding("t5", 16, num_heads=2)
    bias, table = scheme.bias(torch.arange(40)), scheme.GAIN * scheme.table
    assert bias.shape == (2, 40, 40)
    assert bias[1, 3, 35] == table[paper_t5_bucket(32), 1]
    assert bias[0, 35, 3] == table[paper_t5_bucket(-32), 0]


def test_window_sees_neighbours_and_tells_left_from_right():
    scheme = get_positional_encoding("window", 16, num_heads=2)
    visible, bias, table = scheme.visible(5)[0], scheme.bias(torch.arange(5)), scheme.table
    assert [row.nonzero().flatten().tolist() for row in visible] == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4]]
    assert bias[1, 2, 1] == table[1, 0] and bias[1, 2, 2] == table[1, 1]
    assert bias[1, 2, 3] == table[1, 2] and bias[1, 3, 4] == bias[1, 2, 3]


def test_random_positions_are_uniform_over_ordered_subsets(monkeypatch):
    """Of span 5: all 10 subsets of 3 and, in the same padded batch, all 5 of 1 are equally likely."""
    scheme = get_positional_encoding("randomized", 16).train()
    monkeypatch.setattr(type(scheme), "SPAN", 5)
    torch.manual_seed(0)
    drawn = scheme.positions(torch.tensor([3, 1]).repeat(10_000), 3).tolist()
    threes, ones = Counter(map(tuple, drawn[0::2])), Counter(row[0] for row in drawn[1::2])
    assert set(threes) == set(combinations(range(5), 3)) and set(ones) == set(range(5))
    assert all(abs(count - 1000) < 5 * 1000**0.5 for count in threes.values())
    assert all(abs(count - 2000) < 5 * 2000**0.5 for count in ones.values())


def test_randomized_codes_are_larger_sinusoidal_ones():
    positions = torch.tensor([0.5, 3.0, 200.25])
    codes = {name: get_positional_encoding(name, 16).code(positions) for name in ("randomized", "sinusoidal")}
    assert torch.equal(codes["randomized"], 2.5 * codes["sinusoidal"])


@pytest.mark.parametrize("name", ["randomized", "randomized_learned", "randomized_rope"])
@pytest.mark.parametrize("length", [5, 300, 2000])
def test_positions_in_evaluation_are_even_and_always_the_same(name, length):
    scheme = get_positional_encoding(name, 16).eval()
    positions = scheme.positions(torch.tensor([length]), length)
    assert torch.equal(positions, scheme.positions(torch.tensor([length]), length))
    close(positions[0].diff(), torch.full((length - 1,), scheme.SPAN / length), 1e-3)
    assert positions.min() >= 0 and positions.max() < scheme.SPAN


@pytest.mark.parametrize("name", NAMES)
def test_every_scheme_keeps_the_interface(name):
    scheme = get_positional_encoding(name, 16, 20, num_heads=4).eval()
    for width in (1, 5, 30):
        x, heads = torch.randn(2, width, 16), torch.randn(2, 4, width, 4)
        positions = scheme.positions(LENGTHS.clamp(max=width), width)
        assert scheme(x).shape == x.shape and scheme(x, positions).shape == x.shape
        rotate = scheme.rotation(positions)
        assert rotate is None or rotate(heads).shape == heads.shape
        bias, visible = scheme.bias(positions), scheme.visible(width)
        assert bias is None or torch.broadcast_to(bias, (2, 4, width, width)).isfinite().all()
        assert visible is None or torch.broadcast_to(visible, (2, 4, width, width)).any(-1).all()
    picture = visualize_positional_encoding(scheme, max_len=12, d_model=16)
    assert isinstance(picture, np.ndarray) and picture.shape == (12, 16)

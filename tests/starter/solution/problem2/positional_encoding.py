"""The starter's positional_encoding.py as a student might write it."""

import math

import torch
from torch import nn


def sinusoidal_code(positions, d_model):
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    code = torch.zeros(len(positions), d_model)
    code[:, 0::2] = torch.sin(positions.unsqueeze(1) * rate)
    code[:, 1::2] = torch.cos(positions.unsqueeze(1) * rate)
    return code


class SinusoidalPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.d_model, self.max_len = d_model, max_len
        self.register_buffer("table", sinusoidal_code(torch.arange(max_len), d_model))

    def forward(self, x):
        length = x.size(1)
        if length > self.max_len:
            return x + sinusoidal_code(torch.arange(length), self.d_model).to(x.device)
        return x + self.table[:length]


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.max_len = max_len
        self.embedding = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.embedding.weight, std=0.7)

    def forward(self, x):
        positions = torch.arange(x.size(1), device=x.device)
        return x + self.embedding(positions.clamp(max=self.max_len - 1))


class NoPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()

    def forward(self, x):
        return x


def get_positional_encoding(name, d_model, max_len=5000):
    encodings = {
        "sinusoidal": SinusoidalPositionalEncoding,
        "learned": LearnedPositionalEncoding,
        "none": NoPositionalEncoding,
    }
    if name not in encodings:
        raise ValueError(f"no positional encoding is called {name!r}")
    return encodings[name](d_model, max_len)


@torch.no_grad()
def visualize_positional_encoding(module, max_len=100, d_model=64):
    return module(torch.zeros(1, max_len, d_model))[0].numpy()

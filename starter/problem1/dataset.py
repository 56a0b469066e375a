"""Addition problems as tensors (given).

Tokens 0 to 9 are digits and 10 is +. START and PAD are tokens of their own: a start token that were also a digit
would be mistaken for the answer's first digit, and padding that were also 0 would make zeros not count.
"""

import json
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

START = 11  # what the decoder reads before it has written anything
PAD = 12  # fills up shorter rows; with sums of one length nothing is padded
VOCAB_SIZE = 13


class AdditionDataset(Dataset):
    def __init__(self, path):
        rows = json.loads(Path(path).read_text())
        self.inputs = torch.tensor([row["input"] for row in rows])  # [N, 2 * digits + 1]
        self.targets = torch.tensor([row["target"] for row in rows])  # [N, digits + 1]

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return {"input": self.inputs[index], "target": self.targets[index]}


def create_dataloaders(data_dir, batch_size=64):
    """Loaders of train.json (shuffled), val.json and test.json: batches {"input": [B, 7], "target": [B, 4]}."""
    data_dir = Path(data_dir)
    return tuple(
        DataLoader(AdditionDataset(data_dir / f"{name}.json"), batch_size=batch_size, shuffle=name == "train")
        for name in ("train", "val", "test")
    )

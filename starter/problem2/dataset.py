"""Sorted-or-not problems as tensors (given). Values 0 to 99 are tokens 0 to 99; 100 pads on the right."""

import json
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

PAD = 100
VOCAB_SIZE = 101


class SortingDataset(Dataset):
    def __init__(self, path):
        self.rows = json.loads(Path(path).read_text())
        self.width = max(row["length"] for row in self.rows)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        """sequence [width], padded; mask [width], 1 at real tokens; label 1 = sorted; length"""
        row = self.rows[index]
        sequence = torch.full((self.width,), PAD)
        sequence[: row["length"]] = torch.tensor(row["sequence"])
        mask = (torch.arange(self.width) < row["length"]).float()
        return {"sequence": sequence, "mask": mask, "label": row["is_sorted"], "length": row["length"]}


def create_dataloaders(data_dir, batch_size=64):
    """Loaders of train.json (shuffled), val.json and test.json."""
    data_dir = Path(data_dir)
    return tuple(
        DataLoader(SortingDataset(data_dir / f"{name}.json"), batch_size=batch_size, shuffle=name == "train")
        for name in ("train", "val", "test")
    )


def create_extrapolation_loader(data_dir, length, batch_size=64):
    """The test rows of one greater length: 32, 64, 128 or 256."""
    path = Path(data_dir) / "extrapolation" / f"test_len_{length}.json"
    return DataLoader(SortingDataset(path), batch_size=batch_size)

"""Train the transformer on addition: results/best_model.pth and training_log.json.

    python problem1/train.py

Write what raises NotImplementedError; then `python check.py training`. `main` is given; change what you like.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))

from dataset import PAD, VOCAB_SIZE, create_dataloaders
from model import Seq2SeqTransformer

HERE = Path(__file__).resolve().parent


def compute_accuracy(outputs, targets, pad_token=PAD):
    """The share of answers that are right as a whole; where the target is pad_token, anything is right.

    outputs: logits [batch, T, vocab_size]; targets: [batch, T] -> a number from 0 to 1
    """
    raise NotImplementedError


def train_epoch(model, dataloader, criterion, optimizer, device):
    """One pass over the batches, one step of the optimizer each.

    A batch is {"input": source tokens [B, S], "target": answers [B, T]}. While the model predicts the answer it reads
    dataset.START and then the answer's digits up to the one before.

    Returns the mean loss of the batches and the share of answers that were right as a whole.
    """
    raise NotImplementedError


def evaluate(model, dataloader, criterion, device):
    """The same without steps, gradients and dropout."""
    raise NotImplementedError


def main():
    parser = argparse.ArgumentParser(description="Train the transformer on addition")
    parser.add_argument("--data-dir", type=Path, default=HERE / "data")
    parser.add_argument("--output-dir", type=Path, default=HERE / "results")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--d-model", type=int, default=64)
    parser.add_argument("--num-heads", type=int, default=4)
    parser.add_argument("--num-layers", type=int, default=2)
    parser.add_argument("--d-ff", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=641)
    given = parser.parse_args()

    torch.manual_seed(given.seed)
    given.output_dir.mkdir(parents=True, exist_ok=True)
    train_loader, val_loader, test_loader = create_dataloaders(given.data_dir, given.batch_size)
    model = Seq2SeqTransformer(
        VOCAB_SIZE, given.d_model, given.num_heads, given.num_layers, given.num_layers, given.d_ff, given.dropout
    ).to(given.device)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr, betas=(0.9, 0.98), weight_decay=0.1)
    # Two epochs of warm-up, then down to nearly zero.
    schedule = [min(1, (epoch + 1) / 3, (given.epochs - epoch) / given.epochs * 1.5) for epoch in range(given.epochs)]
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: schedule[min(epoch, given.epochs - 1)])

    log = {"train_loss": [], "train_acc": [], "val_loss": [], "val_acc": []}
    for epoch in range(given.epochs):
        train_loss, train_acc = train_epoch(model, train_loader, criterion, optimizer, given.device)
        val_loss, val_acc = evaluate(model, val_loader, criterion, given.device)
        scheduler.step()
        for name, value in zip(log, (train_loss, train_acc, val_loss, val_acc), strict=True):
            log[name].append(float(value))
        print(
            f"epoch {epoch + 1:3}: loss {train_loss:.4f}, accuracy {train_acc:.2%}; validation {val_acc:.2%}",
            flush=True,
        )
        if val_acc == max(log["val_acc"]):
            torch.save(model.state_dict(), given.output_dir / "best_model.pth")

    model.load_state_dict(torch.load(given.output_dir / "best_model.pth", map_location=given.device, weights_only=True))
    test_loss, test_acc = evaluate(model, test_loader, criterion, given.device)
    log |= {"test_loss": float(test_loss), "test_acc": float(test_acc)}
    print(f"test: {log['test_acc']:.2%} of the sums right")
    (given.output_dir / "training_log.json").write_text(json.dumps(log, indent=2))


if __name__ == "__main__":
    main()

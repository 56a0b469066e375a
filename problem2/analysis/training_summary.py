"""How well was each scheme trained? One line a scheme, from the logs that train.py wrote."""

from pathlib import Path

from lab.files import UserError, read_json

FIELDS = ("test_acc", "test_loss", "best_epoch", "seconds", "parameters", "seed")


def collect(results_dir: Path, names) -> dict:
    """{scheme: {"val_acc", "val_loss" (of the epoch kept), "epochs", "test_acc", …}}"""
    summary = {}
    for name in names:
        path = results_dir / name / "training_log.json"
        if not path.exists():
            continue
        try:
            log = read_json(path, "train the scheme again.")
            best = log["best_epoch"] - 1
            kept = {"val_acc": log["val_acc"][best], "val_loss": log["val_loss"][best], "epochs": len(log["val_acc"])}
            summary[name] = kept | {field: log[field] for field in FIELDS}
        except (KeyError, IndexError, TypeError):
            raise UserError(f"{path} is not a log of train.py: train the scheme again.") from None
    return summary


def as_table(summary: dict) -> str:
    lines = [f"{'scheme':20}{'validation':>12}{'loss':>9}{'test':>9}{'epochs':>8}{'kept':>6}{'seconds':>9}"]
    for name, its in summary.items():
        lines.append(
            f"{name:20}{its['val_acc']:>12.2%}{its['val_loss']:>9.4f}{its['test_acc']:>9.2%}"
            f"{its['epochs']:>8}{its['best_epoch']:>6}{its['seconds']:>9.0f}"
        )
    return "\n".join(lines)

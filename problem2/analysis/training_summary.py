"""How well was each scheme trained? One line a scheme, from the logs that train.py wrote."""

from pathlib import Path

from lab.files import UserError, read_json
from problem2.analysis.context import Context, table

NUMBERS = ("test_acc", "test_loss", "best_epoch", "parameters")


def read_log(path: Path) -> dict:
    """The numbers of one training: accuracy and loss in validation (of the best epoch) and test, and its size."""
    try:
        log = read_json(path, "train the scheme again.")
        best = log["best_epoch"] - 1
        kept = {"val_acc": log["val_acc"][best], "val_loss": log["val_loss"][best], "epochs": len(log["val_acc"])}
        return kept | {name: log[name] for name in NUMBERS} | {"seed": log["seed"], "data": log["config"]["data"]}
    except (KeyError, IndexError, TypeError):
        raise UserError(f"{path} is not a log of train.py: train the scheme again.") from None


def run(context: Context) -> None:
    logs = {name: context.results_dir / name / "training_log.json" for name in context.models}
    summary = {name: read_log(path) for name, path in logs.items() if path.exists()}
    context.write("training_summary.json", {"schemes": summary})
    rows = [["scheme", "validation", "loss", "test", "epochs", "best epoch"]]
    for name, numbers in summary.items():
        accuracies = [f"{numbers['val_acc']:.2%}", f"{numbers['val_loss']:.4f}", f"{numbers['test_acc']:.2%}"]
        rows.append([name, *accuracies, str(numbers["epochs"]), str(numbers["best_epoch"])])
    context.show(table(rows), "training_summary.json")

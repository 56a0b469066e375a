"""Ask the trained schemes what they learned: results/extrapolation/ with its figures and numbers.

python problem2/analyze.py                                  # every scheme that has been trained
python problem2/analyze.py --test-lengths 32 128 2048       # other lengths; missing test sets are made
python problem2/analyze.py --sequence 3 15 27 41            # what does each scheme say to this?
python problem2/analyze.py --results-dir problem2/results/strict    # the models of the other protocol
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import parallel
from lab.files import UserError, only_one, read_json, write_json, write_text
from lab.provenance import provenance
from lab.settings import as_plain, parse, run, setting
from problem2.analysis import encodings, extrapolation, failures, geometry, mechanism, proof, training_summary
from problem2.dataset import complain_of_values, load_or_generate
from problem2.model import SortingClassifier
from problem2.positional_encoding import SCHEMES
from problem2.train import load_trained

HERE = Path(__file__).resolve().parent
COURSE = ("sinusoidal", "learned", "none")


@dataclass(frozen=True)
class Settings:
    data_dir: Path = setting(HERE / "data", "folder of test.json, extrapolation/ and adjacent/", metavar="DIR")
    results_dir: Path = setting(HERE / "results", "folder with a folder for each trained scheme", metavar="DIR")
    output_dir: Path | None = setting(
        None, "folder to write to (default: extrapolation/ in --results-dir)", metavar="DIR"
    )
    batch_size: int = setting(512, "sequences at once (fewer of long ones, by themselves)", minimum=1)
    test_lengths: tuple[int, ...] = setting((32, 64, 128, 256), "lengths to be asked at", minimum=2, maximum=20_000)
    rows: int | None = setting(None, "rows of each set (left out: all to length 256, then fewer)", minimum=1)
    sequence: tuple[int, ...] = setting((), "only answer this sequence of values from 0 to 99", metavar="VALUE")
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")


def load_models(results_dir: Path, device) -> dict[str, SortingClassifier]:
    """Every scheme that has a checkpoint; says which have none."""
    models, missing = {}, []
    for name in SCHEMES:
        path = results_dir / name / "best_model.pth"
        if path.exists():
            models[name] = load_trained(path, device)
        else:
            missing.append(name)
    if not models:
        raise UserError(f"{results_dir} has no trained scheme: run train.py first, or name another with --results-dir.")
    if missing:
        print(f"not trained, so left out: {', '.join(missing)} (train.py --encoding {missing[0]} trains one)")
    return models


def answer(models: dict, values: list[int]) -> None:
    complaint = complain_of_values(values)
    if complaint:
        raise UserError(f"--sequence {complaint}.")
    for name, model in models.items():
        case, votes = failures.answer(model, values)
        print(f"{name:18} {failures.sentence(case)}")
        print(f"{'':18} votes for sorted, place by place: {' '.join(f'{vote:+.1f}' for vote in votes)}")


def main(settings: Settings) -> None:
    device = parallel.start(settings.device)
    models = load_models(settings.results_dir, device)
    if settings.sequence:
        return answer(models, list(settings.sequence))
    folder = settings.output_dir or settings.results_dir / "extrapolation"
    with only_one(folder, "an analysis"):
        analyse(models, settings, folder, device, provenance(device) | {"config": as_plain(settings)})
    print(f"everything is in {folder}")


def course_of(study: Path) -> dict:
    """What study.py found for each scheme under the course's protocol."""
    content = read_json(study, "run study.py again.")
    try:
        return content["summary"]["course"]
    except (KeyError, TypeError):
        raise UserError(f"{study} holds no summary of the course's protocol: run study.py again.") from None


def analyse(models: dict, settings: Settings, folder: Path, device, origin: dict) -> None:
    """The table of contents: each block one question, one file of numbers, one figure drawn from it."""
    lengths, batch = settings.test_lengths, settings.batch_size
    in_range = load_or_generate(settings.data_dir)["test"]
    sets = extrapolation.test_sets(settings.data_dir, lengths, in_range, settings.rows)
    study = settings.results_dir / "study" / "study.json"

    print("How well was each scheme trained?")
    summary = training_summary.collect(settings.results_dir, models)
    write_json(folder / "training_summary.json", {"schemes": summary, **origin})
    print(training_summary.as_table(summary))

    print("How right is each at lengths it was not trained on?")
    details = {}
    for name, model in models.items():
        details[name] = {"sets": extrapolation.measure(model, sets, batch)}
        print(f"  {name}: done", flush=True)
    write_json(folder / "extrapolation_details.json", {"schemes": details, **origin})
    plain = {
        name: {str(n): report["sets"][f"extrapolation/{n}"]["accuracy"] for n in lengths}
        for name, report in details.items()
    }
    write_json(folder / "extrapolation_results.json", plain)
    print(extrapolation.as_table(details, lengths))
    seeds = course_of(study) if study.exists() else None
    extrapolation.draw_curves(details, folder / "extrapolation_curves.png", seeds)
    extrapolation.draw_bars(details, folder / "extrapolation_bars.png", lengths)

    print("Positions never seen, or attention diluted?")
    report = {name: mechanism.measure(model, settings.data_dir, batch) for name, model in models.items()}
    write_json(folder / "mechanism.json", {"schemes": report, **origin})
    mechanism.draw_causes(report, folder / "causes.png", "extrapolation")
    mechanism.draw_causes(report, folder / "causes_adjacent.png", "adjacent")
    mechanism.draw_neighbours(report, details, folder / "neighbour_attention.png")

    proofs = {name: report for name, model in models.items() if (report := proof.prove(model, device))}
    if proofs:
        print("Is a model right on every sequence there is?")
        write_json(folder / "proof.json", {"schemes": proofs, **origin})
        for name, its in proofs.items():
            print(f"  {name}: {proof.as_sentence(its)}")

    print("Does trained attention use the rotation in the codes?")
    added = [name for name in ("sinusoidal", "learned", "onehot", "randomized") if name in models]
    if added:
        shapes = {name: geometry.measure(models[name], name) for name in added}
        write_json(folder / "distance_geometry.json", {"schemes": shapes, **origin})
        geometry.draw(shapes, folder / "distance_geometry.png")

    print("What are the schemes, and what became of the learned table?")
    pictures = encodings.pictures(models)
    write_json(folder / "encoding_comparison.json", {"schemes": pictures, **origin})
    encodings.draw_comparison(pictures, folder / "encoding_comparison.png")
    if "learned" in models:
        table = encodings.learned_table(models["learned"].scheme.table)
        write_json(folder / "learned_position_embeddings.json", table | origin)
        encodings.draw_learned(table, folder / "learned_position_embeddings.png")

    print("Which sequences do they get wrong?")
    chosen = {name: sets[name] for name in ("test", "adjacent/16", f"extrapolation/{lengths[0]}")}
    wrong = {name: failures.find(model, chosen, batch_size=batch) for name, model in models.items()}
    by_violation = {
        name: {
            key: failures.missed_by_violation(extrapolation.margins(model, rows.sequences, batch), rows)
            for key, rows in chosen.items()
        }
        for name, model in models.items()
    }
    write_json(folder / "failures.json", {"schemes": wrong, "found_by_violation": by_violation, **origin})
    write_text(folder / "failures.txt", failures.as_text(wrong))
    for name in COURSE:
        if name in wrong:
            print(failures.as_text({name: {"test": wrong[name]["test"]}}), end="")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))

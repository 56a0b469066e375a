"""What does the trained model do, and how? Every question put to it, with the file that holds the answer.

    python problem1/analyze.py                              # everything: about two minutes
    python problem1/analyze.py --examples 663+497 347+159   # only these sums, as figures: a few seconds
    python problem1/analyze.py --task text                  # addition as text (problem1/text/analyze.py)

Reads results/best_model.pth and the data; writes, all in results/:

    verification.json      is it right on every pair there is?
    examples/              what it writes for single sums, how sure, and where each digit looked
    attention_patterns/    where each head looks, on average and on the examples
    head_analysis/         each head's habits; what is lost without it; how many can go, and go together
    carry/                 how the carry travels: patching, probes, the hard case, and summary.txt in plain words
"""

import runpy
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.settings import as_plain, parse, peek, run, setting

if __name__ == "__main__" and peek("task") == "text":  # another task, in a room of its own
    runpy.run_path(str(Path(__file__).resolve().parent / "text" / "analyze.py"), run_name="__main__")
    sys.exit()

from lab import parallel
from lab.files import UserError, only_one
from problem1.analysis import ablation, attention_shift, patching, probes, pruning, slimming
from problem1.analysis import attention_maps as patterns
from problem1.analysis import attention_statistics as specialization
from problem1.analysis import carry_through_nines as nines
from problem1.analysis import exhaustive as verify
from problem1.analysis import summary as story
from problem1.analysis.context import Context
from problem1.dataset import load_or_generate
from problem1.train import TASKS, load_model

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Settings:
    task: str = setting("digits", "digits: this one; text: sums of any length (see --task text --help)", choices=TASKS)
    model_path: Path = setting(HERE / "results/best_model.pth", "the trained model", metavar="FILE")
    data_dir: Path = setting(HERE / "data", "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder for everything that is found out", metavar="DIR")
    batch_size: int = setting(1024, "rows in one forward pass", minimum=1)
    num_samples: int = setting(6, "example sums to draw, the most telling ones first", minimum=1, maximum=100)
    examples: tuple[str, ...] = setting((), "draw only these sums, and analyse nothing else", metavar="A+B")
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")


def analyse(context: Context, settings: Settings) -> None:
    """The table of contents."""
    verified = ask(
        "is it right on every pair there is?",
        lambda: context.write(
            "verification.json", verify.verify(context.model, context.rows["train"], context.batch_size)
        ),
    )
    examples = ask(
        "what does it write, and how sure is it?",
        lambda: patterns.answer_examples(context, settings.num_samples, verified["wrong_sums"]),
    )
    ask("where does each head look?", lambda: patterns.answer(context, examples))
    ask("what is each head's habit?", lambda: specialization.answer(context))
    single = ask("what is lost without each head?", lambda: ablation.answer(context))
    together = ask("how many heads can go together?", lambda: pruning.answer(context, single))
    pruned = ask("does a pruned model recover?", lambda: slimming.answer(context, together))
    patched = ask("which heads bring the carry?", lambda: patching.answer(context))
    read = ask("where can the carry be read?", lambda: probes.answer(context))
    hard = ask("what if a carry has to pass a 9?", lambda: nines.answer(context))
    moved = ask("who looks elsewhere for a carry?", lambda: attention_shift.answer(context))
    told = ask("so how does the carry travel?", lambda: story.answer(context, single, patched, read, hard, moved))
    print(f"\n{pruned['in_words']}\n\n{told}\n" if context.meaningful else f"\nWARNING: {context.warning}\n")


def ask(question: str, find_out):
    """Say what is asked, find it out, and say how long it took."""
    print(f"{question:<45}", end="", flush=True)
    started = time.perf_counter()
    found = find_out()
    print(f"{time.perf_counter() - started:6.1f} s", flush=True)
    return found


def load_subject(settings: Settings) -> Context:
    """The model and the data it is to be asked about, which must be of one kind."""
    model, trained, num_digits = load_model(settings.model_path, parallel.start(settings.device))
    rows = load_or_generate(settings.data_dir)
    if rows["test"].num_digits != num_digits:
        raise UserError(
            f"{settings.model_path} adds numbers of {num_digits} digits, but {settings.data_dir} holds numbers of "
            f"{rows['test'].num_digits}: name the data it was trained on with --data-dir."
        )
    plain = as_plain(trained) | {"num_digits": num_digits}
    return Context(model, rows, settings.output_dir, settings.batch_size, plain)


def main(settings: Settings) -> None:
    context = load_subject(settings)
    asked = [patterns.parse_sum(text, context.num_digits) for text in settings.examples]
    with only_one(settings.output_dir, "a training or an analysis"):
        if context.warning:
            print(f"WARNING: {context.warning}\n", flush=True)
        if asked:
            for record in patterns.answer_asked(context, asked)["examples"]:
                print(f"{record['sum']} = {record['answer']}{'' if record['correct'] else '   wrong'}")
        else:
            analyse(context, settings)
        print(f"everything is in {settings.output_dir}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))

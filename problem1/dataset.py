"""Addition as tokens: what a problem looks like to the model, and rows on disk as tensors.

    347+159  ->  source [3,4,7,10,1,5,9]   target [0,5,0,6]   (the sum 0506)

Tokens 0 to 9 are digits, 10 is +, 11 starts every answer, 12 pads. Start and padding are tokens of their own:
a start token that were also a digit would give the first digit of the answer away, and a padding that were
also the digit 0 would teach the model that zeros do not count.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # for a script in this folder that says `from dataset import …`
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.files import UserError, read_json
from problem1 import generate_data
from problem1.generate_data import LONGEST, PLUS, to_digits

DEFAULT = generate_data.Settings.output_dir  # where the data is, if no other folder is named
START = 11
PAD = 12
VOCAB_SIZE = 13
SYMBOLS = [*"0123456789", "+", "<s>", "<pad>"]  # by token


@dataclass(frozen=True)
class Sums:
    """Rows as tensors."""

    sources: Tensor  # [N, 2·digits + 1]
    targets: Tensor  # [N, digits + 1]

    @property
    def num_digits(self) -> int:
        return self.targets.shape[1] - 1

    def operands(self) -> tuple[Tensor, Tensor]:
        """a and b as digits: each [N, digits]"""
        return self.sources[:, : self.num_digits], self.sources[:, self.num_digits + 1 :]

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, rows) -> "Sums":
        """Some of the rows: an index tensor, a mask or a slice."""
        return Sums(self.sources[rows], self.targets[rows])


def encode(a: Tensor, b: Tensor) -> Sums:
    """Operands a and b as digits, each [N, digits], most significant first, as rows: added by columns, as on paper."""
    carry = torch.zeros_like(a[:, 0])
    digits = []  # of the sum, the ones first
    for column in range(a.shape[1] - 1, -1, -1):
        total = a[:, column] + b[:, column] + carry
        digits.append(total % 10)
        carry = total // 10
    digits.append(carry)
    plus = torch.full_like(a[:, :1], PLUS)
    return Sums(sources=torch.cat([a, plus, b], dim=1), targets=torch.stack(digits[::-1], dim=1))


def digits_of(numbers: Tensor, width: int) -> Tensor:
    """Numbers [N] of up to 18 digits -> [N, width], most significant digit first"""
    powers = 10 ** torch.arange(width - 1, -1, -1)  # 100, 10, 1
    return numbers.unsqueeze(1) // powers % 10


def every_pair(num_digits: int) -> Sums:
    """All pairs of operands of exactly `num_digits` digits: 810,000 for three."""
    numbers = torch.arange(10 ** (num_digits - 1), 10**num_digits)
    digits = digits_of(numbers, num_digits)
    a = digits.repeat_interleave(len(numbers), 0)  # 100, 100, 100, …
    b = digits.repeat(len(numbers), 1)  # 100, 101, 102, …
    return encode(a, b)


def random_pairs(num_digits: int, count: int, seed: int) -> Sums:
    """`count` pairs of operands of exactly `num_digits` digits, all equally likely."""
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randint(10, (2, count, num_digits), generator=generator)
    for operand in (a, b):
        operand[:, 0] = torch.randint(1, 10, (count,), generator=generator)
    return encode(a, b)


def carries(sums: Sums) -> Tensor:
    """[N, digits] True where a column, most significant first, passes a carry on.

    347+159: 7+9 = 16 carries, 4+5+1 = 10 carries, 3+1+1 = 5 does not: [False, True, True].
    """
    a, b = sums.operands()
    carry = torch.zeros(len(sums), dtype=torch.bool)
    by_column = []  # the ones first
    for column in range(sums.num_digits - 1, -1, -1):
        carry = a[:, column] + b[:, column] + carry >= 10
        by_column.append(carry)
    return torch.stack(by_column[::-1], dim=1)


def longest_chain(carry: Tensor) -> Tensor:
    """[N, digits] -> [N] the most neighbouring columns that all carry."""
    chain = torch.zeros(len(carry), dtype=torch.long)  # that ends at the column
    longest = chain
    for column in carry.unbind(1):
        chain = (chain + 1) * column  # one more where the column carries, 0 where it does not
        longest = torch.maximum(longest, chain)
    return longest


def decoder_inputs(targets: Tensor) -> Tensor:
    """What the decoder reads while it predicts `targets` [N, T]: the start token, then all digits but the last."""
    return torch.cat([torch.full_like(targets[:, :1], START), targets[:, :-1]], 1)


def score(model, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Loss and exact match of each row: [B], [B].

    One teacher-forced pass also tells what greedy decoding would answer: greedy is right on every digit exactly
    when each digit's argmax is right given the right digits before it, because up to the first wrong digit the
    two read the same prefix. So exact match needs no decoding loop.
    """
    sums = Sums(*batch)
    logits = model(sums.sources, decoder_inputs(sums.targets))
    # cross_entropy wants the classes in dimension 1: [B, vocabulary, T], [B, T] -> [B, T]
    losses = F.cross_entropy(logits.transpose(1, 2), sums.targets, reduction="none")
    right = (logits.argmax(-1) == sums.targets).all(1)
    return losses.mean(1), right


def swap_columns(batch: tuple[Tensor, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """347+159 or 357+149 or 149+357 …: in every column the two digits change places or not, drawn anew for each row.

    No column's sum changes, so neither do the carries and the answer. Rare cases, as a sum of exactly 1000, then come
    in many forms instead of the few that 10,000 rows happen to hold.
    """
    sums = Sums(*batch)
    a, b = sums.operands()
    plus = sums.sources[:, sums.num_digits : sums.num_digits + 1]
    swap = (torch.rand(a.shape, generator=generator) < 0.5).to(a.device)
    above = torch.where(swap, b, a)
    below = torch.where(swap, a, b)
    return torch.cat([above, plus, below], 1), sums.targets


def sampling_weights(sums: Sums, hard_weight: float) -> Tensor:
    """[N] how often training draws a row: (1 + hard_weight) to the number of columns whose digits add up to 9 or 10.

    Those columns decide whether a carry is born or passed on; with equal weights they are what a model gets wrong last.
    """
    a, b = sums.operands()
    hard = (a + b == 9) | (a + b == 10)  # [N, digits]
    return (1.0 + hard_weight) ** hard.sum(1)


def load(data_dir: Path, name: str) -> Sums:
    """data_dir/train.json (or val, test) as tensors, every row checked: a wrong sum would teach a wrong model."""
    path = Path(data_dir) / f"{name}.json"
    hint = f"correct it, or generate it again with generate_data.py --output-dir {data_dir}."
    rows = read_json(path, hint)
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path} must hold a list of at least one row: {hint}")
    width = None
    for number, row in enumerate(rows, 1):
        complaint = _complaint(row, width)
        if complaint:
            raise UserError(f"{path}, row {number}: {complaint}; {hint}")
        width = len(row["input"])
    return Sums(torch.tensor([row["input"] for row in rows]), torch.tensor([row["target"] for row in rows]))


def _complaint(row, width: int | None) -> str | None:
    """None, or what is wrong with a row; `width` is how many tokens the inputs before have."""
    if not isinstance(row, dict) or not {"input", "target"} <= set(row):
        return 'not of the form {"input": […], "target": […]}'
    for key in ("input", "target"):
        tokens = row[key]
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            return f'"{key}" must be a list of whole numbers'
        odd = [token for token in tokens if not 0 <= token <= 9 and not (key == "input" and token == PLUS)]
        if odd:
            return f'"{key}" holds {odd[0]}, which is not a digit'
    source = row["input"]
    target = row["target"]
    digits = len(source) // 2
    if digits > LONGEST:
        return f'"input" has operands of {digits:,} digits, more than {LONGEST}'
    if digits < 1 or source.count(PLUS) != 1 or len(source) != 2 * digits + 1 or source[digits] != PLUS:
        return '"input" must be two operands of the same number of digits with one 10 (+) between them'
    if width not in (None, len(source)):
        return f'"input" has {len(source)} tokens where the rows before have {width}'
    a = int("".join(map(str, source[:digits])))
    b = int("".join(map(str, source[digits + 1 :])))
    right = to_digits(a + b, digits + 1)
    if target != right:
        return f'"target" is {target}, but {a} + {b} is {right}'
    return None


def load_or_generate(data_dir: Path = DEFAULT) -> dict[str, Sums]:
    """train, val and test. In the default folder, data that is missing is generated; any other folder must hold it."""
    names = ("train", "val", "test")
    if Path(data_dir) == DEFAULT and not any((DEFAULT / f"{name}.json").exists() for name in names):
        print(f"no data in {data_dir} yet: generating it")
        generate_data.generate(generate_data.Settings())
    sums = {name: load(data_dir, name) for name in names}
    for name in names[1:]:
        if sums[name].num_digits != sums["train"].num_digits:
            raise UserError(
                f"{data_dir}: {name}.json has operands of {sums[name].num_digits} digits, train.json of "
                f"{sums['train'].num_digits}; generate all three again with generate_data.py --output-dir {data_dir}."
            )
    return sums


def seen_in(sums: Sums, train: Sums) -> Tensor:
    """[N] True where training can have shown a pair: it stands in `train`, or becomes one that does by swapping
    digits within columns (`swap_columns`)."""
    seen = {tuple(row) for row in _unordered(train).tolist()}
    return torch.tensor([tuple(row) in seen for row in _unordered(sums).tolist()])


def _unordered(sums: Sums) -> Tensor:
    """[N, 2·digits] the same for all pairs that column swaps make of one another: of each column the smaller digit,
    then of each the larger."""
    a, b = sums.operands()
    return torch.cat([torch.minimum(a, b), torch.maximum(a, b)], 1)

# ruff: noqa: E501 (a table with one change a line)
"""Sound solutions in many shapes: nothing in them is wrong. The layouts are those of solutions that are about."""

import shutil

import pytest

from tests.starter.submissions import STARTER, check, make, verdicts

ATTENTION, MODEL, TRAIN = "problem1/attention.py", "problem1/model.py", "problem1/train.py"
ENCODINGS, SORTER, TRAIN2 = "problem2/positional_encoding.py", "problem2/model.py", "problem2/train.py"
PARTS = {
    "attention": (ATTENTION,),
    "model": (MODEL,),
    "training": (TRAIN, "problem1/dataset.py"),
    "encodings": (ENCODINGS,),
    "sorting": (SORTER, TRAIN2),
}
PROJECTIONS = """        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)
"""
PROJECTED = """        Q = self.split_heads(self.W_q(query))
        K = self.split_heads(self.W_k(key))
        V = self.split_heads(self.W_v(value))
"""
STEP = """        loss = criterion(outputs.reshape(-1, outputs.size(-1)), targets.reshape(-1))
        loss.backward()"""

VARIANTS = {
    "-1e9 in place of -inf": [(ATTENTION, 'float("-inf")', "-1e9")],
    "boolean masks only": [
        (ATTENTION, "mask == 0, float", "~mask, float"),
        (ATTENTION, "torch.ones(seq_len, seq_len, device=device)", "torch.ones(seq_len, seq_len, device=device).bool()"),
        (ATTENTION, "return mask.unsqueeze(0).unsqueeze(0)", "return mask.view(1, 1, seq_len, seq_len)"),
    ],
    "masks of rank 4 only": [(ATTENTION, "if mask is not None:", "if mask is not None:\n        _, _, _, _ = mask.shape")],
    "four dimensions only": [(ATTENTION, "d_k = Q.size(-1)", "_, _, _, d_k = Q.shape")],
    "no biases": [(ATTENTION, "nn.Linear(d_model, d_model)", "nn.Linear(d_model, d_model, bias=False)")],
    "other names": [(ATTENTION, "self.W_", "self.linear_")],
    "one matrix for queries, keys and values": [
        (ATTENTION, PROJECTIONS, "        self.qkv = nn.Linear(d_model, 3 * d_model)\n        self.W_o = nn.Linear(d_model, d_model)\n"),
        (
            ATTENTION,
            PROJECTED,
            "        weights, biases = self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)\n"
            "        inputs = zip((query, key, value), weights, biases)\n"
            "        Q, K, V = (self.split_heads(nn.functional.linear(x, w, b)) for x, w, b in inputs)\n",
        ),
    ],
    "plain parameters": [
        (ATTENTION, PROJECTIONS, "        self.W = nn.ParameterList([nn.Parameter(torch.randn(d_model, d_model) / 8) for _ in range(4)])\n"),
        (ATTENTION, PROJECTED, "        Q, K, V = (self.split_heads(x @ w) for x, w in zip((query, key, value), self.W))\n"),
        (ATTENTION, "self.W_o(self.combine_heads(heads))", "self.combine_heads(heads) @ self.W[3]"),
    ],
    "matrices of each head": [
        (ATTENTION, PROJECTIONS, "        self.heads = nn.ModuleList(nn.ModuleDict({n: nn.Linear(d_model, d_model // num_heads) for n in 'qkv'}) for _ in range(num_heads))\n        self.W_o = nn.Linear(d_model, d_model)\n"),
        (ATTENTION, PROJECTED, "        Q, K, V = (torch.stack([head[n](x) for head in self.heads], 1) for n, x in zip('qkv', (query, key, value)))\n"),
    ],
    "einsum with a matrix [heads, d_model, d_k]": [
        (ATTENTION, PROJECTIONS, "        self.W = nn.ParameterList([nn.Parameter(torch.randn(num_heads, d_model, d_model // num_heads) / 8) for _ in range(3)])\n        self.W_o = nn.Linear(d_model, d_model)\n"),
        (ATTENTION, PROJECTED, "        Q, K, V = (torch.einsum('btd,hdk->bhtk', x, w) for x, w in zip((query, key, value), self.W))\n"),
    ],
    "einsum with a matrix [d_model, heads, d_k]": [
        (ATTENTION, PROJECTIONS, "        self.W = nn.ParameterList([nn.Parameter(torch.randn(d_model, num_heads, d_model // num_heads) / 8) for _ in range(3)])\n        self.W_o = nn.Linear(d_model, d_model)\n"),
        (ATTENTION, PROJECTED, "        Q, K, V = (torch.einsum('btd,dhk->bhtk', x, w) for x, w in zip((query, key, value), self.W))\n"),
    ],
    "queries, keys and values beside each other for each head": [
        (ATTENTION, PROJECTIONS, "        self.qkv = nn.Linear(d_model, 3 * d_model)\n        self.W_o = nn.Linear(d_model, d_model)\n"),
        (ATTENTION, PROJECTED, "        shape = (self.num_heads, 3, -1)\n        Q, K, V = (self.qkv(x).unflatten(-1, shape)[..., n, :].transpose(1, 2) for n, x in enumerate((query, key, value)))\n"),
    ],
    "double precision by default": [(ATTENTION, "import torch\n", "import torch\ntorch.set_default_dtype(torch.float64)\n")],
    "PyTorch's own attention": [
        (ATTENTION, "output = torch.matmul(weights, V)", "output = nn.functional.scaled_dot_product_attention(Q, K, V, None if mask is None else mask == 1)"),
    ],
    "weights only if asked": [
        (ATTENTION, "value, mask=None):", "value, mask=None, return_attention=False):"),
        (ATTENTION, "combine_heads(heads)), weights", "combine_heads(heads)), weights if return_attention else None"),
    ],
    "norms before the sublayers": [
        (MODEL, "attended, _ = self.self_attn(x, x, x, mask)", "n = self.norm1(x)\n        attended, _ = self.self_attn(n, n, n, mask)"),
        (MODEL, "x = self.norm1(x + self.dropout(attended))", "x = x + self.dropout(attended)"),
        (MODEL, "x = self.norm2(x + self.dropout(self.ffn(x)))", "x = x + self.dropout(self.ffn(self.norm2(x)))"),
        (MODEL, "own, _ = self.self_attn(x, x, x, tgt_mask)", "n = self.norm1(x)\n        own, _ = self.self_attn(n, n, n, tgt_mask)"),
        (MODEL, "x = self.norm1(x + self.dropout(own))", "x = x + self.dropout(own)"),
        (MODEL, "self.cross_attn(x, memory", "self.cross_attn(self.norm2(x), memory"),
        (MODEL, "x = self.norm2(x + self.dropout(crossed))", "x = x + self.dropout(crossed)"),
        (MODEL, "x = self.norm3(x + self.dropout(self.ffn(x)))", "x = x + self.dropout(self.ffn(self.norm3(x)))"),
    ],
    "a norm of one's own": [
        (MODEL, "class FeedForward", "class Norm(nn.Module):\n    def __init__(self, d):\n        super().__init__()\n        self.gain = nn.Parameter(torch.ones(d))\n\n    def forward(self, x):\n        return self.gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)\n\n\nclass FeedForward"),
        (MODEL, "nn.LayerNorm", "Norm"),
    ],
    "generate gives the start token back": [
        (MODEL, "range(max_len):", "range(max_len - 1):"),
        (MODEL, "return tokens[:, 1:]", "return tokens"),
    ],
    "generate has a device": [(MODEL, "max_len, start_token):", "max_len, start_token=0, device='mps'):"), (MODEL, "start_token, device=src.device", "start_token, device=device")],
    "decode gives hidden states": [
        (MODEL, "return self.output(y)", "return y"),
        (MODEL, "return self.decode(tgt, memory, src_mask, tgt_mask)", "return self.output(self.decode(tgt, memory, src_mask, tgt_mask))"),
        (MODEL, "self.decode(tokens, memory, None, mask)", "self.output(self.decode(tokens, memory, None, mask))"),
    ],
    "forward(src, tgt, return_attention), causal by itself": [
        (MODEL, "def forward(self, src, tgt, src_mask=None, tgt_mask=None):", "def forward(self, src, tgt, return_attention=False):"),
        (MODEL, "memory = self.encode(src, src_mask)", "memory = self.encode(src)"),
        (MODEL, "return self.decode(tgt, memory, src_mask, tgt_mask)", "return self.decode(tgt, memory, None, create_causal_mask(tgt.size(1))), None"),
        (TRAIN, "return model(inputs, decoder_input, tgt_mask=mask)", "return model(inputs, decoder_input)[0]"),
    ],
    "one embedding, tied to the output": [
        (MODEL, "self.tgt_embedding = nn.Embedding(vocab_size, d_model)", "self.tgt_embedding = self.src_embedding"),
        (MODEL, "self.output = nn.Linear(d_model, vocab_size)", "self.output = nn.Linear(d_model, vocab_size)\n        self.output.weight = self.src_embedding.weight"),
    ],
    "positions with dropout first": [(MODEL, "def __init__(self, d_model, max_len=5000):", "def __init__(self, d_model, dropout=0.1, max_len=5000):"), (MODEL, "PositionalEncoding(d_model, max_len)", "PositionalEncoding(d_model, dropout, max_len)")],
    "gelu": [(MODEL, "torch.relu(", "nn.functional.gelu(")],
    "accuracy is a pair": [
        (TRAIN, "return right.all(dim=1).float().mean().item()", "return right.float().mean().item(), right.all(dim=1).float().mean().item()"),
        (TRAIN, "compute_accuracy(outputs, targets)\n", "compute_accuracy(outputs, targets)[1]\n"),
        (TRAIN, "compute_accuracy(logits, targets)\n", "compute_accuracy(logits, targets)[1]\n"),
    ],
    "tensors are returned": [(TRAIN, ".mean().item()", ".mean()")],
    "loaders of pairs, and a loss of one's own": [
        ("problem1/dataset.py", 'return {"input": self.inputs[index], "target": self.targets[index]}', "return self.inputs[index], self.targets[index]"),
        (TRAIN, 'inputs, targets = batch["input"].to(device), batch["target"].to(device)', "inputs, targets = batch"),
        (TRAIN, "dataloader, criterion, optimizer, device):", "dataloader, optimizer, device, pad_idx=PAD):"),
        (TRAIN, "dataloader, criterion, device):", "dataloader, device, pad_idx=PAD):"),
        (TRAIN, "criterion(", "torch.nn.functional.cross_entropy("),
        (TRAIN, "return total_loss / len(dataloader), right / rows", "return total_loss / len(dataloader), 1.0, right / rows"),
    ],
    "loaders that all shuffle": [("problem1/dataset.py", 'shuffle=name == "train"', "shuffle=True")],
    "loaders that cannot read our files": [("problem1/dataset.py", 'f"{name}.json"', 'f"{name}.jsonl"')],
    "label smoothing, clipping, a progress bar and a package that draws": [
        (TRAIN, "import torch\n", "import seaborn as sns\nimport torch\nfrom tqdm import tqdm\n"),
        (TRAIN, "in dataloader:", "in tqdm(dataloader):"),
        (TRAIN, STEP, STEP.replace("criterion(", "torch.nn.CrossEntropyLoss(label_smoothing=0.1)(") + "\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
    ],
    "the answer ends with a token of its own": [
        (TRAIN, '        outputs = predict(model, inputs, targets)\n', "        targets = torch.cat([targets, torch.full_like(targets[:, :1], PAD)], 1)\n        outputs = predict(model, inputs, targets)\n"),
    ],
    "codes computed in forward": [(ENCODINGS, "if length > self.max_len:", "if True:")],
    "a table as a parameter, with its limit said": [
        (ENCODINGS, "        self.embedding = nn.Embedding(max_len, d_model)\n        nn.init.normal_(self.embedding.weight, std=0.7)", "        self.table = nn.Parameter(0.7 * torch.randn(1, max_len, d_model))"),
        (ENCODINGS, "return x + self.embedding(positions.clamp(max=self.max_len - 1))", "assert x.size(1) <= self.max_len, 'too long'\n        return x + self.table[:, : x.size(1)]"),
    ],
    "lengths in place of a mask": [
        (SORTER, "def forward(self, x, mask=None):\n        \"\"\"mask [batch, T]", "def forward(self, x, lengths):\n        mask = torch.arange(x.shape[1]) < lengths.unsqueeze(1)\n        \"\"\"mask [batch, T]"),
        (TRAIN2, 'batch["mask"]', 'batch["length"]'),
    ],
    "other names of parameters": [
        (MODEL, "num_heads", "n_heads"),
        (MODEL, "d_model", "dim"),
        (MODEL, "num_encoder_layers", "n_enc"),
        (MODEL, "num_decoder_layers", "n_dec"),
    ],
    "feed-forward as convolutions of width 1": [
        (MODEL, "self.linear1 = nn.Linear(d_model, d_ff)", "self.linear1 = nn.Conv1d(d_model, d_ff, 1)"),
        (MODEL, "self.linear2 = nn.Linear(d_ff, d_model)", "self.linear2 = nn.Conv1d(d_ff, d_model, 1)"),
        (MODEL, "torch.relu(self.linear1(x))", "torch.relu(self.linear1(x.transpose(1, 2)))"),
        (MODEL, "return self.linear2(self.dropout(hidden))", "return self.linear2(self.dropout(hidden)).transpose(1, 2)"),
    ],
    "feed-forward as x W": [
        (MODEL, "self.linear1 = nn.Linear(d_model, d_ff)", "self.W1 = nn.Parameter(torch.randn(d_model, d_ff) / d_model**0.5)"),
        (MODEL, "self.linear2 = nn.Linear(d_ff, d_model)", "self.W2 = nn.Parameter(torch.randn(d_ff, d_model) / d_ff**0.5)"),
        (MODEL, "torch.relu(self.linear1(x))", "torch.relu(x @ self.W1)"),
        (MODEL, "return self.linear2(self.dropout(hidden))", "return self.dropout(hidden) @ self.W2"),
    ],
    "dropout by default": [
        (MODEL, "    def __init__(self, d_model, max_len=5000):\n        super().__init__()\n", "    def __init__(self, d_model, max_len=5000, dropout=0.1):\n        super().__init__()\n        self.dropout = nn.Dropout(dropout)\n"),
        (MODEL, "        return x + self.table[: x.size(1)]", "        return self.dropout(x + self.table[: x.size(1)])"),
    ],
    "codes as parameters that are not trained": [
        (MODEL, 'self.register_buffer("table", table)', "self.table = nn.Parameter(table, requires_grad=False)"),
        (ENCODINGS, 'self.register_buffer("table", sinusoidal_code(torch.arange(max_len), d_model))', "self.table = nn.Parameter(sinusoidal_code(torch.arange(max_len), d_model), requires_grad=False)"),
    ],
    "a scheduler in train_epoch": [
        (TRAIN2, "criterion, optimizer, device):", "criterion, optimizer, scheduler, device):"),
        (TRAIN2, "        optimizer.step()\n", "        optimizer.step()\n        scheduler.step()\n"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sound_variant_has_nothing_wrong(variant, tmp_path):
    changes = VARIANTS[variant]
    files = {file for file, _, _ in changes}
    parts = [part for part, own in PARTS.items() if files & {*own}]
    names = [name for name, one in check.CHECKS.items() if one.part in parts and name != "model.learns"]
    if not any("generate" in old + new for _, old, new in changes) and "decode" not in variant:
        names = [name for name in names if name != "model.generate"]
    results = verdicts(make(tmp_path / "code", *changes), names)
    assert {name: result.message for name, result in results.items() if result.verdict != "ok"} == {}


@pytest.mark.parametrize(
    ("variant", "word"),
    [
        ("masks of rank 4 only", "[T, T]"),
        ("four dimensions only", "head dimension"),
        ("weights only if asked", "no weights"),
        ("PyTorch's own attention", "from scratch"),
        ("generate has a device", "mps"),
        ("gelu", "gelu"),
        ("forward(src, tgt, return_attention), causal by itself", "src_mask"),
    ],
)
def test_what_nobody_asked_for_is_a_remark(variant, word, tmp_path):
    part = next(part for part, own in PARTS.items() if VARIANTS[variant][0][0] in own)
    names = [name for name, one in check.CHECKS.items() if one.part == part and name != "model.learns"]
    results = verdicts(make(tmp_path / "code", *VARIANTS[variant]), names)
    remarks = [remark for result in results.values() for remark in result.remarks]
    assert any(word in remark for remark in remarks), remarks


def test_there_are_enough():
    assert len(VARIANTS) >= 12


# --- where the code is ---------------------------------------------------------------------------------------------

ABOUT_TRAINING = ["attention.scores", "model.position", "training.accuracy"]


@pytest.mark.parametrize(
    "layout", ["src", "nested", "flat", "flat, imports from src", "one problem", "both in one folder"]
)
def test_the_code_is_found(layout, tmp_path):
    names, top = [*ABOUT_TRAINING, "encodings.none"], tmp_path / "code"
    make(tmp_path / "made")
    top.mkdir()
    first, second = (tmp_path / "made" / f"problem{n}" for n in (1, 2))
    if layout == "src":
        for problem in (first, second):
            (top / problem.name).mkdir()
            problem.rename(top / problem.name / "src")
        replace(top / "problem1/src/model.py", "from attention", "from src.attention")
    elif layout == "nested":
        (tmp_path / "made").rename(top / "homework-3")
    elif layout == "flat":
        first.rename(top / "p1")
        second.rename(top / "p2")
    elif layout == "flat, imports from src":
        replace(first / "model.py", "from attention", "from src.attention")
        first.rename(top / "addition")
        second.rename(top / "sorting")
    elif layout == "one problem":
        top, names = first, ABOUT_TRAINING
    else:
        names = ["attention.scores", "encodings.none"]
        top = first
        (second / "positional_encoding.py").rename(first / "positional_encoding.py")
    results = verdicts(top, names)
    assert {name: (result.verdict, result.message) for name, result in results.items() if result.verdict != "ok"} == {}


def test_a_copy_beside_the_homework_is_not_taken_for_it(tmp_path):
    make(tmp_path / "made")
    tmp_path /= "made"
    shutil.copytree(tmp_path / "problem1", tmp_path / "backup")
    shutil.copytree(tmp_path / "problem2", tmp_path / "a" / "problem2")
    assert check.find(tmp_path) == {1: tmp_path / "problem1", 2: tmp_path / "problem2"}


def replace(path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


# --- stubs ---------------------------------------------------------------------------------------------------------


def test_every_stub_is_to_do():
    results = verdicts(STARTER, [*check.CHECKS])
    assert {result.verdict for result in results.values()} == {"to do"}
    assert len(results) == len(check.CHECKS)


def test_a_stub_that_fails_at_the_first_name_it_lacks_is_to_do(tmp_path):
    """In some handouts the given rest of train_epoch uses names that the student has yet to write."""
    body = (
        "        inputs = batch['input']\n        # TODO: forward pass, loss, step\n        total_loss += loss.item()\n"
    )
    stub = f"    model.train()\n    total_loss = 0\n    for batch in dataloader:\n{body}    return total_loss\n\n\ndef unused(x):\n"
    folder = make(tmp_path / "code", (TRAIN, "    model.train()\n", stub))
    results = verdicts(folder, ["training.accuracy", "training.loss"])
    assert results["training.accuracy"].verdict == "ok" and results["training.loss"].verdict == "to do"

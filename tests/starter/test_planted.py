# ruff: noqa: E501 (a table with one change a line)
"""Planted mistakes: one line each in a sound solution, each found by the check that is named for it."""

import pytest

from tests.starter.submissions import check, make, verdicts

ATTENTION, MODEL, TRAIN = "problem1/attention.py", "problem1/model.py", "problem1/train.py"
ENCODINGS, SORTER, TRAIN2 = "problem2/positional_encoding.py", "problem2/model.py", "problem2/train.py"

# file, old, new, the check that finds it, a word of the message
MISTAKES = [
    (ATTENTION, "scores / math.sqrt(d_k)", "scores", "attention.scores", "missing"),
    (ATTENTION, "scores / math.sqrt(d_k)", "scores / d_k", "attention.scores", "square root"),
    (ATTENTION, "scores / math.sqrt(d_k)", "scores * math.sqrt(d_k)", "attention.scores", "do not multiply"),
    (ATTENTION, "d_k = Q.size(-1)", "d_k = K.size(-2)", "attention.scores", "number of keys"),
    (ATTENTION, "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=-2)", "attention.scores", "queries"),
    (ATTENTION, "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=1)", "attention.scores", "heads"),
    (ATTENTION, "torch.softmax(scores, dim=-1)", "scores", "attention.scores", "softmax is missing"),
    (ATTENTION, "return output, weights", "return weights, output", "attention.scores", "output, weights"),
    (ATTENTION, "if mask is not None:", "if mask is None and Q is K:", "attention.mask", "never applied"),
    (ATTENTION, "mask == 0, float", "mask != 0, float", "attention.mask", "may attend"),
    (ATTENTION, "mask == 0, float(\"-inf\")", "mask == 0, 0.0", "attention.mask", "score of 0"),
    (ATTENTION, "mask == 0, float(\"-inf\")", "mask == 0, -5.0", "attention.mask", "still get weight"),
    (ATTENTION, "scores = scores.masked_fill(mask == 0, float(\"-inf\"))", "scores = scores + mask", "attention.mask", "add"),
    (
        ATTENTION,
        "weights = torch.softmax(scores, dim=-1)",
        "weights = torch.softmax(torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(d_k), -1) * (1 if mask is None else mask)",
        "attention.mask",
        "after the softmax",
    ),
    (ATTENTION, "torch.softmax(scores, dim=-1)", "scores.exp() / scores.exp().sum(-1, keepdim=True)", "attention.large", "overflow"),
    (ATTENTION, "torch.matmul(weights, V)", "torch.matmul(weights, V.detach())", "attention.gradients", "V"),
    (ATTENTION, "torch.matmul(Q, K.transpose", "torch.matmul(Q.data, K.transpose", "attention.gradients", "Q"),
    (ATTENTION, "    return output, weights", "    V.mul_(2)\n    return output, weights", "attention.inputs", "V"),
    (ATTENTION, "return output, weights", "return torch.dropout(output, 0.1, True), weights", "attention.scores", ""),
    (ATTENTION, "torch.tril(torch.ones", "torch.triu(torch.ones", "attention.causal_mask", "upper"),
    (ATTENTION, "seq_len, device=device))", "seq_len, device=device), -1)", "attention.causal_mask", "diagonal"),
    (ATTENTION, "seq_len, device=device))", "seq_len, device=device), 1)", "attention.causal_mask", "above"),
    (ATTENTION, "return mask.unsqueeze(0).unsqueeze(0)", "return mask", "attention.causal_mask", "shape"),
    (ATTENTION, "view(batch, length, self.num_heads, self.d_k).transpose(1, 2)", "reshape(batch, self.num_heads, length, self.d_k)", "attention.heads", "memory"),
    (ATTENTION, "view(batch, length, self.num_heads, self.d_k).transpose(1, 2)", "view(batch, length, self.d_k, self.num_heads).permute(0, 3, 1, 2)", "attention.heads", "neighbours"),
    (ATTENTION, "x.transpose(1, 2).reshape(", "x.reshape(", "attention.heads", "transposing"),
    (ATTENTION, "self.split_heads(self.W_k(key))", "self.split_heads(self.W_k(query))", "attention.multihead", "`query`"),
    (ATTENTION, "self.split_heads(self.W_v(value))", "self.split_heads(self.W_v(key))", "attention.multihead", "`value`"),
    (ATTENTION, "scaled_dot_product_attention(Q, K, V, mask)", "scaled_dot_product_attention(Q, K, V)", "attention.multihead", "mask"),
    (ATTENTION, "self.W_o(self.combine_heads(heads))", "self.combine_heads(heads)", "attention.multihead", "output projection"),
    (ATTENTION, "combine_heads(heads)), weights", "combine_heads(heads)), weights.mean(1)", "attention.multihead", "weights"),
    (ATTENTION, "self.split_heads(self.W_q(query))", "self.split_heads(self.W_q(query)) / math.sqrt(self.d_k)", "attention.multihead", ""),
    (MODEL, "torch.arange(max_len)", "torch.arange(1, max_len + 1)", "model.position", "counted from 1"),
    (MODEL, "torch.arange(0, d_model, 2) *", "torch.arange(d_model // 2) *", "model.position", "exponent"),
    (MODEL, "torch.cos(position * rate)", "torch.sin(position * rate)", "model.position", "cosines"),
    (MODEL, "math.log(10000.0)", "math.log(1000.0)", "model.position", "differs"),
    (MODEL, "return x + self.table[: x.size(1)]", "return x + self.table[x.size(0)]", "model.position", "differs"),
    (MODEL, "self.register_buffer(\"table\", table)", "self.table = nn.Parameter(table)", "model.position", "trainable"),
    (MODEL, "torch.relu(self.linear1(x))", "self.linear1(x)", "model.feed_forward", "no ReLU"),
    (MODEL, "return self.linear2(self.dropout(hidden))", "return torch.relu(self.linear2(hidden))", "model.feed_forward", "second layer"),
    (MODEL, "self.dropout(hidden)", "nn.functional.dropout(hidden, 0.5)", "model.feed_forward", "eval"),
    (MODEL, "self.norm1(x + self.dropout(attended))", "self.norm1(self.dropout(attended))", "model.encoder", "residual"),
    (MODEL, "self.norm2(x + self.dropout(self.ffn(x)))\n        return x\n\n\nclass Dec", "self.norm2(self.ffn(x))\n        return x\n\n\nclass Dec", "model.encoder", "residual"),
    (MODEL, "self.self_attn(x, x, x, mask)", "self.self_attn(x, x, x)", "model.encoder", "mask"),
    (MODEL, "self.norm1(x + self.dropout(attended))", "x", "model.encoder", "attention's output"),
    (MODEL, "x = self.norm2(x + self.dropout(self.ffn(x)))\n", "x = x + self.dropout(self.ffn(x))\n", "model.encoder", "norm"),
    (MODEL, "self.self_attn(x, x, x, tgt_mask)", "self.self_attn(x, x, x)", "model.decoder", "tgt_mask"),
    (MODEL, "self.cross_attn(x, memory, memory, src_mask)", "self.cross_attn(x, memory, memory)", "model.decoder", "src_mask"),
    (MODEL, "self.cross_attn(x, memory, memory, src_mask)", "self.cross_attn(x, x, x)", "model.decoder", "encoder's output"),
    (MODEL, "self.norm2(x + self.dropout(crossed))", "self.norm2(self.dropout(crossed))", "model.decoder", "residual"),
    (MODEL, "return self.output(y)", "return torch.softmax(self.output(y), -1)", "model.logits", "probabilities"),
    (MODEL, "return self.output(y)", "return y", "model.logits", "[8, 4, 13]"),
    (MODEL, "layer(y, memory, src_mask, tgt_mask)", "layer(y, memory, src_mask)", "model.causal", "tgt_mask"),
    (MODEL, "y = self.dropout(self.positions(y))", "y = self.dropout(y)", "model.causal", "positions"),
    (MODEL, "x = self.dropout(self.positions(x))", "x = self.dropout(x)", "model.source", "positions"),
    (MODEL, "x = layer(x, src_mask)", "x = layer(x)", "model.source", "src_mask"),
    (MODEL, "layer(y, memory, src_mask, tgt_mask)", "layer(y, memory, None, tgt_mask)", "model.source", "decoder"),
    (MODEL, "[EncoderLayer(*sizes) for _ in range(num_encoder_layers)]", "[EncoderLayer(*sizes)] * num_encoder_layers", "model.parameters", "Two more"),
    (MODEL, "for _ in range(num_decoder_layers)", "for _ in range(2)", "model.parameters", "Two more"),
    (MODEL, "return self.output(y)", "return self.output(y.detach())", "model.parameters", "gradient"),
    (MODEL, "logits[:, -1].argmax", "logits[:, 0].argmax", "model.generate", ""),
    (MODEL, "(src.size(0), 1), start_token,", "(src.size(0), 1), 0,", "model.generate", "start"),
    (MODEL, "logits[:, -1].argmax", "logits[:, -1].argmin", "model.generate", ""),
    (MODEL, "self.decode(tokens, memory, None, mask)", "self.decode(tokens, memory)", "model.generate", "causal"),
    (TRAIN, "right.all(dim=1).float()", "right.float()", "training.accuracy", "share of digits"),
    (TRAIN, "pad_token=PAD):", "pad_token=0):", "training.accuracy", "Zeros"),
    (TRAIN, "right.all(dim=1).float()", "right[:, 1:].all(dim=1).float()", "training.accuracy", "first one"),
    (TRAIN, "right.all(dim=1).float()", "right.any(dim=1).float()", "training.accuracy", "0.5"),
    (TRAIN, "return torch.cat([start, targets[:, :-1]], dim=1)", "return targets", "training.loss", "copy"),
    (TRAIN, "return torch.cat([start, targets[:, :-1]], dim=1)", "return torch.cat([start, targets[:, 1:]], dim=1)", "training.loss", "copy"),
    (TRAIN, "targets.reshape(-1))\n        loss.backward", "targets.reshape(-1).where(targets.reshape(-1) != 0, -100))\n        loss.backward", "training.loss", "0"),
    (TRAIN, "        outputs = predict(model, inputs, targets)\n        loss = criterion(outputs.reshape(-1, outputs.size(-1)), targets.reshape(-1))", "        outputs = model(inputs, targets[:, :-1], tgt_mask=create_causal_mask(3))\n        loss = criterion(outputs.reshape(-1, outputs.size(-1)), targets[:, 1:].reshape(-1))\n        targets = targets[:, 1:]", "training.loss", "sees 3"),
    (TRAIN, "        loss.backward()\n        optimizer.step()", "        loss.backward()", "training.step", "steps"),
    (TRAIN, "        optimizer.zero_grad()\n", "", "training.step", "zero_grad"),
    (TRAIN, "    model.train()\n", "    model.eval()\n", "training.step", "eval mode"),
    (TRAIN, "    model.train()\n", "", "training.step", "eval mode"),
    (TRAIN, "        outputs = predict(model, inputs, targets)\n", "        outputs = model(inputs, shifted(targets))\n", "training.loss", "causal"),
    (TRAIN, "        logits = predict(model, inputs, targets)\n", "        logits = model(inputs, shifted(targets))\n", "training.evaluate", "causal"),
    (TRAIN, "    model.eval()\n", "    model.train()\n", "training.evaluate", "model.eval"),
    (TRAIN, "accuracy = compute_accuracy(logits, targets)", "accuracy = compute_accuracy(logits[:, 1:], targets[:, 1:])", "training.evaluate", "first digit"),
    (TRAIN, "accuracy = compute_accuracy(logits, targets)", "accuracy = (logits.argmax(-1) == targets).float().mean().item()", "training.evaluate", "late in each answer"),
    (TRAIN, "torch.full_like(targets[:, :1], START)", "torch.zeros_like(targets[:, :1])", "training.tokens", "digit 0"),
    (TRAIN, "def shifted", "LOSS = torch.nn.CrossEntropyLoss(ignore_index=0)\n\n\ndef shifted", "training.tokens", "ignore_index=0"),
    (ENCODINGS, "        return x + self.table[:length]", "        return x + sinusoidal_code(torch.arange(length) * self.max_len / length, self.d_model)", "encodings.one_code", "interpolation"),
    (ENCODINGS, "positions = torch.arange(x.size(1), device=x.device)", "positions = torch.arange(x.size(1)).flip(0)", "encodings.learned", "reverse"),
    (ENCODINGS, "torch.cos(positions.unsqueeze(1) * rate)", "torch.sin(positions.unsqueeze(1) * rate)", "encodings.sinusoidal", "cosines"),
    (ENCODINGS, "math.log(10000.0)", "math.log(1000.0)", "encodings.sinusoidal", "differs"),
    (ENCODINGS, "self.register_buffer(\"table\", ", "self.table = nn.Parameter(", "encodings.sinusoidal", "trainable"),
    (ENCODINGS, "if length > self.max_len:", "if False:", "encodings.beyond", "from the formula"),
    (ENCODINGS, "return x + sinusoidal_code(torch.arange(length), ", "return x + sinusoidal_code(torch.arange(length).clamp(max=19), ", "encodings.beyond", "last row"),
    (ENCODINGS, "std=0.7)", "std=0.0)", "encodings.learned", "alike"),
    (ENCODINGS, "return x + self.embedding(positions.clamp(max=self.max_len - 1))", "return x + self.embedding(positions * 0)", "encodings.learned", "row 0"),
    (ENCODINGS, "return x + self.embedding(positions.clamp(max=self.max_len - 1))", "return x + self.embedding(positions.clamp(max=self.max_len - 1)).detach()", "encodings.learned", "gradient"),
    (ENCODINGS, "        return x\n", "        return x * 0.5\n", "encodings.none", "x itself"),
    (ENCODINGS, '"none": NoPositionalEncoding', '"none": SinusoidalPositionalEncoding', "encodings.factory", "none"),
    (ENCODINGS, "std=0.7)", "std=0.02)", "sorting.size", "drown"),
    (SORTER, "self.output = nn.Linear(d_model, 2)", "self.output = nn.Linear(d_model, 2)\n        [nn.init.xavier_uniform_(p) for p in self.parameters() if p.dim() > 1]", "sorting.size", "_init_weights"),
    (SORTER, "layer(hidden, mask[:, None, None, :])", "layer(hidden)", "sorting.padding", "mask"),
    (SORTER, "mean = (self.norm(hidden) * weight).sum(1) / weight.sum(1)", "mean = self.norm(hidden).mean(1)", "sorting.padding", "real tokens"),
    (SORTER, "self.positions(self.embedding(x) * math.sqrt(self.embedding.embedding_dim))", "self.embedding(x)", "sorting.positions", "not used"),
    (SORTER, "mean = (self.norm(hidden) * weight).sum(1) / weight.sum(1)", "mean = self.norm(hidden)[:, 0]", "sorting.positions", "other way"),
    (TRAIN2, "        loss.backward()\n        optimizer.step()", "        loss.backward()", "sorting.step", "steps"),
    (TRAIN2, "        optimizer.zero_grad()\n", "", "sorting.step", "zero_grad"),
    (TRAIN2, "    model.train()\n", "    model.eval()\n", "sorting.step", "eval mode"),
    (TRAIN2, "    model.train()\n", "", "sorting.step", "eval mode"),
    (TRAIN2, 'batch["mask"]', '(1 - batch["mask"])', "sorting.step", "train_epoch hands"),
    (TRAIN2, '        logits = model(sequences, batch["mask"].to(device))\n        loss =', "        logits = model(sequences)\n        loss =", "sorting.step", "none at all"),
    (TRAIN2, '        logits = model(sequences, batch["mask"].to(device))\n        total', "        logits = model(sequences)\n        total", "sorting.evaluate", "evaluate hands"),
    (TRAIN2, "    model.eval()\n", "", "sorting.evaluate", "model.eval"),
    (TRAIN2, "(logits.argmax(-1) == labels).sum().item()\n        rows += len(labels)\n    return total_loss / rows, correct / rows", "(logits.argmin(-1) == labels).sum().item()\n        rows += len(labels)\n    return total_loss / rows, correct / rows", "sorting.evaluate", "not 1"),
    (TRAIN2, "correct / rows", "100 * correct / rows", "sorting.evaluate", "not 1"),
    (TRAIN2, "        correct += (logits.argmax(-1) == labels).sum().item()\n        rows += len(labels)\n", "        correct = (logits.argmax(-1) == labels).sum().item()\n        rows = len(labels)\n", "sorting.evaluate", "every batch"),
]  # fmt: skip

SLOW = {"model.learns", "model.generate"}  # run only for a mistake that they are to find


def name(mistake: tuple) -> str:
    return f"{mistake[3]}: {' '.join(mistake[2].split())[:50]}"


@pytest.mark.parametrize("mistake", MISTAKES, ids=name)
def test_a_planted_mistake_is_found_and_named(mistake, tmp_path):
    file, old, new, wanted, word = mistake
    folder = make(tmp_path / "code", (file, old, new))
    part = wanted.partition(".")[0]
    names = [n for n, one in check.CHECKS.items() if one.part == part and (n not in SLOW or wanted in SLOW)]
    results = verdicts(folder, names)
    wrong = [n for n in names if results[n].verdict == "WRONG"]
    assert wanted in wrong, {n: results[n].message for n in wrong}
    assert len(wrong) <= 3, {n: results[n].message for n in wrong}
    assert word in results[wanted].message, results[wanted].message


def test_there_are_enough_and_every_check_finds_one():
    assert len(MISTAKES) >= 45
    assert {*check.CHECKS} - {mistake[3] for mistake in MISTAKES} <= {"sorting.logits", "model.learns"}


def test_the_frequent_faults_are_each_named_in_one_submission(tmp_path):
    """What most public solutions have at once: no start token, 0 as padding, stretched positions, a table drawn anew."""
    shift = ("return torch.cat([start, targets[:, :-1]], dim=1)", "return targets[:, :-1]")
    after = (
        "    return model(inputs, decoder_input, tgt_mask=mask)\n",
        "    return model(inputs, decoder_input, tgt_mask=mask)\n\n\nCRITERION = torch.nn.CrossEntropyLoss(ignore_index=0)\n",
    )
    one_less = (
        'batch["target"].to(device)\n',
        'batch["target"].to(device)\n        answers, targets = targets[:, 1:], targets\n',
    )
    folder = make(
        tmp_path / "code",
        (TRAIN, *shift),
        (TRAIN, *after),
        (TRAIN, *one_less),
        (TRAIN, ", targets.reshape(-1))", ", answers.reshape(-1))"),
        (TRAIN, "compute_accuracy(outputs, targets)\n", "compute_accuracy(outputs, answers)\n"),
        (TRAIN, "compute_accuracy(logits, targets)\n", "compute_accuracy(logits, answers)\n"),
        (TRAIN, "pad_token=PAD):", "pad_token=0):"),
        (
            ENCODINGS,
            "        return x + self.table[:length]",
            "        return x + sinusoidal_code(torch.arange(length) * self.max_len / length, self.d_model)",
        ),
        (
            SORTER,
            "self.output = nn.Linear(d_model, 2)",
            "self.output = nn.Linear(d_model, 2)\n        [nn.init.xavier_uniform_(p) for p in self.parameters() if p.dim() > 1]",
        ),
    )
    results = verdicts(folder, [name for name in check.CHECKS if name not in SLOW])
    wrong = {name: result.message for name, result in results.items() if result.verdict == "WRONG"}
    assert [*wrong] == [
        "training.accuracy",
        "training.loss",
        "training.evaluate",
        "training.tokens",
        "encodings.one_code",
        "sorting.size",
    ], wrong
    assert "sees 3" in wrong["training.loss"] and "never looks at the first digit" in wrong["training.evaluate"]


def test_a_mistake_is_named_once_and_where_it_is(tmp_path):
    """An exception that stops several checks, and attention whose faults problem 2's given classifier would show, too."""
    folder = make(tmp_path / "code", (TRAIN, "outputs.argmax(-1)", "outputs.argmax(1)"))
    results = verdicts(folder, [name for name, one in check.CHECKS.items() if one.part == "training"])
    assert results["training.accuracy"].verdict == "WRONG"
    said = {result.message for name, result in results.items() if name != "training.accuracy"}
    assert said == {"the same error as in training.accuracy"}
    folder = make(tmp_path / "masked", (ATTENTION, "mask == 0, float", "mask != 0, float"))
    results = verdicts(folder, [name for name in check.CHECKS if name not in SLOW])
    wrong = {name.partition(".")[0] for name, result in results.items() if result.verdict == "WRONG"}
    assert wrong == {"attention"}

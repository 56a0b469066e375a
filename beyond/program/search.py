"""The coarsest variable that suffices for each edge, each head of the encoder and the decoder's self-attention.

Each is found on one batch of random pairs, with those found before it in place (scrub.py).
"""

from beyond.program.scrub import Batch
from beyond.program.variables import EDGE_VARIABLES, ENCODER_VARIABLES, EVERYTHING, NOTHING, SELF_VARIABLES


def search_edges(batch: Batch) -> list[list[dict]]:
    """[T][columns] the coarsest variable of each edge that suffices, with those of all edges before it in place.

    Digit by digit, and for each from the farthest edge to the one of its own column: where two edges bring the same,
    the nearer one is found to bring it.
    """
    rows, table = batch.own(), []
    for t in range(batch.digits):
        own = max(t - 1, 0)
        table.append([{}] * (batch.digits - 1))
        for k in [*range(own), *range(batch.digits - 2, own - 1, -1)]:
            entry = {"variable": EVERYTHING, "values": None}
            for name, variable in EDGE_VARIABLES.items():
                values = variable.of(batch.columns.column(k))
                candidate = rows.clone()
                candidate[:, t, k] = batch.resample(values)
                if batch.suffices(t, inputs=batch.inputs[:, : t + 1], edges=batch.with_plus(candidate))[0]:
                    rows = candidate
                    entry = {"variable": name, "values": len(values.unique())}
                    break
            table[t][k] = entry
    return table


def search_encoder(batch: Batch) -> dict[str, list[list[str]]]:
    """{module: [heads][columns] the coarsest variable that suffices}, with all before it in place.

    From the first layer to the last: a whole layer, a whole head, then one column of it. Each step may cost as many
    answers as BAR allows: else the first would use up what the last may cost.
    """
    chosen: dict[str, list[list[str]]] = {}
    columns, before = batch.digits - 1, 1.0

    def enough(module: str, heads: list[list[str]]) -> bool:
        nonlocal before
        found, share = batch.suffices(before=before, encoder=batch.encoder_like(chosen | {module: heads}))
        if found:
            chosen[module], before = heads, share
        return found

    for module, count in batch.heads("encoder").items():
        nothing, heads = [NOTHING] * columns, [[EVERYTHING] * columns] * count
        chosen[module] = heads
        if enough(module, [nothing] * count):
            continue
        for head in range(count):
            if enough(module, [*chosen[module][:head], nothing, *heads[head + 1 :]]):
                continue
            for k in range(columns):
                for name in ENCODER_VARIABLES:
                    line = [*chosen[module][head][:k], name, *heads[head][k + 1 :]]
                    if enough(module, [*chosen[module][:head], line, *heads[head + 1 :]]):
                        break
    return chosen


def search_self(batch: Batch) -> list[str]:
    """[T] the coarsest variable of the decoder's self-attention at each position, with those before it in place."""
    chosen = [EVERYTHING] * batch.digits
    for t in range(batch.digits):
        for name in SELF_VARIABLES:
            candidate = [*chosen[:t], name, *chosen[t + 1 :]]
            if batch.suffices(decoder=batch.self_like(candidate))[0]:
                chosen = candidate
                break
    return chosen

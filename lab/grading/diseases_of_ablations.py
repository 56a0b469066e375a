"""Known diseases of ablations, and of what is concluded from them. (item, submission) -> findings"""

import math
import re
from collections.abc import Iterator

from lab.grading.ablations import Ablation
from lab.grading.checks import ROUNDED, SAME, by_chance, percent
from lab.grading.layouts import leaves, number
from lab.grading.reading import Unreadable, shown
from lab.grading.submission import Finding, Submission


def ablation_diseases(item: dict, submission: Submission) -> Iterator[Finding]:
    ablation, log = submission.ablation(item), submission.log_or_none(item.get("log"))
    test = log.test_acc if log else None
    baseline = ablation.baseline if ablation.baseline is not None else test
    yield from _no_share(item, ablation)
    found = [*_two_baselines(item, ablation, test), *known_value(item, submission)]
    if baseline is not None and 0 <= baseline <= 1:
        found += _nothing_to_ablate(item, ablation, baseline) or _no_effect(item, ablation, baseline)
    yield from found
    said = _conclusion(item, submission)
    if found and said and all(finding.name != "redundancy-unsupported" for finding in found):
        yield Finding(
            "redundancy-unsupported",
            item["id"],
            item["file"],
            f"concluded: “{said}”, from the data above ({found[0].name})",
            "which heads matter cannot be told from these numbers; no share of heads can be called prunable",
        )


def _two_baselines(item: dict, ablation: Ablation, test: float | None) -> list[Finding]:
    """Exact match under teacher forcing and under greedy decoding is the same number, always."""
    if ablation.baseline is None or test is None or not (0 <= test <= 1 and 0 <= ablation.baseline <= 1):
        return []
    if abs(ablation.baseline - test) <= max(SAME, by_chance(item, ablation, test)):
        return []
    return [
        Finding(
            "two-baselines",
            item["id"],
            item["file"],
            f"the ablation starts from {ablation.baseline:.4f}, the log's test accuracy is {test:.4f}",
            item["two_baselines"],
            1.0,
        )
    ]


def _no_share(item: dict, ablation: Ablation) -> list[Finding]:
    named = {"the baseline": ablation.baseline} if ablation.baseline is not None else {}
    for name, value in (named | {f"without {head}": v for head, v in ablation.without.items()}).items():
        if not -1e-6 <= value <= 1 + 1e-6:
            evidence = f"{shown(name, 60)}: {value:g}"
            meaning = "an accuracy is a share, from 0 to 1"
            return [Finding("impossible-number", item["id"], item["file"], evidence, meaning, 1.0)]
    return []


def _nothing_to_ablate(item: dict, ablation: Ablation, baseline: float) -> list[Finding]:
    if baseline > item["dead_below"] or not ablation.without:
        return []
    return [
        Finding(
            "nothing-to-ablate",
            item["id"],
            item["file"],
            f"the whole model is right on {percent(baseline)}; without a head on "
            f"{percent(min(ablation.without.values()))} to {percent(max(ablation.without.values()))}",
            "a model that solves nothing has no head that it could miss: the ablation says nothing about heads",
            1.0,
        )
    ]


def _no_effect(item: dict, ablation: Ablation, baseline: float) -> list[Finding]:
    """No head matters: exactly (nothing was ablated) or within what so many rows can tell."""
    values = [value for value in ablation.without.values() if math.isfinite(value)]
    if len(values) < item["at_least"]:
        return []
    rows = min(ablation.samples or item["test_rows"], 10**6)
    if max(values) - min(values) < 0.5 / rows:
        return [
            Finding(
                "ablation-without-effect",
                item["id"],
                item["file"],
                f"{values[0]:.4f} without each of {len(values)} heads, {baseline:.4f} with all",
                "the ablation did not reach single heads (a hook that is never called, output rows in place of a "
                "head's columns, or a model in which nothing depends on attention)",
                1.0,
            )
        ]
    largest = max(abs(baseline - value) for value in values)
    if largest > item["too_small"]:
        return []
    return [
        Finding(
            "redundancy-unsupported",
            item["id"],
            item["file"],
            f"no head of {len(values)} changes the accuracy by more than {largest:.4f}: "
            f"{largest * rows:.0f} of {rows:,} rows",
            "so small a difference for every head is within what these rows can tell, and typical of an ablation that "
            "misses the heads: check it against removing the head's columns of the output projection",
            0.5,
        )
    ]


CLAIM = re.compile(
    r"(\d+(\.\d+)?\s?%[^.\n]{0,40}(prun|redundan)\w*|(prun|redundan)\w*[^.\n]{0,40}?\d+(\.\d+)?\s?%"
    r"|all (the )?heads [^.\n]{0,20}redundan\w*)",
    re.IGNORECASE,
)


def _conclusion(item: dict, submission: Submission) -> str | None:
    """A share of heads that is called prunable or redundant, in the texts or under a key of the JSON files."""
    for name in item.get("conclusions", []):
        try:
            if name.endswith(".json"):
                for keys, leaf in leaves(submission.json(name)):
                    key = " ".join(map(str, keys))
                    if re.search("prun|redundan", key, re.IGNORECASE) and number(leaf):
                        return shown(f"{key}: {leaf}", 80)
            else:
                claim = CLAIM.search(submission.text(name))
                if claim:
                    return shown(claim.group(0).strip(), 80)
        except Unreadable:
            continue
    return None


def known_value(item: dict, submission: Submission) -> Iterator[Finding]:
    """An accuracy that a known mistake leaves at most, or just below it."""
    if item["check"] == "ablation":
        accuracy, what = submission.ablation(item).baseline, "the baseline"
    else:
        accuracy, what = submission.log(item["file"]).test_acc, "the test accuracy"
    for known in submission.expected.get("known_values", []):
        if accuracy is not None and -0.003 <= accuracy - known["value"] <= ROUNDED:
            yield Finding(
                known["name"],
                item["id"],
                item["file"],
                f"{what} is {accuracy:.4f}; {known['evidence']}",
                known["meaning"],
                1.0 if item["check"] == "ablation" else 0.0,  # of so low a test accuracy no points are left
            )

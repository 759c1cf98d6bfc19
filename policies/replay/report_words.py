"""What a block says, in words: what dominates what, whether routing pays at all, and what looks better than it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policies.replay.frontier import Frontier, Range
from policies.replay.words import listed

SMALL = 30  # queries below which a bootstrap of them says little
_MIXING = ("hull", "random")  # they mix fixed arms, so they are what the hull is


def statements(told: Mapping[str, Any], bands: Mapping[str, tuple[Frontier, Frontier]]) -> list[str]:
    """Sentences for the reader, the verdict on routing first."""
    if told["hypervolume"] is None:
        return [
            f"No joules are known for {told['dataset']} under this condition: accuracy is shown, fronts are not. "
            "Name a GPU and a batch whose joules per token were measured, or import outcomes with energy.",
            *_small(told),
            *_collapsed(told),
        ]
    return [
        _front(told),
        *_small(told),
        *_routing(told, bands),
        *_as_run(told),
        *_dominated(told),
        *_oracle(told),
        *_budget(told),
        *_collapsed(told),
        *_missing(told),
    ]


def _small(told: Mapping[str, Any]) -> list[str]:
    """Splits of a handful of queries: what is told of them is hardly evidence."""
    said = []
    for name, what in (("n_test", "held-out"), ("n_train", "training")):
        if 0 < told[name] < SMALL:
            said.append(f"Only {told[name]} {what} queries: intervals are rough below {SMALL}.")
    sizes: dict[str, int] = {}
    for policy in told["policies"]:
        for benchmark, figures in policy["by_benchmark"].items():
            sizes[benchmark] = max(sizes.get(benchmark, 0), figures["n"])
    few = [f"{name} ({n})" for name, n in sorted(sizes.items()) if n < SMALL]
    if few and len(sizes) > 1:
        said.append(f"Benchmarks of fewer than {SMALL} held-out queries, told with little certainty: {listed(few)}.")
    return said


def _front(told: Mapping[str, Any]) -> str:
    ref = told["reference_point"]
    return (
        f"Hypervolume {told['hypervolume']:.4f} (fixed arms alone {told['hypervolume_fixed_arms']:.4f}) against "
        f"accuracy {ref['accuracy']:g} at {ref['energy_j']:g} J, {ref['version']}. Non-dominated among what can be "
        f"deployed: {listed(told['front'])}."
    )


def _routing(told: Mapping[str, Any], bands: Mapping[str, tuple[Frontier, Frontier]]) -> list[str]:
    """Whether a deployable policy beats the hull of fixed arms, over which range, how surely; then the arms alone."""
    if not bands:
        return ["No policy of this report has a curve to compare with the hull of the fixed arms over a range."]
    count = "one curve" if len(bands) == 1 else f"{len(bands)} curves"
    low, high = told["choice_span_j"]
    sure = f"95 % over all tested points of {count} between {low:.3g} J and {high:.3g} J at once"
    said = []
    for which, what in ((0, "the mixing hull of the fixed arms"), (1, "the best fixed arm of no more joules")):
        won = {name: both[which] for name, both in bands.items() if both[which].proved}
        if won:
            said += [f"{name} beats {what} {_ranges(found, found.proved)} ({sure})." for name, found in won.items()]
            continue
        tried = {name: both[which] for name, both in bands.items() if both[which].ranges}
        if not tried:
            said.append(f"No deployable policy beats {what} at any tested point of its curve, not even by estimate.")
            continue
        name = max(tried, key=lambda n: max(r.largest_margin for r in tried[n].ranges))
        found = tried[name]
        most = max(found.ranges, key=lambda r: r.largest_margin)
        alone = (
            " Point by point the interval excludes 0 there, but so many points were looked at that this proves nothing."
            if found.proved_pointwise
            else ""
        )
        said.append(
            f"No deployable policy beats {what} with an interval that excludes 0 ({sure}). The largest estimate "
            f"is {name} {_ranges(found, [most])}.{alone}"
        )
    return said


def _as_run(told: Mapping[str, Any]) -> list[str]:
    """Operating points that were named before the run; each interval is for itself."""
    tried = [p for p in told["policies"] if p["deployable"] and p["fixed_arm"] is None and p["family"] not in _MIXING]
    by_arm: dict[str, list[str]] = {}
    for p in tried:
        for arm in p["domination"]["dominates"]:
            by_arm.setdefault(arm, []).append(p["name"])
    said = [f"The fixed arm {arm} is dominated by {listed(names)}." for arm, names in by_arm.items()]
    cheapest = min((c["energy_j"] for c in told["hull"]), default=0.0)
    tried = [p for p in tried if (p["figures"]["energy_j_per_query"] or 0.0) >= cheapest]
    won = [
        (p["name"], m) for p in tried if (m := p["domination"]["margin_over_hull"])["low"] is not None and m["low"] > 0
    ]
    if not won:
        return said
    each = [
        f"{name} {100 * m['estimate']:+.1f} points [{100 * m['low']:.1f}, {100 * m['high']:.1f}]" for name, m in won
    ]
    return [
        *said,
        f"At the operating points as run, above the mixing hull at the same joules: {listed(each)} "
        f"(each interval for itself; {len(tried)} policies were tried).",
    ]


def _ranges(found: Frontier, ranges: Sequence[Range]) -> str:
    """`between 90 J and 240 J, by up to 2.1 points [0.4, 3.8]`."""
    each = []
    for r in ranges:
        at = max(
            (i for i in range(len(found.energy_j)) if r.low_j <= found.energy_j[i] <= r.high_j),
            key=lambda i: float(found.margin[i]),
        )
        span = f"at {r.low_j:.3g} J" if r.low_j == r.high_j else f"between {r.low_j:.3g} J and {r.high_j:.3g} J"
        low, high = 100 * float(found.low_all[at]), 100 * float(found.high_all[at])
        each.append(f"{span} per query, by up to {100 * r.largest_margin:.1f} points [{low:.1f}, {high:.1f}]")
    return listed(each)


def _dominated(told: Mapping[str, Any]) -> list[str]:
    by_arm: dict[str, list[str]] = {}
    for policy in told["policies"]:
        if policy["deployable"] and policy["fixed_arm"] is None:
            for by in policy["domination"]["dominated_by"]:
                by_arm.setdefault(by["arm"], []).append(f"{policy['name']} (in {by['confidence']:.0%} of the draws)")
    said = [f"The fixed arm {arm} dominates {listed(names)}." for arm, names in by_arm.items()]
    fixed = [p["name"] for p in told["policies"] if p["fixed_arm"] is not None and p["domination"]["dominated_by"]]
    if fixed:
        said.append(f"Fixed arms that another one dominates: {listed(fixed)}.")
    return said


def _oracle(told: Mapping[str, Any]) -> list[str]:
    """How much is left: the oracle against the best that was deployable."""
    oracle = next((p for p in told["policies"] if p["family"] == "oracle"), None)
    if oracle is None or oracle["figures"]["accuracy"] is None:
        return []
    n = told["queries"]["unanswered"]
    joules = oracle["figures"]["energy_j_per_query"]
    spent = "" if joules is None else f" at {joules:.4g} J per query"
    return [
        f"The oracle, which sees the outcomes, reaches {oracle['figures']['accuracy']:.3f}{spent}; "
        f"{n} of {told['n_test']} queries are answered by no arm and go to the cheapest."
    ]


def _budget(told: Mapping[str, Any]) -> list[str]:
    budget = told["budget"]
    if budget is None:
        return []
    parts = []
    for key, what in (("fixed_arm", "fixed arm"), ("policy", "policy as run"), ("curve", "point of a curve")):
        if budget[key] is not None:
            parts.append(f"the best {what} is {budget[key]['policy']} with {budget[key]['accuracy']:.3f}")
    if budget["mixture"] is not None:
        shares = " and ".join(f"{share:.0%} {name}" for name, share in budget["mixture"]["policies"].items())
        parts.append(f"mixing {shares} reaches {budget['mixture']['accuracy']:.3f}")
    words = listed(parts) if parts else "nothing is that cheap"
    return [f"Within {budget['budget_j']:g} J per query {words}."]


def _collapsed(told: Mapping[str, Any]) -> list[str]:
    said = []
    for policy in told["policies"]:
        if policy["figures"]["collapsed"]:
            arm, share = max(policy["figures"]["mix"].items(), key=lambda item: float(item[1]))
            said.append(f"Collapse: {policy['name']} sends {share:.1%} of the queries to {arm}.")
    return said


def _missing(told: Mapping[str, Any]) -> list[str]:
    said = []
    for policy in told["policies"]:
        figures = policy["figures"]
        if figures["missing"]:
            said.append(
                f"{policy['name']} picks {figures['missing']:g} cells that are not recorded, so its figures are not "
                f"identifiable; accuracy lies between {figures['accuracy_low']:.3f} and {figures['accuracy_high']:.3f}."
            )
        if figures["handed_back"]:
            said.append(f"{policy['name']} hands {figures['handed_back']:g} of {figures['n']} queries back.")
    return said

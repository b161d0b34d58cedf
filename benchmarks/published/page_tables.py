"""The page's section for each table: what was published, and the rows. No TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from published.verdict import Row, Rows

Judged = Mapping[str, tuple[str, str]]
Table = Callable[[Sequence[str], Sequence[Sequence[Any]]], list[str]]
NONE = "\u2013"
GIB = 2**30

TITLES = {
    "search": "Optimal Gradient Checkpoint Search",
    "depth": "gradient-checkpointing",
    "options": "Grappler's memory options",
    "reach": "TensorFlow Large Model Support",
    "graphs": "Plans beside an exact solver",
}


def megabytes(point: Row) -> str:
    return f"{point['stock_peak'] / 1e6:.0f} to {point['lms_peak'] / 1e6:.0f} MB"


def added(point: Row) -> str:
    if "added_least" not in point or point["pairs"] < 2:
        return f"{point['added']:+.1%}"
    return f"{point['added']:+.1%} ({point['added_least']:+.1%} to {point['added_most']:+.1%})"


def bits(points: Sequence[Row]) -> str:
    pairs = sum(point["pairs"] for point in points)
    other = sum(point["pairs_with_other_bits"] for point in points)
    return f"equal, {pairs} pairs" if not other else f"OTHER in {other} of {pairs} pairs"


def search(judge: Any, rows: Rows, judged: Judged, table: Table) -> list[str]:
    measured, planned = [], []
    for name in judge.ROWS:
        row, published = rows.get((judge.NAME, name), {}), judge.PUBLISHED_ROWS[name]
        claim = f"{published['memory_cut']:.0%} at {published['time_overhead']:+.0%}"
        point = row.get("measured")
        if point:
            cut, far = point["at_cut"], judge.reached(row)
            measured.append(
                [
                    name,
                    claim,
                    f"{point['batch']}, {point['side']} px",
                    megabytes(cut),
                    f"{cut['cut']:.1%}",
                    added(cut),
                    f"{far['cut']:.1%} at {far['added']:+.1%}" if far else NONE,
                    bits([cut, *point["tried"]]),
                    judged[name][0],
                ]
            )
        else:
            measured.append([name, claim, *[NONE] * 6, judged[name][0]])
        plan = row.get("planned")
        if plan:
            planned.append([name, *published_size(published), *plan_cells(plan)])
    columns = ["model", "published", "measured at", "activation peak", "cut", "added CPU time"]
    columns += ["cut within the published added time", "bits", "verdict"]
    lines = [
        f"Source: {judge.PUBLISHED['source']}. {judge.PUBLISHED['note']} The rows are measured at",
        "a smaller batch or image, as a step of the published size takes minutes here.",
        "",
        *table(columns, measured),
        "",
        "At the published size, planned for a P100 of 16 GB (nothing ran): by recomputation and",
        "moves alone. No plan can add less than the bound, for the costs that are estimated.",
        "",
    ]
    columns = ["model", "batch, side", "published MB", "stock, lms: GiB", "cut", "added", "bound"]
    return lines + table([*columns, "cut within the published added time"], planned)


def published_size(published: Row) -> list[str]:
    batch, _, side, _ = published["input"]
    sizes = f"{published['regular_mb']:,} to {published['checkpointed_mb']:,}"
    return [f"{batch}, {side} px", sizes]


def plan_cells(plan: Row) -> list[str]:
    cut, far = plan["at_cut"], plan["at_added"]
    if cut["status"] == "infeasible":
        return [f"{cut['stock_peak'] / GIB:.2f}", "no plan was found", NONE, NONE, NONE]
    return [
        f"{cut['stock_peak'] / GIB:.2f}, {cut['lms_peak'] / GIB:.2f}",
        f"{cut['cut']:.1%}",
        f"{cut['added']:+.1%}",
        f"{cut['bound_added']:+.1%}",
        f"{far['cut']:.1%} at {far['added']:+.1%}" if far else NONE,
    ]


def depth(judge: Any, rows: Rows, judged: Judged, table: Table) -> list[str]:
    few, plans = [], []
    for name in judge.PAIRS:
        stock, kept = judge.PAIRS[name]
        cut, more = judge.claimed(name)
        claim = f"{stock['peak_mb']:,} to {kept['peak_mb']:,} MB: {cut:.0%} at {more:+.0%}"
        point = rows.get((judge.NAME, name), {}).get("measured")
        if not point:
            few.append([name, claim, *[NONE] * 5, judged[name][0]])
            continue
        at_cut = point["at_cut"]
        far = max((at_cut, *point["tried"]), key=lambda p: (p["added"] <= more, p["cut"]))
        few.append(
            [
                name,
                claim,
                megabytes(at_cut),
                f"{at_cut['cut']:.1%}",
                added(at_cut),
                f"{far['cut']:.1%} at {far['added']:+.1%}",
                bits([at_cut, *point["tried"]]),
                judged[name][0],
            ]
        )
    for blocks in judge.PLANNED:
        plan = rows.get((judge.NAME, f"plan {blocks}"), {}).get("planned")
        theirs = f"{judge.theirs_seconds(blocks):,.0f} s"
        verdict = judged[f"plan {blocks}"][0]
        if not plan:
            plans.append([blocks, theirs, *[NONE] * 5, verdict])
            continue
        plans.append(
            [
                blocks,
                theirs,
                f"{plan['planning_s']:.1f} s",
                f"{plan['nodes']:,}",
                f"{plan['stock_peak'] / GIB:.1f} GiB",
                f"{plan['lms_peak'] / GIB:.1f} GiB" if plan["status"] == "rewritten" else NONE,
                f"{plan['added']:+.1%}" if plan["status"] == "rewritten" else plan["status"],
                verdict,
            ]
        )
    columns = ["blocks", "published", "activation peak", "cut", "added CPU time"]
    columns += ["cut within the published added time", "bits", "verdict"]
    lines = [
        f"Source: {judge.PUBLISHED['source']}. {judge.PUBLISHED['note']} Measured at batch",
        f"{judge.BATCH}. With one block their memory grew; lms was asked for 5% less.",
        "",
        *table(columns, few),
        "",
        *deepest(judge, rows),
        "",
        f"Deeper networks at batch {judge.PLANNED_BATCH:,}, planned for the memory that stock's",
        f"step takes at {judge.STOCK_BLOCKS} blocks. Their seconds are published for 200 blocks,",
        f"and grow with blocks to the power of {judge.GROWTH}. Ours are CPU seconds of planning.",
        "",
    ]
    columns = ["blocks", "their rewriting", "lms", "operations", "stock", "with lms", "added"]
    return lines + table([*columns, "verdict"], plans)


def deepest(judge: Any, rows: Rows) -> list[str]:
    point = rows.get((judge.NAME, judge.MOST), {}).get("measured")
    claim = (
        f"Published: at batch 4,096 stock ends after {judge.STOCK_BLOCKS} blocks, and checkpoints "
        f"go past {judge.THEIR_BLOCKS}."
    )
    if not point or "blocks" not in point:
        return [claim + " Not measured."]
    return [
        f"{claim} Measured at batch {point['batch']}: stock takes {point['memory'] / 1e6:.0f} MB "
        f"of activations at {judge.STOCK_BLOCKS} blocks. In that, lms trains **{point['blocks']} "
        f"blocks** ({megabytes(point)}, {added(point)} CPU time, bits {bits([point])})."
    ]


def options(judge: Any, rows: Rows, judged: Judged, table: Table) -> list[str]:
    lines = []
    base = rows.get((judge.NAME, "NO_MEM_OPT"), {}).get("measured", {}).get("batch")
    for name in judge.ROWS:
        measured = rows.get((judge.NAME, name), {}).get("measured", {})
        published = judge.PUBLISHED_ROWS.get(name, {})
        batch = measured.get("batch")
        lines.append(
            [
                name.replace("_", "\\_"),
                max(published["ok"]) if published else NONE,
                min(published["oom"]) if published.get("oom") else NONE,
                batch or NONE,
                f"{batch / base:.2f}" if batch and base else NONE,
                judged[name][0],
            ]
        )
    columns = ["option", "published: trains at", "out of memory at", "largest batch here"]
    found = [
        f"Source: {judge.PUBLISHED['source']}. Each process may take {judge.LIMIT >> 20} MiB for",
        f"tensors and no more. The largest batch is found by real runs, to {judge.CLOSENESS:.0%}.",
        "A row is ahead where lms trains twice the option's batch, level where as much or more.",
        "",
        *table([*columns, "of NO\\_MEM\\_OPT's", "verdict"], lines),
    ]
    ours = rows.get((judge.NAME, "lms"), {}).get("measured", {}).get("beside")
    if ours:
        same = "equal to" if ours["losses_equal"] and ours["weights_equal"] else "OTHER than"
        found += [
            "",
            f"At lms's largest batch stock takes {ours['stock_peak'] / 1e6:.0f} MB, and lms "
            f"{ours['lms_peak'] / 1e6:.0f} MB for {ours['added']:+.1%} CPU time. Three losses and "
            f"all weights are {same} stock's.",
        ]
    return found


def reach(judge: Any, rows: Rows, judged: Judged, table: Table) -> list[str]:
    lines = []
    for name in judge.ROWS:
        published = judge.PUBLISHED_ROWS[name]
        plan = rows.get((judge.NAME, name), {}).get("planned")
        claim = f"{published['multiple']:g}x {published['of']}"
        within = f"{published['slowdown']:.0%}"
        if not plan:
            lines.append([published["model"], claim, within, *[NONE] * 4, judged[name][0]])
            continue
        ways = [
            f"{way['size']} ({way['multiple']:.2f}x, {way['added']:+.0%})" if way["size"] else NONE
            for way in (plan["ways"].get(key, {"size": 0}) for key in judge.WAYS)
        ]
        lines.append([published["model"], claim, within, plan["stock"], *ways, judged[name][0]])
    columns = ["model", "published", "within", "stock", "recompute", "swap", "both", "verdict"]
    sources = sorted({row["source"] for row in judge.PUBLISHED_ROWS.values()})
    return [
        f"Sources: {'; '.join(sources)}. **Plans for a P100 of 16 GB with NVLink: nothing ran.**",
        "Sizes are the largest that are predicted to fit within the published slowdown: images in",
        "a batch, or a side. Multiples count images, pixels (GoogLeNet) or voxels (3D U-Net).",
        "",
        *table(columns, lines),
    ]


def graphs(judge: Any, rows: Rows, judged: Judged, table: Table) -> list[str]:
    lines = []
    for name in judge.ROWS:
        plan = rows.get((judge.NAME, name), {}).get("planned")
        if not plan:
            lines.append([name, *[NONE] * 7, judged[name][0]])
            continue
        for found in plan["budgets"]:
            solver = found["oracle_percent"]
            seconds = found["oracle_seconds"]
            lines.append(
                [
                    name,
                    f"{found['ops']:,}",
                    f"{found['percent']:g}%",
                    percent(found["added_percent"]),
                    f"{found['seconds']:.2f} s",
                    percent(found["bound_percent"]),
                    percent(solver),
                    f"{found['oracle_status']}, {seconds:.0f} s" if seconds is not None else NONE,
                    judge.judge_budget(found)[0],
                ]
            )
    columns = ["graph", "operations", "budget", "lms adds", "in", "bound", "solver adds"]
    return [
        "Checkmate finds the best plan with an integer program. These graphs have recorded costs;",
        "lms-core plans them, and an exact solver (HiGHS) was given up to a minute for the small",
        "ones. A row is ahead where lms adds no more than the solver's best, in a tenth of its",
        "time; level where it takes longer, where no plan exists, or within 1 point of the bound.",
        "",
        *table([*columns, "solver", "verdict"], lines),
    ]


def percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}%"


SECTIONS = {
    "search": search, "depth": depth, "options": options, "reach": reach, "graphs": graphs,
}  # fmt: skip

"""Notebook to page: words from the verdict table, papermill, one self-contained HTML, the index.

A page is rendered in a temporary folder and moved to ``reports/`` only when every cell ran. When
a rendering fails, the page of last time is moved to ``reports/previous/`` and the notebook of the
failure is kept as ``<study>.failed.ipynb``: nothing in ``reports/`` looks finished and is not.
"""

import ast
import difflib
import html
import json
import logging
import math
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from . import paths, plots
from .plots import GLYPH, interval, is_control, is_joint, metric_label, percent, threads_label

_TEMPLATE = Path(__file__).parent / "template"
_OUT = "NOISEFLOOR_REPORT_OUT"  # where the notebook's own tables go; set for its kernel
_NOT_PAGES = ("explore", "own-study")  # rendered when named, not with "all"
_WORDS = {  # how a worse or better value is said, by metric; else "slower" and "faster"
    "cpu_per_transaction": ("takes more server CPU than", "takes less server CPU than"),
    "apply_cpu": ("takes more replica CPU than", "takes less replica CPU than"),
    "user_sys": ("takes more CPU time than", "takes less CPU time than"),
    "binlog_bytes_per_transaction": ("writes more than", "writes less than"),
    "written_bytes_per_transaction": ("writes more than", "writes less than"),
}
PARTS = (".html", ".ipynb", ".csv", ".json")  # what a finished study leaves in reports/


class ReportError(Exception):
    """A page that cannot be made. One sentence; `code` 2 for a wrong request, else 1."""

    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code

    def __reduce__(self):
        return type(self), (str(self), self.code)


# --- words --------------------------------------------------------------------------------------


def sentence(row) -> str:
    """One row of the verdict table in words: verdict, overhead, noise floor, what would settle it."""
    row = dict(row)
    where = threads_label(row["threads"], _joint(row))
    overhead = f"Overhead {percent(row['overhead_pct'])}"
    if _known(row.get("lo_pct")):
        overhead += f" ({interval(row['lo_pct'], row['hi_pct'])})"
    parts = [
        f"{metric_label(row['metric'])}{f' {where}' if where else ''}: {row['verdict']}.",
        overhead + (f"; {_floor(row)}" if _floor(row) else "") + ".",
    ]
    if settle := _settle(row):
        parts.append(settle[0].upper() + settle[1:] + ".")
    return " ".join(parts)


def finding(verdicts) -> str:
    """The rows of a verdict table in words, one sentence a comparison, controls last."""
    rows = verdicts[~is_control(verdicts)].to_dict("records")
    again = verdicts[is_control(verdicts)].to_dict("records")
    words = [sentence(r) for r in rows] + [f"A/A control: {sentence(r)}" for r in again]
    return " ".join(words)


def headline(row) -> str:
    """One row as a plain statement about the arm, for the top of a page."""
    row = dict(row)
    arm, base = row["arm"], row["baseline"]
    where = threads_label(row["threads"], _joint(row))
    what = f"{metric_label(row['metric'])}{f' {where}' if where else ''}"
    size = f"{percent(row['overhead_pct'])} overhead"
    if _known(row.get("lo_pct")):
        size += f" ({interval(row['lo_pct'], row['hi_pct'])})"
    worse, better = _WORDS.get(row["metric"], ("is slower than", "is faster than"))
    claim = {
        "slower": f"{arm} {worse} {base}.",
        "faster": f"{arm} {better} {base}.",
        "same": f"{arm} or {base} makes no difference that matters.",
    }.get(row["verdict"], f"Cannot tell whether {arm} {worse} {base}.")
    return f"{claim[0].upper()}{claim[1:]} {what}: {size}."


def _known(value) -> bool:
    return value is not None and not (not isinstance(value, str) and pd.isna(value))


def _joint(row) -> bool:
    return row.get("joint") is not None and bool(row.get("joint") == True)  # noqa: E712


def _floor(row) -> str:
    if not _known(row.get("noise_floor_pct")):
        return ""
    n = row.get("n_arm")
    runs = f"these {int(n)} {_unit(row)}" if _known(n) else "what was measured"
    return f"with {runs}, less than {percent(row['noise_floor_pct'], sign=False)} is noise"


def _unit(row) -> str:
    return {"switched": "pairs", "side by side": "blocks"}.get(row.get("design"), "runs an arm")


def _settle(row) -> str:
    plan = _plan(row)
    if row.get("verdict") != "cannot tell" or plan:
        return f"about {plan} would settle it" if plan else ""
    if _known(row.get("deciding_cv_pct")):
        cv = percent(row["deciding_cv_pct"], 2, sign=False)
        return f"a run-to-run scatter (CV) below {cv} would make the difference real"
    return "no plan within reach would settle it"


def _plan(row) -> str:
    """`48 pairs, 7 min`: what would settle a row that cannot tell."""
    parts = []
    if row.get("verdict") == "cannot tell":
        runs, minutes = row.get("runs_needed"), row.get("minutes_needed")
        if _known(runs) and math.isfinite(runs):
            parts.append(f"{int(runs):,} {_unit(row)}")
        if _known(minutes) and math.isfinite(minutes):
            parts.append(_minutes(minutes))
    return ", ".join(parts)


def _minutes(value) -> str:
    if value < 3:
        return f"{60 * value:.0f} s"
    return f"{value:.0f} min" if value < 180 else f"{value / 60:,.0f} h"


def _e(text) -> str:
    return html.escape(str(text), quote=True)


def badge(verdict) -> str:
    """The verdict as a coloured word with its sign; never the colour alone."""
    kind = _e(verdict).replace(" ", "-")
    glyph = GLYPH.get(verdict, "")
    return f'<span class="nf-badge nf-{kind}"><span aria-hidden="true">{glyph}</span> {_e(verdict)}</span>'


def ruler(row, margin_pct=2.0) -> str:
    """A small inline SVG of one comparison: interval, margin band and noise floor on a ruler."""
    row = dict(row)
    lo, hi, mid = (row.get(k) for k in ("lo_pct", "hi_pct", "overhead_pct"))
    if not _known(mid):
        return ""
    finite = [
        abs(v) for v in (lo, hi, mid, row.get("noise_floor_pct")) if _known(v) and math.isfinite(v)
    ]
    limit = max([2 * margin_pct, 1.15 * max(finite)]) if finite else 2 * margin_pct
    limit = min(limit, max(60, 4 * margin_pct, 3 * abs(mid)))
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e9) if limit / s <= 3.5)

    def x(value):
        return round(300 + 280 * max(-1.0, min(1.0, value / limit)), 1)

    ticks = "".join(
        f'<path d="M{x(t)} 52v5" stroke="currentColor" stroke-opacity=".5"/><text x="{x(t)}" y="73" '
        f'text-anchor="middle" class="m">{percent(t, 1 if step < 1 else 0)}</text>'
        for t in (step * i for i in range(-9, 10))
        if abs(t) < 0.94 * limit
    )
    floor, f = "", row.get("noise_floor_pct")
    if _known(f) and f < limit:
        floor = (
            f'<path d="M{x(-f)} 22V52M{x(f)} 22V52" stroke="var(--nf-control,#8b949e)" '
            'stroke-width="1.5" stroke-dasharray="3 3"/>'
        )
        if _known(lo) and lo > -f and x(-f) > 120:
            floor += (
                f'<text x="{x(-f) - 5}" y="41" text-anchor="end" class="m w">noise floor</text>'
            )
        elif _known(hi) and hi < f and x(f) < 480:
            floor += f'<text x="{x(f) + 5}" y="41" class="m w">noise floor</text>'
    mark = "var(--nf-mark,currentColor)"
    bar = ""
    if _known(lo) and _known(hi):
        bar = (
            f'<line x1="{x(lo)}" x2="{x(hi)}" y1="37" y2="37" stroke="{mark}" stroke-width="9" '
            'stroke-opacity=".4" stroke-linecap="round"/>'
        )
    words = f"Overhead {percent(mid)}, interval {interval(lo, hi)}, margin ±{margin_pct:g} %."
    return (
        f'<svg class="nf-ruler" viewBox="0 0 600 80" role="img" aria-label="{_e(words)}">'
        f'<rect x="{x(-margin_pct)}" y="22" width="{x(margin_pct) - x(-margin_pct):.1f}" height="30" '
        'fill="var(--nf-band,#22718f)" fill-opacity=".15"/>'
        f'<text x="300" y="14" text-anchor="middle" class="b">±{margin_pct:g} % counts as same</text>'
        '<text x="4" y="14" class="m">← faster</text>'
        '<text x="596" y="14" text-anchor="end" class="m">slower →</text>'
        f'<path d="M4 52H596M300 22V52" stroke="currentColor" stroke-opacity=".6"/>'
        f'{ticks}{floor}{bar}<circle cx="{x(mid)}" cy="37" r="6.5" fill="{mark}"/></svg>'
    )


def primary(verdicts, choice=None):
    """The row a page is about. `choice`: a row, an index label, a dict of column values, or a
    metric name; by default TPS (else the first metric), joint over thread counts where there is
    such a row, else the highest thread count; never the A/A control."""
    frame = verdicts[~is_control(verdicts)]
    if isinstance(choice, pd.Series):
        return choice
    if isinstance(choice, int):
        return verdicts.loc[choice]
    wanted = choice if isinstance(choice, dict) else {"metric": choice} if choice else {}
    for column, value in wanted.items():
        frame = frame[frame[column].astype(object).eq(value)]
    if frame.empty:
        raise ReportError(f"no comparison in the verdict table matches {wanted or 'anything'}")
    if "metric" not in wanted:
        names = set(frame["metric"])
        frame = frame[frame["metric"].eq("tps" if "tps" in names else frame["metric"].iloc[0])]
    if "workload" in frame:
        frame = frame[frame["workload"].astype(str).eq(str(frame["workload"].iloc[0]))]
    joint = frame[is_joint(frame)]
    if len(joint):
        return joint.iloc[0]
    return frame.sort_values("threads", na_position="first").iloc[-1]


def verdict_box(verdicts, campaign=None, *, primary=None, margin_pct=None, also=6):
    """The box at the top of a page, moved there wherever the notebook shows it.

    `verdicts`: verdict table; `campaign`: its folder, its name, or the dict of campaign.json;
    `primary`: see `primary`; `also`: how many other comparisons to list as single words."""
    row = _primary(verdicts, primary)
    campaign = _campaign(campaign)
    margin = margin_pct or campaign.get("margin_pct") or verdicts.attrs.get("margin_pct") or 2.0
    facts = [("Overhead", percent(row["overhead_pct"]))]
    facts.append(("Interval", f"{interval(row['lo_pct'], row['hi_pct'])}"))
    floor = row.get("noise_floor_pct")
    facts.append(("Noise floor", percent(floor, sign=False) if _known(floor) else "not known"))
    if _known(row.get("n_arm")):
        facts.append(("Measured", f"{int(row['n_arm'])} {_unit(row)}"))
    if settle := _settle(row):
        facts.append(("To settle it", _plan(row) or settle))
    if when := _when(campaign):
        facts.append(("Date", when))
    if place := machine(campaign):
        facts.append(("Machine", place))
    if server := engine(campaign):
        facts.append(("Server", server))
    others = verdicts[~is_control(verdicts) & (verdicts.index != row.name)]
    others = others[others["metric"].eq(row["metric"])].head(also)
    if "workload" in others:
        others = others[others["workload"].astype(str).eq(str(row["workload"]))]
    chips = "".join(
        f"<li>{_e(_chip(o, row))} {badge(o['verdict'])} "
        f'<span class="nf-num">{_e(percent(o["overhead_pct"]))}</span></li>'
        for _, o in others.iterrows()
    )
    notes = "".join(f"<li>{_e(w)}</li>" for w in _list(row.get("warnings")))
    kind = row["verdict"].replace(" ", "-")
    markup = (
        f'<section class="nf-verdict nf-{kind}" aria-label="Verdict">'
        f'<p class="nf-word">{badge(row["verdict"])}</p>'
        f'<p class="nf-headline">{_e(headline(row))}</p>{ruler(row, margin)}'
        f"<dl>{''.join(f'<div><dt>{_e(k)}</dt><dd>{_e(v)}</dd></div>' for k, v in facts)}</dl>"
        + (f'<ul class="nf-chips">{chips}</ul>' if chips else "")
        + (f'<ul class="nf-notes">{notes}</ul>' if notes else "")
        + "</section>"
    )
    return plots.Shown(markup, f"{row['verdict']}: {sentence(row)}")


_primary = primary  # `verdict_box` has a keyword of that name


def _chip(row, main) -> str:
    where = (
        "all threads" if _joint(dict(row)) else threads_label(row["threads"]).removeprefix("at ")
    )
    return where if row["arm"] == main["arm"] else f"{row['arm']}, {where}".strip(", ")


def _campaign(what) -> dict:
    """campaign.json as a dict, from a folder, a campaign's name, or such a dict (or nothing)."""
    if isinstance(what, str) and what:
        what = paths.campaign(what)
    if isinstance(what, Path):
        facts = json.loads((what / "campaign.json").read_text())
        return {"campaign": what.name, "raw_files": paths.shown(what), **facts}
    return dict(what or {})


def _list(value) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def _when(campaign) -> str:
    for key in ("date", "finished", "ended", "created", "started"):
        if campaign.get(key):
            return str(campaign[key])[:16].replace("T", " ").removesuffix(" 00:00")
    return ""


def machine(campaign) -> str:
    """The machine of a campaign in a few words; never its host name."""
    host = campaign.get("host") or {}
    if isinstance(host, str):
        return host
    memory = next((host[k] for k in ("memory_B", "memory_bytes", "memory") if host.get(k)), None)
    if isinstance(memory, (int, float)):
        memory = f"{memory / 2**30:.0f} GiB"
    cores = host.get("cores") or host.get("cpus")
    parts = [
        host.get("cpu") or host.get("cpu_model") or host.get("model"),
        f"{cores} cores" if cores else "",
        memory,
        host.get("os") or host.get("system"),
    ]
    return ", ".join(str(p) for p in parts if p)


def engine(campaign) -> str:
    """The server of a campaign, `MySQL 9.7.4`."""
    what = campaign.get("engine") or ""
    if isinstance(what, dict):
        kind = {"mysql": "MySQL", "mariadb": "MariaDB"}.get(what.get("kind"), what.get("kind", ""))
        return what.get("label") or f"{kind} {what.get('version', '')}".strip()
    return str(what)


# --- tables -------------------------------------------------------------------------------------


def table(frame, caption="", *, name="table", numbers=(), index=False, raw=()):
    """Any frame as a quiet HTML table with its caption and its data as a CSV link.

    `numbers`: columns set flush right (numeric columns are anyway); `raw`: columns that hold HTML
    already. The table scrolls inside its own box on a narrow screen."""
    frame = frame.reset_index() if index else frame
    right = {c for c in frame if c in numbers or pd.api.types.is_numeric_dtype(frame[c])}
    head = "".join(
        f'<th scope="col"{" class=nf-r" if c in right else ""}>{_e(str(c).replace("_", " "))}</th>'
        for c in frame
    )
    long = {c for c in frame if c not in raw and frame[c].map(lambda v: len(_cell(v))).max() > 30}
    rows = []
    for values in frame.itertuples(index=False):
        cells = "".join(
            f"<td{_class(c in right, c in long)}>{v if c in raw else _e(_cell(v))}</td>"
            for c, v in zip(frame, values, strict=True)
        )
        rows.append(f"<tr>{cells}</tr>")
    plain = frame.drop(columns=[c for c in raw if c in frame])
    return plots.Shown(_boxed(caption, head, rows, plots.csv_link(plain, name)), frame.to_string())


def _class(right, long) -> str:
    return " class=nf-r" if right else " class=nf-w" if long else ""


def _boxed(caption, head, rows, link, kind="") -> str:
    label = _e(caption or "Table")
    return (
        f'<div class="nf-table{kind}"><div class="nf-scroll" role="region" aria-label="{label}" '
        'tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="nf-caption"><span>{_e(caption)}</span> {link}</p></div>'
    )


def _cell(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "; ".join(map(str, value))
    if not _known(value):
        return "–"
    if isinstance(value, float):
        return f"{value:,.4g}".replace("-", "−")
    return str(value)


evidence = table


def verdict_table_html(
    verdicts, caption="Every comparison, in words and numbers.", name="verdicts"
):
    """The verdict table for reading: a group a workload and metric, one row a comparison, the
    verdict as a word, all numbers."""
    arms = verdicts["arm"].nunique() > 1
    works = "workload" in verdicts and verdicts["workload"].astype(str).nunique() > 1
    heads = [
        *(["Arm"] if arms else []),
        *("Threads", "Verdict", "Overhead", "Interval", "Noise floor", "n", "Would settle it"),
    ]
    right = {"Threads", "Overhead", "Interval", "Noise floor", "n"}
    head = "".join(
        f'<th scope="col"{" class=nf-r" if h in right else ""}>{_e(h)}</th>' for h in heads
    )
    rows = []
    for (work, metric), group in verdicts.groupby(
        [verdicts["workload"].astype(str) if works else "metric", "metric"], sort=False
    ):
        label = f"{work}: {metric_label(metric)}" if works else metric_label(metric)
        rows.append(
            f'<tr class="nf-group"><th scope="rowgroup" colspan="{len(heads)}">{_e(label)}</th></tr>'
        )
        for row in group.to_dict("records"):
            again = ' class="nf-again"' if row["arm"] == row["baseline"] + plots.AGAIN else ""
            threads = row["threads"]
            cells = {
                "Arm": _e(row["arm"]),
                "Threads": "all" if _joint(row) else "–" if pd.isna(threads) else int(threads),
                "Verdict": badge(row["verdict"]),
                "Overhead": _e(percent(row["overhead_pct"])),
                "Interval": _e(interval(row["lo_pct"], row["hi_pct"])),
                "Noise floor": _e(percent(row["noise_floor_pct"], sign=False)),
                "n": _cell(row.get("n_arm")),
                "Would settle it": _e(
                    _plan(row) or ("no plan" if row["verdict"] == "cannot tell" else "–")
                ),
            }
            inner = "".join(
                f"<td{' class=nf-r' if h in right else ''}>{cells[h]}</td>" for h in heads
            )
            rows.append(f"<tr{again}>{inner}</tr>")
    link = plots.csv_link(flat(verdicts), name)
    return plots.Shown(_boxed(caption, head, rows, link, " nf-lines"), verdicts.to_string())


_FACTS = (
    *("campaign", "raw_files", "commit", "created", "finished", "ended_because", "profile"),
    *("parameters", "seed", "design", "margin_pct", "engine", "tools", "settings", "tables"),
    *("host", "skipped"),
)


def provenance(campaign, more=None):
    """Where a page's numbers come from: campaign, commit, parameters, versions, machine, files.

    `campaign`: its folder, its name, or the dict of campaign.json; `more`: further facts."""
    known = _campaign(campaign)
    facts = {k: known[k] for k in _FACTS if k in known} | (more or {})
    facts = {k: v for k, v in facts.items() if v not in (None, "", [], {})}
    items = "".join(
        f"<div><dt>{_e(str(key).replace('_', ' '))}</dt><dd>{_value(value)}</dd></div>"
        for key, value in facts.items()
    )
    markup = f'<dl class="nf-facts">{items}</dl>'
    return plots.Shown(markup, "\n".join(f"{k}: {v}" for k, v in facts.items()))


def _value(value) -> str:
    if isinstance(value, dict):
        inner = ", ".join(
            f"{_e(str(k).replace('_', ' '))}\u202f=\u202f{_value(v)}"
            for k, v in value.items()
            if v not in (None, "", [], {})
        )
        return f"<span>{inner}</span>"
    if isinstance(value, (list, tuple)):
        return ", ".join(_value(v) for v in value)
    return f"<span>{_e(value)}</span>"


# --- the verdict table beside the page ----------------------------------------------------------


def flat(verdicts) -> pd.DataFrame:
    """The verdict table with lists joined, for CSV."""
    frame = verdicts.copy()
    for column in frame.columns[frame.dtypes.eq(object)]:
        frame[column] = [
            "; ".join(map(str, v)) if isinstance(v, (list, tuple)) else v for v in frame[column]
        ]
    return frame


def records(verdicts) -> list:
    """The verdict table as JSON rows: NaN and NA become null."""
    rows = []
    for row in verdicts.to_dict("records"):
        rows.append({k: v if isinstance(v, list) else _plain(v) for k, v in row.items()})
    return rows


def _plain(value):
    if not _known(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save(verdicts, study, campaign=None, *, primary=None, title="") -> None:
    """Store the verdict table as CSV and JSON: beside the page when `render` runs the notebook,
    else under ``data/processed/`` so that exploring never changes a page."""
    folder = Path(os.environ.get(_OUT) or paths.processed())
    folder.mkdir(parents=True, exist_ok=True)
    campaign = _campaign(campaign)
    profile = campaign.get("profile")
    row = _primary(verdicts, primary) if len(verdicts) else None
    facts = {
        "study": study,
        "title": title or campaign.get("title") or study.replace("-", " ").capitalize(),
        "campaign": campaign.get("campaign") or campaign.get("name"),
        "profile": profile.get("name") if isinstance(profile, dict) else profile,
        "date": _when(campaign) or None,
        "machine": machine(campaign) or None,
        "engine": engine(campaign) or None,
        "margin_pct": campaign.get("margin_pct") or verdicts.attrs.get("margin_pct") or 2.0,
        "verdict": row["verdict"] if row is not None else None,
        "headline": headline(row) if row is not None else None,
        "primary": records(row.to_frame().T)[0] if row is not None else None,
        "comparisons": records(verdicts),
    }
    (folder / f"{study}.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    flat(verdicts).to_csv(folder / f"{study}.csv", index=False, lineterminator="\n")


# --- parameters ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's parameters cell."""

    name: str
    default: object
    help: str = ""


def parameters(notebook) -> dict:
    """Name to Parameter, read from the cell tagged `parameters` (literals only, one a line, a
    trailing comment is the help). papermill's own inspection is not used: it stumbles over '='
    inside a string. A notebook without such a cell has none."""
    cells = json.loads(Path(notebook).read_text()).get("cells", [])
    source = next(
        ("".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", [])), ""
    )
    lines, found = source.splitlines(), {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target = node.target
        else:
            continue
        try:
            value = ast.literal_eval(node.value)
        except ValueError:
            raise ReportError(
                f"the parameters cell of {Path(notebook).name} assigns {ast.unparse(node)!r}, "
                "which is not a literal; nothing was run"
            ) from None
        rest = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
        found[target.id] = Parameter(target.id, value, rest.partition("#")[2].strip())
    return found


def checked(notebook, given) -> dict:
    """`given` values (text as from a command line, or Python values) in the types of the
    notebook's defaults. Raises ReportError in one sentence for a wrong name, a wrong type, or a
    campaign that does not exist."""
    known = parameters(notebook)
    study = Path(notebook).stem
    result = {}
    for name, value in (given or {}).items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ReportError(
                f"{study} has no parameter {name!r}{hint}; it has: "
                f"{', '.join(known) or 'none'}; nothing was run",
                2,
            )
        result[name] = _typed(study, known[name], value)
    if result.get("campaign"):
        try:
            paths.campaign(result["campaign"])
        except paths.NotFound as problem:
            raise ReportError(f"{problem}; nothing was run", 2) from None
    return result


def _typed(study, parameter, value):
    want = parameter.default
    if isinstance(value, str) and not isinstance(want, str):
        value = _literal(value)
    if isinstance(want, (list, tuple)):
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        kinds = {type(v) for v in want}
        if not kinds or all(any(_fits(i, k) for k in kinds) for i in items):
            return items
    elif isinstance(want, float) and _fits(value, float):
        return float(value)
    elif want is None or _fits(value, type(want)):
        return value
    kind = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(
        type(want),
        "a list like " + json.dumps(want) if isinstance(want, (list, tuple)) else "a dict",
    )
    raise ReportError(
        f"parameter {parameter.name!r} of {study} was given {value!r}; it is {kind}; nothing was run",
        2,
    )


def _fits(value, kind) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else kind)


def _literal(text):
    plain = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in plain:
        return plain[text.lower()]
    for attempt in (text, f"[{text}]"):
        try:
            return ast.literal_eval(attempt)
        except (ValueError, SyntaxError):
            continue
    return text


# --- from notebook to page ----------------------------------------------------------------------


def notebook(study) -> Path:
    """The notebook of a study. Raises ReportError with the names that exist."""
    path = paths.notebooks() / f"{study}.ipynb"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", str(study)) or not path.exists():
        known = ", ".join(studies(everything=True)) or "none"
        raise ReportError(f"no study is called {study!r}; there are: {known}; nothing was run", 2)
    return path


def studies(everything=False) -> list:
    """Names of the notebooks that make a page."""
    names = sorted(p.stem for p in paths.notebooks().glob("*.ipynb"))
    return names if everything else [n for n in names if n not in _NOT_PAGES]


def recorded_campaign(study) -> str | None:
    """The newest campaign of a study under ``data/raw/recorded``, by its own date, then name."""
    found = []
    for file in paths.recorded().glob("*/campaign.json"):
        facts = json.loads(file.read_text())
        if facts.get("study", file.parent.name) == study:
            found.append((_when(facts), file.parent.name))
    return max(found)[1] if found else None


def render(study, given=None, out=None, timeout=3600, progress=False) -> Path:
    """Run the notebook of `study` with the parameters `given` and write ``<study>.html``, ``.ipynb``,
    ``.csv`` and ``.json`` into `out` (default ``reports/``). Returns the page's path.

    `timeout`: seconds a cell; `progress`: what the cells print is shown while they run. Raises ReportError: code 2 before anything ran, else 1, and then no
    file of this study is left that looks finished (see the top of this module)."""
    source = notebook(study)
    values = checked(source, given)
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="noisefloor-page-") as scratch:
        scratch = Path(scratch)
        try:
            book = _execute(source, scratch / f"{study}.ipynb", values, timeout, progress)
            page = _page(book, study, scratch)
        except ReportError:
            _set_aside(study, out)
            if (scratch / f"{study}.ipynb").exists():
                text = _scrub((scratch / f"{study}.ipynb").read_text(), scratch)
                (out / f"{study}.failed.ipynb").write_text(text)
            raise
        (scratch / f"{study}.html").write_text(_scrub(page, scratch))
        for part in PARTS:  # the page last: when it is there, so is all that it links to
            finished = scratch / f"{study}{part}"
            if part != ".html" and finished.exists():
                shutil.move(finished, out / finished.name)
            elif part != ".html":
                (out / finished.name).unlink(missing_ok=True)
        shutil.move(scratch / f"{study}.html", out / f"{study}.html")
        (out / f"{study}.failed.ipynb").unlink(missing_ok=True)
    return out / f"{study}.html"


def _set_aside(study, out):
    for part in PARTS:
        if (out / f"{study}{part}").exists():
            (out / "previous").mkdir(exist_ok=True)
            os.replace(out / f"{study}{part}", out / "previous" / f"{study}{part}")


def _execute(source, target, values, timeout, progress):
    """The executed notebook, also written to `target`; ReportError when any cell did not run."""
    import nbformat
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    sockets = target.parent / "kernel"
    logging.getLogger("papermill").setLevel(logging.ERROR)
    name = source.stem
    before = os.environ.get(_OUT)
    os.environ[_OUT] = str(target.parent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = papermill.execute_notebook(
                source,
                target,
                values,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                stdout_file=sys.stderr if progress else None,
                stderr_file=sys.stderr if progress else None,
                execution_timeout=timeout,
                cwd=paths.root(),
                # unix sockets in our private folder: nobody else can talk to the kernel
                config=Config({"KernelManager": {"transport": "ipc", "ip": str(sockets)}}),
            )
    except PapermillExecutionError as problem:
        said = " ".join(str(problem.evalue).split())
        raise ReportError(
            f"{name} stopped in cell {problem.exec_count}: {problem.ename}: {said[:400]}"
        ) from None
    except CellTimeoutError:
        raise ReportError(f"{name} stopped: a cell took longer than {timeout} s") from None
    except DeadKernelError:
        raise ReportError(f"{name} stopped: its kernel was killed or died") from None
    finally:
        os.environ.pop(_OUT)
        if before is not None:
            os.environ[_OUT] = before
    for number, cell in enumerate(book.cells, 1):
        if cell.cell_type == "code" and cell.source.strip() and not cell.execution_count:
            raise ReportError(f"{name} ended early: cell {number} of {len(book.cells)} never ran")
    # papermill notes paths and times: a page repeats to the byte without them
    book.metadata["papermill"] = {"parameters": values}
    for number, cell in enumerate(book.cells):
        cell.id = f"cell-{number}"
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
    nbformat.validate(book)
    target.write_text(_scrub(nbformat.writes(book), target.parent) + "\n")
    return book


def _scrub(text, scratch) -> str:
    """`text` without the folders of this machine: the project becomes '.', the home '~'."""
    for folder, word in (
        (scratch, "."),
        (paths.root(), "."),
        (Path(sys.prefix), ".venv"),
        (Path.home(), "~"),
    ):
        if len(str(folder)) > 1:
            text = re.sub(rf"{re.escape(str(folder))}(?![\w.-])", word, text)
    return text


_BOX = '<section class="nf-verdict'


def _page(book, study, folder) -> str:
    """The page's HTML from an executed notebook."""
    from nbconvert import HTMLExporter

    held, verdict = [], ""
    for cell in book.cells:
        for output in list(cell.get("outputs", [])):
            text = output.get("data", {}).get("text/html")
            if text is None:
                continue
            if text.startswith((_BOX, plots.LAB)):
                verdict = verdict or (text if text.startswith(_BOX) else "")
                cell.outputs.remove(output)
                continue
            # held back from nbconvert's HTML rewriting, which would lower-case the SVG
            output["data"] = {"text/html": f"<nf-held>{len(held)}</nf-held>"}
            held.append(_tamed(text))
    exporter = HTMLExporter(
        template_name="template",
        extra_template_basedirs=[str(_TEMPLATE.parent)],
        exclude_anchor_links=True,
    )
    exporter.log.setLevel(logging.ERROR)
    body, _ = exporter.from_notebook_node(book)
    body = re.sub(r"<nf-held>(\d+)</nf-held>", lambda m: held[int(m[1])], body)
    title, body = _take_title(body, study)
    body, contents = _headings(body)
    facts = {}
    if (folder / f"{study}.json").exists():
        facts = json.loads((folder / f"{study}.json").read_text())
    lead = re.search(r"<p>(.*?)</p>", body, re.S)
    description = facts.get("headline") or (re.sub("<[^>]+>", "", lead[1]) if lead else title)
    links = [(f"{study}.ipynb", "notebook")]
    links += [(f"{study}{p}", f"verdicts ({p[1:].upper()})") for p in (".csv", ".json") if facts]
    return _shell(
        title=title,
        description=" ".join(description.split()),
        verdict=verdict,
        body=body,
        contents=contents,
        links=links,
        kind="study",
        date=facts.get("date"),
    )


def _tamed(text) -> str:
    """A cell's HTML output made fit for the page: pandas' own tables lose their style and scroll."""
    if 'class="dataframe"' not in text:
        return text
    text = re.sub(r"<style scoped>.*?</style>", "", text, flags=re.S)
    text = (
        text.replace("<th></th>", "<td></td>")
        .replace(' border="1"', "")
        .replace(' style="text-align: right;"', "")
    )
    return (
        '<div class="nf-table"><div class="nf-scroll" role="region" aria-label="Table" tabindex="0">'
        f"{text}</div></div>"
    )


def _take_title(body, study):
    found = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.S)
    if not found:
        return study.replace("-", " ").capitalize(), body
    title = html.unescape(re.sub("<[^>]+>", "", found[1])).strip()
    return title, body.replace(found[0], "", 1)


def _headings(body):
    """Body with unique heading ids, and the contents: (level, id, text) of h2 and h3."""
    seen, contents = set(), []

    def number(match):
        level, text = int(match[1]), match[3]
        plain = html.unescape(re.sub("<[^>]+>", "", text)).strip()
        slug = base = re.sub(r"[^\w]+", "-", plain.lower()).strip("-") or "section"
        count = 1
        while slug in seen:
            count += 1
            slug = f"{base}-{count}"
        seen.add(slug)
        if level == 2:
            contents.append((slug, plain))
        level = max(level, 2)  # the page has one h1, its title
        return f'<h{level} id="{slug}">{text}</h{level}>'

    return re.sub(r"<h([1-6])([^>]*)>(.*?)</h\1>", number, body, flags=re.S), contents


def _shell(**page) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css = plots.PARTS_CSS.read_text() + (_TEMPLATE / "style.css").read_text()
    for key in ("verdict", "body"):
        page[key] = jinja2.utils.markupsafe.Markup(page.get(key, ""))
    return environment.get_template("page.html.j2").render(
        css=jinja2.utils.markupsafe.Markup(css), **page
    )


# --- many pages, and the index ------------------------------------------------------------------


def plan(names=(), profile=None, given=None) -> list:
    """What `render_all` will do: (study, parameters, live) for each, all checked before anything
    runs. Profile `recorded` stands for each study's newest recorded campaign."""
    jobs = []
    for study in names or studies():
        source = notebook(study)
        known = parameters(source)
        values = dict(given or {})
        if not names:  # a parameter meant for all studies skips those without it
            values = {k: v for k, v in values.items() if k in known}
        if profile == "recorded" and "campaign" in known:
            values.setdefault("campaign", recorded_campaign(study))
            if not values["campaign"]:
                if names:
                    raise ReportError(f"{study} has no recorded campaign; nothing was run", 2)
                jobs.append((study, None, False))
                continue
        elif profile and "profile" in known:
            values["profile"] = profile
        live = "profile" in known and not values.get("campaign")
        jobs.append((study, checked(source, values), live))
    if not names:
        everything = {n for s in studies() for n in parameters(notebook(s))}
        for name in set(given or {}) - everything:
            raise ReportError(
                f"no study has a parameter {name!r}; there are: {', '.join(sorted(everything))}; "
                "nothing was run",
                2,
            )
    return jobs


def render_all(jobs, out=None, workers=None, timeout=3600, say=print) -> list:
    """Render every job of `plan`: recorded ones in parallel processes, live ones (measurements)
    one after another. One failure does not stop the others. Returns rows (study, result, seconds),
    result being a path or the sentence of what went wrong, and writes the index."""
    rows = [(s, "no recorded campaign", 0.0) for s, values, _ in jobs if values is None]
    jobs = [j for j in jobs if j[1] is not None]
    quiet = [j for j in jobs if not j[2]]
    if quiet:
        context = multiprocessing.get_context("spawn")
        workers = min(len(quiet), workers or os.cpu_count() or 1)
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            waiting = {
                pool.submit(_timed, study, values, out, timeout): study
                for study, values, _ in quiet
            }
            for done in as_completed(waiting):
                try:
                    row = done.result()
                except Exception as problem:  # the worker itself died
                    row = (waiting[done], ReportError(f"{waiting[done]} stopped: {problem}"), 0.0)
                rows.append(row)
                say(_line(row))
    for study, values, live in jobs:
        if live:
            say(f"{study}: measuring")
            row = _timed(study, values, out, timeout, True)
            rows.append(row)
            say(_line(row))
    index(out)
    return rows


def _timed(study, values, out, timeout, progress=False):
    start = time.monotonic()
    try:
        result = render(study, values, out, timeout, progress)
    except ReportError as problem:
        result = problem
    return study, result, time.monotonic() - start


def _line(row) -> str:
    study, result, seconds = row
    if isinstance(result, ReportError):
        return f"{study}: failed after {seconds:.0f} s: {result}"
    return (
        f"{study}: {paths.shown(result) if isinstance(result, Path) else result} ({seconds:.0f} s)"
    )


def summary(rows, out=None) -> str:
    """The rows of `render_all` as a plain table with times, and where the index is."""
    width = max((len(study) for study, _, _ in rows), default=0)
    lines = []
    for study, result, seconds in sorted(rows, key=lambda r: r[0]):
        word = "page" if isinstance(result, Path) else "failed"
        word = "skipped" if isinstance(result, str) else word
        what = paths.shown(result) if isinstance(result, Path) else result
        lines.append(f"{study:<{width}}  {word:<7}  {seconds:6.1f} s  {what}")
    place = paths.shown(Path(out or paths.reports()).resolve() / "index.html")
    return "\n".join([*lines, f"{'':<{width}}  index              {place}"])


def index(out=None) -> Path:
    """``reports/index.html`` from the verdict tables beside the pages: every study with its
    verdicts in words and as a small forest plot, machine, date, and links."""
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    cards, lines = [], []
    for file in sorted(out.glob("*.html")):
        if file.stem == "index":
            continue
        beside = out / f"{file.stem}.json"
        facts = json.loads(beside.read_text()) if beside.exists() else {}
        cards.append(_card(file, facts))
        if facts.get("primary"):
            lines.append(_overview(file.stem, facts))
    failed = [
        f'<li><a href="{_e(f.name)}">{_e(f.name.removesuffix(".failed.ipynb"))}</a>: '
        "the last rendering failed; the notebook shows where</li>"
        for f in sorted(out.glob("*.failed.ipynb"))
    ]
    archive = [
        f'<li><a href="published/{_e(p.parent.name)}/{_e(p.name)}">{_e(p.parent.name)}</a></li>'
        for p in sorted(out.glob("published/*/*.html"))
    ]
    body = "".join(cards) or "<p>No page has been rendered yet.</p>"
    if len(lines) > 1:
        heads = ("Study", "Verdict", "Overhead", "Interval", "Noise floor", "Measured")
        head = "".join(f'<th scope="col">{h}</th>' for h in heads)
        body = _boxed("The main comparison of every study.", head, lines, "", " nf-lines") + body
    if failed:
        body += f'<h2 id="failed">Failed</h2><ul>{"".join(failed)}</ul>'
    if archive:
        body += f'<h2 id="published">Published pages</h2><ul>{"".join(archive)}</ul>'
    page = _shell(
        title="What does it really cost?",
        description="Verdicts on changes to MySQL-family servers, each with its interval, its "
        "noise floor and the raw evidence.",
        body=body,
        contents=[],
        links=[],
        kind="index",
    )
    (out / "index.html").write_text(page)
    return out / "index.html"


def _overview(study, facts) -> str:
    row = facts["primary"]
    cells = (
        f'<a href="{_e(study)}.html">{_e(facts["title"])}</a>',
        badge(row["verdict"]),
        _e(percent(row["overhead_pct"])),
        _e(interval(row["lo_pct"], row["hi_pct"])),
        _e(percent(row["noise_floor_pct"], sign=False)),
        _e(str(facts.get("date") or "–")[:10]),
    )
    return "<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"


def _card(file, facts) -> str:
    study = file.stem
    title = facts.get("title") or study.replace("-", " ").capitalize()
    links = " · ".join(
        f'<a href="{_e(study + part)}">{word}<span class="nf-sr"> of {_e(title)}</span></a>'
        for part, word in (
            (".html", "page"),
            (".ipynb", "notebook"),
            (".csv", "CSV"),
            (".json", "JSON"),
        )
        if (file.parent / (study + part)).exists()
    )
    where = " · ".join(str(facts[k]) for k in ("engine", "machine", "date") if facts.get(k))
    figure = ""
    rows = pd.DataFrame(facts.get("comparisons") or [])
    if len(rows):
        rows["threads"] = rows["threads"].astype("Int64")
        main = facts["primary"]
        rows = rows[~is_control(rows) & rows["metric"].eq(main["metric"])].head(8)
        margin = facts.get("margin_pct") or 2.0
        drawn = plots.dots(rows, by=("workload", "threads"), margin_pct=margin)
        words = f"{metric_label(main['metric'])}."
        figure = plots.show(drawn, alt=plots.alt(rows), caption=words, title=title).markup
    head = f'<p class="nf-word">{badge(facts["verdict"])}</p>' if facts.get("verdict") else ""
    words = f"<p>{_e(facts['headline'])}</p>" if facts.get("headline") else ""
    return (
        f'<section class="nf-card"><h2 id="{_e(study)}"><a href="{_e(study)}.html">{_e(title)}</a></h2>'
        f'{head}{words}{figure}<p class="nf-meta">{_e(where)}</p><p class="nf-links">{links}</p></section>'
    )

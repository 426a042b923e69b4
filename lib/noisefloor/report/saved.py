"""The verdict table beside its page, as CSV and JSON."""

import json
import math
import os
from pathlib import Path

import pandas as pd

from .. import paths, results, sheet, tidy
from .words import campaign_facts, engine, known, leading, machine, when
from .words import headline as said

OUT = "NOISEFLOOR_REPORT_OUT"  # where the notebook's own tables go; set for its kernel


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
        rows.append({k: v if isinstance(v, list) else plain(v) for k, v in row.items()})
    return rows


def plain(value):
    """A cell as JSON can hold it."""
    if not known(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def raw_links(facts, out) -> list:
    """(href, words) of the raw files behind a page in folder `out`, from its stored `facts`; none
    where they do not lie in one project."""
    root, links = paths.root(), []
    if not Path(out).is_relative_to(root):
        return []
    folders = [root / shown for shown in facts.get("raw", {}) if (root / shown).is_dir()]
    for folder in folders:
        files = [f for f in ("campaign.json", "calibration.json") if (folder / f).exists()]
        # a web server shows no folder without a README
        href = (
            os.path.relpath(folder / files[0], out) if files else f"{os.path.relpath(folder, out)}/"
        )
        links.append((href, "raw data" if len(folders) == 1 else f"raw data: {folder.name}"))
    return links


def save(
    verdicts, study, campaign=None, *, primary=None, title="", headline="", campaigns=None, raw=()
) -> None:
    """Store the verdict table as CSV and JSON: beside the page when `render` runs the notebook,
    else under ``data/processed/`` so that exploring never changes a page. `primary`: the row or the
    list of rows that the page leads with; `headline`: the page's own sentence, where it is about
    more.

    What gives the same page again is stored as well: `campaigns`, the notebook's parameters that
    name campaigns (by default those that `campaign` is about), and a digest of each folder of raw
    files: the campaigns' and `raw`."""
    folder = Path(os.environ.get(OUT) or paths.processed())
    folder.mkdir(parents=True, exist_ok=True)
    campaign = campaign_facts(campaign)
    profile = campaign.get("profile")
    name = campaign.get("campaign") or campaign.get("name")
    names = campaign.get("campaigns") or [name]
    if not campaigns:
        campaigns = {"campaign": ", ".join(names)} if set(names) <= {*paths.campaigns()} else {}
    folders = [*(f for v in campaigns.values() for f in results.named(v)), *raw]
    rows = leading(verdicts, primary) if len(verdicts) else []
    headlines = [headline] if headline else [said(row) for row in rows]
    facts = {
        "study": study,
        "title": title or campaign.get("title") or study.replace("-", " ").capitalize(),
        "campaign": name,
        "profile": profile.get("name") if isinstance(profile, dict) else profile,
        "date": when(campaign) or None,
        "machine": machine(campaign) or None,
        "engine": engine(campaign) or None,
        "margin_pct": campaign.get("margin_pct") or verdicts.attrs.get("margin_pct") or 2.0,
        "campaigns": campaigns,
        "raw": {paths.shown(f): tidy.digest(f) for f in folders if f.exists()},
        "verdict": rows[0]["verdict"] if rows else None,
        "headline": " ".join(headlines) or None,
        "headlines": headlines,
        "primary": records(rows[0].to_frame().T)[0] if rows else None,
        "leads": [records(row.to_frame().T)[0] for row in rows],
        "comparisons": records(verdicts),
    }
    (folder / f"{study}.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    sheet.cells(flat(verdicts)).to_csv(folder / f"{study}.csv", index=False, lineterminator="\n")

"""Every word of a published page that is another one than in 0.2, with the reason.

``python tests/words_changed.py`` compares the tables of `reports/published` with those of 0.2, from
git, and writes docs/words-changed.csv.
"""

import csv
import io
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from noisefloor import paths
from noisefloor.model import METRICS

BEFORE = "353376bd"  # the last pages by the rule of 0.2
MARGIN_PCT = 2.0  # of every metric, by that rule
COLUMNS = ("page", "question", "comparison", "before", "now", "processor", "change_pct", "reason")
PART_OF_KEY = (
    *("question", "title", "claim_id", "workload", "metric", "threads", "baseline", "arm"),
    "label",  # of a published claim
)
NO_CHANGE = ("same", "cannot tell", "provisional", "not judged", "")
# a setting is compared by `ab` now, with these values no more
NO_MORE = ("detect only", "minimal rows", "minimal and compressed", "all instruments")
MOVED = {"mariadb": "mariadb-upgrade", "mariadb-thread-pool": "mariadb-upgrade"}
TOGETHER = "two servers at once in a closed loop: withdrawn"
JOINT = "the thread counts differ: each stands by itself, no row for all"
ARCHIVE = "each thread count stands by itself, no row for all"

Row = dict[str, str]


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=True)
    return done.stdout


def rows(text: str) -> list[Row]:
    return [r for r in csv.DictReader(io.StringIO(text)) if r["control"] == "False"]


def pages_before() -> dict[str, list[Row]]:
    names = git("ls-tree", "-r", "--name-only", BEFORE, "--", "reports/published").splitlines()
    tables = sorted(n for n in names if n.endswith(".csv"))
    return {n.split("/")[-1][:-4]: rows(git("show", f"{BEFORE}:{n}")) for n in tables}


def pages_now() -> dict[str, list[Row]]:
    files = (paths.root() / "reports" / "published").glob("*/*.csv")
    return {file.stem: rows(file.read_text()) for file in files}


def questions_now() -> dict[str, dict[str, list[str]]]:
    """Study -> question -> its arms, of whatever profile; ["*"] where `ab` makes them."""
    asked: dict[str, dict[str, list[str]]] = {}
    for file in (paths.root() / "lib" / "noisefloor" / "studies").glob("*.toml"):
        study = tomllib.loads(file.read_text())
        for name, question in study["questions"].items():
            arms = ["*"] if "compare" in question else question.get("arms", list(study["arms"]))
            arms = arms if isinstance(arms, list) else list(chain(*arms.values()))
            asked.setdefault(file.stem, {})[name] = arms
    return asked


def key(row: Row) -> tuple[str, ...]:
    return tuple(row.get(name, "") for name in PART_OF_KEY)


def worse(row: Row) -> str:
    """A word as 0.2 had it, which said `slower` of whatever was worse."""
    if row["verdict"] in NO_CHANGE or "worse" not in row:
        return row["verdict"]
    return "slower" if row["worse"] == "True" else "faster"


def comparison(row: Row) -> str:
    metric = METRICS.get(row["metric"])
    label = metric.short or metric.label if metric else row["metric"].replace("_", " ")
    n = row["threads"]
    threads = f"{n} thread{'s' * (n != '1')}" if n else "all thread counts"
    return f"{label}, {row['workload']}, {threads}: {row['arm']} against {row['baseline']}"


def why_gone(page: str, row: Row, asked: dict[str, dict[str, list[str]]]) -> tuple[str, str]:
    """(what stands in the place of a word, why) where the page has no such comparison any more."""
    question = row.get("question", "")
    arms = asked.get(page, {}).get(question, [])
    if question in MOVED:
        return "asked anew", f"other design: at a rate, in the study {MOVED[question]}"
    if row["arm"] in arms or (arms == ["*"] and row["arm"] not in NO_MORE):
        return "asked anew", "other design: the campaigns of the earlier one are left out"
    if "at once" in row["workload"]:
        return "no longer asked", TOGETHER
    if page in asked:
        return "no longer asked", "the study asks fewer questions"
    return "no row", ARCHIVE


def why_other(before: Row, now: Row) -> str:
    """Why a comparison that both pages have carries another word."""
    waits = [w for w in now["warnings"].split("; ") if w.startswith(("provisional", "range of"))]
    margin = float(now["margin_pct"])
    if waits:
        return f"other sittings: {waits[0]}"
    if int(float(now.get("sittings") or 1)) > 1:
        return "other sittings: all of this processor count, not the newest alone"
    if "levelled" in before["warnings"]:
        return "other rule: not levelled for steal"
    if "same" in (before["verdict"], now["verdict"]) and margin != MARGIN_PCT:
        return f"other rule: the margin of the metric is {margin:g} %"
    if now["design"] == "unpaired" and now["n_arm"] == "1":
        return "other rule: the difference is compared with that of two runs of one server"
    return "other rule: one 95 % interval, for the rows of one figure together"


def changed() -> Iterator[Row]:
    asked, after = questions_now(), pages_now()
    for page, old in pages_before().items():
        present = defaultdict(list)
        for row in after.get(page, []):
            present[key(row)].append(row)
        counts = {key(r)[:5] for r in after.get(page, [])}
        for row in old:
            about = {"page": page, "question": row.get("question") or row.get("title", "")}
            about |= {"comparison": comparison(row), "before": row["verdict"]}
            if key(row) not in present:
                now, why = why_gone(page, row, asked)
                if row["joint"] == "True" and key(row)[:5] in counts:
                    now, why = "no row", JOINT if page in asked else ARCHIVE
                yield about | {"now": now, "reason": why}
            for new in present[key(row)]:
                if worse(new) != row["verdict"]:
                    size = [float(new[n]) for n in ("change_pct", "lo_pct", "hi_pct") if new[n]]
                    text = "{:.2f} ({:.2f} to {:.2f})".format(*size) if len(size) == 3 else ""
                    about |= {"now": new["verdict"], "processor": new.get("processor", "")}
                    yield about | {"change_pct": text, "reason": why_other(row, new)}


if __name__ == "__main__":
    with (paths.root() / "docs" / "words-changed.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(changed())

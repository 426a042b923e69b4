"""The blog pack: a study's post, figures, page, data and the code that computes them again. Raw
files are copied in first, without what identifies a machine or a person; the notebook runs inside,
so every number comes from the files that the reader gets."""

import json
import os
import re
import shutil
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from noisefloor import paths
from noisefloor.data import design, pack, results, tidy
from noisefloor.data.cluster import pool
from noisefloor.show import identity, report
from noisefloor.show.markup import TEMPLATE, csv_data, environment
from noisefloor.show.plots import FIGURES
from noisefloor.show.report import ReportError
from noisefloor.show.report.notebooks import refused
from noisefloor.studies import page_of
from noisefloor.text import sheet

STEPS = 4  # how often `make` calls `step`, at most
LONG = 16  # rows of a table that the post shows; a longer one is linked
_SHORT = 18  # characters of a cell of the post that stay on one line
_NOT_FOR_READING = {"jupyterlab", "mysqlclient", "rocrate"}  # rendering needs none of them
_LIBRARY = Path(__file__).parents[1]
_PUBLIC = ("lib", "data/raw/published")  # folders of a pack that name nobody


def make(
    name: str,
    out: Path | str | None = None,
    timeout: float = 3600,
    step: Callable[[str], object] = lambda words: None,
) -> Path:
    """Write the pack of a page (all its campaigns) or of one campaign to the folder or ``.zip``
    `out`, by default ``reports/bundles/<campaign>`` (without one ``<page>``). Returns its path.

    `timeout`: seconds a cell; `step` is called with each next step. Raises Refusal in one sentence
    (code 2 before anything was written), Damaged for unreadable raw files; then nothing is left."""
    study, campaigns = chosen(name)
    usual = paths.reports() / "bundles" / (campaigns[0].name if campaigns else study)
    out = Path(out or usual).absolute()
    if out.exists():
        raise refused(f"{paths.relative(out)} exists already", "written")
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    folder = partial / (out.stem if out.suffix == ".zip" else out.name)
    try:
        _fill(folder, study, campaigns, timeout, step)
        if out.suffix == ".zip":
            step("packing")
            contents = ((str(f.relative_to(partial)), f.read_bytes()) for f in _files(folder))
            _zip(partial / out.name, contents)
            folder = partial / out.name
        folder.replace(out)
    except OSError as e:
        raise ReportError(f"{paths.relative(out)} cannot be written ({e.strerror})") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out


def _zip(file: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write a zip of (name, content): the same contents, the same bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents:
            entry = zipfile.ZipInfo(name)  # dated 1980, always
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def chosen(name: str) -> tuple[str, tuple[Path, ...]]:
    """(page, folders of its campaigns) for the name of a page or a campaign; no folders for published
    numbers alone. Raises ReportError, and Refusal for a campaign that has not ended."""
    campaign = results.folder_of(name) if name in paths.campaigns() else None
    facts = tidy.meta(campaign) if campaign else {}
    study = page_of(facts["study"], facts.get("key", "")) if campaign else name
    source = report.notebook(study)
    if source.stem == "time":
        raise refused(f"{name} timed two commands, and a pack holds what servers showed", "written")
    if campaign:
        return study, (campaign,)
    asked = report.parameters(source)
    if "campaigns" in asked:
        words = f"{name} rests on campaigns of several kinds, and a pack holds a study's"
        raise refused(words, "written")
    if "campaign" not in asked:
        return name, ()
    if leading := report.leading_campaign(name):
        return name, results.beside(paths.campaign(leading))
    words = f"has no campaign, measured or recorded: `{report.measures(name)}` measures one"
    raise refused(f"{name} {words}", "written")


def _fill(
    folder: Path,
    study: str,
    campaigns: tuple[Path, ...],
    timeout: float,
    step: Callable[[str], object],
) -> None:
    step("copying the raw files")
    given = {"campaign": ", ".join(c.name for c in campaigns)} if campaigns else {}
    names, changed = _copy(folder, study, campaigns)
    step("rendering")
    page = _rendered(study, given, folder, timeout)
    step("writing the post")
    words: dict[str, Any] = {"study": study, "given": given, "folder": folder, "changed": changed}
    words |= {"version": metadata.version("noisefloor"), "needs": _requirements()}
    words["facts"] = facts = json.loads(page.with_suffix(".json").read_text())
    words["shown"] = list(_shown(json.loads(page.with_suffix(".ipynb").read_text()), folder))
    if campaigns:
        raw = folder / "data" / "raw" / "recorded"
        words["run"] = run = results.load(*(raw / c.name for c in campaigns))
        words["measured"] = _measured(run)
        words["anew"] = report.command(run, "all" if len(run.parts) > 1 else run.study.key)
        words |= _main_table(facts)
        rows = pd.concat([r.tidy for r in run.every], ignore_index=True)
        sheet.cells(rows).to_csv(folder / "tidy.csv", index=False, lineterminator="\n")
    _write(folder, "post.md", words)
    (folder / "fragment.html").write_text(_fragment((folder / "post.md").read_text()))
    _write(folder, "rerender.py", words)
    about = tomllib.loads((TEMPLATE / "bundle" / "files.toml").read_text())
    (folder / "README.md").touch()
    words["files"] = {name: about[name] for name in about if (folder / name).exists()}
    _write(folder, "README.md", words)
    for file in _given(folder):  # names also in files written after `_copy`
        if file.suffix != ".png":
            _hidden(file, names)
        elif identity.names_in(file.read_bytes().decode("latin-1"), names):
            raise ReportError(f"{file.name} names the machine or its user; nothing was written")
    _crate(folder, words)


def _measured(run: results.Results) -> dict[str, Any]:
    """How much the campaigns of a pack measured; seconds: of a run, the median."""
    runs = [r.runs[~r.runs["warmup"]] for r in run.every]
    return {
        "campaigns": len(runs),
        "days": len({design.began(r.meta)[:10] for r in run.every}),
        "runs": sum(map(len, runs)),
        "blocks": sum(each["block"].nunique() for each in runs),
        "seconds": pd.concat(runs)["slice_s"].median(),
    }


# -- what goes in ----------------------------------------------------------------------------------


def _copy(folder: Path, study: str, campaigns: tuple[Path, ...]) -> tuple[dict[str, str], int]:
    """Fill `folder` with the library, the notebook and the raw files without what identifies
    anybody. Returns the names that were hidden, and the number of raw files that it changed."""
    leave = shutil.ignore_patterns("__pycache__", "*.partial")
    shutil.copytree(_LIBRARY, folder / "lib" / "noisefloor", ignore=leave)
    _dist_info(folder / "lib")
    if paths.published().exists():
        shutil.copytree(paths.published(), folder / "data" / "raw" / "published", ignore=leave)
    public = "\n".join(f.read_text(errors="replace") for f in _files(folder))
    for file in (paths.root() / n for n in ("environment.yml", "CITATION.cff", "LICENSE")):
        if file.exists():
            shutil.copyfile(file, folder / file.name)
    for name in ("notebooks", "figures", "tables"):
        (folder / name).mkdir()
    shutil.copy(report.notebook(study), folder / "notebooks")
    if (beside := paths.notebooks() / "analysis").exists():
        shutil.copytree(beside, folder / "notebooks" / "analysis", ignore=leave)
    facts: dict[str, Any] = {}
    raws = {c: folder / "data" / "raw" / "recorded" / c.name for c in campaigns}
    for campaign, raw in raws.items():
        pack.unpack(campaign, raw)  # so that names can be hidden in each file
        host = tidy.meta(campaign).get("host")
        facts |= host if isinstance(host, dict) else {}
    texts = [f.read_bytes().decode(errors="replace") for f in _given(folder)]
    names = identity.private_names(texts, facts, public)
    hidden, changed = [f for f in _given(folder) if _hidden(f, names)], 0
    for campaign, raw in raws.items():
        if not (mine := [f for f in hidden if f.is_relative_to(raw)]):
            continue
        changed += len(mine)
        _seal(raw, mine)
        before, after = (report.records(results.load(c).alone()) for c in (campaign, raw))
        if before != after:
            raise ReportError(
                f"{campaign.name} holds a host's or a user's name ({len(names)} are known) where a "
                "number stands, so hiding it would change a verdict; nothing was written"
            )
    return names, changed


def _files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.rglob("*") if f.is_file())


def _given(folder: Path) -> list[Path]:
    """The files of a pack that are not public already."""
    public = [folder / p for p in _PUBLIC]
    return [f for f in _files(folder) if not any(f.is_relative_to(p) for p in public)]


def _hidden(file: Path, names: dict[str, str]) -> bool:
    """Take what identifies anybody out of a text file. Returns whether that changed it."""
    before = after = file.read_bytes()
    if file.suffix in (".json", ".ipynb"):
        facts = json.loads(before)
        clean = identity.hide_in(facts, names)
        if isinstance(host := clean.get("host") if isinstance(clean, dict) else None, dict):
            clean["host"] = {k: v for k, v in host.items() if k in identity.HOST_FACTS}
        if clean != facts:
            after = (json.dumps(clean, indent=1, ensure_ascii=False) + "\n").encode()
    else:
        text = before.decode(errors="surrogateescape")
        after = identity.hide(text, names).encode(errors="surrogateescape")
    if after != before:
        file.write_bytes(after)
    return after != before


def _seal(raw: Path, changed: list[Path]) -> None:
    """Compute the checksums of runs with a changed file again, so that these count as whole."""
    for run in {f.parent for f in changed if (f.parent / "run.json").exists()}:
        facts = json.loads((run / "run.json").read_text())
        facts["sha256"] = {n: tidy.sha256(run / n) for n in facts["sha256"]}
        (run / "run.json").write_text(json.dumps(facts, indent=1) + "\n")
    if (raw / tidy.SEAL).exists():
        tidy.seal(raw)


def _dist_info(lib: Path) -> None:
    """Write what tells `importlib.metadata` the library's version without an installation."""
    version = metadata.version("noisefloor")
    info = lib / f"noisefloor-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: noisefloor\nVersion: {version}\n")


def _requirements() -> list[str]:
    """What the library needs to render, at the versions that rendered the pack."""
    asked = metadata.requires("noisefloor") or []
    asked = [line for line in asked if "extra" not in line or '"lab"' in line]
    names = {re.split(r"[^\w-]", line)[0] for line in asked} - _NOT_FOR_READING
    return [f"{name}=={metadata.version(name)}" for name in sorted(names)]


def _rendered(study: str, given: Mapping[str, Any], folder: Path, timeout: float) -> Path:
    """The page of a study, made by a process whose project folder is `folder`. Raises ReportError."""
    elsewhere = ("NOISEFLOOR_RUNS", "NOISEFLOOR_REPORTS")
    inside = {name: value for name, value in os.environ.items() if name not in elsewhere}
    inside |= {"NOISEFLOOR_HOME": str(folder), FIGURES: str(folder / "figures")}
    with pool(workers=1, apart=True, environment=inside) as executor:
        page = executor.submit(report.render, study, given, folder / "reports", timeout)
        try:
            return page.result()
        except BrokenExecutor:
            raise ReportError(f"{study} stopped: its process was killed or died") from None


# -- what is written -------------------------------------------------------------------------------


@cache
def _templates() -> Any:
    from jinja2 import FileSystemLoader

    loader = FileSystemLoader(TEMPLATE / "bundle")
    templates = environment().overlay(loader=loader, autoescape=False)
    templates.filters |= {
        "inline": lambda tag: _escaped(" ".join(tag.get_text().split())) if tag else "",
        "plain": lambda value: _escaped(re.sub(r"[\r\n]+", " ", str(value))),
        "quoted": lambda value: json.dumps(value, ensure_ascii=False),
        "whole": lambda text: text if len(text) > _SHORT else text.replace(" ", "\u00a0"),
    }
    templates.globals["LONG"] = LONG
    return templates


def _write(folder: Path, name: str, words: Mapping[str, Any]) -> None:
    """Write the file `name` from its template."""
    text = _templates().get_template(f"{name}.j2").render(words)
    if name.endswith(".md"):
        text = re.sub(r"\n{3,}", "\n\n", text)
    (folder / name).write_text(text.strip() + "\n")


def _crate(folder: Path, words: Mapping[str, Any]) -> None:
    """Write ``ro-crate-metadata.json``: what is in the folder, in the terms of RO-Crate."""
    from rocrate.rocrate import ROCrate

    crate = ROCrate()
    for entity in json.loads(_templates().get_template("crate.json.j2").render(words)):
        crate.add_or_update_jsonld(entity)
    crate.metadata.write(folder)


def _fragment(post: str) -> str:
    """A post as HTML that editors keep as it is: no style, no script; pictures and data are files
    beside it. The title is left out: it is for the page around it."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    _, _, body = post.split("---\n", 2)
    renderer = IPythonRenderer(allow_harmful_protocols=False, exclude_anchor_links=True)
    return MarkdownWithMath(renderer).render(body)


# -- the post --------------------------------------------------------------------------------------


def _shown(book: Mapping[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """The pieces of a rendered notebook for the post, in order: prose with its text; verdict, figure,
    facts and table with tag, number `n` and `file` (without suffix). Writes their data as CSV."""
    from bs4 import BeautifulSoup

    tag: Any
    drawn = sorted(p.stem for p in (folder / "figures").glob("*.svg"))
    counted: Counter[str] = Counter()
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            yield {"kind": "prose", "text": re.sub(r"\A# .*\n*", "", "".join(cell["source"]))}
        for output in cell.get("outputs", []):
            markup = "".join(output.get("data", {}).get("text/html", ""))
            soup = BeautifulSoup("" if "<style" in markup[:40] else markup, "html.parser")
            for tag in soup.select(".nf-verdict, .nf-figure, .nf-facts, .nf-table:has(td)"):
                kind, link = tag["class"][0].removeprefix("nf-"), tag.select_one("a.nf-data")
                counted[kind] += 1
                name = (link["download"] if link else "table").partition(".csv")[0]
                file = f"tables/{counted[kind]:02d}-{name}"
                if kind == "figure":
                    file = f"figures/{drawn[counted[kind] - 1]}"
                if link:
                    data = csv_data(link["href"].partition("base64,")[2])
                    (folder / f"{file}.csv").write_bytes(data)
                yield {"kind": kind, "tag": tag, "n": counted[kind], "file": file, "link": link}


def _main_table(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The table of the page's metric (main), and its heading if it has only one (group, else None)."""
    from bs4 import BeautifulSoup

    rows = pd.DataFrame(facts["comparisons"]).astype({"threads": "Int64"})
    for column in ("workload", "metric", "study"):
        rows = rows[rows[column].eq(facts["primary"][column])]
    shown = BeautifulSoup(report.verdict_table(rows).markup, "html.parser")
    groups = shown.select("tr.nf-group")
    return {"main": shown, "group": groups[0].extract() if len(groups) == 1 else None}


def _escaped(text: str) -> str:
    """`text` escaped for Markdown, and for site builders that replace {{ }} and {% %}."""
    text = re.sub(r"([\\`*\[\]<>|{}]|(?<={)%)", r"\\\1", text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)

"""The blog pack: a study's post, figures, page, data and the code that computes them again.

A pack is a small project folder of its own. The raw files are copied into it first, without what
identifies a machine or a person; the notebook is then run inside it, so that every number comes from
the very files that the reader gets.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
from base64 import b64decode
from importlib import metadata
from itertools import count
from pathlib import Path

import pandas as pd

from . import identity, pack, paths, report, results, sheet, tidy
from .plots import FIGURES
from .report import ReportError
from .report.pages import TEMPLATE, notebook, studies

LONG = 16  # rows of a table that the post shows; a longer one is linked
SHORT = 18  # characters of a cell of the post that stay on one line
STEPS = 4  # how often `make` tells what it does next
_NOT_FOR_READING = {"jupyterlab", "mysqlclient", "rocrate"}  # rendering needs none of them
_LIBRARY = Path(__file__).parent


def make(name: str, out=None, timeout: float = 3600, step=lambda words: None) -> Path:
    """Write the pack of a study (the newest campaign of each question) or a campaign into the folder
    or ``.zip`` `out`, by default ``reports/bundles/<campaign>``. Returns its path.

    `step` is told what is done next. Raises ReportError in one sentence: code 2 before anything
    was written, else 1, and then nothing is left."""
    study, campaigns = chosen(name)
    out = Path(
        out or paths.reports() / "bundles" / (campaigns[0].name if campaigns else study)
    ).absolute()
    if out.exists():
        raise ReportError(f"{paths.shown(out)} exists already; nothing was written", 2)
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    folder = partial / (out.stem if out.suffix == ".zip" else out.name)
    try:
        _fill(folder, study, campaigns, timeout, step)
        if out.suffix == ".zip":
            step("packing")
            files = sorted(p for p in folder.rglob("*") if p.is_file())
            contents = ((str(p.relative_to(folder.parent)), p.read_bytes()) for p in files)
            pack.write(partial / out.name, contents)
            (partial / out.name).replace(out)
        else:
            folder.replace(out)
    except OSError as e:
        raise ReportError(f"{paths.shown(out)} cannot be written ({e.strerror})") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out


def chosen(name: str) -> tuple[str, tuple[Path, ...]]:
    """(study, its campaigns' folders) of a study's or a campaign's name; no folder for a study that
    rests on published numbers alone. ReportError for anything else."""
    if name in paths.campaigns():
        campaign = paths.campaign(name)
        study = tidy.meta(campaign)["study"]
        if not _source(study):
            raise ReportError(
                f"{name} is a campaign of {study}, which has no page; nothing was written", 2
            )
        return study, (campaign,)
    if not (source := _source(name)):
        raise ReportError(
            f"{name!r} is neither a study ({', '.join(studies())}) nor a folder of "
            "data/raw/recorded or data/raw/runs; nothing was written",
            2,
        )
    asked = set(report.parameters(source))
    if "campaign" in asked:
        if not (newest := report.newest_campaign(name)):
            own = source.stem == "own-study"
            raise ReportError(
                f"{name} has no campaign, measured or recorded: "
                f"`noisefloor {'ab VARIABLE=OFF,ON' if own else f'run {name}'}` measures one; "
                "nothing was written",
                2,
            )
        return name, results.beside(paths.campaign(newest))
    if "aa" in asked:
        raise ReportError(
            f"{name} rests on campaigns of several kinds, and a pack holds a study's; nothing was"
            " written",
            2,
        )
    return name, ()


def _source(study: str) -> Path | None:
    """The notebook of a study's page; None without one."""
    try:
        return notebook(study)
    except ReportError:
        return None


def _fill(folder: Path, study: str, campaigns: tuple[Path, ...], timeout: float, step) -> None:
    step("copying the raw files")
    given = {"campaign": ", ".join(c.name for c in campaigns)} if campaigns else {}
    names, changed = _copy(folder, study, campaigns)
    step("rendering")
    figures = folder / "figures"
    figures.mkdir()
    with _inside(folder, figures):
        page = report.render(study, given, folder / "reports", timeout)
    step("writing the post")
    facts = json.loads(page.with_suffix(".json").read_text())
    if campaigns:
        raw = folder / "data" / "raw" / "recorded"
        found = results.load(*(raw / c.name for c in campaigns))
        table = sheet.cells(found.tidy)
        table.to_csv(folder / "tidy.csv", index=False, lineterminator="\n")
    else:
        found = None
    words = {
        "study": study,
        "given": given,
        "facts": facts,
        "post": _Post(json.loads(page.with_suffix(".ipynb").read_text()), folder),
        "table": _main_table(facts),
        "run": found,
        "design": _DESIGNS[found.study.design] if found else "",
        "counted": _counted(found) if found else "",
        "anew": _anew(found) if found else "",
        "needs": _requirements(),
        "changed": changed,
        "version": metadata.version("noisefloor"),
    }
    _write(folder, "post.md", words)
    _write(folder, "rerender.py", words)
    (folder / "fragment.html").write_text(_fragment(page.read_text(), facts["title"]))
    _write(folder, "README.md", words | {"files": _present(folder)})
    _without(folder, names)
    _crate(folder, facts, found)


# -- what goes in ----------------------------------------------------------------------------------


def _copy(folder: Path, study: str, campaigns: tuple[Path, ...]) -> tuple[dict[str, str], int]:
    """Fill `folder` with the library, the notebook and the raw files without what identifies
    anybody. The names that were hidden, and in how many raw files."""
    leave = shutil.ignore_patterns("__pycache__", "*.partial")
    shutil.copytree(_LIBRARY, folder / "lib" / "noisefloor", ignore=leave)
    _dist_info(folder / "lib")
    if paths.published().exists():
        shutil.copytree(paths.published(), folder / "data" / "raw" / "published", ignore=leave)
    public = "\n".join(
        f.read_text(errors="replace") for f in sorted(folder.rglob("*")) if f.is_file()
    )
    own = [paths.root() / n for n in ("environment.yml", "CITATION.cff", "LICENSE")]
    for file in filter(Path.exists, own):
        shutil.copyfile(file, folder / file.name)
    (folder / "notebooks").mkdir()
    shutil.copy(notebook(study), folder / "notebooks")
    facts, raws = {}, {}
    for campaign in campaigns:
        raws[campaign] = folder / "data" / "raw" / "recorded" / campaign.name
        pack.unpack(campaign, raws[campaign])  # what names somebody is taken out of each file
        host = tidy.meta(campaign).get("host")
        facts |= host if isinstance(host, dict) else {}
    texts = [f.read_bytes().decode(errors="replace") for f in _given(folder)]
    names = identity.found(texts, facts, public)
    hidden = [f for f in _given(folder) if _hidden(f, names)]
    changed = []
    for campaign, raw in raws.items():
        mine = [f for f in hidden if f.is_relative_to(raw)]
        changed += mine
        if not mine:
            continue
        _seal(raw, mine)
        before, after = (report.records(results.load(c).verdicts) for c in (campaign, raw))
        if before != after:
            raise ReportError(
                f"{campaign.name} holds a host's or a user's name ({len(names)} are known) where a "
                "number stands, so hiding it would change a verdict; nothing was written"
            )
    return names, len(changed)


def _given(folder: Path) -> list[Path]:
    """The files of a pack that are not public already."""
    public = (folder / "lib", folder / "data" / "raw" / "published")
    return [
        f
        for f in sorted(folder.rglob("*"))
        if f.is_file() and not any(f.is_relative_to(p) for p in public)
    ]


def _hidden(file: Path, names: dict[str, str]) -> bool:
    """Take what identifies anybody out of a text file; whether there was anything."""
    before = file.read_bytes()
    if file.suffix in (".json", ".ipynb"):
        facts = json.loads(before)
        clean = identity.hide_in(facts, names)
        if isinstance(host := clean.get("host") if isinstance(clean, dict) else None, dict):
            clean["host"] = {k: v for k, v in host.items() if k in identity.HOST_FACTS}
        after = before
        if clean != facts:
            after = (json.dumps(clean, indent=1, ensure_ascii=False) + "\n").encode()
    else:
        text = before.decode(errors="surrogateescape")
        after = identity.hide(text, names).encode(errors="surrogateescape")
    if after != before:
        file.write_bytes(after)
    return after != before


def _seal(raw: Path, changed: list[Path]) -> None:
    """The sha256 of every changed file anew, so that the runs are whole again."""
    for run in {f.parent for f in changed if (f.parent / "run.json").exists()}:
        facts = json.loads((run / "run.json").read_text())
        facts["sha256"] = {n: tidy.sha256(run / n) for n in facts["sha256"]}
        (run / "run.json").write_text(json.dumps(facts, indent=1) + "\n")
    if (raw / tidy.SEAL).exists():
        tidy.seal(raw)


def _without(folder: Path, names: dict[str, str]) -> None:
    """Hide the `names` in what was written since, and look for them in the figures."""
    for file in _given(folder):
        if file.suffix != ".png":
            _hidden(file, names)
        elif identity.named(file.read_bytes().decode("latin-1"), names):
            raise ReportError(
                f"{file.relative_to(folder)} names the machine or its user; nothing was written"
            )


def _dist_info(lib: Path) -> None:
    """What makes `importlib.metadata` know the library's version without an installation."""
    version = metadata.version("noisefloor")
    info = lib / f"noisefloor-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: noisefloor\nVersion: {version}\n")


def _requirements() -> list[str]:
    """What the library needs to render, at the versions that rendered the pack."""
    own = [re.match(r"[\w-]+", r)[0] for r in metadata.requires("noisefloor") if "extra" not in r]
    return [f"{n}=={metadata.version(n)}" for n in sorted(own) if n not in _NOT_FOR_READING]


@contextlib.contextmanager
def _inside(folder: Path, figures: Path):
    """The project folder is `folder`, for this process and its children."""
    changes = {
        "NOISEFLOOR_HOME": str(folder),
        "NOISEFLOOR_RUNS": None,
        "NOISEFLOOR_REPORTS": None,
        FIGURES: str(figures),
    }
    before = {name: os.environ.pop(name, None) for name in changes}
    os.environ.update({k: v for k, v in changes.items() if v})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})


# -- the post --------------------------------------------------------------------------------------


class _Post:
    """A rendered notebook as Markdown: `verdict`, `body`, and the first figure's name (`image`).

    The data behind figures and tables are written beside them as CSV."""

    def __init__(self, book: dict, folder: Path):
        self.folder, self.verdict, self.image = folder, "", ""
        self.drawings = iter(sorted(p.stem for p in (folder / "figures").glob("*.svg")))
        self.figures, self.tables = count(1), count(1)
        (folder / "tables").mkdir()
        self.body = "\n\n".join(filter(None, self._cells(book["cells"])))

    def _cells(self, cells):
        from bs4 import BeautifulSoup

        for cell in cells:
            if cell["cell_type"] == "markdown":
                yield re.sub(r"\A# .*\n*", "", "".join(cell["source"]))
            for output in cell.get("outputs", []):
                markup = "".join(output.get("data", {}).get("text/html", ""))
                if "<style" in markup[:40]:
                    continue
                soup = BeautifulSoup(markup, "html.parser")
                yield from map(self._piece, soup.find_all(_is_piece))

    def _piece(self, tag) -> str:
        kind = tag["class"][0]
        if kind == "nf-verdict":
            self.verdict = self.verdict or self._box(tag)
            return ""
        if kind == "nf-figure":
            return self._figure(tag)
        return self._table(tag) if kind == "nf-table" else _facts(tag)

    def _box(self, tag) -> str:
        said = [
            f"**{p.get_text(strip=True, separator=' ')}**"
            if "nf-word" in p["class"]
            else _escaped(p.get_text())
            for p in tag.select("p.nf-word, p.nf-headline, p.nf-answer")
        ]
        notes = [f"- {_escaped(li.get_text(' ', strip=True))}" for li in tag.select(".nf-notes li")]
        return "\n\n".join(filter(None, [*said, _facts(tag), "\n".join(notes)]))

    def _figure(self, tag) -> str:
        stem = next(self.drawings)
        self.image = self.image or f"figures/{stem}.png"
        alt = (tag.find("desc") or tag.find("title")).get_text()
        caption = tag.select_one("figcaption span")
        said = f"*Figure {next(self.figures)}. {_inline(caption)}*"
        link = self._data(tag, f"figures/{stem}.csv")
        return f"![{_escaped(alt)}](figures/{stem}.svg)\n\n{said}{link}"

    def _table(self, tag) -> str:
        rows = tag.select("tbody tr")
        if not rows:
            return ""
        n = next(self.tables)
        caption = tag.select_one(".nf-caption span")
        name = tag.select_one("a.nf-data")
        file = f"tables/{n:02d}-{name['download'] if name else 'table.csv'}"
        said = f"*Table {n}. {_inline(caption)}*{self._data(tag, file)}"
        return said if len(rows) > LONG else f"{_markdown(tag)}\n\n{said}"

    def _data(self, tag, file: str) -> str:
        """Write the CSV that a piece carries; a link to it."""
        link = tag.select_one("a.nf-data")
        if not link:
            return ""
        (self.folder / file).write_bytes(b64decode(link["href"].partition("base64,")[2]))
        return f" [{link.get_text()}]({file})"


def _is_piece(tag) -> bool:
    return bool({"nf-verdict", "nf-figure", "nf-table", "nf-facts"} & set(tag.get("class", ())))


def _facts(tag) -> str:
    """A description list as Markdown."""
    pairs = zip(tag.select("dt"), tag.select("dd"), strict=True)
    return "\n".join(f"- **{_inline(k)}**: {_inline(v)}" for k, v in pairs)


def _markdown(tag) -> str:
    """An HTML table as a Markdown table; a group's heading becomes a row of its own."""
    heads = tag.select("thead th, thead td")
    lines = [
        [_inline(h) for h in heads],
        ["---:" if "nf-r" in h.get("class", ()) else "---" for h in heads],
    ]
    for row in tag.select("tbody tr"):
        cells = row.select("th, td")
        group = "nf-group" in row.get("class", ())
        lines.append([f"**{_inline(c)}**" if group else _whole(_inline(c)) for c in cells])
    return "\n".join(f"| {' | '.join(r + [''] * (len(heads) - len(r)))} |" for r in lines)


def _inline(tag) -> str:
    return _escaped(" ".join(tag.get_text().split())) if tag else ""


def _whole(text: str) -> str:
    """A short cell, so that no browser breaks its line."""
    return text if len(text) > SHORT else text.replace(" ", "\u00a0")


def _escaped(text: str) -> str:
    """Text that Markdown takes as text, and the site builders that read {{ }} and {% %} in it."""
    text = re.sub(r"([\\`*\[\]<>|{}]|(?<={)%)", r"\\\1", text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)


def _main_table(facts: dict) -> str:
    """The comparisons of the metric that the page is about, as a Markdown table."""
    from bs4 import BeautifulSoup

    rows = pd.DataFrame(facts["comparisons"])
    main = facts["primary"]
    rows["threads"] = rows["threads"].astype("Int64")
    for key in ("workload", "metric", "study"):
        if key in rows and main.get(key) is not None:
            rows = rows[rows[key].eq(main[key])]
    shown = BeautifulSoup(report.verdict_table_html(rows).markup, "html.parser")
    groups = shown.select("tr.nf-group")
    above = f"**{_inline(groups[0].extract())}**\n\n" if len(groups) == 1 else ""
    return above + _markdown(shown)


_TABLE = re.compile(r'<div class="nf-scroll".*?</table></div>', re.S)
_CODE = re.compile(r'<details class="nf-code">.*?</details>', re.S)


def _fragment(page: str, title: str) -> str:
    """The page's box, figures and tables for a web page of somebody else's: no furniture, no code,
    its style kept to itself. It is always light, because a blog need not follow the system."""
    import html

    body = re.search(r"<main[^>]*>(.*?)</main>", page, re.S)[1]
    css = (TEMPLATE / "parts.css").read_text()
    css = re.sub(
        r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root \{.*?\}\s*\}",
        "",
        css,
        flags=re.S,
    )
    css = css.replace(":root", "&").replace("color-scheme: light dark", "color-scheme: light")
    css = css.replace("--nf-paper: #fdfdfb", "--nf-paper: #fff")
    own = "color: var(--nf-ink); background: var(--nf-paper); counter-reset: figure table;"
    return (
        f"<style>\n.noisefloor {{ {own}\n{css}}}\n</style>\n"
        f'<article class="noisefloor" aria-label="{html.escape(title)}">\n'
        f"{_TABLE.sub(_folded, _CODE.sub('', body)).strip()}\n</article>\n"
    )


def _folded(table: re.Match) -> str:
    """A table of the fragment; a long one to be opened, as the post links it."""
    rows = table[0].count("<tr") - 1
    if rows <= LONG:
        return table[0]
    return f"<details><summary>{rows} rows</summary>{table[0]}</details>"


def _write(folder: Path, name: str, words: dict) -> None:
    """Write the file `name` from its template."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE / "bundle"), trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["quoted"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.filters["plain"] = lambda value: _escaped(re.sub(r"[\r\n]+", " ", str(value)))
    text = environment.get_template(f"{name}.j2").render(words)
    (folder / name).write_text(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


# -- how it was measured ---------------------------------------------------------------------------

_DESIGNS = {
    "switched": "One server served both arms: the change was switched on and off between runs, and "
    "the server restarted between blocks.",
    "side by side": "Two servers stood side by side, one an arm. Both restarted between blocks, with "
    "fresh data directories dealt by coin.",
    "duet": "Two servers, one an arm, were loaded at the same time. Both restarted between blocks.",
}


def _counted(run) -> str:
    """How much was measured, in words."""
    judged = run.runs[~run.runs["warmup"]]
    length = judged["slice_s"].median()
    return (
        f"{len(judged)} runs were judged, of {length:g} s each at the median, between "
        f"{judged['block'].nunique()} starts of the server or servers."
    )


def _anew(run) -> str:
    """The command that measures the same elsewhere."""
    given, profile = run.meta["parameters"], ["--profile", run.study.profile.name]
    if "settings" not in given:
        key = "all" if len(run.parts) > 1 else run.study.key
        question = ["--question", key] if key else []
        return shlex.join(["noisefloor", "run", run.study.name, *question, *profile])
    words = ["noisefloor", "ab", *given["settings"]]
    script = "lua" if given.get("lua") else "workload"
    words += [f"--{script}", given[script]] if given.get(script) else []
    words += ["--engine", kind] if (kind := run.meta["engine"]["kind"]) != "mysql" else []
    return shlex.join([*words, *profile])


# -- the description, and the archive --------------------------------------------------------------

_FILES = {  # name: (what it is, media type)
    "post.md": ("The post: verdict, figures, tables, how it was measured.", "text/markdown"),
    "fragment.html": ("The same as HTML to paste into a page: no head, no code.", "text/html"),
    "figures/": ("Every figure as SVG and PNG with alternative text inside, its data as CSV.", ""),
    "tables/": ("The data of every table as CSV.", ""),
    "reports/": ("The page, its executed notebook, and the verdict table as CSV and JSON.", ""),
    "tidy.csv": ("One row a run and metric, in base units.", "text/csv"),
    "rerender.py": (
        "Computes every number again from the raw files and compares.",
        "text/x-python",
    ),
    "notebooks/": ("The notebook without its outputs.", ""),
    "data/raw/": ("What the tools printed, and the facts of every run.", ""),
    "lib/": ("The library that the notebook calls.", ""),
    "environment.yml": ("The conda environment.", "application/yaml"),
    "CITATION.cff": ("How to cite.", "application/yaml"),
    "LICENSE": ("Apache-2.0.", "text/plain"),
    "README.md": ("What is in this folder.", "text/markdown"),
}


def _present(folder: Path) -> dict:
    """The rows of `_FILES` that are in the folder."""
    return {n: v for n, v in _FILES.items() if (folder / n).exists()}


def _crate(folder: Path, facts: dict, run) -> None:
    """Write ``ro-crate-metadata.json``: what is in the folder, in the terms of RO-Crate."""
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    crate = ROCrate()
    date = facts["date"] or "1970-01-01"
    by = ContextEntity(
        crate,
        "#authors",
        {"@type": "Organization", "name": "The Noisefloor contributors"},
    )
    licence = ContextEntity(
        crate,
        "https://spdx.org/licenses/Apache-2.0",
        {
            "@type": "CreativeWork",
            "name": "Apache License 2.0",
            "description": "Use, change and pass it on, with the licence and its notices.",
        },
    )
    crate.add(by, licence)
    root = crate.root_dataset
    root["name"], root["description"] = facts["title"], facts["headline"]
    root["datePublished"], root["author"] = date[:10], by
    root["license"] = licence
    root["keywords"] = ["MySQL", "benchmark", facts["study"]]
    for name, (words, kind) in _present(folder).items():
        said = {"name": name, "description": words}
        if name.endswith("/"):
            crate.add_dataset(folder / name, name, properties=said)
        else:
            size = str((folder / name).stat().st_size)
            said |= {"encodingFormat": kind, "contentSize": size}
            crate.add_file(folder / name, name, properties=said)
    root["mainEntity"] = crate.get("post.md")
    if run:
        tools = ", ".join(f"{k} {v}" for k, v in run.meta["tools"].items())
        what = {
            "@type": "CreateAction",
            "name": f"Campaign {run.folder.name}",
            "description": f"{facts['engine']} on {facts['machine']}, with {tools}",
            "startTime": run.meta["created"],
            "endTime": run.meta["finished"],
        }
        action = ContextEntity(crate, "#campaign", what)
        action["result"] = crate.get("data/raw/")
        action["agent"] = by
        crate.add(action)
        root["mentions"] = action
    text = json.dumps(crate.metadata.generate(), indent=1, ensure_ascii=False, sort_keys=True)
    (folder / "ro-crate-metadata.json").write_text(text + "\n")

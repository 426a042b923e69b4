"""The blog pack is made from a campaign full of canaries, unpacked elsewhere and computed again."""

import hashlib
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import bleach
import pandas as pd
import pytest
import requests
import requests_cache
import urllib3
import yaml
from bleach.css_sanitizer import CSSSanitizer
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from PIL import Image
from rocrate import vocabs

from conftest import DATA, ROOT, done, moved
from noisefloor import paths
from noisefloor.data import pack as packing
from noisefloor.data import results, tidy
from noisefloor.show import bundle, identity, report
from noisefloor.show.markup import csv_data
from test_report import write

PACKED = [  # those with a campaign of their own on record
    name for name in report.studies()
    if name != "calibration" and any(paths.recorded().glob(f"{name}-*"))
]  # fmt: skip
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("NOISEFLOOR", "PYTHON"))}
STUDY, NAME = "binlog-encryption", "binlog-encryption-smoke-20261120-234729"
BIRD = re.compile(rb"kanarie", re.I)  # every canary holds this word
ENVIRONMENT = {
    "USER": "kanarieuser1",
    "HOSTNAME": "kanariehost1.example",
    "MYSQL_PWD": "Kanarie-secret1",
    "NOISEFLOOR_STORE": "mysql://me:Kanarie-secret2@db/results",
}
RAW_TEXT = (
    "Started by kanarieuser2@kanariehost2 in /home/kanarieuser2/bench on kanariehost3 "
    "with --mysql-password=Kanarie-secret3 and Kanarie-secret1\n"
    r"Copied from C:\Users\Kanarie Bird\logs by kanarieuser1 on kanariehost1" + "\n"
)


def edited(file: Path, **more) -> None:
    """Add to a JSON file; a mapping or a list is added to the one that is there."""
    facts = json.loads(file.read_text())
    for key, value in more.items():
        there = facts.get(key)
        if isinstance(there, dict):
            value = there | value
        facts[key] = there + value if isinstance(there, list) else value
    file.write_text(json.dumps(facts))


def planted(home: Path) -> Path:
    """A project with one recorded campaign and a canary wherever one could sit."""
    campaign, book = home / NAME, home / "notebooks" / f"{STUDY}.ipynb"
    shutil.copytree(DATA / "campaign", campaign)
    shutil.copytree(ROOT / "data" / "raw" / "published", home / "data" / "raw" / "published")
    for name in ("CITATION.cff", "LICENSE", "environment.yml"):
        shutil.copyfile(ROOT / name, home / name)
    with (home / "environment.yml").open("a") as file:
        file.write("# https://kanarieuser4:Kanarie-secret4@conda.example/\n")
        file.write("prefix: /home/kanarieuser4/conda\n")
    cells = json.loads((ROOT / "notebooks" / book.name).read_text())
    first = next(c for c in cells["cells"] if "parameters" in c["metadata"].get("tags", []))
    first["source"] += [
        "\n# mysql://kanarieuser10:Kanarie-secret7@kanariehost8.example/ in /home/kanarieuser10/x\n",
        'note = "user = kanarieuser11, host = kanariehost9, password = Kanarie-secret8"',
    ]
    first["metadata"]["by"] = "/home/kanarieuser12"
    book.parent.mkdir()
    shutil.copytree(ROOT / "notebooks" / "analysis", book.parent / "analysis")
    book.write_text(json.dumps(cells))
    server = "mysql://kanarieuser7:Kanarie-secret5@kanariehost5.example/"
    named = {"user": "kanarieuser5", "path": "/Users/kanarieuser6/x.ipynb", "server": server}
    edited(book, metadata=named)

    (campaign / "client.cnf").write_text(
        "[client]\nuser = kanarieuser13\npassword = Kanarie-secret9\nhost=kanariehost10\n"
        "socket = /home/kanarieuser13/mysql.sock\n"
    )
    host = {"hostname": "kanariehost3", "bought by": "kanarieowner"}
    edited(campaign / "campaign.json", host=host)
    for file in campaign.glob("variables-*.json"):
        edited(file, hostname="kanariehost6", datadir="/var/home/kanarieuser8/mysql/")
    argv = ["--mysql-host=kanariehost7", "--mysql-user=kanarieuser9"]
    argv += ["--mysql-password=Kanarie-secret6"]
    for file in sorted(campaign.glob("*/run.json")):
        text = file.with_name("sysbench.txt")
        text.write_text(RAW_TEXT + text.read_text())
        whole = {"sysbench.txt": hashlib.sha256(text.read_bytes()).hexdigest()}
        edited(file, argv=argv, host={"hostname": "kanariehost3"}, sha256=whole)
    packing.pack(campaign, home / "data" / "raw" / "recorded" / NAME)
    return home


def birds(folder: Path) -> list[str]:
    """Files that hold a canary: in their name or bytes, in what is embedded in them (base64), in the
    metadata of a picture."""
    found = []
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = [str(file.relative_to(folder)).encode(), file.read_bytes()]
        data += [csv_data(m) for m in re.findall(rb"base64,([A-Za-z0-9+/=]+)", data[1])]
        data += [repr(Image.open(io.BytesIO(d)).info).encode() for d in data if d[:4] == b"\x89PNG"]
        if any(BIRD.search(d) for d in data):
            found.append(str(file.relative_to(folder)))
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The project with canaries, in an environment with some more."""
    folder = planted(tmp_path_factory.mktemp("home"))
    with moved(folder), pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield folder


@pytest.fixture(scope="module")
def pack(home, tmp_path_factory):
    """The pack, made as a zip by the command and unpacked in a folder of its own."""
    archive = tmp_path_factory.mktemp("out") / "post.zip"
    assert done("bundle", STUDY, "--out", archive).splitlines()[-1] == "post.zip"
    assert [p.name for p in archive.parent.iterdir()] == ["post.zip"]
    elsewhere = tmp_path_factory.mktemp("some where else")
    with zipfile.ZipFile(archive) as packed:
        assert not packed.comment
        assert not any(i.comment or i.extra for i in packed.infolist())
        packed.extractall(elsewhere)
    return elsewhere / "post"


def test_the_pack_holds_what_a_post_needs(pack):
    for name in (
        *("post.md", "fragment.html", "README.md", "tidy.csv", "environment.yml", "CITATION.cff"),
        *("LICENSE", "ro-crate-metadata.json", "rerender.py", f"notebooks/{STUDY}.ipynb"),
        "notebooks/analysis/estimates.py",
        *(f"reports/{STUDY}{part}" for part in (".html", ".ipynb", ".csv", ".json")),
        f"data/raw/recorded/{NAME}/campaign.json",
    ):
        assert (pack / name).stat().st_size > 100, name
    assert len(list((pack / "figures").glob("*.svg"))) > 4
    assert set(pd.read_csv(pack / "tidy.csv").columns) == set(tidy.COLUMNS)


def test_no_password_host_user_or_home_is_in_it(home, pack):
    assert len(birds(home)) > 10
    assert birds(pack) == []
    ours = (p for p in pack.rglob("*") if not {"lib", "__pycache__"} & {*p.parts})
    for file in filter(Path.is_file, ours):  # rerender.py, which another test runs, leaves caches
        data = file.read_bytes()
        assert str(ROOT).encode() not in data, file
        assert not re.search(rb"/home/|/Users/|/root\b|/tmp/", data), file


def test_the_raw_files_are_whole_after_what_names_somebody_was_taken_out(pack):
    campaign = pack / "data" / "raw" / "recorded" / NAME
    assert tidy.opened(campaign).tidy_runs.problems == []
    text = next(campaign.glob("*/sysbench.txt")).read_text().splitlines()
    assert text[0] == (
        "Started by some-user@some-host in ~/bench on some-host with --mysql-password=*** and ***"
    )
    assert text[1] == r"Copied from ~\logs by some-user on some-host"


@pytest.mark.slow
def test_one_command_computes_the_same_numbers_elsewhere(pack, tmp_path):
    assert " " in str(pack)
    done = subprocess.run(
        [sys.executable, pack / "rerender.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=CLEAN,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"The same verdict table, byte for byte; the page is again/{STUDY}.html\n"
    for part in (".csv", ".json"):
        now, then = (pack / folder / f"{STUDY}{part}" for folder in ("again", "reports"))
        assert now.read_bytes() == then.read_bytes()
    shutil.rmtree(pack / "again")


def contexts(cache: Path) -> None:
    """The validator's own cache, filled with the JSON-LD context as the package rocrate ships it."""
    answer = requests.Response()
    answer.url, answer.status_code = vocabs.RO_CRATE["@id"], 200
    answer.headers["Content-Type"] = "application/ld+json"
    answer.request = requests.Request("GET", answer.url).prepare()
    body = json.dumps(vocabs.RO_CRATE).encode()
    answer.raw = urllib3.HTTPResponse(
        io.BytesIO(body), status=200, request_url=answer.url, preload_content=False
    )
    requests_cache.CachedSession(str(cache), backend="sqlite").cache.save_response(answer)


def issues(folder: Path, cache: Path) -> list[str]:
    """What the validator finds wrong with a description, without a word to the network."""
    from rocrate_validator import models, services

    settings = services.ValidationSettings(
        rocrate_uri=str(folder),
        profile_identifier="ro-crate-1.3",
        requirement_severity=models.Severity.REQUIRED,
        cache_path=cache,
        offline=True,
    )
    return [i.message for i in services.validate(settings).get_issues()]


@pytest.mark.slow  # half a minute of parsing the validator's own SPARQL
def test_the_description_is_a_valid_ro_crate(pack, tmp_path):
    contexts(tmp_path / "cache")
    assert issues(pack, tmp_path / "cache") == []
    broken = tmp_path / "broken"
    shutil.copytree(pack, broken, ignore=shutil.ignore_patterns("post.md"))
    assert any("post.md" in message for message in issues(broken, tmp_path / "cache"))


def test_every_link_of_the_post_leads_to_a_file(pack):
    for name in ("post.md", "README.md"):
        links = re.findall(r"\]\(([^)#]+)\)", (pack / name).read_text())
        assert len(links) > 8
        assert [k for k in links if not (pack / k).exists()] == []


def test_every_figure_has_alternative_text_in_the_post_and_inside(pack):
    said = re.findall(r"!\[(.*)\]\((.*)\.png\)", (pack / "post.md").read_text())
    drawn = sorted((pack / "figures").glob("*.svg"))
    assert [s for _, s in said] == [f"figures/{d.stem}" for d in drawn]
    for (alt, _), svg in zip(said, drawn, strict=True):
        assert len(alt) > 20
        inside = re.search(r"<desc>(.*?)</desc>", svg.read_text())[1]
        assert len(inside) > 20
        assert 'role="img"' in svg.read_text()
        assert "var(" not in svg.read_text()
        assert Image.open(svg.with_suffix(".png")).info["Description"][:20] == inside[:20]


def test_the_post_tells_verdict_method_and_how_to_repeat(pack):
    text = (pack / "post.md").read_text()
    _, front, body = text.split("---\n", 2)
    facts = json.loads((pack / "reports" / f"{STUDY}.json").read_text())
    head = yaml.safe_load(front)
    assert head["title"] == facts["title"]
    assert head["verdict"] == facts["verdict"]
    assert (pack / head["image"]).exists()
    assert all(sentence in body for sentence in in_the_box(facts))
    assert body.index(in_the_box(facts)[-1]) < body.index("## ")
    told = ("## How it was measured", "## How to repeat it", "uv run rerender.py", "| Threads |")
    assert all(words in body for words in told)
    assert "<" not in re.sub(r"\\<", "", re.sub(r"`[^`]*`", "", body))


@pytest.mark.parametrize(("floor_from", "said"), [("", True), ("such servers", False)])
def test_a_post_tells_of_restarts_only_of_a_server_of_ours(floor_from, said):
    run = results.load(DATA / "campaign")
    vars(run)["study"] = replace(run.study, design="switched", floor_from=floor_from)
    words = {
        "run": run,
        "measured": bundle._measured(run),
        "main": BeautifulSoup("", "html.parser"),
    }
    words |= {"facts": {"title": "", "headline": "", "verdict": ""}, "shown": []}
    text = bundle._templates().get_template("post.md.j2").render(words)
    assert "One server served both arms." in text
    assert ("The server restarted between blocks." in text) == said


# -- where people paste it -------------------------------------------------------------------------

# what WordPress (wp_kses_post) keeps of a post whose author may not write unfiltered HTML
TAGS = (
    "a abbr address article aside b blockquote br cite code dd del details dfn div dl dt em "
    "figcaption figure footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark nav ol p pre q "
    "s samp section small span strong sub summary sup table tbody td tfoot th thead tr u ul var"
)
CELL = (
    "abbr align axis bgcolor char charoff colspan headers height nowrap rowspan scope valign width"
)
ATTRIBUTES = {
    "*": "class dir hidden id lang role style title xml:lang",
    "a": "href rel rev name target",
    "img": "alt align border height hspace loading longdesc vspace src usemap width",
    "td": CELL,
    "th": CELL,
}
SCHEMES = "http https ftp ftps mailto news irc tel fax sms webcal urn"
STYLES = "text-align color background-color border font-size margin padding width max-width height"


def wordpress(markup: str) -> str:
    """What WordPress saves: other tags are taken out and their text is left."""
    return bleach.clean(
        markup,
        tags=set(TAGS.split()),
        attributes={tag: names.split() for tag, names in ATTRIBUTES.items()},
        protocols=SCHEMES.split(),
        strip=True,
        css_sanitizer=CSSSanitizer(allowed_css_properties=STYLES.split()),
    )


def words(text: str) -> str:
    return " ".join(text.split())


def in_the_box(facts: dict) -> list[str]:
    """What the box of a page has of its headlines: the arm is named in the first alone."""
    first, *others = facts["headlines"]
    return [first, *(other.partition(" at ")[2] for other in others)]


def shows_answer_and_figures(pack: Path, markup: str) -> BeautifulSoup:
    """HTML that has the sentences of the answer, and each figure as a file of the pack with its
    alternative text."""
    soup = BeautifulSoup(markup, "html.parser")
    facts = json.loads((pack / "reports" / f"{STUDY}.json").read_text())
    assert [s for s in in_the_box(facts) if words(s) not in words(soup.get_text())] == []
    drawn = sorted((pack / "figures").glob("*.png"))
    assert [i["src"] for i in soup.select("img")] == [f"figures/{d.name}" for d in drawn]
    for image, file in zip(soup.select("img"), drawn, strict=True):
        inside = re.search(r"<desc>(.*?)</desc>", file.with_suffix(".svg").read_text(), re.S)[1]
        assert words(image["alt"]) == words(html.unescape(inside))
    assert len(soup.select("table")) > 1
    assert [p for p in soup.select("p") if p.get_text().startswith("|")] == []  # a broken table
    return soup


def test_pasted_into_a_page_the_fragment_shows_answer_and_figures(pack, browser, tmp_path):
    fragment = (pack / "fragment.html").read_text()
    file = tmp_path / "page.html"
    head = f'<meta charset="utf-8"><base href="{pack.as_uri()}/"><title>A blog</title>'
    file.write_text(f"<!doctype html>{head}{fragment}")
    page = browser.new_page()
    page.goto(file.as_uri())
    shows_answer_and_figures(pack, page.content())
    wide = page.eval_on_selector_all("img", "all => all.map(i => i.complete && i.naturalWidth)")
    assert min(wide) > 300


def test_on_github_the_post_shows_answer_and_figures(pack):
    """CommonMark with tables; GitHub shows the head as a table, and takes raw HTML out."""
    _, _, body = (pack / "post.md").read_text().split("---\n", 2)
    github = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parsed = [part for token in github.parse(body) for part in (token, *(token.children or ()))]
    assert [part.content for part in parsed if part.type in ("html_block", "html_inline")] == []
    shows_answer_and_figures(pack, github.render(body))


def test_in_wordpress_the_fragment_shows_answer_and_figures(pack):
    fragment = (pack / "fragment.html").read_text()
    saved = wordpress(fragment)
    soup = shows_answer_and_figures(pack, saved)
    before = BeautifulSoup(fragment, "html.parser")
    assert words(soup.get_text()) == words(before.get_text())  # no text of a script or a style
    assert [t.name for t in soup.find_all()] == [t.name for t in before.find_all()]
    links = [a["href"] for a in soup.select("a") if "://" not in a["href"]]
    assert links
    assert [k for k in links if not (pack / k).exists()] == []


def test_wordpress_takes_out_what_a_page_has_and_a_post_must_not():
    saved = wordpress(
        '<style>p {}</style><svg><text>drawn</text></svg><form><input></form><iframe></iframe>'
        '<img src="data:image/png;base64,AA" alt="a" onerror="x()"><p style="position:fixed">b</p>'
    )  # fmt: skip
    assert words(saved) == 'p {}drawn <img alt="a"><p style="">b</p>'


@pytest.mark.slow
def test_every_study_is_packed_and_computed_again_elsewhere(tmp_path):
    """On recorded campaigns; two at a time, as they are independent."""

    def ran(*argv) -> str:
        env = CLEAN | {"NOISEFLOOR_HOME": str(ROOT), "PYTHONPATH": str(ROOT / "lib")}
        env |= {"NOISEFLOOR_RUNS": str(tmp_path / "runs")}  # and none that was measured here
        env = env if "bundle" in argv else CLEAN
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
        return done.stdout if done.returncode == 0 else done.stderr

    def again(name) -> str:
        out = tmp_path / name
        said = ran(Path(sys.executable).with_name("noisefloor"), "bundle", name, "--out", out)
        return ran(sys.executable, out / "rerender.py") if out.exists() else said

    with ThreadPoolExecutor(2) as pool:
        said = dict(zip(PACKED, pool.map(again, PACKED), strict=True))
    for name in PACKED:
        same = f"The same verdict table, byte for byte; the page is again/{name}.html\n"
        assert said[name] == same
        text = (tmp_path / name / "post.md").read_text()
        facts = json.loads((tmp_path / name / "reports" / f"{name}.json").read_text())
        assert yaml.safe_load(text.split("---\n", 2)[1])["verdict"] == facts["verdict"]
        links = re.findall(r"\]\(([^)#]+)\)", text)
        assert [k for k in links if not (tmp_path / name / k).exists()] == []


UNMEASURED = "has no campaign, measured or recorded:"


@pytest.fixture
def small(tmp_path):
    """A project with four notebooks and no campaign but the one of a study without a page."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "environment.yml").touch()
    parameters = {STUDY: 'campaign = ""', "own-study": 'campaign = ""', "many": 'campaigns = ""'}
    for name, code in (parameters | {"broken": "x = 1"}).items():
        write(tmp_path, name, ["1 / 0"], code)
    with moved(tmp_path):
        shutil.copytree(DATA / "campaign", paths.runs() / "orphan-1")
        edited(paths.runs() / "orphan-1" / "campaign.json", study="orphan")
        (tmp_path / "there").mkdir()
        yield tmp_path


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (["no-such"], 2, "no study is called 'no-such'; there are: binlog-encryption, broken,"),
        (["../x"], 2, "no study is called '../x'"),
        ([STUDY], 2, f"{UNMEASURED} `noisefloor run binlog-encryption`"),
        (["ab-x"], 2, f"ab-x {UNMEASURED} `noisefloor ab VARIABLE=OFF,ON`"),
        (["many"], 2, "many rests on campaigns of several kinds, and a pack holds a study's; no"),
        (["orphan-1"], 2, "no study is called 'orphan'; there are: binlog-encryption,"),
        (["broken", "--out", "there"], 2, "there exists already; nothing was written"),
        (["broken", "--out", "new"], 1, "ZeroDivisionError"),
        (["broken", "--out", "new.zip"], 1, "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_packed_is_one_sentence_and_leaves_nothing(
    small, args, code, sentence, monkeypatch
):
    monkeypatch.chdir(small)
    before = sorted(small.rglob("*"))
    said = done("bundle", *args, code=code)
    assert sentence in said
    assert "Traceback" not in said
    assert sorted(small.rglob("*")) == before


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("user=kanarie1 host: kanarie2", "user=some-user host: some-host"),
        ('"hostname": "kanarie2.example"', '"hostname": "some-host"'),
        ("ssh kanarie3@kanarie4.example ls", "ssh some-user@some-host ls"),
        ("mysql://kanarie5:pass@kanarie6.example/db", "mysql://some-user:***@some-host/db"),
        ("KANARIE2 and /home/kanarie1/x", "some-host and ~/x"),
        ("/Users/kanarie7/y, kanarie7", "~/y, some-user"),
        (r'"C:\\Users\\Kanarie\\z"', r'"~\\z"'),
        ("--mysql-host=10.1.2.3", "--mysql-host=some-host"),
        ("--mysql-host=127.0.0.1", "--mysql-host=127.0.0.1"),
        ('"user": 0.53, "host": {"cpu": "x"}', '"user": 0.53, "host": {"cpu": "x"}'),
        ("user=root host=localhost", "user=root host=localhost"),
        ("transactions: 120 (20.0 per sec.)", "transactions: 120 (20.0 per sec.)"),
        ("kanarieland", "kanarieland"),
    ],
)
def test_names_are_hidden_and_numbers_are_not(text, clean):
    known = "hostname: kanarie2 user: kanarie1"
    names = identity.private_names([known, text], {}, "root localhost transactions")
    once = identity.hide(text, names)
    assert once == clean
    assert identity.hide(once, names) == once


def test_a_campaign_is_chosen_by_its_name_and_a_study_by_its_newest(home):
    assert bundle.chosen(NAME) == (STUDY, (paths.campaign(NAME),))
    assert bundle.chosen(STUDY) == (STUDY, (paths.campaign(NAME),))


def test_a_study_s_pack_holds_all_campaigns_of_its_page():
    with moved(ROOT):
        study, campaigns = bundle.chosen("binlog-encryption")
        newest = paths.campaign(report.leading_campaign(study))
        assert campaigns == results.beside(newest)
    assert len({tidy.meta(c)["key"] for c in campaigns}) < len(campaigns)

"""What is compared: studies and profiles are data."""

import copy
import json
import os
import re
import tomllib
from dataclasses import replace

import pytest

from conftest import ROOT, arm_of
from noisefloor import model as study
from noisefloor import paths, schedule, studies
from noisefloor.data import tidy
from noisefloor.measure import asking, collect, folder
from noisefloor.measure.campaign import TOOLS
from noisefloor.servers import engines
from noisefloor.show import report
from noisefloor.show.report import answers

ENGINES = ("mysql", "mariadb")
EVERY = [
    (name, key, engine)
    for name in studies.STUDIES
    for engine in ENGINES
    for key in studies.questions(name, engine) or ("",)
]
# every study that has a page of its own
SERVED = sorted(set(studies.STUDIES) - {"own-study", "calibration"})


def asked(name: str, question: str = "", *, builds=None, **more) -> study.Study:
    request = study.Request(name, question, **({"profile": "standard"} | more))
    return studies.load(request, study.Resolved(builds=builds or {}))


def by_profile(name: str, question: str = "") -> dict[str, study.Study]:
    return {p: asked(name, question, profile=p) for p in study.PROFILES}


def described(chosen: study.Study) -> dict:
    """campaign.json of one that begins now, as it is read again."""
    return json.loads(json.dumps(folder.description(chosen, engines.find("mysql"), {})))


@pytest.mark.parametrize(("name", "key", "engine"), EVERY)
def test_every_question_can_be_asked_and_is_restored(name, key, engine, monkeypatch):
    monkeypatch.setattr(folder.doctor, "tools", dict)  # a process each, as is the commit
    monkeypatch.setattr(folder, "_commit", str)
    for profile in study.PROFILES:
        own = ("sync_binlog=1,0",) if name == "own-study" else ()
        s = asked(name, key, profile=profile, engine=engine, margin_pct=1.5, settings=own)
        assert (s.key, s.profile.name, s.margin_pct) == (key, profile, 1.5)
        schedule.check(s)
        declared = schedule.plan(s)
        assert tidy.folders._is_plan(declared)
        assert schedule.turns(1, s, declared)
        for w in s.workloads:
            assert w.tool in {*TOOLS, "replica"}
            assert set(w.deciding) <= set(w.metrics) <= study.METRICS.keys()
            assert w.deciding
            assert all(study.METRICS[m].judged for m in w.metrics)
            both = schedule.at_once(s, w)  # on one disk
            assert not (both and "disk_bytes_per_transaction" in w.metrics)
            assert set(w.arms) <= {a.name for a in s.arms}
            assert s.workload(w.name) is w
        names = [a.name for a in (s.baseline, s.control, *s.arms)]
        assert len(set(names)) == len(names)
        assert [arm_of(s, n).name for n in names] == names
        assert replace(s.control, name=s.baseline.name) == s.baseline
        after = study.study_of(described(s))
        assert after == s
        assert [a.name for a in after.arms] == [a.name for a in s.arms]  # their order, too


def test_what_is_asked_of_backups():
    keys = studies.questions("backup-encryption")
    assert list(keys) == ["headline", "restore", "beside", "encrypted-tables"]
    assert asked("backup-encryption").facts == ("speed",)
    assert asked("backup-encryption", "restore").facts == ("damage",)
    for s in (asked("backup-encryption", key) for key in keys):
        assert s.tables * s.profile.rows * 240 > 5 * 2**30
        assert schedule.least_min(s, schedule.plan(s)) < s.profile.budget_min <= 42
        assert {a.how.get("cipher") for a in s.compared} <= {None, "none", "aes-128-cbc", "sm4-cbc"}


@pytest.mark.parametrize(("engine", "made"), [("mariadb", "mariadb-backup"), ("mysql", "a clone")])
def test_a_backup_is_called_by_what_makes_it(engine, made):
    for cipher in ("aes-128-cbc", "sm4", "chacha20"):
        does = studies.does("backup-encryption", cipher, engine)
        assert does == f"encrypting {made} with {cipher}"


def test_a_compressor_of_one_thread_is_measured_with_one_cipher():
    """The second thread count takes so long that the time allows one arm; whoever names thread
    counts has every arm at each."""

    def cells(**more):
        found = schedule.cells(asked("backup-encryption", **more))
        return {(c.threads, c.arm.name) for c in found}

    four = {(4, "none again"), (4, "aes-128-cbc"), (4, "sm4")}
    assert cells() == four | {(1, "aes-128-cbc")}
    one, two = ({(t, a) for a in ("aes-128-cbc", "sm4")} for t in (1, 2))
    assert cells(threads=(1, 2)) == one | two | {(1, "none again")}
    assert (1, "sm4") in cells(profile="full")
    assert {t for t, _ in cells(profile="quick")} == {4}
    tables = {"question": "encrypted-tables"}
    assert cells(**tables) == {(4, "none, encrypted tables"), (4, "none, copied tables again")}
    assert (1, "none, encrypted tables") in cells(**tables, threads=(1,))


LESS_WARM = {  # seconds of warm-up after a start in `standard`, where it is not a minute, and why
    "ssl-connections": (1, "a connection reads nothing that must be in memory first"),
    "backup-encryption": (2, "a backup and a restore begin with nothing in a cache"),
    "backup-encryption, beside": (20, "a fortieth of the rows is asked for, 130 MB"),
    "binlog-encryption, replica": (2, "a replica catches up once, from its start"),
    "calibration": (2, "as in the campaigns that are recorded"),
}


@pytest.mark.parametrize(("name", "key"), sorted({(name, key) for name, key, _ in EVERY}))
def test_a_server_warms_up_for_a_minute_or_its_study_says_why_not(name, key):
    own = ("sync_binlog=1,0",) if name == "own-study" else ()
    seconds, why = LESS_WARM.get(f"{name}, {key}", LESS_WARM.get(name, (60, "")))
    assert asked(name, key, settings=own).profile.warmup_s == seconds
    if why:
        text = (ROOT / "lib" / "noisefloor" / "studies" / f"{name}.toml").read_text()
        assert re.search(rf"^warmup_s = .*\b{seconds}\b.*# .*{re.escape(why)}", text, re.M)


# -- the headline ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("binlog-encryption", ("rate",)),
        ("backup-encryption", ("headline",)),
        ("calibration", ("injected", "aa", "switched")),
        ("own-study", ("",)),
    ],
)
def test_what_a_study_measures_where_nobody_names_a_question(name, keys):
    assert studies.headline(name) == keys


@pytest.mark.parametrize("name", sorted(set(studies.STUDIES) - {"own-study", "calibration"}))
def test_a_published_headline_takes_three_sittings_and_a_short_campaign_one(name):
    first, *_ = studies.headline(name)
    others = [q for q in studies.questions(name) if q not in (first, "headline")]
    assert asked(name, first).sittings == studies.HEADLINE_SITTINGS == 3
    assert {asked(name, key).sittings for key in others} <= {1, 2}
    if "headline" in studies.questions(name):  # what a server can do at most, or the lead itself
        assert asked(name, "headline").sittings == 3
    assert asked(name, first, profile="quick").sittings == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", studies.STUDIES)
def test_every_headline_is_a_question(name, engine):
    known = studies.questions(name, engine) or {"": ""}
    keys = studies.headline(name, engine)
    assert keys
    assert set(keys) <= known.keys()


@pytest.mark.parametrize("name", sorted(set(studies.STUDIES) - {"own-study"}))
def test_a_quick_campaign_asks_as_few_questions_as_a_page_needs(name):
    for key in studies.headline(name):
        own = [c for c in schedule.cells(asked(name, key, profile="quick")) if not c.control]
        assert len(own) <= 5
        assert {c.threads for c in own} == {own[0].threads}


def test_a_quick_question_has_two_minutes_a_comparison():
    quick = study.PROFILES["quick"].budget_min
    parts = studies.load(study.Request("version-upgrade", "thread-pool"))
    assert parts.profile.budget_min == len(parts.arms) * quick
    assert studies.load(study.Request("tablespace-encryption")).profile.budget_min == quick
    given = studies.load(study.Request("version-upgrade", "thread-pool", budget_min=3))
    assert given.profile.budget_min == 3


def test_without_names_five_studies_are_measured_and_no_page_of_recorded_campaigns_is_made():
    five = ("backup", "binlog", "ssl-connections", "tablespace", "version-upgrade")
    planned = report.plan((), "quick")
    assert len(planned) == len(five)
    assert all(name.startswith(study) for (name, *_), study in zip(planned, five, strict=True))
    assert all(measures for *_, measures in planned)
    assert {"calibration", "published-claims"} <= {name for name, *_ in report.plan((), "recorded")}


@pytest.mark.parametrize("name", ["binlog-encryption", "tablespace-encryption", "version-upgrade"])
def test_a_quick_headline_at_a_rate_measures_for_two_minutes_in_short_windows(name):
    """Eight windows, each long enough for a 99th percentile, and what they need beside them."""
    (key,) = studies.headline(name)
    s = asked(name, key, profile="quick")
    (work,) = s.workloads
    seconds = schedule.slice_s(s, schedule.cells(s)[0])
    assert work.rate * seconds >= 1_150
    assert work.deciding == ("p99", "cpu_per_transaction")
    assert 8 * seconds <= 120 <= 60 * s.profile.budget_min <= 180


# -- a value for each profile, and for who asks ----------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "value", "found"),
    [
        ("quick", {"quick": 1, "standard": 2}, 1),
        ("full", {"quick": 1, "standard": 2}, 2),  # one that it does not have is standard's
        ("full", {"smoke": 3, "quick": 1}, 3),  # without standard's, the first
        ("quick", [1, 2], [1, 2]),
        ("quick", {"sync_binlog": "1"}, {"sync_binlog": "1"}),  # no profile's table
    ],
)
def test_a_value_of_a_profile(profile, value, found):
    assert studies._of(profile, value) == found


def test_a_missing_profile_falls_back_in_a_study():
    ssl = by_profile("ssl-connections")
    assert ssl["full"].arms == ssl["standard"].arms  # its table has none for full
    assert (len(ssl["smoke"].arms), len(ssl["quick"].arms)) == (2, 1)
    # how to measure is the profile's own where the study says nothing of it
    slices = {
        p: s.profile.slice_s for p, s in by_profile("tablespace-encryption", "restart").items()
    }
    assert slices == {p: study.PROFILES[p].slice_s for p in slices} | {"standard": 20}
    budget = {
        p: s.profile.budget_min for p, s in by_profile("backup-encryption", "restore").items()
    }
    assert budget == {p: study.PROFILES[p].budget_min for p in budget} | {"standard": 40}


def test_what_somebody_says_goes_before_what_a_study_declares():
    def binlog(question="replica", **more):
        return asked("binlog-encryption", question, **more)

    assert binlog(budget_min=3).profile.budget_min == 3
    assert binlog("", threads=(1, 2)).workloads[0].threads == (1, 2)
    assert binlog().margin_pct == 0  # each metric's own
    assert binlog(profile="quick", margin_pct=1).margin_pct == 1


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "binlog-encryption",
            {"question": "cost"},
            "binlog-encryption has no question 'cost'; it has: headline, rate, throttled,"
            " replica, profile; nothing was measured",
        ),
        ("binlog-encryption", {"question": "replica", "engine": "mariadb"}, "question 'replica'"),
        ("binlog-encryption", {"budget_min": True}, "budget_min True"),
        ("binlog-encryption", {"threads": (0,)}, "threads .0,.: a list of whole numbers"),
        ("binlog-encryption", {"rate": 500, "lua": "my.lua"}, "has no parameter 'lua'"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(name, parameters, message):
    with pytest.raises(study.StudyError, match=message):
        studies.load(study.Request(name, **parameters))


@pytest.mark.parametrize("name", SERVED)
def test_of_all_questions_the_first_stands_for_what_is_asked(name):
    assert asked(name, "all") == asked(name) == asked(name, next(iter(studies.questions(name))))


# -- a request -------------------------------------------------------------------------------------

BOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MEASURING = [book for book in BOOKS if "report.open_page(" in book.read_text()]


def test_a_misspelt_key_of_a_request_is_an_error_where_it_is_built():
    with pytest.raises(TypeError, match="budget_mins"):
        study.Request("binlog-encryption", budget_mins=3)


@pytest.mark.parametrize("book", MEASURING, ids=lambda book: book.stem)
def test_every_parameter_of_a_notebook_reaches_the_request(book):
    given = {parameter: f"my {parameter}" for parameter in report.parameters(book)}
    request = vars(answers.asked(book.stem, given))
    whose = {"server": "env"} if given.pop("guest", "") else {}
    assert given.pop("campaign")  # which keeps what it was made with
    usual = vars(study.Request(book.stem))
    assert {k: v for k, v in request.items() if v != usual[k]} == given | whose


@pytest.mark.parametrize("book", MEASURING, ids=lambda book: book.stem)
def test_a_parameter_of_a_notebook_that_has_another_name_is_refused(book):
    """In JupyterLab nothing else looks at it; imports and functions stand beside it."""
    given = {parameter: f"my {parameter}" for parameter in report.parameters(book)}
    given |= {"report": report, "asked": asked, "setting": "sync_binlog=1", "thread": 4}
    answers.asked(book.stem, given)
    of_book = {"own-study": ["settings"], "version-upgrade": ["question", "old"]}
    for name in ("threads", *of_book.get(book.stem, ["question"])):
        wrong = {n.replace(name, f"{name[:-1]}z"): value for n, value in given.items()}
        with pytest.raises(
            study.StudyError, match=rf"without a value \(misspelt\?\): {name}; nothing"
        ):
            answers.asked(book.stem, wrong)


def test_a_campaign_keeps_what_is_not_usual_and_neither_an_address_nor_a_path():
    where = {"server": "mysql://me@h", "clients": "tcp://h:1", "seed": 7, "question": "rate"}
    asked = study.Request("own-study", lua="/home/me/my.lua", rate="25%", allow=("disk",), **where)
    assert asked.parameters == {"lua": "my.lua", "rate": "25%", "allow": ("disk",)}
    assert study.Request("own-study", margin_pct=0.0, **where).parameters == {}


# -- what arms tell the tools ----------------------------------------------------------------------

TLS = {"via": "tcp", "tls": "TLSv1.3", "key": "P-256", "group": "P-256"}


@pytest.mark.parametrize(
    ("name", "arm", "how", "says"),
    [
        ("backup-encryption", "none", {"cypher": "none"}, "has 'cypher' in how; cipher.* are allowed"),
        ("ssl-connections", "plain TCP", {"vai": "tcp"}, "has 'vai' in how; via, tls, .* are allowed"),
        ("ssl-connections", "plain TCP", {"via": "socket"}, "has via = 'socket': tcp or tunnel is needed"),
        ("ssl-connections", "plain TCP", TLS | {"key": "RSA 1024"}, "has key = 'RSA 1024': RSA 2048 or"),
        ("ssl-connections", "plain TCP", {"tls": "TLSv1.3"}, "has tls in how, and no group and key"),
        ("tablespace-encryption", "plain", {"cipher": "none"}, "has 'cipher' in how; its tools take none"),
    ],
)  # fmt: skip
def test_a_misspelt_how_is_one_sentence(name, arm, how, says, monkeypatch):
    file = copy.deepcopy(studies._read(name))
    file["arms"][arm]["how"] = how
    monkeypatch.setattr(studies, "_read", lambda _: file)
    told = f"^{name}: the arm '{arm}' {says}.*; nothing was measured$"
    with pytest.raises(study.StudyError, match=told):
        [asked(name, key) for key in studies.questions(name)]


@pytest.mark.parametrize(
    ("where", "key", "value", "says"),
    [
        ("", "budgetmin", 3, "the file has 'budgetmin'; advice, arms, "),
        ("questions.rate", "budgetmin", 3, "questions.rate has 'budgetmin'; advice, arms, "),
        ("workloads.in memory", "budgetmin", 3, "workloads.in memory has 'budgetmin'; alone, arms, "),
        ("arms.plain", "budgetmin", 3, "arms.plain has 'budgetmin'; does, engine, "),
        ("advice", "worsse", "no", "advice in the file has 'worsse'; any, better, open, same, worse"),
        ("questions.rate", "advice", {"al": "no"}, "advice in questions.rate has 'al'; any, better, "),
        ("cipher", "optoin", "-d", "cipher in the file has 'optoin'; bytes, name, option"),
        ("", "warmup_s", {"standart": 60}, "warmup_s in the file has 'standart'; full, quick, smoke, "),
        ("questions.rate", "budget_min", {"standart": 26}, "budget_min in questions.rate has 'standart'; "),
        ("questions.rate", "rates", {"standart": [9]}, "rates in questions.rate has 'standart'; "),
        ("questions.rate", "arms", {"quik": ["plain"]}, "arms in questions.rate has 'quik'; "),
        ("workloads.in memory.slices", "standart", {"4": 5}, "slices in workloads.in memory has 'standart'; "),
        ("workloads.in memory", "threads", {"standart": [4]}, "threads in workloads.in memory has 'standart'; "),
    ],
)  # fmt: skip
def test_a_misspelt_key_of_a_study_is_one_sentence(where, key, value, says, monkeypatch):
    file = copy.deepcopy(studies._read("binlog-encryption"))
    entry = file
    for part in filter(None, where.split(".")):
        entry = entry[part]
    entry[key] = value
    monkeypatch.setattr(studies, "_read", lambda _: file)
    with pytest.raises(
        study.StudyError, match=f"^binlog-encryption: {says}.* are allowed; nothing was measured$"
    ):
        studies.load(study.Request("binlog-encryption"))


def test_seconds_of_a_slice_may_be_by_threads_alone(monkeypatch):
    file = copy.deepcopy(studies._read("binlog-encryption"))
    file["workloads"]["in memory"]["slices"] = {"4": 5}
    monkeypatch.setattr(studies, "_read", lambda _: file)
    assert asked("binlog-encryption", "headline").workloads[0].slices == {"4": 5}


def test_a_key_that_a_question_about_settings_does_not_read_is_one_sentence(monkeypatch):
    file = copy.deepcopy(studies._read("settings"))
    monkeypatch.setattr(studies, "_read", lambda _: file)
    assert asked("settings", "gtid")
    file["questions"]["gtid"]["arms"] = ["gtid_mode=ON"]
    says = r"^settings: questions\.gtid has 'arms'; advice, asks, .*compare, .* are allowed"
    with pytest.raises(study.StudyError, match=says):
        asked("settings", "gtid")


GUIDE = (paths.root() / "docs" / "add-a-study.md").read_text()


def test_every_key_of_a_file_and_of_a_question_is_written_down():
    every = studies._KEYS[""] | studies._KEYS["questions"] | studies._COMPARED | {"does", "like"}
    assert [key for key in sorted(every) if f"`{key}`" not in GUIDE] == []


def test_the_example_of_the_guide_is_a_study(monkeypatch):
    text = GUIDE.partition("```toml\n")[2].partition("```")[0]
    file = tomllib.loads(text)
    monkeypatch.setattr(studies, "_read", lambda _: file)
    for profile in study.PROFILES:
        s = asked("binlog-encryption", profile=profile)  # under the name of a file that is there
        schedule.check(s)
        assert [a.name for a in s.compared] == ["doublewrite off", "doublewrite on"]
        assert set(s.workloads[0].metrics) <= study.METRICS.keys()


def test_how_takes_what_the_tools_read():
    """Of kits: `noisefloor time` and the clients of a cluster have arms of their own."""
    folder = paths.root() / "lib" / "noisefloor" / "measure"
    texts = [(folder / f"{name}.py").read_text() for name in (*studies.HOW, "workloads", "asking")]
    read = re.findall(r"""\bhow(?:\.get\(|\[)["'](\w+)""", "\n".join(texts))
    assert {*read} == {key for known in studies.HOW.values() for key in known}


def test_what_how_takes_is_written_down():
    for kit, known in studies.HOW.items():
        assert f"`{kit}`" in GUIDE
        for key, values in known.items():
            assert f"`{key}`" in GUIDE
            assert all(f"`{v}`" in GUIDE for v in values), key


# -- connections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_connections_ask_six_questions_at_most(engine):
    assert len(studies.questions("ssl-connections", engine)) <= 6
    for key in studies.questions("ssl-connections", engine):
        for arm in asked("ssl-connections", key, engine=engine).compared:
            assert ("group" in arm.how) == ("tls" in arm.how)
            assert arm.switch == {"require_secure_transport": "ON" if "tls" in arm.how else "OFF"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_post_quantum_exchange_has_its_own_server_and_client(engine):
    """Whatever the study's engine: its server, that server's settings, a client that knows the group."""
    s = asked("ssl-connections", "post-quantum", engine=engine)
    assert {a.engine for a in (*s.compared, s.control)} == {"mariadb-11.8"}
    assert {a.how["client"] for a in s.compared} == {"mysql"}
    assert {a.how.get("groups") for a in s.compared} == {"X25519", "X25519MLKEM768", None}
    assert all(a.how.get("groups") == a.how.get("group") for a in s.compared)
    assert "innodb_log_file_size" in s.settings
    assert "innodb_redo_log_capacity" not in s.settings


def test_a_question_whose_build_is_absent_is_left_out(monkeypatch):
    """Beside others with its reason; alone it is an error. So is a client's build that would leave the
    client with the machine's own libraries."""
    hybrid, rate = (asked("ssl-connections", key) for key in ("post-quantum", "rate"))

    def find(name):
        if name == "mariadb-11.8":
            raise engines.EngineMissing("mariadb-11.8 is not fetched yet")
        return engines.Engine("mysql", "9.7.4", ("mysqld",))

    monkeypatch.setattr(engines, "find", find)
    found = collect._lacking([rate, hybrid], "mysql")
    assert found == {"post-quantum": "mariadb-11.8 is not fetched yet"}
    with pytest.raises(engines.EngineMissing, match="is not fetched yet"):
        collect._lacking([hybrid], "mysql")
    monkeypatch.setattr(engines, "find", lambda _: engines.Engine("mysql", "9.7.4", ("mysqld",)))
    assert asking.lacks(rate, "mysql") == ""
    said = "MySQL 9.7.4 brings no libraries for the client of TLS 1.3, X25519"
    assert asking.lacks(hybrid, "mysql") == said


def test_profiles_keep_their_promises():
    p = study.PROFILES
    assert p["quick"].budget_min <= 3
    assert p["standard"].budget_min <= 20
    assert p["standard"].blocks >= 10
    assert p["quick"].blocks == 8
    assert {x.threads for x in p.values()} == {(4,)}  # more of them is a question's own matter
    assert {n for n, x in p.items() if x.quick} == {"smoke", "quick"}  # wider margins: little time
    assert p["full"].slice_s == 300  # the source's own parameter
    assert not study.METRICS["max_latency"].judged  # it is shown


# -- campaigns that were recorded ------------------------------------------------------------------


def test_a_campaign_recorded_before_a_field_existed_has_its_default():
    before = studies.load(study.Request("binlog-encryption"))
    later = {"upgrade_path", "kit", "facts", "engine", "engines", "how", "prove", "pin", "sittings"}
    later |= {"environment", "reads_per_s", "share", "distance_ms"}

    def older(fields: dict, *also: str) -> dict:
        return {k: v for k, v in fields.items() if k not in later | {*also}}

    meta = older(described(before))
    meta["arms"] = {n: older(a) for n, a in meta["arms"].items()}
    meta["workloads"] = [older(w, "arms") for w in meta["workloads"]]
    assert study.study_of(meta) == before


@pytest.mark.parametrize(
    "file", sorted(paths.recorded().glob("*/campaign.json")), ids=lambda f: f.parent.name
)
def test_a_recorded_campaign_is_what_it_was(file):
    """They asked all questions of a study at once, and had fields that are no more."""
    s = study.study_of(tidy.meta(file.parent))
    told = json.loads(file.read_text())
    assert [w.name for w in s.workloads] == [w["name"] for w in told["workloads"]]
    assert {s.baseline.name, s.control.name, *(a.name for a in s.arms)} == set(told["arms"])
    assert s.key == told.get("key", "")
    assert s.margin_pct == 0  # nobody asked for another one than the metrics' own


# -- encryption ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "design", "where"),
    [("mysql", "switched", "switch"), ("mariadb", "side by side", "settings")],
)
def test_binlog_encryption_is_switched_where_it_can_be(engine, design, where):
    s = asked("binlog-encryption", engine=engine)
    assert s.design == design
    (arm,) = s.arms
    assert list(getattr(arm, where).values()) == ["ON"]
    assert list(getattr(s.baseline, where).values()) == ["OFF"]
    assert (s.baseline.expect, arm.expect) == ({"binlog": "plain"}, {"binlog": "encrypted"})
    assert s.workloads[0].threads == (1, 4, 16, 64)


def data_and_pool(s: study.Study) -> tuple[float, float]:
    """Bytes of the tables, and of the buffer pool."""
    pool = int(s.settings["innodb_buffer_pool_size"].removesuffix("G")) * 2**30
    return s.tables * s.profile.rows * 240, pool


@pytest.mark.parametrize("engine", ENGINES)
def test_tablespace_encryption_goes_from_nothing_to_everything(engine):
    s, memory, more = (
        asked("tablespace-encryption", question, profile="full", engine=engine)
        for question in ("headline", "memory", "writes")
    )
    (only,), (same, everything) = s.arms, more.arms
    assert same == only
    assert [s.baseline.name, only.name, everything.name] == ["plain", "tables only", "everything"]
    assert s.workloads[0].threads == (1, 4, 16, 32, 64, 96, 128, 256, 512, 1024, 2048)
    assert memory.workloads[0].rate
    assert not only.settings  # tables alone: the source's arm
    assert "binlog" in only.expect
    assert set(everything.expect.values()) <= {"encrypted", "active", "off"}
    assert int(s.settings["max_connections"]) > 2048
    data, pool = data_and_pool(s)
    assert memory.workloads[0].share * data < 0.6 * pool < pool < data / 3.5
    assert s.settings["innodb_flush_method"] == "O_DIRECT"


# -- two builds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("profile", study.PROFILES)
@pytest.mark.parametrize("name", SERVED)
def test_every_server_has_a_gigabyte_of_memory_two_of_redo_and_its_own_way_to_the_disk(
    name, profile, engine
):
    for question in studies.questions(name, engine):
        s = asked(name, question, profile=profile, engine=engine)
        assert s.settings["innodb_buffer_pool_size"] in ("1G", "2G", "3G")
        redo = {"innodb_redo_log_capacity", "innodb_log_file_size"} & s.settings.keys()
        assert [s.settings[n] for n in redo] == ["2G"]
        assert s.settings["innodb_flush_method"] == "O_DIRECT"


def test_a_study_asks_thirty_questions_at_the_most():
    every = [q for name in SERVED for q in studies.questions(name)]
    assert len(every) <= 30


def test_both_builds_of_an_upgrade_have_the_same_but_their_version():
    s = asked("version-upgrade", "rate", profile="full")
    new, *own = s.arms
    assert replace(new, name="", engine="") == replace(s.baseline, name="", engine="")
    assert (s.baseline.engine, new.engine) == ("mysql-8.0", "mysql")
    assert new.environment == {"LD_PRELOAD": "libjemalloc.so.2"}
    assert new.expect["allocator"] == "jemalloc"
    assert not any(a.settings or a.environment for a in own)
    assert [a.engine for a in own] == ["mysql-8.0", "mysql"]
    pool = asked("version-upgrade", "thread-pool", profile="full")
    pooled, tuned = pool.arms
    assert pool.baseline == new  # the pool is held against the same build without it
    assert pooled.settings["thread_pool_size"] == str(os.cpu_count())
    assert tuned.settings["thread_pool_size"] == "16"
    assert tuned.settings["thread_pool_stall_limit"] == "6"  # 60 ms
    *_, maria = asked("version-upgrade", "thread-pool", engine="mariadb").arms
    assert maria.settings["thread_pool_stall_limit"] == "60"  # 60 ms, too


def test_a_slice_is_long_enough_for_its_clients():
    s = asked("version-upgrade", "headline")
    seconds = {c.threads: schedule.slice_s(s, c) for c in schedule.cells(s) if not c.control}
    assert seconds == {4: 5, 64: 25, 500: 75}
    quick = asked("version-upgrade", "headline", profile="quick")
    assert {schedule.slice_s(quick, c) for c in schedule.cells(quick)} == {2}
    each = sum(2 * (t + schedule.LOST_S) for t in seconds.values()) + schedule.starting_s(s)
    assert schedule.least_min(s, schedule.plan(s)) == pytest.approx(10 * each / 60)


@pytest.mark.parametrize(
    ("study", "question"),
    [
        ("binlog-encryption", "headline"),
        ("binlog-encryption", "throttled"),
        ("tablespace-encryption", "headline"),
        ("version-upgrade", "headline"),
        ("version-upgrade", "thread-pool"),
    ],
)
def test_a_client_makes_a_hundred_transactions_in_a_slice_or_has_75_seconds(study, question):
    """At 400 transactions a second, which this machine makes with many clients, 200 on a slow disk."""
    s = asked(study, question, profile="standard")
    assert not any(w.rate for w in s.workloads)  # at a rate it is offered less
    cells = [c for c in schedule.cells(s) if c.threads and c.workload.name != "large transactions"]
    for c in cells:
        seconds = schedule.slice_s(s, c)
        per_s = 200 if c.workload.throttled else 400
        assert seconds >= 75 or seconds * per_s / c.threads >= 100, c


def test_the_control_in_memory_is_under_load_as_long_as_what_it_has_to_acquit():
    """As many seconds at the rate of the answer, so that its interval is no wider."""

    def seconds(question):
        s = asked("tablespace-encryption", question)
        first = schedule.cells(s)[0]
        each = schedule.slice_s(s, first)
        assert first.workload.rate == 60
        return each * max(1, schedule._fitting(s, s.profile.blocks))

    assert seconds("memory") >= seconds("rate")


def test_builds_are_called_by_what_they_are_or_by_their_folder():
    def named(question="", **more):
        s = asked("version-upgrade", question, **more)
        return s, [s.baseline.name, s.arms[0].name]

    _, names = named(engine="/opt/mysql-8.4/", old="/srv/mysql-8.0.42")
    assert names == ["mysql-8.0.42", "mysql-8.4"]
    _, same = named(engine="/a/mysql", old="/b/mysql")
    assert same[0] != same[1]
    found = {"/opt/new": ("mariadb", "MariaDB 11.8.2"), "mysql-8.0": ("mysql", "MySQL 8.0.31")}
    s, names = named("headline", engine="/opt/new", builds=found)
    assert names == ["MySQL 8.0", "MariaDB 11.8.2"]
    assert s.question.startswith("What changes from MySQL 8.0 to MariaDB 11.8.2")
    assert s.arms[0].engine == "/opt/new"  # what will be started
    s, _ = named("thread-pool", engine="/opt/new", builds=found)
    assert s.arms[0].settings["thread_handling"] == "pool-of-threads"
    s, names = named(builds={"mysql": ("mysql", "MySQL 8.4.6")})
    assert names[1] == "MySQL 8.4.6"
    assert s.arms[0].expect["redo capacity"] == "2048 MiB"


def test_a_workload_may_be_for_some_arms_only():
    s, more = (asked("tablespace-encryption", q) for q in ("headline", "writes"))
    other = replace(s.workloads[0], name="other", arms=("everything",))
    s = replace(s, arms=more.arms, workloads=(*s.workloads, other))
    keys = {(c.workload.name, c.arm.name) for c in schedule.cells(s)}
    main = s.workloads[0].name
    assert keys >= {("other", "everything"), (main, "tables only"), (main, s.control.name)}
    assert ("other", "tables only") not in keys

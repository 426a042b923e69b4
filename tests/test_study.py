"""What is compared: studies and profiles are data."""

import json
import os
from dataclasses import FrozenInstanceError, replace

import pytest

from noisefloor import engines, honest, paths, schedule, studies, study, tidy
from noisefloor.measure import campaign
from noisefloor.measure.campaign import TOOLS

ENGINES = ("mysql", "mariadb")
EVERY = [
    (name, key, profile, engine)
    for name in studies.STUDIES
    for engine in ENGINES
    for key in studies.questions(name, engine) or ("",)
    for profile in study.PROFILES
]


def described(chosen: study.Study) -> dict:
    """campaign.json of one that begins now, as it is read again."""
    return json.loads(json.dumps(campaign.description(chosen, engines.find("mysql"), {})))


@pytest.mark.parametrize(("name", "key", "profile", "engine"), EVERY)
def test_every_question_can_be_asked_and_is_restored(name, key, profile, engine, monkeypatch):
    monkeypatch.setattr(campaign.doctor, "tools", dict)  # a process each, as is the commit
    monkeypatch.setattr(campaign, "_commit", str)
    s = studies.load(name, question=key, profile=profile, engine=engine, margin_pct=1.5)
    assert (s.key, s.profile.name, s.margin_pct) == (key, profile, 1.5)
    schedule.check(s)
    declared = schedule.plan(s)
    assert tidy._is_plan(declared)
    assert schedule.turns(1, s, declared)
    for w in s.workloads:
        assert w.tool in TOOLS
        assert set(w.deciding) <= set(w.metrics) <= study.METRICS.keys()
        assert w.deciding
        assert all(study.METRICS[m].judged for m in w.metrics)
        assert set(w.arms) <= {a.name for a in s.arms}
        assert s.workload(w.name) is w
        assert not (w.at_once and s.design == "switched")
    names = [a.name for a in (s.baseline, s.control, *s.arms)]
    assert len(set(names)) == len(names)
    assert [s.arm(n).name for n in names] == names
    assert (s.control.switch, s.control.settings, s.control.expect) == (
        s.baseline.switch,
        s.baseline.settings,
        s.baseline.expect,
    )
    after = study.restored(described(s))
    assert after == s
    assert [a.name for a in after.arms] == [a.name for a in s.arms]  # their order, too


FAR = {
    *("TLS 1.2, RSA 2048", "TLS 1.3, RSA 2048", "TLS 1.3, RSA 2048, P-256 offered"),
    "SSH aes256-ctr",
}
# what the studies measured when each was one long campaign, by workload: the arms that were held
# against the baseline. `100 connections` was called so for the number that it made; it is made for
# whole seconds now. What was a fact beside a campaign (without an interval) is a question now, but for
# `resumption` (TLS sessions, with openssl's client: libmariadb resumes none) and `tables` (bytes of plain
# and encrypted tables on disk), which are measured no more.
MEASURED = {
    "binlog-encryption": {
        "in memory": {"encrypted"},
        "sync_binlog=0": {"encrypted"},
        "throttled disk": {"encrypted"},
        "replica": {"encrypted"},
    },
    "tablespace-encryption": {
        "larger than memory": {"tables only", "everything", "tables only, AES masked"},
        "in memory": {"tables only"},
        "read and write": {"everything"},
        "write only": {"everything"},
        "throttled disk": {"tables only"},  # it reads: the rest of everything acts on writes
        "restart": {"everything"},
    },
    "version-upgrade": {
        "read/write": {
            *("MySQL 9.7", "MySQL 9.7, old values", "MySQL 9.7, thread pool"),
            "MySQL 9.7, thread pool as in the source",
        },
    },
    "backup-encryption": {
        "backup": {
            *("aes-128-cbc", "aes-256-ctr", "chacha20", "sm4", "sm4 by its other name"),
            *("aes-128-cbc, no AES instructions", "sm4, 1 MiB buffers"),
            *("sm4, 1 MiB pipes", "none, encrypted tables"),
        },
        "restore": {
            *("aes-128-cbc", "aes-256-ctr", "chacha20", "sm4"),
            *("aes-128-cbc, no AES instructions", "sm4, 1 MiB buffers"),
            "sm4, 1 MiB pipes",
        },
        # the fact `speed`: every cipher alone, both ways
        "encrypt in memory": {
            *("aes-256-ctr", "chacha20", "sm4", "aes-128-cbc, no AES instructions"),
        },
        "decrypt in memory": {
            *("aes-256-ctr", "chacha20", "sm4", "aes-128-cbc, no AES instructions"),
        },
    },
    "ssl-connections": {
        "one after the other": {
            *("TLS 1.2, RSA 2048", "TLS 1.3, RSA 2048", "TLS 1.3, RSA 2048, P-256 offered"),
            *("TLS 1.3, RSA 1024", "TLS 1.3, RSA 4096", "TLS 1.3, P-256", "socket"),
            *("SSH aes256-ctr", "SSH aes256-cbc", "SSH chacha20-poly1305", "SSH aes256-gcm"),
            "ssh -N aes256-ctr",  # the fact `tunnel with -N`
        },
        "sustained": {
            *("TLS 1.3, RSA 2048", "TLS 1.3, RSA 4096", "TLS 1.3, P-256", "SSH aes256-ctr"),
        },
        "pooled": {"socket", "TLS 1.3, RSA 2048"},
        "pooled, read-only": {"TLS 1.3, RSA 2048"},
        "one request a connection": {"TLS 1.3, RSA 2048"},
        # with the fact `round trips`
        "0 ms away": FAR,
        "40 ms away": FAR,
        "170 ms away": FAR,
    },
}
NOT_ON = {("binlog-encryption", "mariadb"): {"replica"}}  # as before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MEASURED)
def test_nothing_that_was_measured_is_lost(name, engine):
    found: dict[str, set[str]] = {}
    for key in studies.questions(name, engine):
        s = studies.load(name, question=key, profile="standard", engine=engine)
        for c in schedule.cells(s):
            if not c.control:
                found.setdefault(c.workload.name, set()).add(c.arm.name)
    for workload, arms in MEASURED[name].items():
        if workload in NOT_ON.get((name, engine), ()):
            assert workload not in found
        else:
            wanted = {a.replace("MySQL 9.7", "MariaDB") if engine == "mariadb" else a for a in arms}
            assert wanted <= found[workload], workload


def test_what_a_damaged_archive_does_is_still_looked_at():
    assert studies.load("backup-encryption", question="restore").facts == ("damage",)


def test_every_cipher_alone_is_held_against_the_first():
    s = studies.load("backup-encryption", question="speed", profile="standard")
    assert s.baseline.name == "aes-128-cbc"
    assert {m for w in s.workloads for m in w.metrics} == {"cipher_rate"}


# -- the headline ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "profile", "says", "keys"),
    [
        ("binlog-encryption", "standard", "word", ("headline", "processor")),
        ("binlog-encryption", "smoke", "size", ("headline", "processor")),
        ("binlog-encryption", "quick", "word", ("processor",)),  # one question
        ("binlog-encryption", "quick", "", ("headline",)),  # a duet is not offered
        ("binlog-encryption", "standard", "", ("headline",)),
        ("backup-encryption", "quick", "word", ("headline",)),
        ("own-study", "quick", "word", ("",)),
    ],
)
def test_the_headline_asks_of_processor_time_where_calibration_allows_it(
    name, profile, says, keys, monkeypatch
):
    monkeypatch.setattr(honest, "duet", lambda: honest.Duet(says=says))
    assert studies.headline(name, profile) == keys


def test_every_headline_is_a_question():
    for name in studies.STUDIES:
        for engine in ENGINES:
            for profile in study.PROFILES:
                known = studies.questions(name, engine) or {"": ""}
                keys = studies.headline(name, profile, engine)
                assert keys
                assert set(keys) <= known.keys()


def test_what_a_duet_may_say_is_read_of_this_machine_first(home, monkeypatch):
    recorded = studies.load("binlog-encryption", question="processor")
    assert recorded.duet == honest.duet().says
    own = home / "runs" / "duet.json"
    own.parent.mkdir()
    own.write_text(json.dumps({"says": "size", "shrinks": 0.25, "source": "here", "more": 1}))
    assert paths.duet() == own
    here = studies.load("binlog-encryption", question="processor")
    assert (here.duet, here.shrinks) == ("size", 0.25)
    assert studies.load("binlog-encryption").duet == ""  # no duet, nothing to say
    assert studies.load("calibration", question="injected").duet == ""  # it asks what they may say


# -- a value for each profile ----------------------------------------------------------------------


def test_a_value_that_a_profile_does_not_have_is_standards():
    assert studies._of("quick", {"quick": 1, "standard": 2}) == 1
    assert studies._of("full", {"quick": 1, "standard": 2}) == 2
    assert studies._of("full", {"smoke": 3, "quick": 1}) == 3  # without standard's, the first
    assert studies._of("quick", [1, 2]) == [1, 2]
    assert studies._of("quick", {"sync_binlog": "1"}) == {"sync_binlog": "1"}  # no profile's table


def test_a_missing_profile_falls_back_in_a_study():
    ssl = {p: studies.load("ssl-connections", profile=p) for p in study.PROFILES}
    assert ssl["full"].arms == ssl["standard"].arms  # its table has none for full
    assert len(ssl["smoke"].arms) == 2
    assert len(ssl["quick"].arms) == 1
    restart = {
        p: studies.load("tablespace-encryption", question="restart", profile=p).profile.slice_s
        for p in study.PROFILES
    }
    # how to measure is the profile's own where the study says nothing of it
    slices = {p: study.PROFILES[p].slice_s for p in study.PROFILES}
    assert restart == slices | {"standard": 6}
    budget = {
        p: studies.load("binlog-encryption", question="processor", profile=p).profile.budget_min
        for p in study.PROFILES
    }
    assert budget == {p: study.PROFILES[p].budget_min for p in study.PROFILES} | {"standard": 15}


def test_what_somebody_says_goes_before_what_a_study_declares():
    asked = {"question": "processor", "profile": "standard"}
    assert studies.load("binlog-encryption", **asked, budget_min=3).profile.budget_min == 3
    assert studies.load("binlog-encryption", **asked, threads=(2,)).workloads[0].threads == (2,)
    assert studies.load("binlog-encryption", **asked).margin_pct == 2
    assert studies.load("binlog-encryption").margin_pct == 5  # quick
    assert studies.load("binlog-encryption", profile="smoke").margin_pct == 5
    assert studies.load("binlog-encryption", margin_pct=1).margin_pct == 1


def test_two_servers_at_once_are_not_loaded_by_many_clients():
    s = studies.load("binlog-encryption", question="processor", threads=(1, 4, 64))
    assert s.workloads[0].threads == (1, 4)
    s = studies.load("binlog-encryption", question="processor", threads=(32, 64))
    assert s.workloads[0].threads == (4,)


def test_a_campaign_recorded_before_a_field_existed_has_its_default():
    before = studies.load("binlog-encryption")
    later = {"upgrade_path", "kit", "facts", "engine", "engines", "how", "prove", "pin", "shrinks"}
    later |= {"environment", "reads_per_s", "share", "distance_ms", "at_once", "duet"}

    def older(fields: dict) -> dict:
        return {k: v for k, v in fields.items() if k not in later}

    meta = older(described(before))
    meta["arms"] = {n: older(a) for n, a in meta["arms"].items()}
    meta["workloads"] = [older(w) for w in meta["workloads"]]
    for w in meta["workloads"]:
        del w["arms"]
    assert study.restored(meta) == before


@pytest.mark.parametrize(
    "file", sorted(paths.recorded().glob("*/campaign.json")), ids=lambda f: f.parent.name
)
def test_a_recorded_campaign_is_what_it_was(file):
    """They asked all questions of a study at once, and had fields that are no more."""
    s = study.restored(tidy.meta(file.parent))
    told = json.loads(file.read_text())
    assert [w.name for w in s.workloads] == [w["name"] for w in told["workloads"]]
    assert {s.baseline.name, s.control.name, *(a.name for a in s.arms)} == set(told["arms"])
    assert s.key == told.get("key", "")
    assert not any(w.at_once for w in s.workloads) or s.key


def test_profiles_keep_their_promises():
    p = study.PROFILES
    assert p["quick"].budget_min <= 3
    assert p["standard"].budget_min <= 20
    assert p["standard"].blocks >= 10
    assert p["quick"].blocks == 8  # sign flips over fewer cannot reach the second look
    assert {x.threads for x in p.values()} == {(4,)}  # more of them is a question's own matter
    assert p["smoke"].margin_pct == p["quick"].margin_pct == 5  # what so little time can tell
    assert p["standard"].margin_pct == p["full"].margin_pct == 2
    assert p["full"].slice_s == 300  # the source's own parameter


def test_max_latency_is_shown_and_never_judged():
    assert not study.METRICS["max_latency"].judged


@pytest.mark.parametrize(
    ("engine", "design", "where"),
    [("mysql", "switched", "switch"), ("mariadb", "side by side", "settings")],
)
def test_binlog_encryption_is_switched_where_it_can_be(engine, design, where):
    s = studies.load("binlog-encryption", profile="standard", engine=engine)
    assert s.design == design
    (arm,) = s.arms
    assert list(getattr(arm, where).values()) == ["ON"]
    assert list(getattr(s.baseline, where).values()) == ["OFF"]
    assert arm.expect == {"binlog": "encrypted"}
    assert s.baseline.expect == {"binlog": "plain"}
    assert s.workloads[0].threads == (1, 4, 16, 64)


def test_parameters_reach_the_study():
    s = studies.load(
        "binlog-encryption", profile="smoke", threads=(1, 2), margin_pct=5, budget_min=3
    )
    assert (s.workloads[0].threads, s.margin_pct, s.profile.budget_min) == ((1, 2), 5, 3)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("binlog", {}, "no study is called 'binlog'; there are: binlog-encryption"),
        ("binlog-encryption", {"profile": "slow"}, "profile 'slow' is not one of smoke, quick"),
        (
            "binlog-encryption",
            {"question": "cost"},
            "binlog-encryption has no question 'cost'; it has: headline, processor, no-sync,"
            " throttled, replica, masked, profile; nothing was measured",
        ),
        (
            "binlog-encryption",
            {"question": "replica", "engine": "mariadb"},
            "no question 'replica'",
        ),
        ("binlog-encryption", {"margin_pct": 100}, "margin_pct 100: a number above 0 and below"),
        ("binlog-encryption", {"margin_pct": -1}, "margin_pct -1"),
        ("binlog-encryption", {"budget_min": -1}, "budget_min -1"),
        ("binlog-encryption", {"threads": (0,)}, "threads .0,.: a list of whole numbers"),
        ("binlog-encryption", {"ciphers": ("sm4",)}, "has no parameter 'ciphers'"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(name, parameters, message):
    with pytest.raises(study.StudyError, match=message):
        studies.load(name, **parameters)


def test_a_study_cannot_be_changed():
    s = studies.load("binlog-encryption")
    with pytest.raises(FrozenInstanceError):
        s.margin_pct = 9


# -- the two sweeps --------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_tablespace_encryption_goes_from_nothing_to_everything(engine):
    def asked(question):
        return studies.load(
            "tablespace-encryption", question=question, profile="full", engine=engine
        )

    s, memory = asked("headline"), asked("memory")
    (only,), (everything,) = s.arms, asked("everything").arms
    assert [s.baseline.name, only.name, everything.name] == ["plain", "tables only", "everything"]
    assert s.workloads[0].threads == (1, 4, 16, 32, 64, 96, 128, 256, 512, 1024, 2048)
    assert memory.workloads[0].threads == s.workloads[0].threads
    assert not only.settings  # tables alone: the source's arm
    assert "binlog" in only.expect
    assert set(everything.expect.values()) <= {"encrypted", "active", "off"}
    assert int(s.settings["max_connections"]) > 2048
    pool = int(s.settings["innodb_buffer_pool_size"].removesuffix("M")) * 2**20
    data = s.tables * s.profile.rows * 240
    assert 9 < data / pool < 11
    assert memory.workload("in memory").share * data < 0.6 * pool
    assert s.settings["innodb_flush_method"] == "O_DIRECT"


@pytest.mark.parametrize("profile", study.PROFILES)
def test_ten_times_more_data_than_memory_in_every_profile(profile):
    s = studies.load("tablespace-encryption", profile=profile)
    pool = int(s.settings["innodb_buffer_pool_size"].removesuffix("M")) * 2**20
    data = s.tables * s.profile.rows * 240
    assert 4.5 < data / pool < 11  # the smallest pool that there is, in smoke


def test_the_aes_arm_differs_in_the_environment_and_its_proof_only():
    s = asked("tablespace-encryption", "masked")
    masked, only = s.arm("tables only, AES masked"), s.arm("tables only")
    assert masked.environment == {"OPENSSL_ia32cap": "~0x200000200000000"}
    assert masked.prove == only.prove | {"AES": "masked"}
    assert replace(masked, name="", environment={}, prove={}) == replace(only, name="", prove={})
    binlog = asked("binlog-encryption", "masked")
    assert [a.name for a in binlog.arms] == ["encrypted, AES masked"]
    assert binlog.arms[0].environment == masked.environment


@pytest.mark.parametrize("engine", ENGINES)
def test_the_parts_of_everything_are_all_of_it(engine):
    s = asked("tablespace-encryption", "parts", engine=engine)
    *parts, everything = s.arms
    settings = {k: v for a in parts for k, v in a.settings.items()}
    if engine == "mysql":  # MariaDB has switches for new tables and temporary files besides
        assert settings == everything.settings
    assert settings.items() <= everything.settings.items()
    assert {a.prepare for a in parts} == {s.baseline.prepare, s.arm("tables only").prepare}
    assert all("ALGORITHM=COPY" in a.prepare[0] for a in (s.baseline, *s.arms))


def asked(name: str, question: str, **more) -> study.Study:
    return studies.load(name, question=question, **({"profile": "standard"} | more))


def test_an_upgrade_changes_one_factor_at_a_time():
    one, two, three = (
        asked("version-upgrade", q, profile="full")
        for q in ("headline", "old-values", "thread-pool")
    )
    ((new,), (pinned,), (pooled, tuned)) = one.arms, two.arms, three.arms
    assert one.baseline == two.baseline
    assert three.baseline == new  # the pool is held against the same build without it
    assert {one.baseline.engine, new.engine, pinned.engine, pooled.engine} == {"mysql-8.0", "mysql"}
    assert pinned.pin == one.baseline.name
    assert (pinned.settings, new.settings, new.pin) == ({}, {}, "")
    assert pooled.settings["thread_pool_size"] == str(os.cpu_count())
    assert tuned.settings["thread_pool_size"] == "16"
    assert tuned.settings["thread_pool_stall_limit"] == "6"  # 60 ms
    assert one.workloads[0].threads == (64, 100, 200, 300, 500)
    *_, maria = asked("version-upgrade", "thread-pool", engine="mariadb").arms
    assert maria.settings["thread_pool_stall_limit"] == "60"  # 60 ms, too


def test_a_pair_of_one_packager_goes_the_same_steps():
    def pair(question):
        s = asked("version-upgrade", question)
        return s.baseline, s.arms[-1]

    old, new = pair("mariadb")
    assert (old.engine, new.engine) == ("mariadb", "mariadb-11.8")
    assert pair("mariadb-processor") == (old, new)
    assert pair("mariadb-old-values")[1] == replace(
        new, name=f"{new.name}, old values", pin=old.name
    )
    before, after = pair("mariadb-pools")
    assert before.settings == after.settings == pair("mariadb-thread-pool")[1].settings
    assert (before.engine, after.engine) == (old.engine, new.engine)


def test_a_slice_is_long_enough_for_its_clients():
    s = asked("version-upgrade", "headline")
    seconds = {c.threads: schedule.slice_s(s, c) for c in schedule.cells(s) if not c.control}
    assert seconds == {64: 4, 200: 6, 500: 14}
    quick = asked("version-upgrade", "headline", profile="quick")
    assert {schedule.slice_s(quick, c) for c in schedule.cells(quick)} == {2}
    each = sum(2 * (t + schedule.LOST_S) for t in seconds.values())
    assert schedule.least_min(s, schedule.plan(s)) == pytest.approx(10 * each / 60)


def test_the_data_directory_is_opened_where_the_defaults_are_compared():
    assert asked("version-upgrade", "headline").upgrade
    assert not asked("version-upgrade", "thread-pool").upgrade


def test_builds_without_a_name_are_called_by_their_folder():
    s = studies.load(
        "version-upgrade", profile="standard", engine="/opt/mysql-8.4/", old="/srv/mysql-8.0.42"
    )
    assert s.baseline.name == "mysql-8.0.42"
    assert s.arms[0].name == "mysql-8.4"
    same = studies.load("version-upgrade", profile="standard", engine="/a/mysql", old="/b/mysql")
    assert same.baseline.name != same.arms[0].name


def test_builds_that_were_found_are_called_by_what_they_are():
    found = {"/opt/new": ("mariadb", "MariaDB 11.8.2"), "mysql-8.0": ("mysql", "MySQL 8.0.31")}
    s = asked("version-upgrade", "headline", engine="/opt/new", builds=found)
    assert [s.baseline.name, s.arms[0].name] == ["MySQL 8.0", "MariaDB 11.8.2"]
    assert s.question.startswith("What changes in throughput from MySQL 8.0 to MariaDB 11.8.2")
    assert s.arms[0].engine == "/opt/new"  # what will be started
    assert "redo capacity" not in s.arms[0].expect  # MySQL alone sizes it by itself
    pooled, _ = asked("version-upgrade", "thread-pool", engine="/opt/new", builds=found).arms
    assert pooled.settings["thread_handling"] == "pool-of-threads"
    other = asked("version-upgrade", "", builds={"mysql": ("mysql", "MySQL 8.4.6")})
    assert other.arms[0].name == "MySQL 8.4.6"
    assert other.arms[0].expect["redo capacity"] == "100 MiB"


@pytest.mark.parametrize("name", sorted(set(studies.STUDIES) - {"own-study"}))
def test_a_quick_campaign_asks_as_few_questions_as_a_page_needs(name):
    for key in studies.headline(name, "quick"):
        s = studies.load(name, question=key, profile="quick")
        own = [c for c in schedule.cells(s) if not c.control]
        assert len(own) <= (9 if name == "calibration" else 5)  # three sizes in three designs
        assert {c.threads for c in own} == {own[0].threads}


def test_a_workload_may_be_for_some_arms_only():
    s = asked("tablespace-encryption", "headline")
    other = replace(s.workloads[0], name="other", arms=("everything",))
    s = replace(
        s,
        arms=(*s.arms, asked("tablespace-encryption", "everything").arms[0]),
        workloads=(*s.workloads, other),
    )
    keys = {(c.workload.name, c.arm.name) for c in schedule.cells(s)}
    assert ("other", "everything") in keys
    assert ("other", "tables only") not in keys
    assert (s.workloads[0].name, "tables only") in keys
    assert (s.workloads[0].name, s.control.name) in keys


def test_pinned_values_join_an_arms_own():
    s = asked("version-upgrade", "old-values")
    s = replace(s, arms=(*s.arms, *asked("version-upgrade", "thread-pool").arms))
    name = s.arms[0].name
    found = study.with_pinned(s, {name: {"settings": {"gtid_mode": "OFF"}, "refused": {}}})
    assert found.arm(name).settings == {"gtid_mode": "OFF"}
    assert found.arms[1:] == s.arms[1:]

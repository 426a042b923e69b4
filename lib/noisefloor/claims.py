"""Published claims: the facts of ``data/raw/published`` and what can be said about them.

Every source is judged by its own controls where it has any: the in-memory table of the tablespace
document, the two names of one cipher in the backup document, the repetitions of STAR. Single numbers
without a control are held against the reference population of run-to-run scatter, as `judge` does.
"""

import html
import math

import numpy as np
import pandas as pd

from noisefloor import amounts, parse, paths, plots, report
from noisefloor.stats import estimate, row, runs, scatter, two
from noisefloor.stats.estimate import CANNOT_TELL, SAME, Estimate
from noisefloor.stats.graph import ALPHA, JOINT

COLUMNS = [
    *row.COLUMNS,
    "key", "title", "claim_id", "label", "said", "claimed_pct", "floor_from", "why", "settle",
]  # fmt: skip
FACTS = [
    "source", "claim_id", "arm", "threads", "metric", "value", "unit", "n", "seconds", "where_in_source",
    "url", "date", "environment", "note",
]  # fmt: skip
TITLES = {
    "binlog-encryption": "Binary log encryption, MySQL 8.0",
    "tablespace-encryption": "Tablespace encryption, Percona Server 8.0",
    "backup-encryption": "Encrypted backups: innobackupex, zstd, openssl",
    "ssl-connections": "TLS and the connection rate",
    "version-upgrade": "MySQL 8.0 to 8.4 with thread pool",
    "star-bnl": "TLS for the STAR database API",
    "percona-lab-thread-pool": "Thread pool at 512 threads",
    "mdcallag-versions": "Point queries from MySQL 5.6 to 9.7",
    "alibaba-tde": "Transparent data encryption at Alibaba RDS",
}


def facts(folder=None):
    """All published numbers: one row a number, columns as in the folder's README, `value` as a
    number (empty: lost in the copies, or a version) and `printed` as the file has it. None where
    the project has no published numbers: a page then shows its own alone."""
    folder = folder or paths.published()
    read = [pd.read_csv(f, dtype={"value": str}) for f in sorted(folder.glob("*.csv"))]
    frame = pd.concat(read, ignore_index=True) if read else pd.DataFrame(columns=FACTS)
    frame = frame.rename(columns={"value": "printed"})
    frame.insert(5, "value", pd.to_numeric(frame["printed"], errors="coerce"))
    return frame.astype({"threads": "Int64"})


def times(folder=None):
    """The backup document's `time` outputs, parsed from their text: arm phase wall user_sys (s)."""
    folder = (folder or paths.published()) / "backup-encryption"
    rows = []
    for path in sorted(folder.glob("*.txt")):
        arm, phase = path.stem.rsplit("-", 1)
        (result,) = parse.time(path.read_text())
        rows.append((arm, phase, result["real_s"], result["user_s"] + result["sys_s"]))
    return pd.DataFrame(rows, columns=["arm", "phase", "wall", "user_sys"])


def judge(facts, times, margin_pct=2.0, start=None):
    """The verdict table of all claims: the columns of every verdict table, then `key` (drawn in the
    figure), `title`, `claim_id`, `label`, `said` (the claim), `claimed_pct` (the source's own
    arithmetic), `floor_from`, `why`, `settle`.

    Positive overhead means worse. A family of 5 % is one metric of one source, as long as its numbers
    come from one table: the fallback graph runs over it, the means over thread counts first, since
    they are what the source claims. Bare numbers that only share a page (two machines, two bounds)
    are a family each: no reader picks the largest of them. start: the start-to-start scatter of
    throughput (scatter.Start, the recorded one by default), which all numbers of one server start
    share."""
    if facts.empty:
        return pd.DataFrame(columns=COLUMNS).astype({"threads": "Int64"})
    start = start or scatter.start("tps", own=False)
    claims = [
        *_binlog(facts),
        *_tablespace(facts, start),
        *_backup(facts, times),
        *_ssl(facts, start),
        *_upgrade(facts),
        *_star(facts),
        *_thread_pool(facts, start),
        *_versions(facts),
        *_alibaba(facts),
    ]
    families = {}
    for claim in claims:
        families.setdefault((claim["study"], claim["metric"], claim["family"]), []).append(claim)
    for (_, metric, _), members in families.items():
        cells = {c["place"]: c["cell"] for c in members}
        decided = {name: said for name, *said in runs.decided(cells, margin_pct, metric, ALPHA)}
        for c in members:
            c["row"] = _row(c, *decided[c["place"]], margin_pct)
    out = pd.DataFrame([c["row"] for c in claims], columns=COLUMNS)
    out["threads"] = out["threads"].astype("Int64")
    out.attrs["margin_pct"] = margin_pct
    return out


def beside(
    facts, source="tablespace-encryption", claim="io-bound", label="published", threads=None
):
    """A published table by thread count, to be drawn over our own: threads overhead_pct label. With
    `threads` those counts alone: nothing is drawn where nothing was measured."""
    if facts.empty:
        return pd.DataFrame(columns=["threads", "overhead_pct", "label"])
    d = _by_threads(facts, source, claim, "no encryption", "encrypted storage")
    found = pd.DataFrame(
        {"threads": d.index.astype(int), "overhead_pct": 100 * np.expm1(d), "label": label}
    ).reset_index(drop=True)
    return found if threads is None else found[found["threads"].isin(set(threads))]


def across(verdicts, claim, threads, label="published"):
    """One published number for all thread counts, to be drawn over our own: threads overhead_pct
    label."""
    size = verdicts.loc[verdicts["claim_id"] == claim, "overhead_pct"].to_list()
    rows = [(int(t), x, label) for t in threads for x in size[:1]]
    return pd.DataFrame(rows, columns=["threads", "overhead_pct", "label"])


def over(ours, published):
    """Rows of our verdict table with the published ones of the same metric and arm below each other,
    their workloads told apart: to be drawn together."""
    metric = ours["metric"].iloc[0] if len(ours) else ""
    theirs = published[(published["metric"] == metric) & published["arm"].isin(set(ours["arm"]))]
    both = [
        f.assign(workload=f["workload"].astype(str) + end)
        for f, end in ((ours[~plots.is_control(ours)], ", here"), (theirs, ", published"))
    ]
    kept = [c for c in ours.columns if c in theirs.columns]
    return pd.concat([f[kept] for f in both], ignore_index=True).sort_values(
        ["arm", "workload"], ignore_index=True
    )


# --- one source after the other -------------------------------------------------------------------


def _binlog(facts):
    tps = _values(facts, "binlog-encryption", metric="tps")
    worst = _values(facts, "binlog-encryption", metric="max_latency")
    common = dict(
        study="binlog-encryption", workload="oltp_read_write", baseline="encryption off",
        arm="encryption on",
    )  # fmt: skip
    value = math.log(tps["encryption off"] / tps["encryption on"])
    alone = two.alone(value, (1, 1), "tps", 4, _seconds(facts, "binlog-encryption"))
    yield _claim(
        **common,
        claim_id="tps",
        metric="tps",
        label="TPS",
        said="similar, within the error",
        cell=alone,
        floor_from=_whose(alone),
        why="QPS and mean latency repeat the same measurement, so there is one number an arm and "
        "nothing in the source shows how much runs scatter",
    )
    yield _claim(
        **common,
        claim_id="max-latency",
        metric="max_latency",
        label="maximum latency",
        said="15.5 % higher, proof of an effect",
        cell=_refused(math.log(worst["encryption on"] / worst["encryption off"]), (1, 1), 4),
        floor_from="none: a maximum is not judged",
        claimed=_claimed(facts, "binlog-encryption", "max-latency"),
        why="a maximum is one transaction of some 66,000: of two identical servers one is more "
        "than 10 % above the other in most pairs of runs",
        settle="p99 of repeated runs; no number of maxima",
    )


def _tablespace(facts, start):
    """The in-memory table holds no decryption: its differences are the noise of the other one."""
    source, arms = "tablespace-encryption", ("no encryption", "encrypted storage")
    control = _by_threads(facts, source, "in-memory", *arms)
    hard = _by_threads(facts, source, "io-bound", *arms)
    k = len(control)
    part = (float(np.mean(control**2)), k)
    few = control[control.index <= 32]
    narrow = (float(np.mean(few**2)), len(few))
    also = (
        f"; recorded start-to-start CV of {100 * start.cv:.2g} %, which all rows of a table share"
    )
    common = dict(
        study=source, workload="oltp_read_only, I/O-bound", metric="tps", baseline=arms[0],
        arm=arms[1], claim_id="io-bound", family="io-bound",
        floor_from=f"its own in-memory table: {k} differences where nothing is decrypted{also}",
    )  # fmt: skip
    stated = _rows(facts, source, "io-bound", metric="claimed_ratio").set_index("threads")["value"]
    low, high = "1 to 16 threads", "64 to 2048 threads"
    groups = {t: low if t <= 16 else high if t >= 64 else "32 threads" for t in hard.index}
    for threads, value in hard.items():
        yield _claim(
            **common,
            cell=_cell(value, (1, 1), (part,), start, threads=threads),
            place=(groups[threads], threads),
            key=threads == 32,
            label=f"{threads} thread{'s' if threads > 1 else ''}",
            said=f"ratio {stated[threads]:.2f}",
            claimed=100 * (stated[threads] - 1),
            why=f"the control's differences scatter by {100 * math.sqrt(part[0]):.1f} %",
        )
    for where, said, claimed in ((low, "up to 9 % penalty", 9.0), (high, "no difference", 0.0)):
        group = hard[[t for t in hard.index if groups[t] == where]]
        mean, n = float(group.mean()), len(group)
        strict = _cell(mean, (n, n), ((narrow[0] / n, narrow[1]),), start).estimate
        yield _claim(
            **common,
            cell=_cell(mean, (n, n), ((part[0] / n, part[1]),), start),
            place=(where, JOINT),
            joint=True,
            label=f"{where} together",
            said=said,
            claimed=claimed,
            why="by the control's four rows up to 32 threads alone the floor would be "
            f"{row.percent(strict.half()):.1f} %, and the verdict {strict.word(0.0)}"
            if where == low
            else "all wait for a disk that gives no more, which hides the CPU that decryption "
            "takes, and one server start an arm cannot show that two arms are the same",
        )
    yield _claim(
        **common
        | {
            "workload": "oltp_read_only, in memory",
            "claim_id": "in-memory",
            "family": "in-memory",
            "floor_from": "its own scatter over thread counts" + also,
        },
        cell=_cell(float(control.mean()), (k, k), estimate.paired(control.tolist()), start),
        joint=True,
        label="all data in memory",
        said="no difference",
        claimed=0.0,
        why="nothing is decrypted here, so the mean shows that the control does not lean; one "
        "server start an arm cannot show that two arms are the same",
    )


def _backup(facts, times):
    """`sm4` and `sm4-cbc` are one cipher under two names: their difference is the noise."""
    table = times.set_index(["arm", "phase"]).sort_index()
    for metric, what in (("wall", "time"), ("user_sys", "CPU time")):
        v = np.log(table[metric])
        gaps = [v["sm4", phase] - v["sm4-cbc", phase] for phase in ("backup", "restore")]
        one = float(np.mean(np.square(gaps))) / 2  # variance of one run
        for phase in ("backup", "restore"):
            twins = (v["sm4", phase] + v["sm4-cbc", phase]) / 2
            for arm, value, n in (
                ("aes-128-cbc", v["aes-128-cbc", phase], 1),
                ("sm4", twins, 2),
            ):
                stated = _claimed(facts, "backup-encryption", f"{phase}-{arm}")
                yield _claim(
                    study="backup-encryption",
                    workload=phase,
                    metric=metric,
                    baseline="none",
                    arm=arm,
                    key=metric == "wall" or arm != "sm4",
                    claim_id=f"{phase}-{arm}",
                    label=f"{phase} with {arm}, {what}",
                    said=f"{stated:.2f} % longer" if metric == "wall" else "not claimed",
                    claimed=stated if metric == "wall" else None,
                    cell=_cell(float(value - v["none", phase]), (1, n), ((one * (1 + 1 / n), 2),)),
                    floor_from="sm4 against sm4-cbc, one cipher under two names: two differences",
                    why="one run an arm, but the document repeats one of its arms without knowing",
                    warnings=[
                        "the two repetitions were made one after the other: a lower bound on noise",
                        "the arm without encryption ran first, on a colder cache than the others",
                    ],
                )
    size = _rows(facts, "backup-encryption", "file-size")["value"].iloc[0]
    rounding = math.log((size + 0.05) / (size - 0.05))
    yield _claim(
        study="backup-encryption",
        workload="backup",
        metric="backup_size",
        baseline="none",
        arm="any cipher",
        key=False,
        claim_id="file-size",
        label="size of the backup",
        said="no difference",
        claimed=0.0,
        cell=_cell(0.0, (1, 3), (((rounding / 1.96) ** 2, math.inf),)),
        floor_from="rounding to 0.1G; four equal numbers",
        why="a size does not scatter; four files agree within what the rounding can hide",
    )


def _ssl(facts, start):
    rates = _rows(facts, "ssl-connections", "tunnel", metric="connections_per_second")
    tunnel = rates.loc[rates["arm"] == "ssh tunnel", "value"].min()
    native = rates.loc[rates["arm"] == "native TLS", "value"].max()
    lost = "lost: the table with mean and sd of ten runs an arm is in no copy"
    common = dict(study="ssl-connections", metric="connections_per_second")
    cell = two.alone(math.log(tunnel / native), (10, 10), common["metric"], start=start)
    yield _claim(
        **common,
        claim_id="tunnel",
        workload="100 connections, 4096-bit keys",
        baseline="ssh tunnel",
        arm="native TLS",
        cell=cell,
        family="tunnel",
        floor_from=f"{lost}; {_whose(cell)}",
        label="native, against an SSH tunnel",
        said="100 or 22 against 470-480 a second",
        why="more than fourfold even between the nearest ends; which number belongs to which arm is "
        "read from the sentence, which names none",
        settle="ten repetitions of each, with key length, session resumption and server named",
    )
    yield _claim(
        **common,
        claim_id="distance",
        workload="round trips of 40 and 170 ms",
        baseline="no encryption",
        arm="TLS 1024 bit",
        cell=_refused(math.nan, (10, 10)),
        family="distance",
        floor_from=lost,
        label="over a long distance",
        said="hardly matters with 1024 bit",
        why="both tables are lost; one ping line (44.6 ms, mdev 3.2 ms) is left",
        settle="connections per second at 0, 40 and 170 ms with both kinds of connection",
    )


def _upgrade(facts):
    source = "version-upgrade"
    stated = _rows(facts, source)
    change = stated.loc[stated["metric"] == "claimed_change", "value"].iloc[0]
    ratio = stated.loc[stated["metric"] == "claimed_ratio", "value"].iloc[0]
    for claim_id, factor, label, said, why in (
        ("upgrade-16", 1 + change / 100, "4 cores",
         "about 16 % faster",
         "the numbers were in a chart that is lost; operating system and redo log differ between "
         "the arms as well, so that not all of it could be the version's"),
        ("upgrade-2x", ratio, "32 cores",
         "about twice as fast",
         "hearsay: neither numbers nor settings, only that it was reported"),
    ):  # fmt: skip
        cell = two.alone(-math.log(factor), (1, 1), "tps", None, _seconds(facts, source, claim_id))
        yield _claim(
            study=source,
            workload="oltp_read_write, thread pool",
            metric="tps",
            baseline="8.0.42",
            arm="8.4.5",
            cell=cell,
            family=claim_id,
            claim_id=claim_id,
            label=label,
            said=said,
            claimed=row.percent(-math.log(factor)),
            floor_from=_whose(cell),
            why=why,
            settle="the same operating system and redo log in both arms, one factor at a time, "
            "{plan}",
        )


def _star(facts):
    """Three repetitions an arm: Welch on logs."""
    rows = _rows(facts, "star-bnl").assign(
        run=lambda f: f["where_in_source"].str.extract(r"repetition (\d)", expand=False)
    )
    wide = rows.pivot(index=["arm", "run"], columns="metric", values="value")
    wide["user_sys"] = wide["user"] + wide["sys"]
    for metric, what in (("wall", "time"), ("user_sys", "CPU time")):
        v = np.log(wide[metric])
        for arm, base, said in (
            ("weak", "off", "weak cipher"),
            ("strong", "off", "strong cipher"),
            ("strong with compression", "strong", "compression added"),
        ):
            x, y = v[base].tolist(), v[arm].tolist()
            yield _claim(
                study="star-bnl",
                workload="database API",
                metric=metric,
                baseline=f"TLS {base}" if base != "strong" else "strong",
                arm=f"TLS {arm}" if base == "off" else arm,
                cell=_welch(x, y),
                key=(metric == "wall") == (base == "off"),
                claim_id=f"tls-{arm.replace(' ', '-')}",
                label=f"{said}, {what}",
                said="times only",
                floor_from="three repetitions an arm (Welch on logs)",
                why="three repetitions an arm show how much they scatter",
                warnings=[
                    "3 runs an arm: a rank test of fewer than 4 cannot reach 5 %",
                    "repetitions one after the other, on one server start as far as is known",
                ],
            )


def _thread_pool(facts, start):
    for tier in ("2GB", "12GB"):
        rows = _rows(facts, "percona-lab-thread-pool", f"thread-pool-{tier}")
        x, y = (-np.log(rows.loc[rows["arm"] == arm, "value"]) for arm in ("no pool", "pool"))
        yield _claim(
            study="percona-lab-thread-pool",
            workload=f"tier {tier}",
            metric="tps",
            cell=_welch(x.tolist(), y.tolist(), start, threads=512),
            baseline="no pool",
            arm="pool",
            claim_id=f"thread-pool-{tier}",
            label=f"pool on, {tier}",
            said="{:.0f}-{:.0f} against {:.0f}-{:.0f} TPS".format(
                *np.exp([-y.max(), -y.min(), -x.max(), -x.min()])
            ),
            floor_from="the two ends of each range as two runs; recorded start-to-start CV of "
            f"{100 * start.cv:.2g} %",
            why="a range is all that is recorded; its ends are two runs, and more runs within the "
            "same range would only narrow the interval",
        )


def _versions(facts):
    qps = _rows(facts, "mdcallag-versions").set_index("arm")["value"]
    steps = [*zip(qps.index[:-1], qps.index[1:], strict=True), (qps.index[0], qps.index[-1])]
    for old, new in steps:
        cell = two.alone(math.log(qps[old] / qps[new]), (1, 1), "qps", 1)
        whole = (old, new) == (qps.index[0], qps.index[-1])
        yield _claim(
            study="mdcallag-versions",
            workload="point queries, cached",
            metric="qps",
            cell=cell,
            place=("versions", JOINT if whole else new),
            baseline=old,
            arm=new,
            claim_id="version-ladder",
            label=f"{old} to {new}",
            said=f"{qps[old]:,.0f}, then {qps[new]:,.0f} QPS",
            claimed=row.percent(math.log(qps[old] / qps[new])),
            floor_from=_whose(cell),
            why="five versions in falling order, but no repetition of any",
        )


def _alibaba(facts):
    for claim_id, where in (("tde-low", "low"), ("tde-high", "high")):
        loss = _rows(facts, "alibaba-tde", claim_id)["value"].iloc[0]
        cell = two.alone(-math.log1p(-loss / 100), (1, 1), "tps")
        yield _claim(
            study="alibaba-tde",
            workload=f"{where} concurrency",
            metric="tps",
            baseline="no TDE",
            arm="TDE",
            cell=cell,
            family=claim_id,
            claim_id=claim_id,
            label=f"{where} concurrency",
            said=f"{'up to' if where == 'low' else 'under'} {loss:.0f} % loss",
            claimed=row.percent(cell.estimate.value),
            floor_from=_whose(cell),
            why="neither workload nor repetitions are told",
        )


# --- what the numbers say about each other ----------------------------------------------------------


def checks(facts, times):
    """Numbers that must agree because they measure the same thing or were computed from each other:
    source check stated recomputed finding."""
    rows = [*_binlog_checks(facts), *_backup_checks(facts, times), *_tablespace_checks(facts)]
    prepared, ran = (
        _rows(facts, "version-upgrade", metric=f"table_size_{step}")["value"].iloc[0]
        for step in ("prepare", "run")
    )
    rows.append(
        ("version-upgrade", "rows a table: prepare command, run command", prepared, ran,
         "nine tenths of the rows that the run asks for were never made, if both commands are as used")
    )  # fmt: skip
    return pd.DataFrame(rows, columns=["source", "check", "stated", "recomputed", "finding"])


def _binlog_checks(facts):
    source = "binlog-encryption"
    tps, qps, mean, worst = (
        _values(facts, source, metric=m) for m in ("tps", "qps", "mean_latency", "max_latency")
    )
    for arm in tps.index:
        yield (
            *(source, f"TPS, {arm}: 4 threads / mean latency", tps[arm], 4000 / mean[arm]),
            "Little's law: mean latency is the same measurement as TPS, not a second witness",
        )
        yield (
            *(source, f"queries a transaction, {arm}", 20.0, qps[arm] / tps[arm]),
            "QPS is TPS times 20, not a third witness",
        )
    yield (
        *(source, "rise of the maximum latency, %", _claimed(facts, source, "max-latency")),
        100 * (worst["encryption on"] / worst["encryption off"] - 1),
        "computed correctly, and no evidence",
    )


def _backup_checks(facts, times):
    source = "backup-encryption"
    table = times.set_index(["arm", "phase"]).sort_index()
    for arm in ("aes-128-cbc", "sm4", "sm4-cbc"):
        for phase in ("backup", "restore"):
            exact = 100 * (table["wall"][arm, phase] / table["wall"]["none", phase] - 1)
            yield (
                *(source, f"{phase} with {arm}, % longer", _claimed(facts, source, f"{phase}-{arm}")),
                exact,
                "the document divides rounded seconds",
            )  # fmt: skip
    for arm, stated in (("aes-128-cbc", 20.0), ("sm4", 50.0)):
        more = table["user_sys"][arm, "backup"] - table["user_sys"]["none", "backup"]
        yield (
            *(source, f"CPU of openssl {arm} during the backup, %", stated),
            100 * more / table["wall"][arm, "backup"],
            "extra user + sys per second of wall time; the document read a monitor",
        )


def _tablespace_checks(facts):
    source = "tablespace-encryption"
    hard = np.exp(_by_threads(facts, source, "io-bound", "no encryption", "encrypted storage"))
    stated = _rows(facts, source, "io-bound", metric="claimed_ratio").set_index("threads")["value"]
    worst = (hard.round(2) - stated).abs().idxmax()
    yield (
        *(
            source,
            f"printed ratio that fits worst, {plots.threads_label(int(worst))}",
            stated[worst],
            hard[worst],
        ),
        "all eleven printed ratios are the quotients of the two columns, rounded",
    )


# --- parts ------------------------------------------------------------------------------------------


def _rows(facts, source, claim=None, metric=None):
    kept = facts[facts["source"] == source]
    kept = kept if claim is None else kept[kept["claim_id"] == claim]
    return kept if metric is None else kept[kept["metric"] == metric]


def _values(facts, source, metric):
    return _rows(facts, source, metric=metric).set_index("arm")["value"]


def _claimed(facts, source, claim):
    """The percentage that the source itself prints for a claim."""
    rows = _rows(facts, source, claim)
    rows = rows[rows["metric"].str.endswith("claimed_change") & ~rows["arm"].str.contains(" and ")]
    return float(rows["value"].iloc[0])


def _by_threads(facts, source, claim, baseline, arm):
    """Log overhead by thread count from two columns of throughput."""
    rows = _rows(facts, source, claim, "tps")
    wide = rows.pivot(index="threads", columns="arm", values="value")
    return np.log(wide[baseline] / wide[arm]).sort_index()


def _seconds(facts, *which):
    """Length of a run in seconds, where the source says."""
    said = _rows(facts, *which)["seconds"].dropna()
    return float(said.iloc[0]) if len(said) else None


def _cell(value, n, parts, start=None, **more):
    """One comparison with the scatter that its source shows."""
    added = (start.part,) if start else ()
    return runs.Cell(more.pop("threads", None), n, Estimate(value, tuple(parts), added), **more)


def _welch(x, y, start=None, threads=None):
    """Runs of two arms, as logarithms, more being worse."""
    parts = estimate.welch(x, y)
    sd = math.sqrt(sum(v * len(k) for (v, _), k in zip(parts, (x, y), strict=True)) / 2)
    value = math.fsum(y) / len(y) - math.fsum(x) / len(x)
    return _cell(value, (len(x), len(y)), parts, start, threads=threads, sd=sd)


def _refused(value, n, threads=None):
    """A number that no runs of its kind make evidence."""
    return _cell(value, n, two.UNKNOWN, threads=threads, only="not judged")


def _whose(cell):
    """Where the noise floor of a number without a control comes from."""
    if not cell.single:
        return "none: one number an arm, no control"
    return f"reference population: {runs.whose(cell.single)}"


def _claim(
    *, label, place=None, joint=False, family="", claimed=math.nan, settle="{plan}", warnings=(),
    key=True, **given,
):  # fmt: skip
    """One claim before it is judged; `key` claims are drawn. place: its hypothesis in the family."""
    given |= {"label": label, "joint": joint, "family": family, "claimed_pct": claimed}
    return given | {
        "place": place or (label, ""), "settle": settle, "warnings": list(warnings), "key": key,
    }  # fmt: skip


def _row(c, cell, level, word, margin_pct):
    key = [c[k] for k in ("study", "workload", "metric", "baseline", "arm")]
    more = [*c["warnings"], *_limit(cell, word, margin_pct)]
    out = runs.verdict_row(cell, key, level, word, c["joint"], False, margin_pct, False, None, more)
    e, pairs, minutes, settle = cell.estimate, None, None, ""
    if cell.only == "not judged":
        out |= {"deciding_cv_pct": math.nan, "warnings": more}
    elif word == CANNOT_TELL:
        sd = cell.sd if cell.sd > 0 else None
        pairs, minutes, _ = two.plan_of(e.value, c["metric"], margin_pct, sd, max(cell.n) + 1)
        minutes = None if sd else minutes
        settle = f"{pairs} coin-flipped pairs, if runs scatter as these do"
        if minutes:
            settle = (
                f"{pairs} coin-flipped pairs of {two.SLICE_S} s slices ({minutes:.0f} min), if pairs "
                "scatter as recorded"
            )
        if not pairs:
            settle = "more runs of this kind will not settle it"
    if word == CANNOT_TELL:
        out |= {"runs_needed": pairs or math.nan, "minutes_needed": minutes or math.nan}
    if not e.value:
        out["deciding_cv_pct"] = math.nan
    settle = c["settle"].format(plan=settle) if word == CANNOT_TELL else ""
    return {**c, **out, "title": TITLES[c["study"]], "settle": settle}


def _limit(cell, word, margin_pct):
    """The start-to-start CV that would undo a verdict from repetitions that hold none."""
    e = cell.estimate
    if word == CANNOT_TELL or e.start or cell.single:
        return
    same = word == SAME
    reach = math.log1p(margin_pct / 100) - abs(e.value) if same else abs(e.value)
    spare = (reach / e.half(2 * ALPHA if same else ALPHA) * e.error) ** 2 - e.error**2
    if spare > 0:
        yield (
            "holds unless what no repetition here shows (server start, cache, time of day) scatters "
            f"by more than {100 * math.sqrt(spare / 2):.1f} % (CV)"
        )


# --- for the page -----------------------------------------------------------------------------------


def headline(verdicts):
    """How many comparisons have which verdict, in one sentence. Raises paths.NotFound."""
    if verdicts.empty:
        raise paths.NotFound(f"no published numbers are in {paths.shown(paths.published())}")
    counts = verdicts["verdict"].value_counts()
    words = [f"{counts[w]} {w}" for w in (estimate.SLOWER, estimate.FASTER, SAME) if w in counts]
    return (
        f"{len(verdicts)} comparisons from {verdicts['study'].nunique()} published sources: for "
        f"{counts.get(CANNOT_TELL, 0)} of them nobody can tell whether the difference is noise; "
        f"{', '.join(words)}."
    )


def box(verdicts):
    """The box at the top of the page: the headline and the findings."""
    items = "".join(f"<li>{html.escape(f)}</li>" for f in findings(verdicts))
    word = report.badge(CANNOT_TELL)
    share = f"{(verdicts['verdict'] == CANNOT_TELL).sum()} of {len(verdicts)}"
    return plots.Shown(
        f'<section class="nf-verdict nf-cannot-tell" aria-label="Verdict"><p class="nf-word">{word} '
        f'<span class="nf-num">{share}</span></p><p class="nf-headline">'
        f'{html.escape(headline(verdicts))}</p><ul class="nf-notes">{items}</ul></section>',
        headline(verdicts),
    )


def findings(verdicts):
    """The answers that readers ask for, one sentence each, from the verdict table."""
    v = verdicts.set_index(["study", "label"])

    def row(study, label):
        return v.loc[(study, label)]

    def said(r):
        return f"{r['verdict']}, {amounts.overhead(r['overhead_pct'], r['metric'])}"

    tps = row("binlog-encryption", "TPS")
    low, high = (
        row("tablespace-encryption", f"{w} together") for w in ("1 to 16 threads", "64 to 2048 threads")
    )  # fmt: skip
    mid = row("tablespace-encryption", "32 threads")
    backup, restore = (
        [row("backup-encryption", f"{phase} with aes-128-cbc, {t}") for t in ("time", "CPU time")]
        for phase in ("backup", "restore")
    )
    known = f" It is {tps['known']}." if tps["known"] else ""
    return [
        f"221.19 TPS without and 229.41 with binary log encryption: {said(tps)}.{known} Significant "
        f"only if run-to-run CV is below {tps['deciding_cv_pct']:.1f} %. QPS and mean latency are the "
        "same measurement, the 15.5 % in maximum latency is no evidence.",
        f"Tablespace encryption with heavy reads, 1 to 16 threads: {said(low)} "
        f"({amounts.interval(low['lo_pct'], low['hi_pct'])}). At 32 threads: {said(mid)}, {mid['known']}. "
        f"From 64 threads on: {said(high)}, {high['known']}.",
        f"A backup through aes-128-cbc: {said(backup[0])} in time and {said(backup[1])} in CPU. The "
        f"restore: {said(restore[0])} in time, but {said(restore[1])} in CPU, which the document "
        "does not mention.",
    ]


def shown(verdicts, source):
    """The claims of one source as a table for reading, with the reasons below it."""
    kept = verdicts[verdicts["study"] == source]
    measured = kept["lo_pct"].notna()

    def told(column, **style):
        return [amounts.percent(x, **style) if pd.notna(x) else "–" for x in kept[column]]

    frame = pd.DataFrame(
        {
            "compared": kept["label"],
            "verdict": kept["verdict"].map(report.badge),
            "overhead": [
                amounts.overhead(x, m) if pd.notna(x) else "–"
                for x, m in zip(kept["overhead_pct"], kept["metric"], strict=True)
            ],
            "claimed": kept["said"],
            "interval": [
                amounts.interval(*ends) if known else "–"
                for known, *ends in zip(
                    measured, kept["lo_pct"], kept["hi_pct"], kept["metric"], strict=True
                )
            ],
            "known": kept["known"].where(kept["known"] != "", "–"),
            "CV limit": told("deciding_cv_pct", digits=2, sign=False),
            "to settle it": [
                f"{n:.0f} pairs" if word == CANNOT_TELL and n > 0 else "–"
                for n, word in zip(kept["runs_needed"], kept["verdict"], strict=True)
            ],
        }
    )
    right = ("overhead", "interval", "CV limit", "to settle it")
    floors = dict.fromkeys("; ".join(kept["floor_from"]).split("; "))
    caption = f"{TITLES[source]}. Noise floor from: {'; '.join(floors)}."
    table = report.table(frame, caption, name=f"claims-{source}", numbers=right, raw=("verdict",))
    notes = "".join(f"<li>{html.escape(n)}</li>" for n in reasons(kept))
    return plots.Shown(f'{table.markup}<ul class="nf-notes">{notes}</ul>', table.text)


def reasons(kept):
    """Why each verdict is what it is, what would settle it, and what to mind: sentences."""
    lines = []
    for why, group in kept.groupby("why", sort=False):
        names = [*group["label"]] if len(group) < len(kept) or len(kept) == 1 else ["all"]
        names = names if len(names) < 4 else [names[0], "…", names[-1]]
        other = dict.fromkeys(s for s in group["settle"] if s and not s[0].isdigit())
        settle = f" To settle it: {'; '.join(other)}." if other else ""
        lines.append(f"{', '.join(names)}: {why}.{settle}".replace(", …,", " …"))
    weakest = kept[kept["verdict"].ne(CANNOT_TELL)]["warnings"].explode().dropna()
    return lines + [
        f"{w[0].upper()}{w[1:]}." for w in dict.fromkeys(weakest) if "holds unless" not in w
    ]


def lost(facts):
    """What the copies lost: one row a number that a source must have had."""
    gone = facts[facts["printed"].isna()]
    return gone[["source", "arm", "metric", "threads", "where_in_source", "note"]]

"""parse: real captured outputs, formats written by hand, damage of every kind."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from noisefloor import parse

DATA = Path(__file__).parent / "data"
SYSBENCH = {p.stem: p.read_text() for p in sorted((DATA / "sysbench").glob("*.txt"))}
TIME = {p.stem: p.read_text() for p in sorted((DATA / "time").glob("*.txt"))}
WHOLE = [
    "mariadb-cpu", "mariadb-deadlocks-ignored", "mariadb-events", "mariadb-memory", "mariadb-oltp-rw-hist",
    "mariadb-rate", "mariadb-write-only", "mysql97-deadlocks-16thr-10rows", "mysql97-load-while-clone",
    "mysql97-ok-ro-hist", "mysql97-ok-rw-hist", "mysql97-ok-rw-nohist",
]  # fmt: skip
RW = SYSBENCH["mysql97-ok-rw-hist"]


def plain_numbers(result: dict) -> dict:
    """`result` with arrays as tuples, to be compared."""
    if isinstance(result, dict):
        return {k: plain_numbers(v) for k, v in result.items()}
    return tuple(result.tolist()) if isinstance(result, np.ndarray) else result


def numbers(result):
    """All numbers inside `result`."""
    if isinstance(result, dict):
        for value in result.values():
            yield from numbers(value)
    elif isinstance(result, list | tuple):
        for value in result:
            yield from numbers(value)
    elif isinstance(result, np.ndarray):
        yield from result.tolist()
    elif isinstance(result, int | float):
        yield result


@pytest.mark.parametrize("name", WHOLE)
def test_real_run_is_read_without_a_warning(name):
    result = parse.sysbench(SYSBENCH[name])
    assert result["warnings"] == []
    assert result["version"] == "1.0.20"
    assert result["cut"] is False


def test_every_number_of_a_real_run():
    r = parse.sysbench(RW)
    assert {k: r[k] for k in ("threads", "rate", "report_interval", "duration_s", "events")} == {
        "threads": 4,
        "rate": None,
        "report_interval": 1,
        "duration_s": 10.0161,
        "events": 5080,
    }
    assert (r["transactions"], r["tps"], r["queries"], r["qps"]) == (5080, 507.16, 101600, 10143.29)
    assert (r["reads"], r["writes"], r["other"]) == (71120, 20320, 10160)
    assert (r["ignored_errors"], r["reconnects"]) == (0, 0)
    assert r["latency"] == {
        "min": 0.00151,
        "mean": 0.00788,
        "max": 0.10838,
        "sum": 40.00867,
        "percentile": {99: 0.02111},
    }
    rows = r["intervals"]
    assert r["percentile"] == 99
    assert {k: v[1] for k, v in rows.items()} == {
        "t_s": 2,
        "threads": 4,
        "tps": 576.18,
        "qps": 11536.69,
        "reads_per_s": 8083.59,
        "writes_per_s": 2300.74,
        "other_per_s": 1152.37,
        "errors_per_s": 0,
        "reconnects_per_s": 0,
        "latency_s": pytest.approx(0.02574),
        "ok": True,
    }
    assert all(len(v) == 10 for v in rows.values())
    assert r["histogram_counts"].sum() == 5080
    assert r["histogram_s"][0] == pytest.approx(0.001523)
    assert r["histogram_s"][-1] == pytest.approx(0.108685)
    assert r["histogram_counts"].dtype.kind == "i"


@pytest.mark.parametrize(
    "name", ["mysql97-ok-rw-hist", "mysql97-ok-ro-hist", "mariadb-oltp-rw-hist"]
)
def test_quantile_is_the_percentile_that_sysbench_prints(name):
    r = parse.sysbench(SYSBENCH[name])
    own = parse.quantile(r["histogram_s"], r["histogram_counts"], 0.99)
    assert own == pytest.approx(r["latency"]["percentile"][99], abs=5.1e-6)


@pytest.mark.parametrize(("q", "value"), [(0, 1), (0.25, 1), (0.5, 2), (0.75, 3), (1, 3)])
def test_quantile_by_hand(q, value):
    assert parse.quantile([1, 2, 3], [1, 1, 2], q) == value


@pytest.mark.parametrize("wrong", [([], [], 0.5), ([1], [0], 0.5), ([1], [1], 95)])
def test_quantile_refuses(wrong):
    with pytest.raises(ValueError, match="quantile"):
        parse.quantile(*wrong)


@pytest.mark.parametrize("name", sorted(set(SYSBENCH) - set(WHOLE)))
def test_failed_run_is_a_parse_error_naming_the_failure(name):
    text = SYSBENCH[name]
    with pytest.raises(parse.ParseError) as caught:
        parse.sysbench(text)
    e = caught.value
    assert text.split("\n")[e.line - 1].startswith(e.text[:50])
    if "FATAL" in text or "invalid option" in text:
        assert e.text in e.reason
    else:
        assert "no summary" in e.reason
    assert str(pickle.loads(pickle.dumps(e))) == str(e)


@pytest.mark.parametrize("name", sorted(TIME))
def test_time_samples(name):
    expected = {
        "bash-time": ("bash", 0.302, 0.0, 0.001),
        "bash-time-lc": ("bash", 0.301, 0.001, 0.0),
        "bash-time-p": ("POSIX", 0.3, 0.0, 0.0),
        "bash-timeformat": ("TIMEFORMAT", 0.302, 0.001, 0.0),
        "busybox-time": ("bash", 0.2, 0.0, 0.0),
        "dash-time": ("GNU", 0.3, 0.0, 0.0),
        "dash-times": ("times", None, 0.0, 0.0),
        "gnu-time-default": ("GNU", 0.2, 0.0, 0.0),
        "gnu-time-f": ("GNU -f", 0.2, 0.0, 0.0),
        "gnu-time-p": ("POSIX", 0.2, 0.0, 0.0),
        "gnu-time-v": ("GNU -v", 0.09, 0.11, 0.03),
        "gnu-time-v-fail": ("GNU -v", 0.0, 0.0, 0.0),
        "mksh-time": ("mksh", 0.2, 0.0, 0.0),
        "zsh-time": ("zsh", 0.201, 0.0, 0.0),
    }[name]
    first = parse.time(TIME[name])[0]
    assert tuple(first[k] for k in ("format", "real_s", "user_s", "sys_s")) == expected
    assert parse.kind(TIME[name]) == "time"


@pytest.mark.parametrize("name", sorted(SYSBENCH))
def test_kind_of_sysbench(name):
    assert parse.kind(SYSBENCH[name]) == "sysbench"

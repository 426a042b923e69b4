"""How often was killed in all; and what RELIABILITY.md and SECURITY.md promise is tested under the
names they give."""

import re
from collections import Counter
from pathlib import Path

import pytest

from live import TOLL

HERE = Path(__file__).parent
PAGES = [(HERE.parents[1] / f"{n}.md").read_text() for n in ("RELIABILITY", "SECURITY")]


@pytest.mark.slow
def test_at_least_fifty_were_killed_with_9(capsys):
    if not TOLL.is_file():
        pytest.skip("it counts what the tests before it did: make test-faults")
    toll = Counter(TOLL.read_text().splitlines())
    with capsys.disabled():
        print("\n" + "".join(f"{n:5} {what}\n" for what, n in sorted(toll.items())))
    total = Counter()
    for what, n in toll.items():
        total[what.split()[0]] += n
    assert total["SIGKILL"] >= 50
    assert min(total[how] for how in ("SIGTERM", "SIGINT", "SIGSTOP")) >= 4


def test_every_promise_names_a_test_and_every_test_of_a_fault_a_promise():
    named = re.findall(r"`(test_\w+)\.py(?:::(test_\w+))?`", "\n".join(PAGES))
    for module, test in named:
        (file,) = HERE.parent.glob(f"*/{module}.py")
        assert not test or f"def {test}(" in file.read_text(), test
    for file in HERE.glob("test_*.py"):
        assert file.stem in dict(named) or any(file.stem in page for page in PAGES), file.stem

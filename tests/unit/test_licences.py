"""Every dependency's licence is listed, and none is of a kind that nobody looked at."""

import re

import licences

FREE = r"MIT|MIT-0|MIT-CMU|BSD|0BSD|BSD-[23]-Clause|Apache-2\.0|ISC|PSF-2\.0|MPL-2\.0|Zlib|CC0-1\.0|W3C-20150513"
# looked at, and spoken of in SECURITY.md
COPYLEFT = {"mysqlclient": "GPL-2.0-or-later", "enum-tools": "LGPL-3.0-or-later"}


def test_the_table_is_what_the_packages_say():
    rows = dict(re.findall(r"(?m)^\| ([a-z0-9]\S*) \| (.+) \|$", licences.TABLE.read_text()))
    assert sorted(rows) == licences.names(), "python tests/licences.py"
    said = {name: licences.licence(name) for name in rows}
    assert {n: s for n, s in said.items() if s} == {n: rows[n] for n, s in said.items() if s}


def test_every_licence_lets_us_and_was_looked_at():
    said = {name: licences.licence(name) for name in licences.names()}
    assert sum(map(bool, said.values())) > 100
    parts = {n: re.split(r" and | or ", s, flags=re.I) for n, s in said.items() if s}
    odd = {n: said[n] for n, words in parts.items() if not all(re.fullmatch(FREE, w) for w in words)}  # fmt: skip
    assert odd == COPYLEFT


def test_security_md_speaks_of_the_copyleft_ones():
    text = (licences.ROOT / "SECURITY.md").read_text()
    assert [n for n in COPYLEFT if n not in text] == []
